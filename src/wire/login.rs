//! The client's answer to the greeting.

use super::{Capabilities, Malformed, reader::Reader, writer::PutField};
use bytes::BufMut;
use mysql_common::constants::{CapabilityFlags, MariadbCapabilities};

/// Bytes of the fixed part, which is all that a request for TLS has.
const FIXED_LEN: usize = 32;

/// Protocol::HandshakeResponse41.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_response.html>,
/// <https://mariadb.com/kb/en/connection/#client-handshake-response>
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// What the client wants to use.
    pub capabilities: Capabilities, // int<4>; MariaDB: int<4> at the end of the filler
    /// Largest packet that the client takes, in bytes.
    pub max_packet: u32, // int<4>
    /// The client's collation, low byte.
    pub collation: u8, // int<1>
    /// User name.
    pub user: Vec<u8>, // string<NUL>
    /// Proof of the password by `plugin`.
    pub auth: Vec<u8>, // string<lenenc> or string<1> length and string
    /// Default schema; empty for none.
    pub schema: Vec<u8>, // string<NUL>
    /// Authentication plugin; empty when the client named none.
    pub plugin: Vec<u8>, // string<NUL>
    /// Connection attributes as they came, without their length; empty for none.
    pub attributes: Vec<u8>, // int<lenenc>, (string<lenenc>, string<lenenc>)*
}

/// A client's first packet.
#[derive(Debug)]
pub enum FirstAnswer {
    /// Protocol::SSLRequest: TLS begins, the login comes again inside it.
    Tls,
    /// The login.
    Login(Login),
}

impl FirstAnswer {
    /// Reads the payload of a client's first packet.
    ///
    /// # Errors
    /// When it is no login of protocol 4.1.
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let flags = CapabilityFlags::from_bits_retain(Reader::new(payload).u32("capabilities")?);
        if payload.len() == FIXED_LEN && flags.contains(CapabilityFlags::CLIENT_SSL) {
            return Ok(Self::Tls);
        }
        Login::parse(payload).map(Self::Login)
    }
}

impl Login {
    /// Reads a login's payload.
    ///
    /// # Errors
    /// When it is malformed or of a protocol before 4.1.
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        let flags = CapabilityFlags::from_bits_retain(reader.u32("capabilities")?);
        if !flags.contains(CapabilityFlags::CLIENT_PROTOCOL_41) {
            return Err(Malformed::Invalid("the client speaks a protocol older than 4.1"));
        }
        let max_packet = reader.u32("largest packet")?;
        let collation = reader.u8("collation")?;
        reader.bytes(19, "filler")?;
        let mariadb = reader.u32("filler")?;
        let user = reader.nul_bytes("user")?.to_vec();
        let auth = read_auth(&mut reader, flags)?.to_vec();
        let schema = if flags.contains(CapabilityFlags::CLIENT_CONNECT_WITH_DB) && !reader.is_empty() {
            reader.nul_bytes_or_rest().to_vec()
        } else {
            Vec::new()
        };
        let plugin = if flags.contains(CapabilityFlags::CLIENT_PLUGIN_AUTH) {
            reader.nul_bytes_or_rest().to_vec()
        } else {
            Vec::new()
        };
        let attributes = if flags.contains(CapabilityFlags::CLIENT_CONNECT_ATTRS) && !reader.is_empty() {
            reader.lenenc_bytes("connection attributes")?.to_vec()
        } else {
            Vec::new()
        };
        let mariadb = if flags.contains(CapabilityFlags::CLIENT_LONG_PASSWORD) { 0 } else { mariadb };
        let capabilities = Capabilities { flags, mariadb: MariadbCapabilities::from_bits_retain(mariadb) };
        Ok(Self { capabilities, max_packet, collation, user, auth, schema, plugin, attributes })
    }

    /// Appends the fixed part, which alone is a request for TLS.
    pub fn put_tls_request(&self, out: &mut Vec<u8>) {
        out.put_u32_le(self.capabilities.flags.bits());
        out.put_u32_le(self.max_packet);
        out.put_u8(self.collation);
        out.put_bytes(0, 19);
        out.put_u32_le(self.capabilities.mariadb.bits());
    }

    /// Appends the payload; fields whose capability is not set are left out.
    pub fn put(&self, out: &mut Vec<u8>) {
        self.put_tls_request(out);
        out.put_nul_bytes(&self.user);
        if self.capabilities.has(CapabilityFlags::CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA) {
            out.put_lenenc_bytes(&self.auth);
        } else {
            out.put_uint_le(self.auth.len() as u64, 1);
            out.put_slice(&self.auth);
        }
        if self.capabilities.has(CapabilityFlags::CLIENT_CONNECT_WITH_DB) {
            out.put_nul_bytes(&self.schema);
        }
        if self.capabilities.has(CapabilityFlags::CLIENT_PLUGIN_AUTH) {
            out.put_nul_bytes(&self.plugin);
        }
        if self.capabilities.has(CapabilityFlags::CLIENT_CONNECT_ATTRS) {
            out.put_lenenc_bytes(&self.attributes);
        }
    }
}

/// The value of a connection attribute, in attributes as they came.
pub fn attribute<'a>(attributes: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut reader = Reader::new(attributes);
    while !reader.is_empty() {
        let key = reader.lenenc_bytes("attribute's name").ok()?;
        let value = reader.lenenc_bytes("attribute's value").ok()?;
        if key == name {
            return Some(value);
        }
    }
    None
}

/// The password proof, in the form that `flags` announce.
///
/// # Errors
/// When it is cut off.
pub fn read_auth<'a>(reader: &mut Reader<'a>, flags: CapabilityFlags) -> Result<&'a [u8], Malformed> {
    if flags.contains(CapabilityFlags::CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA) {
        reader.lenenc_bytes("authentication data")
    } else if flags.contains(CapabilityFlags::CLIENT_SECURE_CONNECTION) {
        let len = reader.u8("length of the authentication data")?;
        reader.bytes(len.into(), "authentication data")
    } else {
        reader.nul_bytes("authentication data")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_by_their_name() {
        let mut attributes = Vec::new();
        for text in ["_pid", "12", "ramsplit_scope", "web", "empty", ""] {
            attributes.put_lenenc_bytes(text.as_bytes());
        }
        assert_eq!(attribute(&attributes, b"ramsplit_scope"), Some(&b"web"[..]));
        assert_eq!(attribute(&attributes, b"empty"), Some(&b""[..]));
        assert_eq!(attribute(&attributes, b"web"), None, "a value is no name");
        attributes.truncate(attributes.len() - 3);
        assert_eq!(attribute(&attributes, b"empty"), None, "it is cut off");
    }
}
