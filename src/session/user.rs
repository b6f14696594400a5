//! Beginning a session and beginning it anew: login, COM_CHANGE_USER, COM_RESET_CONNECTION.

use std::sync::Arc;

use mysql_common::constants::CapabilityFlags;

use super::{
    Error, Session, account,
    asked::SessionRules,
    context::{Context, Primary},
    handshake::Welcomed,
    locks::TableLocks,
    position::Position,
    prover::ClientProver,
    relay::{Listener, put_end},
    replica_link::ReplicaLink,
    scope::Scope,
    state::State,
};
use crate::{
    backend::{
        self,
        dial::ASK_FOR_PLUGIN,
        login::{Asked, authenticate},
    },
    config,
    route::{Reason, Target},
    sql::Dialect,
    wire::{
        Malformed, change_user::ChangeUser, command::Answer, err::SqlError, framed::Head, header::Header,
        login::attribute, writer::put_packet,
    },
};

impl Session {
    /// Takes a client that is logged in, and tells it so.
    pub(super) async fn begin(context: Arc<Context>, welcomed: Welcomed, id: u32) -> Result<Self, Error> {
        let Welcomed { client, capabilities, mut login, admitted, primary } = welcomed;
        context.learn(&admitted.opened.greeting);
        let handle = context.registry.enter(id);
        handle.set_thread(Target::Primary, admitted.opened.connection.thread_id);
        // Rules speak of the name that the client gave.
        let name = std::mem::replace(&mut login.user, admitted.user);
        let dialect = first_dialect(&primary);
        let locks = TableLocks::new(Arc::clone(&context.table_writers));
        let mut position = Position::new(Arc::clone(&context.history));
        position.share(scope_of(&context, &name, &login.attributes));
        let state = State::new(login.schema.clone(), dialect, context.replica.is_none(), locks, position);
        let mut session = Self {
            id,
            handle,
            capabilities,
            primary: admitted.opened.connection,
            primary_gauge: context.metrics.backend(Target::Primary),
            replica: ReplicaLink::default(),
            rules: SessionRules::new(context.rules.load_full(), name, client.stream().peer()),
            client,
            login,
            credential: admitted.credential,
            nonces: admitted.nonces,
            state,
            context,
        };
        session.finish_login(admitted.seq, &admitted.opened.ok).await?;
        if capabilities.has(CapabilityFlags::CLIENT_COMPRESS) {
            session.client.stream_mut().compress();
        }
        Ok(session)
    }

    /// The primary said OK: note the session's state, have it tracked, pass the OK on.
    async fn finish_login(&mut self, seq: u8, ok: &[u8]) -> Result<(), Error> {
        let mut packet = Vec::with_capacity(ok.len() + Header::LEN);
        put_packet(&mut packet, seq, ok);
        let mut listener = Listener::to_primary(&mut self.state, None, self.capabilities);
        put_end(&packet, ok, self.primary.capabilities, &mut listener, &mut self.client.tx)
            .map_err(|malformed| Error::Primary(malformed.into()))?;
        if let Err(error) = self.track().await {
            // The OK is still here: the client hears instead that it cannot stay.
            self.client.tx.clear();
            let _ = self.say(seq, &SqlError::primary_lost(&error).to_payload()).await;
            return Err(error);
        }
        self.client.flush(self.context.config.write_timeout).await.map_err(Error::client_io)
    }

    /// COM_RESET_CONNECTION: what it clears on the primary is cleared here.
    pub(super) async fn reset_connection(&mut self, head: Head) -> Result<(), Error> {
        self.run_on_primary(head, Answer::Single, None).await?;
        self.forget().await;
        self.state.was_reset = true;
        self.track().await
    }

    async fn forget(&mut self) {
        self.state.reset(self.context.replica.is_none());
        self.handle.set_thread(Target::Replica, 0);
        self.replica.close().await;
    }

    /// COM_CHANGE_USER: a login inside the connection, asked of the client by the primary.
    pub(super) async fn change_user(&mut self, head: Head) -> Result<(), Error> {
        let Ok(mut change) = self.parse_change_user(head) else {
            let seq = self.drop_command(head).await?;
            self.say(seq, &SqlError::bad_handshake().to_payload()).await?;
            return Err(Error::client_malformed("COM_CHANGE_USER"));
        };
        self.client.consume(head.len);
        let unasked = self.nonces.unasked(&change.plugin, &change.auth);
        let unasked = account::recognise(&self.context, &change.user, unasked).await;
        change.plugin = ASK_FOR_PLUGIN.to_vec();
        change.auth.clear();
        let limit = self.context.config.write_timeout;
        let mut payload = Vec::new();
        change.put(&mut payload, self.primary.capabilities);
        self.primary.begin(&payload);
        self.primary.framed.flush(limit).await.map_err(|error| Error::Primary(error.into()))?;
        let mut prover = ClientProver::new(&mut self.client, 1, &self.context, unasked);
        let asked = Asked::at_first(ASK_FOR_PLUGIN, Default::default());
        let verdict = tokio::time::timeout(
            self.context.config.login_timeout,
            authenticate(&mut self.primary.framed, &mut prover, limit, asked),
        )
        .await;
        let learned = prover.into_learned();
        match verdict.map_err(|_| Error::LoginTimeout)? {
            Ok(ok) => {
                self.primary.busy = false;
                self.forget().await;
                self.nonces.note(&learned);
                self.credential = account::learn(&self.context, &change.user, &learned).await;
                self.become_user(change);
                self.finish_login(learned.seq, &ok).await
            }
            Err(backend::Error::Refused(payload)) => {
                self.primary.busy = false;
                self.say(learned.seq, &payload).await?;
                // MariaDB goes on as the old user, whose session it has cleared; MySQL hangs up.
                self.forget().await;
                self.track().await
            }
            Err(backend::Error::Stream(error)) => Err(self.primary_failed(error, false).await),
            Err(error) => Err(Error::Login(error)),
        }
    }

    fn parse_change_user(&self, head: Head) -> Result<ChangeUser, Malformed> {
        if !head.is_complete() {
            return Err(Malformed::Invalid("COM_CHANGE_USER is longer than any login"));
        }
        ChangeUser::parse(self.payload(head), self.capabilities)
    }

    fn become_user(&mut self, change: ChangeUser) {
        self.state.schema.clone_from(&change.schema);
        self.state.position.share(scope_of(&self.context, &change.user, &change.attributes));
        self.login.user = change.user;
        self.login.schema = change.schema;
        self.rules = self.rules_of(self.login.user.clone());
        if let Some(collation) = change.collation {
            // A login has room for a byte of it.
            match u8::try_from(collation) {
                Ok(collation) => self.login.collation = collation,
                Err(_) => self.state.tie(Reason::SessionState),
            }
        }
    }
}

/// The scope in which a client reads what others wrote: the one that it names, or the settings'.
fn scope_of(context: &Context, user: &[u8], attributes: &[u8]) -> Option<Scope> {
    const ATTRIBUTE: &[u8] = b"ramsplit_scope";
    let named = attribute(attributes, ATTRIBUTE).map(|name| [b"scope ", name].concat());
    let name = named.or_else(|| match context.config.scope {
        config::Scope::Session => None,
        config::Scope::User => Some([b"user ", user].concat()),
    })?;
    Some(context.scopes.scope(&name))
}

/// How the primary reads texts before it has said more.
fn first_dialect(primary: &Primary) -> Dialect {
    Dialect::new(primary.flavor, primary.number)
}
