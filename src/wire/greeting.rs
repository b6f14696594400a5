//! The server's first packet.

use super::{
    Capabilities, Malformed, StatusFlags,
    err::{ERR_HEADER, ErrPacket},
    reader::Reader,
    writer::PutField,
};
use bytes::BufMut;
use mysql_common::constants::{CapabilityFlags, MariadbCapabilities};

/// Random bytes by which a password is proven without sending it.
pub const NONCE_LEN: usize = 20;
/// See [`NONCE_LEN`].
pub type Nonce = [u8; NONCE_LEN];

/// Bytes of the nonce that stand in the packet's first half.
const NONCE_HEAD: usize = 8;

/// Protocol::HandshakeV10.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_v10.html>,
/// <https://mariadb.com/kb/en/connection/#initial-handshake-packet>
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// Version text, such as `9.7.4` or `5.5.5-10.11.6-MariaDB`.
    pub version: Vec<u8>, // string<NUL>
    /// The connection's id.
    pub connection_id: u32, // int<4>
    /// See [`Nonce`].
    pub nonce: Nonce, // string<8>, string<13>
    /// What the server can do.
    pub capabilities: Capabilities, // int<2>, int<2>; MariaDB: int<4> in the reserved bytes
    /// Default collation's number, low byte.
    pub collation: u8, // int<1>
    /// Status of the new session.
    pub status: StatusFlags, // int<2>
    /// Authentication plugin that `nonce` is for.
    pub plugin: Vec<u8>, // string<NUL>
}

/// A server's first packet: welcome or refusal.
#[derive(Debug)]
pub enum FirstPacket<'a> {
    /// The server goes on.
    Greeting(Greeting),
    /// The server refuses (too many connections, host blocked).
    Refused(ErrPacket<'a>),
}

impl FirstPacket<'_> {
    /// Reads the payload of a server's first packet.
    ///
    /// # Errors
    /// When it is neither a greeting of protocol 10 nor an ERR packet.
    pub fn parse(payload: &[u8]) -> Result<FirstPacket<'_>, Malformed> {
        if payload.first() == Some(&ERR_HEADER) {
            return ErrPacket::parse(payload).map(FirstPacket::Refused);
        }
        Greeting::parse(payload).map(FirstPacket::Greeting)
    }
}

impl Greeting {
    /// Reads a greeting's payload.
    ///
    /// # Errors
    /// When it is malformed or not of protocol 10 with 4.1 authentication.
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8("protocol version")? != 10 {
            return Err(Malformed::Invalid("the server does not speak protocol 10"));
        }
        let version = reader.nul_bytes("server version")?.to_vec();
        let connection_id = reader.u32("connection id")?;
        let head = reader.bytes(NONCE_HEAD, "nonce")?;
        reader.u8("filler")?;
        let low = reader.u16("capabilities")?;
        let collation = reader.u8("collation")?;
        let status = StatusFlags::from_bits_retain(reader.u16("status flags")?);
        let high = reader.u16("capabilities")?;
        let nonce_len = usize::from(reader.u8("length of the nonce")?);
        reader.bytes(6, "reserved bytes")?;
        let mariadb = reader.u32("reserved bytes")?;
        let flags = CapabilityFlags::from_bits_retain(u32::from(low) | u32::from(high) << 16);
        let mut nonce = Nonce::default();
        let tail = reader.bytes(nonce_len.saturating_sub(NONCE_HEAD).max(13), "nonce")?;
        for (to, from) in nonce.iter_mut().zip(head.iter().chain(tail)) {
            *to = *from;
        }
        let plugin = if flags.contains(CapabilityFlags::CLIENT_PLUGIN_AUTH) {
            reader.nul_bytes_or_rest().to_vec()
        } else {
            b"mysql_native_password".to_vec()
        };
        // MySQL keeps these bytes zero, and says by bit 0 that it is no MariaDB.
        let mariadb = if flags.contains(CapabilityFlags::CLIENT_LONG_PASSWORD) { 0 } else { mariadb };
        let capabilities = Capabilities { flags, mariadb: MariadbCapabilities::from_bits_retain(mariadb) };
        Ok(Self { version, connection_id, nonce, capabilities, collation, status, plugin })
    }

    /// Appends the payload.
    pub fn put(&self, out: &mut Vec<u8>) {
        let flags = u64::from(self.capabilities.flags.bits());
        let (head, tail) = self.nonce.split_at(NONCE_HEAD);
        out.put_u8(10);
        out.put_nul_bytes(&self.version);
        out.put_u32_le(self.connection_id);
        out.put_nul_bytes(head);
        out.put_uint_le(flags & 0xFFFF, 2);
        out.put_u8(self.collation);
        out.put_u16_le(self.status.bits());
        out.put_uint_le(flags >> 16, 2);
        out.put_uint_le(NONCE_LEN as u64 + 1, 1);
        out.put_bytes(0, 6);
        out.put_u32_le(self.capabilities.mariadb.bits());
        out.put_nul_bytes(tail);
        out.put_nul_bytes(&self.plugin);
    }
}
