//! The proxy under test, in the test's own process or as a process of its own, and what its metrics say.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use ramsplit::config::{Account, Backend, Config, RouteMode};
use ramsplit::sandbox::Sandbox;
use ramsplit::server::Server;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::bed::{connect, wait_until};
use crate::support::RAMSPLIT;

/// A proxy in this process; it ends with the value.
pub(crate) struct Proxy {
    address: SocketAddr,
    http: SocketAddr,
    application: Account,
    render: Arc<dyn Fn() -> String + Send + Sync>,
    _stop: DropGuard,
}

impl Proxy {
    /// A proxy whose replica serves.
    pub(crate) async fn start(sandbox: &Sandbox) -> Self {
        Self::start_with(sandbox, |_| {}).await
    }

    /// A proxy with other settings. Waits for its replica, if it has one.
    pub(crate) async fn start_with(sandbox: &Sandbox, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = config(sandbox);
        change(&mut config);
        let has_replica = !config.replicas.is_empty() && config.route == RouteMode::Auto;
        let proxy = Self::run(config, sandbox.application()).await;
        if has_replica {
            wait_until("the replica serves", async || proxy.replica_is_up()).await;
        }
        proxy
    }

    /// A proxy with exactly these settings.
    pub(crate) async fn run(config: Config, application: &Account) -> Self {
        let server = Server::bind(config).await.unwrap();
        let (address, http) = (server.address(), server.http_address().unwrap());
        let render = server.metrics_renderer();
        let shutdown = CancellationToken::new();
        tokio::spawn(server.run(shutdown.clone()));
        Self { address, http, application: application.clone(), render, _stop: shutdown.drop_guard() }
    }

    /// Where clients connect.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the HTTP endpoint is.
    pub(crate) const fn http(&self) -> SocketAddr {
        self.http
    }

    /// A session of the application.
    pub(crate) async fn connect(&self) -> Conn {
        connect(self.address, &self.application).await
    }

    /// What the metrics say now.
    pub(crate) fn metrics(&self) -> Metrics {
        Metrics::parse(&(self.render)())
    }

    /// Whether the replica takes reads.
    pub(crate) fn replica_is_up(&self) -> bool {
        self.metrics().sum("ramsplit_replica_up", &[]) == 1.0
    }

    /// Runs a statement and says where and why it went there, as `replica read`. No other session may run
    /// statements meanwhile.
    pub(crate) async fn route_of(&self, session: &mut Conn, statement: impl AsRef<str>) -> String {
        let before = self.metrics();
        // What the statement answers is the business of other tests, and some of them fail.
        let _ = session.query_drop(statement.as_ref()).await;
        // A statement is counted after its answer has left; the proxy's answer to this comes after that.
        session.ping().await.unwrap();
        let after = self.metrics();
        let mut routes = after.0.iter().filter(|(series, value)| {
            series.starts_with("ramsplit_queries_total{") && before.0.get(*series) != Some(*value)
        });
        let (series, value) =
            routes.next().unwrap_or_else(|| panic!("{} was not counted", statement.as_ref()));
        assert!(routes.next().is_none(), "{} was counted twice", statement.as_ref());
        assert_eq!(value - before.0.get(series).copied().unwrap_or_default(), 1.0);
        format!("{} {}", label(series, "route"), label(series, "reason"))
    }
}

/// The settings of a proxy in front of a sandbox, on free ports. Reads wait for the replica, so that where they go
/// does not depend on its speed.
pub(crate) fn config(sandbox: &Sandbox) -> Config {
    let backend =
        |name: &str, address: SocketAddr| Backend { name: name.to_owned(), address: address.to_string() };
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Config {
        http: Some(any),
        replicas: vec![backend("replica", sandbox.replica().address())],
        monitor: Some(sandbox.monitor().clone()),
        wait: Duration::from_secs(5),
        ..Config::new(any, backend("primary", sandbox.primary().address()))
    }
}

