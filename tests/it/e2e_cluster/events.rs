//! Masters that die, freeze and return, slots that move: errors while it happens, and none after.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use aforo::outage::shards::slot;
use serde_json::json;
use support::client::get;
use support::cluster::RedisCluster;
use support::load::{Load, Outcome};
use support::{until, until_within};

use super::{
    CLIENT, ClusterMesh, HURRIED, PATIENT, ask, per_client, plan, start, statuses, until_all_answer,
};

/// The node that holds the state of a client of this name now.
fn node_of(mesh: &ClusterMesh, client: &str) -> usize {
    let keys = mesh.redis.keys();
    let held = keys.iter().find(|(_, key)| key.contains(client));
    held.unwrap_or_else(|| panic!("no state of {client}")).0
}

/// The names of `number` clients whose state one node holds, with their state in place.
fn clients_at(mesh: &ClusterMesh, node: usize, number: usize) -> Vec<String> {
    let all = (0..).map(|number| format!("client-{number}."));
    let held = all.filter(|client| {
        assert_ne!(ask(mesh, client).status, 503);
        node_of(mesh, client) == node
    });
    held.take(number).collect()
}

/// One connection for each client to each Envoy, in the background.
struct Loads(Vec<(String, Load)>);

impl Loads {
    fn start(mesh: &ClusterMesh, clients: &[String], pause: Duration) -> Self {
        let start = |client: &String| {
            let ask = get("/").header(CLIENT, client);
            let load = Load::start(&mesh.addresses(), 1, pause, &ask);
            (client.clone(), load)
        };
        Self(clients.iter().map(start).collect())
    }

    fn stop(self) -> Vec<(String, Vec<Outcome>)> {
        let stop = |(client, load): (String, Load)| (client, load.stop());
        self.0.into_iter().map(stop).collect()
    }
}

fn took(outcome: &Outcome) -> Duration {
    let answer = outcome.answer.as_ref();
    answer.map_or(Duration::ZERO, |answer| answer.took)
}

fn number_of(outcomes: &[Outcome], status: u16) -> usize {
    let same = outcomes.iter().filter(|outcome| outcome.status() == status);
    same.count()
}

#[test]
fn a_master_that_dies_costs_its_own_clients_until_its_replica_is_elected_and_nobody_after() {
    const EACH: usize = 20;
    let limits = json!([per_client("sliding-log", &format!("{EACH}/1h"))]);
    let plan = plan(HURRIED, limits).envoys(2).workers(2);
    let mut mesh = start(plan, RedisCluster::start(3, 1));
    let settled: Vec<String> = (0..3).flat_map(|node| clients_at(&mesh, node, 2)).collect();
    let of_the_dead = settled[..2].to_vec();
    for client in &settled {
        until("the limit to be used up", || {
            ask(&mesh, client).status == 429
        });
    }
    let loads = Loads::start(&mesh, &settled, Duration::from_millis(10));
    until("the replicas to have it all", || {
        mesh.redis.nodes()[3].keys().len() == mesh.redis.nodes()[0].keys().len()
    });
    let died = Instant::now();
    mesh.redis.node(0).stop();
    // Clients that come in the middle of it.
    let fresh: Vec<String> = (0..12).map(|number| format!("fresh-{number}.")).collect();
    let fresh_loads = Loads::start(&mesh, &fresh, Duration::from_millis(20));
    until_within(Duration::from_secs(20), "a replica to be elected", || {
        mesh.redis
            .owner_of(mesh.redis.slot(&tag(&mesh, &of_the_dead[0])), 1)
            == 3
    });
    let elected = Instant::now();
    until_all_answer(&mesh);
    let first_quiet = Instant::now();
    wait(Duration::from_secs(1));
    let returned = Instant::now();
    mesh.redis.node(0).restart();
    mesh.redis.until_well();
    until_all_answer(&mesh);
    let second_quiet = Instant::now();
    wait(Duration::from_secs(1));

    let recovery = first_quiet - elected;
    println!(
        "elected after {:?}, all well {recovery:?} later",
        elected - died
    );
    assert!(recovery < Duration::from_secs(5), "{recovery:?}");
    for (client, outcomes) in loads.stop() {
        let outcomes: Vec<Outcome> = outcomes
            .into_iter()
            .filter(|one| one.sent + took(one) >= died)
            .collect();
        let errors = number_of(&outcomes, 503);
        let refused = number_of(&outcomes, 429);
        assert_eq!(outcomes.len(), errors + refused, "{client}: nobody gets in");
        let in_quiet =
            |sent: Instant| (sent > first_quiet && sent < returned) || sent > second_quiet;
        let odd = |one: &&Outcome| one.status() == 503 && in_quiet(one.sent);
        assert_eq!(
            outcomes.iter().filter(odd).count(),
            0,
            "{client}: errors after"
        );
        if of_the_dead.contains(&client) {
            assert!(errors > 0, "{client}: the event was met");
        } else {
            // Those of the living masters are answered all the while; this machine may be slow.
            let all = outcomes.len();
            println!("{client}, of a living master: {errors} of {all} failed");
            assert!(errors * 20 < all, "{client}: {errors} of {all}");
        }
    }
    for (client, outcomes) in fresh_loads.stop() {
        assert_eq!(number_of(&outcomes, 200), EACH, "{client}");
    }
}

