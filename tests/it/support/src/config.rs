//! Envoy's configuration for a test: the file this repository ships, with a test's ports and policy in it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use serde_json::{Value, json};

use crate::{Module, root};

/// How decisions reach Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The internal link, `redis_proxy` behind it: `envoy.yaml`.
    RedisProxy,
    /// The internal link, straight to Redis: `envoy-straight.yaml`.
    Straight,
    /// `envoy-cluster.yaml`.
    Cluster,
    /// The HTTP gateway Webdis: `deploy/gateways/envoy.yaml`.
    Webdis,
    /// An HTTP gateway that speaks as Upstash does; the same file with another policy.
    Upstash,
    /// As `RedisProxy`, with both Wasm filters delivered by ECDS from files.
    Ecds,
}

impl Link {
    /// Both ways behind the internal link to one Redis, for what is of that link.
    pub const ALL: [Self; 2] = [Self::RedisProxy, Self::Straight];
    /// All that have a file of their own.
    pub const SHIPPED: [Self; 4] = [
        Self::RedisProxy,
        Self::Straight,
        Self::Cluster,
        Self::Webdis,
    ];

    /// Both HTTP gateways, for what is of gateways.
    pub const GATEWAYS: [Self; 2] = [Self::Webdis, Self::Upstash];

    /// Every way, for what is promised whatever the way.
    pub const EVERY: [Self; 4] = [
        Self::RedisProxy,
        Self::Straight,
        Self::Webdis,
        Self::Upstash,
    ];

    /// The shipped file, from the repository's root.
    #[must_use]
    pub fn file(self) -> &'static str {
        match self {
            Self::RedisProxy | Self::Ecds => "envoy.yaml",
            Self::Straight => "envoy-straight.yaml",
            Self::Cluster => "envoy-cluster.yaml",
            Self::Webdis | Self::Upstash => "deploy/gateways/envoy.yaml",
        }
    }

    /// Whether an HTTP gateway stands between Envoy and Redis.
    #[must_use]
    pub fn is_gateway(self) -> bool {
        Self::GATEWAYS.contains(&self)
    }

    /// The cluster that leads out of Envoy.
    #[must_use]
    pub fn cluster(self) -> &'static str {
        if self.is_gateway() {
            "aforo-gateway"
        } else {
            "aforo-redis"
        }
    }
}

/// An Envoy bootstrap.
#[derive(Clone, Debug)]
pub struct Config {
    value: Value,
    link: Link,
}

impl Config {
    /// The shipped file, with ports that the system gives and the built module by its full path.
    ///
    /// # Panics
    /// When the file cannot be read, or is not the shape that this type knows.
    #[must_use]
    pub fn shipped(link: Link) -> Self {
        let mut config = Self::as_it_stands(link);
        config.set("/admin/address/socket_address/port_value", json!(0));
        config.listener("http")["address"]["socket_address"]["port_value"] = json!(0);
        config.module(&Module::Aforo.path());
        config
    }

    /// The shipped file and nothing else.
    ///
    /// # Panics
    /// When the file cannot be read.
    #[must_use]
    pub fn as_it_stands(link: Link) -> Self {
        let path = root().join(link.file());
        let text = std::fs::read_to_string(&path).expect("the shipped configuration");
        Self {
            value: yaml(&text),
            link,
        }
    }

    /// The whole, as Envoy reads it.
    #[must_use]
    pub fn text(&self) -> String {
        self.value.to_string()
    }

    /// The whole, to look at and to change.
    pub fn value(&mut self) -> &mut Value {
        &mut self.value
    }

    /// The policy, as JSON.
    pub fn policy(&mut self, policy: &Value) {
        self.policy_text(&policy.to_string());
    }

    /// The policy in a test's own bytes, good or bad.
    pub fn policy_text(&mut self, text: &str) {
        self.aforo()["configuration"] = string_value(text);
    }

    /// The link filter's configuration.
    pub fn link_settings(&mut self, settings: &Value) {
        self.link()["configuration"] = string_value(&settings.to_string());
    }

