//! What `docker` has, as far as it runs without an engine: the script that is the replica's entry point and the one
//! that makes the accounts, on real servers; the dashboard, by Prometheus' own checker; the files that belong together.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use ramsplit::config::{self, Backend, Config};
use ramsplit::sandbox::{Flavor, Single};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::bed::{account, on_both, shared, wait_until};
use crate::proxy::{Proxy, get};
use crate::support::{options, program};

on_both!(a_replica_fills_itself);

const REPLICATION_PASSWORD: &str = "it's \\ a 'secret'";
const MONITOR_PASSWORD: &str = "monitor's";

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/docker"))
}

/// The script of this family in `place`, which finds its programs.
fn script(place: &str, flavor: Flavor) -> Command {
    let mut command = Command::new(folder().join(place).join(flavor.word()).with_extension("sh"));
    let programs = program(flavor).path.parent().unwrap().to_owned();
    let path = std::env::join_paths(
        std::iter::once(programs).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    command.env("PATH", path.unwrap());
    command
}

/// The replica's entry point, as a container would run it.
struct Replica {
    script: Child,
    /// In memory; goes with the value.
    directory: TempDir,
    port: u16,
}

impl Replica {
    fn start(primary: &Single) -> Self {
        let flavor = primary.server().program().flavor;
        let own: &[&str] = match flavor {
            Flavor::MySql => &["--mysqlx=OFF", "--skip-log-bin", "--user=root"],
            // The long form is taken by MariaDB's set-up script, which then changes owners elsewhere.
            Flavor::MariaDb => &["-uroot"],
        };
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let script = script("replica", flavor)
            .env("PRIMARY_HOST", "127.0.0.1")
            .env("PRIMARY_PORT", primary.server().address().port().to_string())
            .env("REPLICATION_USER", "replication")
            .env("REPLICATION_PASSWORD", REPLICATION_PASSWORD)
            .env("DATADIR", directory.path().join("data"))
            .args(["--server-id=2", "--bind-address=127.0.0.1"])
            .args(own)
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self { script, directory, port }
    }

    /// The id of its server's process, once it is the one that serves.
    fn server(&self) -> Option<i32> {
        std::fs::read_to_string(self.directory.path().join("data/mysqld.pid")).ok()?.trim().parse().ok()
    }

    fn kill_server(&self) {
        let server = self.server().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(server.unwrap(), rustix::process::Signal::KILL).unwrap();
    }

    async fn kill(mut self) {
        self.kill_server();
        assert!(!self.script.wait().await.unwrap().success(), "whoever runs it must see that it failed");
    }

    /// As an engine ends a container.
    async fn stop(mut self) {
        let script = rustix::process::Pid::from_raw(self.script.id().unwrap().try_into().unwrap()).unwrap();
        rustix::process::kill_process(script, rustix::process::Signal::TERM).unwrap();
        assert!(self.script.wait().await.unwrap().success());
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // Of a test that failed; the script alone would leave its server behind.
        if matches!(self.script.try_wait(), Ok(None)) && self.server().is_some() {
            self.kill_server();
        }
    }
}

/// It fills itself from nothing, follows, and does so again after it was lost; the proxy, whose account has no more
/// rights than the script gives it, serves from it whenever it is complete.
async fn a_replica_fills_itself(flavor: Flavor) {
    let mut options = options(flavor);
    if flavor == Flavor::MySql {
        options.arguments.push("--plugin-load-add=mysql_clone.so".to_owned());
    }
    let primary = Single::start(options).await.unwrap();
    // In an image, the socket is where the clients look for it.
    let home = tempfile::tempdir().unwrap();
    let socket = format!("[client]\nsocket={}\n", primary.server().socket().display());
    std::fs::write(home.path().join(".my.cnf"), socket).unwrap();
    let accounts = script("primary", flavor)
        .env("HOME", home.path())
        .env("MYSQL_ROOT_PASSWORD", "")
        .env("MARIADB_ROOT_PASSWORD", "")
        .env("REPLICATION_PASSWORD", REPLICATION_PASSWORD)
        .env("MONITOR_PASSWORD", MONITOR_PASSWORD)
        .output()
        .await
        .unwrap();
    assert!(accounts.status.success(), "{}", String::from_utf8_lossy(&accounts.stderr));
    let mut writer = primary.server().root().await.unwrap();
    writer.query_drop("CREATE TABLE demo.things (id INT PRIMARY KEY AUTO_INCREMENT, a INT)").await.unwrap();
    writer.query_drop("INSERT INTO demo.things (a) VALUES (1), (2), (3)").await.unwrap();

    let mut expected = 3;
    for round in 0..2 {
        let replica = Replica::start(&primary);
        let any = "127.0.0.1:0".parse().unwrap();
        let backend =
            |name: &str, port: u16| Backend { name: name.to_owned(), address: format!("127.0.0.1:{port}") };
        let config = Config {
            http: Some(any),
            replicas: vec![backend("replica", replica.port)],
            monitor: Some(account("ramsplit", MONITOR_PASSWORD)),
            ..Config::new(any, backend("primary", primary.server().address().port()))
        };
        let proxy = Proxy::run(config, primary.application()).await;
        let mut session = proxy.connect().await;
        let read = "SELECT COUNT(*) FROM demo.things";
        // Until it is complete, nothing is missing.
        wait_until("reads are on the replica", async || {
            assert_eq!(session.query_first(read).await.unwrap(), Some(expected));
            tokio::time::sleep(Duration::from_millis(50)).await;
            proxy.route_of(&mut session, read).await == "replica read"
        })
        .await;
        writer.query_drop("INSERT INTO demo.things (a) VALUES (4)").await.unwrap();
        expected += 1;
        wait_until("it follows", async || session.query_first(read).await.unwrap() == Some(expected)).await;
        if round == 0 {
            replica.kill().await;
            assert_eq!(session.query_first(read).await.unwrap(), Some(expected), "from the primary");
        } else {
            replica.stop().await;
        }
    }
}

/// Prometheus understands every question of the dashboard, and the proxy has every family that it asks for.
#[tokio::test]
async fn the_dashboard_asks_for_what_there_is() {
    let text = std::fs::read(folder().join("grafana/dashboards/routes.json")).unwrap();
    let dashboard: Value = serde_json::from_slice(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let questions: Vec<_> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(questions.len() >= panels.len());

    let rules: Vec<_> = questions
        .iter()
        .enumerate()
        .map(|(number, question)| serde_json::json!({ "record": format!("q{number}"), "expr": question }))
        .collect();
    // JSON is YAML.
    let file = serde_json::json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    std::fs::write(&path, file.to_string()).unwrap();
    let checked = Command::new("promtool").args(["check", "rules"]).arg(&path).output().await.unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));

    let configuration = folder().join("prometheus.yaml");
    let checked =
        Command::new("promtool").args(["check", "config"]).arg(configuration).output().await.unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));

    let rules = "[[rule]]\nname = \"r\"\nclass = \"read\"\nroute = \"auto\"\n";
    let rules_file = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    std::fs::write(&rules_file, rules).unwrap();
    let sandbox = shared(Flavor::MariaDb).await;
    let proxy = Proxy::start_with(sandbox, |config| config.rules = Some(rules_file.to_path_buf())).await;
    proxy.connect().await.ping().await.unwrap();
    let (_, metrics) = get(proxy.http(), "/metrics").await;
    let families: BTreeSet<_> = questions.iter().flat_map(|question| families(question)).collect();
    for family in &families {
        assert!(
            metrics.contains(&format!("\n{family}{{")) || metrics.contains(&format!("\n{family} ")),
            "{family}"
        );
    }
    assert!(families.len() >= 6, "{families:?}");
}