/// Lets the load run for so long.
fn wait(span: Duration) {
    let started = Instant::now();
    until_within(span * 2, "time to pass", || started.elapsed() > span);
}

/// A key of this client in Redis.
fn tag(mesh: &ClusterMesh, client: &str) -> String {
    let keys = mesh.redis.keys();
    let found = keys.into_iter().find(|(_, key)| key.contains(client));
    found.map_or_else(|| format!("aforo:{{{client}}}"), |(_, key)| key)
}

#[test]
fn b45_slots_that_move_under_load_cost_nothing_and_lose_nothing() {
    const EACH: usize = 40;
    let limits = json!([per_client("sliding-log", &format!("{EACH}/1h"))]);
    let plan = plan(PATIENT, limits).envoys(2).workers(2);
    let mesh = start(plan, RedisCluster::start(3, 0));
    let clients = clients_at(&mesh, 0, 4);
    let slots: BTreeSet<u16> = clients
        .iter()
        .map(|client| mesh.redis.slot(&tag(&mesh, client)))
        .collect();
    mesh.redis.flush();
    let loads = Loads::start(&mesh, &clients, Duration::from_millis(30));
    until("some requests", || mesh.redis.keys().len() == clients.len());
    for slot in &slots {
        mesh.redis.begin_move(*slot, 0, 1);
    }
    // In this phase a key that is there is served by the old node, and a new one by the new node.
    let new = clients_in(&mesh, &slots);
    let new_loads = Loads::start(&mesh, &new, Duration::from_millis(30));
    wait(Duration::from_millis(500));
    for slot in &slots {
        mesh.redis.finish_move(*slot, 0, 1);
    }
    let all = [clients, new].concat();
    until_used_up(&mesh, &all, EACH);
    wait(Duration::from_millis(200));
    for (client, outcomes) in loads.stop().into_iter().chain(new_loads.stop()) {
        let odd = outcomes
            .iter()
            .find(|one| ![200, 429].contains(&one.status()));
        assert!(odd.is_none(), "{client}: {odd:?}");
        assert_eq!(number_of(&outcomes, 200), EACH, "{client}");
        assert_eq!(node_of(&mesh, &client), 1, "{client}");
    }
}

/// Waits until so many requests of each of these clients came through.
fn until_used_up(mesh: &ClusterMesh, clients: &[String], each: usize) {
    until_within(Duration::from_secs(20), "all to be used up", || {
        let through = |client: &String| mesh.echo.hits_with(CLIENT, client.as_bytes());
        clients.iter().all(|client| through(client) >= each)
    });
}

