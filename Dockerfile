# Builds the filter in a container, and nothing else is needed for it:
#
#   docker build -t aforo .                       the module alone, plugin.wasm: what Istio and others load
#   docker build -t aforo-envoy --target envoy .  Envoy with the module in /etc/envoy/aforo.wasm; it wants a
#                                                 configuration. docker-compose.yml runs this one
#
# The versions are those of rust-toolchain.toml and scripts/setup; a test compares them.

FROM rust:1.95.0-slim-bookworm AS build
# Said here, so that rustup does not fetch the linters for which rust-toolchain.toml asks.
ENV RUSTUP_TOOLCHAIN=1.95.0
RUN rustup target add wasm32-wasip1
WORKDIR /aforo
COPY . .
RUN cargo build --lib --release --locked --target wasm32-wasip1

FROM envoyproxy/envoy:distroless-v1.40.0 AS envoy
COPY --from=build /aforo/target/wasm32-wasip1/release/aforo.wasm /etc/envoy/aforo.wasm

FROM scratch
COPY --from=build /aforo/target/wasm32-wasip1/release/aforo.wasm /plugin.wasm