    /// The module that the filters run.
    pub fn module(&mut self, path: &Path) {
        let mut plugins = vec![Self::aforo as fn(&mut Self) -> &mut Value];
        if !self.has_gateway() {
            plugins.push(Self::link);
        }
        for plugin in plugins {
            let code = &mut plugin(self)["vm_config"]["code"]["local"]["filename"];
            assert!(code.is_string(), "the module is a local file");
            *code = json!(path);
        }
    }

    /// How long `redis_proxy` waits for Redis; nothing where there is none.
    pub fn op_timeout(&mut self, duration: &str) {
        if self.has_gateway() {
            return;
        }
        let settings = &mut self.listener("aforo-link")["filter_chains"][0]["filters"][1];
        if let Some(value) = settings["typed_config"].pointer_mut("/settings/op_timeout") {
            *value = json!(duration);
        }
    }

    /// Where Redis is, or its HTTP gateway.
    pub fn redis_port(&mut self, port: u16) {
        self.redis_ports(&[port]);
    }

    /// Where the nodes of a Redis Cluster are, or at least some of them.
    pub fn redis_ports(&mut self, ports: &[u16]) {
        let address = |port: &u16| SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
        self.redis_addresses(&ports.iter().map(address).collect::<Vec<_>>());
    }

    /// The same, where they are not on loopback.
    pub fn redis_addresses(&mut self, addresses: &[SocketAddr]) {
        let endpoint = |address: &SocketAddr| {
            json!({ "endpoint": { "address": { "socket_address": {
                "address": address.ip().to_string(), "port_value": address.port(),
            } } } })
        };
        let endpoints = addresses.iter().map(endpoint).collect();
        let cluster = self.way_out();
        let places = &mut self.cluster(cluster)["load_assignment"]["endpoints"][0];
        places["lb_endpoints"] = endpoints;
    }

    /// The password that `redis_proxy` says to Redis.
    pub fn redis_proxy_password(&mut self, password: &str) {
        self.cluster("aforo-redis")["typed_extension_protocol_options"] = json!({
            "envoy.filters.network.redis_proxy": {
                "@type": "type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProtocolOptions",
                "auth_password": { "inline_string": password },
            },
        });
    }

    /// How long Envoy waits for a connection to Redis, or to its HTTP gateway.
    pub fn connect_timeout(&mut self, duration: &str) {
        let cluster = self.way_out();
        self.cluster(cluster)["connect_timeout"] = json!(duration);
    }

    /// Where the upstream is.
    pub fn upstream_port(&mut self, port: u16) {
        *self.port_of("upstream") = json!(port);
    }

    /// What the shipped policy says, as it stands in the file.
    #[must_use]
    pub fn shipped_policy(&mut self) -> Value {
        self.aforo()["configuration"]["value"].clone()
    }

    /// The HTTP filter's plugin configuration.
    pub fn aforo(&mut self) -> &mut Value {
        &mut self.http_filter("aforo")["typed_config"]["config"]
    }

    /// The link filter's plugin configuration.
    pub fn link(&mut self) -> &mut Value {
        let filters = &mut self.listener("aforo-link")["filter_chains"][0]["filters"];
        &mut named(filters, "aforo-link")["typed_config"]["config"]
    }

    /// The HTTP connection manager.
    pub fn manager(&mut self) -> &mut Value {
        &mut self.listener("http")["filter_chains"][0]["filters"][0]["typed_config"]
    }

    /// The HTTP filters in order.
    ///
    /// # Panics
    /// When there are none.
    pub fn http_filters(&mut self) -> &mut Vec<Value> {
        self.manager()["http_filters"]
            .as_array_mut()
            .expect("HTTP filters")
    }

    /// The HTTP filter of this name.
    pub fn http_filter(&mut self, name: &str) -> &mut Value {
        named(&mut self.manager()["http_filters"], name)
    }

    /// The listener of this name.
    pub fn listener(&mut self, name: &str) -> &mut Value {
        named(&mut self.value["static_resources"]["listeners"], name)
    }

