//! A stream of packets with its two buffers: the only place where the protocol meets a socket.

use super::{
    Malformed,
    header::{Header, MAX_PACKET},
    writer::put_packet,
};
use bytes::{Buf, BytesMut};
use std::{io, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

/// Bytes that one read may bring; a buffer is never smaller.
const READ_SIZE: usize = 16 * 1024;
/// A buffer that grew larger than this is given back when it is empty.
const KEEP_SIZE: usize = 256 * 1024;

/// Why a packet could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The stream failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The stream ended in the middle of a packet.
    #[error("the connection ended inside a packet")]
    Cut,
    /// A packet was longer than allowed here.
    #[error("a packet is longer than {0} bytes")]
    TooLong(usize),
    /// The bytes are no packet.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl Error {
    /// Whether the peer ended the connection, rather than said something wrong or nothing in time.
    pub fn is_hang_up(&self) -> bool {
        match self {
            Self::Io(error) => matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
            ),
            Self::Cut => true,
            Self::TooLong(_) | Self::Malformed(_) => false,
        }
    }
}

/// A logical packet: its payload, and the sequence number due next.
#[derive(Debug)]
pub struct Packet {
    /// Payload.
    pub payload: Vec<u8>,
    /// The number that follows it.
    pub next_seq: u8,
}

impl Packet {
    /// The packet, if it is the one that was due. Of several pieces the last one counts.
    ///
    /// # Errors
    /// [`Malformed::OutOfOrder`].
    pub fn numbered(self, due: u8) -> Result<Self, Malformed> {
        let received = self.next_seq.wrapping_sub(1);
        if received == due { Ok(self) } else { Err(Malformed::OutOfOrder { expected: due, received }) }
    }
}

/// The beginning of a command in the read buffer.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    /// Its first header.
    pub header: Header,
    /// Bytes of its first packet that are in the buffer, header included.
    pub len: usize,
}

impl Head {
    /// Whether the whole command is in the buffer.
    pub const fn is_complete(&self) -> bool {
        self.len == Header::LEN + self.header.len && !self.header.is_continued()
    }
}

/// A stream of packets.
#[derive(Debug)]
pub struct Framed<S> {
    stream: S,
    rx: BytesMut,
    /// Bytes to be written by the next [`Framed::flush`].
    pub tx: Vec<u8>,
}

impl<S> Framed<S> {
    /// Takes a fresh stream.
    pub fn new(stream: S) -> Self {
        Self { stream, rx: BytesMut::with_capacity(READ_SIZE), tx: Vec::with_capacity(READ_SIZE) }
    }

    /// Gives the stream back, for TLS to begin on it; what was received already is lost, so the caller
    /// makes sure that there is nothing.
    pub fn into_stream(self) -> S {
        self.stream
    }

    /// The stream.
    pub const fn stream(&self) -> &S {
        &self.stream
    }

    /// The stream, to change what happens to its bytes.
    pub const fn stream_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Bytes received and not consumed.
    pub fn received(&self) -> &[u8] {
        &self.rx
    }

    /// What was received of the command that `head` speaks of, without its header.
    pub fn command(&self, head: Head) -> &[u8] {
        self.rx.get(Header::LEN..head.len).unwrap_or_default()
    }

    /// Drops the first `len` received bytes.
    pub fn consume(&mut self, len: usize) {
        self.rx.advance(len.min(self.rx.len()));
        if self.rx.is_empty() && self.rx.capacity() > KEEP_SIZE {
            self.rx = BytesMut::with_capacity(READ_SIZE);
        }
    }

    /// Moves the first `len` received bytes to `other`'s write buffer.
    pub fn forward<T>(&mut self, len: usize, other: &mut Framed<T>) {
        let len = len.min(self.rx.len());
        if let Some(bytes) = self.rx.get(..len) {
            other.tx.extend_from_slice(bytes);
        }
        self.consume(len);
    }

    /// Appends a logical packet to the write buffer and gives the number due next.
    pub fn put(&mut self, seq: u8, payload: &[u8]) -> u8 {
        put_packet(&mut self.tx, seq, payload)
    }
}

impl<S: AsyncRead + Unpin> Framed<S> {
    /// Reads once. False at the end of the stream.
    ///
    /// # Cancellation safety
    /// Safe: either bytes are in the buffer or nothing was read.
    ///
    /// # Errors
    /// When the stream fails.
    pub async fn fill(&mut self) -> io::Result<bool> {
        self.rx.reserve(READ_SIZE);
        Ok(self.stream.read_buf(&mut self.rx).await? > 0)
    }

