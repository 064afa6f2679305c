//! `docker-compose.yml` and the Dockerfile, run as they are on Docker's engine, on stand-ins for the images
//! where no registry is at hand. SKIPPED, with the reason, where there is no engine.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use support::client::{Answer, at_once, count, get};
use support::compose::{self, Project};
use support::docker::{self, LABEL, PROJECTS, StandIns, docker, said};
use support::{Dir, Module, mesh::turn, root, until_within, yaml};

/// What the shipped policy allows a client in a minute.
const LIMIT: usize = 10;
/// The ports of an Envoy in its container.
const CLIENTS: u16 = 10_000;
const ADMIN: u16 = 9_901;
/// How long a part may take to notice a change: names are asked for anew every five seconds.
const SOON: Duration = Duration::from_secs(40);

/// Whether the engine is there; says so where it is not.
fn engine() -> bool {
    let there = docker::is_there();
    if let Err(reason) = &there {
        eprintln!("SKIPPED: docker-compose.yml is not run: {reason}");
    }
    there.is_ok()
}

#[test]
fn compose_up_is_one_exact_limit_and_outlives_its_redis_and_a_partition() {
    if !engine() {
        return;
    }
    let _turn = turn();
    let project = Project::up(&[]);
    let both = ["envoy-a", "envoy-b"].map(|service| project.address(service, CLIENTS));
    let [a, b] = both;
    until_decided(&both);
    exactly_the_limit(&both, "before");
    let body = get("/a/path?with=words")
        .header("x-api-key", "body")
        .to(a)
        .body;
    assert_eq!(body, "GET /a/path?with=words\n");
    the_metrics_are_there(&project);

    project.kill("redis");
    until_undecided(&both);
    let answers = ask(&both, "meanwhile", 3 * LIMIT);
    assert_eq!(count(&answers, 200), 3 * LIMIT, "outage: allow");
    project.start("redis");
    until_decided(&both);
    exactly_the_limit(&both, "after");

    project.cut_off("envoy-b", "redis");
    until_undecided(&[b]);
    exactly_the_limit(&[a], "cut");
    let answers = ask(&[b], "cut", 3 * LIMIT);
    assert_eq!(count(&answers, 200), 3 * LIMIT, "outage: allow");
    project.join("envoy-b", "redis");
    until_decided(&both);
    let answers = ask(&[b], "cut", LIMIT);
    assert_eq!(
        count(&answers, 429),
        LIMIT,
        "what the other one admitted counts"
    );
    exactly_the_limit(&both, "joined");

    // The switch, by the words of docs/running.md.
    let control = |words: &[&str]| {
        let words = [&["exec", "-T", "redis", "redis-cli"], words].concat();
        project.compose(&words)
    };
    control(&["set", "aforo:control", "shadow"]);
    until_within(SOON, "the switch to be heeded", || {
        count(&ask(&both, "joined", LIMIT), 200) == LIMIT
    });
    control(&["del", "aforo:control"]);
    until_within(SOON, "the switch to be off", || {
        count(&ask(&both, "joined", LIMIT), 429) == LIMIT
    });

    project.down();
    let name = format!("name={}", project.name());
    assert_eq!(docker(&["ps", "-aq", "--filter", &name]), "");
    assert_eq!(docker(&["network", "ls", "-q", "--filter", &name]), "");
}

#[test]
fn the_profiles_cluster_and_webdis_count_as_exactly() {
    if !engine() {
        return;
    }
    let _turn = turn();
    let project = Project::up(&["cluster", "webdis"]);
    for profile in ["cluster", "webdis"] {
        let both = ["a", "b"].map(|which| project.address(&format!("{profile}-{which}"), CLIENTS));
        until_decided(&both);
        for client in 0..4 {
            exactly_the_limit(&both, &format!("{profile}-{client}"));
        }
    }
    let cluster = project.compose(&["exec", "-T", "redis-1", "redis-cli", "cluster", "info"]);
    assert!(cluster.contains("cluster_state:ok"), "{cluster}");
    assert!(cluster.contains("cluster_known_nodes:6"), "{cluster}");
    // Once more: the nodes are a cluster already, and stay one.
    project.compose(&["up", "-d"]);
    let both = ["cluster-a", "cluster-b"].map(|service| project.address(service, CLIENTS));
    exactly_the_limit(&both, "once-more");
}

