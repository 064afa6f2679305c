//! YAML out of a value, in an order and a style that people write, and so that YAML 1.1 (Kubernetes) and
//! YAML 1.2 (Envoy) read the same.

use crate::yaml::{Value, Yaml};

/// A list or table stands on one line when it fits into so many characters.
const SHORT: usize = 72;

/// The value as lines of YAML.
#[must_use]
pub fn block(yaml: &Yaml) -> String {
    let mut out = String::new();
    write(yaml, 0, &mut out);
    out
}

/// A word that every reader takes for this text: as it is, or quoted.
#[must_use]
pub fn word(text: &str) -> String {
    const WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
    let first = text.chars().next();
    let starts = match first {
        Some(c) if c.is_ascii_digit() => {
            // No number in any reader's eyes: a rate, a span of time, an address.
            text.contains('/')
                || text.ends_with(['s', 'm', 'h', 'd'])
                || text.parse::<std::net::Ipv4Addr>().is_ok()
        }
        Some(c) => c.is_ascii_alphabetic() || c == '/',
        None => false,
    };
    let safe =
        starts && text.chars().all(plain) && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if safe {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}

fn write(yaml: &Yaml, indent: usize, out: &mut String) {
    match &yaml.value {
        Value::Map(map) if !map.is_empty() => {
            for (i, (name, value)) in map.iter().enumerate() {
                if i > 0 {
                    out.push_str(&" ".repeat(indent));
                }
                out.push_str(&word(&name.name()));
                out.push(':');
                entry(value, indent, out);
            }
        }
        Value::List(list) if !list.is_empty() => {
            for (i, value) in list.iter().enumerate() {
                if i > 0 {
                    out.push_str(&" ".repeat(indent));
                }
                out.push_str("- ");
                match &value.value {
                    Value::List(_) => {
                        out.push_str(&on_one_line(value));
                        out.push('\n');
                    }
                    _ => write(value, indent.saturating_add(2), out),
                }
            }
        }
        _ => {
            out.push_str(&on_one_line(yaml));
            out.push('\n');
        }
    }
}

/// The value of a table's entry, after its colon.
fn entry(value: &Yaml, indent: usize, out: &mut String) {
    let line = on_one_line(value);
    let wide = matches!(&value.value, Value::List(list) if list.iter().any(is_table));
    if is_scalar(value) || (line.len() <= SHORT && !wide) {
        out.push(' ');
        out.push_str(&line);
        out.push('\n');
        return;
    }
    let deeper = match &value.value {
        Value::List(_) => indent,
        _ => indent.saturating_add(2),
    };
    out.push('\n');
    out.push_str(&" ".repeat(deeper));
    write(value, deeper, out);
}

fn on_one_line(yaml: &Yaml) -> String {
    match &yaml.value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.clone(),
        Value::Text { text, .. } => word(text),
        Value::List(list) => {
            let items: Vec<String> = list.iter().map(on_one_line).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) if map.is_empty() => "{}".to_owned(),
        Value::Map(map) => {
            let entry = |(name, value): &(Yaml, Yaml)| {
                format!("{}: {}", word(&name.name()), on_one_line(value))
            };
            let entries: Vec<String> = map.iter().map(entry).collect();
            format!("{{ {} }}", entries.join(", "))
        }
    }
}

const fn is_scalar(yaml: &Yaml) -> bool {
    !matches!(yaml.value, Value::List(_) | Value::Map(_))
}

const fn is_table(yaml: &Yaml) -> bool {
    matches!(yaml.value, Value::Map(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::documents;

    #[test]
    fn what_is_written_reads_as_what_was_meant_and_looks_as_one_would_write_it() {
        let text = "\
redis: { cluster: aforo-link, timeout: 20ms, prefix: aforo }
outage: allow
reply:
  headers: [retry-after, ratelimit-fields, x-ratelimit]
  body: problem+json
  texts: { a: 1.5, b: null, c: true, d: \"off\", e: \"1e3\", f: \"0777\", g: \"\" }
limits:
- name: per-key
  when: { path: /api/, methods: [GET, POST] }
  key: [\"header:x-api-key\"]
  rate: 100/1m
  overrides:
  - key: [a, b]
    rate: unlimited
";
        let yaml = documents(text).unwrap().remove(0);
        let written = block(&yaml);
        assert_eq!(documents(&written).unwrap()[0].json(), yaml.json());
        let expected = text.replace("problem+json", "\"problem+json\"");
        assert_eq!(written, expected);
    }
}
