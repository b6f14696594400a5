//! Checked settings of a running proxy. Raw TOML is read by `raw`, checked as a whole by `validate`
//! (every fault at once, with its key path), and only then becomes a [`Config`].
//! May use nothing else of this crate.

use std::net::SocketAddr;
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

/// One server behind the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// The name used in metrics and logs.
    pub name: String,
    /// Host and port.
    pub address: String,
}

/// The settings of a running proxy.
#[derive(Clone)]
pub struct Config {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where `/metrics`, `/healthz` and `/readyz` are served; `None` serves none.
    pub http: Option<SocketAddr>,
    /// Where statements may go.
    pub route: RouteMode,
    /// The server that takes the writes.
    pub primary: Backend,
    /// The servers that may take reads.
    pub replicas: Vec<Backend>,
    /// The account that watches the servers.
    pub monitor: Option<Account>,
}
