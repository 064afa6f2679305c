//! The functions that Envoy calls (proxy-wasm ABI 0.2.1), and which context each is for.
//!
//! The SDK's dispatcher is not used. It keeps its tables borrowed while a callback runs and stops the VM
//! when another callback comes inside it, or when one comes for a context that it has let go. Both
//! happen to a link: Envoy may create, end and delete its context within the very call that opens it
//! (nothing behind it has a host), and tell it of its connection's end when it is deleted already. Here
//! nothing is borrowed while a callback runs, and what is for nobody is ignored.
//!
//! What is not exported is not called: Envoy skips it, which costs a request nothing.

use super::{
    calls::{self, Action, LogLevel},
    http::Http,
    link::Link,
    orders,
    root::Root,
};
use std::{cell::RefCell, collections::HashMap, rc::Rc};

thread_local! {
    static CONTEXTS: RefCell<HashMap<u32, Context>> = RefCell::default();
}

/// What stands behind a context id.
#[derive(Clone)]
enum Context {
    Root(Rc<Root>),
    Http(Rc<Http>),
    Link(Rc<Link>),
}

fn context(id: u32) -> Option<Context> {
    CONTEXTS.with_borrow(|contexts| contexts.get(&id).cloned())
}

fn root(id: u32) -> Option<Rc<Root>> {
    match context(id)? {
        Context::Root(root) => Some(root),
        Context::Http(_) | Context::Link(_) => None,
    }
}

fn http(id: u32) -> Option<Rc<Http>> {
    match context(id)? {
        Context::Http(http) => Some(http),
        Context::Root(_) | Context::Link(_) => None,
    }
}

fn link(id: u32) -> Option<Rc<Link>> {
    match context(id)? {
        Context::Link(link) => Some(link),
        Context::Root(_) | Context::Http(_) => None,
    }
}

unsafe extern "C" {
    /// Runs what the language wants to run first.
    fn __wasm_call_ctors();
}

#[unsafe(no_mangle)]
extern "C" fn proxy_abi_version_0_2_1() {}

#[unsafe(no_mangle)]
extern "C" fn _initialize() {
    // SAFETY: the host calls this once, before anything else.
    unsafe { __wasm_call_ctors() };
    // Should a panic come all the same, its place is in Envoy's log.
    std::panic::set_hook(Box::new(|panic| {
        calls::log(LogLevel::Critical, &format!("aforo: {panic}"));
    }));
}

/// Memory for what the host hands over; `calls::taken` takes it back.
#[unsafe(no_mangle)]
extern "C" fn proxy_on_memory_allocate(size: usize) -> *mut u8 {
    Box::into_raw(vec![0_u8; size].into_boxed_slice()).cast()
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_context_create(id: u32, parent: u32) {
    let new = if parent == 0 {
        Some(Context::Root(Rc::new(Root::new(id))))
    } else {
        root(parent).map(|root| {
            if root.is_link() {
                Context::Link(Rc::new(Link::new(id)))
            } else {
                Context::Http(Rc::new(Http::new(id, root.shared())))
            }
        })
    };
    if let Some(new) = new {
        CONTEXTS.with_borrow_mut(|contexts| contexts.insert(id, new));
    }
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_done(id: u32) -> bool {
    match context(id) {
        Some(Context::Http(http)) => http.on_done(),
        Some(Context::Link(link)) => link.on_done(),
        Some(Context::Root(_)) | None => {}
    }
    true
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_delete(id: u32) {
    // Dropped after the borrow has ended: the end of a root is the end of its plugin.
    let gone = CONTEXTS.with_borrow_mut(|contexts| contexts.remove(&id));
    drop(gone);
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_vm_start(_id: u32, _size: usize) -> bool {
    true
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_configure(id: u32, size: usize) -> bool {
    root(id).is_some_and(|root| root.on_configure(size))
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_tick(id: u32) {
    if let Some(shared) = root(id).and_then(|root| root.shared()) {
        shared.tick();
    }
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_queue_ready(id: u32, _queue: u32) {
    if let Some(shared) = root(id).and_then(|root| root.shared()) {
        shared.heard_bell();
    }
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_http_call_response(
    _root: u32,
    token: u32,
    headers: usize,
    body_size: usize,
    _trailers: usize,
) {
    orders::call_ended(token, headers, body_size);
}

#[cfg(feature = "higress")]
#[unsafe(no_mangle)]
extern "C" fn proxy_on_redis_call_response(root: u32, token: u32, status: u32, size: usize) {
    super::higress::call_ended(root, token, status, size);
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_request_headers(id: u32, _count: usize, _end: bool) -> Action {
    http(id).map_or(Action::Continue, |http| http.on_request_headers())
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_response_headers(id: u32, _count: usize, _end: bool) -> Action {
    if let Some(http) = http(id) {
        http.on_response_headers();
    }
    Action::Continue
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_downstream_data(id: u32, size: usize, _end: bool) -> Action {
    if let Some(link) = link(id) {
        link.on_downstream_data(size);
    }
    Action::Pause
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_upstream_data(id: u32, size: usize, _end: bool) -> Action {
    if let Some(link) = link(id) {
        link.on_upstream_data(size);
    }
    Action::Continue
}
