//! The thin host: the only place that names Envoy's functions. It reads the clock and the randomness,
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
mod exports;
#[cfg(feature = "higress")]
mod higress;
mod http;
mod link;
mod loaded;
mod meter;
mod orders;
mod root;
mod shared;
