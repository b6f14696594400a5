//! The way of a statement: decided, run on the replica or the primary, counted.

use std::{ops::ControlFlow, sync::atomic::Ordering, time::Duration};

use tokio::time::Instant;

use super::{Error, Session, prepared::Execution};
use crate::{
    replica::State as ReplicaState,
    route::{self, Reason, Route, Target, Transaction, decide},
    sql::{Assignment, Facts, Kind, Statement, literal_assignments, shows_tls},
    wire::{command::Answer, err::SqlError, framed::Head},
};

/// How a client has a statement run.
#[derive(Debug)]
pub(super) enum Errand {
    /// By its text: COM_QUERY.
    Text,
    /// Prepared.
    Execute(Execution),
}

impl Session {
    /// Runs the statement in the command at the front of the client's buffer where it belongs.
    pub(super) async fn run_statement(
        &mut self,
        head: Head,
        errand: Errand,
        statement: &Statement,
        started: Instant,
    ) -> Result<(), Error> {
        if statement.facts.contains(Facts::MENTIONS_SESSION_TRACK) {
            self.give_up_tracking().await?;
        }
        // A statement of the proxy's own would come between a question about the last statement and that.
        if self.state.unsettled && !statement.facts.contains(Facts::LAST_RESULT) {
            self.settle().await?;
        }
        let asked = match self.asked(head, &errand, statement) {
            Ok(asked) => asked,
            Err(message) => {
                let seq = self.drop_command(head).await?;
                return self.say(seq, &SqlError::rejected(message).to_payload()).await;
            }
        };
        let policy = asked.policy();
        let view = self.view(head, &errand, statement);
        let mut route = decide(statement, asked, view, self.replica_view(policy.max_lag));
        if route.target == Target::Replica {
            match self.try_replica(head, &errand, statement, route.reason, policy).await? {
                ControlFlow::Break(()) => {
                    self.state.ran(statement, Target::Replica);
                    self.count(route, statement.kind, started);
                    return Ok(());
                }
                ControlFlow::Continue(reason) => route = Route::primary(reason),
            }
        }
        // Whoever looks at counters wants to see there what the next statements do.
        if self.looks_at_counters(head, &errand, statement) {
            self.state.tie(Reason::SessionState);
        }
        self.join_transaction(statement).await?;
        self.state.variables.will_assign(self.assignments(head, &errand, statement));
        match &errand {
            Errand::Text => {
                self.run_on_primary(head, Answer::Results, Some(statement)).await?;
            }
            Errand::Execute(execution) => self.execute_on_primary(head, execution, statement).await?,
        }
        if statement.kind == Kind::SetGlobal {
            self.context.server_changed.store(true, Ordering::Relaxed);
        }
        self.state.ran(statement, Target::Primary);
        self.leave_transaction().await;
        if route.reason == Reason::ReplicaBehind {
            // It wants to go back soon.
            self.state.position.look_back();
        }
        self.count(route, statement.kind, started);
        Ok(())
    }

    fn looks_at_counters(&self, head: Head, errand: &Errand, statement: &Statement) -> bool {
        statement.uses_session_counters(&self.state.schema)
            && !self.text_and_schema(head, errand).is_some_and(|(text, _)| shows_tls(text))
    }

    /// What a SET gives to user variables in so many words.
    fn assignments(&self, head: Head, errand: &Errand, statement: &Statement) -> Vec<Assignment> {
        let assigns = statement.kind == Kind::SetSession && !statement.variables_written.is_empty();
        if !assigns || !matches!(errand, Errand::Text) {
            return Vec::new();
        }
        let text = self.text_and_schema(head, errand).map(|(text, _)| text);
        text.and_then(|text| literal_assignments(text, self.state.dialect)).unwrap_or_default()
    }

    fn view(&self, head: Head, errand: &Errand, statement: &Statement) -> route::Session {
        let entry = match errand {
            Errand::Text => None,
            Errand::Execute(execution) => self.state.prepared.get(execution.id),
        };
        // What was prepared names its tables by the schema of that time.
        let schema = entry.map_or(&self.state.schema, |entry| &entry.schema);
        let moves =
            entry.is_none_or(|entry| entry.read.as_ref().is_some_and(|read| read.may_move(&self.state)));
        let stays = !head.is_complete() || !moves;
        let transaction = match (self.state.in_transaction(), self.replica.in_transaction()) {
            (false, false) => Transaction::None,
            (true, false) => Transaction::Primary,
            (false, true) => Transaction::Replica,
            (true, true) => Transaction::Both,
        };
        route::Session {
            mode: self.context.config.route,
            transaction,
            autocommit: self.state.autocommit(),
            tie: self.state.tie_of(statement, schema).or(stays.then_some(Reason::SessionState)),
            knows_variables: self.state.knows_variables(statement),
            last_target: self.state.last_target,
            count_target: self.state.count_target,
            rows_target: self.state.rows_target,
        }
    }

    /// Whether the replica is fit, for a statement that allows it this lag if not the settings'.
    fn replica_view(&self, max_lag: Option<Duration>) -> route::Replica {
        let Some((replica, _)) = &self.context.replica else {
            return route::Replica::Unusable(Reason::NoReplica);
        };
        let state = match (replica.state(), max_lag) {
            (ReplicaState::Serving | ReplicaState::Lagging, Some(max)) => {
                let fit = replica.lag().is_some_and(|lag| lag <= max);
                if fit { ReplicaState::Serving } else { ReplicaState::Lagging }
            }
            (state, _) => state,
        };
        match state {
            ReplicaState::Serving if self.credential.is_none() => {
                route::Replica::Unusable(Reason::NoCredentials)
            }
            ReplicaState::Serving => route::Replica::Serving,
            ReplicaState::Lagging => route::Replica::Unusable(Reason::ReplicaLagging),
            ReplicaState::CatchingUp => route::Replica::Unusable(Reason::ReplicaEmpty),
            ReplicaState::Joining | ReplicaState::Broken | ReplicaState::Down => {
                route::Replica::Unusable(Reason::ReplicaDown)
            }
        }
    }
}
