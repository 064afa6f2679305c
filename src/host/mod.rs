//! The thin host: the only place that names `proxy_wasm`. It reads the clock and the randomness,
//! hands events to [`crate::worker::Worker`], and carries out what comes back. It decides nothing.
//!
//! One module plays two roles, told apart by the plugin configuration: `{"role":"link"}` is the
//! network filter behind the internal listener, anything else is a policy for the HTTP filter. Both
//! must have the same `vm_config`, so that one VM per worker holds both and they share its memory.
#![cfg_attr(
    feature = "noop",
    allow(
        dead_code,
        unused_imports,
        reason = "the filter that does nothing uses next to none of this"
    )
)]

mod calls;
mod clock;
mod http;
mod link;
mod loaded;
mod meter;
#[cfg(feature = "noop")]
mod noop;
mod orders;
mod root;
mod shared;

proxy_wasm::main! {{
    proxy_wasm::set_log_level(proxy_wasm::types::LogLevel::Info);
    #[cfg(feature = "noop")]
    proxy_wasm::set_root_context(|_| Box::new(noop::Root));
    #[cfg(not(feature = "noop"))]
    proxy_wasm::set_root_context(|id| Box::new(root::Root::new(id)));
}}
