//! The root context of either role.

use super::{
    calls::{self, BufferType, LogLevel},
    shared::Shared,
};
use crate::policy::{Policy, encoding};
use std::{cell::OnceCell, rc::Rc};

/// One plugin configuration on one thread.
pub struct Root {
    id: u32,
    /// Empty until it is configured.
    role: OnceCell<Role>,
}

enum Role {
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
            role: OnceCell::new(),
        }
    }

    /// The plugin of an HTTP filter. `None` for a link, and before the configuration came.
    pub fn shared(&self) -> Option<Rc<Shared>> {
        match self.role.get()? {
            Role::Http(shared) => Some(Rc::clone(shared)),
            Role::Link => None,
        }
    }

    /// Whether its streams are links.
    pub fn is_link(&self) -> bool {
        matches!(self.role.get(), Some(Role::Link))
    }

    /// Reads the configuration. `false` makes Envoy refuse it, and keep what it had.
    pub fn on_configure(&self, size: usize) -> bool {
        if cfg!(feature = "noop") {
            return true;
        }
        let bytes = calls::buffer(BufferType::PluginConfiguration, 0, size).unwrap_or_default();
        let bytes = encoding::json_text(&bytes);
        if is_link(&bytes) {
            return self.role.set(Role::Link).is_ok();
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
                self.role.set(Role::Http(shared)).is_ok()
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
