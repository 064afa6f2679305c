//! Docker's engine, and stand-ins for the images that a machine without a registry cannot have.
//!
//! A stand-in has the name of the image that it stands for and holds the programs that `make setup` put on
//! this machine, the libraries that they need, and nothing else. An image that is really there is used as
//! it is. All that is made here bears a label or a name of ours, and goes when its value is dropped; what a
//! run that was killed has left is removed by the next.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::{Dir, Module, binary, lock};

/// What every image made here bears.
pub const LABEL: &str = "aforo.stand-in";
/// What the names of all projects of tests begin with.
pub const PROJECTS: &str = "aforo-test-";

/// Why nothing here can be run on this machine.
///
/// # Errors
/// With the reason, when there is no engine, no Compose, or nothing to make the stand-ins of.
pub fn is_there() -> Result<(), String> {
    let server = Command::new("docker")
        .args(["version", "--format", "{{.Server.Version}}"])
        .output();
    match server {
        Err(error) => return Err(format!("there is no docker: {error}")),
        Ok(output) if !output.status.success() => {
            return Err(format!("Docker's engine does not run: {}", said(&output)));
        }
        Ok(_) => {}
    }
    let compose = compose().arg("version").output();
    if !compose.is_ok_and(|output| output.status.success()) {
        return Err("there is no docker-compose".to_owned());
    }
    for program in ["redis-cli", "ldd", "tar"] {
        if on_path(program).is_none() {
            return Err(format!("there is no {program} to make a stand-in of"));
        }
    }
    Ok(())
}

/// Compose, of whichever generation this machine has: `docker-compose`, else `docker compose`.
#[must_use]
pub fn compose() -> Command {
    if on_path("docker-compose").is_some() {
        return Command::new("docker-compose");
    }
    let mut command = Command::new("docker");
    command.arg("compose");
    command
}

/// What `docker` with these words says.
///
/// # Panics
/// When it fails, with its words.
pub fn docker(words: &[&str]) -> String {
    let output = Command::new("docker").args(words).output();
    let output = output.expect("docker runs");
    assert!(output.status.success(), "{words:?}: {}", said(&output));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// What a program wrote.
#[must_use]
pub fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).trim().to_owned()
}

/// Images that are there for as long as this lives. One run at a time on a machine has them.
#[derive(Debug)]
pub struct StandIns {
    _turn: File,
}

impl StandIns {
    /// Makes those of these images that are not there.
    ///
    /// # Panics
    /// When one cannot be made, or is of a kind that is not known here.
    #[must_use]
    pub fn start(images: &[String]) -> Self {
        let turn = lock(&std::env::temp_dir().join("aforo-docker.lock"));
        // Whoever has the lock is alone: what is there was left by a run that was killed.
        sweep();
        let made = Self { _turn: turn };
        for image in images {
            let there = Command::new("docker")
                .args(["image", "inspect", image])
                .output();
            if !there.expect("docker runs").status.success() {
                stand_in(image).import(image);
            }
        }
        made
    }
}

impl Drop for StandIns {
    fn drop(&mut self) {
        sweep();
    }
}

/// The programs, in the places and with the settings of the image that it stands for.
fn stand_in(image: &str) -> Image {
    let (name, _) = image.split_once(':').expect("an image with a version");
    let cli = || on_path("redis-cli").expect("redis-cli");
    match name {
        "envoyproxy/envoy" => Image::new()
            .program(&binary("ENVOY", "envoy"), "usr/local/bin/envoy")
            .setting("ENTRYPOINT [\"/usr/local/bin/envoy\"]")
            .setting("USER 65532:65532"),
        "redis" => Image::new()
            .program(
                &binary("REDIS_SERVER", "redis-server"),
                "usr/local/bin/redis-server",
            )
            .program(&cli(), "usr/local/bin/redis-cli")
            .program(Path::new("/bin/sh"), "bin/sh"),
        "nicolas/webdis" => {
            Image::new().program(&binary("WEBDIS", "webdis"), "usr/local/bin/webdis")
        }
        // No compiler: it "builds" the module that `make modules` built here. That what it is given can be
        // built is a test of its own.
        "rust" => Image::new()
            .program(Path::new("/bin/sh"), "bin/sh")
            .program(Path::new("/bin/cp"), "bin/cp")
            .program(Path::new("/bin/mkdir"), "bin/mkdir")
            .file(&Module::Aforo.path(), "module")
            .script("usr/local/bin/rustup", "exit 0")
            .script(
                "usr/local/bin/cargo",
                "set -e; to=target/wasm32-wasip1/release; mkdir -p $to; cp /module $to/aforo.wasm",
            ),
        _ => panic!("no stand-in for {image} is known"),
    }
}

