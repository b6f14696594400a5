//! Writing protocol fields and whole packets into a buffer.

use super::header::MAX_PACKET;
use bytes::BufMut;

/// Fields that `bytes::BufMut` does not know.
pub trait PutField: BufMut {
    /// `int<lenenc>`, in its shortest form.
    fn put_lenenc_int(&mut self, value: u64) {
        match value {
            0..=0xFA => self.put_uint_le(value, 1),
            0xFB..=0xFFFF => {
                self.put_u8(0xFC);
                self.put_uint_le(value, 2);
            }
            0x1_0000..=0xFF_FFFF => {
                self.put_u8(0xFD);
                self.put_uint_le(value, 3);
            }
            _ => {
                self.put_u8(0xFE);
                self.put_u64_le(value);
            }
        }
    }

    /// `string<lenenc>`.
    fn put_lenenc_bytes(&mut self, text: &[u8]) {
        self.put_lenenc_int(text.len() as u64);
        self.put_slice(text);
    }

    /// `string<NUL>`. A zero byte inside `text` ends it for the reader.
    fn put_nul_bytes(&mut self, text: &[u8]) {
        self.put_slice(text);
        self.put_u8(0);
    }
}

impl<B: BufMut + ?Sized> PutField for B {}

/// Appends `payload` as one logical packet, cut into several where it reaches 2^24-1 bytes, and gives the
/// sequence number that follows.
///
/// Source: "Sending More Than 16Mb"
/// (<https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html>): a payload that is
/// a multiple of 2^24-1 bytes ends with an empty packet.
pub fn put_packet(out: &mut Vec<u8>, mut seq: u8, payload: &[u8]) -> u8 {
    let mut rest = payload;
    loop {
        let (chunk, tail) = rest.split_at(rest.len().min(MAX_PACKET));
        out.put_uint_le(chunk.len() as u64, 3);
        out.put_u8(seq);
        out.put_slice(chunk);
        seq = seq.wrapping_add(1);
        rest = tail;
        if chunk.len() < MAX_PACKET {
            return seq;
        }
    }
}

/// Appends one packet whose payload is written by `put` and is known to be shorter than 2^24-1 bytes.
pub fn put_short_packet(out: &mut Vec<u8>, seq: u8, put: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.put_uint_le(0, 3);
    out.put_u8(seq);
    put(out);
    let len = out.len() - start - super::header::Header::LEN;
    let [a, b, c, ..] = len.to_le_bytes();
    if let Some(header) = out.get_mut(start..start + 3) {
        header.copy_from_slice(&[a, b, c]);
    }
}
