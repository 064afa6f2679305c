//! Every call to the host, each returning its status instead of panicking on it.
//!
//! The SDK's own wrappers stop the VM on a status they do not list, and one stopped VM stops every
//! stream of its worker. So the imports are declared here; what Envoy calls is in `exports`. What only
//! Higress gives is in `higress`.

use std::{cell::RefCell, collections::HashMap, ptr, time::Duration};

/// What Envoy does after a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Action {
    /// It goes on.
    Continue = 0,
    /// It waits until it is told to go on.
    Pause = 1,
}

/// How important a line of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum LogLevel {
    /// Good to know.
    Info = 2,
    /// Something does not work, and may again.
    Warn = 3,
    /// Something does not work, and a person must look at it.
    Error = 4,
    /// The VM stops.
    Critical = 5,
}

/// A buffer of the effective context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum BufferType {
    /// What comes from a connection's client.
    DownstreamData = 2,
    /// What comes from behind.
    UpstreamData = 3,
    /// The body of a call's answer.
    HttpCallResponseBody = 4,
    /// The plugin's configuration.
    PluginConfiguration = 7,
    /// The reply that a Redis call brought.
    #[cfg(feature = "higress")]
    RedisCallResponse = 9,
}

/// A header map of the effective context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapType {
    /// A request's.
    Request = 0,
    /// Its response's.
    Response = 2,
    /// A call's answer's.
    Answer = 6,
}

/// A kind of metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum MetricType {
    /// Only grows.
    Counter = 0,
    /// Goes up and down.
    Gauge = 1,
    /// Many values.
    Histogram = 2,
}

/// A host status other than Ok, by its number: 1 not found, 2 bad argument (also: no such context),
/// 10 internal failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub u32);

type Outcome<T = ()> = Result<T, Refused>;

#[link(wasm_import_module = "env")]
unsafe extern "C" {
    fn proxy_log(level: u32, text: *const u8, len: usize) -> u32;
    fn proxy_set_tick_period_milliseconds(period: u32) -> u32;
    fn proxy_get_buffer_bytes(
        kind: u32,
        start: usize,
        max: usize,
        data: *mut *mut u8,
        len: *mut usize,
    ) -> u32;
    fn proxy_set_buffer_bytes(
        kind: u32,
        start: usize,
        size: usize,
        data: *const u8,
        len: usize,
    ) -> u32;
    fn proxy_get_header_map_value(
        map: u32,
        name: *const u8,
        name_len: usize,
        data: *mut *mut u8,
        len: *mut usize,
    ) -> u32;
    fn proxy_replace_header_map_value(
        map: u32,
        name: *const u8,
        name_len: usize,
        value: *const u8,
        value_len: usize,
    ) -> u32;
    fn proxy_remove_header_map_value(map: u32, name: *const u8, name_len: usize) -> u32;
    fn proxy_get_property(
        path: *const u8,
        path_len: usize,
        data: *mut *mut u8,
        len: *mut usize,
    ) -> u32;
    fn proxy_set_property(
        path: *const u8,
        path_len: usize,
        value: *const u8,
        value_len: usize,
    ) -> u32;
    fn proxy_register_shared_queue(name: *const u8, len: usize, id: *mut u32) -> u32;
    fn proxy_enqueue_shared_queue(id: u32, data: *const u8, len: usize) -> u32;
    fn proxy_dequeue_shared_queue(id: u32, data: *mut *mut u8, len: *mut usize) -> u32;
    fn proxy_continue_stream(stream: u32) -> u32;
    fn proxy_close_stream(stream: u32) -> u32;
    fn proxy_send_local_response(
        status: u32,
        details: *const u8,
        details_len: usize,
        body: *const u8,
        body_len: usize,
        headers: *const u8,
        headers_len: usize,
        grpc_status: i32,
    ) -> u32;
    fn proxy_set_effective_context(id: u32) -> u32;
    fn proxy_http_call(
        cluster: *const u8,
        cluster_len: usize,
        headers: *const u8,
        headers_len: usize,
        body: *const u8,
        body_len: usize,
        trailers: *const u8,
        trailers_len: usize,
        timeout: u32,
        token: *mut u32,
    ) -> u32;
    fn proxy_define_metric(kind: u32, name: *const u8, len: usize, id: *mut u32) -> u32;
    fn proxy_record_metric(id: u32, value: u64) -> u32;
    fn proxy_increment_metric(id: u32, by: i64) -> u32;
}

const HTTP_REQUEST: u32 = 0;
const DOWNSTREAM: u32 = 2;

/// What a host status says.
pub fn done(status: u32) -> Outcome {
    if status == 0 {
        Ok(())
    } else {
        Err(Refused(status))
    }
}

/// Runs a call that hands over a block of memory, and takes the block.
fn taken(call: impl FnOnce(*mut *mut u8, *mut usize) -> u32) -> Outcome<Vec<u8>> {
    let (mut data, mut len) = (ptr::null_mut::<u8>(), 0_usize);
    done(call(&raw mut data, &raw mut len))?;
    if data.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the host filled `len` bytes that `proxy_on_memory_allocate` of this module gave it, as
    // a boxed slice of exactly that length, and keeps no pointer to them.
    Ok(unsafe { Vec::from_raw_parts(data, len, len) })
}

