//! The HTTP gateways: what stands between Envoy and Redis where the internal link does not.

use serde_json::json;

use crate::config::Link;
use crate::upstash::Upstash;
use crate::webdis::Webdis;

/// The bearer token that the Upstash-like server takes.
pub const TOKEN: &str = "a-token-for-tests";

/// One of them.
#[derive(Debug)]
pub enum Gateway {
    /// A process.
    Webdis(Webdis),
    /// A server in this process.
    Upstash(Upstash),
}

impl Gateway {
    /// The one that this way to Redis leads through, in front of the Redis at that loopback port.
    #[must_use]
    pub fn start(link: Link, redis: u16) -> Option<Self> {
        match link {
            Link::RedisProxy | Link::Straight | Link::Cluster | Link::Ecds => None,
            Link::Webdis => Some(Self::Webdis(Webdis::start(redis, &json!([])))),
            Link::Upstash => Some(Self::Upstash(Upstash::start(redis, TOKEN))),
        }
    }

    /// Its loopback port.
    #[must_use]
    pub fn port(&self) -> u16 {
        match self {
            Self::Webdis(webdis) => webdis.address().port(),
            Self::Upstash(upstash) => upstash.port(),
        }
    }

    /// The Webdis.
    ///
    /// # Panics
    /// When it is another.
    pub fn webdis(&mut self) -> &mut Webdis {
        match self {
            Self::Webdis(webdis) => webdis,
            Self::Upstash(_) => panic!("the gateway is no Webdis"),
        }
    }
}
