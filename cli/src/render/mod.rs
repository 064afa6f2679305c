//! `aforo render`: a policy and where Redis is → everything that a proxy needs, so that nobody edits YAML
//! by hand.

mod emit;
mod envoy;
mod fill;
mod istio;
mod names;
mod parts;
mod place;

use std::process::ExitCode;

use aforo::policy::{Link, Policy, Topology};

use self::place::{Gateway, Place};
use crate::{
    REFUSED, UNREADABLE, source,
    yaml::{self, Value, Yaml},
};

/// What to write.
#[derive(clap::Subcommand)]
pub enum Arguments {
    /// A whole configuration for one Envoy.
    Envoy(envoy::Arguments),
    /// Resources for Istio: the plugin, and what gives its proxies a link to Redis.
    Istio(istio::Arguments),
}

/// Writes it to standard output.
pub fn run(arguments: &Arguments) -> ExitCode {
    let written = match arguments {
        Arguments::Envoy(arguments) => envoy::render(arguments),
        Arguments::Istio(arguments) => istio::render(arguments),
    };
    match written {
        Ok(text) => {
            print!("{}{text}", header());
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{}", failure.text);
            ExitCode::from(failure.code)
        }
    }
}

/// By which command a file was written, so that it can be written again.
fn header() -> String {
    let words = std::env::args().skip(1).map(|word| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            return word;
        }
        format!("'{}'", word.replace('\'', "'\\''").replace('\n', " "))
    });
    let command: Vec<String> = words.collect();
    format!(
        "# aforo {}\n#\n# wrote this. What is changed here by hand is lost when it is written again.\n",
        command.join(" ")
    )
}

/// Where Redis is, and how it is spoken to.
#[derive(clap::Args)]
pub struct Store {
    /// Redis; for a Redis Cluster (`topology: cluster`) any of its nodes, as often as there are some to name.
    #[arg(long, value_name = "HOST:PORT")]
    redis: Vec<Place>,
    /// The HTTP gateway in front of Redis, for `link: webdis` and `link: upstash`.
    #[arg(long, value_name = "[https://]HOST[:PORT]")]
    gateway: Option<Gateway>,
    /// Go straight to Redis instead of through Envoy's redis_proxy: faster, one connection per worker; with a
    /// password, it is the policy's `redis.password`.
    #[arg(long)]
    straight: bool,
    /// Speak TLS to Redis.
    #[arg(long)]
    redis_tls: bool,
    /// The certificate authorities that vouch for Redis or the gateway, in a file at the proxy.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/ssl/certs/ca-certificates.crt"
    )]
    ca: String,
    /// The user of Redis's access lists.
    #[arg(long, value_name = "NAME")]
    redis_user: Option<String>,
    /// The environment variable of the proxy that holds Redis's password.
    #[arg(long, value_name = "VARIABLE", conflicts_with = "redis_password_file")]
    redis_password_env: Option<String>,
    /// The file at the proxy that holds Redis's password and nothing else.
    #[arg(long, value_name = "FILE")]
    redis_password_file: Option<String>,
}

/// Why nothing was written.
pub struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    /// The command line does not fit the policy.
    fn usage(text: impl Into<String>) -> Self {
        Self {
            code: UNREADABLE,
            text: format!("error: {}", text.into()),
        }
    }
}

/// A checked policy and the way to Redis that it names.
pub struct Plan<'a> {
    policy: Policy,
    /// The policy as it was written.
    written: Yaml,
    way: Way<'a>,
    store: &'a Store,
}

