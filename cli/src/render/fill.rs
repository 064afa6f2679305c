//! Templates: text with `{{name}}` in it.

/// What stands for the names of a template.
#[derive(Debug, Default)]
pub struct Values(Vec<(&'static str, String)>);

impl Values {
    /// With one more.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.0.push((name, value.into()));
        self
    }

    fn of(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map_or("", |(_, value)| value)
    }
}

/// Fills a template. A name inside a line stands for text of that line. A name that is all of a line
/// stands for lines, indented as it is; when there are none the line goes.
#[must_use]
pub fn fill(template: &str, values: &Values) -> String {
    let mut out = String::new();
    for line in template.lines() {
        match whole(line.trim_start()) {
            Some(name) => {
                let indent = line.len().saturating_sub(line.trim_start().len());
                out.push_str(&indented(values.of(name), indent));
            }
            None => {
                out.push_str(&inside(line, values));
                out.push('\n');
            }
        }
    }
    out
}

/// Lines with so many spaces in front.
#[must_use]
pub fn indented(lines: &str, spaces: usize) -> String {
    let indent = " ".repeat(spaces);
    let each = lines.lines().map(|line| match line {
        "" => "\n".to_owned(),
        line => format!("{indent}{line}\n"),
    });
    each.collect()
}

/// The name, when a line holds nothing else.
fn whole(line: &str) -> Option<&str> {
    let name = line.strip_prefix("{{")?.strip_suffix("}}")?;
    (!name.contains("{{")).then_some(name)
}

fn inside(mut line: &str, values: &Values) -> String {
    let mut out = String::new();
    while let Some((before, rest)) = line.split_once("{{") {
        let (name, after) = rest.split_once("}}").unwrap_or((rest, ""));
        out.push_str(before);
        out.push_str(values.of(name));
        line = after;
    }
    out + line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_text_or_for_indented_lines() {
        let values = Values::default()
            .with("host", "redis")
            .with("port", "6379")
            .with("block", "a: 1\n\nb:\n  c: 2")
            .with("nothing", "");
        let template = "at: {{host}}:{{port}}\nmore:\n  {{block}}\n  {{nothing}}\nend\n";
        let expected = "at: redis:6379\nmore:\n  a: 1\n\n  b:\n    c: 2\nend\n";
        assert_eq!(fill(template, &values), expected);
    }
}
