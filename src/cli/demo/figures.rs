//! The figures of the live line, read from the metrics' text and computed as Prometheus would. Pure.

use std::collections::{BTreeMap, BTreeSet};

/// What the metrics said at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Snapshot {
    routes: BTreeMap<String, Route>,
    lags: BTreeMap<String, f64>,
}

/// Counters of one route.
#[derive(Debug, Clone, Default, PartialEq)]
struct Route {
    reads: f64,
    writes: f64,
    /// Upper bounds in seconds and how many statements took at most that, ordered, `+Inf` last.
    buckets: Vec<(f64, f64)>,
}

impl Snapshot {
    /// Reads the lines that the live line needs from a text in Prometheus' exposition format.
    pub(super) fn parse(text: &str) -> Self {
        let mut snapshot = Self::default();
        for sample in text.lines().filter_map(Sample::parse) {
            snapshot.add(&sample);
        }
        for route in snapshot.routes.values_mut() {
            route.buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        snapshot
    }

    /// What has happened between `earlier` and this snapshot, `seconds` apart, as one line.
    pub(super) fn line_since(&self, earlier: &Self, seconds: f64) -> String {
        let mut parts = Vec::new();
        for name in self.names() {
            let none = Route::default();
            let now = self.routes.get(name).unwrap_or(&none);
            let then = earlier.routes.get(name).unwrap_or(&none);
            let buckets = difference(&now.buckets, &then.buckets);
            parts.push(format!(
                "{name} {:>5.0} reads/s {:>4.0} writes/s p50 {} p95 {}",
                (now.reads - then.reads) / seconds,
                (now.writes - then.writes) / seconds,
                milliseconds(quantile(0.5, &buckets)),
                milliseconds(quantile(0.95, &buckets)),
            ));
        }
        // An unknown lag is not zero; the metrics leave it out or say NaN.
        let lag = self.lags.values().copied().fold(f64::NAN, f64::max);
        parts.push(format!("lag {}", milliseconds(lag)));
        parts.join(" | ")
    }

    /// The two routes that there always are, and the others that were used.
    fn names(&self) -> BTreeSet<&str> {
        let used = self.routes.iter().filter(|(_, route)| route.reads + route.writes > 0.0);
        used.map(|(name, _)| name.as_str()).chain(["primary", "replica"]).collect()
    }

    fn add(&mut self, sample: &Sample<'_>) {
        let name = |label| sample.label(label).unwrap_or_default();
        match sample.name {
            "ramsplit_queries_total" => {
                let route = self.routes.entry(name("route")).or_default();
                match name("kind").as_str() {
                    "read" => route.reads += sample.value,
                    "write" => route.writes += sample.value,
                    _ => {}
                }
            }
            "ramsplit_query_duration_seconds_bucket" => {
                let Ok(bound) = name("le").parse::<f64>() else { return };
                let route = self.routes.entry(name("route")).or_default();
                match route.buckets.iter_mut().find(|bucket| bucket.0 == bound) {
                    Some(bucket) => bucket.1 += sample.value,
                    None => route.buckets.push((bound, sample.value)),
                }
            }
            "ramsplit_replica_lag_seconds" => {
                self.lags.insert(name("replica"), sample.value);
            }
            _ => {}
        }
    }
}

/// A line of the text: `name{label="value",...} value`.
struct Sample<'a> {
    name: &'a str,
    labels: &'a str,
    value: f64,
}

impl<'a> Sample<'a> {
    /// `None` for comments and what is no sample.
    fn parse(line: &'a str) -> Option<Self> {
        let (series, value) = line.trim_end().rsplit_once(' ')?;
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.strip_suffix('}')?;
        if name.starts_with('#') {
            return None;
        }
        Some(Self { name, labels, value: value.parse().ok()? })
    }

    /// A label's value. Ours have no quotes and no commas in them.
    fn label(&self, name: &str) -> Option<String> {
        self.labels.split(',').find_map(|label| {
            let value = label.trim().strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix('"')?;
            Some(value.to_owned())
        })
    }
}

/// What was added to each bucket.
fn difference(now: &[(f64, f64)], then: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let before = |bound: f64| then.iter().find(|bucket| bucket.0 == bound).map_or(0.0, |bucket| bucket.1);
    now.iter().map(|&(bound, count)| (bound, count - before(bound))).collect()
}

/// As Prometheus' `histogram_quantile`: the rank's bucket is taken as evenly filled, the first one begins at
/// zero, and a rank in the last, endless bucket gives that bucket's lower bound. NaN when nothing was counted.
fn quantile(q: f64, buckets: &[(f64, f64)]) -> f64 {
    let total = buckets.last().map_or(0.0, |bucket| bucket.1);
    if total <= 0.0 {
        return f64::NAN;
    }
    let rank = q * total;
    let mut below = (0.0, 0.0);
    for &(bound, count) in buckets {
        if count >= rank {
            if bound.is_infinite() {
                break;
            }
            return below.0 + (bound - below.0) * (rank - below.1) / (count - below.1);
        }
        below = (bound, count);
    }
    below.0
}