#[test]
fn the_dockerfile_ends_in_the_module_alone_and_builds_from_what_it_copies() {
    if !engine() {
        return;
    }
    let _images = StandIns::start(&compose::images());
    let dir = Dir::temporary("dockerfile");

    // The format that Istio takes: the last layer holds plugin.wasm.
    let image = build(&[]);
    let saved = dir.join("image.tar");
    docker(&["save", "--output", &saved.display().to_string(), &image]);
    unpack(&saved, dir.path());
    let manifest = fs::read_to_string(dir.join("manifest.json")).expect("a manifest");
    let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    let layers = manifest[0]["Layers"].as_array().expect("layers");
    assert_eq!(layers.len(), 1, "{manifest}");
    let layer = dir.join(layers[0].as_str().expect("a file"));
    let listed = Command::new("tar").arg("-tf").arg(&layer).output();
    assert_eq!(said(&listed.expect("tar runs")), "plugin.wasm");
    unpack(&layer, dir.path());
    let module = fs::read(dir.join("plugin.wasm")).expect("the module");
    assert!(module == fs::read(Module::Aforo.path()).expect("the module"));

    // No compiler is in the stand-in, so what it was given is compiled here, by the same words.
    let container = format!("{PROJECTS}{}-context", std::process::id());
    docker(&[
        "create",
        "--name",
        &container,
        &build(&["--target", "build"]),
        "x",
    ]);
    let context = root().join("target/container/context");
    let _ = fs::remove_dir_all(&context);
    fs::create_dir_all(context.parent().expect("a parent")).expect("a directory");
    docker(&[
        "cp",
        &format!("{container}:/aforo"),
        &context.display().to_string(),
    ]);
    let dockerfile = read("Dockerfile");
    let words = dockerfile
        .lines()
        .find_map(|line| line.strip_prefix("RUN cargo build "));
    let words = words.expect("a line that builds");
    assert!(
        read("Makefile").contains(&format!("wasm := {words}\n")),
        "make builds with other words than {words:?}"
    );
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let checked = Command::new(cargo)
        .args(["check", "--offline"])
        .args(words.split_whitespace())
        .env("CARGO_TARGET_DIR", root().join("target/container"))
        .current_dir(context)
        .output();
    let checked = checked.expect("cargo runs");
    assert!(checked.status.success(), "{}", said(&checked));
}

#[test]
fn compose_accepts_the_file_with_every_profile() {
    let version = docker::compose().arg("version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: docker-compose.yml is not checked: there is no docker-compose");
        return;
    }
    for profiles in [&[][..], &["cluster", "webdis", "observe"]] {
        let output = compose::command(profiles)
            .args(["config", "--quiet"])
            .output();
        let output = output.expect("compose runs");
        assert!(output.status.success(), "{}", said(&output));
    }
}

#[test]
fn what_the_compose_file_points_at_is_there() {
    let file = yaml(&read("docker-compose.yml"));
    let services = file["services"].as_object().expect("services");
    let named = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for (name, service) in services {
        for volume in service["volumes"].as_array().into_iter().flatten() {
            let volume =
                named(volume).replace("${AFORO_CONFIG:-./deploy/compose}", "./deploy/compose");
            let (from, _) = volume.split_once(':').expect("a place inside");
            assert!(root().join(from).exists(), "{name} mounts {from}");
        }
        for port in service["ports"].as_array().into_iter().flatten() {
            assert!(
                named(port).starts_with("127.0.0.1:${AFORO_PORT_"),
                "{name}: {port}"
            );
        }
        let image = named(&service["image"]);
        let pinned = image
            .rsplit_once(':')
            .is_some_and(|(_, tag)| tag.contains('.'));
        assert!(service["image"].is_null() || pinned, "{name}: {image}");
    }

    // Prometheus asks one name, which every Envoy with the filter has, and the port of their admin pages.
    let prometheus = yaml(&read("deploy/prometheus/prometheus.yaml"));
    let job = &prometheus["scrape_configs"][0];
    let target = &job["dns_sd_configs"][0];
    assert_eq!(job["metrics_path"], "/stats/prometheus");
    for (name, service) in services
        .iter()
        .filter(|(_, service)| !service["build"].is_null())
    {
        let aliases = &service["networks"]["default"]["aliases"];
        assert_eq!(aliases, &target["names"], "{name}");
        let mounted = named(&service["volumes"][0]);
        let config = mounted
            .split(['/', ':'])
            .find(|part| part.ends_with(".yaml"));
        let config = read(&format!(
            "deploy/compose/{}",
            config.expect("a configuration")
        ));
        assert_eq!(
            yaml(&config)["admin"]["address"]["socket_address"]["port_value"],
            target["port"],
            "{name}"
        );
    }
    for rules in prometheus["rule_files"].as_array().expect("rules") {
        assert!(
            root()
                .join("deploy/prometheus")
                .join(named(rules))
                .is_file()
        );
    }

    // Grafana asks that Prometheus, and begins with the dashboard.
    let source = yaml(&read(
        "deploy/grafana/provisioning/datasources/prometheus.yaml",
    ));
    let url = named(&source["datasources"][0]["url"]);
    let host = url.trim_start_matches("http://").split(':').next();
    assert!(services.contains_key(host.expect("a host")), "{url}");
    let grafana = &services["grafana"];
    let home = named(&grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]);
    let mounts = grafana["volumes"].as_array().expect("volumes");
    assert!(
        mounts
            .iter()
            .any(|mount| named(mount) == format!("./deploy/grafana/aforo.json:{home}:ro"))
    );
    let provider = yaml(&read("deploy/grafana/provisioning/dashboards/aforo.yaml"));
    let path = named(&provider["providers"][0]["options"]["path"]);
    assert_eq!(Path::new(&home).parent(), Some(Path::new(&path)));
}