/// Names of clients without state that belong into these slots, one for each.
fn clients_in(mesh: &ClusterMesh, slots: &BTreeSet<u16>) -> Vec<String> {
    let known = mesh.redis.keys();
    let (_, sample) = known.first().expect("a key").clone();
    let start = sample.find('{').expect("a tag") + 1;
    let end = sample.find('}').expect("a tag");
    let old = sample[start..end].find("client-").expect("a client") + start;
    let named = |client: &str| format!("{}{client}{}", &sample[..old], &sample[end..]);
    let fits = |slot: u16| {
        let all = (0..).map(|number| format!("new-{number}."));
        let mut found = all.filter(|client| slot_of(&named(client)) == slot);
        found.next().expect("one of them")
    };
    slots.iter().map(|slot| fits(*slot)).collect()
}

fn slot_of(key: &str) -> u16 {
    let start = key.find('{').expect("a tag") + 1;
    let end = key.find('}').expect("a tag");
    slot(&key.as_bytes()[start..end])
}

#[test]
fn b45_a_cluster_that_starts_anew_is_found_again_by_itself() {
    let limits = json!([per_client("sliding-log", "5/1h")]);
    let plan = plan(HURRIED, limits).workers(2);
    let mut mesh = start(plan, RedisCluster::start(3, 0));
    for node in 0..3 {
        mesh.redis.node(node).stop();
    }
    assert_eq!(ask(&mesh, "a").status, 503);
    for node in 0..3 {
        mesh.redis.node(node).restart();
    }
    let took = mesh.redis.until_well();
    let again = until_all_answer(&mesh);
    println!("the cluster was well after {took:?}, the filter {again:?} later");
    assert!(again < Duration::from_secs(8), "{again:?}");
    let statuses = statuses(&mesh, "a", 6);
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429]);
}

#[test]
fn b77_after_a_takeover_no_key_is_without_a_time_to_live_and_few_are_let_in_twice() {
    const EACH: usize = 20;
    let limits = json!([per_client("sliding-window", &format!("{EACH}/30d"))]);
    let mesh = start(plan(HURRIED, limits), RedisCluster::start(3, 1));
    let clients = clients_at(&mesh, 0, 3);
    let loads = Loads::start(&mesh, &clients, Duration::from_millis(20));
    until("some to be let in", || mesh.echo.hits() > 30);
    mesh.redis.nodes()[3].call::<()>(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
    let slot = mesh.redis.slot(&tag(&mesh, &clients[0]));
    until_within(Duration::from_secs(10), "the others to know", || {
        (0..3).all(|node| mesh.redis.owner_of(slot, node) == 3)
    });
    until_used_up(&mesh, &clients, EACH - 1);
    wait(Duration::from_millis(200));
    for (client, outcomes) in loads.stop() {
        let allowed = number_of(&outcomes, 200);
        assert!(
            (EACH - 1..=EACH + 4).contains(&allowed),
            "{client}: {allowed}"
        );
    }
    for (node, key) in mesh.redis.keys() {
        let left: i64 = mesh.redis.nodes()[node].call(&["PTTL", &key]);
        assert!(left > 0, "{key} at {node}");
    }
}

#[test]
fn a_frozen_master_costs_its_own_clients_and_not_the_others() {
    let limits = json!([per_client("sliding-log", "100000/1h")]);
    let mesh = start(plan("50ms", limits), RedisCluster::start(3, 0));
    let frozen = clients_at(&mesh, 0, 1);
    let others = [clients_at(&mesh, 1, 1), clients_at(&mesh, 2, 1)].concat();
    mesh.redis.nodes()[0].freeze();
    let frozen_loads = Loads::start(&mesh, &frozen, Duration::from_millis(20));
    let loads = Loads::start(&mesh, &others, Duration::from_millis(10));
    until("requests of the others", || mesh.echo.hits() > 100);
    mesh.redis.nodes()[0].thaw();
    for (client, outcomes) in frozen_loads.stop() {
        assert!(number_of(&outcomes, 503) > 0, "{client}");
    }
    for (client, outcomes) in loads.stop() {
        let failed = number_of(&outcomes, 503);
        println!("{client}: {failed} of {} failed", outcomes.len());
        assert!(
            failed * 10 <= outcomes.len(),
            "{client}: {failed} of {}",
            outcomes.len()
        );
    }
    until_all_answer(&mesh);
}
