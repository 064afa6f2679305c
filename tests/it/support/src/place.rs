//! Where things are: the repository, the built modules, the programs, and directories for each part.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The repository's root.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(3)
        .expect("tests/it/support lies three below the root")
        .to_path_buf()
}

/// A program: `variable` names it, else `.tools/` of the repository has it (where `make setup` puts it),
/// else PATH.
///
/// # Panics
/// When it is nowhere.
#[must_use]
pub fn binary(variable: &str, name: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(variable).filter(|value| !value.is_empty()) {
        let path = PathBuf::from(path);
        assert!(
            path.is_file(),
            "{variable} is {}, which is no file",
            path.display()
        );
        return path;
    }
    let fetched = root().join(".tools").join(name);
    if fetched.is_file() {
        return fetched;
    }
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("there is no {name}: run `make setup`, or set {variable}"))
}

/// A build of this repository's module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Module {
    /// What users run.
    Aforo,
    /// A filter that does nothing: what a Wasm filter costs by itself.
    Noop,
    /// Aforo that traps on a request with `x-aforo-trap: 1`.
    Trap,
    /// Aforo with the Redis call of Higress, which no other Envoy loads.
    Higress,
}

impl Module {
    /// The file.
    ///
    /// # Panics
    /// When it was not built, or is older than the sources.
    #[must_use]
    pub fn path(self) -> PathBuf {
        let target = match self {
            Self::Aforo => "target",
            Self::Noop => "target/noop",
            Self::Trap => "target/trap",
            Self::Higress => "target/higress",
        };
        let path = root().join(target).join("wasm32-wasip1/release/aforo.wasm");
        let built = changed(&path)
            .unwrap_or_else(|| panic!("{} is not there: run `make modules`", path.display()));
        // What went into it, as cargo wrote it down: a file of `src` that only another build has is no reason.
        let sources = std::fs::read_to_string(path.with_extension("d")).unwrap_or_default();
        let is_new = sources_of(&sources)
            .all(|source| changed(&source).is_some_and(|changed| changed <= built));
        assert!(
            is_new && !sources.is_empty(),
            "{} is older than its sources: run `make modules`",
            path.display()
        );
        path
    }
}

fn changed(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path)
        .and_then(|data| data.modified())
        .ok()
}

/// The files after the colon of a line as `make` reads it, in which a blank of a name has a backslash.
fn sources_of(rule: &str) -> impl Iterator<Item = PathBuf> {
    let files = rule.split_once(": ").map_or("", |(_, files)| files);
    let files = files.trim_end().replace("\\ ", "\0");
    let names: Vec<PathBuf> = files
        .split(' ')
        .map(|name| PathBuf::from(name.replace('\0', " ")))
        .collect();
    names.into_iter()
}

/// A directory of one part: configuration, log, sockets.
#[derive(Debug)]
pub struct Dir {
    path: PathBuf,
    kept: bool,
}

impl Dir {
    /// One that goes when this value is dropped, unless the thread is panicking: a failed test keeps its
    /// evidence and says where it is.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn temporary(name: &str) -> Self {
        let made = tempfile::Builder::new()
            .prefix(&format!("aforo-{name}-"))
            .tempdir();
        Self {
            path: made.expect("a directory for the part").keep(),
            kept: false,
        }
    }

    /// One that stays.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn kept(path: &Path) -> Self {
        std::fs::create_dir_all(path).expect("a directory for the part");
        Self {
            path: path.to_path_buf(),
            kept: true,
        }
    }

    /// A file or directory inside.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        if self.kept || std::thread::panicking() {
            return;
        }
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
