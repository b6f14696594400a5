//! A byte stream to a client or a server.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::TlsStream;

use super::compression::Compression;

/// A connection finds out within about two minutes that its peer is gone without a word.
const KEEPALIVE: TcpKeepalive = TcpKeepalive::new()
    .with_time(Duration::from_secs(60))
    .with_interval(Duration::from_secs(15))
    .with_retries(4);

/// A connection, with what was agreed to happen to its bytes.
#[derive(Debug)]
pub struct Stream {
    socket: Socket,
    /// Set when the login agreed on it; boxed because few connections have it.
    compression: Option<Box<Compression>>,
}

/// Plain or encrypted.
#[derive(Debug)]
enum Socket {
    Plain(TcpStream),
    /// Boxed because its state is large and most connections are plain.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Takes a connected socket: small packets leave at once, and a peer that vanishes is noticed.
    ///
    /// # Errors
    /// When the socket refuses an option.
    pub fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        SockRef::from(&socket).set_tcp_keepalive(&KEEPALIVE)?;
        Ok(Self { socket: Socket::Plain(socket), compression: None })
    }

    /// The socket, for TLS to begin on it; `None` when it has begun.
    pub fn into_plain(self) -> Option<TcpStream> {
        match self.socket {
            Socket::Plain(socket) => Some(socket),
            Socket::Tls(_) => None,
        }
    }

    /// The other end's address, unless it is gone.
    pub fn peer(&self) -> Option<SocketAddr> {
        let socket = match &self.socket {
            Socket::Plain(socket) => socket,
            Socket::Tls(stream) => stream.get_ref().0,
        };
        socket.peer_addr().ok()
    }

    /// Whether what passes cannot be read on the way.
    pub const fn is_encrypted(&self) -> bool {
        matches!(self.socket, Socket::Tls(_))
    }

    /// From here on packets travel compressed.
    pub fn compress(&mut self) {
        self.compression = Some(Box::default());
    }

    /// A command to a server begins.
    pub fn begin_command(&mut self) {
        if let Some(compression) = &mut self.compression {
            compression.begin_command();
        }
    }
}

impl From<TlsStream<TcpStream>> for Stream {
    fn from(stream: TlsStream<TcpStream>) -> Self {
        Self { socket: Socket::Tls(Box::new(stream)), compression: None }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match &mut this.compression {
            None => Pin::new(&mut this.socket).poll_read(cx, buf),
            Some(compression) => compression.poll_read(&mut this.socket, cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match &mut this.compression {
            None => Pin::new(&mut this.socket).poll_write(cx, buf),
            Some(compression) => compression.poll_write(&mut this.socket, cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(compression) = &mut this.compression {
            ready!(compression.poll_drain(&mut this.socket, cx))?;
        }
        Pin::new(&mut this.socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(compression) = &mut this.compression {
            ready!(compression.poll_drain(&mut this.socket, cx))?;
        }
        Pin::new(&mut this.socket).poll_shutdown(cx)
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
