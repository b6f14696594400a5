//! Where a statement goes, and why. Pure: no I/O, no clock. May use `sql` and `config`.

mod decide;
#[cfg(test)]
mod grammar;
pub mod hint;
pub mod policy;
pub mod rules;

pub use decide::{Asked, Replica, Session, Transaction, asks_about_last_result, decide};
pub use policy::Policy;
pub use rules::Rules;

/// Copies of the data that a statement can run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// The server that takes the writes.
    Primary,
    /// A server that follows the primary.
    Replica,
}

impl Target {
    /// Every target, in the order of declaration.
    pub const ALL: [Self; 2] = [Self::Primary, Self::Replica];

    /// The value of the `route` label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Replica => "replica",
        }
    }
}

/// A decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Where the statement goes.
    pub target: Target,
    /// Why.
    pub reason: Reason,
}

impl Route {
    /// To the primary.
    pub const fn primary(reason: Reason) -> Self {
        Self { target: Target::Primary, reason }
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $label:literal,)*) => {
        /// Why a statement went where it went. A closed list: it grows, and no name is used for another
        /// meaning, so that dashboards keep theirs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// Every reason, in the order of declaration.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The value of the `reason` label in metrics.
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$name => $label,)*
                }
            }
        }
    };
}

reasons! {
    /// It only reads, for certain.
    Read = "read",
    /// It writes.
    Write = "write",
    /// It changes definitions.
    Ddl = "ddl",
    /// A transaction is open, or this opens or ends one.
    Transaction = "transaction",
    /// A transaction that only reads runs on the replica.
    ReadOnlyTransaction = "read_only_transaction",
    /// `autocommit` is off, so that each statement belongs to a transaction.
    AutocommitOff = "autocommit_off",
    /// It locks the rows that it reads.
    LockingRead = "locking_read",
    /// It reads or sets state of the session, or earlier statements left state that only the primary's
    /// connection has.
    SessionState = "session_state",
    /// The session has temporary tables.
    TemporaryTable = "temporary_table",
    /// It reads or assigns user variables.
    UserVariable = "user_variable",
    /// It asks about the statement before.
    LastResult = "last_result",
    /// It calls a function that may write, lock, or answer differently on each server.
    UnsafeFunction = "unsafe_function",
    /// It is about the server rather than the data.
    ServerState = "server_state",
    /// Nothing is known of its meaning.
    Unparsed = "unparsed",
    /// Several statements in one text, not all of them reads.
    MultiStatement = "multi_statement",
    /// A hint in the statement asks for the primary.
    Hint = "hint",
    /// A rule asks for the primary.
    Rule = "rule",
    /// A hint or a rule asks for the replica, and the statement is not certain to only read.
    UnsafeHint = "unsafe_hint",
    /// A rule refuses it; no server got it.
    Rejected = "rejected",
    /// The settings send everything to the primary.
    Forced = "forced",
    /// The replica does not have this session's last write yet.
    ReplicaBehind = "replica_behind",
    /// The replica is further behind than allowed.
    ReplicaLagging = "replica_lagging",
    /// The replica does not answer, or its replication does not run.
    ReplicaDown = "replica_down",
    /// The replica has not had yet all that the primary had when they met.
    ReplicaEmpty = "replica_empty",
    /// No replica is configured.
    NoReplica = "no_replica",
    /// The proxy knows no password by which this user could log in at the replica.
    NoCredentials = "no_credentials",
    /// The replica failed or refused it; the primary's answer counts.
    RetryAfterReplicaError = "retry_after_replica_error",
    /// The connection became a stream of replication events.
    Tunnel = "tunnel",
}
