//! Looks at the servers at intervals and keeps what sessions need to know of them.

use std::{sync::Arc, time::Duration};

use mysql_async::{Conn, Row, Value, prelude::Queryable};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::{
    History, Replica, State,
    gtid::Gtids,
    health::{Health, Report, judge},
    words::{Words, options, text},
};
use crate::{
    config::{Account, Backend},
    telemetry::metrics::ReplicaGauges,
};

/// Looks at one replica until it is dropped.
pub struct Monitor {
    /// What sessions see.
    pub replica: Arc<Replica>,
    /// What the replica should have.
    pub history: Arc<History>,
    /// The replica's address.
    pub server: Backend,
    /// The primary, which the replica must follow.
    pub primary: Backend,
    /// Who looks.
    pub account: Account,
    /// Time between two looks.
    pub interval: Duration,
    /// A look that takes longer finds the replica down.
    pub timeout: Duration,
    /// A replica later than this does not serve.
    pub max_lag: Duration,
    /// Where it shows.
    pub gauges: ReplicaGauges,
}

/// Connections of the monitor's own, opened when needed and kept.
#[derive(Default)]
struct Connections {
    primary: Option<Conn>,
    replica: Option<Conn>,
}

impl Monitor {
    /// Looks for ever. Ends only by being dropped.
    pub async fn run(self) {
        let mut connections = Connections::default();
        let mut ticks = interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The primary's identity is kept while it is away: a replica may serve without it.
        let mut primary = None;
        let mut health = Health::default();
        // Where the replica was at the last look.
        let mut position = None;
        loop {
            ticks.tick().await;
            // The lag is measured by this, also while no session does anything.
            self.history.happened();
            let asked = self.identify(&mut connections.primary);
            if let Ok(Ok(identity)) = timeout(self.timeout, asked).await {
                primary = Some(identity);
            } else {
                connections.primary = None;
            }
            let look = timeout(self.timeout, self.look(&mut connections.replica, &mut position)).await;
            let (judged, lag) = match (look, &primary) {
                (Ok(Ok(report)), Some(primary)) => (judge(&report, primary, self.max_lag), report.lag),
                (Ok(Ok(report)), None) => (State::Joining, report.lag),
                (Ok(Err(error)), _) => {
                    tracing::debug!(replica = self.replica.name, %error, "the replica cannot be asked");
                    connections.replica = None;
                    (State::Down, None)
                }
                (Err(_), _) => {
                    connections.replica = None;
                    (State::Down, None)
                }
            };
            self.publish(health.now(judged), lag);
        }
    }

    fn publish(&self, state: State, lag: Option<Duration>) {
        self.gauges.set(state as usize, state == State::Serving, lag);
        self.replica.set_lag(lag);
        let before = self.replica.set_state(state);
        if before != state {
            tracing::info!(replica = self.replica.name, ?before, ?state, ?lag, "replica changed state");
        }
    }

    /// What replicas call this primary: its server uuid on MySQL, its server id on MariaDB.
    async fn identify(&self, connection: &mut Option<Conn>) -> mysql_async::Result<String> {
        let connection = open(connection, &self.primary, &self.account).await?;
        let words = Words::of(connection).await?;
        let identity: Option<Value> = connection.query_first(format!("SELECT {}", words.identity)).await?;
        Ok(identity.as_ref().map(text).unwrap_or_default())
    }

    async fn look(
        &self,
        connection: &mut Option<Conn>,
        position: &mut Option<Gtids>,
    ) -> mysql_async::Result<Report> {
        let connection = open(connection, &self.server, &self.account).await?;
        let words = Words::of(connection).await?;
        let executed: Option<Value> = connection.query_first(format!("SELECT {}", words.executed)).await?;
        let executed = executed.as_ref().map(text).unwrap_or_default();
        let now = Gtids::parse(words.flavor, executed.as_bytes()).unwrap_or(Gtids::empty(words.flavor));
        // It goes back when somebody resets the replica without a restart.
        if position.as_ref().is_some_and(|before| !now.covers(before)) {
            tracing::warn!(replica = self.replica.name, "the replica has lost what it had");
            self.replica.progress.reset();
        }
        *position = Some(now);
        let Some(status): Option<Row> = connection.query_first(words.status).await? else {
            return Ok(Report::default());
        };
        let field = |name: &str| status.get_opt::<Value, _>(name).and_then(Result::ok);
        let yes = |name: &str| field(name).is_some_and(|value| text(&value) == "Yes");
        let read_only: Option<Value> = connection.query_first("SELECT @@global.read_only").await?;
        let seconds = field(words.lag).and_then(|lag| text(&lag).parse().ok()).map(Duration::from_secs);
        Ok(Report {
            receiving: yes(words.receiving),
            applying: yes(words.applying),
            source: field(words.source).as_ref().map(text).unwrap_or_default(),
            lag: self.replica.progress.lag().or(seconds),
            // A number, or a word where the variable has more than two values.
            read_only: read_only.is_some_and(|value| !matches!(text(&value).as_str(), "" | "0" | "OFF")),
            complete: self.replica.progress.has(History::BEGINNING),
        })
    }
}

async fn open<'a>(
    connection: &'a mut Option<Conn>,
    server: &Backend,
    account: &Account,
) -> mysql_async::Result<&'a mut Conn> {
    let opened = match connection.take() {
        Some(opened) => opened,
        None => Conn::new(options(server, account)).await?,
    };
    Ok(connection.insert(opened))
}