fn families(question: &str) -> Vec<String> {
    let words = question.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("ramsplit_")).map(str::to_owned).collect()
}

/// Every file that one of these names is there.
#[test]
fn files_that_are_named_are_there() {
    let read = |path: &str| std::fs::read_to_string(folder().join(path)).unwrap();
    let mounted = read("compose.yaml") + &read("compose.mariadb.yaml");
    let mounted = mounted.lines().filter_map(|line| line.trim().strip_prefix("- ./")?.split(':').next());
    let mounted: Vec<PathBuf> = mounted.map(|path| folder().join(path)).collect();
    assert!(mounted.len() >= 7, "{mounted:?}");
    let copied = read("Dockerfile");
    let copied = copied.lines().filter(|line| line.starts_with("COPY ") && !line.contains("--from"));
    let copied: Vec<_> =
        copied.flat_map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>()).collect();
    let root = folder().parent().unwrap();
    let copied = copied.into_iter().filter(|path| *path != "./").map(|path| root.join(path));
    for path in mounted.into_iter().chain(copied) {
        assert!(path.exists(), "{}", path.display());
    }
    let config =
        read("ramsplit.toml").replace("password_env = \"RAMSPLIT_MONITOR_PASSWORD\"", "password = \"x\"");
    let config = config::file::parse(&config, "ramsplit.toml").unwrap();
    assert_eq!(config.monitor.unwrap().password.as_str(), "x");
}
