//! The root context of either role.

use super::{
    calls::{self, BufferType, LogLevel},
    http::Http,
    link::Link,
    shared::Shared,
};
use crate::policy::{Policy, encoding};
use proxy_wasm::{
    traits::{Context, HttpContext, RootContext, StreamContext},
    types::ContextType,
};
use std::rc::Rc;

/// One plugin configuration on one thread.
pub struct Root {
    id: u32,
    role: Role,
}

enum Role {
    /// Not configured yet.
    None,
    /// The network filter behind the internal listener.
    Link,
    /// The HTTP filter.
    Http(Rc<Shared>),
}

impl Root {
    /// The root with this context id.
    pub const fn new(id: u32) -> Self {
        Self {
            id,
            role: Role::None,
        }
    }

    fn shared(&self) -> Option<&Rc<Shared>> {
        match &self.role {
            Role::Http(shared) => Some(shared),
            Role::Link | Role::None => None,
        }
    }
}

impl Context for Root {
    fn on_http_call_response(&mut self, token: u32, headers: usize, body_size: usize, _: usize) {
        super::orders::call_ended(token, headers, body_size);
    }
}

impl RootContext for Root {
    /// Reads the configuration. `false` makes Envoy refuse it, and keep what it had.
    fn on_configure(&mut self, size: usize) -> bool {
        let bytes = calls::buffer(BufferType::PluginConfiguration, 0, size).unwrap_or_default();
        let bytes = encoding::json_text(&bytes);
        if is_link(&bytes) {
            self.role = Role::Link;
            return true;
        }
        match Policy::from_json(&bytes) {
            Ok((policy, warnings)) => {
                for warning in warnings {
                    calls::log(LogLevel::Warn, &format!("aforo: policy: {warning}"));
                }
                let Some(shared) = Shared::new(self.id, policy) else {
                    calls::log(LogLevel::Error, "aforo: Envoy gives no shared queue");
                    return false;
                };
                self.role = Role::Http(shared);
                true
            }
            Err(errors) => {
                calls::log(
                    LogLevel::Error,
                    &format!("aforo: the policy is refused: {errors}"),
                );
                false
            }
        }
    }

    fn on_tick(&mut self) {
        if let Some(shared) = self.shared() {
            shared.tick();
        }
    }

    fn on_queue_ready(&mut self, _queue: u32) {
        if let Some(shared) = self.shared() {
            shared.heard_bell();
        }
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(match self.role {
            Role::Link => ContextType::StreamContext,
            Role::Http(_) | Role::None => ContextType::HttpContext,
        })
    }

    fn create_http_context(&self, id: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Http::new(id, self.shared().cloned())))
    }

    fn create_stream_context(&self, id: u32) -> Option<Box<dyn StreamContext>> {
        Some(Box::new(Link::new(id)))
    }
}

/// Whether a configuration is the link's: `{"role": "link"}` and nothing else.
fn is_link(bytes: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct RoleOnly {
        role: String,
    }
    serde_json::from_slice::<RoleOnly>(bytes).is_ok_and(|config| config.role == "link")
}
