//! Metric families. Handles are taken once and kept: a statement only adds.

use std::{sync::OnceLock, time::Duration};

use metrics::{Counter, Gauge, Histogram, Unit, with_local_recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use crate::{
    route::{Reason, Target},
    sql::Kind,
};

/// `ramsplit_queries_total{route,kind,reason}`: statements answered.
const QUERIES: &str = "ramsplit_queries_total";
/// `ramsplit_query_duration_seconds{route,kind}`: from the whole command read to its whole answer written.
const DURATION: &str = "ramsplit_query_duration_seconds";
/// `ramsplit_client_connections`: clients connected now.
const CLIENTS: &str = "ramsplit_client_connections";
/// `ramsplit_backend_connections{route,state}`: connections to servers now.
const BACKENDS: &str = "ramsplit_backend_connections";
/// `ramsplit_replica_up{replica}`: 1 when the replica serves reads.
const REPLICA_UP: &str = "ramsplit_replica_up";
/// `ramsplit_replica_state{replica,state}`: 1 for the state that the replica is in, 0 for the others.
const REPLICA_STATE: &str = "ramsplit_replica_state";
/// `ramsplit_replica_lag_seconds{replica}`: how far it is behind; NaN when unknown.
const REPLICA_LAG: &str = "ramsplit_replica_lag_seconds";
/// `ramsplit_replica_wait_seconds{outcome}`: time that reads waited for a replica to have what they must see.
const REPLICA_WAIT: &str = "ramsplit_replica_wait_seconds";
/// `ramsplit_rule_hits_total{rule}`: statements that a routing rule decided about.
const RULE_HITS: &str = "ramsplit_rule_hits_total";
/// `ramsplit_hints_misread_total`: hints in statements that were not understood.
const HINTS_MISREAD: &str = "ramsplit_hints_misread_total";
/// `ramsplit_build_info{version}`: always 1.
const BUILD_INFO: &str = "ramsplit_build_info";

/// Upper bounds in seconds. Answers from memory on the same machine begin at about 50 microseconds, so the
/// buckets begin below; each is 2 to 2.5 times the one before, so that a quantile is known to that factor.
const BUCKETS: [f64; 18] = [
    0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
    0.5, 1.0, 2.5, 5.0, 10.0,
];

const KINDS: usize = Kind::ALL.len();
const REASONS: usize = Reason::ALL.len();

/// The state of a backend connection, as a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// It waits for its session.
    Idle,
    /// It runs a statement.
    Active,
}

/// How waiting for a replica ended, as a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The replica had what was waited for.
    Arrived,
    /// It had not within the time allowed, and the primary answered instead.
    Late,
}

/// Every metric of a proxy. There is no global recorder: two proxies in one process do not mix.
pub struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    queries: Box<[OnceLock<Counter>]>,
    durations: Box<[OnceLock<Histogram>]>,
    clients: Gauge,
    hints_misread: Counter,
    backends: [[Gauge; 2]; Target::ALL.len()],
    waits: [Histogram; 2],
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Registers the families.
    pub fn new() -> Self {
        let builder = PrometheusBuilder::new();
        // The only error is an empty list of buckets.
        let builder = builder
            .set_buckets_for_metric(Matcher::Full(DURATION.to_owned()), &BUCKETS)
            .and_then(|builder| {
                builder.set_buckets_for_metric(Matcher::Full(REPLICA_WAIT.to_owned()), &BUCKETS)
            })
            .unwrap_or_else(|_| PrometheusBuilder::new());
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        let (clients, hints_misread, backends, waits) = with_local_recorder(&recorder, || {
            describe();
            metrics::gauge!(BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
            let gauges = Target::ALL.map(|target| {
                ["idle", "active"]
                    .map(|state| metrics::gauge!(BACKENDS, "route" => target.label(), "state" => state))
            });
            let waits =
                ["arrived", "late"].map(|outcome| metrics::histogram!(REPLICA_WAIT, "outcome" => outcome));
            (metrics::gauge!(CLIENTS), metrics::counter!(HINTS_MISREAD), gauges, waits)
        });
        let queries =
            std::iter::repeat_with(OnceLock::new).take(Target::ALL.len() * KINDS * REASONS).collect();
        let durations = std::iter::repeat_with(OnceLock::new).take(Target::ALL.len() * KINDS).collect();
        Self { recorder, handle, queries, durations, clients, hints_misread, backends, waits }
    }

    /// Counts a statement that was answered, and the time that it took.
    pub fn query(&self, target: Target, kind: Kind, reason: Reason, took: Duration) {
        let series = target as usize * KINDS + kind as usize;
        if let Some(cell) = self.queries.get(series * REASONS + reason as usize) {
            cell.get_or_init(|| {
                with_local_recorder(&self.recorder, || {
                    metrics::counter!(QUERIES, "route" => target.label(), "kind" => kind.label(), "reason" => reason.label())
                })
            })
            .increment(1);
        }
        if let Some(cell) = self.durations.get(series) {
            cell.get_or_init(|| {
                with_local_recorder(
                    &self.recorder,
                    || metrics::histogram!(DURATION, "route" => target.label(), "kind" => kind.label()),
                )
            })
            .record(took);
        }
    }

    /// A client connected; it counts until the guard is dropped.
    pub fn client(&self) -> Counted {
        Counted::new(self.clients.clone())
    }

    /// A connection to a server was opened; it counts until the guard is dropped.
    pub fn backend(&self, target: Target) -> BackendGauge {
        let [[primary_idle, primary_active], [replica_idle, replica_active]] = &self.backends;
        let (idle, active) = match target {
            Target::Primary => (primary_idle, primary_active),
            Target::Replica => (replica_idle, replica_active),
        };
        idle.increment(1.0);
        BackendGauge { idle: idle.clone(), active: active.clone(), state: Use::Idle }
    }

    /// The counters of the rules with these names, in this order. They begin to show at once.
    pub fn rule_hits<'n>(&self, names: impl Iterator<Item = &'n str>) -> RuleHits {
        with_local_recorder(&self.recorder, || {
            RuleHits(names.map(|name| metrics::counter!(RULE_HITS, "rule" => name.to_owned())).collect())
        })
    }

    /// Counts the time that a read waited for a replica.
    pub fn replica_wait(&self, took: Duration, outcome: Wait) {
        let [arrived, late] = &self.waits;
        let histogram = match outcome {
            Wait::Arrived => arrived,
            Wait::Late => late,
        };
        histogram.record(took);
    }

    /// Counts a hint that was not understood.
    pub fn hint_misread(&self) {
        self.hints_misread.increment(1);
    }

    /// The gauges of one replica, which is always in one of these states.
    pub fn replica(&self, name: &str, states: &[&'static str]) -> ReplicaGauges {
        with_local_recorder(&self.recorder, || ReplicaGauges {
            states: states
                .iter()
                .map(|&state| metrics::gauge!(REPLICA_STATE, "replica" => name.to_owned(), "state" => state))
                .collect(),
            up: metrics::gauge!(REPLICA_UP, "replica" => name.to_owned()),
            lag: metrics::gauge!(REPLICA_LAG, "replica" => name.to_owned()),
        })
    }

    /// Everything in Prometheus' text format.
    pub fn render(&self) -> String {
        self.handle.render()
    }

    /// Sorts recorded samples into their buckets; without it they pile up until the next scrape.
    pub fn run_upkeep(&self) {
        self.handle.run_upkeep();
    }
}

