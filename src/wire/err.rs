//! ERR packets.

use super::{Malformed, reader::Reader, writer::PutField};
use bytes::BufMut;

/// The first byte of an ERR packet.
pub const ERR_HEADER: u8 = 0xFF;

/// The error code by which MariaDB marks a progress report, which ends nothing.
/// <https://mariadb.com/kb/en/err_packet/>
pub const PROGRESS_REPORT: u16 = 0xFFFF;

/// An ERR packet.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_err_packet.html>
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrPacket<'a> {
    /// Error code.
    pub code: u16, // int<2>
    /// SQLSTATE, five bytes; empty before the connection phase is over on some servers.
    pub sqlstate: &'a [u8], // string<1> '#', string<5>
    /// Message, in the connection's result charset.
    pub message: &'a [u8], // string<EOF>
}

impl<'a> ErrPacket<'a> {
    /// Reads an ERR packet's payload.
    ///
    /// # Errors
    /// When it is none or too short.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8("ERR header")? != ERR_HEADER {
            return Err(Malformed::Invalid("not an ERR packet"));
        }
        let code = reader.u16("error code")?;
        let sqlstate = match reader.remaining().first() {
            Some(b'#') => {
                reader.u8("SQLSTATE marker")?;
                reader.bytes(5, "SQLSTATE")?
            }
            _ => &[],
        };
        Ok(Self { code, sqlstate, message: reader.rest() })
    }

    /// Appends the payload.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(ERR_HEADER);
        out.put_u16_le(self.code);
        if !self.sqlstate.is_empty() {
            out.put_u8(b'#');
            out.put_slice(self.sqlstate);
        }
        out.put_slice(self.message);
    }

    /// The payload as bytes of their own.
    pub fn to_payload(self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(9 + self.message.len());
        self.put(&mut payload);
        payload
    }
}

/// An error of the proxy's own, in the form that clients know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code} ({sqlstate}): {message}")]
pub struct SqlError {
    /// Error code; the servers' own where one fits.
    pub code: u16,
    /// SQLSTATE.
    pub sqlstate: &'static str,
    /// What happened.
    pub message: String,
}

impl SqlError {
    /// Any error.
    pub fn new(code: u16, sqlstate: &'static str, message: impl Into<String>) -> Self {
        Self { code, sqlstate, message: message.into() }
    }

    /// ER_UNKNOWN_COM_ERROR.
    pub fn unknown_command() -> Self {
        Self::new(1047, "08S01", "Unknown command")
    }

    /// ER_HANDSHAKE_ERROR.
    pub fn bad_handshake() -> Self {
        Self::new(1043, "08S01", "Bad handshake")
    }

    /// ER_NET_PACKETS_OUT_OF_ORDER.
    pub fn out_of_order() -> Self {
        Self::new(1156, "08S01", "Got packets out of order")
    }

    /// ER_SERVER_SHUTDOWN.
    pub fn shutdown() -> Self {
        Self::new(1053, "08S01", "Server shutdown in progress")
    }

    /// ER_CON_COUNT_ERROR.
    pub fn too_many_connections() -> Self {
        Self::new(1040, "08004", "Too many connections")
    }

    /// ER_NET_READ_ERROR, whose SQLSTATE says that the connection is of no more use. Clients take none of
    /// their own numbers (2000 to 2999) from a server.
    pub fn primary_lost(detail: impl std::fmt::Display) -> Self {
        Self::new(1158, "08S01", format!("Lost connection to the primary server: {detail}"))
    }

    /// A rule refuses the statement: ER_SIGNAL_EXCEPTION, whose text is anyone's.
    pub fn rejected(message: String) -> Self {
        Self::new(1644, "45000", message)
    }

    /// A session has as many prepared statements as it may have.
    pub fn too_many_prepared(limit: usize) -> Self {
        let message =
            format!("Can't create more than max_prepared_stmt_count statements (current value: {limit})");
        Self::new(1461, "42000", message)
    }

    /// A cursor is gone with the replica that it was on.
    pub fn cursor_lost() -> Self {
        Self::new(1421, "HY000", "The replica that had the statement's cursor was lost; execute it again")
    }

    /// A read-only transaction is gone with the replica that it was on. The code is that of a deadlock's
    /// victim, which applications know as a reason to try again.
    pub fn transaction_lost() -> Self {
        let message = "The replica that ran this read-only transaction was lost; try restarting transaction";
        Self::new(1213, "40001", message)
    }

    /// ER_CONNECT_TO_FOREIGN_DATA_SOURCE, with a SQLSTATE of connections: the primary cannot be reached.
    pub fn primary_unreachable(detail: impl std::fmt::Display) -> Self {
        Self::new(1429, "08S01", format!("Cannot connect to the primary server: {detail}"))
    }

    /// The payload of the ERR packet.
    pub fn to_payload(&self) -> Vec<u8> {
        ErrPacket { code: self.code, sqlstate: self.sqlstate.as_bytes(), message: self.message.as_bytes() }
            .to_payload()
    }

    /// The payload of an ERR packet in place of a greeting. Nothing is agreed on yet, so servers send no
    /// SQLSTATE, and clients would show it as part of the text.
    pub fn to_first_payload(&self) -> Vec<u8> {
        ErrPacket { code: self.code, sqlstate: &[], message: self.message.as_bytes() }.to_payload()
    }
}

/// Appends an OK packet's payload without affected rows: what the proxy answers by itself.
pub fn put_plain_ok(out: &mut Vec<u8>, status: mysql_common::constants::StatusFlags) {
    out.put_u8(0);
    out.put_lenenc_int(0);
    out.put_lenenc_int(0);
    out.put_u16_le(status.bits());
    out.put_u16_le(0);
}
