//! `ramsplit demo` as a user runs it.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use ramsplit::sandbox::Flavor;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::time::{Instant, sleep};

use crate::support::{RAMSPLIT, processes, program, wait_until_gone};

#[tokio::test]
async fn mariadb_killed_demo_leaves_nothing() {
    killed_demo_leaves_nothing(Flavor::MariaDb).await;
}

#[tokio::test]
async fn mysql_killed_demo_leaves_nothing() {
    killed_demo_leaves_nothing(Flavor::MySql).await;
}

async fn killed_demo_leaves_nothing(flavor: Flavor) {
    let mut demo = Demo::start(flavor, &[]);
    demo.wait_until_ready();
    let directories = demo.directories().await;
    assert!(
        processes("--datadir=")
            .iter()
            .filter(|line| directories.iter().any(|d| line.contains(&text(d))))
            .count()
            >= 2
    );
    demo.signal(Signal::KILL);
    assert_eq!(demo.wait().signal(), Some(9));
    wait_until_gone(&directories).await;
}

/// The kernel sends SIGHUP to a group with a stopped member when the owner dies; and a build replaces the
/// binary while a demo runs.
#[tokio::test]
async fn mariadb_killed_demo_with_a_stopped_server_and_no_binary_leaves_nothing() {
    let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
    let binary = scratch.path().join("ramsplit");
    std::fs::copy(RAMSPLIT, &binary).unwrap();
    let mut demo = Demo::start_binary(&binary, Flavor::MariaDb, &[]);
    demo.wait_until_ready();
    let directories = demo.directories().await;
    std::fs::remove_file(&binary).unwrap();
    let pid = std::fs::read_to_string(directories[1].join("replica/pid")).unwrap();
    kill_process(Pid::from_raw(pid.trim().parse().unwrap()).unwrap(), Signal::STOP).unwrap();
    demo.signal(Signal::KILL);
    demo.wait();
    wait_until_gone(&directories).await;
}

#[tokio::test]
async fn mariadb_demo_killed_while_it_starts_leaves_nothing() {
    let mut demo = Demo::start(Flavor::MariaDb, &[]);
    let directories = demo.directories().await;
    // The set-up of the replica's data directory is under way.
    let data = directories[1].join("replica/data");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !data.exists() {
        assert!(Instant::now() < deadline);
        sleep(Duration::from_millis(5)).await;
    }
    demo.signal(Signal::KILL);
    demo.wait();
    wait_until_gone(&directories).await;
}

/// A Ctrl-C on a terminal goes to all processes of the foreground group.
#[tokio::test]
async fn mariadb_interrupted_demo_ends_in_order() {
    let mut demo = Demo::start(Flavor::MariaDb, &[]);
    demo.wait_until_ready();
    let directories = demo.directories().await;
    kill_process_group(demo.pid(), Signal::INT).unwrap();
    assert_eq!(demo.wait().code(), Some(0));
    assert!(directories.iter().all(|directory| !directory.exists()), "{directories:?}");
    wait_until_gone(&directories).await;
}

#[tokio::test]
async fn mariadb_terminated_while_it_starts_ends_in_order() {
    let mut demo = Demo::start(Flavor::MariaDb, &[]);
    let directories = demo.directories().await;
    demo.signal(Signal::TERM);
    assert_eq!(demo.wait().code(), Some(0));
    assert!(directories.iter().all(|directory| !directory.exists()), "{directories:?}");
    wait_until_gone(&directories).await;
}

#[tokio::test]
async fn mariadb_demo_prints_a_line_a_second() {
    let mut demo = Demo::start(Flavor::MariaDb, &["--seconds", "4"]);
    demo.wait_until_ready();
    let mut output = String::new();
    demo.output.read_to_string(&mut output).unwrap();
    assert_eq!(demo.wait().code(), Some(0));
    let lines: Vec<&str> = output.lines().filter(|line| line.starts_with("primary ")).collect();
    assert!((2..=4).contains(&lines.len()), "{output}");
    for line in lines {
        for part in ["| replica ", " reads/s ", " writes/s ", " p50 ", " p95 ", "| lag ", "| errors 0"] {
            assert!(line.contains(part), "{part:?} is not in {line:?}");
        }
    }
}

