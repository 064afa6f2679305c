//! The `reply` section, as written: what the answer shows.

use super::{field::Field, findings::Findings};

/// The fields of the section.
pub const FIELDS: &[&str] = &["headers", "body"];

/// The `reply` section, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reply {
    /// The header families, by name.
    pub headers: Option<Vec<String>>,
    /// The body's form, by name.
    pub body: Option<String>,
}

/// Reads the section.
pub fn read(field: Option<Field<'_>>, findings: &mut Findings) -> Reply {
    let mut reply = Reply::default();
    let Some(table) = field.and_then(|field| field.table(FIELDS, findings)) else {
        return reply;
    };
    reply.body = table
        .get("body")
        .and_then(|field| field.text(findings))
        .map(ToOwned::to_owned);
    if let Some(list) = table
        .get("headers")
        .and_then(|field| field.list(0..=8, findings))
    {
        let names = list
            .iter()
            .filter_map(|field| field.text(findings))
            .map(ToOwned::to_owned);
        reply.headers = Some(names.collect());
    }
    reply
}
