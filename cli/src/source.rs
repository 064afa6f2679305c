//! Finds the policies in a file: a policy itself, the plugin configuration of an Istio resource, or the
//! configuration of the HTTP filter in an Envoy file.

use std::collections::BTreeMap;

use aforo::policy::{Errors, Policy, Warning, findings::Path, node::Node};

use crate::yaml::{self, Malformed, Value, Yaml};

/// One policy in a file.
pub struct Source {
    /// Which it is, when the file is not the policy itself: `WasmPlugin aforo`.
    pub within: Option<String>,
    json: String,
    lines: BTreeMap<String, usize>,
    /// Words that YAML 1.1 reads as true or false, by their place.
    booleans: Vec<(Path, String)>,
}

/// The policies of a file.
///
/// # Errors
/// When the file is neither YAML nor JSON.
pub fn read(text: &str, is_json: bool) -> Result<Vec<Source>, Malformed> {
    if is_json
        && let Err(error) = serde_json::from_str::<Node>(text)
        && !text.trim().is_empty()
    {
        return Err(Malformed {
            line: error.line(),
            text: error.to_string(),
        });
    }
    let documents = yaml::documents(text)?;
    let mut sources = Vec::new();
    for document in &documents {
        if document.get("limits").is_some() && is_bare(document) {
            sources.push(Source::new(document, None));
        } else {
            find(document, &context(document), &mut sources);
        }
    }
    if sources.is_empty() && documents.iter().all(is_bare) {
        // Whatever it is, it was meant as a policy: let the reader say what is wrong with it.
        let whole = documents.first().cloned().unwrap_or(Yaml {
            line: 1,
            value: Value::Null,
        });
        sources.push(Source::new(&whole, None));
    }
    Ok(sources)
}

/// The policies of a file by its name; at least one.
///
/// # Errors
/// Why there is none, for a person.
pub fn of(file: &str) -> Result<Vec<Source>, String> {
    let (text, is_json) = crate::text_of(file)?;
    let sources = read(&text, is_json).map_err(|error| format!("line {}: {error}", error.line))?;
    match sources.is_empty() {
        true => Err("no policy of this filter is in the file".to_owned()),
        false => Ok(sources),
    }
}

impl Source {
    /// The policy's JSON.
    pub fn json(&self) -> &str {
        self.json.trim()
    }

    fn new(policy: &Yaml, within: Option<String>) -> Self {
        let mut source = Self {
            within,
            json: policy.json(),
            lines: BTreeMap::new(),
            booleans: Vec::new(),
        };
        source.note(policy, &Path::default());
        source
    }

    /// A policy that stands as JSON text inside another file, from that line on.
    fn from_text(text: &str, line: usize, within: Option<String>) -> Self {
        let lines = BTreeMap::from([(Path::default().to_string(), line)]);
        Self {
            within,
            json: text.to_owned(),
            lines,
            booleans: Vec::new(),
        }
    }

    /// The policy, or what is wrong with it; as the filter reads it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn policy(&self) -> Result<(Policy, Vec<Warning>), Errors> {
        Policy::from_json(self.json.as_bytes())
    }

    /// The line of a place, or of what it should have been in.
    pub fn line(&self, path: &Path) -> Option<usize> {
        let mut path = path.to_string();
        loop {
            if let Some(line) = self.lines.get(&path) {
                return Some(*line);
            }
            match path.rfind(['.', '[']) {
                Some(end) => path.truncate(end),
                None => return self.lines.get(&Path::default().to_string()).copied(),
            }
        }
    }

    /// Words that Kubernetes and Envoy would take for true or false.
    pub fn booleans(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.booleans
            .iter()
            .map(|(path, word)| (path, word.as_str()))
    }

    fn note(&mut self, yaml: &Yaml, path: &Path) {
        self.lines.entry(path.to_string()).or_insert(yaml.line);
        match &yaml.value {
            Value::List(list) => {
                for (i, value) in list.iter().enumerate() {
                    self.note(value, &path.index(i));
                }
            }
            Value::Map(map) => {
                for (name, value) in map {
                    let path = path.field(&name.name());
                    self.lines.entry(path.to_string()).or_insert(name.line);
                    if let Value::Text {
                        text,
                        boolean: true,
                    } = &name.value
                    {
                        self.booleans.push((path.clone(), text.clone()));
                    }
                    self.note(value, &path);
                }
            }
            // `mode: off` is understood either way.
            Value::Text {
                text,
                boolean: true,
            } if text != "off" => {
                self.booleans.push((path.clone(), text.clone()));
            }
            _ => {}
        }
    }
}

/// Whether a document is neither a Kubernetes resource nor an Envoy file.
fn is_bare(document: &Yaml) -> bool {
    ["apiVersion", "kind", "static_resources", "resources"]
        .iter()
        .all(|name| document.get(name).is_none())
}

/// What a resource calls itself.
fn context(document: &Yaml) -> Option<String> {
    let kind = document.get("kind")?.text()?;
    let name = document
        .get("metadata")
        .and_then(|metadata| metadata.get("name"));
    Some(match name.and_then(Yaml::text) {
        Some(name) => format!("{kind} {name}"),
        None => kind.to_owned(),
    })
}

fn find(yaml: &Yaml, within: &Option<String>, sources: &mut Vec<Source>) {
    match &yaml.value {
        Value::List(list) => list.iter().for_each(|value| find(value, within, sources)),
        Value::Map(map) => {
            let ours = ["url", "name", "root_id", "pluginName"]
                .iter()
                .filter_map(|name| yaml.get(name)?.text())
                .any(|text| text.contains("aforo"));
            for (name, value) in map {
                match name.text() {
                    Some("pluginConfig" | "configuration") => {
                        configuration(value, ours, within, sources);
                    }
                    _ => find(value, within, sources),
                }
            }
        }
        _ => {}
    }
}

/// A plugin's configuration: a table, or a typed message that holds one or its JSON text.
fn configuration(yaml: &Yaml, ours: bool, within: &Option<String>, sources: &mut Vec<Source>) {
    let within = within
        .clone()
        .or_else(|| Some("filter configuration".to_owned()));
    let value = match (yaml.get("@type"), yaml.get("value")) {
        (Some(_), Some(value)) => value,
        _ => yaml,
    };
    if value.get("role").is_some_and(|role| role.is("link")) {
        return;
    }
    if let Some(text) = value.text() {
        let holds_limits = text.contains("\"limits\"");
        if holds_limits || (ours && !text.contains("\"link\"")) {
            sources.push(Source::from_text(text, value.line, within));
        }
    } else if value.get("limits").is_some() || ours {
        sources.push(Source::new(value, within));
    }
}
