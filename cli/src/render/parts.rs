//! What Envoy and Istio get alike: clusters, and what stands behind the link.

use aforo::{policy::Topology, units::Micros};

use super::{
    Plan, Way,
    emit::word,
    fill::{Values, fill},
    place::{Gateway, Place},
};

/// Redis's cluster in a configuration of ours.
pub const REDIS: &str = "aforo-redis";

const LINK_CLUSTER: &str = include_str!("templates/link_cluster.yaml");
const REDIS_CLUSTER: &str = include_str!("templates/redis_cluster.yaml");
const NODES: &str = include_str!("templates/nodes.yaml");
const REDIS_PROXY: &str = include_str!("templates/redis_proxy.yaml");
const TCP_PROXY: &str = include_str!("templates/tcp_proxy.yaml");
const TLS: &str = include_str!("templates/tls.yaml");
const PASSWORD: &str = include_str!("templates/password.yaml");

const LATER: &str = "\
# When Redis is silent for this long its connection is dropped and made anew. Longer than the
# policy's `timeout`, which is what a request waits.
";
const SOONER: &str = "\
# When a node is silent for this long its connection is dropped and made anew. Shorter than the
# policy's `timeout`, which is what a request waits: redis_proxy answers in the order of the
# questions, so a silent node delays the answers of the others by up to this, and they must
# still be in time.
";

/// The network filter behind the link, as an item of a list.
pub fn behind_link(plan: &Plan<'_>, redis: &str) -> String {
    if matches!(plan.way, Way::Straight(_)) {
        return fill(TCP_PROXY, &Values::default().with("redis", word(redis)));
    }
    let cluster = plan.policy.redis.topology == Topology::Cluster;
    let redirection =
        "enable_redirection: true # a slot that moves, or has moved, is followed at once";
    let values = Values::default()
        .with("why_op_timeout", if cluster { SOONER } else { LATER })
        .with("op_timeout", seconds(patience(plan)))
        .with("redirection", if cluster { redirection } else { "" })
        .with("redis", word(redis));
    fill(REDIS_PROXY, &values)
}

/// The way into the internal listener.
pub fn link_cluster(link: &str) -> String {
    fill(LINK_CLUSTER, &Values::default().with("link", word(link)))
}

/// Redis's cluster.
pub fn redis_cluster(plan: &Plan<'_>) -> String {
    let (places, why) = match plan.way {
        Way::Proxy(places) if plan.policy.redis.topology == Topology::Cluster => (
            places,
            "# Redis Cluster. The endpoints are where to ask for the nodes; any of them will do, and the others\n\
             # are found.",
        ),
        Way::Proxy(places) => (places, "# Redis itself."),
        Way::Straight(place) => (std::slice::from_ref(place), "# Redis itself."),
        Way::Gateway(_) => return String::new(),
    };
    let Some(first) = places.first() else {
        return String::new();
    };
    let connect_timeout = seconds(connect_timeout(plan));
    let kind = if plan.policy.redis.topology == Topology::Cluster {
        fill(
            NODES,
            &Values::default().with("connect_timeout", connect_timeout),
        )
    } else {
        format!(
            "type: {}\nconnect_timeout: {connect_timeout}\n",
            discovery(places)
        )
    };
    let straight = matches!(plan.way, Way::Straight(_));
    let keepalive = "# A Redis host that vanishes without a word is noticed by the kernel.\n\
        upstream_connection_options: { tcp_keepalive: { keepalive_time: 10, keepalive_interval: 5, keepalive_probes: 3 } }";
    let tls = plan.store.redis_tls;
    let values = Values::default()
        .with("why", why)
        .with("name", REDIS)
        .with("kind", kind)
        .with("keepalive", if straight { keepalive } else { "" })
        .with("password", password(plan))
        .with(
            "transport_socket",
            if tls {
                socket(&plan.store.ca, first)
            } else {
                String::new()
            },
        )
        .with("endpoints", endpoints(places));
    fill(REDIS_CLUSTER, &values)
}

