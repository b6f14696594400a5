//! What routing rules and hints ask for.

use std::{net::SocketAddr, sync::Arc};

use super::{Session, context::ActiveRules, statement::Errand};
use crate::{
    route::{
        Asked, hint,
        rules::{Action, Candidates, Subject},
    },
    sql::{Statement, leading_comment_hint},
    wire::{framed::Head, query},
};

/// The rules as a session uses them.
pub(super) struct SessionRules {
    active: Arc<ActiveRules>,
    /// The name that the client gave; at the servers another may stand for it.
    user: Vec<u8>,
    candidates: Candidates,
}

impl SessionRules {
    /// The rules that may concern `user` from `client`.
    pub(super) fn new(active: Arc<ActiveRules>, user: Vec<u8>, client: Option<SocketAddr>) -> Self {
        let candidates = active.rules.candidates(&user, client.map(|client| client.ip()));
        Self { active, user, candidates }
    }
}

impl Session {
    /// What is asked for, or the message with which a rule refuses the statement.
    pub(super) fn asked(
        &mut self,
        head: Head,
        errand: &Errand,
        statement: &Statement,
    ) -> Result<Asked, String> {
        let active = self.context.rules.load();
        if !Arc::ptr_eq(&active, &self.rules.active) {
            self.rules = self.rules_of(self.rules.user.clone());
        }
        let mut asked = Asked::default();
        let Some((text, schema)) = self.text_and_schema(head, errand) else { return Ok(asked) };
        if let Some(text) = leading_comment_hint(text) {
            match hint::parse(text) {
                Some(policy) => asked.hint = policy,
                None => self.context.metrics.hint_misread(),
            }
        }
        let SessionRules { active, candidates, .. } = &self.rules;
        if candidates.is_empty() {
            return Ok(asked);
        }
        let subject = Subject { statement, text, dialect: self.state.dialect, schema };
        if let Some((place, rule)) = active.rules.find(candidates, subject) {
            active.hits.hit(place);
            match &rule.action {
                Action::Route(policy) => asked.rule = *policy,
                Action::Reject(message) => return Err(message.clone()),
            }
        }
        Ok(asked)
    }

    /// The rules in force, for a user of this name.
    pub(super) fn rules_of(&self, user: Vec<u8>) -> SessionRules {
        SessionRules::new(self.context.rules.load_full(), user, self.client.stream().peer())
    }

    /// What of a statement its text says; nothing of one that is too long to be looked at as a whole.
    pub(super) fn text_and_schema(&self, head: Head, errand: &Errand) -> Option<(&[u8], &[u8])> {
        match errand {
            Errand::Text if head.is_complete() => {
                let text = query::text(self.client.command(head), self.capabilities).ok()?;
                Some((text, &self.state.schema))
            }
            Errand::Text => None,
            Errand::Execute(execution) => {
                let entry = self.state.prepared.get(execution.id)?;
                Some((&entry.text, &entry.schema))
            }
        }
    }
}
