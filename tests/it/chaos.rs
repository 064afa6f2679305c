//! The short form of `make chaos`: each scenario once, by turns behind either link, with one or four
//! workers; `allow`, `deny` and `local` at once. What must be true of a run is in `chaos::run`.

use std::fs::File;

use ::chaos::run::{Form, run};
use ::chaos::sample::Stream;
use ::chaos::scenario::{SCENARIOS, named};
use support::config::Link;
use support::mesh::turn;

/// Behind either link by turns.
fn breaks(names: &[&str], workers: usize) {
    breaks_behind(&Link::ALL, names, workers);
}

/// Behind these links by turns. Runs of one test share the machine's turn one after the other.
fn breaks_behind(links: &[Link], names: &[&str], workers: usize) {
    let _turn: File = turn();
    let mut faults = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let scenario = named(name).unwrap_or_else(|| panic!("no scenario is called {name}"));
        if let Err(why) = (scenario.possible)() {
            support::skipped(&format!("{name}: {why}"));
            continue;
        }
        let link = match scenario.links {
            [only] => *only,
            _ => links[number % links.len()],
        };
        let report = run(scenario, link, workers, &Stream::OUTAGES, &Form::SHORT);
        faults.extend(
            report
                .faults
                .iter()
                .map(|fault| format!("{name}, {link:?}: {fault}")),
        );
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn every_scenario_is_in_a_test() {
    let text = include_str!("chaos.rs");
    for scenario in SCENARIOS {
        let name = format!("\"{}\"", scenario.name);
        assert!(text.contains(&name), "{name} is in no test");
    }
}

#[test]
fn b06_b55_redis_killed_and_its_scripts_flushed_under_load() {
    breaks(&["nothing", "killed", "flushed"], 4);
}

#[test]
fn b26_redis_frozen_paused_or_its_clients_kicked_under_load() {
    breaks(&["frozen", "paused", "kicked"], 1);
}

#[test]
fn b44_redis_full_busy_or_demoted_under_load() {
    breaks(&["full", "busy", "demoted"], 4);
}

#[test]
fn b47_b55_redis_without_room_for_clients_or_with_another_password_or_access_list_under_load() {
    breaks(&["password", "crowded", "forbidden"], 1);
}

#[test]
fn b26_b40_no_name_no_listener_no_cluster_under_load() {
    breaks(&["unlinked", "nameless", "unknown"], 4);
}

#[test]
fn b02_replies_that_are_none_under_load() {
    breaks(&["garbage", "half", "huge", "trickle", "never"], 1);
}

#[test]
fn b55_redis_behind_webdis_killed_or_frozen_and_a_webdis_that_answers_rubbish_under_load() {
    let names = ["killed", "frozen", "garbage", "half", "never"];
    breaks_behind(&[Link::Webdis], &names, 4);
}

#[test]
fn b26_a_network_that_loses_delays_or_delivers_nothing_under_load() {
    breaks(&["lossy", "slow", "cut"], 4);
}

#[test]
fn b03_b72_policies_reloaded_clients_gone_and_envoy_drained_under_load() {
    breaks(&["reloaded", "quitters", "drained"], 4);
}
