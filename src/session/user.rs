//! Beginning a session and beginning it anew: login, COM_CHANGE_USER, COM_RESET_CONNECTION.

use std::sync::Arc;

use mysql_common::constants::CapabilityFlags;

use super::{
    Error, Session, account,
    asked::SessionRules,
    context::{Context, Primary},
    handshake::Welcomed,
    prover::ClientProver,
    relay::{Listener, put_end},
    replica_link::ReplicaLink,
    state::State,
};
use crate::{
    backend::{
        self,
        dial::ASK_FOR_PLUGIN,
        login::{Asked, authenticate},
    },
    route::{Reason, Target},
    sql::{Dialect, Flavor},
    wire::{
        Malformed, change_user::ChangeUser, command::Answer, err::SqlError, framed::Head, header::Header,
        ok::OkPacket, writer::put_packet,
    },
};

/// What the proxy asks MySQL to tell with each answer. Setting `sql_mode` and the client's character set to
/// what they are makes the answer tell them. The other character sets would not stay what they are: a name
/// stands for its default collation, and that shows in the columns of results.
const TRACK_MYSQL: &str = "SET SESSION session_track_system_variables = '*', session_track_gtids = OWN_GTID, \
    session_track_schema = ON, session_track_state_change = ON, sql_mode = @@SESSION.sql_mode, \
    character_set_client = @@SESSION.character_set_client";
/// The same for MariaDB, whose `*` includes `last_gtid`.
const TRACK_MARIADB: &str = "SET SESSION session_track_system_variables = '*', session_track_schema = ON, \
    session_track_state_change = ON, sql_mode = @@SESSION.sql_mode, \
    character_set_client = @@SESSION.character_set_client";
/// Back to what a client expects that handles session tracking itself.
const UNTRACK_MYSQL: &str = "SET SESSION session_track_system_variables = DEFAULT, session_track_gtids = DEFAULT, \
    session_track_schema = DEFAULT, session_track_state_change = DEFAULT";
/// See [`UNTRACK_MYSQL`].
const UNTRACK_MARIADB: &str = "SET SESSION session_track_system_variables = DEFAULT, session_track_schema = DEFAULT, \
    session_track_state_change = DEFAULT";

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
        let state = State::new(login.schema.clone(), dialect, context.replica.is_none());
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

    /// Asks the primary to tell what each statement changes, where a replica needs to know.
    async fn track(&mut self) -> Result<(), Error> {
        if self.context.replica.is_none() {
            return Ok(());
        }
        let statement = match self.state.dialect.flavor {
            Flavor::MySql => TRACK_MYSQL,
            Flavor::MariaDb => TRACK_MARIADB,
        };
        self.set(statement).await
    }

    /// Runs a SET of the proxy's own on the primary; one that is refused ties the session to it.
    pub(super) async fn set(&mut self, statement: &str) -> Result<(), Error> {
        match self.primary.set(statement.as_bytes(), self.context.config.connect_timeout).await {
            Ok(payload) => {
                let ok = OkPacket::parse(&payload).map_err(|malformed| Error::Primary(malformed.into()))?;
                self.state.observe(&ok, None).map_err(|malformed| Error::Primary(malformed.into()))
            }
            Err(backend::Error::Refused(payload)) => {
                let reason = backend::Error::Refused(payload);
                tracing::warn!(%reason, "the primary tracks nothing: the session's reads stay on it");
                self.state.tie(Reason::SessionState);
                Ok(())
            }
            Err(backend::Error::Stream(error)) => Err(Error::Primary(error)),
            Err(error) => Err(Error::Login(error)),
        }
    }

    /// The client is about to look at or change session tracking itself: from here on it has it to itself,
    /// and its reads stay on the primary.
    pub(super) async fn give_up_tracking(&mut self) -> Result<(), Error> {
        if self.state.transparent {
            return Ok(());
        }
        let statement = match self.state.dialect.flavor {
            Flavor::MySql => UNTRACK_MYSQL,
            Flavor::MariaDb => UNTRACK_MARIADB,
        };
        self.set(statement).await?;
        self.state.transparent = true;
        self.state.tie(Reason::SessionState);
        Ok(())
    }

    /// The primary's next OK tells what the last statement changed without saying so. That of a ping comes
    /// without a statement, and so without an end to warnings and row counts.
    pub(super) async fn settle(&mut self) -> Result<(), Error> {
        if self.state.transparent {
            self.state.unsettled = false;
            return Ok(());
        }
        match self.primary.ping(self.context.config.connect_timeout).await {
            Ok(payload) => {
                let ok = OkPacket::parse(&payload).map_err(|malformed| Error::Primary(malformed.into()))?;
                self.state.observe(&ok, None).map_err(|malformed| Error::Primary(malformed.into()))
            }
            Err(error) => Err(self.ask_failed(error).await),
        }
    }

    /// SET NAMES is reported without its collation.
    pub(super) async fn ask_collation(&mut self) -> Result<(), Error> {
        const NAME: &str = "collation_connection";
        let question = format!("SELECT @@SESSION.{NAME}");
        let answer = self.primary.ask(question.as_bytes(), self.context.config.connect_timeout).await;
        match answer {
            Ok(collation) => {
                self.state.collation_unknown = false;
                if !self.state.replay.variable(NAME.as_bytes(), &collation.unwrap_or_default()) {
                    self.state.tie(Reason::SessionState);
                }
                Ok(())
            }
            Err(error) => Err(self.ask_failed(error).await),
        }
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
        change.plugin = ASK_FOR_PLUGIN.to_vec();
        change.auth.clear();
        let limit = self.context.config.write_timeout;
        let mut payload = Vec::new();
        change.put(&mut payload, self.primary.capabilities);
        self.primary.begin(&payload);
        self.primary.framed.flush(limit).await.map_err(|error| Error::Primary(error.into()))?;
        let mut prover = ClientProver::new(&mut self.client, 1, &self.context);
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

/// How the primary reads texts before it has said more.
fn first_dialect(primary: &Primary) -> Dialect {
    Dialect::new(primary.flavor, primary.number)
}
