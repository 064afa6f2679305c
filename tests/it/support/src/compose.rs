//! `docker-compose.yml` of this repository, up for as long as a test needs it.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::docker::{self, PROJECTS, StandIns, docker, said};
use crate::{Dir, root};

/// One run of the file under a name of its own, on ports that the system gave.
#[derive(Debug)]
pub struct Project {
    name: String,
    profiles: Vec<String>,
    settings: Dir,
    // After the containers, whose images they are.
    _images: StandIns,
}

impl Project {
    /// Brings up what these profiles have, and waits until Compose says that it is.
    ///
    /// # Panics
    /// When Compose fails, with its words.
    #[must_use]
    pub fn up(profiles: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let project = Self {
            name: format!("{PROJECTS}{}-{number}", std::process::id()),
            profiles: profiles.iter().map(|&name| name.to_owned()).collect(),
            settings: patient_settings(),
            _images: StandIns::start(&images()),
        };
        project.compose(&["up", "-d"]);
        project
    }

    /// Its name, which that of every container and network begins with.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where the host reaches a port of a service.
    ///
    /// # Panics
    /// When it is not published.
    #[must_use]
    pub fn address(&self, service: &str, port: u16) -> SocketAddr {
        let said = self.compose(&["port", service, &port.to_string()]);
        said.parse()
            .unwrap_or_else(|error| panic!("{service}: {said:?}: {error}"))
    }

    /// The container of a service that runs.
    fn container(&self, service: &str) -> String {
        self.compose(&["ps", "-q", service])
    }

    /// Kills a service's container; it stays dead.
    pub fn kill(&self, service: &str) {
        self.compose(&["kill", service]);
    }

    /// Brings a killed container back.
    pub fn start(&self, service: &str) {
        self.compose(&["start", service]);
    }

    /// Takes a service's container off one of the project's networks.
    pub fn cut_off(&self, service: &str, network: &str) {
        let network = format!("{}_{network}", self.name);
        docker(&["network", "disconnect", &network, &self.container(service)]);
    }

    /// Puts it back.
    pub fn join(&self, service: &str, network: &str) {
        let network = format!("{}_{network}", self.name);
        docker(&["network", "connect", &network, &self.container(service)]);
    }

    /// Takes everything down, as a user does.
    pub fn down(&self) {
        self.compose(&["down"]);
    }

    /// Compose's words, without its talk of progress.
    ///
    /// # Panics
    /// When it fails.
    pub fn compose(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(
            output.status.success(),
            "compose {words:?}: {}",
            said(&output)
        );
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = command(&self.profiles);
        command.args(["--project-name", &self.name]).args(words);
        command.env("AFORO_CONFIG", self.settings.path());
        command.output().expect("compose runs")
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let states = self.run(&["ps"]);
            let logs = self.run(&["logs", "--no-color", "--tail", "40"]);
            eprintln!("{}\n{}", said(&states), said(&logs));
        }
        // Quick where it is still up, and nothing where a test took it down.
        let _ = self.run(&["kill"]);
        let _ = self.run(&["down", "--volumes", "--rmi", "local", "--remove-orphans"]);
    }
}

/// Compose on the file, with ports that the system gives.
#[must_use]
pub fn command(profiles: &[impl AsRef<str>]) -> Command {
    let mut command = docker::compose();
    command
        .current_dir(root())
        // Images on this machine are enough for the engine's own builder.
        .env("DOCKER_BUILDKIT", "0")
        .env("COMPOSE_DOCKER_CLI_BUILD", "0")
        .envs(ports().into_iter().map(|name| (name, "0")));
    for profile in profiles {
        command.args(["--profile", profile.as_ref()]);
    }
    command
}

/// The variables that say which ports of the host are used.
#[must_use]
pub fn ports() -> Vec<String> {
    let text = read("docker-compose.yml");
    let names = text.split("${").skip(1);
    let names = names.filter_map(|rest| rest.split([':', '}']).next());
    let ports = names.filter(|name| name.starts_with("AFORO_PORT_"));
    ports.map(str::to_owned).collect()
}

/// The images that the file and the Dockerfile pin, but those of Prometheus and Grafana, whose programs
/// `make setup` does not fetch.
#[must_use]
pub fn images() -> Vec<String> {
    let (file, dockerfile) = (read("docker-compose.yml"), read("Dockerfile"));
    let pinned = file
        .lines()
        .filter_map(|line| line.trim().strip_prefix("image: "));
    let bases = dockerfile
        .lines()
        .filter_map(|line| line.strip_prefix("FROM ")?.split(" AS ").next());
    let known = |image: &&str| {
        !["prom/", "grafana/", "scratch"]
            .iter()
            .any(|p| image.starts_with(p))
    };
    let mut images: Vec<String> = pinned
        .chain(bases)
        .filter(known)
        .map(str::to_owned)
        .collect();
    images.sort();
    images.dedup();
    images
}

/// The Envoys' configurations with time for a machine that is busy building something: a test of counting
/// must not fail for that.
fn patient_settings() -> Dir {
    let dir = Dir::temporary("compose");
    for name in ["envoy.yaml", "envoy-cluster.yaml", "envoy-webdis.yaml"] {
        let mut text = read(&format!("deploy/compose/{name}"));
        for (shipped, patient) in [
            ("timeout: 20ms", "timeout: 2s"),
            ("op_timeout: 0.5s", "op_timeout: 5s"),
            ("op_timeout: 0.015s", "op_timeout: 1s"),
            ("connect_timeout: 0.015s", "connect_timeout: 1s"),
        ] {
            text = text.replace(shipped, patient);
        }
        assert!(
            text.contains("timeout: 2s"),
            "{name} has a policy with a timeout"
        );
        fs::write(dir.join(name), text).expect("a configuration");
    }
    dir
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}
