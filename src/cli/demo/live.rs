//! The live line: once a second, what the metrics say has happened since the line before.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::figures::Snapshot;
use super::load::Failures;
use crate::cli::say;

/// Prints a line a second from what `metrics` renders. Never ends.
pub(super) async fn run(metrics: &(dyn Fn() -> String + Send + Sync), failures: &Failures) -> Infallible {
    let mut ticks = interval_at(Instant::now() + PERIOD, PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut earlier = (Instant::now(), Snapshot::parse(&metrics()));
    let mut failed = 0;
    loop {
        ticks.tick().await;
        let now = (Instant::now(), Snapshot::parse(&metrics()));
        let seconds = now.0.duration_since(earlier.0).as_secs_f64();
        let count = failures.count();
        say(&format!("{} | errors {count}", now.1.line_since(&earlier.1, seconds)));
        if count > failed {
            say(&format!("  last error: {}", failures.last()));
        }
        (earlier, failed) = (now, count);
    }
}

const PERIOD: Duration = Duration::from_secs(1);
