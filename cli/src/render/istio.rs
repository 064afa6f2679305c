//! Resources for Istio: the plugin with the policy; and, unless the way to Redis is an HTTP gateway, what
//! gives the proxies the link that stock Envoy has no resource of Istio for.

use super::{
    Failure, Plan, Store, Way,
    emit::{block, word},
    fill::{Values, fill, indented},
    names::{Label, Module, Name},
    parts,
    place::{Gateway, Place},
};

/// The arguments of `aforo render istio`.
#[derive(clap::Args)]
pub struct Arguments {
    /// A policy in YAML or JSON; `-` is standard input.
    #[arg(value_name = "POLICY")]
    file: String,
    #[command(flatten)]
    store: Store,
    /// Redis is a service that the mesh knows, or will know by a ServiceEntry that is written too: its cluster
    /// is Istio's, with mutual TLS where the service has it.
    #[arg(long, conflicts_with = "redis_tls")]
    redis_service: bool,
    /// The module: an image (`oci://REGISTRY/NAME:TAG` or `@sha256:…`) or a file (`https://…`).
    #[arg(long, value_name = "URL")]
    module: Module,
    /// The SHA-256 of the image or file, 64 hexadecimal digits.
    #[arg(long, value_name = "HEX", value_parser = sha256)]
    sha256: Option<String>,
    /// The Secret that opens the registry, in the namespace of the plugin. It opens it for the plugin alone:
    /// Istio takes no Secret for what an EnvoyFilter names, so with a link to Redis the module has to be where
    /// proxies may fetch it without one.
    #[arg(long, value_name = "NAME")]
    pull_secret: Option<Name>,
    /// What the resources are called.
    #[arg(long, value_name = "NAME", default_value = "aforo")]
    name: Name,
    /// Where they go. Without a selector they are for all proxies there; in Istio's root namespace, for all of
    /// the mesh.
    #[arg(long, value_name = "NAMESPACE", default_value = "default")]
    namespace: Name,
    /// Only proxies of workloads with this label; all of them when given more than once.
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "gateway_api")]
    selector: Vec<Label>,
    /// Only the proxies of this Gateway of the Kubernetes Gateway API.
    #[arg(long, value_name = "NAME")]
    gateway_api: Option<Name>,
    /// Which proxies they are.
    #[arg(long, value_enum, default_value_t = Proxies::Sidecars)]
    on: Proxies,
    /// The resource that holds the policy: TrafficExtension follows WasmPlugin in Istio 1.30.
    #[arg(long, value_enum, default_value_t = Kind::WasmPlugin)]
    kind: Kind,
    /// Before Istio's own filters of this phase; left out, after all of them, so that what they refuse is not
    /// counted.
    #[arg(long, value_enum)]
    phase: Option<Phase>,
    /// What becomes of requests when the module cannot run; Istio before 1.27 does not know `reload`.
    #[arg(long, value_enum, default_value_t = Strategy::Reload)]
    failure: Strategy,
}

/// Which proxies of the mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Proxies {
    /// Those beside workloads, for the requests that arrive at them.
    Sidecars,
    /// Ingress and egress gateways.
    Gateways,
}

/// The kinds of a plugin's resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Of all versions of Istio.
    WasmPlugin,
    /// Of Istio 1.30 and later.
    TrafficExtension,
}

/// Places among Istio's filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Phase {
    /// Before authentication: no claim of a token is known yet.
    Authn,
    /// After authentication, before authorization.
    Authz,
    /// After authorization.
    Stats,
}

/// What Istio and Envoy do about a module that cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Strategy {
    /// A module that trapped is replaced; one that cannot be fetched refuses requests.
    Reload,
    /// Requests pass without a limit.
    Open,
    /// Requests are refused.
    Close,
}

const WASM_PLUGIN: &str = include_str!("templates/wasm_plugin.yaml");
const TRAFFIC_EXTENSION: &str = include_str!("templates/traffic_extension.yaml");
const ENVOY_FILTER: &str = include_str!("templates/envoy_filter.yaml");
const SERVICE_ENTRY: &str = include_str!("templates/service_entry.yaml");
const DESTINATION_RULE: &str = include_str!("templates/destination_rule.yaml");

/// The resources, one document each.
pub fn render(arguments: &Arguments) -> Result<String, Failure> {
    let cluster_of = |gateway: &Gateway| outbound(&gateway.place);
    let plan = Plan::read(&arguments.file, &arguments.store, cluster_of, true)?;
    fits(arguments, &plan)?;
    let mut documents = vec![plugin(arguments, &plan)];
    match plan.way {
        Way::Gateway(gateway) => documents.extend(known(arguments, gateway)),
        Way::Proxy(places) => documents.extend(link(arguments, &plan, places)),
        Way::Straight(place) => {
            documents.extend(link(arguments, &plan, std::slice::from_ref(place)));
        }
    }
    Ok(format!("\n{}", documents.join("---\n")))
}

