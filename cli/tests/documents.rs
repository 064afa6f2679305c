//! What the documents show as a policy is one.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

#[test]
fn every_policy_in_the_documents_is_accepted_without_a_warning() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let text = fs::read_to_string(docs.join("configuration.md")).unwrap();
    let policies: Vec<&str> = text
        .split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .filter(|block| block.lines().any(|line| line == "limits:"))
        .collect();
    assert!(policies.len() >= 4);
    for policy in policies {
        let mut check = Command::new(env!("CARGO_BIN_EXE_aforo"))
            .args(["check", "--strict", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        check
            .stdin
            .take()
            .unwrap()
            .write_all(policy.as_bytes())
            .unwrap();
        let output = check.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{policy}\n{told}");
    }
}

#[test]
fn every_field_is_documented() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let text = ["configuration.md", "answers.md"]
        .map(|name| fs::read_to_string(docs.join(name)).unwrap())
        .concat();
    let mut undocumented = Vec::new();
    for (table, fields) in aforo::policy::schema::TABLES {
        for field in *fields {
            let told = [
                format!("`{field}`"),
                format!("{field}:"),
                format!("`{field}:"),
            ];
            if !told.iter().any(|told| text.contains(told)) {
                undocumented.push(format!("{table}.{field}"));
            }
        }
    }
    assert_eq!(undocumented, Vec::<String>::new());
}
