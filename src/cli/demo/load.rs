//! The load of the demo: a few clients of the proxy, each of which waits for an answer before it asks again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::items::ROWS;
use crate::config::Account;
use crate::sandbox::{self, Sandbox};

/// A running load.
pub(super) struct Load {
    clients: JoinSet<()>,
    stop: CancellationToken,
    failures: Failures,
}

/// The statements and connections that failed.
#[derive(Clone)]
pub(super) struct Failures {
    count: Arc<AtomicU64>,
    last: watch::Sender<String>,
}

impl Load {
    /// Starts clients that make `rate` statements a second together; none without a rate.
    pub(super) fn start(rate: Option<u32>, proxy: SocketAddr, account: &Account) -> Self {
        let failures = Failures { count: Arc::default(), last: watch::Sender::default() };
        let stop = CancellationToken::new();
        let mut clients = JoinSet::new();
        let options: Opts = sandbox::connect_options(proxy, account).db_name(Some(Sandbox::SCHEMA)).into();
        if let Some(rate) = rate {
            let number = CLIENTS.min(rate);
            let period = Duration::from_secs(1) * number / rate;
            for client in 0..number {
                let mut ticks = interval_at(Instant::now() + period * client / number, period);
                // A late answer is not made up for by a burst.
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                // Far apart, so that clients do not write the same rows at the same time.
                let turn = u64::from(client) * 1_000_003;
                clients.spawn(run_client(options.clone(), ticks, turn, failures.clone(), stop.clone()));
            }
        }
        Self { clients, stop, failures }
    }

    /// What has failed so far.
    pub(super) const fn failures(&self) -> &Failures {
        &self.failures
    }

    /// Ends the clients, and says what has failed, if anything has.
    pub(super) async fn stop(self) -> Option<String> {
        self.stop.cancel();
        let _ = timeout(STOP_LIMIT, self.clients.join_all()).await;
        let count = self.failures.count();
        (count > 0).then(|| format!("{count} errors; the last: {}", self.failures.last()))
    }
}

impl Failures {
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The newest one's text.
    pub(super) fn last(&self) -> String {
        self.last.borrow().clone()
    }

    fn add(&self, error: &mysql_async::Error) {
        self.last.send_replace(error.to_string());
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

/// One client: connects, asks at every tick, and connects again when something fails, until `stop`.
async fn run_client(
    options: Opts,
    mut ticks: Interval,
    mut turn: u64,
    failures: Failures,
    stop: CancellationToken,
) {
    while let Some(connected) = stop.run_until_cancelled(Conn::new(options.clone())).await {
        let mut connection = match connected {
            Ok(connection) => connection,
            Err(error) => {
                failures.add(&error);
                sleep(RETRY).await;
                continue;
            }
        };
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            turn = turn.wrapping_add(1);
            if let Err(error) = connection.query_drop(statement(turn)).await {
                failures.add(&error);
                break;
            }
        }
        if stop.is_cancelled() {
            // Nothing can be lost any more.
            let _ = connection.disconnect().await;
        }
    }
}

/// Four reads, then a write. The table stays as large as it is, so that a demo may run for days.
fn statement(turn: u64) -> String {
    // A multiplicative hash (Knuth) spreads the turns over the rows.
    let id = 1 + turn.wrapping_mul(2_654_435_761) % u64::from(ROWS);
    match turn % 5 {
        0 => format!("UPDATE items SET title = 'Item {id}, change {turn}' WHERE id = {id}"),
        1 => format!("SELECT id, title FROM items WHERE id >= {id} ORDER BY id LIMIT 10"),
        _ => format!("SELECT id, title, content, created_at FROM items WHERE id = {id}"),
    }
}

const CLIENTS: u32 = 4;

/// The pause after a failed connect.
const RETRY: Duration = Duration::from_millis(500);

const STOP_LIMIT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_statement_in_five_writes_and_all_stay_within_the_rows() {
        let statements: Vec<String> = (0..1_000).map(statement).collect();
        let writes = statements.iter().filter(|statement| statement.starts_with("UPDATE")).count();
        let reads = statements.iter().filter(|statement| statement.starts_with("SELECT")).count();
        assert_eq!((writes, reads), (200, 800));
        for statement in &statements {
            let tail: String = statement.chars().skip_while(|c| *c != '=').skip(1).collect();
            assert!(!tail.is_empty(), "{statement}");
        }
        let ids: std::collections::HashSet<&str> =
            statements.iter().filter_map(|statement| statement.rsplit("WHERE id = ").next()).collect();
        assert!(ids.len() > 500, "the ids hardly vary: {}", ids.len());
    }
}