/// What the command line cannot say by itself.
fn fits(arguments: &Arguments, plan: &Plan<'_>) -> Result<(), Failure> {
    let by_istio: Vec<&Place> = match plan.way {
        Way::Gateway(gateway) => vec![&gateway.place],
        Way::Proxy(places) if arguments.redis_service => places.iter().collect(),
        Way::Straight(place) if arguments.redis_service => vec![place],
        Way::Proxy(_) | Way::Straight(_) => Vec::new(),
    };
    if let Some(place) = by_istio
        .iter()
        .find(|place| !place.host.contains('.') || place.ip().is_some())
    {
        return Err(Failure::usage(format!(
            "{}: Istio wants a service's whole name, such as redis.cache.svc.cluster.local",
            place.authority()
        )));
    }
    if arguments.redis_service && plan.policy.redis.topology == aforo::policy::Topology::Cluster {
        return Err(Failure::usage(
            "the nodes of a Redis Cluster are found by Envoy itself: leave --redis-service away",
        ));
    }
    if arguments.redis_service && matches!(plan.way, Way::Gateway(_)) {
        return Err(Failure::usage(
            "--redis-service is for a link to Redis; the policy's is an HTTP gateway",
        ));
    }
    if matches!(plan.way, Way::Gateway(_)) {
        return Ok(());
    }
    if arguments.module.is_file() {
        return Err(Failure::usage(
            "--module file://… has no link: of a file Istio gives the plugin an environment variable that \
             its EnvoyFilter cannot give the link, so the two are never in one VM; use an image or https://",
        ));
    }
    if !arguments.module.is_fixed() && arguments.sha256.is_none() {
        eprintln!(
            "warning: {}: a module that changes under its name may be fetched twice and differ, and then there \
             is no link; name a tag that stays or a digest",
            arguments.module
        );
    }
    if arguments.pull_secret.is_some() {
        eprintln!(
            "warning: --pull-secret opens the registry for the plugin and not for the link, whose module is \
             named by an EnvoyFilter; a registry that wants it gives no link"
        );
    }
    Ok(())
}

fn plugin(arguments: &Arguments, plan: &Plan<'_>) -> String {
    let mut module = format!("url: {}\n", word(arguments.module.as_str()));
    if let Some(sha256) = &arguments.sha256 {
        module.push_str(&format!("sha256: {}\n", word(sha256)));
    }
    if let Some(secret) = &arguments.pull_secret {
        module.push_str(&format!("imagePullSecret: {secret}\n"));
    }
    let arrives = "# Only what arrives: a request between two sidecars is counted once, at its destination.\n\
                   match: [{ mode: SERVER }]\n";
    let phase = arguments.phase.map(|phase| match phase {
        Phase::Authn => "phase: AUTHN",
        Phase::Authz => "phase: AUTHZ",
        Phase::Stats => "phase: STATS",
    });
    let (strategy, why) = match arguments.failure {
        Strategy::Reload => (
            "FAIL_RELOAD",
            "# A trapped VM is replaced by the next request that needs it.",
        ),
        Strategy::Open => (
            "FAIL_OPEN",
            "# Requests pass without a limit when the module cannot run.",
        ),
        Strategy::Close => (
            "FAIL_CLOSE",
            "# Requests are refused when the module cannot run.",
        ),
    };
    let values = Values::default()
        .with("name", arguments.name.as_str())
        .with("namespace", arguments.namespace.as_str())
        .with("who", selector(arguments, "selector", "matchLabels"))
        .with(
            "match",
            if arguments.on == Proxies::Sidecars {
                arrives
            } else {
                ""
            },
        )
        .with("phase", phase.unwrap_or_default())
        .with("module", module)
        .with("why_strategy", why)
        .with("strategy", strategy)
        .with("policy", block(&plan.written));
    let template = match arguments.kind {
        Kind::WasmPlugin => WASM_PLUGIN,
        Kind::TrafficExtension => TRAFFIC_EXTENSION,
    };
    fill(template, &values)
}

