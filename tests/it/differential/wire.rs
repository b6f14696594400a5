//! Packets on a socket and nothing more: the framing of the client/server protocol, written for the tests and
//! independent of the library under test, with every received byte kept.
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html>

use std::io::{BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The largest payload of one packet; a payload of this length or more continues in the next packet.
pub(super) const MAX_PAYLOAD: usize = 0xff_ffff;

/// A silent peer is an error, not a test that never ends.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A socket that speaks packets.
pub(super) struct Wire {
    stream: BufReader<TcpStream>,
    sequence: u8,
    record: Vec<u8>,
}

impl Wire {
    pub(super) fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self { stream: BufReader::new(stream), sequence: 0, record: Vec::new() })
    }

    /// Starts a new exchange: the sequence is at 0 again and nothing is recorded.
    pub(super) fn begin(&mut self) {
        self.sequence = 0;
        self.record.clear();
    }

    /// What was received since [`Wire::begin`], headers included.
    pub(super) const fn record(&mut self) -> &mut Vec<u8> {
        &mut self.record
    }

    /// Sends one payload in as many packets as it takes, each in a write of its own.
    pub(super) fn send(&mut self, payload: &[u8]) -> Result<()> {
        let mut rest = payload;
        loop {
            let (part, remainder) = rest.split_at(rest.len().min(MAX_PAYLOAD));
            let length = u32::try_from(part.len()).map_err(Error::other)?;
            let mut packet = Vec::with_capacity(part.len() + 4);
            packet.extend_from_slice(&length.to_le_bytes()[..3]);
            packet.push(self.sequence);
            packet.extend_from_slice(part);
            self.stream.get_mut().write_all(&packet)?;
            self.sequence = self.sequence.wrapping_add(1);
            rest = remainder;
            if part.len() < MAX_PAYLOAD {
                return Ok(());
            }
        }
    }

    /// Receives one payload, whatever the number of packets it comes in.
    pub(super) fn receive(&mut self) -> Result<Vec<u8>> {
        let mut payload = Vec::new();
        loop {
            let mut header = [0; 4];
            self.stream.read_exact(&mut header)?;
            let [a, b, c, sequence] = header;
            if sequence != self.sequence {
                let text = format!("sequence {sequence} instead of {}", self.sequence);
                return Err(Error::new(ErrorKind::InvalidData, text));
            }
            self.sequence = self.sequence.wrapping_add(1);
            let length = u32::from_le_bytes([a, b, c, 0]) as usize;
            let start = payload.len();
            payload.resize(start + length, 0);
            self.stream.read_exact(&mut payload[start..])?;
            self.record.extend_from_slice(&header);
            self.record.extend_from_slice(&payload[start..]);
            if length < MAX_PAYLOAD {
                return Ok(payload);
            }
        }
    }

    /// Waits for the peer to close the connection.
    pub(super) fn receive_end(&mut self) -> Result<()> {
        match self.stream.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(Error::new(ErrorKind::InvalidData, "bytes instead of the end of the connection")),
        }
    }
}

/// Reads a length-encoded integer from the front of `bytes`.
pub(super) fn lenenc(bytes: &mut &[u8]) -> Result<u64> {
    let width = match take(bytes, 1)? {
        [0xfc] => 2,
        [0xfd] => 3,
        [0xfe] => 8,
        [small @ ..=0xfb] => return Ok(u64::from(*small)),
        _ => return Err(Error::new(ErrorKind::InvalidData, "not a length-encoded integer")),
    };
    let mut value = [0; 8];
    value[..width].copy_from_slice(take(bytes, width)?);
    Ok(u64::from_le_bytes(value))
}

/// Takes bytes behind their length from the front.
pub(super) fn lenenc_bytes<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8]> {
    let length = lenenc(bytes)?;
    take(bytes, usize::try_from(length).map_err(Error::other)?)
}

/// Appends a length-encoded integer.
pub(super) fn push_lenenc(out: &mut Vec<u8>, value: usize) {
    let bytes = (value as u64).to_le_bytes();
    match value {
        0..=250 => out.push(bytes[0]),
        251..=0xffff => out.extend([&[0xfc], &bytes[..2]].concat()),
        0x1_0000..=0xff_ffff => out.extend([&[0xfd], &bytes[..3]].concat()),
        _ => out.extend([&[0xfe], &bytes[..]].concat()),
    }
}

/// Appends `bytes` behind their length.
pub(super) fn push_lenenc_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_lenenc(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Takes `count` bytes from the front.
pub(super) fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8]> {
    let (head, tail) = bytes.split_at_checked(count).ok_or(ErrorKind::UnexpectedEof)?;
    *bytes = tail;
    Ok(head)
}

/// Takes the bytes before the next NUL from the front, and drops the NUL.
pub(super) fn take_until_nul<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8]> {
    let length = bytes.iter().position(|byte| *byte == 0).ok_or(ErrorKind::UnexpectedEof)?;
    let head = take(bytes, length)?;
    take(bytes, 1)?;
    Ok(head)
}

/// Takes a little-endian 16-bit integer from the front.
pub(super) fn take_u16(bytes: &mut &[u8]) -> Result<u16> {
    let field = take(bytes, 2)?.try_into().map_err(Error::other)?;
    Ok(u16::from_le_bytes(field))
}

/// Takes a little-endian 32-bit integer from the front.
pub(super) fn take_u32(bytes: &mut &[u8]) -> Result<u32> {
    let field = take(bytes, 4)?.try_into().map_err(Error::other)?;
    Ok(u32::from_le_bytes(field))
}
