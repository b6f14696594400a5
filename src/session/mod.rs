//! One client from its login to its end: the loop, its state, the relay of bytes. May use everything that
//! a query passes on its way down: `sql`, `route`, `replica`, `backend`, `auth`, `wire`, `telemetry`.

mod account;
mod asked;
pub mod context;
mod handshake;
mod kill;
mod locks;
mod position;
mod prepared;
mod prover;
mod query;
mod registry;
mod relay;
mod replay;
mod replica_link;
mod replica_read;
mod scope;
mod state;
mod statement;
mod temporary;
mod tracking;
mod transaction;
mod user;
mod variables;

use std::{ops::ControlFlow, sync::Arc};

use mysql_common::constants::CapabilityFlags;
use tokio::{net::TcpStream, time::Instant};
use tokio_util::sync::CancellationToken;

use asked::SessionRules;
pub use context::Context;
pub use locks::Writers;
use prover::Nonces;
use registry::Handle;
pub use registry::Registry;
use relay::{Listener, Relay};
use replica_link::ReplicaLink;
pub use scope::Scopes;
use state::State;

use crate::{
    auth::Credential,
    backend::{self, Connection},
    net::Stream,
    route::{Reason, Route, Target},
    sql,
    telemetry::metrics::{BackendGauge, Use},
    wire::{
        Capabilities, Command, StatusFlags,
        command::{Answer, answer, from_byte},
        err::{ERR_HEADER, SqlError, put_plain_ok},
        framed::{self, Framed, Head},
        header::{Header, Walk},
        login::Login,
        response::PreparedOk,
    },
};

/// Of a longer command only this much is looked at, which is enough to know that it is no short read; the
/// rest streams by.
const LOOK_SIZE: usize = 128 * 1024;

