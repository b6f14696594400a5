//! OK and EOF packets and the session state that OK packets carry.

use super::{Malformed, StatusFlags, reader::Reader, writer::PutField};
use bytes::BufMut;

/// The first byte of an OK packet that answers a command.
pub const OK_HEADER: u8 = 0x00;
/// An OK packet that answers a command has at least this many bytes; a column count that begins with zero
/// has fewer.
pub const OK_MIN_LEN: usize = 7;
/// The first byte of an EOF packet, and of an OK packet that ends a result set.
pub const EOF_HEADER: u8 = 0xFE;
/// An EOF packet is shorter than this; a longer packet with its first byte is a row.
pub const EOF_MAX_LEN: usize = 9;

/// An OK packet.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_ok_packet.html>,
/// <https://mariadb.com/kb/en/ok_packet/>
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OkPacket<'a> {
    /// [`OK_HEADER`] or [`EOF_HEADER`].
    pub header: u8, // int<1>
    /// Rows changed.
    pub affected_rows: u64, // int<lenenc>
    /// First generated AUTO_INCREMENT value.
    pub last_insert_id: u64, // int<lenenc>
    /// State of the session after the statement.
    pub status: StatusFlags, // int<2>
    /// Number of warnings.
    pub warnings: u16, // int<2>
    /// Human-readable text.
    pub info: &'a [u8], // string<lenenc>
    /// Session state changes, to be read by [`Trackers`].
    pub state: &'a [u8], // string<lenenc>, with SERVER_SESSION_STATE_CHANGED
}

impl<'a> OkPacket<'a> {
    /// Reads an OK packet's payload from a connection that negotiated `CLIENT_SESSION_TRACK`.
    ///
    /// # Errors
    /// When it is none or too short.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        let header = reader.u8("OK header")?;
        if header != OK_HEADER && header != EOF_HEADER {
            return Err(Malformed::Invalid("not an OK packet"));
        }
        let affected_rows = reader.lenenc_int("affected rows")?;
        let last_insert_id = reader.lenenc_int("last insert id")?;
        let status = StatusFlags::from_bits_retain(reader.u16("status flags")?);
        // MySQL ends a result whose rows failed inside a stored program with five bytes, as if with an EOF
        // packet: the zeros of its warning count read as those of the rows and the id, and this is missing.
        let warnings = if reader.is_empty() { 0 } else { reader.u16("warnings")? };
        // The servers leave the text out when nothing follows it.
        let info = if reader.is_empty() { &[] } else { reader.lenenc_bytes("info")? };
        let state = if status.contains(StatusFlags::SERVER_SESSION_STATE_CHANGED) {
            reader.lenenc_bytes("session state")?
        } else {
            &[]
        };
        Ok(Self { header, affected_rows, last_insert_id, status, warnings, info, state })
    }

    /// Appends the payload, with session state only where there is some.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(self.header);
        out.put_lenenc_int(self.affected_rows);
        out.put_lenenc_int(self.last_insert_id);
        let tracked = !self.state.is_empty();
        let mut status = self.status;
        status.set(StatusFlags::SERVER_SESSION_STATE_CHANGED, tracked);
        out.put_u16_le(status.bits());
        out.put_u16_le(self.warnings);
        if tracked || !self.info.is_empty() {
            out.put_lenenc_bytes(self.info);
        }
        if tracked {
            out.put_lenenc_bytes(self.state);
        }
    }

    /// The session state changes that the packet carries.
    pub const fn trackers(&self) -> Trackers<'a> {
        Trackers { reader: Reader::new(self.state) }
    }
}

/// An EOF packet's status flags.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_eof_packet.html>
///
/// # Errors
/// When it is none or too short.
pub fn parse_eof(payload: &[u8]) -> Result<StatusFlags, Malformed> {
    let mut reader = Reader::new(payload);
    if reader.u8("EOF header")? != EOF_HEADER {
        return Err(Malformed::Invalid("not an EOF packet"));
    }
    reader.u16("warnings")?;
    Ok(StatusFlags::from_bits_retain(reader.u16("status flags")?))
}

/// One change of session state, as `enum_session_state_type` numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracker<'a> {
    /// A system variable has a new value.
    Variable {
        /// Its name.
        name: &'a [u8],
        /// Its value as text.
        value: &'a [u8],
    },
    /// The default schema; empty when there is none any more.
    Schema(&'a [u8]),
    /// Some other state of the session changed: user variables, temporary tables, prepared statements.
    StateChange,
    /// GTIDs of what was committed (MySQL; MariaDB has the variable `last_gtid`).
    Gtids(&'a [u8]),
    /// Anything else, by its number.
    Other(u8),
}

/// Walks over the session state part of an OK packet. MariaDB puts several variables into one entry.
#[derive(Debug, Clone)]
pub struct Trackers<'a> {
    reader: Reader<'a>,
}

/// One entry as it stands in the packet, with what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its number: 0 variables, 1 schema, 2 state change, 3 GTIDs, 4 and 5 transaction.
    pub kind: u8,
    /// Its data.
    pub data: &'a [u8],
}

impl<'a> Trackers<'a> {
    /// The next entry.
    ///
    /// # Errors
    /// When the state is malformed.
    pub fn next_entry(&mut self) -> Result<Option<Entry<'a>>, Malformed> {
        if self.reader.is_empty() {
            return Ok(None);
        }
        let kind = self.reader.u8("tracker type")?;
        let data = self.reader.lenenc_bytes("tracker data")?;
        Ok(Some(Entry { kind, data }))
    }
}

impl<'a> Entry<'a> {
    /// The number of an entry with system variables.
    pub const VARIABLES: u8 = 0;

    /// Calls `each` for every change in this entry.
    ///
    /// # Errors
    /// When the entry is malformed.
    pub fn for_each(&self, mut each: impl FnMut(Tracker<'a>)) -> Result<(), Malformed> {
        let mut data = Reader::new(self.data);
        match self.kind {
            Self::VARIABLES => {
                while !data.is_empty() {
                    let name = data.lenenc_bytes("variable name")?;
                    let value = data.lenenc_bytes("variable value")?;
                    each(Tracker::Variable { name, value });
                }
            }
            1 => each(Tracker::Schema(data.lenenc_bytes("schema name")?)),
            2 => each(Tracker::StateChange),
            3 => {
                data.u8("GTID encoding")?;
                each(Tracker::Gtids(data.lenenc_bytes("GTIDs")?));
            }
            other => each(Tracker::Other(other)),
        }
        Ok(())
    }
}
