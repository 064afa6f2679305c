//! The examples in `deploy/istio` in a real Envoy, as Istio would push them: both modules by ECDS, each
//! `PluginConfig` as its control plane makes it, each remote module a local file as its agent makes it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use support::client::{at_once, count, get};
use support::config::{Config, Link};
use support::echo::Echo;
use support::envoy::Envoy;
use support::load::Load;
use support::mesh::{per_key, policy, turn};
use support::redis::Redis;
use support::{Dir, Module, root, until_within, yaml};

const WASM: &str = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm";
const RBAC: &str = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC";

/// The resources of an example, by their kind.
fn resources(example: &str) -> Vec<Value> {
    let path = root().join("deploy/istio").join(example);
    let text = std::fs::read_to_string(path).expect("an example");
    text.split("\n---\n").map(yaml).collect()
}

/// What Istio makes of an example for one proxy. Its files are in `dir`.
struct Pushed {
    dir: Dir,
    config: Config,
}

impl Pushed {
    /// With the example's own policy, or another.
    fn new(example: &str, policy: Option<&Value>) -> Self {
        let dir = Dir::temporary("istio");
        let mut config = Config::shipped(Link::RedisProxy);
        let resources = resources(example);
        {
            let statics = &mut config.value()["static_resources"];
            retain(&mut statics["listeners"], |name| name == "http");
            retain(&mut statics["clusters"], |name| name == "upstream");
        }
        for resource in &resources {
            match resource["kind"].as_str() {
                Some("WasmPlugin" | "TrafficExtension") => {
                    let mut resource = resource.clone();
                    if let Some(policy) = policy {
                        *plugin_config(&mut resource) = policy.clone();
                    }
                    let name = resource_name(&resource);
                    let file = write(&dir, "plugin.json", &name, &plugin(&resource));
                    *config.http_filter("aforo") = discovered(&name, &file, &[WASM, RBAC]);
                }
                Some("EnvoyFilter") => patch(&dir, &mut config, &resource["spec"]["configPatches"]),
                _ => {}
            }
        }
        Self { dir, config }
    }

    fn redis_port(&mut self, port: u16) {
        self.config.redis_port(port);
    }
}

fn retain(list: &mut Value, keep: impl Fn(&str) -> bool) {
    let list = list.as_array_mut().expect("a list");
    list.retain(|item| keep(item["name"].as_str().unwrap_or_default()));
}

/// Where either kind of plugin holds what is of Wasm.
fn wasm(resource: &mut Value) -> &mut Value {
    let by_kind = if resource["kind"] == "TrafficExtension" {
        "/spec/wasm"
    } else {
        "/spec"
    };
    resource.pointer_mut(by_kind).expect("a spec")
}

fn plugin_config(resource: &mut Value) -> &mut Value {
    &mut wasm(resource)["pluginConfig"]
}

/// What the control plane calls the plugin's ECDS resource.
fn resource_name(resource: &Value) -> String {
    format!(
        "extensions.istio.io/trafficextension/{}",
        own_name(resource)
    )
}

fn own_name(resource: &Value) -> String {
    let text = |field: &str| {
        resource["metadata"][field]
            .as_str()
            .expect("a name")
            .to_owned()
    };
    format!("{}.{}", text("namespace"), text("name"))
}

/// The plugin's configuration: no vm_id, no configuration of the VM, the policy as JSON in a StringValue.
/// Of the environment the agent has removed its own variables, and nothing is left.
fn plugin(resource: &Value) -> Value {
    let name = own_name(resource);
    let mut resource = resource.clone();
    let wasm = wasm(&mut resource);
    let failure_policy = match wasm["failStrategy"].as_str() {
        Some("FAIL_OPEN") => "FAIL_OPEN",
        Some("FAIL_RELOAD") => "FAIL_RELOAD",
        _ => "FAIL_CLOSED",
    };
    json!({
        "@type": WASM,
        "config": {
            "name": name,
            "root_id": wasm["pluginName"],
            "vm_config": { "runtime": "envoy.wasm.runtime.v8", "code": local() },
            "configuration": {
                "@type": "type.googleapis.com/google.protobuf.StringValue",
                "value": wasm["pluginConfig"].to_string(),
            },
            "failure_policy": failure_policy,
        },
    })
}

/// The module, once the agent has fetched it.
fn local() -> Value {
    json!({ "local": { "filename": Module::Aforo.path() } })
}

