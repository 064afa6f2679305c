//! The list of everything that is broken, each by name.

use support::config::Link;

use crate::faults::{envoy, network, redis, stub};
use crate::stage::{Preparation, Stage};

/// One way in which things break.
pub struct Scenario {
    /// What one calls it on the command line.
    pub name: &'static str,
    /// What it is, for the table.
    pub title: &'static str,
    /// Behind which links it is tried: behind both where they differ.
    pub links: &'static [Link],
    /// What must be true of the run.
    pub expect: Expect,
    /// What is to be different from the start.
    pub prepare: fn() -> Preparation,
    /// What Envoy's resident memory may grow by, KiB.
    pub growth_kib: u64,
    /// Whether it can be tried on this machine; else, why not.
    pub possible: fn() -> Result<(), String>,
    /// Breaks it and, when this returns, all is well again if it ever is.
    pub act: fn(&mut Stage),
}

/// What must be true of a run beside what must be true of every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Redis always decides: what breaks must not be felt.
    Unfelt,
    /// It may or may not be felt, and is over with the fault.
    Either,
    /// Some requests get the outage answer, and with the fault that is over.
    Outage,
    /// From the start to the end everything gets the outage answer.
    NothingElse,
}

const EITHER_LINK: &[Link] = &Link::ALL;
/// Where an HTTP gateway in between may make a difference of its own.
const ANY_WAY: &[Link] = &[Link::RedisProxy, Link::Straight, Link::Webdis];
const ONE_LINK: &[Link] = &[Link::RedisProxy];

/// All of them, in the table's order.
pub const SCENARIOS: &[Scenario] = &[
    scenario(
        "nothing",
        "nothing breaks",
        EITHER_LINK,
        Expect::Unfelt,
        |_| {},
    ),
    scenario(
        "killed",
        "Redis killed and restarted ten times",
        ANY_WAY,
        Expect::Outage,
        redis::killed,
    ),
    scenario(
        "frozen",
        "Redis frozen for 5 s (SIGSTOP)",
        ANY_WAY,
        Expect::Outage,
        redis::frozen,
    ),
    scenario(
        "paused",
        "`CLIENT PAUSE` for 5 s",
        ANY_WAY,
        Expect::Outage,
        redis::paused,
    ),
    scenario(
        "kicked",
        "`CLIENT KILL` ten times",
        EITHER_LINK,
        Expect::Either,
        redis::kicked,
    ),
    scenario(
        "flushed",
        "`SCRIPT FLUSH` every 50 ms",
        EITHER_LINK,
        Expect::Unfelt,
        redis::flushed,
    ),
    scenario(
        "crowded",
        "`maxclients` reached",
        EITHER_LINK,
        Expect::Outage,
        redis::crowded,
    ),
    scenario(
        "full",
        "`maxmemory` reached, `noeviction`",
        EITHER_LINK,
        Expect::Outage,
        redis::full,
    ),
    scenario(
        "busy",
        "another client's endless script (BUSY)",
        EITHER_LINK,
        Expect::Outage,
        redis::busy,
    ),
    scenario(
        "demoted",
        "Redis demoted to a replica",
        EITHER_LINK,
        Expect::Outage,
        redis::demoted,
    ),
    Scenario {
        prepare: redis::with_password,
        ..scenario(
            "password",
            "password changed",
            EITHER_LINK,
            Expect::Outage,
            redis::password,
        )
    },
    scenario(
        "forbidden",
        "ACL forbids EVALSHA",
        EITHER_LINK,
        Expect::Outage,
        redis::forbidden,
    ),
    Scenario {
        prepare: envoy::without_name,
        ..scenario(
            "nameless",
            "DNS name that does not resolve",
            EITHER_LINK,
            Expect::NothingElse,
            |stage| {
                stage.wait(stage.span());
            },
        )
    },
    stub("garbage", "replies of garbage", stub::garbage),
    stub("half", "half a reply, then silence", stub::half),
    Scenario {
        // redis_proxy and the module hold such a reply whole, for each of four workers, and neither gives
        // memory back.
        growth_kib: 64 * 1024,
        ..stub("huge", "replies of 5 MiB", stub::huge)
    },
    stub("trickle", "replies one byte every 5 ms", stub::trickle),
    Scenario {
        links: ANY_WAY,
        ..stub("never", "no replies", stub::never)
    },
    network("lossy", "one packet in ten lost, each way", network::lossy),
    network("slow", "packets 100 ms late, each way", network::slow),
    network("cut", "a partition that heals", network::cut),
    scenario(
        "unlinked",
        "the link listener gone",
        ONE_LINK,
        Expect::Outage,
        envoy::unlinked,
    ),
    scenario(
        "unknown",
        "a Redis cluster unknown to Envoy",
        ONE_LINK,
        Expect::Outage,
        envoy::unknown,
    ),
    scenario(
        "reloaded",
        "policy reloaded twenty times",
        EITHER_LINK,
        Expect::Unfelt,
        envoy::reloaded,
    ),
    Scenario {
        prepare: stub::between,
        ..scenario(
            "quitters",
            "as many clients again that hang up while they wait",
            EITHER_LINK,
            Expect::Unfelt,
            envoy::quitters,
        )
    },
    scenario(
        "drained",
        "Envoy drained, another in its place",
        EITHER_LINK,
        Expect::Unfelt,
        envoy::drained,
    ),
];

const fn scenario(
    name: &'static str,
    title: &'static str,
    links: &'static [Link],
    expect: Expect,
    act: fn(&mut Stage),
) -> Scenario {
    Scenario {
        name,
        title,
        links,
        expect,
        prepare: Preparation::default,
        growth_kib: 8 * 1024,
        possible: || Ok(()),
        act,
    }
}

const fn stub(name: &'static str, title: &'static str, act: fn(&mut Stage)) -> Scenario {
    Scenario {
        prepare: stub::between,
        ..scenario(name, title, EITHER_LINK, Expect::Outage, act)
    }
}

const fn network(name: &'static str, title: &'static str, act: fn(&mut Stage)) -> Scenario {
    Scenario {
        prepare: network::between,
        possible: crate::network::possible,
        ..scenario(name, title, EITHER_LINK, Expect::Outage, act)
    }
}

/// The scenario of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}
