//! Where an answer ends: follows a server's packets without decoding a row.

use super::{
    Capabilities, Malformed, StatusFlags,
    command::Answer,
    err::{ERR_HEADER, ErrPacket, PROGRESS_REPORT},
    header::{Header, MAX_PACKET, Walk},
    ok::{EOF_HEADER, EOF_MAX_LEN, OK_HEADER, OK_MIN_LEN, OkPacket, parse_eof},
    reader::Reader,
};

/// The first byte of a request for a file of the client's.
const LOCAL_INFILE_HEADER: u8 = 0xFB;
/// A column count with its flag has at most this many bytes.
const COLUMN_COUNT_MAX_LEN: usize = 10;

/// Follows one command's answer. Bytes go in as they arrive, in pieces of any size.
///
/// ```text
///            +-------------------- more results --------------------+
///            v                                                      |
/// First --> Columns --> ColumnsEnd --> Rows --------------------> (end)
///   |                                                               ^
///   +--> OK, ERR -------------------------------------------------- +
///   +--> LOCAL INFILE (the client's file, then First again)
///   +--> Prepared --> Definitions --------------------------------> (end)
/// ```
#[derive(Debug, Clone)]
pub struct Scanner {
    capabilities: Capabilities,
    state: State,
    /// The number of the packet that is due; `None` when the answer has not begun.
    seq: Option<u8>,
    /// The packet whose bytes pass by.
    walk: Walk,
    /// A cursor was asked for: the rows of a result may stay on the server.
    cursor: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    First(Answer),
    Columns { left: u64 },
    ColumnsEnd,
    Rows,
    OutParameters,
    Definitions { left: u32 },
    Done,
}

/// What the front of the buffer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// This many bytes need nobody's attention.
    Pass(usize),
    /// A packet to look at, complete, of this many bytes with its header.
    Packet {
        /// What it is.
        kind: Kind,
        /// Bytes, header included.
        len: usize,
    },
    /// The answer goes on in bytes that are not there yet, or it is at its end.
    NeedMore,
}

/// A packet that matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A result without rows, or the end of one with rows; the session's status with it.
    End(StatusFlags),
    /// An error; nothing follows.
    Err,
    /// The server wants a file; after it the answer goes on.
    LocalInfile,
    /// COM_STMT_PREPARE_OK.
    Prepared,
}

/// What to do with the packet at the front.
enum Look {
    /// Not enough of it is there to say.
    More,
    /// It passes by; then this state.
    Pass(State),
    /// Somebody must look at it; then this state.
    Stop(Kind, State),
}

impl Scanner {
    /// Waits for the answer to a command.
    pub const fn new(capabilities: Capabilities, answer: Answer) -> Self {
        let state = match answer {
            Answer::None | Answer::Tunnel => State::Done,
            Answer::Columns | Answer::Rows => State::Rows,
            Answer::CursorOrResults => State::First(Answer::Results),
            first => State::First(first),
        };
        let cursor = matches!(answer, Answer::CursorOrResults);
        Self { capabilities, state, seq: None, walk: Walk::new(Header { len: 0, seq: 0 }), cursor }
    }

    /// Whether the whole answer went by.
    pub fn is_done(&self) -> bool {
        self.state == State::Done && self.walk.is_done()
    }

    /// What the front of `buf` holds; the caller takes those bytes away before it asks again.
    ///
    /// # Errors
    /// When the bytes are no answer.
    pub fn next(&mut self, buf: &[u8]) -> Result<Event, Malformed> {
        let mut passed = 0;
        loop {
            let rest = buf.get(passed..).unwrap_or_default();
            if !self.walk.is_done() {
                passed += self.walk.advance(rest)?;
                if !self.walk.is_done() {
                    return Ok(Self::pass(passed));
                }
                self.seq = Some(self.walk.next_seq());
                continue;
            }
            let Some(header) = Header::peek(rest) else { return Ok(Self::pass(passed)) };
            if self.state == State::Done {
                return Ok(Self::pass(passed));
            }
            let payload = rest.get(Header::LEN..).unwrap_or_default();
            let payload = payload.get(..header.len).unwrap_or(payload);
            match self.look(header, payload)? {
                Look::More => return Ok(Self::pass(passed)),
                Look::Pass(state) => {
                    self.check_seq(header)?;
                    self.state = state;
                    self.walk = Walk::new(header);
                    passed += Header::LEN;
                }
                Look::Stop(..) if passed > 0 => return Ok(Event::Pass(passed)),
                Look::Stop(kind, state) => {
                    self.check_seq(header)?;
                    self.state = state;
                    self.seq = (kind != Kind::LocalInfile).then_some(header.seq.wrapping_add(1));
                    return Ok(Event::Packet { kind, len: Header::LEN + header.len });
                }
            }
        }
    }

