//! What stands between the client and the upstream.

use serde_json::{Value, json};
use support::config::{Config, Link};
use support::envoy::Envoy;
use support::mesh::policy;
use support::redis::Redis;
use support::stub::{Act, Stub, Words};
use support::{Dir, Module};

/// One row of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Only the router.
    NoFilter,
    /// A Wasm filter that does nothing: what the ratios are to.
    Noop,
    /// Envoy's local rate limit, which counts in each Envoy alone.
    LocalRateLimit,
    /// This filter, through `redis_proxy`.
    RedisProxy,
    /// This filter, straight to Redis.
    Straight,
}

/// All, in the order of the report.
pub const ALL: [Path; 5] = [
    Path::NoFilter,
    Path::Noop,
    Path::LocalRateLimit,
    Path::RedisProxy,
    Path::Straight,
];

impl Path {
    /// How the report calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoFilter => "no filter",
            Self::Noop => "Wasm filter that does nothing",
            Self::LocalRateLimit => "Envoy's local_ratelimit",
            Self::RedisProxy => "aforo through redis_proxy",
            Self::Straight => "aforo straight to Redis",
        }
    }

    /// An Envoy with one worker, its upstream inside itself.
    pub fn start(self, redis: &Redis) -> Envoy {
        let link = if self == Self::Straight {
            Link::Straight
        } else {
            Link::RedisProxy
        };
        let mut config = Config::shipped(link);
        config.redis_port(redis.port());
        upstream_inside(&mut config);
        match self {
            Self::NoFilter => drop(config.http_filters().remove(0)),
            Self::Noop => config.module(&Module::Noop.path()),
            Self::LocalRateLimit => config.http_filters()[0] = local_rate_limit(),
            Self::RedisProxy | Self::Straight => config.policy(&roomy()),
        }
        Envoy::start_in(Dir::temporary("bench"), &config, 1, &[])
    }

    /// That the path did what its name says: a filter that failed open would be fast.
    pub fn check(self, envoy: &Envoy, redis: &Redis) {
        let asked = redis.calls_of("evalsha") + redis.calls_of("eval");
        let counted = matches!(self, Self::RedisProxy | Self::Straight);
        let answer = support::client::get("/")
            .header("x-api-key", "check")
            .to(envoy.address());
        assert_eq!(answer.status, 200, "{self:?}");
        let asks = redis.calls_of("evalsha") + redis.calls_of("eval") - asked;
        assert_eq!(
            asks > 0,
            counted,
            "{self:?} asked Redis {asks} times for one request"
        );
        if counted {
            assert!(
                answer.header("x-ratelimit-remaining").is_some(),
                "{self:?}: {answer:?}"
            );
        }
    }
}

/// The command that the filter sends for one request.
pub fn command_of_a_request() -> Words {
    let stub = Stub::start(|_| Act::reply(b"-ERR only listening\r\n"));
    let mut config = Config::shipped(Link::Straight);
    config.redis_port(stub.port());
    config.policy(&roomy());
    upstream_inside(&mut config);
    let envoy = Envoy::start(&config, 1);
    let _ = support::client::get("/")
        .header("x-api-key", "client-0")
        .to(envoy.address());
    let asked = stub.asked();
    let script = asked
        .iter()
        .find(|words| words[0].eq_ignore_ascii_case(b"EVALSHA"));
    script.expect("an EVALSHA").clone()
}

/// A policy that never refuses, with the cost of one that may.
fn roomy() -> Value {
    let limits = json!([{
        "name": "per-key", "key": ["header:x-api-key"], "algorithm": "token-bucket",
        "rate": "1000000/1s", "burst": 1_000_000,
    }]);
    policy("deny", "1s", limits)
}

fn local_rate_limit() -> Value {
    json!({
        "name": "local",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
            "stat_prefix": "local",
            "token_bucket":
                { "max_tokens": 1_000_000, "tokens_per_fill": 1_000_000, "fill_interval": "0.05s" },
            "filter_enabled": { "default_value": { "numerator": 100 } },
            "filter_enforced": { "default_value": { "numerator": 100 } },
        },
    })
}

/// The upstream is a listener of the same Envoy, reached without a socket, that answers by itself.
fn upstream_inside(config: &mut Config) {
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "upstream",
        "route_config": { "virtual_hosts": [{ "name": "all", "domains": ["*"], "routes": [{
            "match": { "prefix": "/" },
            "direct_response": { "status": 200, "body": { "inline_string": "hello" } },
        }] }] },
        "http_filters": [{ "name": "envoy.filters.http.router", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
        } }],
    });
    let listener = json!({
        "name": "upstream",
        "internal_listener": {},
        "filter_chains": [{ "filters": [{
            "name": "envoy.filters.network.http_connection_manager", "typed_config": manager,
        }] }],
    });
    let endpoint =
        &mut config.cluster("upstream")["load_assignment"]["endpoints"][0]["lb_endpoints"][0];
    endpoint["endpoint"]["address"] =
        json!({ "envoy_internal_address": { "server_listener_name": "upstream" } });
    config.add_listener(listener);
}
