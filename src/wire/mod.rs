//! The MySQL client/server protocol without I/O: checked reading and writing, packets, and where an
//! answer ends. [`framed`] alone touches a stream. May use `mysql_common` (constants) only.
//!
//! Sources: the "Client/Server Protocol" chapters of MySQL's source documentation
//! (<https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html>) and of MariaDB
//! (<https://mariadb.com/kb/en/clientserver-protocol/>). `mysql_common` has packet types too; they are
//! those of a client (attributes as a map, collations cut to one byte, unknown bits dropped), so a proxy
//! that must hand on what it got keeps its own.

pub mod auth;
pub mod capabilities;
pub mod change_user;
pub mod command;
pub mod err;
pub mod execute;
pub mod framed;
pub mod greeting;
pub mod header;
pub mod login;
pub mod ok;
pub mod query;
pub mod reader;
pub mod response;
pub mod writer;

#[cfg(test)]
mod tests;

pub use capabilities::Capabilities;
pub use mysql_common::constants::{Command, StatusFlags};

/// Why bytes are not the packet that they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The packet ended before its field did.
    #[error("packet ends inside {0}")]
    Truncated(&'static str),
    /// A field holds a value that the protocol does not allow.
    #[error("{0}")]
    Invalid(&'static str),
    /// Packets came out of order: expected and received sequence number.
    #[error("packet {received} came where packet {expected} was due")]
    OutOfOrder {
        /// The number that was due.
        expected: u8,
        /// The number that came.
        received: u8,
    },
}