    const fn pass(passed: usize) -> Event {
        if passed > 0 { Event::Pass(passed) } else { Event::NeedMore }
    }

    const fn check_seq(&self, header: Header) -> Result<(), Malformed> {
        match self.seq {
            Some(expected) if expected != header.seq => {
                Err(Malformed::OutOfOrder { expected, received: header.seq })
            }
            _ => Ok(()),
        }
    }

    fn look(&self, header: Header, payload: &[u8]) -> Result<Look, Malformed> {
        let Some(&first) = payload.first() else {
            return if header.len == 0 { self.look_at_empty() } else { Ok(Look::More) };
        };
        // A row may begin with 0xFE and be this long; packets to look at never are.
        if header.is_continued() && first != ERR_HEADER {
            return self.look_at_data();
        }
        let complete = payload.len() == header.len;
        if first == ERR_HEADER && !matches!(self.state, State::Definitions { .. }) {
            return if complete { self.look_at_err(payload) } else { Ok(Look::More) };
        }
        match self.state {
            State::Rows | State::OutParameters if first == EOF_HEADER && self.may_end_rows(header) => {
                self.when(complete, || self.look_at_end(payload))
            }
            State::ColumnsEnd => self.when(complete, || self.look_at_columns_end(payload)),
            State::First(answer) => self.look_at_first(answer, first, complete, payload),
            State::Columns { .. }
            | State::Rows
            | State::OutParameters
            | State::Definitions { .. }
            | State::Done => self.look_at_data(),
        }
    }

    fn when(
        &self,
        complete: bool,
        look: impl FnOnce() -> Result<Look, Malformed>,
    ) -> Result<Look, Malformed> {
        if complete { look() } else { Ok(Look::More) }
    }

    const fn may_end_rows(&self, header: Header) -> bool {
        if self.capabilities.deprecate_eof() { header.len < MAX_PACKET } else { header.len < EOF_MAX_LEN }
    }

    /// Column definitions, rows and definitions of a prepared statement pass by.
    fn look_at_data(&self) -> Result<Look, Malformed> {
        Ok(Look::Pass(match self.state {
            State::Columns { left } => self.after_columns(left.saturating_sub(1)),
            State::Rows => State::Rows,
            State::OutParameters => State::OutParameters,
            State::Definitions { left: 0 | 1 } => State::Done,
            State::Definitions { left } => State::Definitions { left: left - 1 },
            State::First(Answer::Text) => State::Done,
            State::First(_) | State::ColumnsEnd | State::Done => {
                return Err(Malformed::Invalid("a row came where none was due"));
            }
        }))
    }

    fn look_at_empty(&self) -> Result<Look, Malformed> {
        match self.state {
            State::Rows | State::First(Answer::Text) => self.look_at_data(),
            _ => Err(Malformed::Invalid("an empty packet came as an answer")),
        }
    }

    fn look_at_err(&self, payload: &[u8]) -> Result<Look, Malformed> {
        let err = ErrPacket::parse(payload)?;
        // SIGNAL can raise an error of this number too, with a SQLSTATE.
        let is_report =
            self.capabilities.progress_reports() && err.code == PROGRESS_REPORT && err.sqlstate.is_empty();
        Ok(if is_report { Look::Pass(self.state) } else { Look::Stop(Kind::Err, State::Done) })
    }

    fn look_at_first(
        &self,
        answer: Answer,
        first: u8,
        complete: bool,
        payload: &[u8],
    ) -> Result<Look, Malformed> {
        match (answer, first) {
            (Answer::Text, _) => self.look_at_data(),
            _ if !complete => Ok(Look::More),
            (Answer::Prepared, OK_HEADER) => self.look_at_prepared(payload),
            (Answer::Single, OK_HEADER | EOF_HEADER) => self.look_at_end(payload),
            (Answer::Results, OK_HEADER) if payload.len() >= OK_MIN_LEN => self.look_at_end(payload),
            (Answer::Results, LOCAL_INFILE_HEADER) => {
                Ok(Look::Stop(Kind::LocalInfile, State::First(Answer::Results)))
            }
            (Answer::Results, _) if payload.len() <= COLUMN_COUNT_MAX_LEN => {
                self.look_at_column_count(payload)
            }
            _ => Err(Malformed::Invalid("the first packet of an answer is of no known kind")),
        }
    }

