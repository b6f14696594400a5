//! A server as a process: where its files are, how it is started, started again and signalled.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, PidfdFlags, Signal, getpgid, pidfd_open, pidfd_send_signal};
use tokio::process::{Child, Command};

use super::arguments;
use super::error::Error;
use super::program::Program;
use super::server::Role;

/// What it takes to run a server.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) program: Program,
    pub(super) role: Role,
    /// The directory for everything that belongs to this server.
    pub(super) directory: PathBuf,
    /// The TCP port on 127.0.0.1.
    pub(super) port: u16,
    /// Further arguments, after the sandbox's own.
    pub(super) arguments: Vec<String>,
    /// The process group of the guard.
    pub(super) group: Pid,
}

impl Spec {
    pub(super) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    pub(super) fn temporary(&self) -> PathBuf {
        self.directory.join("tmp")
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.directory.join("socket")
    }

    pub(super) fn pid_file(&self) -> PathBuf {
        self.directory.join("pid")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.directory.join("error.log")
    }

    /// The server's name in messages.
    pub(super) fn name(&self) -> String {
        format!("the {} ({})", self.role.word(), self.program)
    }

    /// Starts the server as a member of the guard's group.
    pub(super) fn spawn(&self) -> std::io::Result<Child> {
        // What the program says before it opens its log goes there as well.
        let log = File::options().append(true).create(true).open(self.log())?;
        Command::new(&self.program.path)
            .args(arguments::running(self))
            // Tells MySQL that somebody waits to start it again: it then allows `RESTART` and CLONE, and
            // ends with code 16 for it.
            .env("MYSQLD_PARENT_PID", std::process::id().to_string())
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(self.group.as_raw_nonzero().get())
            .kill_on_drop(true)
            .spawn()
    }

    /// Waits for the end of a server, and starts it again each time it ends with MySQL's request for that.
    pub(super) async fn supervise(self: Arc<Self>, mut child: Child) -> std::io::Result<ExitStatus> {
        loop {
            let status = child.wait().await?;
            if status.code() != Some(RESTART) {
                return Ok(status);
            }
            child = self.spawn()?;
        }
    }

    /// The server's process, as it wrote it to its pid file: the program that was started may be a script
    /// that waits for it. `None` when it does not run.
    pub(super) fn pid(&self) -> Option<Pid> {
        let text = std::fs::read_to_string(self.pid_file()).ok()?;
        let pid = Pid::from_raw(text.trim().parse().ok()?)?;
        (getpgid(Some(pid)) == Ok(self.group)).then_some(pid)
    }

    /// Sends a signal to the server itself.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), Error> {
        let gone = || Error::NotRunning(self.name());
        let failed =
            |error: rustix::io::Errno| Error::io(format!("cannot signal {}", self.name()))(error.into());
        let pid = self.pid().ok_or_else(gone)?;
        let process = pidfd_open(pid, PidfdFlags::empty()).map_err(failed)?;
        // Asked again with the process in hand: a number that was given away since is not in the group.
        if self.pid() != Some(pid) {
            return Err(gone());
        }
        pidfd_send_signal(&process, signal).map_err(failed)
    }
}

/// Whether all threads of a process are stopped; a process that is gone has none that runs.
pub(super) fn is_stopped(pid: Pid) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).into_iter().flatten();
    let mut states =
        threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    // proc(5): the state is the letter after the name, which is in brackets and may contain any.
    states.all(|stat| stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T')))
}

/// The last lines of a log, for error messages.
pub(super) fn last_lines(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(LOG_LINES);
    let mut last = lines.get(from..).unwrap_or_default().join("\n");
    if ["Permission denied", "rrno: 13", "rrcode: 13"].iter().any(|sign| last.contains(sign)) {
        last.push_str(CONFINED);
    }
    last
}

/// The usual cause on Ubuntu, which no server can know.
const CONFINED: &str = "\n(if the permissions look right, a profile of AppArmor may confine the server to \
                        /var/lib/mysql, as Ubuntu's mysql-server does: aa-status shows it, \
                        mysql-server-core comes without it)";

/// The exit code with which MySQL asks to be started again (`MYSQLD_RESTART_EXIT` in its sources; the manual
/// has it under "RESTART Statement").
const RESTART: i32 = 16;

/// The help that `mariadb-install-db` prints after an error takes 25 lines.
const LOG_LINES: usize = 40;
