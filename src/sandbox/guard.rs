//! The process that cleans up after a sandbox, however its owner ends.
//!
//! 1. The owner starts the guard in a process group of its own and keeps the writing end of the guard's
//!    standard input. It never writes to it.
//! 2. Every server is started as a member of the guard's group, so there is no moment at which a server
//!    exists that the guard does not know, and no process number that could be taken by another process:
//!    the group exists as long as the guard is in it.
//! 3. When the owner ends in whatever way, the kernel closes the pipe. The guard starts the sweeper, which
//!    is outside the group, kills the group (the guard included) and removes the directories.
//! 4. Both hold the guard's standard output, so its end tells a living owner that all is done.
//!
//! A Ctrl-C reaches neither, nor the servers: the terminal sends it to the owner's group only.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::signal::unix::{SignalKind, signal};

use super::error::Error;

/// The hidden subcommand of `ramsplit` that runs [`watch`], or [`sweep`] with [`SWEEP`].
pub const SUBCOMMAND: &str = "sandbox-guard";

/// The option of [`SUBCOMMAND`] that names the group to kill.
pub const SWEEP: &str = "--sweep";

/// The owner's hold on a guard process. Dropping it kills all members of the guard's group and removes the
/// directories, and returns when that is done.
#[derive(Debug)]
pub(super) struct Guard {
    process: Child,
    group: Pid,
    /// `None` only while dropping.
    lifeline: Option<ChildStdin>,
    output: ChildStdout,
}

impl Guard {
    /// Starts the guard and waits until it watches. The directories need not exist yet.
    pub(super) fn start(binary: &Path, directories: &[PathBuf]) -> Result<Self, Error> {
        let mut process = Command::new(binary)
            .arg(SUBCOMMAND)
            .args(directories)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(Error::io(format!("cannot run {}", binary.display())))?;
        let broken = || Error::Guard(binary.to_owned());
        let group = Pid::from_child(&process);
        let lifeline = process.stdin.take();
        let mut output = process.stdout.take().ok_or_else(broken)?;
        let mut ready = [0; READY.len()];
        let watching = output.read_exact(&mut ready).is_ok() && ready == *READY;
        let guard = Self { process, group, lifeline, output };
        if watching { Ok(guard) } else { Err(broken()) }
    }

    /// The process group that servers have to join.
    pub(super) const fn group(&self) -> Pid {
        self.group
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        // Neither can fail in a way that leaves something to do here: the end of the output is all that is
        // waited for, and the guard is killed by its own sweeper.
        let _ = io::copy(&mut self.output, &mut io::sink());
        let _ = self.process.wait();
    }
}

/// What the guard process does: waits for the end of its standard input, then has `directories` swept.
///
/// # Errors
/// When signals cannot be handled, or no sweeper did its work.
pub async fn watch(directories: &[PathBuf]) -> io::Result<()> {
    let _ignored = outlive()?;
    io::stdout().write_all(READY)?;
    io::stdout().flush()?;
    tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink())).await??;
    // Until it is killed with its group, this process keeps the group's number from being given away. That
    // it goes on means that the sweeper failed: for lack of memory, or because a signal to the group came
    // before the new process had left it.
    for _ in 0..SWEEP_TRIES {
        let _ = start_sweeper(directories).and_then(|mut sweeper| sweeper.wait());
        tokio::time::sleep(SWEEP_PAUSE).await;
    }
    Err(io::Error::other("the sandbox could not be swept"))
}

/// What the sweeper does: kills the process group and removes the directories.
///
/// # Errors
/// When the group is not one, or a directory is still there after 20 s.
pub async fn sweep(group: i32, directories: &[PathBuf]) -> io::Result<()> {
    let _ignored = outlive()?;
    let group = Pid::from_raw(group).ok_or(io::ErrorKind::InvalidInput)?;
    kill_process_group(group, Signal::KILL)?;
    // A killed server may finish a system call that creates a file, so one pass can be too early.
    let remove = async {
        for directory in directories {
            while directory.exists() {
                if std::fs::remove_dir_all(directory).is_err() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        }
    };
    tokio::time::timeout(SWEEP_LIMIT, remove).await.map_err(|_| io::ErrorKind::TimedOut.into())
}

/// Makes this process outlive whatever ends the owner, as long as the result lives. SIGHUP comes from the
/// kernel when the owner dies while a server of the group is stopped; the others come to all processes of a
/// terminal, a machine or a container.
fn outlive() -> io::Result<Vec<tokio::signal::unix::Signal>> {
    [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()].into_iter().map(signal).collect()
}

fn start_sweeper(directories: &[PathBuf]) -> io::Result<Child> {
    // Works when the binary was removed or replaced in the meantime, as a build does.
    Command::new("/proc/self/exe")
        .arg0("ramsplit")
        .arg(SUBCOMMAND)
        .arg(SWEEP)
        .arg(std::process::id().to_string())
        .args(directories)
        .process_group(0)
        .spawn()
}

/// What the guard says when it watches.
const READY: &[u8; 6] = b"ready\n";

/// How long the sweeper tries to remove the directories.
const SWEEP_LIMIT: Duration = Duration::from_secs(20);

/// How often the guard tries to have the directories swept, and the pause in between.
const SWEEP_TRIES: u32 = 100;
const SWEEP_PAUSE: Duration = Duration::from_millis(100);