fn describe() {
    metrics::describe_counter!(
        QUERIES,
        "Statements answered, by route, kind of statement and reason for the route."
    );
    metrics::describe_histogram!(
        DURATION,
        Unit::Seconds,
        "Time from a whole command read to its whole answer written."
    );
    metrics::describe_gauge!(CLIENTS, "Clients connected now.");
    metrics::describe_gauge!(BACKENDS, "Connections to servers now.");
    metrics::describe_gauge!(REPLICA_UP, "1 when the replica serves reads, 0 when not.");
    metrics::describe_gauge!(REPLICA_STATE, "1 for the state that the replica is in, 0 for the others.");
    metrics::describe_gauge!(
        REPLICA_LAG,
        Unit::Seconds,
        "How far the replica is behind the primary; NaN when not known."
    );
    metrics::describe_histogram!(
        REPLICA_WAIT,
        Unit::Seconds,
        "Time that reads waited for a replica to have what they must see, and how that ended."
    );
    metrics::describe_counter!(RULE_HITS, "Statements that a routing rule decided about.");
    metrics::describe_counter!(
        HINTS_MISREAD,
        "Hints in statements that were not understood, and so not followed."
    );
    metrics::describe_gauge!(BUILD_INFO, "Version of the running proxy; always 1.");
}

/// One unit of a gauge, given back when dropped.
pub struct Counted(Gauge);

impl Counted {
    fn new(gauge: Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// One backend connection in the gauges.
pub struct BackendGauge {
    idle: Gauge,
    active: Gauge,
    state: Use,
}

impl BackendGauge {
    /// The connection begins or ends a statement.
    pub fn set(&mut self, state: Use) {
        if self.state != state {
            self.gauge().decrement(1.0);
            self.state = state;
            self.gauge().increment(1.0);
        }
    }

    const fn gauge(&self) -> &Gauge {
        match self.state {
            Use::Idle => &self.idle,
            Use::Active => &self.active,
        }
    }
}

impl Drop for BackendGauge {
    fn drop(&mut self) {
        self.gauge().decrement(1.0);
    }
}

/// A counter for each rule of a list.
pub struct RuleHits(Vec<Counter>);

impl RuleHits {
    /// Counts a hit of the rule at `place`.
    pub fn hit(&self, place: usize) {
        if let Some(counter) = self.0.get(place) {
            counter.increment(1);
        }
    }
}

/// What is known of one replica.
pub struct ReplicaGauges {
    up: Gauge,
    lag: Gauge,
    states: Vec<Gauge>,
}

impl ReplicaGauges {
    /// Sets all: the place of its state in the list of states, and whether that serves; an unknown lag is not zero.
    pub fn set(&self, state: usize, serving: bool, lag: Option<Duration>) {
        self.up.set(if serving { 1.0 } else { 0.0 });
        self.lag.set(lag.map_or(f64::NAN, |lag| lag.as_secs_f64()));
        for (place, gauge) in self.states.iter().enumerate() {
            gauge.set(if place == state { 1.0 } else { 0.0 });
        }
    }
}
