//! YAML (and JSON, which is YAML) as it was written: with lines, order and repeated names, and with the
//! words that another reader would take for something else.

use std::{collections::HashMap, fmt, fmt::Write as _};

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

/// Levels in levels.
const DEEPEST: usize = 100;
/// Most values of a file, aliases counted as often as they are used.
const MOST: usize = 2_000_000;

/// A value and the line it stands on.
#[derive(Clone, Debug, PartialEq)]
pub struct Yaml {
    /// Counted from 1.
    pub line: usize,
    /// The value.
    pub value: Value,
}

/// One YAML value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`, `~` or nothing.
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number, as JSON writes it.
    Number(String),
    /// Text.
    Text {
        /// The text.
        text: String,
        /// Whether YAML 1.1 reads it as true or false: an unquoted `yes`, `no`, `on`, `off`.
        boolean: bool,
    },
    /// A sequence.
    List(Vec<Yaml>),
    /// A mapping, repeated names included.
    Map(Vec<(Yaml, Yaml)>),
}

/// A file that is no YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Counted from 1.
    pub line: usize,
    /// Why.
    pub text: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Malformed {}

/// Reads all documents of a file.
///
/// # Errors
/// The first place that is no YAML, or goes too deep, or is too much.
pub fn documents(text: &str) -> Result<Vec<Yaml>, Malformed> {
    let mut loader = Loader {
        parser: Parser::new_from_str(text),
        anchors: HashMap::new(),
        count: 0,
    };
    let mut documents = Vec::new();
    loop {
        let (event, span) = loader.next()?;
        match event {
            Event::StreamEnd => return Ok(documents),
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            event => documents.push(loader.value(event, span, DEEPEST)?),
        }
    }
}

struct Loader<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    anchors: HashMap<usize, (Yaml, usize)>,
    count: usize,
}

impl<'a> Loader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Malformed> {
        match self.parser.next() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(Malformed {
                line: error.marker().line(),
                text: error.info().to_owned(),
            }),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn value(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Yaml, Malformed> {
        let line = span.start.line();
        let malformed = |text: &str| Malformed {
            line,
            text: text.to_owned(),
        };
        let depth = depth
            .checked_sub(1)
            .ok_or_else(|| malformed("levels in levels, too many"))?;
        let before = self.count;
        self.count += 1;
        if self.count > MOST {
            return Err(malformed("more values than a policy can have"));
        }
        let (anchor, value) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let text_tag = tag.is_some_and(|tag| tag.suffix == "str" || tag.suffix.is_empty());
                let plain = matches!(style, ScalarStyle::Plain) && !text_tag;
                (anchor, if plain { resolve(&text) } else { quoted(&text) })
            }
            Event::SequenceStart(anchor, _) => {
                let mut list = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break,
                        (event, span) => list.push(self.value(event, span, depth)?),
                    }
                }
                (anchor, Value::List(list))
            }
            Event::MappingStart(anchor, _) => {
                let mut map = Vec::new();
                loop {
                    let name = match self.next()? {
                        (Event::MappingEnd, _) => break,
                        (event, span) => self.value(event, span, depth)?,
                    };
                    let (event, span) = self.next()?;
                    map.push((name, self.value(event, span, depth)?));
                }
                (anchor, Value::Map(map))
            }
            Event::Alias(anchor) => {
                let known = self.anchors.get(&anchor);
                let (yaml, size) = known
                    .cloned()
                    .ok_or_else(|| malformed("an alias of nothing"))?;
                self.count += size;
                return Ok(Yaml { line, ..yaml });
            }
            _ => return Err(malformed("something unexpected")),
        };
        let yaml = Yaml { line, value };
        if anchor != 0 {
            self.anchors
                .insert(anchor, (yaml.clone(), self.count - before));
        }
        Ok(yaml)
    }
}

fn quoted(text: &str) -> Value {
    Value::Text {
        text: text.to_owned(),
        boolean: false,
    }
}

