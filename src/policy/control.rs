//! The `control` section: what the filter takes from Redis beside its decisions.

use super::{field::Field, findings::Findings};

/// The fields of the section.
pub const FIELDS: &[&str] = &["switch", "policy"];

/// What the filter takes from Redis beside its decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Whether the switch in Redis can turn every limit to shadow mode.
    pub switch: bool,
    /// Whether a policy pushed to Redis replaces this one.
    pub policy: bool,
}

impl Default for Control {
    /// The switch works, since whoever needs it has no time to configure it first. The policy stays.
    fn default() -> Self {
        Self {
            switch: true,
            policy: false,
        }
    }
}

impl Control {
    /// Whether anything is taken from there.
    #[must_use]
    pub const fn any(self) -> bool {
        self.switch || self.policy
    }
}

/// Reads the section; what is left out has its default.
pub fn read(field: Option<Field<'_>>, findings: &mut Findings) -> Control {
    let mut control = Control::default();
    let Some(table) = field.and_then(|field| field.table(FIELDS, findings)) else {
        return control;
    };
    for (name, flag) in [
        ("switch", &mut control.switch),
        ("policy", &mut control.policy),
    ] {
        *flag = table
            .get(name)
            .and_then(|field| field.boolean(findings))
            .unwrap_or(*flag);
    }
    control
}

#[cfg(test)]
mod tests {
    use crate::policy::Policy;

    #[test]
    fn a_pushed_policy_has_the_link_the_switch_and_the_secrets_of_the_configurations_own() {
        let load = |json: &str| Policy::from_json(json.as_bytes()).unwrap().0;
        let limits = |rate: &str| {
            format!(
                r#""limits": [{{"name": "a", "key": ["header:authorization"], "algorithm": "gcra",
                    "rate": "{rate}"}}]"#
            )
        };
        let own = load(&format!(
            r#"{{"redis": {{"timeout": "7ms", "password": "open sesame"}}, "control": {{"policy": true}},
                "hash_key": "sixteen bytes of it", "reply": {{"debug_secret": "a long enough secret"}}, {}}}"#,
            limits("5/1s")
        ));
        let pushed = load(&format!(
            r#"{{"redis": {{"timeout": "9ms"}}, "outage": "deny", {}}}"#,
            limits("8/1s")
        ));
        let both = pushed.clone().under(&own);
        assert_eq!((&both.redis, both.control), (&own.redis, own.control));
        assert_eq!(both.reply.parts().debug, own.reply.parts().debug);
        assert!(both.reply.parts().debug.is_some() && pushed.reply.parts().debug.is_none());
        assert_eq!(both.hasher.short("me"), own.hasher.short("me"));
        assert_ne!(both.hasher.short("me"), pushed.hasher.short("me"));
        assert_eq!(both.limits[0].terms, pushed.limits[0].terms);
        assert_eq!(both.outage, pushed.outage);
    }
}