    /// One listener more.
    ///
    /// # Panics
    /// When the configuration has no list of listeners.
    pub fn add_listener(&mut self, listener: Value) {
        let listeners = self.value["static_resources"]["listeners"].as_array_mut();
        listeners.expect("listeners").push(listener);
    }

    /// The cluster of this name.
    pub fn cluster(&mut self, name: &str) -> &mut Value {
        named(&mut self.value["static_resources"]["clusters"], name)
    }

    /// The listeners as a file that Envoy watches, the rest told to watch `path`.
    pub(crate) fn split_listeners(&mut self, path: &Path) -> Value {
        if self.link == Link::Ecds {
            self.discover(&path.with_file_name("filters"));
        }
        let listeners = self.value["static_resources"]["listeners"].take();
        self.value["static_resources"]
            .as_object_mut()
            .expect("static resources")
            .remove("listeners");
        self.value["node"] = json!({ "id": "test", "cluster": "test" });
        self.value["dynamic_resources"] = json!({
            "lds_config": { "path_config_source": { "path": path }, "resource_api_version": "V3" },
        });
        let typed = listeners
            .as_array()
            .expect("listeners")
            .iter()
            .map(|listener| {
                let mut listener = listener.clone();
                listener["@type"] = json!("type.googleapis.com/envoy.config.listener.v3.Listener");
                listener
            });
        json!({ "resources": typed.collect::<Vec<_>>() })
    }

    /// Moves both Wasm filters into files of this directory, where Envoy discovers them.
    fn discover(&mut self, dir: &Path) {
        std::fs::create_dir_all(dir).expect("a directory for the filters");
        discovered(dir, self.http_filter("aforo"));
        let filters = &mut self.listener("aforo-link")["filter_chains"][0]["filters"];
        discovered(dir, named(filters, "aforo-link"));
    }

    fn has_gateway(&self) -> bool {
        let clusters = self.value["static_resources"]["clusters"].as_array();
        clusters.is_some_and(|all| all.iter().any(|it| it["name"] == Link::Webdis.cluster()))
    }

    fn way_out(&self) -> &'static str {
        if self.has_gateway() {
            Link::Webdis.cluster()
        } else {
            Link::Straight.cluster()
        }
    }

    fn port_of(&mut self, cluster: &str) -> &mut Value {
        let endpoint = &mut self.cluster(cluster)["load_assignment"]["endpoints"][0];
        let address = &mut endpoint["lb_endpoints"][0]["endpoint"]["address"];
        &mut address["socket_address"]["port_value"]
    }

    fn set(&mut self, pointer: &str, value: Value) {
        *self
            .value
            .pointer_mut(pointer)
            .unwrap_or_else(|| panic!("no {pointer}")) = value;
    }
}

/// YAML as JSON.
///
/// # Panics
/// When it is no YAML.
#[must_use]
pub fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("YAML")
}

/// Puts a filter's configuration into a file, and in its place where that is.
fn discovered(dir: &Path, filter: &mut Value) {
    let typed = filter["typed_config"].take();
    let (name, kind) = (filter["name"].clone(), typed["@type"].clone());
    let file = dir.join(format!("{}.json", name.as_str().expect("a name")));
    *filter = json!({
        "name": name,
        "config_discovery": {
            "config_source": {
                "path_config_source": { "path": file },
                "resource_api_version": "V3",
            },
            "type_urls": [kind],
        },
    });
    let resource = json!({
        "@type": "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig",
        "name": name,
        "typed_config": typed,
    });
    let draft = dir.join("draft");
    std::fs::write(&draft, json!({ "resources": [resource] }).to_string()).expect("write a filter");
    std::fs::rename(draft, file).expect("put it in place");
}

fn string_value(text: &str) -> Value {
    json!({ "@type": "type.googleapis.com/google.protobuf.StringValue", "value": text })
}

fn named<'v>(list: &'v mut Value, name: &str) -> &'v mut Value {
    let list = list
        .as_array_mut()
        .unwrap_or_else(|| panic!("no list to find {name} in"));
    let found = list.iter_mut().find(|item| item["name"] == name);
    found.unwrap_or_else(|| panic!("nothing is named {name}"))
}
