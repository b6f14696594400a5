//! KILL by the id that a client knows. Two kinds of ids reach the proxy: its own, from greetings, and the
//! primary's, from `SHOW PROCESSLIST` and `CONNECTION_ID()`; they do not overlap. The caller's own
//! connections carry the KILL out, so that the servers judge whether it may.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Error, Session, registry::Handle};
use crate::{
    backend,
    route::{Policy, Reason, Route, Target},
    sql::Statement,
    wire::{command::Answer, err::SqlError, framed::Head, query, reader::Reader},
};

/// ER_NO_SUCH_THREAD.
const NO_SUCH_THREAD: u16 = 1094;

impl Session {
    /// `KILL [CONNECTION | QUERY] n` as a statement.
    pub(super) async fn kill(
        &mut self,
        head: Head,
        statement: &Arc<Statement>,
        started: Instant,
    ) -> Result<(), Error> {
        let query_only = statement.kill.as_ref().is_some_and(|kill| kill.query_only);
        match self.killed_id(head, statement).and_then(|id| self.context.registry.find(id)) {
            Some(victim) => self.kill_session(head, &victim, query_only).await?,
            None => {
                self.run_on_primary(head, Answer::Results, Some(statement)).await?;
            }
        }
        self.count(Route::primary(Reason::ServerState), statement.kind, started);
        Ok(())
    }

    /// COM_PROCESS_KILL.
    /// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_process_kill.html>
    pub(super) async fn process_kill(&mut self, head: Head) -> Result<(), Error> {
        let payload = self.payload(head).get(1..).unwrap_or_default();
        let id = Reader::new(payload).u32("connection id").ok();
        match id.and_then(|id| self.context.registry.find(id)) {
            Some(victim) => self.kill_session(head, &victim, false).await,
            None => self.run_on_primary(head, Answer::Single, None).await.map(|_| ()),
        }
    }

    fn killed_id(&self, head: Head, statement: &Statement) -> Option<u32> {
        let text = query::text(self.payload(head), self.capabilities).ok()?;
        let number = text.get(statement.kill.as_ref()?.number.clone())?;
        std::str::from_utf8(number).ok()?.parse().ok()
    }

    async fn kill_session(&mut self, head: Head, victim: &Handle, query_only: bool) -> Result<(), Error> {
        let running = victim.running();
        let verdict = match running {
            Some(Target::Replica) if query_only => self.kill_on_replica(victim, true).await?,
            _ => self.kill_on_primary(victim, query_only).await?,
        };
        let seq = self.drop_command(head).await?;
        match verdict {
            Ok(()) => {
                if !query_only && running == Some(Target::Replica) {
                    // In this order, or the session would try its read again.
                    victim.killed.cancel();
                    // The session ends, whether its read on the replica can be ended or not.
                    let _ = self.kill_on_replica(victim, false).await?;
                }
                let mut payload = Vec::new();
                crate::wire::err::put_plain_ok(&mut payload, self.state.status);
                self.say(seq, &payload).await
            }
            Err(payload) => self.say(seq, &payload).await,
        }
    }

    /// The verdict of the primary: nothing, or an ERR packet's payload for the client.
    async fn kill_on_primary(
        &mut self,
        victim: &Handle,
        query_only: bool,
    ) -> Result<Result<(), Vec<u8>>, Error> {
        let Some(thread) = victim.thread(Target::Primary) else { return Ok(Err(no_such_thread())) };
        let statement = kill_statement(thread, query_only);
        match self.primary.ask(&statement, self.context.config.connect_timeout).await {
            Ok(_) => Ok(Ok(())),
            Err(backend::Error::Refused(payload)) => Ok(Err(payload)),
            Err(error) => Err(self.ask_failed(error).await),
        }
    }

    async fn kill_on_replica(
        &mut self,
        victim: &Handle,
        query_only: bool,
    ) -> Result<Result<(), Vec<u8>>, Error> {
        // The caller may never have used the replica: only its login there is needed, not its position.
        if !self.replica.is_open() {
            let _ = self.prepare_replica(Reason::Read, Policy::default()).await?;
        }
        let (Some(thread), Some(replica)) = (victim.thread(Target::Replica), self.replica.connection())
        else {
            return Ok(Err(no_such_thread()));
        };
        match replica.ask(&kill_statement(thread, query_only), self.context.config.connect_timeout).await {
            Ok(_) => Ok(Ok(())),
            Err(backend::Error::Refused(payload)) => Ok(Err(payload)),
            Err(_) => {
                self.replica.fail();
                Ok(Err(no_such_thread()))
            }
        }
    }
}

fn kill_statement(thread: u32, query_only: bool) -> Vec<u8> {
    let what = if query_only { "QUERY" } else { "CONNECTION" };
    format!("KILL {what} {thread}").into_bytes()
}

fn no_such_thread() -> Vec<u8> {
    SqlError::new(NO_SUCH_THREAD, "HY000", "Unknown thread id").to_payload()
}
