//! A Redis Cluster of one's own.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use redis::FromRedisValue;

use crate::redis::Redis;
use crate::{Dir, free_port, until_within};

/// The slots of every Redis Cluster.
const SLOTS: u16 = 16_384;
/// The cluster's bus is this much above a node's port, in every version of Redis.
const BUS: u16 = 10_000;
/// What a node does not answer for so long, it is dead, in milliseconds.
const NODE_TIMEOUT: &str = "1000";

/// Some masters, each with the same number of replicas, all on loopback. It forgets when it is dropped.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Redis>,
    masters: usize,
}

impl RedisCluster {
    /// Starts masters with an equal share of the slots, and replicas of each, and waits until all is well.
    #[must_use]
    pub fn start(masters: usize, replicas: usize) -> Self {
        let nodes = (0..masters * (1 + replicas)).map(|_| node()).collect();
        let cluster = Self { nodes, masters };
        cluster.join();
        cluster
    }

    /// The nodes: first the masters as they were at the start, then the first replica of each, and so on.
    #[must_use]
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// A node, to stop it or to start it again.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn node(&mut self, index: usize) -> &mut Redis {
        self.nodes.get_mut(index).expect("a node")
    }

    /// The ports of the masters as they were at the start.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        let masters = self.nodes.iter().take(self.masters);
        masters.map(Redis::port).collect()
    }

    /// The slot of a key.
    #[must_use]
    pub fn slot(&self, key: &str) -> u16 {
        self.any().call(&["CLUSTER", "KEYSLOT", key])
    }

    /// The index of the node that serves a slot now, as `asked` sees it.
    ///
    /// # Panics
    /// When none does.
    #[must_use]
    pub fn owner_of(&self, slot: u16, asked: usize) -> usize {
        let shards: Vec<Vec<redis::Value>> = self.nodes[asked].call(&["CLUSTER", "SLOTS"]);
        let owner = shards.into_iter().find_map(|shard| {
            let mut shard = shard.into_iter();
            let first = u16::from_redis_value(shard.next()?).ok()?;
            let last = u16::from_redis_value(shard.next()?).ok()?;
            let master = Vec::<redis::Value>::from_redis_value(shard.next()?).ok()?;
            let port = u16::from_redis_value(master.into_iter().nth(1)?).ok()?;
            (first..=last).contains(&slot).then_some(port)
        });
        let owner = owner.unwrap_or_else(|| panic!("nobody serves slot {slot}"));
        let found = self.nodes.iter().position(|node| node.port() == owner);
        found.expect("a node of this cluster")
    }

    /// Every key of every running master, and the node that holds it.
    #[must_use]
    pub fn keys(&self) -> Vec<(usize, String)> {
        let mut keys = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            if role(node).as_deref() == Some("master") {
                let held = node.keys().into_iter();
                keys.extend(held.map(|key| (index, String::from_utf8_lossy(&key).into_owned())));
            }
        }
        keys
    }

    /// How often a command ran, on all running nodes together.
    #[must_use]
    pub fn calls_of(&self, command: &str) -> u64 {
        let running = self.nodes.iter().filter(|node| role(node).is_some());
        running.map(|node| node.calls_of(command)).sum()
    }

    /// Empties every running master.
    pub fn flush(&self) {
        for node in &self.nodes {
            if role(node).as_deref() == Some("master") {
                node.flush();
            }
        }
    }

    /// Begins to move a slot: its keys may be at either node from now on.
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let slot = slot.to_string();
        let (from_id, to_id) = (self.id(from), self.id(to));
        self.nodes[to].call::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]);
        self.nodes[from].call::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]);
    }

    /// Moves what is left in a slot that is being moved, and hands it over.
    pub fn finish_move(&self, slot: u16, from: usize, to: usize) {
        let text = slot.to_string();
        let port = self.nodes[to].port().to_string();
        loop {
            let keys: Vec<String> =
                self.nodes[from].call(&["CLUSTER", "GETKEYSINSLOT", &text, "100"]);
            if keys.is_empty() {
                break;
            }
            for key in keys {
                // It may have been moved, or have ended, since.
                let words = ["MIGRATE", "127.0.0.1", &port, &key, "0", "1000", "REPLACE"];
                let _ = self.nodes[from].try_call::<()>(&words);
            }
        }
        let id = self.id(to);
        for index in [to, from] {
            self.nodes[index].call::<()>(&["CLUSTER", "SETSLOT", &text, "NODE", &id]);
        }
    }

    /// Waits until every running node says that all slots are served. Returns how long it took.
    pub fn until_well(&self) -> Duration {
        let running = |node: &&Redis| role(node).is_some();
        until_within(Duration::from_secs(20), "the cluster to be well", || {
            self.nodes.iter().filter(running).all(|node| {
                node.try_call::<String>(&["CLUSTER", "INFO"])
                    .is_ok_and(|info| info.contains("cluster_state:ok"))
            })
        })
    }

    fn any(&self) -> &Redis {
        let running = self.nodes.iter().find(|node| role(node).is_some());
        running.expect("a running node")
    }

    fn id(&self, index: usize) -> String {
        self.nodes[index].call(&["CLUSTER", "MYID"])
    }

    fn join(&self) {
        let first = self.nodes.first().expect("a node").port().to_string();
        for (index, node) in self.nodes.iter().enumerate() {
            let epoch = (index + 1).to_string();
            node.call::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]);
            if index > 0 {
                node.call::<()>(&["CLUSTER", "MEET", "127.0.0.1", &first]);
            }
        }
        for index in 0..self.masters {
            let edge = |share: usize| usize::from(SLOTS) * share / self.masters;
            let slots = edge(index)..edge(index + 1);
            let slots: Vec<String> = slots.map(|slot| slot.to_string()).collect();
            let mut words = vec!["CLUSTER", "ADDSLOTS"];
            words.extend(slots.iter().map(String::as_str));
            self.nodes[index].call::<()>(&words);
        }
        let all = self.nodes.len();
        until_within(Duration::from_secs(20), "all nodes to know all", || {
            self.nodes.iter().all(|node| {
                let known: String = node.call(&["CLUSTER", "NODES"]);
                known.lines().count() == all && !known.contains("handshake")
            })
        });
        for index in self.masters..all {
            let master = self.id(index % self.masters);
            self.nodes[index].call::<()>(&["CLUSTER", "REPLICATE", &master]);
        }
        self.until_well();
        until_within(Duration::from_secs(20), "the replicas to follow", || {
            self.nodes[self.masters..].iter().all(|node| {
                let info: String = node.call(&["INFO", "replication"]);
                info.contains("master_link_status:up")
            })
        });
    }
}

fn node() -> Redis {
    let port = loop {
        // The bus has the port that was found free, the node the one below it.
        let port = free_port() - BUS;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            break port;
        }
    };
    let settings = [
        ["--cluster-enabled", "yes"],
        ["--cluster-node-timeout", NODE_TIMEOUT],
        ["--cluster-replica-validity-factor", "0"],
        ["--cluster-require-full-coverage", "no"],
        ["--repl-diskless-sync-delay", "0"],
    ];
    Redis::start_at(port, Dir::temporary("node"), settings.as_flattened())
}

/// What a node is: `master`, `slave`; nothing when it does not run.
fn role(node: &Redis) -> Option<String> {
    let role: Vec<redis::Value> = node.try_call(&["ROLE"]).ok()?;
    String::from_redis_value(role.into_iter().next()?).ok()
}
