# One door to everything: `make help` lists the targets. ENVOY= and REDIS_SERVER= name programs to use
# in the place of what `make setup` finds or fetches.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

wasm := --lib --release --locked --target wasm32-wasip1
export ENVOY REDIS_SERVER HOLD

.PHONY: help
help: ## this list
	@echo 'make TARGET [ENVOY=/path/to/envoy] [REDIS_SERVER=/path/to/redis-server]'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: build ## two Envoys, one Redis, one exact limit, shown in a table; HOLD=1 keeps it up
	@cargo run --quiet --locked --example demo

.PHONY: test
test: modules ## every test, the end-to-end ones included
	cargo test --workspace --locked --no-fail-fast

.PHONY: lint
lint: setup ## format, clippy natively and for wasm, documentation, the module's imports, dependencies
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy --lib --locked --target wasm32-wasip1 -- -D warnings
	cargo clippy --lib --locked --target wasm32-wasip1 --features trap -- -D warnings
	cargo clippy --lib --locked --target wasm32-wasip1 --features noop -- -D warnings
	cargo clippy --lib --locked --target wasm32-wasip1 --features higress -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --lib --no-deps --locked --document-private-items
	$(MAKE) modules
	cargo test --quiet --locked --test it fence::

.PHONY: build
build: setup ## the filter: target/wasm32-wasip1/release/aforo.wasm
	cargo build $(wasm)

.PHONY: modules
modules: build ## the filter, the build of it for Higress, and two that only tests and the benchmark load
	cargo build $(wasm) --target-dir target/noop --features noop
	cargo build $(wasm) --target-dir target/trap --features trap
	cargo build $(wasm) --target-dir target/higress --features higress

.PHONY: bench
bench: modules ## what the filter costs, in requests per second and latency; takes some minutes
	cargo run --profile native --quiet --locked --package bench

.PHONY: bench-script
bench-script: ## decisions a second of one Redis core, per algorithm, beside INCR; bytes a key
	cargo run --profile native --quiet --locked --package bench -- script

.PHONY: chaos
chaos: modules ## everything that the filter needs breaks, one thing after another; forty minutes. CHAOS='--short --only killed'
	cargo run --profile native --quiet --locked --package chaos -- $(CHAOS)

.PHONY: setup
setup: ## fetch what is missing: the Rust toolchain, crates, Envoy, Redis; then no network is needed
	@scripts/setup

.PHONY: clean
clean: ## remove what was built; what setup fetched stays
	cargo clean
	rm -rf .demo

.PHONY: distclean
distclean: clean ## remove what setup fetched too
	rm -rf .tools
