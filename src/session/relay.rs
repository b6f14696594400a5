//! Bytes from one side to the other: a command to a server, its answer to the client. Memory stays the same
//! however long either is, since nothing is read while the other side has not taken what was there.

use std::time::Duration;

use super::state::State;
use crate::{
    backend::Connection,
    net::Stream,
    sql::Statement,
    wire::{
        Capabilities, Malformed, StatusFlags,
        command::Answer,
        err::ErrPacket,
        framed::{self, Framed, Head},
        header::{Header, Walk},
        ok::{EOF_HEADER, Entry, OkPacket, Tracker, parse_eof},
        response::{Event, Kind, PreparedOk, Scanner},
        writer::{PutField, put_short_packet},
    },
};

/// Bytes that may wait to be written before more is read.
const FLUSH_SIZE: usize = 64 * 1024;

/// Why an answer did not arrive whole.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The client failed.
    #[error("client: {0}")]
    Client(#[source] framed::Error),
    /// The server failed.
    #[error("server: {0}")]
    Server(#[source] framed::Error),
}

/// How an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The client has it.
    Delivered,
    /// It is this error, held back from the client. What came before it waits to be written too.
    Rejected(HeldError),
}

/// An ERR packet, header included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HeldError {
    /// The packet.
    pub packet: Vec<u8>,
}

impl HeldError {
    /// Its error code.
    pub(super) fn code(&self) -> Option<u16> {
        ErrPacket::parse(self.packet.get(Header::LEN..)?).ok().map(|err| err.code)
    }
}

/// What the relay tells the session about, and asks it.
pub(super) struct Listener<'a> {
    /// The session; `None` when the answer comes from a replica and so says nothing of its state.
    pub state: Option<&'a mut State>,
    /// The statement that is answered, if it is one.
    pub statement: Option<&'a Statement>,
    /// What the client agreed on; the server's connection may have more.
    pub client: Capabilities,
    /// Errors are held back, for another server to be tried.
    pub hold_errors: bool,
    /// What a prepare answer gave.
    pub prepared: Option<PreparedOk>,
    /// The status flags of the last OK or EOF.
    pub status: Option<StatusFlags>,
}

impl<'a> Listener<'a> {
    /// Listens to the primary, whose answers say what becomes of the session.
    pub(super) const fn to_primary(
        state: &'a mut State,
        statement: Option<&'a Statement>,
        client: Capabilities,
    ) -> Self {
        Self { state: Some(state), statement, client, hold_errors: false, prepared: None, status: None }
    }

    /// Listens to a replica.
    pub(super) const fn to_replica(client: Capabilities, hold_errors: bool) -> Self {
        Self { state: None, statement: None, client, hold_errors, prepared: None, status: None }
    }
}

/// The two sides.
pub(super) struct Relay<'a> {
    /// Who asked.
    pub client: &'a mut Framed<Stream>,
    /// Who answers.
    pub server: &'a mut Connection,
    /// For each piece of an answer.
    pub write_limit: Duration,
    /// Part of the answer is with the client already, or may be: nobody else can give it any more.
    pub sent: bool,
}

