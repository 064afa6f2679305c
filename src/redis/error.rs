//! The errors of Redis, of Envoy's redis_proxy and of HTTP gateways, told apart by their first word.

/// What an error reply means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The script is not cached there; not a failure, but the cue to send it whole.
    NoScript,
    /// A replica was asked to write.
    ReadOnly,
    /// Redis is reading its data set.
    Loading,
    /// Redis is full and evicts nothing.
    Oom,
    /// Redis is running somebody's long script.
    Busy,
    /// A replica without its master.
    MasterDown,
    /// Redis Cluster does not serve all slots.
    ClusterDown,
    /// The slot is another node's.
    Moved,
    /// The slot is moving to another node.
    Ask,
    /// The slot is moving and the keys are not all in one place yet.
    TryAgain,
    /// The connection has not said who it is.
    NoAuth,
    /// Wrong user or password.
    WrongPass,
    /// A password was sent to a server that has none.
    NoPassword,
    /// The user may not run this command or touch this key.
    NoPerm,
    /// The server is in protected mode: without a password it serves its own host only.
    Denied,
    /// The server, or the proxy in front of it, does not know a command that is needed.
    UnknownCommand,
    /// The key holds another type.
    WrongType,
    /// Keys of one call lie in different slots.
    CrossSlot,
    /// Redis has as many clients as it allows.
    MaxClients,
    /// The disk does not take writes, so Redis does not either.
    MisConf,
    /// Too few replicas are connected for writes.
    NoReplicas,
    /// Envoy knows no healthy host.
    NoUpstreamHost,
    /// Envoy lost the connection, or its own timeout passed.
    UpstreamFailure,
    /// An HTTP gateway does not let us in, or not to this command.
    GatewayForbids,
    /// An HTTP gateway, or Envoy in its place, has no Redis to ask.
    GatewayDown,
    /// An HTTP gateway answered with a status that this call never gets from one.
    GatewayOdd,
    /// Anything else.
    Other,
}

impl ErrorKind {
    /// Every kind, for metrics that exist before they are needed.
    pub const ALL: [Self; 27] = [
        Self::NoScript,
        Self::ReadOnly,
        Self::Loading,
        Self::Oom,
        Self::Busy,
        Self::MasterDown,
        Self::ClusterDown,
        Self::Moved,
        Self::Ask,
        Self::TryAgain,
        Self::NoAuth,
        Self::WrongPass,
        Self::NoPassword,
        Self::NoPerm,
        Self::Denied,
        Self::UnknownCommand,
        Self::WrongType,
        Self::CrossSlot,
        Self::MaxClients,
        Self::MisConf,
        Self::NoReplicas,
        Self::NoUpstreamHost,
        Self::UpstreamFailure,
        Self::GatewayForbids,
        Self::GatewayDown,
        Self::GatewayOdd,
        Self::Other,
    ];

    /// The kind of an HTTP status that brought no reply of Redis.
    #[must_use]
    pub const fn of_status(status: u16) -> Self {
        match status {
            401 | 403 => Self::GatewayForbids,
            500..=599 => Self::GatewayDown,
            _ => Self::GatewayOdd,
        }
    }

    /// The kind of an error reply, given without its leading `-`.
    #[must_use]
    pub fn of(reply: &[u8]) -> Self {
        let word = reply.split(|byte| *byte == b' ').next().unwrap_or(reply);
        match word {
            b"NOSCRIPT" => Self::NoScript,
            b"READONLY" => Self::ReadOnly,
            b"LOADING" => Self::Loading,
            b"OOM" => Self::Oom,
            b"BUSY" => Self::Busy,
            b"MASTERDOWN" => Self::MasterDown,
            b"CLUSTERDOWN" => Self::ClusterDown,
            b"MOVED" => Self::Moved,
            b"ASK" => Self::Ask,
            b"TRYAGAIN" => Self::TryAgain,
            b"NOAUTH" => Self::NoAuth,
            b"WRONGPASS" => Self::WrongPass,
            b"NOPERM" => Self::NoPerm,
            b"DENIED" => Self::Denied,
            b"WRONGTYPE" => Self::WrongType,
            b"CROSSSLOT" => Self::CrossSlot,
            b"MISCONF" => Self::MisConf,
            b"NOREPLICAS" => Self::NoReplicas,
            b"no" if reply.starts_with(b"no upstream host") => Self::NoUpstreamHost,
            b"upstream" if reply.starts_with(b"upstream failure") => Self::UpstreamFailure,
            b"ERR" => Self::of_plain(reply),
            _ => Self::Other,
        }
    }

