//! What both sides of a connection agreed on.

use mysql_common::constants::{CapabilityFlags, MariadbCapabilities};

/// Capability flags: MySQL's 32 bits, and MariaDB's further 32, which travel in bytes that MySQL reserves.
///
/// Sources: <https://dev.mysql.com/doc/dev/mysql-server/latest/group__group__cs__capabilities__flags.html>,
/// <https://mariadb.com/kb/en/connection/>.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Capabilities {
    /// The flags of the protocol.
    pub flags: CapabilityFlags,
    /// MariaDB's extended flags; they mean something only where `CLIENT_MYSQL` (bit 0) is not set.
    pub mariadb: MariadbCapabilities,
}

impl Capabilities {
    /// What the proxy can carry when a server can: all but zstd, in whose stead clients take zlib or nothing,
    /// and the old bit for progress reports, which means something else to MySQL.
    pub const SUPPORTED: Self = Self {
        flags: CapabilityFlags::all()
            .difference(CapabilityFlags::CLIENT_ZSTD_COMPRESSION_ALGORITHM)
            .difference(CapabilityFlags::CLIENT_PROGRESS_OBSOLETE),
        mariadb: MariadbCapabilities::all(),
    };

    /// Whether all of `flags` are set.
    pub const fn has(self, flags: CapabilityFlags) -> bool {
        self.flags.contains(flags)
    }

    /// The flags that both sides have.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self {
            flags: self.flags.intersection(other.flags),
            mariadb: self.mariadb.intersection(other.mariadb),
        }
    }

    /// These flags and `flags`.
    #[must_use]
    pub const fn with(self, flags: CapabilityFlags) -> Self {
        Self { flags: self.flags.union(flags), mariadb: self.mariadb }
    }

    /// These flags without `flags`.
    #[must_use]
    pub const fn without(self, flags: CapabilityFlags) -> Self {
        Self { flags: self.flags.difference(flags), mariadb: self.mariadb }
    }

    /// Result sets end with an OK packet and have no EOF after their columns.
    pub const fn deprecate_eof(self) -> bool {
        self.has(CapabilityFlags::CLIENT_DEPRECATE_EOF)
    }

    /// OK packets carry session state.
    pub const fn session_track(self) -> bool {
        self.has(CapabilityFlags::CLIENT_SESSION_TRACK)
    }

    /// Queries carry attributes before their text.
    pub const fn query_attributes(self) -> bool {
        self.has(CapabilityFlags::CLIENT_QUERY_ATTRIBUTES)
    }

    /// Column definitions may be left out (MySQL).
    pub const fn optional_metadata(self) -> bool {
        self.has(CapabilityFlags::CLIENT_OPTIONAL_RESULTSET_METADATA)
    }

    /// Reports of progress come between packets of an answer (MariaDB).
    pub const fn progress_reports(self) -> bool {
        self.mariadb.contains(MariadbCapabilities::MARIADB_CLIENT_PROGRESS)
    }

    /// Column definitions of prepared statements may be left out (MariaDB).
    pub const fn cache_metadata(self) -> bool {
        self.mariadb.contains(MariadbCapabilities::MARIADB_CLIENT_CACHE_METADATA)
    }
}
