//! A logged-in connection to a server.

use std::{io, time::Duration};

use tokio::time::timeout;

use super::Error;
use crate::{
    net::Stream,
    wire::{
        Capabilities, Command, Malformed,
        err::ERR_HEADER,
        framed::Framed,
        ok::{EOF_HEADER, EOF_MAX_LEN, OK_HEADER, OK_MIN_LEN, OkPacket},
        query,
        reader::Reader,
        response::{PreparedOk, definitions},
        writer::put_packet,
    },
};

/// Answers to the proxy's own questions are never longer than this many bytes.
const REPLY_LIMIT: usize = 1024 * 1024;
/// A server that does not take a farewell within this time goes without.
const QUIT_LIMIT: Duration = Duration::from_secs(1);

/// A logged-in connection.
#[derive(Debug)]
pub struct Connection {
    /// Packets from and to the server.
    pub framed: Framed<Stream>,
    /// What both sides agreed on.
    pub capabilities: Capabilities,
    /// The connection's id on the server.
    pub thread_id: u32,
    /// A command was begun and its answer is not over: nothing else may be written.
    pub busy: bool,
}

impl Connection {
    /// Takes a stream on which the login is over.
    pub const fn new(framed: Framed<Stream>, capabilities: Capabilities, thread_id: u32) -> Self {
        Self { framed, capabilities, thread_id, busy: false }
    }

    /// Runs a statement of the proxy's own, within `limit`, and gives the first column of its first row.
    /// After an error other than [`Error::Refused`] the connection is in no known state.
    ///
    /// # Errors
    /// When the server refuses the statement or cannot be heard.
    pub async fn ask(&mut self, sql: &[u8], limit: Duration) -> Result<Option<Vec<u8>>, Error> {
        timeout(limit, self.ask_unbounded(sql, limit)).await.map_err(|_| Error::Timeout(limit))?
    }

    /// Runs a statement of the proxy's own that has no rows, and gives its OK packet's payload.
    ///
    /// # Errors
    /// See [`Connection::ask`].
    pub async fn set(&mut self, sql: &[u8], limit: Duration) -> Result<Vec<u8>, Error> {
        let mut payload = Vec::with_capacity(sql.len() + 3);
        query::put(&mut payload, self.capabilities, sql);
        self.command(&payload, limit).await
    }

    /// COM_PING: its OK packet's payload.
    ///
    /// # Errors
    /// See [`Connection::ask`].
    pub async fn ping(&mut self, limit: Duration) -> Result<Vec<u8>, Error> {
        self.command(&[Command::COM_PING as u8], limit).await
    }

    /// COM_INIT_DB: makes `schema` the default.
    ///
    /// # Errors
    /// See [`Connection::ask`].
    pub async fn select_schema(&mut self, schema: &[u8], limit: Duration) -> Result<(), Error> {
        let payload = [&[Command::COM_INIT_DB as u8], schema].concat();
        self.command(&payload, limit).await.map(|_| ())
    }

    /// COM_RESET_CONNECTION: the session begins anew, with the server's settings instead of the login's.
    ///
    /// # Errors
    /// See [`Connection::ask`].
    pub async fn reset(&mut self, limit: Duration) -> Result<(), Error> {
        self.command(&[Command::COM_RESET_CONNECTION as u8], limit).await.map(|_| ())
    }

    /// COM_STMT_PREPARE, for a statement of the client's: its answer, whose definitions nobody needs twice.
    ///
    /// # Errors
    /// See [`Connection::ask`].
    pub async fn prepare(&mut self, sql: &[u8], limit: Duration) -> Result<PreparedOk, Error> {
        self.begin(&[&[Command::COM_STMT_PREPARE as u8], sql].concat());
        timeout(limit, self.prepared(limit)).await.map_err(|_| Error::Timeout(limit))?
    }

    async fn prepared(&mut self, limit: Duration) -> Result<PreparedOk, Error> {
        self.framed.flush(limit).await?;
        let prepared = PreparedOk::parse(&self.packet().await?, self.capabilities)?;
        for _ in 0..prepared.definition_packets(self.capabilities) {
            self.packet().await?;
        }
        self.busy = false;
        Ok(prepared)
    }