    /// The end of a result: an OK packet, or an EOF packet where those are still in use.
    fn look_at_end(&self, payload: &[u8]) -> Result<Look, Malformed> {
        let status = if payload.first() == Some(&EOF_HEADER) && !self.capabilities.deprecate_eof() {
            parse_eof(payload)?
        } else {
            OkPacket::parse(payload)?.status
        };
        let more =
            self.state == State::OutParameters || status.contains(StatusFlags::SERVER_MORE_RESULTS_EXISTS);
        let state = if more { State::First(Answer::Results) } else { State::Done };
        Ok(Look::Stop(Kind::End(status), state))
    }

    fn look_at_column_count(&self, payload: &[u8]) -> Result<Look, Malformed> {
        Ok(Look::Pass(self.after_columns(definitions(payload, self.capabilities)?)))
    }

    const fn after_columns(&self, left: u64) -> State {
        match left {
            0 if self.capabilities.deprecate_eof() => State::Rows,
            0 => State::ColumnsEnd,
            left => State::Columns { left },
        }
    }

    /// The EOF behind the column definitions ends the answer when a cursor was opened for the client. The
    /// flag alone does not say so: cursors inside stored programs set it too.
    fn look_at_columns_end(&self, payload: &[u8]) -> Result<Look, Malformed> {
        let status = parse_eof(payload)?;
        let opened = status.contains(StatusFlags::SERVER_STATUS_CURSOR_EXISTS)
            && !status.contains(StatusFlags::SERVER_MORE_RESULTS_EXISTS);
        if self.cursor && opened {
            return self.look_at_end(payload);
        }
        let out = status.contains(StatusFlags::SERVER_PS_OUT_PARAMS);
        Ok(Look::Pass(if out { State::OutParameters } else { State::Rows }))
    }

    /// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_prepare.html>
    fn look_at_prepared(&self, payload: &[u8]) -> Result<Look, Malformed> {
        let left = PreparedOk::parse(payload, self.capabilities)?.definition_packets(self.capabilities);
        let state = if left == 0 { State::Done } else { State::Definitions { left } };
        Ok(Look::Stop(Kind::Prepared, state))
    }
}

/// How many column definitions follow the column count in `payload`: with CLIENT_OPTIONAL_RESULTSET_METADATA,
/// and with MariaDB's cached metadata, a flag behind the count may say that none does.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_text_resultset.html>
///
/// # Errors
/// When it is no column count.
pub fn definitions(payload: &[u8], capabilities: Capabilities) -> Result<u64, Malformed> {
    let mut reader = Reader::new(payload);
    let count = reader.lenenc_int("column count")?;
    let flagged = capabilities.optional_metadata() || capabilities.cache_metadata();
    let omitted = flagged && reader.u8("metadata flag")? == 0;
    if count == 0 {
        return Err(Malformed::Invalid("a result set without columns"));
    }
    Ok(if omitted { 0 } else { count })
}

/// COM_STMT_PREPARE_OK.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_prepare.html>
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreparedOk {
    /// The statement's id on this connection.
    pub id: u32, // int<4>
    /// Columns of its result.
    pub columns: u16, // int<2>
    /// Its parameters.
    pub params: u16, // int<2>
    /// Whether definitions of both follow.
    pub has_definitions: bool, // int<1>
}

impl PreparedOk {
    /// Reads the payload.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn parse(payload: &[u8], capabilities: Capabilities) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8("prepare header")? != OK_HEADER {
            return Err(Malformed::Invalid("not a prepare answer"));
        }
        let id = reader.u32("statement id")?;
        let columns = reader.u16("number of columns")?;
        let params = reader.u16("number of parameters")?;
        reader.u8("filler")?;
        let has_definitions = if capabilities.optional_metadata() && !reader.is_empty() {
            reader.u16("warnings")?;
            reader.u8("metadata flag")? != 0
        } else {
            true
        };
        Ok(Self { id, columns, params, has_definitions })
    }

    /// How many packets follow: definitions of parameters and columns, an EOF behind each kind where those
    /// are in use.
    pub const fn definition_packets(self, capabilities: Capabilities) -> u32 {
        let eof = if capabilities.deprecate_eof() { 0 } else { 1 };
        let mut packets = 0;
        if self.has_definitions && self.params > 0 {
            packets += self.params as u32 + eof;
        }
        if self.has_definitions && self.columns > 0 {
            packets += self.columns as u32 + eof;
        }
        packets
    }
}
