//! One server of a sandbox and what can be done to it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use mysql_async::{Conn, Opts, OptsBuilder};
use rustix::process::{Pid, Signal};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::accounts::random_bytes;
use super::directory::blocking;
use super::error::Error;
use super::initialise;
use super::process::{Spec, is_stopped, last_lines};
use super::program::Program;
use super::replication;
use crate::config::Account;

/// What a server is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Takes the writes.
    Primary,
    /// Follows the primary, takes no writes of its own.
    Replica,
}

impl Role {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Replica => "replica",
        }
    }

    pub(super) const fn server_id(self) -> u32 {
        match self {
            Self::Primary => 1,
            Self::Replica => 2,
        }
    }
}

/// A server process on 127.0.0.1 with its files; the port stays the same for its whole life.
#[derive(Debug)]
pub struct Server {
    spec: Arc<Spec>,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// Not started yet: the port is held, so that no other sandbox takes it.
    New { _port: TcpListener },
    /// Started; it runs as long as its supervisor does.
    Started(Supervisor),
    /// Ended by us.
    Ended,
}

/// The task that waits for the process.
type Supervisor = JoinHandle<std::io::Result<ExitStatus>>;

impl Server {
    /// A server in an empty directory. Nothing is started.
    pub(super) fn new(
        program: Program,
        role: Role,
        directory: PathBuf,
        arguments: Vec<String>,
        group: Pid,
    ) -> Result<Self, Error> {
        let (listener, port) = free_port()?;
        let spec = Spec { program, role, directory, port, arguments, group };
        if spec.socket().as_os_str().len() > SOCKET_PATH {
            return Err(Error::LongPath(spec.socket()));
        }
        std::fs::create_dir(spec.temporary()).map_err(Error::io(spec.temporary().display().to_string()))?;
        Ok(Self { spec: Arc::new(spec), state: Mutex::new(State::New { _port: listener }) })
    }

