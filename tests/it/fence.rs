//! What the filter may stand on: the host functions that Envoy gives, and a short list of crates.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;
use support::{Module, root};

/// The crates that `Cargo.toml` may name for the filter itself. Another one needs a reason in
/// `docs/design.md`, and a line here.
const AGREED: [&str; 6] = [
    "getrandom",
    "hmac",
    "regex-lite",
    "serde",
    "serde_json",
    "sha2",
];

/// The functions that Envoy 1.40 gives to a module of proxy-wasm ABI 0.2.1, without their `proxy_`.
const PROXY: [&str; 39] = [
    "add_header_map_value",
    "call_foreign_function",
    "close_stream",
    "continue_stream",
    "define_metric",
    "dequeue_shared_queue",
    "done",
    "enqueue_shared_queue",
    "get_buffer_bytes",
    "get_buffer_status",
    "get_current_time_nanoseconds",
    "get_header_map_pairs",
    "get_header_map_size",
    "get_header_map_value",
    "get_log_level",
    "get_metric",
    "get_property",
    "get_shared_data",
    "get_status",
    "grpc_call",
    "grpc_cancel",
    "grpc_close",
    "grpc_send",
    "grpc_stream",
    "http_call",
    "increment_metric",
    "log",
    "record_metric",
    "register_shared_queue",
    "remove_header_map_value",
    "replace_header_map_value",
    "resolve_shared_queue",
    "send_local_response",
    "set_buffer_bytes",
    "set_effective_context",
    "set_header_map_pairs",
    "set_property",
    "set_shared_data",
    "set_tick_period_milliseconds",
];

/// The WASI functions that Envoy 1.40 gives.
const WASI: [&str; 15] = [
    "args_get",
    "args_sizes_get",
    "clock_time_get",
    "environ_get",
    "environ_sizes_get",
    "fd_close",
    "fd_fdstat_get",
    "fd_prestat_dir_name",
    "fd_prestat_get",
    "fd_read",
    "fd_seek",
    "fd_write",
    "path_open",
    "proc_exit",
    "random_get",
];

/// What a build imports that Envoy does not give.
fn strange_imports(build: Module) -> Vec<String> {
    let module = std::fs::read(build.path()).expect("the module");
    let imports = imports(&module).expect("a WebAssembly module");
    assert!(!imports.is_empty(), "a filter asks its host for something");
    let known = |from: &str, name: &str| match from {
        "env" => name
            .strip_prefix("proxy_")
            .is_some_and(|name| PROXY.contains(&name)),
        "wasi_snapshot_preview1" => WASI.contains(&name),
        _ => false,
    };
    let strange = imports.iter().filter(|(from, name)| !known(from, name));
    strange
        .map(|(from, name)| format!("{from}.{name}"))
        .collect()
}

/// Whether a build has the callback that only Higress knows.
fn has_the_redis_callback(build: Module) -> bool {
    let module = std::fs::read(build.path()).expect("the module");
    let name = b"proxy_on_redis_call_response";
    module.windows(name.len()).any(|bytes| bytes == name)
}

#[test]
fn the_module_imports_only_what_envoy_gives() {
    assert_eq!(strange_imports(Module::Aforo), Vec::<String>::new());
    assert!(!has_the_redis_callback(Module::Aforo));
}

#[test]
fn the_build_for_higress_imports_its_redis_call_and_nothing_else_that_envoy_does_not_give() {
    let mut strange = strange_imports(Module::Higress);
    strange.sort();
    assert_eq!(strange, ["env.proxy_redis_call", "env.proxy_redis_init"]);
    assert!(has_the_redis_callback(Module::Higress));
}

#[test]
fn the_filter_names_only_the_agreed_crates() {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version=1",
            "--no-deps",
            "--locked",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo's metadata");
    let packages = metadata["packages"].as_array().expect("packages");
    let filter = packages
        .iter()
        .find(|package| package["name"] == "aforo")
        .expect("the filter");
    let dependencies = filter["dependencies"].as_array().expect("dependencies");
    let named: BTreeSet<&str> = dependencies
        .iter()
        .filter(|dependency| dependency["kind"].is_null())
        .filter_map(|dependency| dependency["name"].as_str())
        .collect();
    assert_eq!(named, BTreeSet::from(AGREED));
}

/// The (module, name) pairs of a WebAssembly module's import section.
fn imports(module: &[u8]) -> Option<Vec<(String, String)>> {
    let mut rest = module.strip_prefix(b"\0asm\x01\0\0\0")?;
    while let Some((&section, after)) = rest.split_first() {
        rest = after;
        let length = number(&mut rest)?;
        let (mut body, after) = rest.split_at_checked(length)?;
        rest = after;
        if section == 2 {
            return (0..number(&mut body)?).map(|_| import(&mut body)).collect();
        }
    }
    Some(Vec::new())
}

fn import(bytes: &mut &[u8]) -> Option<(String, String)> {
    let pair = (text(bytes)?, text(bytes)?);
    // Only functions: a table, memory or global from outside is nothing that Envoy gives.
    let (0, after) = bytes.split_first().map(|(&kind, after)| (kind, after))? else {
        return None;
    };
    *bytes = after;
    number(bytes)?;
    Some(pair)
}

fn text(bytes: &mut &[u8]) -> Option<String> {
    let length = number(bytes)?;
    let (text, after) = bytes.split_at_checked(length)?;
    *bytes = after;
    String::from_utf8(text.to_vec()).ok()
}

/// An unsigned LEB128 number.
fn number(bytes: &mut &[u8]) -> Option<usize> {
    let mut value = 0;
    for shift in (0..35).step_by(7) {
        let (&byte, after) = bytes.split_first()?;
        *bytes = after;
        value |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