/// The link, and Redis as a service when it is one.
fn link(arguments: &Arguments, plan: &Plan<'_>, places: &[Place]) -> Vec<String> {
    let context = match arguments.on {
        Proxies::Sidecars => "SIDECAR_INBOUND",
        Proxies::Gateways => "GATEWAY",
    };
    let service = places.first().filter(|_| arguments.redis_service);
    let redis = service.map_or(parts::REDIS.to_owned(), outbound);
    let redis_cluster = match service {
        None => patch(
            &format!("match: {{ context: {context} }}"),
            "ADD",
            &parts::redis_cluster(plan),
        ),
        Some(_) => logged_in(arguments, plan, &redis),
    };
    let name = arguments.name.as_str();
    let policy = match arguments.failure {
        Strategy::Reload => "FAIL_RELOAD",
        Strategy::Open => "FAIL_OPEN",
        Strategy::Close => "FAIL_CLOSED",
    };
    let link = &plan.policy.redis.cluster;
    let values = Values::default()
        .with("name", name)
        .with("namespace", arguments.namespace.as_str())
        .with("who", selector(arguments, "workloadSelector", "labels"))
        .with("context", context)
        .with("link", word(link))
        .with("resource", format!("{}.{name}-link", arguments.namespace))
        .with("behind_link", parts::behind_link(plan, &redis))
        .with("url", word(&arguments.module.fetched()))
        // Istio's word for "none was given".
        .with("sha256", word(arguments.sha256.as_deref().unwrap_or("nil")))
        .with("policy", policy)
        .with("link_cluster", parts::link_cluster(link))
        .with("redis_cluster", redis_cluster);
    let mut documents = vec![fill(ENVOY_FILTER, &values)];
    documents
        .extend(service.and_then(|place| entry(arguments, "redis", place, ("tcp-redis", "TCP"))));
    documents
}

/// Lets Istio's own cluster of Redis say a password.
fn logged_in(arguments: &Arguments, plan: &Plan<'_>, cluster: &str) -> String {
    let password = parts::password(plan);
    if password.is_empty() {
        return String::new();
    }
    let context = match arguments.on {
        Proxies::Sidecars => "SIDECAR_OUTBOUND",
        Proxies::Gateways => "GATEWAY",
    };
    let matched = format!(
        "match: {{ context: {context}, cluster: {{ name: {} }} }}",
        word(cluster)
    );
    patch(&matched, "MERGE", &password)
}

/// One patch of a cluster.
fn patch(matched: &str, operation: &str, value: &str) -> String {
    let value = indented(value, 6);
    format!(
        "- applyTo: CLUSTER\n  {matched}\n  patch:\n    operation: {operation}\n    value:\n{value}"
    )
}

/// What makes an HTTP gateway known to the mesh.
fn known(arguments: &Arguments, gateway: &Gateway) -> Vec<String> {
    let place = &gateway.place;
    let mut documents: Vec<String> = entry(arguments, "gateway", place, ("http-gateway", "HTTP"))
        .into_iter()
        .collect();
    if gateway.tls {
        let values = Values::default()
            .with("name", format!("{}-gateway", arguments.name))
            .with("namespace", arguments.namespace.as_str())
            .with("host", word(&place.host))
            .with("ca", word(&arguments.store.ca));
        documents.push(fill(DESTINATION_RULE, &values));
    }
    documents
}

/// A ServiceEntry, unless the host is a service of Kubernetes.
fn entry(arguments: &Arguments, what: &str, place: &Place, port: (&str, &str)) -> Option<String> {
    if place.host.contains(".svc.") {
        return None;
    }
    let values = Values::default()
        .with("name", format!("{}-{what}", arguments.name))
        .with("namespace", arguments.namespace.as_str())
        .with("host", word(&place.host))
        .with("port", place.port.to_string())
        .with("port_name", port.0)
        .with("protocol", port.1);
    Some(fill(SERVICE_ENTRY, &values))
}

/// Whose proxies are meant.
fn selector(arguments: &Arguments, field: &str, labels: &str) -> String {
    if let Some(name) = &arguments.gateway_api {
        return format!(
            "targetRefs:\n- {{ group: gateway.networking.k8s.io, kind: Gateway, name: {name} }}\n"
        );
    }
    if arguments.selector.is_empty() {
        return String::new();
    }
    let mut lines = format!("{field}:\n  {labels}:\n");
    for label in &arguments.selector {
        lines.push_str(&format!(
            "    {}: {}\n",
            word(&label.key),
            word(&label.value)
        ));
    }
    lines
}

/// What Istio calls the cluster of a service.
fn outbound(place: &Place) -> String {
    format!("outbound|{}||{}", place.port, place.host)
}

fn sha256(text: &str) -> Result<String, String> {
    let digits = text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    digits
        .then(|| text.to_owned())
        .ok_or_else(|| "accepted are 64 digits of 0-9 and a-f".to_owned())
}