impl Relay<'_> {
    /// Sends the command at the front of the client's buffer, all of it, and takes it out of the buffer.
    ///
    /// # Errors
    /// When either side fails.
    pub(super) async fn send(&mut self, head: Head) -> Result<(), Error> {
        self.server.begin_forwarded();
        self.client.forward(head.len, &mut self.server.framed);
        if !head.is_complete() {
            self.send_rest(head).await?;
        }
        self.flush_server().await
    }

    async fn send_rest(&mut self, head: Head) -> Result<(), Error> {
        let mut walk = Walk::new(head.header);
        // What is in the buffer went already: move past it without looking.
        walk.skip(head.len - Header::LEN);
        while !walk.is_done() {
            let len = walk.advance(self.client.received()).map_err(client_malformed)?;
            if len > 0 {
                self.client.forward(len, &mut self.server.framed);
                self.flush_server().await?;
            } else if !self.client.fill().await.map_err(client_io)? {
                return Err(Error::Client(framed::Error::Cut));
            }
        }
        Ok(())
    }

    /// Sends what is in the server's write buffer.
    ///
    /// # Errors
    /// When the server fails.
    pub(super) async fn flush_server(&mut self) -> Result<(), Error> {
        self.server.framed.flush(self.write_limit).await.map_err(server_io)
    }

    /// Forwards the answer to the command that was sent.
    ///
    /// # Errors
    /// When either side fails.
    pub(super) async fn answer(
        &mut self,
        answer: Answer,
        listener: &mut Listener<'_>,
    ) -> Result<Outcome, Error> {
        let mut scanner = Scanner::new(self.server.capabilities, answer);
        while !scanner.is_done() {
            let event = scanner.next(self.server.framed.received());
            match event.map_err(server_malformed)? {
                Event::Pass(len) => self.server.framed.forward(len, self.client),
                Event::Packet { kind: Kind::Err, len } if listener.hold_errors && !self.sent => {
                    let packet = self.server.framed.received().get(..len).unwrap_or_default().to_vec();
                    self.server.framed.consume(len);
                    self.server.busy = false;
                    return Ok(Outcome::Rejected(HeldError { packet }));
                }
                Event::Packet { kind: Kind::LocalInfile, len } => {
                    self.server.framed.forward(len, self.client);
                    self.flush_client().await?;
                    self.send_file().await?;
                }
                Event::Packet { kind, len } => {
                    self.deliver(kind, len, listener).map_err(server_malformed)?;
                    self.server.framed.consume(len);
                }
                Event::NeedMore => {
                    // What arrived so far does not wait for more, unless an error may follow for which another
                    // server is to be tried.
                    if !listener.hold_errors || self.sent {
                        self.flush_client().await?;
                    }
                    let more = self.server.framed.fill().await.map_err(server_io)?;
                    if !more {
                        return Err(Error::Server(framed::Error::Cut));
                    }
                    continue;
                }
            }
            if self.client.tx.len() >= FLUSH_SIZE {
                self.flush_client().await?;
            }
        }
        self.server.busy = false;
        self.flush_client().await?;
        Ok(Outcome::Delivered)
    }

    /// The server took only a part of a command: it refused the rest, said so, and hung up. What it said is
    /// for the client; the session cannot go on, as the rest of the command is still on its way.
    pub(super) async fn hear_out(
        &mut self,
        error: Error,
        answer: Answer,
        listener: &mut Listener<'_>,
    ) -> Error {
        match error {
            Error::Server(_) if answer != Answer::None => {
                self.server.framed.tx.clear();
                self.answer(answer, listener).await.err().unwrap_or(error)
            }
            Error::Server(_) | Error::Client(_) => error,
        }
    }

    async fn flush_client(&mut self) -> Result<(), Error> {
        // Set beforehand: whoever stops waiting in the middle must not try again.
        self.sent |= !self.client.tx.is_empty();
        self.client.flush(self.write_limit).await.map_err(client_io)
    }

    /// Puts a packet that matters into the client's buffer, and tells the session of it.
    fn deliver(&mut self, kind: Kind, len: usize, listener: &mut Listener<'_>) -> Result<(), Malformed> {
        let packet = self.server.framed.received().get(..len).unwrap_or_default();
        let payload = packet.get(Header::LEN..).unwrap_or_default();
        match kind {
            Kind::End(status) => {
                listener.status = Some(status);
                put_end(packet, payload, self.server.capabilities, listener, &mut self.client.tx)?;
            }
            Kind::Prepared => {
                listener.prepared = Some(PreparedOk::parse(payload, self.server.capabilities)?);
                self.client.tx.extend_from_slice(packet);
            }
            Kind::Err => {
                if let Some(state) = &mut listener.state {
                    state.observe_error(ErrPacket::parse(payload)?.code, listener.statement);
                }
                self.client.tx.extend_from_slice(packet);
            }
            Kind::LocalInfile => self.client.tx.extend_from_slice(packet),
        }
        Ok(())
    }

    /// LOCAL INFILE: the client's packets go to the server, up to an empty one.
    /// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_local_infile_request.html>
    async fn send_file(&mut self) -> Result<(), Error> {
        loop {
            let head = self.client.read_command(FLUSH_SIZE).await.map_err(Error::Client)?;
            let head = head.ok_or(Error::Client(framed::Error::Cut))?;
            let is_end = head.header.len == 0;
            self.client.forward(head.len, &mut self.server.framed);
            if !head.is_complete() {
                self.send_rest(head).await?;
            }
            if is_end || self.server.framed.tx.len() >= FLUSH_SIZE {
                self.server.framed.flush(self.write_limit).await.map_err(server_io)?;
            }
            if is_end {
                return Ok(());
            }
        }
    }
}