/// Why a session ended otherwise than by its client's wish.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client failed.
    #[error("client: {0}")]
    Client(#[source] framed::Error),
    /// The client was told this and had to go.
    #[error("told the client: {0}")]
    Told(SqlError),
    /// The client could not log in.
    #[error("login: {0}")]
    Login(#[source] backend::Error),
    /// The primary's connection ended.
    #[error("primary: {0}")]
    Primary(#[source] framed::Error),
    /// Another session killed this one.
    #[error("killed")]
    Killed,
    /// The login took too long.
    #[error("login took longer than allowed")]
    LoginTimeout,
}

impl Error {
    /// Whether the peer's bytes were at fault.
    const fn is_protocol(&self) -> bool {
        matches!(
            self,
            Self::Client(framed::Error::Malformed(_) | framed::Error::TooLong(_) | framed::Error::Cut)
        )
    }
}

/// A logged-in client.
struct Session {
    id: u32,
    context: Arc<Context>,
    handle: Arc<Handle>,
    client: Framed<Stream>,
    capabilities: Capabilities,
    primary: Connection,
    primary_gauge: BackendGauge,
    replica: ReplicaLink,
    /// The login as the primary got it; a replica gets the same.
    login: Login,
    credential: Option<Credential>,
    nonces: Nonces,
    rules: SessionRules,
    state: State,
}

/// Serves one client until it leaves, fails, or `shutdown` finds it between two commands.
///
/// # Errors
/// When the session ended otherwise than by the client's wish.
pub async fn serve(
    context: Arc<Context>,
    socket: TcpStream,
    id: u32,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let login = handshake::welcome(&context, socket, id);
    let welcomed = tokio::time::timeout(context.config.login_timeout, login)
        .await
        .map_err(|_| Error::LoginTimeout)??;
    let mut session = Session::begin(context, welcomed, id).await?;
    let result = session.run(&shutdown).await;
    session.end().await;
    result
}

impl Session {
    /// Waits for commands and runs them.
    async fn run(&mut self, shutdown: &CancellationToken) -> Result<(), Error> {
        loop {
            let head = tokio::select! {
                biased;
                // First, or a command would go to a server that has taken its leave.
                spoke = self.primary.framed.fill() => return self.primary_left(spoke).await,
                head = self.client.read_command(LOOK_SIZE) => head.map_err(Error::Client)?,
                () = shutdown.cancelled() => return self.tell(SqlError::shutdown()).await,
                () = self.handle.killed.cancelled() => return Err(Error::Killed),
            };
            let Some(head) = head else { return Ok(()) };
            if self.command(head, shutdown).await?.is_break() {
                return Ok(());
            }
        }
    }

    /// Runs the command at the front of the client's buffer.
    async fn command(&mut self, head: Head, shutdown: &CancellationToken) -> Result<ControlFlow<()>, Error> {
        let go_on = ControlFlow::Continue(());
        if head.header.seq != 0 {
            self.tell(SqlError::out_of_order()).await?;
            return Ok(ControlFlow::Break(()));
        }
        let command = self.payload(head).first().copied().and_then(from_byte);
        let Some((command, shape)) = command.and_then(|command| Some((command, answer(command)?))) else {
            self.refuse(head).await?;
            return Ok(go_on);
        };
        match command {
            Command::COM_QUIT => return Ok(ControlFlow::Break(())),
            Command::COM_PING => self.pong(head).await?,
            Command::COM_QUERY => self.query(head).await?,
            Command::COM_CHANGE_USER => self.change_user(head).await?,
            Command::COM_RESET_CONNECTION => self.reset_connection(head).await?,
            Command::COM_PROCESS_KILL => self.process_kill(head).await?,
            Command::COM_STMT_PREPARE => self.prepare(head).await?,
            Command::COM_STMT_EXECUTE | Command::COM_STMT_BULK_EXECUTE => self.execute(head).await?,
            Command::COM_STMT_SEND_LONG_DATA => self.send_long_data(head).await?,
            Command::COM_STMT_FETCH => self.fetch(head).await?,
            Command::COM_STMT_RESET => self.reset_statement(head).await?,
            Command::COM_STMT_CLOSE => self.close_statement(head).await?,
            Command::COM_SET_OPTION => self.set_option(head).await?,
            _ if shape == Answer::Tunnel => return self.tunnel(head, shutdown).await,
            _ => {
                self.run_on_primary(head, shape, None).await?;
            }
        }
        Ok(go_on)
    }

    /// What is in the client's buffer of the command at its front, without the header.
    fn payload(&self, head: Head) -> &[u8] {
        self.client.command(head)
    }

    /// Sends a command to the primary and its answer to the client; gives what a prepare answer had.
    async fn run_on_primary(
        &mut self,
        head: Head,
        shape: Answer,
        statement: Option<&sql::Statement>,
    ) -> Result<Option<PreparedOk>, Error> {
        if let Some(statement) = statement {
            self.state.before(statement);
        }
        if shape != Answer::None {
            self.state.last_target = Target::Primary;
            // Preparing changes no count of rows.
            if shape != Answer::Prepared {
                self.state.count_target = Target::Primary;
            }
        }
        self.exchange(Some(head), shape, statement).await
    }

    /// See [`Session::run_on_primary`]; without `head`, for a command that the primary has already.
    async fn exchange(
        &mut self,
        head: Option<Head>,
        shape: Answer,
        statement: Option<&sql::Statement>,
    ) -> Result<Option<PreparedOk>, Error> {
        self.begin_statement(Target::Primary);
        let mut listener = Listener::to_primary(&mut self.state, statement, self.capabilities);
        let mut relay = Relay {
            client: &mut self.client,
            server: &mut self.primary,
            write_limit: self.context.config.write_timeout,
            sent: false,
        };
        let sending = match head {
            Some(head) => relay.send(head).await,
            None => Ok(()),
        };
        let result = match sending {
            Ok(()) => relay.answer(shape, &mut listener).await,
            Err(error) => Err(relay.hear_out(error, shape, &mut listener).await),
        };
        let (prepared, sent) = (listener.prepared, relay.sent);
        self.end_statement(Target::Primary);
        self.state.position.settle(self.state.in_transaction());
        match result {
            Ok(_) => Ok(prepared),
            Err(relay::Error::Client(error)) => Err(Error::Client(error)),
            Err(relay::Error::Server(error)) => Err(self.primary_failed(error, sent).await),
        }
    }

    fn begin_statement(&mut self, target: Target) {
        self.handle.set_running(Some(target));
        match target {
            Target::Primary => self.primary_gauge.set(Use::Active),
            Target::Replica => self.replica.set_use(Use::Active),
        }
    }

    fn end_statement(&mut self, target: Target) {
        self.handle.set_running(None);
        match target {
            Target::Primary => self.primary_gauge.set(Use::Idle),
            Target::Replica => self.replica.set_use(Use::Idle),
        }
    }

    /// The primary failed in the middle of a command. Where it hung up, the client's connection ends as its
    /// own to the server would: drivers know that case, and some of them no error packet for it. Anything
    /// else is told, if the client has nothing of the answer yet.
    async fn primary_failed(&mut self, error: framed::Error, sent: bool) -> Error {
        if !sent && !error.is_hang_up() {
            self.client.tx.clear();
            let told = SqlError::primary_lost(&error);
            // The session ends either way.
            let _ = self.say(1, &told.to_payload()).await;
        }
        Error::Primary(error)
    }

    /// A question of the proxy's own to the primary got no answer: the session cannot go on.
    async fn ask_failed(&mut self, error: backend::Error) -> Error {
        match error {
            backend::Error::Stream(error) => self.primary_failed(error, false).await,
            other => {
                let error = std::io::Error::other(other.to_string());
                self.primary_failed(framed::Error::Io(error), false).await
            }
        }
    }

    /// The primary spoke or hung up between two commands: it timed the session out, killed it, or shuts
    /// down. Its last words go to the client.
    async fn primary_left(&mut self, spoke: std::io::Result<bool>) -> Result<(), Error> {
        if let Ok(true) = spoke {
            let len = self.primary.framed.received().len();
            self.primary.framed.forward(len, &mut self.client);
            self.client.flush(self.context.config.write_timeout).await.map_err(Error::client_io)?;
        }
        let kind = spoke.err().map_or(std::io::ErrorKind::UnexpectedEof, |error| error.kind());
        Err(Error::Primary(framed::Error::Io(kind.into())))
    }

    async fn say(&mut self, seq: u8, payload: &[u8]) -> Result<(), Error> {
        self.client.put(seq, payload);
        self.client.flush(self.context.config.write_timeout).await.map_err(Error::client_io)
    }

    /// Tells the client an error of the proxy's own, between two commands, before the session ends.
    async fn tell(&mut self, error: SqlError) -> Result<(), Error> {
        self.say(0, &error.to_payload()).await
    }

    /// COM_SET_OPTION turns multi-statements on and off: a replica's connection gets to know that with its
    /// login.
    /// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_set_option.html>
    async fn set_option(&mut self, head: Head) -> Result<(), Error> {
        const MULTI_STATEMENTS_ON: [u8; 2] = [0, 0];
        let multi = self.payload(head).get(1..) == Some(&MULTI_STATEMENTS_ON);
        self.run_on_primary(head, Answer::Single, None).await?;
        let flag = CapabilityFlags::CLIENT_MULTI_STATEMENTS;
        let before = self.login.capabilities;
        self.login.capabilities = if multi { before.with(flag) } else { before.without(flag) };
        if self.login.capabilities != before && !self.replica.in_transaction() {
            self.replica.close().await;
        }
        Ok(())
    }

    /// A command of no known kind: the connection stays usable.
    async fn refuse(&mut self, head: Head) -> Result<(), Error> {
        let seq = self.drop_command(head).await?;
        self.say(seq, &SqlError::unknown_command().to_payload()).await
    }

    async fn pong(&mut self, head: Head) -> Result<(), Error> {
        let seq = self.drop_command(head).await?;
        let mut payload = Vec::with_capacity(7);
        let mut status = self.state.status;
        status.set(
            StatusFlags::SERVER_STATUS_IN_TRANS,
            self.state.in_transaction() || self.replica.in_transaction(),
        );
        put_plain_ok(&mut payload, status);
        self.say(seq, &payload).await
    }

    /// Takes a whole command out of the client's buffer and gives the answer's first sequence number.
    async fn drop_command(&mut self, head: Head) -> Result<u8, Error> {
        let mut walk = Walk::new(head.header);
        self.client.consume(Header::LEN);
        loop {
            let len = walk.advance(self.client.received()).map_err(|error| Error::Client(error.into()))?;
            self.client.consume(len);
            if walk.is_done() {
                return Ok(walk.next_seq());
            }
            if !self.client.fill().await.map_err(Error::client_io)? {
                return Err(Error::Client(framed::Error::Cut));
            }
        }
    }

    /// The connection becomes a stream of replication events, as long as both sides like, unless the primary
    /// refuses.
    async fn tunnel(&mut self, head: Head, shutdown: &CancellationToken) -> Result<ControlFlow<()>, Error> {
        let started = Instant::now();
        self.primary.begin_forwarded();
        self.client.forward(head.len, &mut self.primary.framed);
        let limit = self.context.config.write_timeout;
        self.primary.framed.flush(limit).await.map_err(|error| Error::Primary(error.into()))?;
        while self.primary.framed.received().len() <= Header::LEN {
            if !self.primary.framed.fill().await.map_err(|error| Error::Primary(error.into()))? {
                return Err(self.primary_failed(framed::Error::Cut, false).await);
            }
        }
        self.count(Route::primary(Reason::Tunnel), sql::Kind::Admin, started);
        if self.primary.framed.received().get(Header::LEN) == Some(&ERR_HEADER) {
            self.exchange(None, Answer::Single, None).await?;
            return Ok(ControlFlow::Continue(()));
        }
        tokio::select! {
            ended = framed::tunnel(&mut self.client, &mut self.primary.framed) => ended.map_err(Error::client_io)?,
            () = shutdown.cancelled() => {}
            () = self.handle.killed.cancelled() => return Err(Error::Killed),
        }
        Ok(ControlFlow::Break(()))
    }

    fn count(&self, route: Route, kind: sql::Kind, started: Instant) {
        self.context.metrics.query(route.target, kind, route.reason, started.elapsed());
    }

    /// Leaves the servers in order.
    async fn end(mut self) {
        self.replica.close().await;
        self.primary.quit().await;
        self.client.shutdown().await;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.context.registry.leave(self.id);
    }
}
