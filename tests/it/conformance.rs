//! The servers' own test suites through the proxy, with a replica that takes the reads: a test that passes on a
//! single server must pass. `tests/conformance` has the lists, and `known.toml` the exceptions with their reasons.
//!
//! A small sample of each list runs with all other tests; RAMSPLIT_CONFORMANCE=full (`make conformance`) runs the
//! lists whole. After a failed test, and now and then, servers and proxy are made anew, so that no test meets what
//! another one left. Before that, both servers must have the same data, and the replica must have refused nothing.

mod corpus;
mod mtr;
mod topology;

use std::collections::BTreeMap;
use std::path::Path;

use ramsplit::sandbox::Flavor;
use serde::Deserialize;

pub(crate) use mtr::plugins;
use mtr::{Outcome, Verdict};
use topology::Topology;

/// Tests between two fresh set-ups of the servers.
const CHUNK: usize = 120;
/// Every such test of a list is in its sample.
const SAMPLE_EVERY: usize = 40;

/// One list.
#[derive(Debug, Clone, Copy)]
struct Suite {
    name: &'static str,
    flavor: Flavor,
    /// Further arguments of the suite's runner.
    arguments: &'static [&'static str],
}

/// A line of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Test {
    name: String,
    /// Further arguments of both servers, for what a server's replication cannot do by itself.
    arguments: Vec<String>,
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql() {
    run(Suite { name: "mysql", flavor: Flavor::MySql, arguments: &[] }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_prepared() {
    run(Suite { name: "mysql-ps", flavor: Flavor::MySql, arguments: &["--ps-protocol"] }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mariadb() {
    run(Suite { name: "mariadb", flavor: Flavor::MariaDb, arguments: &[] }).await;
}

/// `known.toml`: why a test may fail, by server family and test.
#[derive(Debug, Deserialize)]
struct Known(BTreeMap<String, BTreeMap<String, String>>);

impl Known {
    fn read() -> Self {
        let text = std::fs::read_to_string(folder().join("known.toml")).unwrap();
        toml::from_str(&text).unwrap()
    }

    fn has(&self, suite: Suite, test: &str) -> bool {
        self.0.get(suite.flavor.word()).is_some_and(|tests| tests.contains_key(test))
    }
}

/// What came of a list.
#[derive(Debug, Default)]
struct Report {
    passed: usize,
    skipped: Vec<String>,
    /// They fail without the proxy too, once a replica follows the primary.
    directly: Vec<String>,
    known: Vec<String>,
    failed: Vec<String>,
    /// What was wrong with the servers after some tests.
    faults: Vec<String>,
    reads: f64,
    reads_on_replica: f64,
}

async fn run(suite: Suite) {
    let known = Known::read();
    let mut pending = selection(suite);
    let all = pending.len();
    let mut report = Report::default();
    while !pending.is_empty() {
        let first = pending[0].clone();
        // What is known to fail may leave anything behind, and runs alone.
        let is_known = |test: &Test| known.has(suite, &test.name);
        let alike = |test: &&Test| test.arguments == first.arguments && !is_known(test);
        let together = pending.iter().take_while(alike).take(CHUNK).count().max(1);
        let names: Vec<_> = pending.iter().take(together).map(|test| test.name.clone()).collect();
        let (outcomes, faults) = report.run(suite, &first.arguments, &names).await;
        for fault in faults {
            println!("{}: {fault}", suite.name);
            if !is_known(&first) {
                report.faults.push(fault);
            }
        }
        for outcome in outcomes {
            report.note(suite, &known, &pending.remove(0), outcome.verdict).await;
        }
        println!("{}: {} to go, {} failed", suite.name, pending.len(), report.failed.len());
    }
    println!(
        "{}: {} of {all} passed, {} skipped, {} fail directly too, {} failed as known, {} failed; \
         {:.0} of {:.0} reads on the replica",
        suite.name,
        report.passed,
        report.skipped.len(),
        report.directly.len(),
        report.known.len(),
        report.failed.len(),
        report.reads_on_replica,
        report.reads,
    );
    println!("{report:#?}");
    assert!(report.failed.is_empty() && report.faults.is_empty());
    assert!(report.reads_on_replica > 0.0, "nothing was read on the replica");
}

impl Report {
    /// Runs tests through the proxy until one fails, and looks at what they left.
    async fn run(
        &mut self,
        suite: Suite,
        arguments: &[String],
        tests: &[String],
    ) -> (Vec<Outcome>, Vec<String>) {
        let topology = Topology::start(suite, arguments).await;
        let proxy = topology.proxy().await;
        let outcomes = mtr::run(suite, proxy.address(), topology.scratch(), tests).await;
        assert!(!outcomes.is_empty(), "the runner ended without a verdict on {}", tests[0]);
        let metrics = proxy.metrics();
        self.reads += metrics.sum("ramsplit_queries_total", &[("kind", "read")]);
        self.reads_on_replica +=
            metrics.sum("ramsplit_queries_total", &[("kind", "read"), ("route", "replica")]);
        let last = outcomes.last().map_or("", |last| &last.test);
        let faults = topology.faults().await.into_iter();
        let faults = faults.map(|fault| format!("{fault} (after {} to {last})", tests[0])).collect();
        drop(proxy);
        topology.stop().await;
        (outcomes, faults)
    }

    async fn note(&mut self, suite: Suite, known: &Known, test: &Test, verdict: Verdict) {
        let name = test.name.clone();
        match verdict {
            Verdict::Pass => self.passed += 1,
            Verdict::Skip => self.skipped.push(name),
            Verdict::Fail(_) if known.has(suite, &name) => self.known.push(name),
            Verdict::Fail(_) if !passes_directly(suite, test).await => self.directly.push(name),
            Verdict::Fail(why) => {
                println!("{}: {name} failed: {why}", suite.name);
                self.failed.push(format!("{name}: {why}"));
            }
        }
    }
}

/// Whether a test passes on the primary itself, while a replica follows it.
async fn passes_directly(suite: Suite, test: &Test) -> bool {
    let topology = Topology::start(suite, &test.arguments).await;
    let names = [test.name.clone()];
    let outcomes = mtr::run(suite, topology.primary(), topology.scratch(), &names).await;
    topology.stop().await;
    outcomes.iter().all(|outcome| outcome.verdict == Verdict::Pass)
}

/// The tests to run now.
fn selection(suite: Suite) -> Vec<Test> {
    let text = std::fs::read_to_string(folder().join(suite.name).with_extension("txt")).unwrap();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let tests = lines.map(|line| {
        let mut words = line.split_whitespace().map(str::to_owned);
        Test { name: words.next().unwrap(), arguments: words.collect() }
    });
    match std::env::var("RAMSPLIT_CONFORMANCE").as_deref() {
        Ok("full") => tests.collect(),
        Ok("sample") | Err(_) => tests.step_by(SAMPLE_EVERY).collect(),
        // Some tests by name.
        Ok(names) => {
            let names: Vec<_> = names.split(',').collect();
            tests.filter(|test| names.contains(&test.name.as_str())).collect()
        }
    }
}

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance"))
}