    /// The program that runs.
    pub fn program(&self) -> &Program {
        &self.spec.program
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.spec.port).into()
    }

    /// The unix socket, the way in for `root`.
    pub fn socket(&self) -> PathBuf {
        self.spec.socket()
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.spec.data()
    }

    /// The server's error log.
    pub fn log(&self) -> PathBuf {
        self.spec.log()
    }

    /// The server's process id while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.spec.pid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// A connection as `root`, who may do everything.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn root(&self) -> Result<Conn, Error> {
        let socket = self.spec.socket().display().to_string();
        Ok(Conn::new(OptsBuilder::default().socket(Some(socket)).user(Some("root"))).await?)
    }

    /// How to connect as `account` over TCP, without a schema.
    pub fn connect_options(&self, account: &Account) -> Opts {
        connect_options(self.address(), account).into()
    }

    /// Starts the server and returns when it answers. Nothing happens when it runs.
    ///
    /// # Errors
    /// When it ends, or does not answer within 60 s.
    pub async fn start(&self) -> Result<(), Error> {
        let mut state = self.state.lock().await;
        if matches!(&*state, State::Started(task) if !task.is_finished()) {
            return Ok(());
        }
        *state = State::Ended;
        // A killed server leaves its pid file, which would be taken for the new one's.
        remove_if_there(&self.spec.pid_file())?;
        let child = self.spec.spawn().map_err(Error::io(format!("cannot start {}", self.spec.name())))?;
        let mut task = tokio::spawn(Arc::clone(&self.spec).supervise(child));
        let answer = timeout(START_LIMIT, self.answer(&mut task)).await;
        let result = answer.unwrap_or_else(|_| {
            Err(Error::NotReady {
                what: self.spec.name(),
                seconds: START_LIMIT.as_secs(),
                log: last_lines(&self.spec.log()),
            })
        });
        if result.is_err() {
            task.abort();
        }
        *state = State::Started(task);
        result
    }

    /// Shuts the server down in order; kills it when that takes more than 20 s. Nothing happens when it
    /// does not run.
    pub async fn stop(&self) {
        // A paused server acts on nothing else. All of this fails harmlessly when it does not run.
        let _ = self.spec.signal(Signal::CONT);
        let _ = timeout(RELEASE_LIMIT, replication::release(self)).await;
        self.end(Signal::TERM).await;
    }

    /// Ends the server at once, as a crash or a power cut would. Nothing happens when it does not run.
    pub async fn kill(&self) {
        self.end(Signal::KILL).await;
    }

    /// Stops the server where it is: connections stay open and get no answer. Returns when no thread of it
    /// runs any more, which is some milliseconds after the signal on a busy machine.
    ///
    /// # Errors
    /// When it does not run.
    pub async fn pause(&self) -> Result<(), Error> {
        let gone = || Error::NotRunning(self.spec.name());
        self.spec.signal(Signal::STOP)?;
        let stopped = async {
            while !is_stopped(self.spec.pid().ok_or_else(gone)?) {
                sleep(Duration::from_millis(1)).await;
            }
            Ok(())
        };
        timeout(STOP_LIMIT, stopped).await.unwrap_or_else(|_| Err(gone()))
    }

    /// Ends a [`Server::pause`].
    ///
    /// # Errors
    /// When it does not run.
    pub fn resume(&self) -> Result<(), Error> {
        self.spec.signal(Signal::CONT)
    }

    /// Kills the server and makes its data directory new, as a restart of the machine does to a replica in
    /// memory: no accounts, no data, no replication. [`Server::start`] runs it.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub async fn wipe(&self) -> Result<(), Error> {
        self.kill().await;
        let data = self.spec.data();
        std::fs::remove_dir_all(&data).map_err(Error::io(format!("cannot remove {}", data.display())))?;
        self.initialise().await
    }

    /// Makes the data directory.
    pub(super) async fn initialise(&self) -> Result<(), Error> {
        initialise::initialise(&self.spec).await
    }

    /// Makes the data directory a copy of another's, which must not run.
    pub(super) async fn initialise_from(&self, other: &Self) -> Result<(), Error> {
        let (from, to) = (other.spec.data(), self.spec.data());
        blocking(move || {
            initialise::copy(&from, &to).map_err(Error::io(format!("cannot fill {}", to.display())))
        })
        .await
    }

    /// Returns when the server lets `root` in, or with an error when it ends before.
    async fn answer(&self, task: &mut Supervisor) -> Result<(), Error> {
        loop {
            if let Ok(connection) = self.root().await {
                return Ok(connection.disconnect().await?);
            }
            if let Ok(ended) = timeout(POLL, &mut *task).await {
                let status = ended.map_err(std::io::Error::from).and_then(|status| status);
                return Err(Error::Ended {
                    what: self.spec.name(),
                    status: status.map_err(Error::io(self.spec.name()))?,
                    log: last_lines(&self.spec.log()),
                });
            }
        }
    }

    /// Sends a signal and waits for the end; after [`STOP_LIMIT`] kills.
    async fn end(&self, signal: Signal) {
        let mut state = self.state.lock().await;
        let State::Started(task) = &mut *state else { return };
        if task.is_finished() {
            return;
        }
        // A server that is gone already needs no signal; one that cannot be signalled is killed below.
        let _ = self.spec.signal(signal);
        if timeout(STOP_LIMIT, &mut *task).await.is_err() {
            let _ = self.spec.signal(Signal::KILL);
            // Drops the process handle, which kills a script that waits for the server.
            task.abort();
            let _ = task.await;
        }
        *state = State::Ended;
    }
}

/// How to connect to a server or to a proxy over TCP. The driver would change to the server's unix socket
/// by itself, and so go past the proxy.
pub fn connect_options(address: SocketAddr, account: &Account) -> OptsBuilder {
    OptsBuilder::default()
        .ip_or_hostname(address.ip().to_string())
        .tcp_port(address.port())
        .prefer_socket(false)
        .user(Some(&account.user))
        .pass(Some(account.password.as_str()))
}

/// A free port below the range from which the kernel takes ports for outgoing connections (32768 and up by
/// default), so that none takes it between this check and the server's start, or while it is down.
fn free_port() -> Result<(TcpListener, u16), Error> {
    for _ in 0..PORT_TRIES {
        let port = 20_000 + u16::from_ne_bytes(random_bytes()?) % 12_000;
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return Ok((listener, port));
        }
    }
    Err(Error::NoPort)
}

fn remove_if_there(file: &Path) -> Result<(), Error> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(format!("cannot remove {}", file.display()))(error))
        }
        _ => Ok(()),
    }
}

/// How long a server may take to answer.
const START_LIMIT: Duration = Duration::from_secs(60);

/// How long a server may take to shut down.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// How long the connections of replicas may take to end before a shutdown.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);

/// The pause between two attempts to connect to a starting server.
const POLL: Duration = Duration::from_millis(30);

/// Bytes in the path of a unix socket: 108 with the final zero on Linux, less on other systems; servers
/// cut longer ones silently.
const SOCKET_PATH: usize = 100;

const PORT_TRIES: usize = 100;
