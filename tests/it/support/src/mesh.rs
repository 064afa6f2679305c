//! The whole: one Redis, some Envoys with the filter, one upstream.

use std::fs::File;
use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::config::{Config, Link};
use crate::echo::Echo;
use crate::envoy::Envoy;
use crate::gateway::{Gateway, TOKEN};
use crate::redis::Redis;
use crate::store::{self, Store};
use crate::{Module, lock, root};

/// How a mesh is to be.
#[derive(Clone, Debug)]
pub struct Plan {
    link: Link,
    policy: Value,
    envoys: usize,
    workers: usize,
    module: Module,
    redis_port: Option<u16>,
    gateway_port: Option<u16>,
    patient: bool,
    change: fn(&mut Config),
}

/// A mesh with this behind its links and this policy: one Envoy with one worker.
#[must_use]
pub fn mesh(link: Link, policy: Value) -> Plan {
    Plan {
        link,
        policy,
        envoys: 1,
        workers: 1,
        module: Module::Aforo,
        redis_port: None,
        gateway_port: None,
        patient: false,
        change: |_| {},
    }
}

/// A policy that asks the shipped link's Redis: what happens in an outage, how long a request waits for
/// its verdict, and the limits.
#[must_use]
pub fn policy(outage: &str, timeout: &str, limits: Value) -> Value {
    json!({
        "redis": { "cluster": "aforo-link", "timeout": timeout },
        "outage": outage,
        "limits": limits,
    })
}

/// One limit by the header `x-api-key`.
#[must_use]
pub fn per_key(algorithm: &str, rate: &str) -> Value {
    json!({
        "name": "per-key", "key": ["header:x-api-key"], "missing": ["ip"],
        "algorithm": algorithm, "rate": rate,
    })
}

/// A policy made for the internal link, as it reads for another way to Redis.
#[must_use]
pub fn through(link: Link, mut policy: Value) -> Value {
    let redis = &mut policy["redis"];
    let (name, secret) = match link {
        Link::RedisProxy | Link::Straight | Link::Ecds => return policy,
        Link::Cluster => {
            redis["topology"] = json!("cluster");
            return policy;
        }
        Link::Webdis => ("webdis", None),
        Link::Upstash => ("upstash", Some(("token", TOKEN))),
    };
    redis["link"] = json!(name);
    if redis["cluster"] == "aforo-link" {
        redis["cluster"] = json!(link.cluster());
    }
    if let Some((field, secret)) = secret {
        redis[field] = json!(secret);
    }
    policy
}

impl Plan {
    /// With an HTTP gateway at this port that a test brings itself, in the place of a real one.
    #[must_use]
    pub fn gateway_at(self, port: u16) -> Self {
        Self {
            gateway_port: Some(port),
            ..self
        }
    }

    /// With this many Envoys, alike but for their ports.
    #[must_use]
    pub fn envoys(self, envoys: usize) -> Self {
        Self { envoys, ..self }
    }

    /// With this many worker threads in each Envoy.
    #[must_use]
    pub fn workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    /// With another build of the module.
    #[must_use]
    pub fn module(self, module: Module) -> Self {
        Self { module, ..self }
    }

    /// With Envoy's Redis at this port: a stub, or a relay to the mesh's own.
    #[must_use]
    pub fn redis_at(self, port: u16) -> Self {
        Self {
            redis_port: Some(port),
            ..self
        }
    }

    /// Whatever the policy's timeout, with an Envoy that waits for Redis as long as a busy machine needs.
    #[must_use]
    pub fn patient(self) -> Self {
        Self {
            patient: true,
            ..self
        }
    }

    /// With more changes to the configuration of every Envoy.
    #[must_use]
    pub fn change(self, change: fn(&mut Config)) -> Self {
        Self { change, ..self }
    }

    /// Starts it, beside a Redis that runs.
    #[must_use]
    pub fn start_with(self, redis: Redis) -> Mesh {
        let port = self.redis_port.unwrap_or(redis.port());
        self.start_on(redis, &[port])
    }

    /// Starts it, beside whatever answers as Redis at these ports.
    #[must_use]
    pub fn start_on<R>(self, redis: R, ports: &[u16]) -> Mesh<R> {
        let turn = turn();
        let echo = Echo::start();
        let gateway = match (self.gateway_port, ports) {
            (None, [redis]) => Gateway::start(self.link, *redis),
            _ => None,
        };
        let next = gateway.as_ref().map(Gateway::port).or(self.gateway_port);
        let next = next.map_or(ports.to_vec(), |port| vec![port]);
        let config = self.config_at(&next, echo.port());
        let envoys = (0..self.envoys)
            .map(|_| Envoy::start(&config, self.workers))
            .collect();
        Mesh {
            envoys,
            echo,
            gateway,
            redis,
            config,
            _turn: turn,
        }
    }

    /// Starts it beside what its way leads to, one Redis or a cluster of them, once all of that answers.
    #[must_use]
    pub fn start_whole(mut self) -> Mesh<Store> {
        let store = Store::start(self.link);
        if matches!(store, Store::Cluster(_)) {
            let limits = self.policy["limits"].as_array_mut();
            limits.expect("limits").push(store::probe());
        }
        let ports = store.ports();
        let mesh = self.start_on(store, &ports);
        if matches!(mesh.redis, Store::Cluster(_)) {
            store::until_every_shard_answers(&mesh.addresses());
            mesh.redis.flush();
        }
        mesh
    }

    /// Starts it.
    #[must_use]
    pub fn start(self) -> Mesh {
        self.start_with(Redis::start())
    }

    /// The configuration of each Envoy, whose Redis, or HTTP gateway to it, is at that port.
    #[must_use]
    pub fn config(&self, redis_port: u16, upstream_port: u16) -> Config {
        self.config_at(&[redis_port], upstream_port)
    }

    fn config_at(&self, redis_ports: &[u16], upstream_port: u16) -> Config {
        let mut config = Config::shipped(self.link);
        config.policy(&through(self.link, self.policy.clone()));
        config.module(&self.module.path());
        config.redis_ports(redis_ports);
        config.upstream_port(upstream_port);
        if self.patient {
            config.op_timeout("5s");
            config.connect_timeout("5s");
        }
        (self.change)(&mut config);
        config
    }
}

/// A running mesh. It holds the one turn there is on this machine: two of them at once, on a small machine,
/// would make each other's times meaningless.
#[derive(Debug)]
pub struct Mesh<R = Redis> {
    /// The Envoys.
    pub envoys: Vec<Envoy>,
    /// The upstream.
    pub echo: Echo,
    /// The HTTP gateway, where the way to Redis leads through one.
    pub gateway: Option<Gateway>,
    /// The Redis.
    pub redis: R,
    /// What every Envoy was started with.
    pub config: Config,
    _turn: File,
}

impl<R> Mesh<R> {
    /// The first Envoy's address.
    ///
    /// # Panics
    /// When there is no Envoy.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.envoys.first().expect("an Envoy").address()
    }

    /// Every Envoy's address.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.envoys.iter().map(Envoy::address).collect()
    }

    /// The first Envoy.
    ///
    /// # Panics
    /// When there is no Envoy.
    #[must_use]
    pub fn envoy(&self) -> &Envoy {
        self.envoys.first().expect("an Envoy")
    }
}

/// Waits for the turn; it ends when the file is closed.
///
/// # Panics
/// When the lock file cannot be made.
#[must_use]
pub fn turn() -> File {
    lock(&root().join("target").join("end-to-end.lock"))
}
