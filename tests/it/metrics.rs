//! The HTTP endpoint: metrics that Prometheus' own checker accepts, and probes that tell the truth.

use std::net::Ipv4Addr;
use std::process::Stdio;

use mysql_async::prelude::Queryable;
use ramsplit::config::{Backend, Config, RouteMode};
use ramsplit::sandbox::Flavor;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::bed::{on_both, shared, target, wait_until, with_schema};
use crate::meddler::{Harm, Meddler};
use crate::proxy::{Metrics, Proxy, config, get};

on_both!(families_and_their_values, ready_when_the_primary_was_reached);

/// The upper bounds of the latency histogram, from 25 microseconds to 10 s.
const BUCKETS: [&str; 19] = [
    "0.000025", "0.00005", "0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025",
    "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf",
];

async fn families_and_their_values(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    let proxy = Proxy::start(sandbox).await;
    let mut session = proxy.connect().await;
    for _ in 0..3 {
        assert_eq!(target(&mut session).await, "replica");
    }
    session.query_drop("CREATE TABLE IF NOT EXISTS measured (a INT)").await.unwrap();
    session.query_drop("SELECT NAME FROM here FOR UPDATE").await.unwrap();
    session.ping().await.unwrap();

    let (status, text) = get(proxy.http(), "/metrics").await;
    assert_eq!(status, 200);
    promtool(&text).await;
    for (family, kind) in [
        ("ramsplit_queries_total", "counter"),
        ("ramsplit_query_duration_seconds", "histogram"),
        ("ramsplit_client_connections", "gauge"),
        ("ramsplit_backend_connections", "gauge"),
        ("ramsplit_replica_up", "gauge"),
        ("ramsplit_replica_lag_seconds", "gauge"),
        ("ramsplit_build_info", "gauge"),
    ] {
        assert!(text.contains(&format!("# TYPE {family} {kind}\n")), "{family} is no {kind} in\n{text}");
        assert!(text.contains(&format!("# HELP {family} ")), "{family} is not explained");
    }
    let metrics = Metrics::parse(&text);
    assert_eq!(metrics.queries("replica", "read"), 3.0);
    assert_eq!(metrics.queries("primary", "ddl"), 1.0);
    assert_eq!(metrics.queries("primary", "locking_read"), 1.0);
    assert_eq!(metrics.clients(), 1.0);
    for route in ["primary", "replica"] {
        let idle = [("route", route), ("state", "idle")];
        assert_eq!(metrics.sum("ramsplit_backend_connections", &idle), 1.0, "{route}");
        let active = [("route", route), ("state", "active")];
        assert_eq!(metrics.sum("ramsplit_backend_connections", &active), 0.0, "{route}");
    }
    // In fractions of a second, and never nothing.
    let lag = metrics.sum("ramsplit_replica_lag_seconds", &[("replica", "replica")]);
    assert!(lag > 0.0 && lag < 1.0, "{lag}");
    let state = |state| metrics.sum("ramsplit_replica_state", &[("replica", "replica"), ("state", state)]);
    assert_eq!((state("serving"), state("lagging"), state("down")), (1.0, 0.0, 0.0));
    assert_eq!(metrics.sum("ramsplit_build_info", &[("version", env!("CARGO_PKG_VERSION"))]), 1.0);

    // A true histogram: its buckets are the promised ones and add up.
    let reads = [("route", "replica"), ("kind", "read")];
    let mut below = 0.0;
    for bound in BUCKETS {
        let bucket = [reads[0], reads[1], ("le", bound)];
        let line = format!("le=\"{bound}\"");
        assert!(text.contains(&line), "{line} is not in\n{text}");
        let count = metrics.sum("ramsplit_query_duration_seconds_bucket", &bucket);
        assert!(count >= below, "{bound}");
        below = count;
    }
    assert_eq!(below, 3.0);
    assert_eq!(metrics.sum("ramsplit_query_duration_seconds_count", &reads), 3.0);
    let seconds = metrics.sum("ramsplit_query_duration_seconds_sum", &reads);
    assert!(seconds > 0.0 && seconds < 30.0, "{seconds}");
    let bounds = text.matches("le=\"").count() % BUCKETS.len();
    assert_eq!(bounds, 0, "there are other bounds");

    assert_eq!(get(proxy.http(), "/healthz").await.0, 200);
    assert_eq!(get(proxy.http(), "/readyz").await.0, 200);
    assert_eq!(get(proxy.http(), "/nowhere").await.0, 404);
}

async fn ready_when_the_primary_was_reached(flavor: Flavor) {
    let sandbox = shared(flavor).await;
    // A port where nobody listens yet.
    let place = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = place.local_addr().unwrap();
    drop(place);
    let settings = Config {
        primary: Backend { name: "primary".to_owned(), address: address.to_string() },
        route: RouteMode::Primary,
        ..config(sandbox)
    };
    let proxy = Proxy::run(settings, sandbox.application()).await;
    let (status, reason) = get(proxy.http(), "/readyz").await;
    assert_eq!(status, 503, "{reason}");
    assert_eq!(get(proxy.http(), "/healthz").await.0, 200);
    let options = with_schema(proxy.address(), sandbox.application());
    let refusal = mysql_async::Conn::new(options).await.unwrap_err();
    assert!(matches!(&refusal, mysql_async::Error::Server(error) if error.code == 1429), "{refusal}");

    let place = TcpListener::bind(address).await.unwrap();
    let _relay = Meddler::on(place, sandbox.primary().address(), "nothing is harmed", 0, Harm::Close);
    wait_until("it is ready", async || get(proxy.http(), "/readyz").await.0 == 200).await;
    assert_eq!(target(&mut proxy.connect().await).await, "primary");
}

/// Debian's package `prometheus` has it.
async fn promtool(text: &str) {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is needed, from the package `prometheus`");
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).await.unwrap();
    let output = promtool.wait_with_output().await.unwrap();
    let complaints = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&complaints));
    assert_eq!(String::from_utf8_lossy(&complaints), "", "{text}");
}
