//! Checked settings of a running proxy. Raw TOML is read and checked as a whole by [`mod@file`] (every fault
//! at once, with its key path), and only then becomes a [`Config`]. May use nothing else of this crate.

pub mod file;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use zeroize::Zeroizing;

/// Where statements may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RouteMode {
    /// Reads go to a serving replica, everything else to the primary.
    #[default]
    Auto,
    /// Everything goes to the primary: the proxy is a plain hop.
    Primary,
}

/// An account on the servers behind the proxy.
#[derive(Clone)]
pub struct Account {
    /// The user name.
    pub user: String,
    /// The password; wiped from memory when dropped, never logged.
    pub password: Zeroizing<String>,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account").field("user", &self.user).finish_non_exhaustive()
    }
}

/// An account that the proxy itself checks, instead of asking the primary.
#[derive(Debug, Clone)]
pub struct StaticAccount {
    /// What clients log in with.
    pub client: Account,
    /// What the proxy logs in with at the servers.
    pub backend: Account,
}

/// One server behind the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// The name used in metrics and logs.
    pub name: String,
    /// `host:port`.
    pub address: String,
}

impl Backend {
    /// Host and port apart; the port is 3306 when the address names none.
    pub fn host_and_port(&self) -> (&str, u16) {
        self.address
            .rsplit_once(':')
            .and_then(|(host, port)| Some((host.trim_matches(['[', ']']), port.parse().ok()?)))
            .unwrap_or((&self.address, 3306))
    }
}

/// TLS offered to clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientTls {
    /// None.
    Off,
    /// With a self-signed certificate made at start.
    Generated,
    /// With this certificate chain and private key (PEM).
    Files {
        /// The chain, the proxy's own certificate first.
        certificate: PathBuf,
        /// The key of the first certificate.
        key: PathBuf,
    },
}

/// TLS to the servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackendTls {
    /// Never.
    Off,
    /// For sessions whose client uses TLS with the proxy; the certificate is not checked.
    AsClient,
    /// Always; the certificate is not checked.
    Required,
    /// Always, and the certificate must be signed by one of these and name the host.
    Verify {
        /// Certificate authorities (PEM).
        authorities: PathBuf,
    },
}

/// What a read must see. Each is stronger than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Consistency {
    /// What a replica happens to have.
    Eventual,
    /// What its own session has written.
    Session,
    /// What anybody had committed when the read began.
    Global,
}

impl Consistency {
    /// The values in configuration and hints, for messages.
    pub const NAMES: &str = "eventual, session or global";

    /// Reads one of [`Consistency::NAMES`].
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "eventual" => Some(Self::Eventual),
            "session" => Some(Self::Session),
            "global" => Some(Self::Global),
            _ => None,
        }
    }
}

/// Which sessions read what one of them wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Each its own.
    Session,
    /// All of a user.
    User,
}

impl Scope {
    /// The values in configuration, for messages.
    pub const NAMES: &str = "session or user";

    /// Reads one of [`Scope::NAMES`].
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "session" => Some(Self::Session),
            "user" => Some(Self::User),
            _ => None,
        }
    }
}

/// The settings of a running proxy.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where `/metrics`, `/healthz` and `/readyz` are served; `None` serves none.
    pub http: Option<SocketAddr>,
    /// Where statements may go.
    pub route: RouteMode,
    /// What reads must see, unless a rule or a hint says otherwise.
    pub consistency: Consistency,
    /// Which sessions read what one of them wrote, unless a client names a scope of its own.
    pub scope: Scope,
    /// How long a replica may take to get what a read must see, before the primary answers.
    pub wait: Duration,
    /// The file of routing rules.
    pub rules: Option<PathBuf>,
    /// The server that takes the writes.
    pub primary: Backend,
    /// The servers that may take reads.
    pub replicas: Vec<Backend>,
    /// The account that watches the servers; without it no replica serves reads.
    pub monitor: Option<Account>,
    /// Accounts that the proxy checks by itself.
    pub accounts: Vec<StaticAccount>,
    /// TLS to clients.
    pub client_tls: ClientTls,
    /// TLS to the servers.
    pub backend_tls: BackendTls,
    /// Client connections at a time; one more is refused with error 1040.
    pub max_connections: usize,
    /// Prepared statements of one session at a time; one more is refused with error 1461.
    pub max_prepared_statements: usize,
    /// A client must have logged in within this time.
    pub login_timeout: Duration,
    /// A server must have let a session in within this time.
    pub connect_timeout: Duration,
    /// A client must take its answer, and a server a command, within this time, counted for each piece.
    pub write_timeout: Duration,
    /// A replica later than this serves no reads.
    pub max_lag: Duration,
    /// Time between two looks at a replica.
    pub probe_interval: Duration,
    /// A replica that does not answer a look within this time is down.
    pub probe_timeout: Duration,
    /// After a write whose position is not known (servers without GTIDs), a session's reads stay on the
    /// primary for this time.
    pub unknown_position_hold: Duration,
    /// On shutdown, sessions have this long to end their statement.
    pub shutdown_grace: Duration,
}

impl Config {
    /// The defaults around the settings that have none.
    pub fn new(listen: SocketAddr, primary: Backend) -> Self {
        Self {
            listen,
            http: None,
            route: RouteMode::Auto,
            consistency: Consistency::Session,
            scope: Scope::Session,
            wait: Duration::ZERO,
            rules: None,
            primary,
            replicas: Vec::new(),
            monitor: None,
            accounts: Vec::new(),
            client_tls: ClientTls::Generated,
            backend_tls: BackendTls::AsClient,
            max_connections: 10_000,
            max_prepared_statements: 16_382,
            login_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(60),
            max_lag: Duration::from_secs(5),
            probe_interval: Duration::from_millis(250),
            probe_timeout: Duration::from_secs(1),
            unknown_position_hold: Duration::from_secs(1),
            shutdown_grace: Duration::from_secs(10),
        }
    }
}
