//! Plans: what a client is admitted by a name that the request carries.

use std::collections::BTreeMap;

use super::{
    field::Field,
    findings::Findings,
    key::{self, Context, Part},
    terms::{Base, Terms},
};

/// Most plans of a limit.
const MAX_PLANS: usize = 1_000;

/// Terms by the name of a plan.
#[derive(Clone, Debug)]
pub struct Plans {
    /// Where the request names its plan.
    pub by: Part,
    /// The plans.
    pub named: BTreeMap<String, Terms>,
}

impl Plans {
    /// The plan of that name, and its terms.
    #[must_use]
    pub fn of(&self, name: &[u8]) -> Option<(&str, &Terms)> {
        let name = std::str::from_utf8(name).ok()?;
        self.named
            .get_key_value(name)
            .map(|(name, terms)| (name.as_str(), terms))
    }
}

/// Reads `plans`: `by`, and under every other name the terms of that plan.
pub fn read(
    field: &Field<'_>,
    base: &Base<'_>,
    context: Context<'_>,
    findings: &mut Findings,
) -> Option<Plans> {
    let table = field.any_table(findings)?;
    let by = table
        .require("by", findings)
        .and_then(|field| key::read_part(&field, context, findings));
    let mut named = BTreeMap::new();
    let mut whole = true;
    for (name, field) in table.fields().filter(|(name, _)| *name != "by") {
        match base.plan_terms(&field, findings) {
            Some(terms) => {
                named.insert(name.to_owned(), terms);
            }
            None => whole = false,
        }
    }
    if whole && (named.is_empty() || named.len() > MAX_PLANS) {
        let found = format!("{} plans", named.len());
        findings.error(
            &table.path,
            found,
            format!("1 to {MAX_PLANS} plans beside `by`"),
        );
        whole = false;
    }
    whole.then_some(Plans { by: by?, named })
}