/// Writes an ECDS resource where Envoy looks for it.
fn write(dir: &Dir, file: &str, name: &str, typed_config: &Value) -> PathBuf {
    let resource = json!({
        "@type": "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig",
        "name": name,
        "typed_config": typed_config,
    });
    let draft = dir.join("draft");
    let path = dir.join(file);
    std::fs::write(&draft, json!({ "resources": [resource] }).to_string()).expect("write");
    std::fs::rename(draft, &path).expect("put it in place");
    path
}

/// A filter whose configuration is discovered: from a file, where a proxy of Istio asks its agent.
fn discovered(name: &str, file: &Path, types: &[&str]) -> Value {
    json!({
        "name": name,
        "config_discovery": { "config_source": source(file), "type_urls": types },
    })
}

fn source(file: &Path) -> Value {
    json!({
        "path_config_source": { "path": file },
        "resource_api_version": "V3",
        "initial_fetch_timeout": "0s",
    })
}

/// Applies the patches of an EnvoyFilter.
fn patch(dir: &Dir, config: &mut Config, patches: &Value) {
    for patch in patches.as_array().expect("patches") {
        let mut value = patch["patch"]["value"].clone();
        match (
            patch["applyTo"].as_str(),
            patch["patch"]["operation"].as_str(),
        ) {
            (Some("LISTENER"), Some("ADD")) => {
                let filter = &mut value["filter_chains"][0]["filters"][0]["config_discovery"];
                assert!(filter["config_source"]["ads"].is_object(), "{filter}");
                filter["config_source"] = source(&dir.join("link.json"));
                config.add_listener(value);
            }
            (Some("EXTENSION_CONFIG"), Some("ADD")) => {
                let typed = &mut value["typed_config"];
                let code = &mut typed["config"]["vm_config"]["code"];
                assert!(code["remote"]["http_uri"]["uri"].is_string(), "{code}");
                *code = local();
                let name = value["name"].as_str().expect("a name").to_owned();
                write(dir, "link.json", &name, &value["typed_config"]);
            }
            (Some("CLUSTER"), Some("ADD")) => {
                let clusters = &mut config.value()["static_resources"]["clusters"];
                clusters.as_array_mut().expect("clusters").push(value);
            }
            // A cluster of Istio's own, which is not here.
            (Some("CLUSTER"), Some("MERGE")) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Two proxies with what Istio pushes, before one Redis.
struct Proxies {
    envoys: Vec<Envoy>,
    pushed: Pushed,
    redis: Redis,
    _echo: Echo,
    _turn: std::fs::File,
}

fn start(example: &str, policy: &Value, workers: usize) -> Proxies {
    let turn = turn();
    let redis = Redis::start();
    let echo = Echo::start();
    let mut pushed = Pushed::new(example, Some(policy));
    pushed.redis_port(redis.port());
    pushed.config.upstream_port(echo.port());
    let envoys = (0..2)
        .map(|_| Envoy::start(&pushed.config, workers))
        .collect();
    Proxies {
        envoys,
        pushed,
        redis,
        _echo: echo,
        _turn: turn,
    }
}

fn counting(outage: &str, rate: &str) -> Value {
    let mut policy = policy(outage, "2s", json!([per_key("sliding-log", rate)]));
    policy["redis"]
        .as_object_mut()
        .expect("a section")
        .remove("cluster");
    policy
}

#[test]
fn delivered_as_istio_does_two_proxies_with_four_workers_each_allow_exactly_the_limit() {
    for example in ["sidecars.yaml", "workload.yaml"] {
        let proxies = start(example, &counting("deny", "100/1m"), 4);
        let addresses: Vec<_> = proxies.envoys.iter().map(Envoy::address).collect();
        for round in 0..5 {
            let key = format!("round-{round}");
            let one = |n: usize| (addresses[n % 2], get("/").header("x-api-key", &key));
            let answers = at_once(&(0..400).map(one).collect::<Vec<_>>());
            assert_eq!(count(&answers, 200), 100, "{example}, round {round}");
            assert_eq!(count(&answers, 429), 300, "{example}, round {round}");
        }
        for envoy in &proxies.envoys {
            assert_eq!(envoy.log_lines_with("not in one VM"), 0, "{example}");
        }
    }
}

#[test]
fn delivered_as_istio_does_redis_may_go_and_come_back() {
    for example in ["sidecars.yaml", "workload.yaml"] {
        let mut policy = counting("allow", "5/1h");
        policy["redis"]["timeout"] = json!("50ms");
        let mut proxies = start(example, &policy, 2);
        let address = proxies.envoys[0].address();
        let ask = get("/").header("x-api-key", "a");
        let refused = || (0..8).all(|_| ask.to(address).status == 429);
        until_within(Duration::from_secs(10), "the limit to be enforced", refused);
        proxies.redis.stop();
        assert_eq!(ask.to(address).status, 200, "{example}");
        proxies.redis.restart();
        until_within(Duration::from_secs(10), "the limit to be enforced", refused);
    }
}

#[test]
fn a_policy_that_istio_pushes_under_load_loses_no_request() {
    let proxies = start("sidecars.yaml", &counting("deny", "100000/1h"), 2);
    let address = proxies.envoys[0].address();
    let ask = get("/").header("x-api-key", "a");
    let load = Load::start(&[address], 4, Duration::from_millis(5), &ask);
    let resource = resources("sidecars.yaml").remove(0);
    for rate in ["90000/1h", "80000/1h", "1/1h"] {
        let mut changed = resource.clone();
        *plugin_config(&mut changed) = counting("deny", rate);
        let name = resource_name(&changed);
        let before = proxies.envoys[0].stat(&reloads(&name));
        write(&proxies.pushed.dir, "plugin.json", &name, &plugin(&changed));
        until_within(Duration::from_secs(10), "Envoy to take the policy", || {
            proxies.envoys[0].stat(&reloads(&name)) > before
        });
    }
    until_within(Duration::from_secs(10), "the last policy to hold", || {
        (0..8).all(|_| ask.to(address).status == 429)
    });
    let outcomes = load.stop();
    let odd = outcomes
        .iter()
        .find(|one| ![200, 429].contains(&one.status()));
    assert!(odd.is_none(), "{odd:?}");
}

/// The counter of configurations that a discovered HTTP filter took.
fn reloads(name: &str) -> String {
    format!("extension_config_discovery.http_filter.{name}.config_reload")
}

/// Why a module in the proxy's own file is not rendered: Istio leaves its variable in the plugin's VM.
#[test]
fn a_variable_that_only_one_of_the_two_has_makes_two_vms_and_is_said_in_the_log() {
    let turn = turn();
    let redis = Redis::start();
    let echo = Echo::start();
    let mut pushed = Pushed::new("sidecars.yaml", None);
    let resource = resources("sidecars.yaml").remove(0);
    let mut other = plugin(&resource);
    other["config"]["vm_config"]["environment_variables"] =
        json!({ "key_values": { "ISTIO_META_WASM_PLUGIN_RESOURCE_VERSION": "1" } });
    write(
        &pushed.dir,
        "plugin.json",
        &resource_name(&resource),
        &other,
    );
    pushed.redis_port(redis.port());
    pushed.config.upstream_port(echo.port());
    let envoy = Envoy::start(&pushed.config, 1);
    let answer = get("/").header("x-api-key", "a").to(envoy.address());
    assert_eq!(answer.status, 200, "the policy's outage answer");
    until_within(Duration::from_secs(5), "the log to say so", || {
        envoy.log_lines_with("not in one VM") > 0
    });
    drop(turn);
}

#[test]
fn envoy_accepts_every_example() {
    for example in [
        "sidecars.yaml",
        "workload.yaml",
        "gateways.yaml",
        "gateway-api.yaml",
        "redis-service.yaml",
        "redis-cluster.yaml",
        "webdis.yaml",
        "upstash.yaml",
    ] {
        let pushed = Pushed::new(example, None);
        let secrets = Dir::temporary("secrets");
        std::fs::write(secrets.join("password"), "x").expect("write");
        let ca = root().join("tests/data/istio/ca.pem");
        let text = pushed
            .config
            .text()
            .replace(
                "/etc/redis/password",
                &secrets.join("password").display().to_string(),
            )
            .replace(
                "/etc/ssl/certs/ca-certificates.crt",
                &ca.display().to_string(),
            )
            // Any variable that is set will do.
            .replace("\"REDIS_PASSWORD\"", "\"PATH\"");
        let mut config = pushed.config.clone();
        *config.value() = serde_json::from_str(&text).expect("JSON");
        config.value()["node"] = json!({ "id": "test", "cluster": "test" });
        let said = Envoy::validate(&config).unwrap_or_else(|said| panic!("{example}: {said}"));
        assert!(said.contains("OK"), "{example}: {said}");
        assert!(!said.contains("deprecated"), "{example}: {said}");
    }
}
