//! What all sessions share.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio_rustls::TlsAcceptor;

use super::{locks::Writers, registry::Registry, scope::Scopes};
use crate::{
    auth::{Credentials, rsa::RsaKey},
    backend::Dialer,
    config::Config,
    replica::{History, Replica},
    route::Rules,
    sql::{Cache, Flavor},
    telemetry::{Metrics, metrics::RuleHits},
    wire::{Capabilities, greeting::Greeting},
};

/// Client connection ids begin here, far above the ids that servers give, so that a KILL can tell the two
/// apart: `SHOW PROCESSLIST` shows the server's ids, the greeting gave the proxy's.
const FIRST_ID: u32 = 0x4000_0000;
/// After this one they begin anew: Connector/J reads greater ones as negative numbers, and cancels nothing.
const LAST_ID: u32 = i32::MAX as u32;

/// What all sessions share.
pub struct Context {
    /// Settings.
    pub config: Config,
    /// Where everything is counted.
    pub metrics: Arc<Metrics>,
    /// Classified statements.
    pub statements: Cache,
    /// Passwords that the primary accepted.
    pub credentials: Credentials,
    /// The key under which clients without TLS send their password.
    pub rsa: RsaKey,
    /// What begins TLS with clients, when it is on.
    pub tls: Option<TlsAcceptor>,
    /// What the primary said of itself last.
    pub primary: ArcSwapOption<Primary>,
    /// Opens connections to the primary.
    pub primary_dialer: Dialer,
    /// The replica that takes reads, with what opens connections to it.
    pub replica: Option<(Arc<Replica>, Dialer)>,
    /// What happened on the primary.
    pub history: Arc<History>,
    /// What was written in scopes wider than a session.
    pub scopes: Arc<Scopes>,
    /// Routing rules.
    pub rules: ArcSwap<ActiveRules>,
    /// The sessions that there are.
    pub registry: Registry,
    /// The next client connection's id.
    pub next_id: AtomicU32,
    /// Sessions that hold locks on tables that they may write.
    pub table_writers: Writers,
    /// A client has changed settings of the whole primary, which the replica does not share.
    pub server_changed: AtomicBool,
}

/// Routing rules in force.
pub struct ActiveRules {
    /// The rules.
    pub rules: Rules,
    /// Their counters.
    pub hits: RuleHits,
}

impl ActiveRules {
    /// Puts rules in force.
    pub fn new(rules: Rules, metrics: &Metrics) -> Self {
        let hits = metrics.rule_hits(rules.names());
        Self { rules, hits }
    }
}

/// What the primary said of itself in its greeting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Primary {
    /// Version text.
    pub version: Vec<u8>,
    /// Default collation's number, low byte.
    pub collation: u8,
    /// Default authentication plugin.
    pub plugin: Vec<u8>,
    /// What it can do.
    pub capabilities: Capabilities,
    /// Its family.
    pub flavor: Flavor,
    /// Its version as one number, two digits for each minor part.
    pub number: u32,
}

impl From<&Greeting> for Primary {
    fn from(greeting: &Greeting) -> Self {
        let text = String::from_utf8_lossy(&greeting.version);
        // MariaDB before 11 says "5.5.5-10.6.1-MariaDB", for old replicas that read only one digit.
        let own = text.strip_prefix("5.5.5-").unwrap_or(&text);
        Self {
            version: greeting.version.clone(),
            collation: greeting.collation,
            plugin: greeting.plugin.clone(),
            capabilities: greeting.capabilities,
            flavor: if text.contains("MariaDB") { Flavor::MariaDb } else { Flavor::MySql },
            number: version_number(own),
        }
    }
}

/// `9.7.4-2` is 90704.
fn version_number(text: &str) -> u32 {
    let mut parts = text.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0_u32);
    next().saturating_mul(10_000).saturating_add(next().min(99) * 100).saturating_add(next().min(99))
}

impl Context {
    /// An id for a new client connection.
    pub fn take_id(&self) -> u32 {
        client_id(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Notes what the primary says of itself, if it changed.
    pub fn learn(&self, greeting: &Greeting) {
        let learned = Primary::from(greeting);
        if self.primary.load().as_deref() != Some(&learned) {
            tracing::info!(version = %String::from_utf8_lossy(&learned.version), "primary greets");
            self.primary.store(Some(Arc::new(learned)));
        }
    }
}

/// The id of the client connection of this number.
const fn client_id(number: u32) -> u32 {
    FIRST_ID + number % (LAST_ID - FIRST_ID + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_ids_are_positive_for_everyone() {
        assert_eq!(client_id(0), FIRST_ID);
        for number in [1, LAST_ID - FIRST_ID, LAST_ID - FIRST_ID + 1, i32::MAX as u32, u32::MAX] {
            let id = client_id(number);
            assert!((FIRST_ID..=LAST_ID).contains(&id) && i32::try_from(id).is_ok(), "{number}");
        }
    }

    #[test]
    fn versions_become_numbers() {
        assert_eq!(version_number("9.7.4-2"), 90704);
        assert_eq!(version_number("8.0.36"), 80036);
        assert_eq!(version_number("10.11.19-MariaDB-log"), 101_119);
        assert_eq!(version_number("12.1.2-MariaDB"), 120_102);
        assert_eq!(version_number("x"), 0);
    }
}