fn milliseconds(seconds: f64) -> String {
    if seconds.is_nan() { "     - ms".to_owned() } else { format!("{:>6.2} ms", seconds * 1_000.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EARLIER: &str = "\
# HELP ramsplit_queries_total Statements by route.
# TYPE ramsplit_queries_total counter
ramsplit_queries_total{route=\"replica\",kind=\"read\",reason=\"read\"} 100
ramsplit_queries_total{route=\"primary\",kind=\"write\",reason=\"write\"} 10
ramsplit_query_duration_seconds_bucket{route=\"replica\",kind=\"read\",le=\"0.001\"} 50
ramsplit_query_duration_seconds_bucket{route=\"replica\",kind=\"read\",le=\"0.002\"} 100
ramsplit_query_duration_seconds_bucket{route=\"replica\",kind=\"read\",le=\"+Inf\"} 100
";

    const LATER: &str = "\
ramsplit_queries_total{route=\"replica\",kind=\"read\",reason=\"read\"} 260
ramsplit_queries_total{route=\"primary\",kind=\"read\",reason=\"recent_write\"} 40
ramsplit_queries_total{route=\"primary\",kind=\"write\",reason=\"write\"} 110
ramsplit_queries_total{route=\"primary\",kind=\"other\",reason=\"other\"} 7
ramsplit_query_duration_seconds_bucket{route=\"replica\",kind=\"read\",le=\"0.002\"} 260
ramsplit_query_duration_seconds_bucket{route=\"replica\",kind=\"read\",le=\"0.001\"} 130
ramsplit_query_duration_seconds_bucket{route=\"replica\",kind=\"read\",le=\"+Inf\"} 260
ramsplit_query_duration_seconds_sum{route=\"replica\",kind=\"read\"} 0.3
ramsplit_replica_lag_seconds{replica=\"replica\"} 0.0125
ramsplit_replica_up{replica=\"replica\"} 1
";

    #[test]
    fn the_line_shows_differences_by_second() {
        let line = Snapshot::parse(LATER).line_since(&Snapshot::parse(EARLIER), 2.0);
        assert_eq!(
            line,
            "primary    20 reads/s   50 writes/s p50      - ms p95      - ms | \
             replica    80 reads/s    0 writes/s p50   1.00 ms p95   1.90 ms | lag  12.50 ms"
        );
    }

    #[test]
    fn before_the_first_statement_both_routes_are_there_and_the_lag_is_unknown() {
        let line = Snapshot::default().line_since(&Snapshot::default(), 1.0);
        assert!(
            line.starts_with("primary     0 reads/s") && line.contains("| replica     0 reads/s"),
            "{line}"
        );
        assert!(line.ends_with("lag      - ms"), "{line}");
    }

    #[test]
    fn another_route_is_shown_once_it_is_used() {
        let line = |reads: u32| {
            let text =
                format!("ramsplit_queries_total{{route=\"cache\",kind=\"read\",reason=\"read\"}} {reads}");
            Snapshot::parse(&text).line_since(&Snapshot::default(), 1.0)
        };
        assert!(line(9).starts_with("cache     9 reads/s"), "{}", line(9));
        assert!(line(0).starts_with("primary"), "{}", line(0));
    }

    #[test]
    fn buckets_of_all_kinds_of_a_route_are_added() {
        let text = "ramsplit_query_duration_seconds_bucket{route=\"primary\",kind=\"read\",le=\"0.5\"} 3\n\
                    ramsplit_query_duration_seconds_bucket{route=\"primary\",kind=\"write\",le=\"0.5\"} 4\n";
        assert_eq!(Snapshot::parse(text).routes["primary"].buckets, [(0.5, 7.0)]);
    }

    #[test]
    fn quantiles_as_prometheus_computes_them() {
        let buckets = [(0.1, 10.0), (0.2, 30.0), (f64::INFINITY, 40.0)];
        let near = |q, expected: f64| {
            let value = quantile(q, &buckets);
            assert!((value - expected).abs() < 1e-9, "{q}: {value}");
        };
        near(0.125, 0.05); // half of the first bucket, which begins at zero
        near(0.25, 0.1);
        near(0.5, 0.15);
        near(0.75, 0.2);
        near(0.95, 0.2); // in the endless bucket: its lower bound
        assert!(quantile(0.5, &[]).is_nan());
        assert!(quantile(0.5, &[(0.1, 0.0), (f64::INFINITY, 0.0)]).is_nan());
    }

    #[test]
    fn what_is_no_sample_is_passed_over() {
        for line in ["", "# TYPE ramsplit_queries_total counter", "ramsplit_queries_total{ 1", "x y"] {
            assert_eq!(Snapshot::parse(line), Snapshot::default(), "{line}");
        }
    }
}