    /// Waits until a command is in the buffer, or as much of it as `cap` payload bytes, and says where it
    /// is. `None` when the stream ended between two commands.
    ///
    /// # Cancellation safety
    /// Safe: nothing is consumed.
    ///
    /// # Errors
    /// When the stream fails or ends inside a command.
    pub async fn read_command(&mut self, cap: usize) -> Result<Option<Head>, Error> {
        loop {
            if let Some(header) = Header::peek(&self.rx) {
                let whole = Header::LEN + header.len;
                if self.rx.len() >= whole.min(Header::LEN + cap) {
                    return Ok(Some(Head { header, len: whole.min(self.rx.len()) }));
                }
            }
            if !self.fill().await? {
                return if self.rx.is_empty() { Ok(None) } else { Err(Error::Cut) };
            }
        }
    }

    /// Reads one logical packet of at most `limit` payload bytes.
    ///
    /// # Cancellation safety
    /// Not safe for packets of 2^24-1 bytes and more: a continuation may be lost.
    ///
    /// # Errors
    /// When the stream fails, ends, or the packet is too long.
    pub async fn read_packet(&mut self, limit: usize) -> Result<Packet, Error> {
        let mut payload = Vec::new();
        loop {
            let header = self.read_whole(limit - payload.len(), limit).await?;
            if let Some(chunk) = self.rx.get(Header::LEN..Header::LEN + header.len) {
                payload.extend_from_slice(chunk);
            }
            self.consume(Header::LEN + header.len);
            if header.len < MAX_PACKET {
                return Ok(Packet { payload, next_seq: header.seq.wrapping_add(1) });
            }
        }
    }

    /// Reads one packet and not a byte behind it: what follows a request for TLS is not for this reader.
    ///
    /// # Cancellation safety
    /// Safe: nothing is consumed before the packet is whole.
    ///
    /// # Errors
    /// See [`Framed::read_packet`].
    pub async fn read_packet_only(&mut self, limit: usize) -> Result<Packet, Error> {
        loop {
            let missing = match Header::peek(&self.rx) {
                Some(header) if header.len > limit => return Err(Error::TooLong(limit)),
                Some(header) => (Header::LEN + header.len).saturating_sub(self.rx.len()),
                None => Header::LEN.saturating_sub(self.rx.len()),
            };
            if missing == 0 {
                return self.read_packet(limit).await;
            }
            let mut bounded = (&mut self.stream).take(missing as u64);
            if bounded.read_buf(&mut self.rx).await? == 0 {
                return Err(if self.rx.is_empty() {
                    io::ErrorKind::UnexpectedEof.into()
                } else {
                    Error::Cut
                });
            }
        }
    }

    async fn read_whole(&mut self, room: usize, limit: usize) -> Result<Header, Error> {
        loop {
            if let Some(header) = Header::peek(&self.rx) {
                if header.len > room {
                    return Err(Error::TooLong(limit));
                }
                if self.rx.len() >= Header::LEN + header.len {
                    return Ok(header);
                }
            }
            if !self.fill().await? {
                return Err(if self.rx.is_empty() {
                    io::ErrorKind::UnexpectedEof.into()
                } else {
                    Error::Cut
                });
            }
        }
    }
}

impl From<io::ErrorKind> for Error {
    fn from(kind: io::ErrorKind) -> Self {
        Self::Io(kind.into())
    }
}

impl<S: AsyncWrite + Unpin> Framed<S> {
    /// Writes everything in the write buffer, waiting at most `limit` for the peer to take it.
    ///
    /// # Cancellation safety
    /// Not safe: part of the buffer may have been written.
    ///
    /// # Errors
    /// When the stream fails, or [`io::ErrorKind::TimedOut`].
    pub async fn flush(&mut self, limit: Duration) -> io::Result<()> {
        if self.tx.is_empty() {
            return Ok(());
        }
        let write = async {
            self.stream.write_all(&self.tx).await?;
            self.stream.flush().await
        };
        timeout(limit, write).await.map_err(|_| io::ErrorKind::TimedOut)??;
        self.tx.clear();
        if self.tx.capacity() > KEEP_SIZE {
            self.tx = Vec::with_capacity(READ_SIZE);
        }
        Ok(())
    }

    /// Closes the write side, as far as the peer allows it.
    pub async fn shutdown(&mut self) {
        // The peer may be gone already, and then there is nothing to close.
        let _ = timeout(Duration::from_secs(1), self.stream.shutdown()).await;
    }
}

/// Copies bytes both ways until both sides have ended, what is buffered first.
///
/// # Errors
/// When a stream fails.
pub async fn tunnel<A, B>(a: &mut Framed<A>, b: &mut Framed<B>) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (from_a, from_b) = (a.rx.len(), b.rx.len());
    a.forward(from_a, b);
    b.forward(from_b, a);
    a.stream.write_all(&std::mem::take(&mut a.tx)).await?;
    b.stream.write_all(&std::mem::take(&mut b.tx)).await?;
    tokio::io::copy_bidirectional(&mut a.stream, &mut b.stream).await?;
    Ok(())
}
