//! A filter that does nothing, built with the feature `noop`: the yardstick of `make bench`.

use proxy_wasm::{
    traits::{Context, HttpContext, RootContext},
    types::ContextType,
};

/// Accepts any configuration.
pub struct Root;

struct Request;

impl Context for Root {}
impl RootContext for Root {
    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }

    fn create_http_context(&self, _: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Request))
    }
}

impl Context for Request {}
impl HttpContext for Request {}
