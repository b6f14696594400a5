//! What can go wrong with a sandbox. All of it happens on this machine, so the texts say what to do.

use std::path::PathBuf;
use std::process::ExitStatus;

use super::memory::in_mib;
use super::program::{Flavor, Version};

/// Why a sandbox could not be started, changed or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No server program was found.
    #[error("{}", no_program(*.0))]
    NoProgram(Option<Flavor>),

    /// The program is not what was asked for.
    #[error("{} is {found}, not {wanted}", path.display())]
    WrongFlavor {
        /// The program.
        path: PathBuf,
        /// What it is.
        found: Flavor,
        /// What was asked for.
        wanted: Flavor,
    },

    /// The server is too old.
    #[error("{} is {flavor} {version}; {flavor} {} or newer is needed", path.display(), flavor.oldest())]
    TooOld {
        /// The program.
        path: PathBuf,
        /// What it is.
        flavor: Flavor,
        /// Its version.
        version: Version,
    },

    /// The program did not say a version as a MySQL or MariaDB server does.
    #[error("{} --version does not look like a MySQL or MariaDB server: {output}", path.display())]
    NotAServer {
        /// The program.
        path: PathBuf,
        /// What it printed.
        output: String,
    },

    /// MariaDB's script for a new data directory is missing.
    #[error(
        "mariadb-install-db is needed to set up {} and is neither beside it nor on PATH; Debian and Ubuntu \
         have it in the package mariadb-server-core",
        .0.display()
    )]
    NoInstaller(PathBuf),

    /// The directory for the disk is in memory.
    #[error("{} is in memory (tmpfs): a durable primary needs a disk; choose another with --dir", .0.display())]
    NotADisk(PathBuf),

    /// A directory that was given holds files already.
    #[error("{} is not empty; nothing is kept there, so give an empty or a new directory", .0.display())]
    NotEmpty(PathBuf),

    /// The directory for the memory is not in memory.
    #[error("{} is not in memory (neither tmpfs nor ramfs)", .0.display())]
    NotInMemory(PathBuf),

    /// No tmpfs was found that this user may write to.
    #[error("no tmpfs that can be written to was found; name one with --memory-dir")]
    NoMemoryDirectory,

    /// The memory file system is too small.
    #[error(
        "{} has {} MiB free and the replica's files need {} MiB; free some, choose another with --memory-dir, \
         or in a container give it more (docker run --shm-size)",
        directory.display(), in_mib(*free), in_mib(*needed)
    )]
    TooSmall {
        /// The memory file system.
        directory: PathBuf,
        /// Free bytes in it.
        free: u64,
        /// Bytes that the replica's files need.
        needed: u64,
    },

    /// The machine has too little memory.
    #[error(
        "{} MiB of memory are available and {} MiB are needed (the replica's files and the server processes)",
        in_mib(*available), in_mib(*needed)
    )]
    TooLittleMemory {
        /// Available bytes, as /proc/meminfo has them.
        available: u64,
        /// Bytes that are needed.
        needed: u64,
    },

    /// A path is too long for a unix socket.
    #[error("{} is too long for a unix socket (100 bytes); choose a shorter directory", .0.display())]
    LongPath(PathBuf),

    /// The guard process did not start.
    #[error("{} does not work as the sandbox's guard process", .0.display())]
    Guard(PathBuf),

    /// A server or the program that sets up its data ended when it should not.
    #[error("{what} ended with {status}; its log ends with:\n{log}")]
    Ended {
        /// What ended.
        what: String,
        /// How it ended.
        status: ExitStatus,
        /// The last lines of its log.
        log: String,
    },

    /// A server did not become ready.
    #[error("{what} is not ready after {seconds} s; its log ends with:\n{log}")]
    NotReady {
        /// The server.
        what: String,
        /// How long it had.
        seconds: u64,
        /// The last lines of its log.
        log: String,
    },

    /// The replica does not follow.
    #[error("the replica did not reach the primary's position {position} in {seconds} s: {reason}")]
    Behind {
        /// The primary's GTID set.
        position: String,
        /// How long it had.
        seconds: u64,
        /// What the replica says of its replication.
        reason: String,
    },

    /// A signal could not be sent because the server does not run.
    #[error("{0} does not run")]
    NotRunning(String),

    /// The operating system has no random numbers.
    #[error("the operating system gave no random numbers")]
    Random,

    /// No free port was found.
    #[error("no free TCP port found on 127.0.0.1")]
    NoPort,

    /// A server refused a statement.
    #[error(transparent)]
    Sql(#[from] mysql_async::Error),

    /// The operating system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },

    /// Files are still there after the sandbox was swept.
    #[error("{} could not be removed", .0.display())]
    LeftBehind(PathBuf),
}

impl Error {
    /// Says what was tried when an operation of the operating system failed; for `map_err`.
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

/// What to do when there is no server.
fn no_program(wanted: Option<Flavor>) -> String {
    let what = wanted.map_or("MySQL or MariaDB".to_owned(), |flavor| flavor.to_string());
    let mut text =
        format!("no {what} server found: neither mysqld nor mariadbd on PATH or in /usr/sbin will do;");
    text.push_str(" install one, or name it with --mysqld PATH");
    if wanted != Some(Flavor::MySql) {
        text.push_str("\n  MariaDB on Debian and Ubuntu: apt-get install mariadb-server-core");
    }
    if wanted != Some(Flavor::MariaDb) {
        text.push_str("\n  MySQL on Ubuntu: apt-get install mysql-server-core-8.0");
        text.push_str("\n  MySQL on Debian: scripts/mysql-server.sh of this project");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_server_names_what_to_install() {
        let any = Error::NoProgram(None).to_string();
        assert!(any.contains("mariadb-server-core") && any.contains("mysql-server-core"), "{any}");
        let mysql = Error::NoProgram(Some(Flavor::MySql)).to_string();
        assert!(mysql.starts_with("no MySQL server") && !mysql.contains("mariadb-server-core"), "{mysql}");
    }
}
