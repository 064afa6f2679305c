//! The policy's own words, with places for the numbers.

use super::settings::{BadSetting, bad, within};

/// A body with places to fill: `{name}`, `{limit}`, `{remaining}`, `{retry_after}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The body. A brace that opens no known place stands for itself.
    pub text: String,
    /// Its `Content-Type`.
    pub content_type: String,
}

impl Template {
    /// The places that are filled.
    pub const PLACES: [&'static str; 4] = ["{name}", "{limit}", "{remaining}", "{retry_after}"];
    /// Most bytes of its text.
    pub const MAX: usize = 16_384;

    /// Checks size, content type and places.
    pub(super) fn check(&self) -> Result<(), BadSetting> {
        within(
            "body.template",
            self.text.len() as u64,
            0,
            Template::MAX as u64,
            " bytes",
        )?;
        let content_type = &self.content_type;
        let visible = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        if content_type.len() > 128
            || !content_type.contains('/')
            || !content_type.bytes().all(visible)
            || content_type.trim() != content_type
        {
            let accepted = "a media type such as text/html; charset=utf-8";
            return Err(bad(
                "body.content_type",
                &format!("{content_type:?}"),
                accepted,
            ));
        }
        let mut rest = self.text.as_str();
        while let Some((_, after)) = rest.split_once('{') {
            rest = after;
            let Some((word, _)) = after.split_once('}') else {
                break;
            };
            let is_word =
                !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            let place = format!("{{{word}}}");
            if is_word && !Template::PLACES.contains(&place.as_str()) {
                return Err(bad("body.template", &place, &Template::PLACES.join(", ")));
            }
        }
        Ok(())
    }

    /// Puts values into the template's places. `{retry_after}` is `null` when no wait helps.
    pub(super) fn fill(
        &self,
        name: &str,
        quota: u64,
        remaining: u64,
        retry_after: Option<u64>,
    ) -> String {
        let values = [
            name.to_owned(),
            quota.to_string(),
            remaining.to_string(),
            retry_after.map_or_else(|| "null".to_owned(), |seconds| seconds.to_string()),
        ];
        let mut filled = String::with_capacity(self.text.len().saturating_add(32));
        let mut rest = self.text.as_str();
        while let Some(at) = rest.find('{') {
            let (before, from_brace) = rest.split_at(at);
            filled.push_str(before);
            let mut places = Template::PLACES.iter().zip(&values);
            if let Some((place, value)) = places.find(|(place, _)| from_brace.starts_with(*place)) {
                filled.push_str(value);
                rest = from_brace.get(place.len()..).unwrap_or_default();
            } else {
                filled.push('{');
                rest = from_brace.get(1..).unwrap_or_default();
            }
        }
        filled.push_str(rest);
        filled
    }
}
