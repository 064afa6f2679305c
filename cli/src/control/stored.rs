//! A policy as it is stored in Redis: one line of JSON in the file's order, without what each proxy has
//! from its own configuration.

use aforo::{
    control::MAX_POLICY_BYTES,
    policy::{Policy, node::Node},
};

/// A policy that can be pushed.
pub struct Stored {
    /// The JSON.
    pub text: String,
    /// The fields that were left out of it.
    pub left_out: Vec<String>,
    /// What its keys begin with.
    pub head: String,
}

impl Stored {
    /// Of a policy's JSON that was checked.
    ///
    /// # Errors
    /// Why filters would not take it, for a person.
    pub fn of(json: &str) -> Result<Self, String> {
        let json = json.strip_prefix('\u{FEFF}').unwrap_or(json);
        let mut node: Node = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let mut left_out = Vec::new();
        leave_out(&mut node, &mut left_out);
        let mut text = String::new();
        write(&node, &mut text);
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if bytes > MAX_POLICY_BYTES {
            return Err(format!(
                "the policy has {bytes} bytes, filters take at most {MAX_POLICY_BYTES}"
            ));
        }
        // What is stored is what must be good.
        let (policy, _) =
            Policy::from_json(text.as_bytes()).map_err(|errors| errors.to_string())?;
        Ok(Self {
            text,
            left_out,
            head: policy.key_head,
        })
    }
}

/// Takes out what a pushed policy does not decide: how Redis is reached, what is followed, and secrets.
fn leave_out(policy: &mut Node, left_out: &mut Vec<String>) {
    let Node::Table(fields) = policy else { return };
    let mut take = |fields: &mut Vec<(String, Node)>, at: &str, leaves: &dyn Fn(&str) -> bool| {
        fields.retain(|(name, _)| {
            let stays = !leaves(name);
            if !stays {
                left_out.push(format!("{at}{name}"));
            }
            stays
        });
    };
    take(fields, "", &|name| matches!(name, "control" | "hash_key"));
    for (name, node) in fields.iter_mut() {
        let Node::Table(section) = node else { continue };
        match name.as_str() {
            "redis" => take(section, "redis.", &|name| name != "prefix"),
            "reply" => take(section, "reply.", &|name| name == "debug_secret"),
            _ => {}
        }
    }
    let emptied = |name: &str, node: &Node| name == "redis" && *node == Node::Table(Vec::new());
    fields.retain(|(name, node)| !emptied(name, node));
}

fn write(node: &Node, out: &mut String) {
    match node {
        Node::Null => out.push_str("null"),
        Node::Bool(value) => out.push_str(&value.to_string()),
        Node::Integer(value) => out.push_str(&value.to_string()),
        Node::Number(value) => out.push_str(&serde_json::Value::from(*value).to_string()),
        Node::Text(text) => write_text(text, out),
        Node::List(list) => {
            out.push('[');
            for (index, node) in list.iter().enumerate() {
                comma(index, out);
                write(node, out);
            }
            out.push(']');
        }
        Node::Table(table) => {
            out.push('{');
            for (index, (name, node)) in table.iter().enumerate() {
                comma(index, out);
                write_text(name, out);
                out.push(':');
                write(node, out);
            }
            out.push('}');
        }
    }
}

/// In ASCII alone: filters fetch the text in slices of bytes, and a gateway that answers in JSON would
/// spoil a character that two slices share.
fn write_text(text: &str, out: &mut String) {
    for c in serde_json::Value::from(text).to_string().chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
}

fn comma(index: usize, out: &mut String) {
    if index > 0 {
        out.push(',');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: &str = r#"[{"name":"z","key":["ip"],"algorithm":"gcra","rate":"5/1s"}]"#;

    #[test]
    fn the_order_of_the_file_stays_and_nothing_else_does() {
        let json = format!(
            "{{\n  \"outage\" : \"deny\",\n \"limits\": {LIMITS},\n \"local\": {{\"keys\": 5.0}} }}"
        );
        let stored = Stored::of(&json).unwrap();
        let expected = format!(r#"{{"outage":"deny","limits":{LIMITS},"local":{{"keys":5}}}}"#);
        assert_eq!(stored.text, expected);
        assert_eq!((stored.left_out.len(), stored.head.as_str()), (0, "aforo:"));
    }

    #[test]
    fn what_is_stored_is_ascii_and_means_the_same() {
        let name = "é 密 🗝 \u{7f} \\ \" \n";
        let json = serde_json::json!({"limits": [{"name": "z", "key": ["ip"], "algorithm": "gcra",
            "rate": "5/1s", "when": {"header": {"x-é": name}}}]});
        let mut text = String::new();
        write(&serde_json::from_value(json.clone()).unwrap(), &mut text);
        assert!(text.is_ascii(), "{text}");
        assert!(text.contains(r"\u00e9 \u5bc6 \ud83d\udddd"), "{text}");
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read, json);
    }

    #[test]
    fn secrets_and_what_each_proxy_decides_for_itself_stay_out_of_redis() {
        let json = format!(
            r#"{{"domain": "shop", "hash_key": "hunter2hunter2hunter2", "control": {{"policy": true}},
                "redis": {{"link": "upstash", "cluster": "u", "token": "hunter2", "prefix": "rl"}},
                "reply": {{"debug_secret": "hunter2hunter2hunter2", "status": {{"limited": 430}}}},
                "limits": {LIMITS}}}"#
        );
        let stored = Stored::of(&json).unwrap();
        let expected = format!(
            r#"{{"domain":"shop","redis":{{"prefix":"rl"}},"reply":{{"status":{{"limited":430}}}},"limits":{LIMITS}}}"#
        );
        assert_eq!((stored.text, stored.head.as_str()), (expected, "rl:shop:"));
        assert_eq!(
            stored.left_out,
            [
                "hash_key",
                "control",
                "redis.link",
                "redis.cluster",
                "redis.token",
                "reply.debug_secret"
            ]
        );
    }

    #[test]
    fn a_policy_that_filters_would_cut_is_refused() {
        let name = "x".repeat(200);
        let limits: Vec<String> = (0..6_000)
            .map(|number| {
                format!(
                    r#"{{"name":"l{number}","key":["header:{name}"],"algorithm":"gcra","rate":"5/1s"}}"#
                )
            })
            .collect();
        let json = format!(r#"{{"limits":[{}]}}"#, limits.join(","));
        let error = Stored::of(&json).err().unwrap();
        assert!(error.contains("at most 1048576"), "{error}");
    }
}