/// An image in the making.
struct Image {
    dir: Dir,
    settings: Vec<String>,
}

impl Image {
    fn new() -> Self {
        let dir = Dir::temporary("image");
        let image = Self {
            dir,
            settings: vec!["ENV PATH=/usr/local/bin:/usr/bin:/bin".to_owned()],
        };
        for (path, text) in [
            (
                "etc/passwd",
                "root:x:0:0:root:/:/bin/sh\nnonroot:x:65532:65532::/:/bin/sh\n",
            ),
            ("etc/group", "root:x:0:\nnonroot:x:65532:\n"),
            ("etc/nsswitch.conf", "hosts: files dns\n"),
        ] {
            fs::write(image.place(path), text).expect("a file");
        }
        let temporary = image.place("tmp/.");
        let open = fs::Permissions::from_mode(0o1777);
        fs::set_permissions(temporary, open).expect("permissions");
        image
    }

    /// A path inside, whose directory is there.
    fn place(&self, path: &str) -> PathBuf {
        let place = self.dir.join(path.trim_start_matches('/'));
        let parent = place.parent().expect("a directory");
        fs::create_dir_all(parent).expect("a directory");
        if path.ends_with("/.") {
            return parent.to_path_buf();
        }
        place
    }

    fn file(self, from: &Path, to: &str) -> Self {
        fs::copy(from, self.place(to))
            .unwrap_or_else(|error| panic!("{}: {error}", from.display()));
        self
    }

    /// A program and the libraries that it names.
    fn program(self, from: &Path, to: &str) -> Self {
        let libraries = Command::new("ldd").arg(from).output().expect("ldd runs");
        let libraries = String::from_utf8_lossy(&libraries.stdout).into_owned();
        let paths = libraries
            .split_whitespace()
            .filter(|word| word.starts_with('/'));
        paths
            .fold(self, |image, path| image.file(Path::new(path), path))
            .file(from, to)
    }

    fn script(self, to: &str, text: &str) -> Self {
        let place = self.place(to);
        fs::write(&place, format!("#!/bin/sh\n{text}\n")).expect("a script");
        fs::set_permissions(place, fs::Permissions::from_mode(0o755)).expect("permissions");
        self
    }

    fn setting(mut self, line: &str) -> Self {
        self.settings.push(line.to_owned());
        self
    }

    fn import(self, name: &str) {
        let mut tar = Command::new("tar")
            .arg("-C")
            .arg(self.dir.path())
            .args(["--owner=0", "--group=0", "-c", "."])
            .stdout(Stdio::piped())
            .spawn()
            .expect("tar runs");
        let label = format!("LABEL {LABEL}={}", std::process::id());
        let settings = self.settings.iter().chain([&label]);
        let changes = settings.flat_map(|line| ["--change", line]);
        let output = Command::new("docker")
            .arg("import")
            .args(changes)
            .args(["-", name])
            .stdin(tar.stdout.take().expect("its output"))
            .output()
            .expect("docker runs");
        let packed = tar.wait().expect("tar ends").success();
        assert!(
            packed && output.status.success(),
            "{name}: {}",
            said(&output)
        );
    }
}

/// Removes every container, network and image of tests.
fn sweep() {
    let name = format!("name=^/?{PROJECTS}");
    let label = format!("label={LABEL}");
    for (list, remove) in [
        (&["ps", "-aq", "--filter", &name][..], &["rm", "-fv"][..]),
        (
            &["network", "ls", "-q", "--filter", &name],
            &["network", "rm"],
        ),
        (&["images", "-aq", "--filter", &label], &["rmi", "-f"]),
    ] {
        // An image goes when those that were made of it are gone: again, while there are fewer each time.
        let mut before = usize::MAX;
        loop {
            let found = docker(list);
            let mut ids: Vec<&str> = found.lines().collect();
            ids.sort_unstable();
            ids.dedup();
            if ids.is_empty() || ids.len() >= before {
                break;
            }
            before = ids.len();
            let _ = Command::new("docker").args(remove).args(ids).output();
        }
    }
}

fn on_path(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
}
