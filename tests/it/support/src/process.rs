//! A child process with a log, which ends when its value is dropped and, come what may, with this process.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, Mutex, mpsc};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, kill_process, kill_process_group, set_parent_process_death_signal,
};
use rustix::thread::{CpuSet, sched_setaffinity};

/// A running child. Dropping it kills and reaps it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with its output appended to `log`.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(name: &str, mut command: Command, log: &Path) -> Self {
        let open = || {
            File::options()
                .create(true)
                .append(true)
                .open(log)
                .expect("a log file")
        };
        command.stdin(Stdio::null()).stdout(open()).stderr(open());
        let child = spawn(command).unwrap_or_else(|error| panic!("{name} did not start: {error}"));
        Self {
            name: name.to_owned(),
            child,
            log: log.to_path_buf(),
        }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote so far.
    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Where it writes.
    #[must_use]
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Stops it in its tracks; its sockets stay open and silent.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Resident memory in KiB, as the kernel says.
    ///
    /// # Panics
    /// When the process has ended.
    #[must_use]
    pub fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()));
        let status = status.expect("the process lives");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok());
        number.expect("the kernel states VmRSS")
    }

    /// Time that its threads spent on a core so far.
    ///
    /// # Panics
    /// When the process has ended.
    #[must_use]
    pub fn on_core(&self) -> Duration {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid()));
        let spent = threads.expect("the process lives").flatten().map(|thread| {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
            Duration::from_nanos(nanos.unwrap_or(0))
        });
        spent.sum()
    }

    /// Keeps every thread that it has now on one core.
    ///
    /// # Panics
    /// When there is no such core.
    pub fn pin(&self, core: usize) {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid()));
        for thread in threads.expect("the process lives").flatten() {
            let id = thread
                .file_name()
                .to_string_lossy()
                .parse()
                .ok()
                .and_then(Pid::from_raw);
            pin(id, core);
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap_or_else(|error| panic!("{}: {error}", self.name));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines
                .get(lines.len().saturating_sub(40)..)
                .unwrap_or(&lines)
                .join("\n");
            eprintln!("── {}, {}:\n{tail}\n──", self.name, self.log.display());
        }
    }
}

/// What Ctrl-C does: interrupts `leader`, which leads a process group, and all of its group.
///
/// # Panics
/// When there is no such group.
pub fn interrupt_group(leader: &Child) {
    kill_process_group(Pid::from_child(leader), Signal::INT).expect("a process group");
}

/// Keeps the calling thread, and those that it starts from now on, on one core.
///
/// # Panics
/// When there is no such core.
pub fn pin_this_thread(core: usize) {
    pin(None, core);
}

fn pin(thread: Option<Pid>, core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(thread, &cores).unwrap_or_else(|error| panic!("core {core}: {error}"));
}

/// Waits until nobody else has this file locked, and locks it; it is unlocked when it is closed.
///
/// # Panics
/// When the file cannot be made.
#[must_use]
pub fn lock(path: &Path) -> File {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path);
    let file = file.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    file.lock().expect("the lock");
    file
}

/// A loopback port that nothing listens on now, and that no other process asks for as long as this one
/// lives. Below the range that the kernel takes ports of outgoing connections from, so that a server can
/// be stopped and started again on it.
///
/// # Panics
/// When no port is free, or the directory for temporary files cannot be written.
#[must_use]
pub fn free_port() -> u16 {
    static PORTS: Mutex<Ports> = Mutex::new(Ports {
        blocks: Vec::new(),
        left: 0..0,
    });
    let mut ports = PORTS.lock().expect("nobody panicked over a port");
    loop {
        for port in ports.left.by_ref() {
            if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return port;
            }
        }
        ports.take_block();
    }
}

/// The ports from 20000 to 29999 in blocks of a hundred, each some process's own.
struct Ports {
    /// A locked file for each block; the kernel unlocks it with the process.
    blocks: Vec<File>,
    left: Range<u16>,
}

impl Ports {
    fn take_block(&mut self) {
        let marks = std::env::temp_dir().join("aforo-ports");
        std::fs::create_dir_all(&marks).expect("a directory for temporary files");
        let locked = (0..100_u16).find_map(|block| {
            let file = File::create(marks.join(block.to_string())).ok()?;
            file.try_lock().ok()?;
            Some((block, file))
        });
        let (block, file) = locked.expect("a hundred free ports between 20000 and 30000");
        self.blocks.push(file);
        self.left = 20_000 + block * 100..20_000 + block * 100 + 100;
    }
}

type Order = (Command, mpsc::Sender<io::Result<Child>>);

/// Starts `command` from one thread that lives as long as this process: the kernel ends a child when the
/// thread that started it ends, and a test's thread may end before the part does.
fn spawn(mut command: Command) -> io::Result<Child> {
    static SPAWNER: LazyLock<Mutex<mpsc::Sender<Order>>> = LazyLock::new(|| {
        let (sender, orders) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in orders {
                let _ = answer.send(command.spawn());
            }
        });
        Mutex::new(sender)
    });
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
    let (answer, started) = mpsc::channel();
    SPAWNER
        .lock()
        .expect("the spawner lives")
        .send((command, answer))
        .expect("the spawner lives");
    started.recv().expect("the spawner answers")
}