/// The cluster of an HTTP gateway.
pub fn gateway_cluster(plan: &Plan<'_>, gateway: &Gateway) -> String {
    let places = std::slice::from_ref(&gateway.place);
    let timeout = seconds(connect_timeout(plan));
    let tls = if gateway.tls {
        socket(&plan.store.ca, &gateway.place)
    } else {
        String::new()
    };
    let values = Values::default()
        .with("why", "# The HTTP gateway in front of Redis.")
        .with("name", word(&plan.policy.redis.cluster))
        .with(
            "kind",
            format!(
                "type: {}\nconnect_timeout: {timeout}\n{GATEWAY_CONNECTIONS}",
                discovery(places)
            ),
        )
        .with("transport_socket", tls)
        .with("endpoints", endpoints(places));
    fill(REDIS_CLUSTER, &values)
}

/// As many connections as decisions may be under way, none older than a gateway keeps an idle one, and
/// none for ever: `docs/gateways.md` says why.
const GATEWAY_CONNECTIONS: &str = "\
circuit_breakers:
  thresholds:
  - { max_connections: 4096, max_pending_requests: 4096, max_requests: 4096 }
typed_extension_protocol_options:
  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
    \"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
    common_http_protocol_options: { idle_timeout: 30s, max_requests_per_connection: 1000 }
    explicit_http_config: { http_protocol_options: {} }
";

/// How the hosts of a cluster are found.
pub fn discovery(places: &[Place]) -> &'static str {
    if places.iter().all(|place| place.ip().is_some()) {
        "STATIC"
    } else {
        "STRICT_DNS"
    }
}

/// The endpoints of a cluster, as items of a list.
pub fn endpoints(places: &[Place]) -> String {
    let each = places.iter().map(|place| {
        let host = word(&place.host);
        let port = place.port;
        format!("- endpoint: {{ address: {{ socket_address: {{ address: {host}, port_value: {port} }} }} }}\n")
    });
    each.collect()
}

/// The options that say Redis's password, when one was named.
pub fn password(plan: &Plan<'_>) -> String {
    let store = plan.store;
    let source = match (&store.redis_password_env, &store.redis_password_file) {
        (Some(name), _) => format!("{{ environment_variable: {} }}", word(name)),
        (None, Some(file)) => format!("{{ filename: {} }}", word(file)),
        (None, None) => return String::new(),
    };
    let user = store.redis_user.as_ref().map_or(String::new(), |user| {
        format!("auth_username: {{ inline_string: {} }}", word(user))
    });
    fill(
        PASSWORD,
        &Values::default()
            .with("user", user)
            .with("password", source),
    )
}

/// A transport socket that lets in nobody but this host.
fn socket(ca: &str, place: &Place) -> String {
    let host = word(&place.host);
    let (sni, san_type) = match place.ip() {
        Some(_) => (String::new(), "IP_ADDRESS"),
        None => (format!("sni: {host}"), "DNS"),
    };
    let values = Values::default()
        .with("sni", sni)
        .with("ca", word(ca))
        .with("san_type", san_type)
        .with("host", host);
    fill(TLS, &values)
}

/// How long Envoy waits for the answer of one Redis: see [`LATER`] and [`SOONER`].
fn patience(plan: &Plan<'_>) -> Micros {
    let timeout = plan.policy.redis.timeout.0;
    match plan.policy.redis.topology {
        Topology::Cluster => Micros(timeout.saturating_mul(3) / 4),
        Topology::Single => Micros(timeout.saturating_mul(5).max(500_000)),
    }
}

/// How long it waits for a connection.
fn connect_timeout(plan: &Plan<'_>) -> Micros {
    match plan.policy.redis.topology {
        Topology::Cluster => patience(plan),
        Topology::Single => Micros(250_000),
    }
}

/// A duration as Envoy reads it.
fn seconds(span: Micros) -> String {
    let (whole, part) = (span.0 / 1_000_000, span.0 % 1_000_000);
    let text = format!("{whole}.{part:06}");
    format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_in_seconds() {
        for (micros, text) in [
            (15_000, "0.015s"),
            (100_000, "0.1s"),
            (1_000_000, "1s"),
            (50_000_000, "50s"),
            (1_500_000, "1.5s"),
        ] {
            assert_eq!(seconds(Micros(micros)), text);
        }
    }
}