#[test]
fn images_have_the_versions_that_are_pinned_elsewhere() {
    let images: BTreeSet<String> = compose::images().into_iter().collect();
    let pin = |path: &str, before: &str, after: &str| {
        let text = read(path);
        let rest = text.split_once(before).expect("the pin").1;
        rest.split_once(after).expect("its end").0.to_owned()
    };
    let envoy = pin("scripts/setup", "envoy_version=", "\n");
    let rust = pin("rust-toolchain.toml", "channel = \"", "\"");
    assert!(
        images.contains(&format!("envoyproxy/envoy:distroless-v{envoy}")),
        "{images:?}"
    );
    assert!(
        images.contains(&format!("rust:{rust}-slim-bookworm")),
        "{images:?}"
    );
    assert!(read("Dockerfile").contains(&format!("RUSTUP_TOOLCHAIN={rust}\n")));
    // One version of each.
    let names: BTreeSet<&str> = images
        .iter()
        .filter_map(|image| image.split(':').next())
        .collect();
    assert_eq!(names.len(), images.len(), "{images:?}");
}

/// Asks as one client, `times` in all, at once, of these Envoys in turn.
fn ask(envoys: &[SocketAddr], client: &str, times: usize) -> Vec<Answer> {
    let asks = envoys.iter().cycle().take(times);
    let ask = |address: &SocketAddr| (*address, get("/").header("x-api-key", client));
    at_once(&asks.map(ask).collect::<Vec<_>>())
}

/// A new client gets its limit and not one more.
fn exactly_the_limit(envoys: &[SocketAddr], client: &str) {
    let answers = ask(envoys, client, 3 * LIMIT);
    assert!(answers.iter().all(is_decided), "{client}: {answers:?}");
    let (allowed, refused) = (count(&answers, 200), count(&answers, 429));
    assert_eq!((allowed, refused), (LIMIT, 2 * LIMIT), "{client}");
}

/// Whether Redis decided: the shipped policy lets through what it did not, and says nothing of a limit.
fn is_decided(answer: &Answer) -> bool {
    answer.header("x-ratelimit-remaining").is_some()
}

/// Waits until Redis, every node of it, decides for every worker of these Envoys.
fn until_decided(envoys: &[SocketAddr]) {
    until_within(SOON, "Redis to decide everywhere", || {
        let mut each = envoys
            .iter()
            .flat_map(|&envoy| (0..24).map(move |number| (envoy, number)));
        each.all(|(envoy, number)| {
            let client = format!("probe-{number}-{}", std::process::id());
            let answer = get("/").header("x-api-key", client).try_to(envoy);
            answer.is_ok_and(|answer| is_decided(&answer))
        })
    });
}

/// Waits until Redis decides for none of these Envoys. No request is refused, fails or hangs meanwhile.
fn until_undecided(envoys: &[SocketAddr]) {
    until_within(SOON, "Redis to be away", || {
        let answers: Vec<Answer> = ask(
            envoys,
            &format!("away-{}", std::process::id()),
            8 * envoys.len(),
        );
        let bad = answers
            .iter()
            .find(|answer| !is_decided(answer) && answer.status != 200);
        assert!(bad.is_none(), "{bad:?}");
        !answers.iter().any(is_decided)
    });
}

/// What Prometheus asks for.
fn the_metrics_are_there(project: &Project) {
    for service in ["envoy-a", "envoy-b"] {
        let metrics = get("/stats/prometheus").to(project.address(service, ADMIN));
        let text = String::from_utf8_lossy(&metrics.body).into_owned();
        let series = "aforo_decisions_total{limit=\"per-key\",verdict=\"refused\"} ";
        assert!(text.contains(series), "{service}: {text}");
    }
}

fn build(words: &[&str]) -> String {
    let label = format!("{LABEL}={}", std::process::id());
    let output = Command::new("docker")
        .args(["build", "--quiet", "--label", &label])
        .args(words)
        .arg(".")
        .env("DOCKER_BUILDKIT", "0")
        .current_dir(root())
        .output();
    let output = output.expect("docker runs");
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn unpack(archive: &Path, to: &Path) {
    let output = Command::new("tar")
        .arg("-xf")
        .arg(archive)
        .arg("-C")
        .arg(to)
        .output();
    let output = output.expect("tar runs");
    assert!(output.status.success(), "{}", said(&output));
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}
