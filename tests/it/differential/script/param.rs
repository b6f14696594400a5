//! Parameters of a prepared statement in the binary protocol.
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html>

use super::super::wire::push_lenenc_bytes;

/// One parameter as it goes over the wire.
#[derive(Clone)]
pub(in super::super) struct Param {
    /// The type's number in the protocol.
    pub(in super::super) kind: u8,
    pub(in super::super) unsigned: bool,
    pub(in super::super) null: bool,
    pub(in super::super) bytes: Vec<u8>,
}

pub(super) const BLOB: u8 = 0xfc;
pub(super) const VAR_STRING: u8 = 0xfd;

impl Param {
    /// A number or time of `kind` in its binary form.
    pub(super) fn fixed(kind: u8, bytes: &[u8]) -> Self {
        Self { kind, unsigned: false, null: false, bytes: bytes.to_vec() }
    }

    pub(super) fn unsigned(kind: u8, bytes: &[u8]) -> Self {
        Self { unsigned: true, ..Self::fixed(kind, bytes) }
    }

    /// A value of `kind` behind its length.
    pub(super) fn sized(kind: u8, value: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(value.len() + 9);
        push_lenenc_bytes(&mut bytes, value);
        Self { kind, unsigned: false, null: false, bytes }
    }

    pub(super) fn text(value: &str) -> Self {
        Self::sized(VAR_STRING, value.as_bytes())
    }

    pub(super) fn int(value: i32) -> Self {
        Self::fixed(0x03, &value.to_le_bytes())
    }

    pub(super) const fn null(kind: u8) -> Self {
        Self { kind, unsigned: false, null: true, bytes: Vec::new() }
    }

    /// A value that went ahead with COM_STMT_SEND_LONG_DATA.
    pub(super) const fn long(kind: u8) -> Self {
        Self { kind, unsigned: false, null: false, bytes: Vec::new() }
    }
}
