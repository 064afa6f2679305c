//! What `aforo render` writes: as the files of this repository that it wrote, as Istio's resources are, and
//! as the configurations that are shipped. `AFORO_BLESS=1` writes those files again.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::{Value, json};
use support::{root, yaml};

fn aforo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_aforo"))
        .args(arguments)
        .current_dir(root())
        .output()
        .expect("the command runs")
}

/// What it writes.
fn written(arguments: &[&str]) -> String {
    let output = aforo(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

/// The documents of a file.
fn documents(text: &str) -> Vec<Value> {
    text.split("\n---\n").map(yaml).collect()
}

/// The files that the command wrote, with the words that it was given: the first line says so.
fn rendered() -> Vec<(PathBuf, Vec<String>)> {
    let mut files = Vec::new();
    for directory in ["deploy/compose", "deploy/istio"] {
        for entry in fs::read_dir(root().join(directory)).expect("a directory") {
            let path = entry.expect("an entry").path();
            let text = fs::read_to_string(&path).unwrap_or_default();
            let first = text.lines().next().unwrap_or_default();
            if let Some(command) = first.strip_prefix("# aforo ") {
                let words = command.split_whitespace();
                let words = words.map(|word| word.trim_matches('\'').to_owned());
                files.push((path, words.collect()));
            }
        }
    }
    files.sort();
    files
}

fn name(path: &Path) -> String {
    path.strip_prefix(root())
        .unwrap_or(path)
        .display()
        .to_string()
}

#[test]
fn each_rendered_file_is_what_its_command_writes() {
    let files = rendered();
    assert!(files.len() >= 11, "{files:?}");
    let mut faults = Vec::new();
    for (path, words) in files {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let text = written(&words);
        if std::env::var_os("AFORO_BLESS").is_some() {
            fs::write(&path, &text).expect("write");
        } else if fs::read_to_string(&path).expect("read") != text {
            faults.push(name(&path));
        }
    }
    assert!(
        faults.is_empty(),
        "AFORO_BLESS=1 writes them again: {faults:?}"
    );
}

#[test]
fn what_is_rendered_for_istio_is_made_of_istios_fields() {
    let schema = root().join("tests/data/istio/resources.schema.json");
    let mut compiler = boon::Compiler::new();
    let mut schemas = boon::Schemas::new();
    let schema = compiler
        .compile(schema.to_str().expect("a path"), &mut schemas)
        .expect("a schema");
    let mut kinds = std::collections::BTreeSet::new();
    let istio = rendered()
        .into_iter()
        .filter(|(path, _)| name(path).contains("istio"));
    for (path, _) in istio {
        for document in documents(&fs::read_to_string(&path).expect("read")) {
            if let Err(fault) = schemas.validate(&document, schema) {
                panic!("{}, {}: {fault:#}", name(&path), document["kind"]);
            }
            kinds.insert(document["kind"].as_str().expect("a kind").to_owned());
        }
    }
    let all = [
        "DestinationRule",
        "EnvoyFilter",
        "ServiceEntry",
        "TrafficExtension",
        "WasmPlugin",
    ];
    assert!(kinds.iter().eq(all), "{kinds:?}");
}

/// The schema is strict enough to notice.
#[test]
fn a_field_that_istio_does_not_know_is_noticed() {
    let schema = root().join("tests/data/istio/resources.schema.json");
    let mut compiler = boon::Compiler::new();
    let mut schemas = boon::Schemas::new();
    let schema = compiler
        .compile(schema.to_str().expect("a path"), &mut schemas)
        .expect("a schema");
    let text = fs::read_to_string(root().join("deploy/istio/workload.yaml")).expect("read");
    let good = documents(&text).remove(0);
    for (pointer, value) in [
        ("/spec/rootId", json!("aforo")),
        ("/spec/failStrategy", json!("FAIL_CLOSED")),
        ("/spec/url", json!("ftp://x/y")),
        ("/spec/match/0/mode", json!("INBOUND")),
        ("/metadata/name", json!("Aforo")),
        (
            "/spec/targetRefs",
            json!([{ "kind": "Gateway", "name": "x" }]),
        ),
    ] {
        let mut bad = good.clone();
        let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
        bad.pointer_mut(parent).expect("a parent")[field] = value;
        assert!(schemas.validate(&bad, schema).is_err(), "{pointer}");
    }
    assert!(schemas.validate(&good, schema).is_ok());
}

#[test]
fn what_is_rendered_for_envoy_is_what_is_shipped() {
    let ways: [(&str, &[&str]); 3] = [
        ("envoy.yaml", &["--redis", "127.0.0.1:6379"]),
        (
            "envoy-straight.yaml",
            &["--redis", "127.0.0.1:6379", "--straight"],
        ),
        (
            "envoy-cluster.yaml",
            &[
                "--redis",
                "127.0.0.1:7001",
                "--redis",
                "127.0.0.1:7002",
                "--redis",
                "127.0.0.1:7003",
            ],
        ),
    ];
    for (file, way) in ways {
        let module = "target/wasm32-wasip1/release/aforo.wasm";
        let place = ["--listen", "127.0.0.1:10000", "--module", module];
        let words = [&["render", "envoy", file], way, &place].concat();
        let mut found = yaml(&written(&words));
        let shipped = yaml(&fs::read_to_string(root().join(file)).expect("read"));
        let tags = found
            .as_object_mut()
            .expect("an object")
            .remove("stats_config");
        let tags = json!({ "stats_config": tags });
        let path = root().join("deploy/prometheus/stats-tags.yaml");
        assert_eq!(tags, yaml(&fs::read_to_string(path).expect("read")));
        assert_eq!(found, shipped, "{file}");
    }
}

#[test]
fn what_does_not_fit_together_is_refused_with_what_to_do() {
    let policy = "deploy/istio/policy.yaml";
    let cluster = "deploy/istio/policy-cluster.yaml";
    let webdis = "deploy/istio/policy-webdis.yaml";
    let higress = "tests/data/policy/good/higress.yaml";
    let one = ["--redis", "redis:6379"];
    let module = ["--module", "oci://registry.example/aforo:0.1.0"];
    let cases: [(&[&str], i32, &str); 15] = [
        (&["envoy", policy], 2, "--redis HOST:PORT"),
        (
            &["envoy", policy, "--redis", "redis"],
            2,
            "a host and a port",
        ),
        (
            &["envoy", policy, "--redis", "a:1", "--redis", "b:1"],
            2,
            "topology: cluster",
        ),
        (
            &["envoy", policy, "--gateway", "webdis:7379"],
            2,
            "the policy's link is envoy",
        ),
        (
            &["envoy", cluster, "--redis", "a:1", "--straight"],
            2,
            "leave --straight away",
        ),
        (&["envoy", webdis], 2, "with --gateway"),
        (&["envoy", higress], 2, "configured in Higress"),
        (
            &["envoy", webdis, "--gateway", "webdis:7379", one[0], one[1]],
            2,
            "nothing of Redis",
        ),
        (
            &["envoy", policy, one[0], one[1], "--redis-user", "x"],
            2,
            "--redis-password-env",
        ),
        (
            &[
                "envoy",
                policy,
                one[0],
                one[1],
                "--straight",
                "--redis-password-env",
                "X",
            ],
            2,
            "redis.password in the policy",
        ),
        (
            &["envoy", "no-such-file.yaml", one[0], one[1]],
            2,
            "no-such-file.yaml",
        ),
        (
            &[
                "istio",
                webdis,
                "--gateway",
                "webdis:7379",
                module[0],
                module[1],
            ],
            2,
            "whole name",
        ),
        (
            &[
                "istio",
                policy,
                one[0],
                one[1],
                "--module",
                "file:///x.wasm",
            ],
            2,
            "never in one VM",
        ),
        (
            &[
                "istio",
                policy,
                one[0],
                one[1],
                module[0],
                module[1],
                "--namespace",
                "A b",
            ],
            2,
            "lower-case letters",
        ),
        (
            &[
                "istio",
                cluster,
                "--redis",
                "a.b.c:1",
                "--redis-service",
                module[0],
                module[1],
            ],
            2,
            "leave --redis-service away",
        ),
    ];
    for (words, code, said) in cases {
        let output = aforo(&[&["render"], words].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {text}");
        assert!(text.contains(said), "{words:?}: {text}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
}

#[test]
fn a_refused_policy_is_not_rendered() {
    let directory = support::Dir::temporary("render");
    let file = directory.join("policy.yaml");
    fs::write(
        &file,
        "limits: [{name: a, key: [], algorithm: gcra, rate: never}]",
    )
    .expect("write");
    let file = file.to_str().expect("a path");
    let output = aforo(&["render", "envoy", file, "--redis", "redis:6379"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("limits[0].rate"), "{text}");
}

/// What a policy says reaches the filter as it was written, whoever reads the YAML in between.
#[test]
fn no_text_of_a_policy_is_read_as_something_else() {
    let directory = support::Dir::temporary("render");
    let file = directory.join("policy.json");
    let names = [
        "yes",
        "off",
        "1e3",
        "0x1F",
        "0o7",
        "~",
        "1:30",
        "- a",
        "a: b",
        "# a",
        "é",
        "*",
        "&a",
        "12345678901234567890",
    ];
    let limit = |name: &&str| {
        json!({ "name": "a", "key": [{ "header": "x", "secret": false }], "missing": "shared",
                "algorithm": "gcra", "rate": "1/1s",
                "plans": { "by": "header:plan", *name: "2/1s" } })
    };
    for name in &names {
        let policy = json!({ "limits": [limit(name)] });
        fs::write(&file, policy.to_string()).expect("write");
        let file = file.to_str().expect("a path");
        let text = written(&["render", "envoy", file, "--redis", "redis:6379"]);
        let config = yaml(&text);
        let chain = &config["static_resources"]["listeners"][0]["filter_chains"][0];
        let filters = &chain["filters"][0]["typed_config"]["http_filters"];
        let found = &filters[0]["typed_config"]["config"]["configuration"]["value"];
        assert_eq!(found, &policy, "{name:?}\n{text}");
    }
}
