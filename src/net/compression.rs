//! The compressed protocol: packets travel inside frames of their own.
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_compression_packet.html>

use std::{
    io::{self, Read, Write},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, BufMut, BytesMut};
use flate2::{read::ZlibDecoder, write::ZlibEncoder};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// `int<3>` length, `int<1>` number, `int<3>` length before compression (0: not compressed).
const HEADER: usize = 7;
/// Shorter payloads are not worth compressing; the servers use the same bound (MIN_COMPRESS_LENGTH).
const MIN_COMPRESSED: usize = 50;
/// Payload bytes put into one frame.
const MAX_PAYLOAD: usize = 1024 * 1024;
/// Bytes asked of the socket at a time.
const READ_SIZE: usize = 16 * 1024;

/// Both directions of a compressed connection.
#[derive(Debug, Default)]
pub(super) struct Compression {
    /// Received frames, the last maybe not whole.
    frames: BytesMut,
    /// What was inside the frames that were opened.
    plain: BytesMut,
    /// Frames to be sent.
    out: BytesMut,
    /// The number of the next frame, counted over both directions within a command.
    seq: u8,
}

impl Compression {
    /// A command begins: frames are numbered from zero.
    pub(super) const fn begin_command(&mut self) {
        self.seq = 0;
    }

    pub(super) fn poll_read<S: AsyncRead + Unpin>(
        &mut self,
        socket: &mut S,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.plain.is_empty() {
            if self.open_frame()? {
                continue;
            }
            self.frames.reserve(READ_SIZE);
            let read = std::pin::pin!(socket.read_buf(&mut self.frames));
            if ready!(read.poll(cx))? == 0 {
                let cut = !self.frames.is_empty();
                return Poll::Ready(if cut { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) });
            }
        }
        let len = self.plain.len().min(buf.remaining());
        buf.put_slice(&self.plain.split_to(len));
        Poll::Ready(Ok(()))
    }

    /// Opens the first frame, if it is whole.
    fn open_frame(&mut self) -> io::Result<bool> {
        let Some(&[a, b, c, seq, d, e, f]) = self.frames.first_chunk::<HEADER>() else { return Ok(false) };
        let length = |a: u8, b: u8, c: u8| usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
        let (len, plain_len) = (length(a, b, c), length(d, e, f));
        let Some(payload) = self.frames.get(HEADER..HEADER + len) else { return Ok(false) };
        if plain_len == 0 {
            self.plain.extend_from_slice(payload);
        } else {
            // The length was promised; what is longer is not read, what is shorter is refused.
            let mut text = Vec::new();
            ZlibDecoder::new(payload).take(plain_len as u64).read_to_end(&mut text)?;
            if text.len() != plain_len {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.plain.extend_from_slice(&text);
        }
        self.frames.advance(HEADER + len);
        self.seq = seq.wrapping_add(1);
        Ok(true)
    }

    pub(super) fn poll_write<S: AsyncWrite + Unpin>(
        &mut self,
        socket: &mut S,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_drain(socket, cx))?;
        let payload = buf.get(..MAX_PAYLOAD).unwrap_or(buf);
        self.put_frame(payload)?;
        // What the socket does not take now is taken by the next write or flush.
        if let Poll::Ready(result) = self.poll_drain(socket, cx) {
            result?;
        }
        Poll::Ready(Ok(payload.len()))
    }

    fn put_frame(&mut self, payload: &[u8]) -> io::Result<()> {
        let mut compressed = Vec::new();
        if payload.len() >= MIN_COMPRESSED {
            let mut encoder = ZlibEncoder::new(&mut compressed, flate2::Compression::default());
            encoder.write_all(payload)?;
            encoder.finish()?;
        }
        let (body, plain_len) = if compressed.is_empty() || compressed.len() >= payload.len() {
            (payload, 0)
        } else {
            (compressed.as_slice(), payload.len())
        };
        self.out.put_uint_le(body.len() as u64, 3);
        self.out.put_u8(self.seq);
        self.out.put_uint_le(plain_len as u64, 3);
        self.out.extend_from_slice(body);
        self.seq = self.seq.wrapping_add(1);
        Ok(())
    }

    /// Sends the frames that wait.
    pub(super) fn poll_drain<S: AsyncWrite + Unpin>(
        &mut self,
        socket: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.out.is_empty() {
            let sent = ready!(Pin::new(&mut *socket).poll_write(cx, &self.out))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.out.advance(sent);
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `written` reads as on the other side.
    fn read_back(written: &[u8]) -> io::Result<Vec<u8>> {
        let mut reader = Compression { frames: BytesMut::from(written), ..Compression::default() };
        while reader.open_frame()? {}
        Ok(reader.plain.to_vec())
    }

    #[test]
    fn frames_are_opened_again_whatever_they_hold() {
        for len in [0, 1, 49, 50, 51, 65_536, MAX_PAYLOAD] {
            for payload in [vec![b'x'; len], (0..len).map(|n| (n * 31 + n / 251).to_le_bytes()[0]).collect()]
            {
                let mut writer = Compression::default();
                writer.put_frame(&payload).unwrap();
                assert!(read_back(&writer.out).unwrap() == payload, "{len} bytes");
            }
        }
    }

    #[test]
    fn frames_are_numbered_over_both_directions() {
        let mut server =
            Compression { frames: BytesMut::from(&b"\x01\0\0\x04\0\0\0x"[..]), ..Compression::default() };
        assert!(server.open_frame().unwrap());
        server.put_frame(b"y").unwrap();
        assert_eq!(&server.out[..], b"\x01\0\0\x05\0\0\0y");
        server.begin_command();
        assert_eq!(server.seq, 0);
    }

    #[test]
    fn frames_that_lie_are_refused() {
        let mut writer = Compression::default();
        writer.put_frame(&[b'x'; 1000]).unwrap();
        let mut longer = writer.out.to_vec();
        longer[4] ^= 1;
        assert!(read_back(&longer).is_err());
        let mut broken = writer.out.to_vec();
        broken[9] ^= 0xFF;
        assert!(read_back(&broken).is_err());
        assert_eq!(read_back(&writer.out[..8]).unwrap(), b"");
    }
}
