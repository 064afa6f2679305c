//! What stands while a scenario runs: a Redis, an Envoy with the filter, traffic, and the ways to break
//! each of them.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use redis::{Client, Connection, FromRedisValue, RedisResult};
use serde_json::{Value, json};
use support::config::{Config, Link};
use support::envoy::Envoy;
use support::gateway::Gateway;
use support::mesh::through;
use support::redis::Redis;
use support::{Dir, Module};

use crate::keys;
use crate::load::Load;
use crate::meddler::Meddler;
use crate::network::Network;
use crate::sample::Stream;

/// What opens the debug header, by which the traffic knows who decided.
const DEBUG_SECRET: &str = "chaos-chaos-chaos";

/// How a run is to be.
#[derive(Clone, Debug)]
pub struct Setting {
    /// What lies behind the link.
    pub link: Link,
    /// Worker threads of Envoy.
    pub workers: usize,
    /// The answers to an outage that are asked for, at once, each by a limit of its own.
    pub streams: Vec<Stream>,
    /// Requests each second for each of them.
    pub rate: u32,
    /// How long something is broken, about.
    pub span: Duration,
    /// The deadline of a decision.
    pub deadline: Duration,
}

/// What a scenario changes before anything starts.
#[derive(Default)]
pub struct Preparation {
    /// More words on Redis's command line.
    pub redis: Vec<&'static str>,
    /// The password that Redis wants.
    pub password: Option<&'static str>,
    /// What stands between Envoy and Redis.
    pub between: Between,
    /// More changes to Envoy's configuration.
    pub change: Option<fn(&mut Config)>,
    /// The module.
    pub module: Option<Module>,
}

/// What stands between Envoy and Redis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Between {
    /// Nothing.
    #[default]
    Nothing,
    /// A [`Meddler`].
    Meddler,
    /// A [`Network`], and a meddler at its far end.
    Network,
}

/// See the module.
pub struct Stage {
    /// The Redis.
    pub redis: Redis,
    /// The HTTP gateway, where the way to Redis leads through one.
    pub gateway: Option<Gateway>,
    /// Between Envoy and what it talks to, when the scenario wants it.
    pub meddler: Option<Meddler>,
    /// Between Envoy and the meddler, likewise.
    pub network: Option<Network>,
    /// The Envoys; traffic goes to the last one.
    pub envoys: Vec<Envoy>,
    /// What they were started with.
    pub config: Config,
    /// The traffic.
    pub load: Load,
    /// When Redis lost its counts.
    pub losses: Vec<Instant>,
    /// The setting.
    pub setting: Setting,
    password: Option<&'static str>,
    admin: Option<Connection>,
}

impl Stage {
    /// Starts everything and the traffic.
    ///
    /// # Panics
    /// When a part does not start.
    #[must_use]
    pub fn start(setting: &Setting, preparation: &Preparation) -> Self {
        let mut words = preparation.redis.clone();
        if let Some(password) = preparation.password {
            words.extend(["--requirepass", password]);
        }
        let redis = Redis::start_in(Dir::temporary("redis"), &words);
        let gateway = Gateway::start(setting.link, redis.port());
        let port = gateway.as_ref().map_or(redis.port(), Gateway::port);
        let (meddler, network) = match preparation.between {
            Between::Nothing => (None, None),
            Between::Meddler => (Some(Meddler::to(port)), None),
            Between::Network => {
                let (network, listener) = Network::new().expect("a network");
                (Some(Meddler::beyond(listener, port)), Some(network))
            }
        };
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let address = meddler.as_ref().map_or(loopback, Meddler::address);
        let config = config(setting, preparation, address);
        let envoy = Envoy::start(&config, setting.workers);
        let streams = setting.streams.clone();
        let load = Load::start(
            envoy.address(),
            keys::total_rate(setting.rate, streams.len()),
            vec![("x-aforo-debug", DEBUG_SECRET)],
            keys::asks(streams),
        );
        let mut stage = Self {
            redis,
            gateway,
            meddler,
            network,
            envoys: vec![envoy],
            config,
            load,
            losses: Vec::new(),
            setting: setting.clone(),
            password: preparation.password,
            admin: None,
        };
        stage.reconnect();
        stage
    }

