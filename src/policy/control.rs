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
