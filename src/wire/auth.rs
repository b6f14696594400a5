//! Packets of the authentication exchange.

use super::{Malformed, err::ERR_HEADER, ok::OK_HEADER, reader::Reader, writer::PutField};
use bytes::BufMut;

/// What a server may send while it authenticates.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase.html>
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthPacket<'a> {
    /// Protocol::AuthSwitchRequest (0xFE): prove the password by another plugin.
    Switch(AuthSwitch<'a>),
    /// Protocol::AuthMoreData (0x01): the plugin's own data.
    More(&'a [u8]),
    /// Accepted.
    Ok,
    /// Refused.
    Err,
    /// Another step that plugins and the client settle between them (0x02: next factor).
    Other,
}

/// Protocol::AuthSwitchRequest.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_auth_switch_request.html>
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthSwitch<'a> {
    /// Plugin to use.
    pub plugin: &'a [u8], // string<NUL>
    /// The plugin's data: for password plugins the nonce and a zero byte.
    pub data: &'a [u8], // string<EOF>
}

impl<'a> AuthPacket<'a> {
    /// Reads the payload of a server's packet in the authentication phase.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        Ok(match reader.u8("authentication packet")? {
            OK_HEADER => Self::Ok,
            ERR_HEADER => Self::Err,
            0x01 => Self::More(reader.rest()),
            0xFE if reader.is_empty() => {
                return Err(Malformed::Invalid("the server asks for authentication from before 4.1"));
            }
            0xFE => {
                let plugin = reader.nul_bytes("plugin")?;
                Self::Switch(AuthSwitch { plugin, data: reader.rest() })
            }
            _ => Self::Other,
        })
    }
}

impl AuthSwitch<'_> {
    /// Appends the payload.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(0xFE);
        out.put_nul_bytes(self.plugin);
        out.put_slice(self.data);
    }
}

/// The payload of an AuthMoreData packet.
pub fn more_data(data: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(data.len() + 1);
    payload.put_u8(0x01);
    payload.put_slice(data);
    payload
}
