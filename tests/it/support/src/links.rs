//! One table of the ways to Redis: what every one of them promises is tested over each.

/// Makes a test of each of these functions for every [`Link`](crate::config::Link), in a module of the
/// function's name: `fn case(link: Link)` becomes `case::redis_proxy`, `case::straight` and so on.
#[macro_export]
macro_rules! over_every_link {
    ($($case:ident),+ $(,)?) => {
        $($crate::over_every_link! { @ $case
            redis_proxy: RedisProxy,
            straight: Straight,
            cluster: Cluster,
            webdis: Webdis,
            upstash: Upstash,
            ecds: Ecds,
        })+
    };
    (@ $case:ident $($name:ident: $link:ident,)+) => {
        mod $case {
            use $crate::config::Link;

            $(#[test]
            fn $name() {
                super::$case(Link::$link);
            })+

            // Does not compile when a way is missing above.
            const _: fn(Link) = |link| match link {
                $(Link::$link)|+ => (),
            };
        }
    };
}
