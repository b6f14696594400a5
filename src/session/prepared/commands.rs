//! The commands of prepared statements.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Entry, Execution, LongData, Read};
use crate::{
    route::{Target, asks_about_last_result},
    session::{Error, LOOK_SIZE, Session, query::long_statement, statement::Errand},
    sql::{Facts, Flavor},
    wire::{
        Command,
        command::Answer,
        err::SqlError,
        execute::{self, Types},
        framed::{self, Head},
        response::PreparedOk,
    },
};

/// No command is longer: the upper bound of `max_allowed_packet` in both servers.
const LONGEST_COMMAND: usize = 1024 * 1024 * 1024;

impl Session {
    /// COM_STMT_PREPARE: classified, so that what it will do is known when it runs.
    pub(in crate::session) async fn prepare(&mut self, head: Head) -> Result<(), Error> {
        let limit = self.context.config.max_prepared_statements;
        if self.state.prepared.by_id.len() >= limit {
            let seq = self.drop_command(head).await?;
            return self.say(seq, &SqlError::too_many_prepared(limit).to_payload()).await;
        }
        let text = self.payload(head).get(1..).unwrap_or_default();
        let statement = if head.is_complete() {
            self.context.statements.classify(text, self.state.dialect)
        } else {
            Arc::new(long_statement(text, self.state.dialect))
        };
        let movable = head.is_complete()
            && (statement.is_certain_read_of_variables() || asks_about_last_result(&statement));
        let text = if head.is_complete() { text.to_vec() } else { Vec::new() };
        let schema = self.state.schema.clone();
        if statement.facts.contains(Facts::MENTIONS_SESSION_TRACK) {
            self.give_up_tracking().await?;
        }
        let last_target = self.state.last_target;
        if let Some(PreparedOk { id, params, .. }) = self.run_on_primary(head, Answer::Prepared, None).await?
        {
            // MariaDB keeps the last statement's warnings while it opens no tables; MySQL never does.
            if self.state.dialect.flavor == Flavor::MariaDb && statement.tables.is_empty() {
                self.state.last_target = last_target;
            }
            let read = movable.then(|| Read::new(params, &self.state));
            self.state.prepared.by_id.insert(id, Entry { statement, text, schema, read });
            self.state.prepared.last = id;
        }
        Ok(())
    }

    /// COM_STMT_EXECUTE and MariaDB's COM_STMT_BULK_EXECUTE.
    pub(in crate::session) async fn execute(&mut self, head: Head) -> Result<(), Error> {
        let started = Instant::now();
        let payload = self.client.command(head);
        let id = execute::statement_id(payload).unwrap_or_default();
        let is_bulk = payload.first() == Some(&(Command::COM_STMT_BULK_EXECUTE as u8));
        let cursor = !is_bulk && execute::asks_for_cursor(payload);
        let id = self.state.prepared.resolve(id);
        let Some(entry) = self.state.prepared.by_id.get_mut(&id) else {
            // The primary knows no such statement either, and says so.
            self.run_on_primary(head, Answer::Results, None).await?;
            return Ok(());
        };
        let statement = Arc::clone(&entry.statement);
        let mut types = Types::None;
        if let Some(read) = &mut entry.read {
            match Types::parse(payload, read.params, self.capabilities).ok().filter(|_| !is_bulk) {
                Some(parsed) => {
                    read.types.note(payload, &parsed);
                    types = parsed;
                }
                // The types are cut off: from now on only the primary knows them.
                None => {
                    self.hand_over_long_data(id).await?;
                    self.state.prepared.by_id.get_mut(&id).map(|entry| entry.read.take());
                }
            }
        }
        self.run_statement(head, Errand::Execute(Execution { id, cursor, types }), &statement, started).await
    }

