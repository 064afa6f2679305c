//! A whole Envoy configuration.

use super::{
    Failure, Plan, Store, Way,
    emit::{block, word},
    fill::{Values, fill},
    parts,
    place::Place,
};

/// The arguments of `aforo render envoy`.
#[derive(clap::Args)]
pub struct Arguments {
    /// A policy in YAML or JSON; `-` is standard input.
    #[arg(value_name = "POLICY")]
    file: String,
    #[command(flatten)]
    store: Store,
    /// Where clients connect.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:10000")]
    listen: Place,
    /// The administration page; whoever reaches it can stop Envoy.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9901")]
    admin: Place,
    /// Where requests go; more than one are taken in turn.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    upstream: Vec<Place>,
    /// Proxies in front of this one that are trusted to say who the client is.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    trusted_hops: u32,
    /// The filter's module, in a file at Envoy.
    #[arg(long, value_name = "FILE", default_value = "/etc/envoy/aforo.wasm")]
    module: String,
}

const ENVOY: &str = include_str!("templates/envoy.yaml");
const LINK_LISTENER: &str = include_str!("templates/link_listener.yaml");
const STATS_TAGS: &str = include_str!("../../../deploy/prometheus/stats-tags.yaml");

const INTERNAL_LISTENERS: &str = "\
# Makes `internal_listener` and `envoy_internal_address` known.
bootstrap_extensions:
- name: envoy.bootstrap.internal_listener
  typed_config:
    \"@type\": type.googleapis.com/envoy.extensions.bootstrap.internal_listener.v3.InternalListener
";

/// The configuration.
pub fn render(arguments: &Arguments) -> Result<String, Failure> {
    let plan = Plan::read(
        &arguments.file,
        &arguments.store,
        |_| "aforo-gateway".to_owned(),
        false,
    )?;
    let link = &plan.policy.redis.cluster;
    let (listener, clusters, internal) = match plan.way {
        Way::Gateway(gateway) => (
            String::new(),
            vec![parts::gateway_cluster(&plan, gateway)],
            "",
        ),
        Way::Proxy(_) | Way::Straight(_) => {
            let values = Values::default()
                .with("link", word(link))
                .with("behind_link", parts::behind_link(&plan, parts::REDIS));
            let clusters = vec![parts::link_cluster(link), parts::redis_cluster(&plan)];
            (
                fill(LINK_LISTENER, &values) + "\n",
                clusters,
                INTERNAL_LISTENERS,
            )
        }
    };
    let clusters: Vec<String> = clusters.iter().map(|cluster| item(cluster)).collect();
    let hops = match arguments.trusted_hops {
        0 => String::new(),
        hops => format!("xff_num_trusted_hops: {hops}"),
    };
    let values = Values::default()
        .with("picture", picture(&plan, arguments))
        .with("admin_host", word(&arguments.admin.host))
        .with("admin_port", arguments.admin.port.to_string())
        .with("stats_config", without_comments(STATS_TAGS))
        .with("bootstrap_extensions", internal)
        .with("listen_host", word(&arguments.listen.host))
        .with("listen_port", arguments.listen.port.to_string())
        .with("trusted_hops", hops)
        .with("module", word(&arguments.module))
        .with("policy", block(&plan.written))
        .with("link_listener", listener)
        .with("upstream_type", parts::discovery(&arguments.upstream))
        .with("upstream_endpoints", parts::endpoints(&arguments.upstream))
        .with("clusters", clusters.join("\n"));
    Ok(fill(ENVOY, &values).replace("\n\n\n", "\n\n"))
}

/// The way of a request, for whoever opens the file.
fn picture(plan: &Plan<'_>, arguments: &Arguments) -> String {
    let upstream: Vec<String> = arguments.upstream.iter().map(Place::authority).collect();
    let redis = match plan.way {
        Way::Proxy(places) => {
            let places: Vec<String> = places.iter().map(Place::authority).collect();
            format!(
                "internal listener, redis_proxy ─► Redis {}",
                places.join(", ")
            )
        }
        Way::Straight(place) => format!(
            "internal listener, tcp_proxy ─► Redis {}",
            place.authority()
        ),
        Way::Gateway(gateway) => format!("HTTP gateway {}", gateway.place.authority()),
    };
    format!(
        "#   client ─► {} ─► HTTP filter aforo ─► router ─► {}\n#                          └─► {redis}",
        arguments.listen.authority(),
        upstream.join(", "),
    )
}

/// Lines that may begin with comments, as an item of a list.
pub fn item(lines: &str) -> String {
    let mut out = String::new();
    let mut begun = false;
    for line in lines.lines() {
        let mark = match (begun, line.starts_with('#')) {
            (false, true) => "",
            (false, false) => {
                begun = true;
                "- "
            }
            (true, _) => "  ",
        };
        out.push_str(mark);
        out.push_str(line);
        out.push('\n');
    }
    out
}

fn without_comments(text: &str) -> String {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    lines.flat_map(|line| [line, "\n"]).collect()
}