    /// Errors that have no word of their own.
    fn of_plain(reply: &[u8]) -> Self {
        const KNOWN: [(&[u8], ErrorKind); 9] = [
            (
                b"ERR The user executing the script can't",
                ErrorKind::NoPerm,
            ),
            (b"ERR max number of clients", ErrorKind::MaxClients),
            (b"ERR unknown command", ErrorKind::UnknownCommand),
            (b"ERR invalid password", ErrorKind::WrongPass),
            (b"ERR operation not permitted", ErrorKind::NoAuth),
            (
                b"ERR AUTH <password> called without any password",
                ErrorKind::NoPassword,
            ),
            (
                b"ERR Client sent AUTH, but no password is set",
                ErrorKind::NoPassword,
            ),
            (b"ERR unsupported command", ErrorKind::UnknownCommand),
            (b"ERR Command is not available", ErrorKind::UnknownCommand),
        ];
        let known = KNOWN.iter().find(|(start, _)| reply.starts_with(start));
        known.map_or_else(|| Self::of_script(reply), |(_, kind)| *kind)
    }

    /// Before Redis 7 an error inside a script came wrapped:
    /// `ERR Error running script (call to f_…): @user_script:12: WRONGTYPE …`.
    fn of_script(reply: &[u8]) -> Self {
        const PLACE: &[u8] = b"@user_script:";
        if !reply.starts_with(b"ERR Error running script") {
            return Self::Other;
        }
        let Some(at) = reply
            .windows(PLACE.len())
            .position(|window| window == PLACE)
        else {
            return Self::Other;
        };
        let rest = reply
            .get(at.saturating_add(PLACE.len())..)
            .unwrap_or_default();
        let letter = rest
            .iter()
            .position(u8::is_ascii_alphabetic)
            .unwrap_or(rest.len());
        match rest.get(letter..) {
            // Wrapped once, never twice.
            Some(inner) if !inner.starts_with(b"ERR") => Self::of(inner),
            _ => Self::Other,
        }
    }