/// The command gets addresses that work, and its exit status is the demo's.
#[tokio::test]
async fn mariadb_exec_environment_works() {
    let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
    let (environment, go) = (scratch.path().join("environment"), scratch.path().join("go"));
    let script = format!(
        "env > {e}.new && mv {e}.new {e}; while [ ! -e {} ]; do sleep 0.1; done; echo done; exit 7",
        go.display(),
        e = environment.display(),
    );
    let mut demo = Demo::start(Flavor::MariaDb, &["--exec", &script]);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !environment.exists() {
        assert!(Instant::now() < deadline);
        sleep(Duration::from_millis(50)).await;
    }
    let environment = std::fs::read_to_string(environment).unwrap();
    let value = |name: &str| {
        let line = environment.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("{name} is not set")).to_owned()
    };
    for prefix in ["", "PRIMARY_", "REPLICA_"] {
        let part = |name: &str| value(&format!("RAMSPLIT_{prefix}{name}"));
        let url = part("URL");
        let parts =
            format!("mysql://{}:{}@{}:{}/", part("USER"), part("PASSWORD"), part("HOST"), part("PORT"));
        assert_eq!(url, format!("{parts}{}", value("RAMSPLIT_DATABASE")));
        let options = Opts::from_url(&format!("{url}?prefer_socket=false")).unwrap();
        let mut connection = Conn::new(options).await.unwrap();
        let rows: Option<u32> = connection.query_first("SELECT COUNT(*) FROM items").await.unwrap();
        assert_eq!(rows, Some(5_000), "{url}");
        connection.disconnect().await.unwrap();
    }
    assert!(value("RAMSPLIT_HTTP").starts_with("http://127.0.0.1:"));
    assert_eq!(value("RAMSPLIT_FLAVOR"), "mariadb");

    std::fs::write(go, "").unwrap();
    let mut output = String::new();
    demo.output.read_to_string(&mut output).unwrap();
    assert_eq!(output, "done\n", "standard output is the command's alone");
    assert_eq!(demo.wait().code(), Some(7));
}

#[test]
fn mariadb_exec_that_is_killed_gives_128_and_the_signal() {
    let output = demo(&["--exec", "kill -9 $$"]);
    assert_eq!(output.status.code(), Some(137), "{output:?}");
}

#[test]
fn mariadb_exec_that_takes_too_long_is_ended_with_all_it_started() {
    let output = demo(&["--seconds", "1", "--exec", "sleep 987654 & sleep 987654; echo late"]);
    assert_eq!(output.status.code(), Some(124), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    assert_eq!(processes("sleep 987654"), Vec::<String>::new());
}

#[test]
fn mariadb_demo_that_finds_too_little_memory_says_so() {
    let output = demo(&["--memory-size", "1000000000"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("MiB of memory are available and 1000000512 MiB are needed"), "{error}");
}

#[test]
fn a_port_in_use_is_said_at_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let output = Command::new(RAMSPLIT).args(["demo", "--http", "0", "--port", &port]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains(&format!("port {port} is in use")), "{error}");
}

#[test]
fn a_program_that_is_no_server_is_refused() {
    let output =
        Command::new(RAMSPLIT).args(["demo", "--port", "0", "--http", "0", "--mysqld", "/bin/sh"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("does not look like a MySQL or MariaDB server"), "{error}");
}

/// Runs a demo to its end, with MariaDB on free ports.
fn demo(arguments: &[&str]) -> Output {
    let command = ["demo", "--flavor", "mariadb", "--port", "0", "--http", "0"];
    Command::new(RAMSPLIT).args(command).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// A demo that runs in a process group of its own, with its files in a directory of its own.
struct Demo {
    process: Child,
    output: BufReader<std::process::ChildStdout>,
    directory: PathBuf,
    _parent: tempfile::TempDir,
}

impl Demo {
    fn start(flavor: Flavor, arguments: &[&str]) -> Self {
        Self::start_binary(Path::new(RAMSPLIT), flavor, arguments)
    }

    fn start_binary(binary: &Path, flavor: Flavor, arguments: &[&str]) -> Self {
        let parent = tempfile::tempdir_in("/var/tmp").unwrap();
        let directory = parent.path().join("demo");
        let mut process = Command::new(binary)
            .args(["demo", "--port", "0", "--http", "0", "--mysqld"])
            .arg(program(flavor).path)
            .arg("--dir")
            .arg(&directory)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, output, directory, _parent: parent }
    }

    /// Reads to the last line of the introduction.
    fn wait_until_ready(&mut self) {
        let mut seen = String::new();
        while !seen.contains("metrics  ") {
            assert_ne!(self.output.read_line(&mut seen).unwrap(), 0, "the demo ended: {seen}");
        }
    }

    /// The directories on disk and in memory, which the guard is the first to know.
    async fn directories(&self) -> Vec<PathBuf> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let guards = processes(&format!("sandbox-guard {}", text(&self.directory)));
            if let Some((_, directories)) = guards.first().and_then(|line| line.split_once("sandbox-guard "))
            {
                return directories.split_whitespace().map(PathBuf::from).collect();
            }
            assert!(Instant::now() < deadline, "there is no guard");
            sleep(Duration::from_millis(5)).await;
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    fn wait(&mut self) -> ExitStatus {
        self.process.wait().unwrap()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // Only a failed test leaves one running.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
