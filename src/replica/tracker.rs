//! Follows the primary's history: asks the primary where it is when somebody must know, and each replica to tell
//! when it is there. Nothing is asked while nothing happens, and one question to each server is under way.

use std::{convert::Infallible, sync::Arc, time::Duration};

use mysql_async::{Conn, Value, prelude::Queryable};
use tokio::time::{sleep, timeout};

use super::{
    Replica,
    gtid::Gtids,
    history::{History, Target},
    words::{Words, options, text},
};
use crate::config::{Account, Backend};

/// After a failure a server is not asked again before this time has passed.
const RETRY_AFTER: Duration = Duration::from_millis(250);
/// A replica is asked to wait for this long at a time, so that one that hangs is noticed.
const WAIT: Duration = Duration::from_secs(1);
/// A connection that is not used is looked after at this interval: servers hang up on idle ones, and a replica that
/// is not the same any more must show.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// Asks the primary where it is.
pub struct Asker {
    /// Who wants to know.
    pub history: Arc<History>,
    /// Whom to ask.
    pub primary: Backend,
    /// Who asks.
    pub account: Account,
    /// An answer that takes longer does not come.
    pub timeout: Duration,
    /// Without GTIDs, replicas are taken to have everything after this time.
    pub hold: Duration,
}

impl Asker {
    /// Asks for ever. Ends only by being dropped.
    pub async fn run(self) {
        loop {
            let Err(error) = self.ask().await;
            tracing::debug!(%error, "the primary does not tell where it is");
            sleep(RETRY_AFTER).await;
        }
    }

    async fn ask(&self) -> Result<Infallible, mysql_async::Error> {
        let mut connection = connect(&self.primary, &self.account, self.timeout).await?;
        let words = Words::of(&mut connection).await?;
        let question = format!("SELECT {}", words.written);
        loop {
            let moment = loop {
                match timeout(KEEP_ALIVE, self.history.question()).await {
                    Ok(moment) => break moment,
                    Err(_) => within(self.timeout, connection.ping()).await?,
                }
            };
            let answer: Option<Value> = within(self.timeout, connection.query_first(&question)).await?;
            let answer = answer.as_ref().map(text).unwrap_or_default();
            let gtids = Gtids::parse(words.flavor, answer.as_bytes()).unwrap_or(Gtids::empty(words.flavor));
            if gtids.is_empty() {
                sleep(self.hold).await;
            }
            self.history.answered(moment, words.flavor, &gtids);
        }
    }
}

/// Asks a replica to tell when it has what happened.
pub struct Follower {
    /// What happened.
    pub history: Arc<History>,
    /// Where its progress shows.
    pub replica: Arc<Replica>,
    /// Whom to ask.
    pub server: Backend,
    /// Who asks.
    pub account: Account,
    /// An answer that takes longer does not come.
    pub timeout: Duration,
}

impl Follower {
    /// Follows for ever. Ends only by being dropped.
    pub async fn run(self) {
        loop {
            let Err(error) = self.follow().await;
            // The next connection may be to a server that was filled anew.
            self.replica.progress.reset();
            tracing::debug!(replica = self.replica.name, %error, "the replica does not tell its progress");
            sleep(RETRY_AFTER).await;
        }
    }

    async fn follow(&self) -> Result<Infallible, mysql_async::Error> {
        let mut connection = connect(&self.server, &self.account, self.timeout).await?;
        let words = Words::of(&mut connection).await?;
        let mut targets = self.history.targets();
        loop {
            targets.mark_unchanged();
            let target = self.history.target();
            if !self.replica.progress.has(target.moment) {
                self.wait(&mut connection, words, target).await?;
            }
            match timeout(KEEP_ALIVE, targets.changed()).await {
                Ok(_) => {}
                Err(_) => within(self.timeout, connection.ping()).await?,
            }
        }
    }

    /// Waits until the replica has all of `target`, which it may never have.
    async fn wait(
        &self,
        connection: &mut Conn,
        words: &Words,
        target: Target,
    ) -> Result<(), mysql_async::Error> {
        self.replica.progress.asked();
        let seconds = WAIT.as_secs_f64();
        // Where the primary has no GTIDs, it waited instead.
        while !target.gtids.is_empty() {
            let asked = connection.exec_first(words.wait, (&target.gtids, seconds));
            let answer: Option<Option<u8>> = within(WAIT + self.timeout, asked).await?;
            if answer.flatten() == Some(1) {
                break;
            }
        }
        self.replica.progress.reached(target);
        Ok(())
    }
}

async fn connect(server: &Backend, account: &Account, limit: Duration) -> Result<Conn, mysql_async::Error> {
    within(limit, Conn::new(options(server, account))).await
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, mysql_async::Error>>,
) -> Result<T, mysql_async::Error> {
    timeout(limit, work).await.unwrap_or_else(|_| {
        Err(mysql_async::Error::Io(std::io::Error::from(std::io::ErrorKind::TimedOut).into()))
    })
}