/// How commands reach Redis.
enum Way<'a> {
    /// Through the link and redis_proxy.
    Proxy(&'a [Place]),
    /// Through the link and tcp_proxy.
    Straight(&'a Place),
    /// By HTTP.
    Gateway(&'a Gateway),
}

impl<'a> Plan<'a> {
    /// Reads the policy of a file. `gateway_cluster` is what the proxy calls the cluster of an HTTP gateway;
    /// with `always` also when the policy says otherwise.
    fn read(
        file: &str,
        store: &'a Store,
        gateway_cluster: impl Fn(&Gateway) -> String,
        always: bool,
    ) -> Result<Self, Failure> {
        let unreadable = |text: String| Failure {
            code: UNREADABLE,
            text: format!("{file}: {text}"),
        };
        let sources = source::of(file).map_err(&unreadable)?;
        let [source] = &sources[..] else {
            let number = sources.len();
            return Err(unreadable(format!("it holds {number} policies, not one")));
        };
        let mut written = yaml::documents(source.json())
            .ok()
            .and_then(|documents| documents.into_iter().next())
            .ok_or_else(|| unreadable("it holds no policy".to_owned()))?;
        if by_http(&written) {
            let Some(gateway) = &store.gateway else {
                return Err(Failure::usage(
                    "the policy's link is an HTTP gateway: say where it is, with --gateway",
                ));
            };
            for (name, value) in [
                ("cluster", gateway_cluster(gateway)),
                ("authority", gateway.place.authority()),
            ] {
                let known = written.get("redis").and_then(|redis| redis.get(name));
                if known.is_none() || (always && name == "cluster") {
                    set(&mut written, "redis", name, &value);
                }
            }
        }
        let (policy, warnings) =
            Policy::from_json(written.json().as_bytes()).map_err(|errors| Failure {
                code: REFUSED,
                text: format!("{file}: the policy is refused:\n{errors}"),
            })?;
        for warning in warnings {
            eprintln!("{file}: warning: {warning}");
        }
        let way = way(&policy, store).map_err(Failure::usage)?;
        Ok(Self {
            policy,
            written,
            way,
            store,
        })
    }
}

/// The way that the policy and the command line name together.
fn way<'a>(policy: &Policy, store: &'a Store) -> Result<Way<'a>, &'static str> {
    let redis = &policy.redis;
    let password = store.redis_password_env.is_some() || store.redis_password_file.is_some();
    if redis.link == Link::Higress {
        return Err(
            "nothing is rendered for `link: higress`: its plugins are configured in Higress",
        );
    }
    if redis.link.is_gateway() {
        let stray = !store.redis.is_empty() || store.straight || store.redis_tls || password;
        return match &store.gateway {
            _ if stray => {
                Err("the policy's link is an HTTP gateway: give --gateway and nothing of Redis")
            }
            Some(gateway) => Ok(Way::Gateway(gateway)),
            None => Err("the policy's link is an HTTP gateway: say where it is, with --gateway"),
        };
    }
    if store.gateway.is_some() {
        return Err(
            "--gateway is for `link: webdis` and `link: upstash`; the policy's link is envoy",
        );
    }
    if store.redis_user.is_some() && !password {
        return Err("--redis-user wants --redis-password-env or --redis-password-file beside it");
    }
    match (&store.redis[..], store.straight, redis.topology) {
        ([], ..) => Err("say where Redis is, with --redis HOST:PORT"),
        (_, true, Topology::Cluster) => {
            Err("a Redis Cluster wants redis_proxy: leave --straight away")
        }
        ([_, _, ..], _, Topology::Single) => {
            Err("more than one --redis wants `topology: cluster` in the policy's redis section")
        }
        (_, true, _) if password => {
            Err("straight to Redis the filter says the password: set redis.password in the policy")
        }
        (_, false, _) if redis.password.is_some() => Err(
            "behind redis_proxy the policy's redis.password is not used: remove it, and give \
             --redis-password-env or --redis-password-file",
        ),
        ([one], true, _) => Ok(Way::Straight(one)),
        (all, ..) => Ok(Way::Proxy(all)),
    }
}

/// Whether a policy says that its link is an HTTP gateway.
fn by_http(written: &Yaml) -> bool {
    let link = written.get("redis").and_then(|redis| redis.get("link"));
    link.is_some_and(|link| link.is("webdis") || link.is("upstash"))
}

/// Sets a text in a section, which is made when it is not there.
fn set(yaml: &mut Yaml, section: &str, name: &str, text: &str) {
    let line = yaml.line;
    let here = |value| Yaml { line, value };
    let word = |text: &str| {
        here(Value::Text {
            text: text.to_owned(),
            boolean: false,
        })
    };
    let Value::Map(sections) = &mut yaml.value else {
        return;
    };
    if !sections.iter().any(|(key, _)| key.is(section)) {
        sections.insert(0, (word(section), here(Value::Map(Vec::new()))));
    }
    for (_, value) in sections.iter_mut().filter(|(key, _)| key.is(section)) {
        let Value::Map(map) = &mut value.value else {
            continue;
        };
        map.retain(|(key, _)| !key.is(name));
        map.push((word(name), word(text)));
    }
}