/// Series and their values at one moment.
pub(crate) struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// Reads Prometheus' text format.
    pub(crate) fn parse(text: &str) -> Self {
        let samples = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let sample = |line: &str| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (series.to_owned(), value.parse().unwrap())
        };
        Self(samples.map(sample).collect())
    }

    /// The sum over the series of a family that have all of these labels.
    pub(crate) fn sum(&self, family: &str, labels: &[(&str, &str)]) -> f64 {
        let wanted = |series: &str| {
            series.split('{').next() == Some(family)
                && labels.iter().all(|(name, value)| series.contains(&format!("{name}=\"{value}\"")))
        };
        self.0.iter().filter(|(series, _)| wanted(series)).map(|(_, value)| value).sum()
    }

    /// Statements that went to `route` for `reason`.
    pub(crate) fn queries(&self, route: &str, reason: &str) -> f64 {
        self.sum("ramsplit_queries_total", &[("route", route), ("reason", reason)])
    }

    /// Connections of clients.
    pub(crate) fn clients(&self) -> f64 {
        self.sum("ramsplit_client_connections", &[])
    }

    /// Connections of sessions to servers.
    pub(crate) fn backends(&self) -> f64 {
        self.sum("ramsplit_backend_connections", &[])
    }
}

fn label<'a>(series: &'a str, name: &str) -> &'a str {
    let (_, rest) = series.split_once(&format!("{name}=\"")).unwrap();
    rest.split_once('"').unwrap().0
}

/// A GET, as status and body.
pub(crate) async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(!head.to_ascii_lowercase().contains("transfer-encoding"), "{head}");
    (head.split_whitespace().nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// `ramsplit serve` as a process; killed with the value.
pub(crate) struct Process {
    process: Child,
    address: SocketAddr,
    http: SocketAddr,
    _config: tempfile::TempPath,
}

impl Process {
    /// Starts it in front of a sandbox and waits until its replica serves.
    pub(crate) async fn start(sandbox: &Sandbox) -> Self {
        let config = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let monitor = sandbox.monitor();
        let text = format!(
            "listen = '127.0.0.1:0'\nhttp = '127.0.0.1:0'\n[primary]\naddress = '{}'\n[replica]\naddress = '{}'\n\
             [monitor]\nuser = '{}'\npassword = '{}'\n",
            sandbox.primary().address(),
            sandbox.replica().address(),
            monitor.user,
            monitor.password.as_str(),
        );
        std::fs::write(&config, text).unwrap();
        let mut process = Command::new(RAMSPLIT)
            .args(["serve", "--config"])
            .arg(&config)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut said = async |before: &str| -> SocketAddr {
            let line = lines.next_line().await.unwrap().unwrap();
            let rest = line.split_once(before).unwrap_or_else(|| panic!("{line}")).1;
            rest.split('/').next().unwrap().parse().unwrap()
        };
        let (address, http) = (said("listening on ").await, said("metrics on http://").await);
        // What else it says goes nowhere, but must be taken.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let started = Self { process, address, http, _config: config };
        wait_until("the replica serves", async || {
            started.metrics().await.sum("ramsplit_replica_up", &[]) == 1.0
        })
        .await;
        started
    }

    /// Where clients connect.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What its metrics say now.
    pub(crate) async fn metrics(&self) -> Metrics {
        Metrics::parse(&get(self.http, "/metrics").await.1)
    }

    /// Bytes of memory that it has now.
    pub(crate) fn memory(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most bytes of memory that it has had since [`Process::forget_peak`].
    pub(crate) fn peak(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// Makes the peak what it has now.
    pub(crate) fn forget_peak(&self) {
        // <https://docs.kernel.org/filesystems/proc.html>: 5 resets the peak.
        std::fs::write(format!("/proc/{}/clear_refs", self.process.id().unwrap()), "5").unwrap();
    }

    fn status(&self, key: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id().unwrap())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
    }
}