/// Writes one line to Envoy's log. A line that cannot be written is lost.
pub fn log(level: LogLevel, text: &str) {
    // SAFETY: the pointer and length are of a live string; the host copies it.
    let _ = unsafe { proxy_log(level as u32, text.as_ptr(), text.len()) };
}

/// Asks for `on_tick` of this plugin's root every `period`; zero stops it. Rounded up to 1 ms.
pub fn tick_every(period: Duration) {
    let millis = u32::try_from(period.as_micros().div_ceil(1_000)).unwrap_or(u32::MAX);
    // SAFETY: no memory is passed.
    let _ = unsafe { proxy_set_tick_period_milliseconds(millis) };
}

/// Bytes `start..start + max` of a buffer of the effective context.
pub fn buffer(kind: BufferType, start: usize, max: usize) -> Outcome<Vec<u8>> {
    // SAFETY: `taken` passes two live out-pointers.
    taken(|data, len| unsafe { proxy_get_buffer_bytes(kind as u32, start, max, data, len) })
}

/// Drops the first `size` bytes of a buffer of the effective context.
pub fn drain_buffer(kind: BufferType, size: usize) -> Outcome {
    // SAFETY: an empty slice is passed with its own pointer.
    done(unsafe { proxy_set_buffer_bytes(kind as u32, 0, size, [].as_ptr(), 0) })
}

/// Adds `data` at the end of a buffer of the effective context.
pub fn append_buffer(kind: BufferType, data: &[u8]) -> Outcome {
    // A start at or past the end appends; the buffer is never this long.
    let start = u32::MAX as usize;
    // SAFETY: pointer and length are of one live slice; the host copies it.
    done(unsafe { proxy_set_buffer_bytes(kind as u32, start, 0, data.as_ptr(), data.len()) })
}

/// The first value of a header, as raw bytes; `None` when absent.
pub fn header(map: MapType, name: &str) -> Option<Vec<u8>> {
    // SAFETY: name is a live string; `taken` passes two live out-pointers.
    taken(|data, len| unsafe {
        proxy_get_header_map_value(map as u32, name.as_ptr(), name.len(), data, len)
    })
    .ok()
}

/// Makes `value` the only value of a header.
pub fn set_header(map: MapType, name: &str, value: &str) {
    // SAFETY: both strings live through the call; the host copies them.
    let _ = unsafe {
        proxy_replace_header_map_value(
            map as u32,
            name.as_ptr(),
            name.len(),
            value.as_ptr(),
            value.len(),
        )
    };
}

/// Removes every value of a header.
pub fn remove_header(map: MapType, name: &str) {
    // SAFETY: name lives through the call.
    let _ = unsafe { proxy_remove_header_map_value(map as u32, name.as_ptr(), name.len()) };
}

/// An Envoy attribute, by its path with NUL between segments; `None` when absent or not readable.
pub fn property(path: &[u8]) -> Option<Vec<u8>> {
    // SAFETY: path lives through the call; `taken` passes two live out-pointers.
    taken(|data, len| unsafe { proxy_get_property(path.as_ptr(), path.len(), data, len) }).ok()
}

/// Sets the filter state `wasm.NAME`.
pub fn set_property(name: &str, value: &[u8]) {
    // SAFETY: both slices live through the call.
    let _ = unsafe { proxy_set_property(name.as_ptr(), name.len(), value.as_ptr(), value.len()) };
}

/// Registers a shared queue whose `on_queue_ready` comes to this worker.
pub fn register_queue(name: &str) -> Outcome<u32> {
    let mut id = 0;
    // SAFETY: name and the out-pointer live through the call.
    done(unsafe { proxy_register_shared_queue(name.as_ptr(), name.len(), &raw mut id) })?;
    Ok(id)
}

/// Puts one empty entry into a queue, which calls its owner in the next turn of its event loop.
pub fn ring(queue: u32) -> Outcome {
    // SAFETY: an empty slice is passed with its own pointer.
    done(unsafe { proxy_enqueue_shared_queue(queue, [].as_ptr(), 0) })
}

/// Takes one entry out of a queue; `false` when it was empty.
pub fn answer_ring(queue: u32) -> bool {
    // SAFETY: `taken` passes two live out-pointers.
    taken(|data, len| unsafe { proxy_dequeue_shared_queue(queue, data, len) }).is_ok()
}

/// Makes the calls that follow act for another context, until this callback ends. On an error the
/// context is gone and the effective context is unchanged: the caller must not go on as if it were.
pub fn act_for(context: u32) -> Outcome {
    // SAFETY: no memory is passed.
    done(unsafe { proxy_set_effective_context(context) })
}

/// Lets the paused request of the effective context go on, after this callback.
pub fn resume_request() -> Outcome {
    // SAFETY: no memory is passed.
    done(unsafe { proxy_continue_stream(HTTP_REQUEST) })
}