    /// COM_STMT_RESET: closes the statement's cursor.
    ///
    /// # Errors
    /// See [`Connection::ask`].
    pub async fn reset_statement(&mut self, id: u32, limit: Duration) -> Result<(), Error> {
        self.command(&statement_command(Command::COM_STMT_RESET, id), limit).await.map(|_| ())
    }

    /// COM_STMT_CLOSE, which has no answer.
    ///
    /// # Errors
    /// When the server cannot be written to within `limit`.
    pub async fn close_statement(&mut self, id: u32, limit: Duration) -> Result<(), Error> {
        let mut command = Vec::new();
        put_packet(&mut command, 0, &statement_command(Command::COM_STMT_CLOSE, id));
        Ok(self.send_unanswered(&command, limit).await?)
    }

    /// Sends a command, header included, that has no answer.
    ///
    /// # Errors
    /// When the server does not take it within `limit`.
    pub async fn send_unanswered(&mut self, command: &[u8], limit: Duration) -> io::Result<()> {
        self.framed.stream_mut().begin_command();
        self.framed.tx.extend_from_slice(command);
        self.framed.flush(limit).await
    }

    /// Sends a command that is answered by one packet, and gives that.
    async fn command(&mut self, payload: &[u8], limit: Duration) -> Result<Vec<u8>, Error> {
        self.begin(payload);
        self.framed.flush(limit).await?;
        let answer = timeout(limit, self.packet()).await.map_err(|_| Error::Timeout(limit))??;
        self.busy = false;
        Ok(answer)
    }

    /// Puts a command of the proxy's own into the write buffer.
    pub fn begin(&mut self, payload: &[u8]) {
        self.begin_forwarded();
        self.framed.put(0, payload);
    }

    /// A command of a client's is about to be put into the write buffer.
    pub fn begin_forwarded(&mut self) {
        self.busy = true;
        self.framed.stream_mut().begin_command();
    }

    /// COM_QUIT: the server need not wonder where its client went. In the middle of a command it would be
    /// taken for a part of that.
    pub async fn quit(&mut self) {
        if self.busy {
            return;
        }
        self.begin(&[Command::COM_QUIT as u8]);
        // A server that is gone needs no farewell.
        let _ = self.framed.flush(QUIT_LIMIT).await;
    }

    async fn ask_unbounded(&mut self, sql: &[u8], limit: Duration) -> Result<Option<Vec<u8>>, Error> {
        let mut payload = Vec::with_capacity(sql.len() + 3);
        query::put(&mut payload, self.capabilities, sql);
        self.begin(&payload);
        self.framed.flush(limit).await?;
        let head = self.packet().await?;
        match head.first() {
            Some(&OK_HEADER) if head.len() >= OK_MIN_LEN => {
                OkPacket::parse(&head)?;
                self.busy = false;
                Ok(None)
            }
            _ => self.rows(&head).await,
        }
    }

    /// Reads a result set whose first packet is `head`.
    async fn rows(&mut self, head: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let definitions = definitions(head, self.capabilities)?;
        for _ in 0..definitions + u64::from(!self.capabilities.deprecate_eof()) {
            self.packet().await?;
        }
        let mut first = None;
        loop {
            let row = self.packet().await?;
            let is_end = row.first() == Some(&EOF_HEADER)
                && (self.capabilities.deprecate_eof() || row.len() < EOF_MAX_LEN);
            if is_end {
                self.busy = false;
                return Ok(first);
            }
            if first.is_none() {
                first = Some(Reader::new(&row).lenenc_bytes("value")?.to_vec());
            }
        }
    }

    async fn packet(&mut self) -> Result<Vec<u8>, Error> {
        let payload = self.framed.read_packet(REPLY_LIMIT).await?.payload;
        match payload.first() {
            Some(&ERR_HEADER) => {
                self.busy = false;
                Err(Error::Refused(payload))
            }
            Some(_) => Ok(payload),
            None => Err(Malformed::Invalid("an empty packet came as an answer").into()),
        }
    }
}

fn statement_command(command: Command, id: u32) -> [u8; 5] {
    let [a, b, c, d] = id.to_le_bytes();
    [command as u8, a, b, c, d]
}
