//! COM_CHANGE_USER.

use super::{Capabilities, Command, Malformed, reader::Reader, writer::PutField};
use bytes::BufMut;
use mysql_common::constants::CapabilityFlags;

/// COM_CHANGE_USER's payload.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_change_user.html>
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeUser {
    /// New user.
    pub user: Vec<u8>, // string<NUL>
    /// Proof of the password by `plugin`.
    pub auth: Vec<u8>, // string<1> length and string
    /// New default schema; empty for none.
    pub schema: Vec<u8>, // string<NUL>
    /// New collation.
    pub collation: Option<u16>, // int<2>
    /// Authentication plugin.
    pub plugin: Vec<u8>, // string<NUL>
    /// Connection attributes as they came, without their length.
    pub attributes: Vec<u8>, // int<lenenc>, pairs
}

impl ChangeUser {
    /// Reads the payload, command byte included.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn parse(payload: &[u8], capabilities: Capabilities) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        reader.u8("command")?;
        let user = reader.nul_bytes("user")?.to_vec();
        let auth = if capabilities.has(CapabilityFlags::CLIENT_SECURE_CONNECTION) {
            let len = reader.u8("length of the authentication data")?;
            reader.bytes(len.into(), "authentication data")?.to_vec()
        } else {
            reader.nul_bytes("authentication data")?.to_vec()
        };
        let schema = reader.nul_bytes_or_rest().to_vec();
        let collation = if reader.is_empty() { None } else { Some(reader.u16("collation")?) };
        let plugin = if capabilities.has(CapabilityFlags::CLIENT_PLUGIN_AUTH) {
            reader.nul_bytes_or_rest().to_vec()
        } else {
            Vec::new()
        };
        let attributes = if capabilities.has(CapabilityFlags::CLIENT_CONNECT_ATTRS) && !reader.is_empty() {
            reader.lenenc_bytes("connection attributes")?.to_vec()
        } else {
            Vec::new()
        };
        Ok(Self { user, auth, schema, collation, plugin, attributes })
    }

    /// Appends the payload, command byte included.
    pub fn put(&self, out: &mut Vec<u8>, capabilities: Capabilities) {
        out.put_u8(Command::COM_CHANGE_USER as u8);
        out.put_nul_bytes(&self.user);
        out.put_uint_le(self.auth.len() as u64, 1);
        out.put_slice(&self.auth);
        out.put_nul_bytes(&self.schema);
        out.put_u16_le(self.collation.unwrap_or_default());
        if capabilities.has(CapabilityFlags::CLIENT_PLUGIN_AUTH) {
            out.put_nul_bytes(&self.plugin);
        }
        if capabilities.has(CapabilityFlags::CLIENT_CONNECT_ATTRS) {
            out.put_lenenc_bytes(&self.attributes);
        }
    }
}