/// What an unquoted word is in YAML 1.2.
fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let number = text.strip_prefix('+').unwrap_or(text);
    let digits = number.strip_prefix('-').unwrap_or(number);
    if digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        if let Ok(whole) = number.parse::<i64>() {
            return Value::Number(whole.to_string());
        }
        let radix = |prefix, radix| i64::from_str_radix(number.strip_prefix(prefix)?, radix).ok();
        if let Some(whole) = radix("0o", 8).or_else(|| radix("0x", 16)) {
            return Value::Number(whole.to_string());
        }
        let plain = digits
            .bytes()
            .all(|b| b.is_ascii_digit() || b".eE+-".contains(&b));
        if let Ok(number) = number.parse::<f64>()
            && plain
            && let Some(number) = serde_json::Number::from_f64(number)
        {
            return Value::Number(number.to_string());
        }
    }
    let boolean = matches!(
        text.to_ascii_lowercase().as_str(),
        "yes" | "no" | "on" | "off"
    );
    Value::Text {
        text: text.to_owned(),
        boolean,
    }
}

impl Yaml {
    /// The value under that name of a mapping.
    pub fn get(&self, name: &str) -> Option<&Self> {
        match &self.value {
            Value::Map(map) => map
                .iter()
                .find(|(key, _)| key.is(name))
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// Whether this is that text.
    pub fn is(&self, text: &str) -> bool {
        self.text() == Some(text)
    }

    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The name that a mapping's key is in JSON.
    pub fn name(&self) -> String {
        match &self.value {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Number(number) => number.clone(),
            Value::Text { text, .. } => text.clone(),
            Value::List(_) | Value::Map(_) => "a list or table as a name".to_owned(),
        }
    }

    /// The same as JSON, repeated names included.
    pub fn json(&self) -> String {
        let mut out = String::new();
        self.write_json(&mut out);
        out
    }

    fn write_json(&self, out: &mut String) {
        let text = |text: &str, out: &mut String| {
            let _ = write!(out, "{}", serde_json::Value::from(text));
        };
        match &self.value {
            Value::Null => out.push_str("null"),
            Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Value::Number(number) => out.push_str(number),
            Value::Text { text: value, .. } => text(value, out),
            Value::List(list) => {
                out.push('[');
                for (i, value) in list.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    value.write_json(out);
                }
                out.push(']');
            }
            Value::Map(map) => {
                out.push('{');
                for (i, (name, value)) in map.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    text(&name.name(), out);
                    out.push(':');
                    value.write_json(out);
                }
                out.push('}');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        documents(text)
            .unwrap()
            .iter()
            .map(Yaml::json)
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn yaml_becomes_the_json_that_was_meant() {
        for (yaml, expected) in [
            ("a: 1\nb: [x, '1', \"y\"]", r#"{"a":1,"b":["x","1","y"]}"#),
            (
                "a: 100/1m\nb: 20ms\nc: 1.5\nd: -0\ne: 0x1F",
                r#"{"a":"100/1m","b":"20ms","c":1.5,"d":0,"e":31}"#,
            ),
            (
                "a: ~\nb:\nc: null\nd: 'null'",
                r#"{"a":null,"b":null,"c":null,"d":"null"}"#,
            ),
            (
                "a: true\nb: off\nc: False",
                r#"{"a":true,"b":"off","c":false}"#,
            ),
            ("a: &x {b: 1}\nc: *x", r#"{"a":{"b":1},"c":{"b":1}}"#),
            ("a: 1\n---\nb: 2", r#"{"a":1} {"b":2}"#),
            ("a: |\n  x\n  y\n", r#"{"a":"x\ny\n"}"#),
            (r#"{"a": 1, "a": 2}"#, r#"{"a":1,"a":2}"#),
            (
                "a: 1e3\nb: .inf\nc: 1.2.3.4\nd: 2001:db8::/32",
                r#"{"a":1000.0,"b":".inf","c":"1.2.3.4","d":"2001:db8::/32"}"#,
            ),
        ] {
            assert_eq!(json(yaml), expected, "{yaml}");
        }
    }

    #[test]
    fn a_file_cannot_blow_up() {
        let mut bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for (this, before) in "bcdefghijk".chars().zip("abcdefghij".chars()) {
            let alias = format!("*{before}, ").repeat(9);
            let _ = writeln!(bomb, "{this}: &{this} [{alias} *{before}]");
        }
        assert!(documents(&bomb).unwrap_err().text.contains("more values"));
        assert!(documents(&"[".repeat(500)).is_err());
    }
}