    /// The Envoy that gets the traffic.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn envoy(&self) -> &Envoy {
        self.envoys.last().expect("an Envoy")
    }

    /// The meddler.
    ///
    /// # Panics
    /// When the scenario did not ask for one.
    #[must_use]
    pub fn meddler(&self) -> &Meddler {
        self.meddler.as_ref().expect("a meddler was asked for")
    }

    /// The network.
    ///
    /// # Panics
    /// When the scenario did not ask for one.
    #[must_use]
    pub fn network(&self) -> &Network {
        self.network.as_ref().expect("a network was asked for")
    }

    /// How long something is broken, about.
    #[must_use]
    pub fn span(&self) -> Duration {
        self.setting.span
    }

    /// Lets time pass.
    pub fn wait(&self, time: Duration) {
        std::thread::sleep(time);
    }

    /// Tells Redis something, over a connection that is older than any fault.
    ///
    /// # Panics
    /// When Redis answers with an error or not at all.
    pub fn tell<T: FromRedisValue>(&mut self, words: &[&str]) -> T {
        self.try_tell(words)
            .unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// The same where an error is no surprise.
    ///
    /// # Errors
    /// Redis's, or the connection's.
    ///
    /// # Panics
    /// When Redis was never reached.
    pub fn try_tell<T: FromRedisValue>(&mut self, words: &[&str]) -> RedisResult<T> {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(*word);
        }
        command.query(self.admin.as_mut().expect("a connection to Redis"))
    }

    /// Redis is new, empty or not: reaches it anew.
    ///
    /// # Panics
    /// When it does not let us in.
    pub fn reconnect(&mut self) {
        let limit = Duration::from_secs(10);
        let login = self.password.map_or_else(String::new, |p| format!(":{p}@"));
        let url = format!("redis://{login}127.0.0.1:{}", self.redis.port());
        let client = Client::open(url).expect("a Redis address");
        let connection = client
            .get_connection_with_timeout(limit)
            .expect("a connection to Redis");
        connection.set_read_timeout(Some(limit)).expect("a timeout");
        self.admin = Some(connection);
    }

    /// Redis loses its counts now.
    pub fn note_loss(&mut self) {
        self.losses.push(Instant::now());
    }

    /// Puts a changed configuration in place of the running one.
    ///
    /// # Panics
    /// When Envoy refuses it.
    pub fn reload(&self, change: impl FnOnce(&mut Config)) {
        let mut config = self.config.clone();
        change(&mut config);
        assert!(self.envoy().reload(&config), "Envoy takes the change");
    }

    /// The policy of all scenarios, its link's cluster by this name.
    #[must_use]
    pub fn policy(&self, cluster: &str) -> Value {
        policy(&self.setting, cluster, None)
    }
}

fn config(setting: &Setting, preparation: &Preparation, redis: SocketAddr) -> Config {
    let mut config = Config::shipped(setting.link);
    let straight = setting.link == Link::Straight;
    let password = preparation.password;
    let policy = policy(setting, "aforo-link", password.filter(|_| straight));
    config.policy(&through(setting.link, policy));
    if let Some(password) = password.filter(|_| !straight) {
        config.redis_proxy_password(password);
    }
    config.module(&preparation.module.unwrap_or(Module::Aforo).path());
    config.redis_addresses(&[redis]);
    routes(&mut config);
    if let Some(change) = preparation.change {
        change(&mut config);
    }
    config
}

/// One limit for each answer to an outage.
fn policy(setting: &Setting, cluster: &str, password: Option<&str>) -> Value {
    let limits: Vec<Value> = setting
        .streams
        .iter()
        .map(|stream| {
            json!({
                "name": stream.word(), "when": { "path": stream.path() },
                "key": ["header:x-api-key"], "algorithm": "sliding-log",
                "rate": format!("{}/1h", keys::LIMIT), "outage": stream.word(),
            })
        })
        .collect();
    let timeout = format!("{}ms", setting.deadline.as_millis());
    let mut policy = json!({
        "redis": { "cluster": cluster, "timeout": timeout },
        "reply": { "debug_secret": DEBUG_SECRET },
        "limits": limits,
    });
    if let Some(password) = password {
        policy["redis"]["password"] = json!(password);
    }
    policy
}

/// Envoy answers every request itself; on one path the filter is not asked.
fn routes(config: &mut Config) {
    let answer = json!({ "status": 200, "body": { "inline_string": "ok" } });
    config.manager()["route_config"]["virtual_hosts"][0]["routes"] = json!([
        {
            "match": { "prefix": Stream::Control.path() },
            "direct_response": answer,
            "typed_per_filter_config": {
                "aforo": {
                    "@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig",
                    "disabled": true,
                },
            },
        },
        { "match": { "prefix": "/" }, "direct_response": answer },
    ]);
}