    /// A short name for metrics and logs: `[a-z_]+`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::NoScript => "noscript",
            Self::ReadOnly => "readonly",
            Self::Loading => "loading",
            Self::Oom => "oom",
            Self::Busy => "busy",
            Self::MasterDown => "masterdown",
            Self::ClusterDown => "clusterdown",
            Self::Moved => "moved",
            Self::Ask => "ask",
            Self::TryAgain => "tryagain",
            Self::NoAuth => "noauth",
            Self::WrongPass => "wrongpass",
            Self::NoPassword => "nopassword",
            Self::NoPerm => "noperm",
            Self::Denied => "denied",
            Self::UnknownCommand => "unknown_command",
            Self::WrongType => "wrongtype",
            Self::CrossSlot => "crossslot",
            Self::MaxClients => "maxclients",
            Self::MisConf => "misconf",
            Self::NoReplicas => "noreplicas",
            Self::NoUpstreamHost => "no_upstream_host",
            Self::UpstreamFailure => "upstream_failure",
            Self::GatewayForbids => "gateway_forbids",
            Self::GatewayDown => "gateway_down",
            Self::GatewayOdd => "gateway_odd",
            Self::Other => "other",
        }
    }

    /// Whether a new connection may help where this one cannot: the name may lead to another server
    /// by now, or the greeting was never said.
    #[must_use]
    pub const fn wants_a_new_connection(self) -> bool {
        matches!(
            self,
            Self::ReadOnly | Self::NoAuth | Self::MasterDown | Self::MaxClients
        )
    }

    /// Whether Redis itself is well and only this call's key, slot or wording is at fault. Such an
    /// error says nothing of whether the next request would be answered.
    #[must_use]
    pub const fn is_of_one_call(self) -> bool {
        matches!(
            self,
            Self::NoScript
                | Self::WrongType
                | Self::CrossSlot
                | Self::Moved
                | Self::Ask
                | Self::TryAgain
        )
    }

    /// For a fault that only a person can mend: what to look at, in one sentence that holds nothing
    /// of the reply.
    #[must_use]
    pub const fn configuration_fault(self) -> Option<&'static str> {
        Some(match self {
            Self::NoAuth => {
                "Redis wants a password and the connection sends none: set it where the connection \
                 is made (redis.password straight to Redis, the cluster's redis_proxy options \
                 behind Envoy's redis_proxy)"
            }
            Self::WrongPass => {
                "Redis or its HTTP gateway refused the user, the password or the token: check them"
            }
            Self::GatewayForbids => {
                "the HTTP gateway forbids the call: its access list must allow EVALSHA and EVAL to \
                 the policy's username and password"
            }
            Self::GatewayOdd => {
                "what answers is not the HTTP gateway that the policy names: check redis.link, \
                 redis.cluster and redis.authority"
            }
            Self::NoPassword => {
                "a password is configured and what answers has none set: remove it from the policy, \
                 or, behind Envoy's redis_proxy, give it to the cluster instead"
            }
            Self::NoPerm => {
                "the Redis user lacks a permission: it needs +evalsha +eval +time, the data \
                 commands of the script, and the keys of the policy's prefix"
            }
            Self::Denied => {
                "Redis is in protected mode and serves its own host only: give it a password, or, \
                 where the network keeps others out, set protected-mode to no"
            }
            Self::UnknownCommand => {
                "Redis, or the proxy or gateway in front of it, refuses a command: EVALSHA and \
                 EVAL must be allowed"
            }
            Self::CrossSlot | Self::Moved | Self::Ask => {
                "Redis is a Cluster and is asked as if it were one server: set redis.topology to \
                 cluster, and let Envoy's redis_proxy follow redirections (enable_redirection)"
            }
            Self::ReadOnly => {
                "what answers is a replica: the Redis cluster of Envoy must lead to the master"
            }
            Self::Oom => {
                "Redis is full and refuses writes: give it more maxmemory, or an eviction policy"
            }
            Self::MisConf => "Redis refuses writes because it cannot save to its disk",
            Self::NoReplicas => "Redis refuses writes because too few replicas are connected",
            Self::MaxClients => "Redis has reached maxclients",
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b44_each_error_is_told_apart_by_its_first_word() {
        for (reply, label) in [
            ("NOSCRIPT No matching script. Please use EVAL.", "noscript"),
            (
                "READONLY You can't write against a read only replica.",
                "readonly",
            ),
            ("LOADING Redis is loading the dataset in memory", "loading"),
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                "oom",
            ),
            ("BUSY Redis is busy running a script.", "busy"),
            ("MASTERDOWN Link with MASTER is down", "masterdown"),
            ("CLUSTERDOWN Hash slot not served", "clusterdown"),
            ("MOVED 3999 127.0.0.1:6381", "moved"),
            ("ASK 3999 127.0.0.1:6381", "ask"),
            (
                "TRYAGAIN Multiple keys request during rehashing of slot",
                "tryagain",
            ),
            ("NOAUTH Authentication required.", "noauth"),
            (
                "WRONGPASS invalid username-password pair or user is disabled.",
                "wrongpass",
            ),
            (
                "NOPERM this user has no permissions to run the 'eval' command",
                "noperm",
            ),
            (
                "DENIED Redis is running in protected mode because",
                "denied",
            ),
            (
                "WRONGTYPE Operation against a key holding the wrong kind of value",
                "wrongtype",
            ),
            (
                "CROSSSLOT Keys in request don't hash to the same slot",
                "crossslot",
            ),
            (
                "MISCONF Redis is configured to save RDB snapshots",
                "misconf",
            ),
            (
                "NOREPLICAS Not enough good replicas to write.",
                "noreplicas",
            ),
            ("ERR max number of clients reached", "maxclients"),
            (
                "ERR unknown command 'EVALSHA', with args beginning with: ",
                "unknown_command",
            ),
            ("ERR invalid password", "wrongpass"),
            (
                "ERR AUTH <password> called without any password configured",
                "nopassword",
            ),
            ("ERR Client sent AUTH, but no password is set", "nopassword"),
            ("no upstream host", "no_upstream_host"),
            ("upstream failure", "upstream_failure"),
            (
                "ERR Error running script (call to f_ab): @user_script:3: WRONGTYPE Op",
                "wrongtype",
            ),
            (
                "ERR Error running script (call to f_ab): @user_script: 3: -OOM command",
                "oom",
            ),
            (
                "ERR Error running script (call to f_ab): @user_script:3: ERR value",
                "other",
            ),
            (
                "ERR Error running script (call to f_ab): @user_script:",
                "other",
            ),
            ("ERR user_script:1: something", "other"),
            ("no", "other"),
            ("NOSCRIPTS are here", "other"),
            ("", "other"),
        ] {
            assert_eq!(ErrorKind::of(reply.as_bytes()).label(), label, "{reply}");
        }
        assert_eq!(ErrorKind::of(b"\xff\xfe \0"), ErrorKind::Other);
    }

    #[test]
    fn every_kind_has_a_label_of_its_own() {
        let mut labels: Vec<_> = ErrorKind::ALL.iter().map(|kind| kind.label()).collect();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), ErrorKind::ALL.len());
        assert!(
            labels
                .iter()
                .all(|l| l.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
        );
    }

    #[test]
    fn wrong_passwords_and_missing_permissions_are_for_a_person() {
        for kind in [
            ErrorKind::WrongPass,
            ErrorKind::NoPerm,
            ErrorKind::NoAuth,
            ErrorKind::Denied,
        ] {
            assert!(kind.configuration_fault().is_some());
        }
        for kind in [
            ErrorKind::NoScript,
            ErrorKind::Loading,
            ErrorKind::UpstreamFailure,
        ] {
            assert!(kind.configuration_fault().is_none());
        }
    }
}