/// Hands the downstream buffer of the effective context to the next filter, after this callback.
pub fn resume_downstream() -> Outcome {
    // SAFETY: no memory is passed.
    done(unsafe { proxy_continue_stream(DOWNSTREAM) })
}

/// Closes the downstream connection of the effective context.
pub fn close_downstream() -> Outcome {
    // SAFETY: no memory is passed.
    done(unsafe { proxy_close_stream(DOWNSTREAM) })
}

/// Answers the request of the effective context. `details` shows in access logs as
/// `RESPONSE_CODE_DETAILS`; a gRPC status makes it a trailers-only answer with `body` as message.
pub fn reply(
    status: u32,
    details: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    grpc_status: Option<i32>,
) -> Outcome {
    let pairs = pairs(headers);
    // SAFETY: all four slices live through the call; the host copies them.
    done(unsafe {
        proxy_send_local_response(
            status,
            details.as_ptr(),
            details.len(),
            body.as_ptr(),
            body.len(),
            pairs.as_ptr(),
            pairs.len(),
            grpc_status.unwrap_or(-1),
        )
    })
}

/// The wire form of a header list: count, then the two lengths of each, then NUL-ended texts.
fn pairs(headers: &[(&str, &str)]) -> Vec<u8> {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes();
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(&count(headers.len()));
    for (name, value) in headers {
        out.extend_from_slice(&count(name.len()));
        out.extend_from_slice(&count(value.len()));
    }
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        out.extend_from_slice(text.as_bytes());
        out.push(0);
    }
    out
}

thread_local! {
    /// The metrics of this VM by name. Envoy gives a new id each time it is asked and frees none
    /// before the VM ends, which outlives many configurations.
    static METRICS: RefCell<HashMap<String, u32>> = RefCell::default();
}

/// Defines a metric, or finds it: the same name gives the same id.
pub fn define_metric(kind: MetricType, name: &str) -> Outcome<u32> {
    if let Some(id) = METRICS.with_borrow(|metrics| metrics.get(name).copied()) {
        return Ok(id);
    }
    let id = define_new_metric(kind, name)?;
    METRICS.with_borrow_mut(|metrics| metrics.insert(name.to_owned(), id));
    Ok(id)
}

fn define_new_metric(kind: MetricType, name: &str) -> Outcome<u32> {
    let mut id = 0;
    // SAFETY: name and the out-pointer live through the call.
    done(unsafe { proxy_define_metric(kind as u32, name.as_ptr(), name.len(), &raw mut id) })?;
    Ok(id)
}

/// Adds to a counter or gauge.
pub fn add_metric(id: u32, by: i64) {
    // SAFETY: no memory is passed.
    let _ = unsafe { proxy_increment_metric(id, by) };
}

/// Sets a gauge, or records one value of a histogram.
pub fn record_metric(id: u32, value: u64) {
    // SAFETY: no memory is passed.
    let _ = unsafe { proxy_record_metric(id, value) };
}

/// Opens a call that is never answered: a connection to `cluster` whose first bytes say `path`.
/// `Err` when there is no such cluster or no host in it; then no callback comes.
pub fn open_call(cluster: &str, path: &str) -> Outcome<u32> {
    let headers = [
        (":method", "POST"),
        (":path", path),
        (":authority", "aforo-link"),
    ];
    start_call(cluster, &headers, &[], Duration::ZERO)
}

/// Makes a call to `cluster`. Its end comes with this token, unless the root whose callback, or whose
/// stream's callback, is running now has gone by then. `Err` when there is no such cluster or no host in
/// it; then no callback comes.
pub fn call(
    cluster: &str,
    headers: &[(&'static str, String)],
    body: &[u8],
    timeout: Duration,
) -> Outcome<u32> {
    let headers = headers.iter().map(|(name, value)| (*name, value.as_str()));
    let headers: Vec<_> = headers.collect();
    start_call(cluster, &headers, body, timeout)
}

/// A timeout of zero is none.
fn start_call(
    cluster: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    timeout: Duration,
) -> Outcome<u32> {
    let (headers, trailers) = (pairs(headers), pairs(&[]));
    let millis = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
    let mut token = 0;
    // SAFETY: all slices and the out-pointer live through the call; the host copies what it keeps.
    done(unsafe {
        proxy_http_call(
            cluster.as_ptr(),
            cluster.len(),
            headers.as_ptr(),
            headers.len(),
            body.as_ptr(),
            body.len(),
            trailers.as_ptr(),
            trailers.len(),
            millis,
            &raw mut token,
        )
    })?;
    Ok(token)
}

/// The status and body of the answer whose callback is running, with at most `most` bytes of the
/// body. Only for an answer that has headers.
pub fn answer(body_size: usize, most: usize) -> (u16, Vec<u8>) {
    let status = header(MapType::Answer, ":status");
    let status = status.and_then(|status| std::str::from_utf8(&status).ok()?.parse().ok());
    let body = match body_size.min(most) {
        0 => Vec::new(),
        size => buffer(BufferType::HttpCallResponseBody, 0, size).unwrap_or_default(),
    };
    (status.unwrap_or(0), body)
}