    /// Runs an execution on the primary, which may lack what the replica got of the parameters.
    pub(in crate::session) async fn execute_on_primary(
        &mut self,
        head: Head,
        execution: &Execution,
        statement: &crate::sql::Statement,
    ) -> Result<(), Error> {
        let shape = if execution.cursor { Answer::CursorOrResults } else { Answer::Results };
        self.hand_over_long_data(execution.id).await?;
        let read = self.state.prepared.read_mut(execution.id);
        let missing = read.and_then(|read| {
            let (flag, types) = read.types.missing_on_primary(&execution.types)?;
            Some((flag, types.to_vec()))
        });
        match missing {
            None => self.run_on_primary(head, shape, Some(statement)).await?,
            Some((flag, types)) => {
                let whole = self.client.read_packet(LONGEST_COMMAND).await.map_err(Error::Client)?;
                self.primary.begin_forwarded();
                let id = execute::statement_id(&whole.payload).unwrap_or_default();
                execute::put(&mut self.primary.framed.tx, &whole.payload, id, Some((flag, &types)));
                if let Err(error) = self.primary.framed.flush(self.context.config.write_timeout).await {
                    return Err(self.primary_failed(framed::Error::Io(error), false).await);
                }
                self.state.before(statement);
                self.exchange(None, shape, Some(statement)).await?
            }
        };
        if let Some(read) = self.state.prepared.read_mut(execution.id) {
            read.types.primary_knows();
            read.executed(Target::Primary, execution);
        }
        Ok(())
    }

    /// COM_STMT_SEND_LONG_DATA, which has no answer.
    pub(in crate::session) async fn send_long_data(&mut self, head: Head) -> Result<(), Error> {
        let id = execute::statement_id(self.payload(head)).unwrap_or_default();
        if let Some(read) = self.state.prepared.read_mut(id) {
            let command = self.client.received().get(..head.len).unwrap_or_default();
            if head.is_complete() && read.long_data.keep(command, LOOK_SIZE) {
                self.client.consume(head.len);
                return Ok(());
            }
            self.hand_over_long_data(id).await?;
        }
        self.run_on_primary(head, Answer::None, None).await?;
        Ok(())
    }

    /// The primary gets the parameters that were kept, and will run the statement.
    async fn hand_over_long_data(&mut self, id: u32) -> Result<(), Error> {
        let id = self.state.prepared.resolve(id);
        let Some(read) = self.state.prepared.read_mut(id) else { return Ok(()) };
        let limit = self.context.config.write_timeout;
        for command in std::mem::replace(&mut read.long_data, LongData::OnPrimary).commands(id) {
            if let Err(error) = self.primary.send_unanswered(&command, limit).await {
                return Err(self.primary_failed(framed::Error::Io(error), false).await);
            }
        }
        Ok(())
    }

    /// COM_STMT_FETCH: goes where the cursor is.
    pub(in crate::session) async fn fetch(&mut self, head: Head) -> Result<(), Error> {
        let id = execute::statement_id(self.payload(head)).unwrap_or_default();
        let link = self.replica.number();
        let read = self.state.prepared.read_mut(id).filter(|read| read.cursor == Some(Target::Replica));
        let Some(read) = read else {
            self.run_on_primary(head, Answer::Rows, None).await?;
            return Ok(());
        };
        let handle = read.on(link);
        let payload = self.client.command(head);
        let Some((handle, connection)) = handle.zip(self.replica.connection()) else {
            let seq = self.drop_command(head).await?;
            return self.say(seq, &SqlError::cursor_lost().to_payload()).await;
        };
        connection.begin_forwarded();
        execute::put(&mut connection.framed.tx, payload, handle.id, None);
        self.fetch_from_replica(head).await
    }

    /// COM_STMT_RESET: closes cursors and drops what was sent ahead.
    pub(in crate::session) async fn reset_statement(&mut self, head: Head) -> Result<(), Error> {
        let id = execute::statement_id(self.payload(head)).unwrap_or_default();
        let link = self.replica.number();
        if let Some(read) = self.state.prepared.read_mut(id) {
            read.long_data = LongData::default();
            let on_replica = read.cursor.take() == Some(Target::Replica);
            if let Some(handle) = read.on(link).filter(|_| on_replica) {
                self.replica.reset_statement(handle.id).await;
            }
        }
        self.run_on_primary(head, Answer::Single, None).await?;
        Ok(())
    }

    /// COM_STMT_CLOSE, which has no answer.
    pub(in crate::session) async fn close_statement(&mut self, head: Head) -> Result<(), Error> {
        let id = execute::statement_id(self.payload(head)).unwrap_or_default();
        let id = self.state.prepared.resolve(id);
        let closed = self.state.prepared.by_id.remove(&id).and_then(|entry| entry.read);
        if let Some(handle) = closed.and_then(|read| read.on(self.replica.number())) {
            self.replica.close_statement(handle.id).await;
        }
        self.run_on_primary(head, Answer::None, None).await?;
        Ok(())
    }
}
