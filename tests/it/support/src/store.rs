//! What a mesh counts in, whichever its way to Redis asks for.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{at_once, count, get};
use crate::cluster::RedisCluster;
use crate::config::Link;
use crate::redis::Redis;
use crate::until_within;

/// One Redis, or a cluster of them.
#[derive(Debug)]
pub enum Store {
    /// One.
    One(Redis),
    /// Three masters.
    Cluster(RedisCluster),
}

impl Store {
    /// What this way leads to, running.
    #[must_use]
    pub fn start(link: Link) -> Self {
        match link {
            Link::Cluster => Self::Cluster(RedisCluster::start(3, 0)),
            _ => Self::One(Redis::start()),
        }
    }

    /// The ports that Envoy is told.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        match self {
            Self::One(redis) => vec![redis.port()],
            Self::Cluster(cluster) => cluster.ports(),
        }
    }

    /// Ends every node.
    pub fn stop(&mut self) {
        self.each(Redis::stop);
    }

    /// Starts every node again, empty, and waits until they are well.
    pub fn restart(&mut self) {
        self.each(Redis::restart);
        if let Self::Cluster(cluster) = self {
            cluster.until_well();
        }
    }

    /// Empties it.
    pub fn flush(&self) {
        match self {
            Self::One(redis) => redis.flush(),
            Self::Cluster(cluster) => cluster.flush(),
        }
    }

    /// The keys.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        match self {
            Self::One(redis) => {
                let keys = redis.keys().into_iter();
                keys.map(|key| String::from_utf8_lossy(&key).into_owned())
                    .collect()
            }
            Self::Cluster(cluster) => cluster.keys().into_iter().map(|(_, key)| key).collect(),
        }
    }

    /// Removes a key, wherever it is.
    pub fn remove(&self, key: &str) {
        match self {
            Self::One(redis) => redis.call(&["DEL", key]),
            Self::Cluster(cluster) => {
                for node in cluster.nodes() {
                    // Another's key is an error.
                    let _ = node.try_call::<i64>(&["DEL", key]);
                }
            }
        }
    }

    fn each(&mut self, act: impl Fn(&mut Redis)) {
        match self {
            Self::One(redis) => act(redis),
            Self::Cluster(cluster) => {
                for index in 0..cluster.nodes().len() {
                    act(cluster.node(index));
                }
            }
        }
    }
}

/// A limit that refuses nobody and whose keys lie in every shard.
pub(crate) fn probe() -> Value {
    json!({
        "name": "probe", "when": { "path": "/probe" }, "key": ["header:x-probe"],
        "algorithm": "fixed-window", "rate": "1000000/1h",
    })
}

/// Waits until every shard answers on every worker: Envoy serves before it has found the nodes.
pub(crate) fn until_every_shard_answers(envoys: &[SocketAddr]) {
    let probe = |number: usize| {
        let ask = get("/probe").header("x-probe", format!("probe-{number}"));
        (envoys[number % envoys.len()], ask)
    };
    until_within(Duration::from_secs(20), "every shard to answer", || {
        let answers = at_once(&(0..48).map(probe).collect::<Vec<_>>());
        count(&answers, 503) == 0
    });
}