/// Puts the end of a result for the client: what the proxy asked the server to track is taken out again.
pub(super) fn put_end(
    packet: &[u8],
    payload: &[u8],
    server: Capabilities,
    listener: &mut Listener<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    if payload.first() == Some(&EOF_HEADER) && !server.deprecate_eof() {
        let status = parse_eof(payload)?;
        out.extend_from_slice(packet);
        if let Some(state) = &mut listener.state {
            state.observe_status(status);
            if let Some(statement) = listener.statement {
                state.observe_eof(status, statement);
            }
            // The flag that something was tracked; the last byte holds it.
            if let Some(flags) = out.last_mut().filter(|_| !state.transparent) {
                *flags &= !TRACKED_FLAG;
            }
        }
        return Ok(());
    }
    let ok = OkPacket::parse(payload)?;
    let mut as_is = ok.state.is_empty();
    if let Some(state) = &mut listener.state {
        state.observe(&ok, listener.statement)?;
        as_is |= state.transparent && listener.client.session_track();
    }
    if as_is {
        out.extend_from_slice(packet);
        return Ok(());
    }
    let kept = if listener.client.session_track() { tracked_by_default(&ok)? } else { Vec::new() };
    let seq = Header::peek(packet).map_or(0, |header| header.seq);
    put_short_packet(out, seq, |out| OkPacket { state: &kept, ..ok }.put(out));
    Ok(())
}

/// The variables that servers track unless told otherwise (`session_track_system_variables`).
const TRACKED_BY_DEFAULT: [&[u8]; 5] = [
    b"autocommit",
    b"character_set_client",
    b"character_set_connection",
    b"character_set_results",
    b"time_zone",
];

/// The upper byte of SERVER_SESSION_STATE_CHANGED.
const TRACKED_FLAG: u8 = 0x40;

/// The part of an OK packet's session state that a client gets that asked for nothing special: these
/// variables, and what the proxy does not ask for.
fn tracked_by_default(ok: &OkPacket<'_>) -> Result<Vec<u8>, Malformed> {
    let mut kept = Vec::new();
    let mut trackers = ok.trackers();
    while let Some(entry) = trackers.next_entry()? {
        entry.for_each(|tracker| match tracker {
            Tracker::Variable { name, value } if TRACKED_BY_DEFAULT.contains(&name) => {
                let mut data = Vec::with_capacity(name.len() + value.len() + 2);
                data.put_lenenc_bytes(name);
                data.put_lenenc_bytes(value);
                kept.push(Entry::VARIABLES);
                kept.put_lenenc_bytes(&data);
            }
            Tracker::Schema(_) | Tracker::Other(_) => {
                kept.push(entry.kind);
                kept.put_lenenc_bytes(entry.data);
            }
            Tracker::Variable { .. } | Tracker::Gtids(_) | Tracker::StateChange => {}
        })?;
    }
    Ok(kept)
}

const fn client_io(error: std::io::Error) -> Error {
    Error::Client(framed::Error::Io(error))
}

const fn client_malformed(malformed: Malformed) -> Error {
    Error::Client(framed::Error::Malformed(malformed))
}

const fn server_io(error: std::io::Error) -> Error {
    Error::Server(framed::Error::Io(error))
}

const fn server_malformed(malformed: Malformed) -> Error {
    Error::Server(framed::Error::Malformed(malformed))
}
