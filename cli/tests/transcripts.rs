//! What the command prints, word for word. `AFORO_BLESS=1` writes what it prints now.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/policy")
}

/// Runs the command among the data; its output, and the exit code at the end.
fn aforo(arguments: &[String]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_aforo"))
        .args(arguments)
        .current_dir(data())
        .output()
        .unwrap();
    format!(
        "{}{}exit {}\n",
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
        output.status.code().unwrap()
    )
}

fn compare(expected: &Path, found: &str, faults: &mut Vec<String>) {
    if std::env::var_os("AFORO_BLESS").is_some() {
        fs::write(expected, found).unwrap();
        return;
    }
    let wanted = fs::read_to_string(expected).unwrap_or_default();
    if wanted != found {
        faults.push(format!(
            "{}:\n--- expected\n{wanted}--- found\n{found}",
            expected.display()
        ));
    }
}

fn files(directory: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(data().join(directory)).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn every_good_and_bad_file_gives_its_expected_output() {
    let mut faults = Vec::new();
    for (directory, bad) in [("good", false), ("bad", true)] {
        let policies = files(directory)
            .into_iter()
            .filter(|file| file.extension().unwrap() != "out");
        for file in policies {
            let name = file.file_name().unwrap().to_str().unwrap();
            let found = aforo(&["check".to_owned(), format!("{directory}/{name}")]);
            assert_eq!(found.ends_with("exit 0\n"), !bad, "{name}: {found}");
            assert!(!found.contains("hunter2"), "{name} shows a secret: {found}");
            compare(
                &file.with_file_name(format!("{name}.out")),
                &found,
                &mut faults,
            );
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_transcript_is_what_the_command_prints() {
    let mut faults = Vec::new();
    for file in files("explain") {
        let text = fs::read_to_string(&file).unwrap();
        let command = text.lines().next().unwrap();
        let words = words(command.strip_prefix("$ aforo ").unwrap());
        compare(&file, &format!("{command}\n{}", aforo(&words)), &mut faults);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_committed_schema_is_the_one_that_is_printed() {
    let found = aforo(&["schema".to_owned()]);
    let file = data().join("../../../docs/policy.schema.json");
    let mut faults = Vec::new();
    compare(&file, found.strip_suffix("exit 0\n").unwrap(), &mut faults);
    assert!(
        faults.is_empty(),
        "print it again: aforo schema > docs/policy.schema.json"
    );
}

/// A command line as a shell splits it, single quotes only.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (i, piece) in line.split('\'').enumerate() {
        if i % 2 == 1 {
            words.push(piece.to_owned());
        } else {
            words.extend(piece.split_whitespace().map(ToOwned::to_owned));
        }
    }
    words
}

/// The files whose fault no schema can tell: names that repeat, fields that depend on one another,
/// numbers that an algorithm refuses, text that is no JSON or holds no policy.
const BEYOND_A_SCHEMA: [&str; 6] = [
    "comment.json",
    "duplicate.json",
    "gateways.yaml",
    "no-policy.yaml",
    "not-yaml.yaml",
    "trailing-comma.json",
];

#[test]
fn the_schema_accepts_the_good_files_and_refuses_the_bad_ones() {
    let schema: serde_json::Value = serde_json::from_str(
        &fs::read_to_string(data().join("../../../docs/policy.schema.json")).unwrap(),
    )
    .unwrap();
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    compiler.add_resource("policy.json", schema).unwrap();
    let index = compiler.compile("policy.json", &mut schemas).unwrap();
    for (directory, good) in [("good", true), ("bad", false)] {
        for file in files(directory) {
            let name = file.file_name().unwrap().to_str().unwrap();
            if name.ends_with(".out") || BEYOND_A_SCHEMA.contains(&name) {
                continue;
            }
            let output = aforo(&["json".to_owned(), format!("{directory}/{name}")]);
            let json = output.strip_suffix("exit 0\n").unwrap();
            for policy in serde_json::Deserializer::from_str(json).into_iter() {
                let policy: serde_json::Value = policy.unwrap();
                let outcome = schemas.validate(&policy, index);
                assert_eq!(outcome.is_ok(), good, "{name}: {outcome:?}");
            }
        }
    }
}
