//! What the tests share: the servers to run, and what a sandbox may have left.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ramsplit::sandbox::{Flavor, Options, Program};
use tokio::time::{Instant, sleep};

/// The binary under test, which is also the guard of every sandbox.
pub(crate) const RAMSPLIT: &str = env!("CARGO_BIN_EXE_ramsplit");

/// The server to test with. MySQL is the one that `RAMSPLIT_TEST_MYSQLD` names, else one on PATH, else the
/// one in the cache of `scripts/mysql-server.sh`.
pub(crate) fn program(flavor: Flavor) -> Program {
    let found = match flavor {
        Flavor::MariaDb => Program::find(Some(flavor), None),
        Flavor::MySql => match std::env::var_os("RAMSPLIT_TEST_MYSQLD") {
            Some(path) => Program::find(Some(flavor), Some(Path::new(&path))),
            None => Program::find(Some(flavor), None)
                .or_else(|_| Program::find(Some(flavor), Some(&cached_mysqld()))),
        },
    };
    found.unwrap_or_else(|error| panic!("`make test` sets up a {flavor} server for the tests: {error}"))
}

/// A sandbox's options for `flavor`.
pub(crate) fn options(flavor: Flavor) -> Options {
    Options::new(program(flavor), RAMSPLIT)
}

/// The command lines of processes that mention `text`: servers, guards and scripts of a sandbox mention its
/// directories.
pub(crate) fn processes(text: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries
        .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(text))
        .collect()
}

/// Waits until no process mentions any of the directories and none of them exists.
pub(crate) async fn wait_until_gone(directories: &[PathBuf]) {
    let mut left = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        left.clear();
        for directory in directories {
            left.extend(processes(directory.to_str().unwrap()));
            left.extend(directory.exists().then(|| directory.display().to_string()));
        }
        if left.is_empty() {
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
    panic!("left behind: {left:#?}");
}

fn cached_mysqld() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))
        .unwrap_or_default();
    cache.join("ramsplit/mysql/bin/mysqld")
}
