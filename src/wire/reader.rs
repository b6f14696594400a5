//! The only way to touch a peer's bytes: every read is checked and unsigned.

use super::Malformed;

/// Reads protocol fields from the front of a packet's payload.
///
/// Sources: MySQL "Integer Types" and "String Types"
/// (<https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_data_types.html>), MariaDB
/// "Protocol Data Types" (<https://mariadb.com/kb/en/protocol-data-types/>).
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte of `payload`.
    pub const fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }

    /// Bytes not read yet, without reading them.
    pub const fn remaining(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything was read.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// `string<EOF>`: everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// `string<n>`: exactly `len` bytes.
    ///
    /// # Errors
    /// [`Malformed::Truncated`] naming `field` when fewer are left; so do all the other reads.
    pub fn bytes(&mut self, len: usize, field: &'static str) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or(Malformed::Truncated(field))?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(Malformed::Truncated(field))?;
        self.rest = rest;
        Ok(*head)
    }

    /// `int<1>`.
    ///
    /// # Errors
    /// See [`Reader::bytes`].
    pub fn u8(&mut self, field: &'static str) -> Result<u8, Malformed> {
        self.array(field).map(u8::from_le_bytes)
    }

    /// `int<2>`.
    ///
    /// # Errors
    /// See [`Reader::bytes`].
    pub fn u16(&mut self, field: &'static str) -> Result<u16, Malformed> {
        self.array(field).map(u16::from_le_bytes)
    }

    /// `int<4>`.
    ///
    /// # Errors
    /// See [`Reader::bytes`].
    pub fn u32(&mut self, field: &'static str) -> Result<u32, Malformed> {
        self.array(field).map(u32::from_le_bytes)
    }

    /// `int<lenenc>`.
    ///
    /// # Errors
    /// See [`Reader::bytes`]; 0xFB (NULL) and 0xFF are no integers.
    pub fn lenenc_int(&mut self, field: &'static str) -> Result<u64, Malformed> {
        match self.u8(field)? {
            small @ 0..=0xFA => Ok(small.into()),
            0xFC => self.u16(field).map(u64::from),
            0xFD => {
                let [a, b, c] = self.array(field)?;
                Ok(u32::from_le_bytes([a, b, c, 0]).into())
            }
            0xFE => self.array(field).map(u64::from_le_bytes),
            0xFB | 0xFF => Err(Malformed::Invalid("a length-encoded integer begins with 0xFB or 0xFF")),
        }
    }

    /// `string<lenenc>`.
    ///
    /// # Errors
    /// See [`Reader::bytes`] and [`Reader::lenenc_int`].
    pub fn lenenc_bytes(&mut self, field: &'static str) -> Result<&'a [u8], Malformed> {
        let len = self.lenenc_int(field)?;
        self.bytes(usize::try_from(len).map_err(|_| Malformed::Truncated(field))?, field)
    }

    /// `string<NUL>`: up to a zero byte, which is dropped.
    ///
    /// # Errors
    /// [`Malformed::Truncated`] when there is no zero byte.
    pub fn nul_bytes(&mut self, field: &'static str) -> Result<&'a [u8], Malformed> {
        let end = self.rest.iter().position(|&b| b == 0).ok_or(Malformed::Truncated(field))?;
        let text = self.bytes(end, field)?;
        self.bytes(1, field)?;
        Ok(text)
    }

    /// `string<NUL>` at the end of a packet, where some peers leave the zero byte out.
    pub fn nul_bytes_or_rest(&mut self) -> &'a [u8] {
        match self.nul_bytes("string") {
            Ok(text) => text,
            Err(_) => self.rest(),
        }
    }
}
