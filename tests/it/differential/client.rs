//! One connection of the test's own client: sends what a step says and reads exactly its answer, finding the
//! answer's end by the protocol's rules, independent of the library under test.
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_command_phase.html>

use std::collections::HashMap;
use std::io::{Error, Result};
use std::net::SocketAddr;

use super::capability::{DEPRECATE_EOF, QUERY_ATTRIBUTES, SESSION_TRACK};
use super::login::{self, Account, Greeting};
use super::script::{Action, Answer, Param};
use super::wire::{MAX_PAYLOAD, Wire, lenenc, lenenc_bytes, push_lenenc, push_lenenc_bytes, take, take_u16};

/// Two attributes in one set: a bitmap of NULLs, types and names follow, then the value of the one not NULL.
const ATTRIBUTES: &[u8] = b"\x02\x01\x02\x01\xfd\x00\x05trace\x03\x00\x04none\x03a;b";

const SESSION_STATE_CHANGED: u16 = 0x4000;
const MORE_RESULTS_EXISTS: u16 = 0x0008;
const PS_OUT_PARAMS: u16 = 0x1000;
const CURSOR_EXISTS: u16 = 0x0040;

/// A logged-in connection, or one whose login was refused.
pub(super) struct Client {
    wire: Wire,
    capabilities: u64,
    thread: u32,
    /// The server's id of the statement in each slot of the script.
    statements: HashMap<u8, u32>,
}

impl Client {
    /// Logs in. The record says what both sides agreed on and the server's verdict, without what differs
    /// from connection to connection.
    pub(super) fn login(address: SocketAddr, account: &Account, wanted: u64) -> Result<(Self, Vec<u8>)> {
        let mut wire = Wire::connect(address)?;
        let greeting = Greeting::parse(&wire.receive()?)?;
        let capabilities = wanted & greeting.capabilities;
        wire.send(&login::handshake_response(account, capabilities, greeting.charset, &greeting.challenge))?;
        let verdict = login::authenticate(&mut wire, greeting.challenge, account.password)?;
        let mut record = greeting.version;
        record.extend([0, greeting.charset]);
        record.extend(capabilities.to_le_bytes());
        record.extend(verdict);
        Ok((Self { wire, capabilities, thread: greeting.thread, statements: HashMap::new() }, record))
    }

    /// Runs one step and returns what the server sent, with ids made equal.
    pub(super) fn run(&mut self, action: &Action) -> Result<Vec<u8>> {
        self.wire.begin();
        match action {
            Action::Query(sql) => self.query(sql, &[])?,
            Action::Attributed(sql) => {
                let attributes = if self.has(QUERY_ATTRIBUTES) { ATTRIBUTES } else { b"" };
                self.wire.send(&[b"\x03", attributes, sql.as_bytes()].concat())?;
                self.results(&[])?;
            }
            Action::Infile(sql, file) => self.query(sql.as_bytes(), file)?,
            Action::Prepare(slot, sql) => {
                self.wire.send(&[&[0x16], sql.as_slice()].concat())?;
                self.prepared(*slot)?;
            }
            Action::Execute { slot, flags, types, params } => {
                let payload = self.execute(*slot, *flags, *types, params);
                self.wire.send(&payload)?;
                self.results(&[])?;
            }
            Action::Statement(command, slot, tail, answer) => {
                let id = self.statement(*slot).to_le_bytes();
                self.wire.send(&[&[*command], id.as_slice(), tail].concat())?;
                self.answer(*answer)?;
            }
            Action::Command(payload, answer) => {
                self.wire.send(payload)?;
                self.answer(*answer)?;
            }
            Action::Ping => {
                self.wire.send(&[0x0e])?;
                self.wire.receive()?;
                // The count is what an OK without session state ends with.
                if let [.., low, high] = self.wire.record().as_mut_slice() {
                    (*low, *high) = (0, 0);
                }
            }
            Action::Statistics => {
                self.wire.send(&[0x09])?;
                self.wire.receive()?;
                let text = self.wire.record().split_off(4);
                return Ok(text.into_iter().filter(|byte| !b"0123456789.".contains(byte)).collect());
            }
            Action::ChangeUser(account) => return self.change_user(account),
            Action::OwnThread(before, after) => {
                self.query(format!("{before}{}{after}", self.thread).as_bytes(), &[])?;
            }
            Action::Quit => {
                self.wire.send(&[0x01])?;
                self.wire.receive_end()?;
            }
        }
        let record = std::mem::take(self.wire.record());
        Ok(match action {
            Action::Execute { slot, .. } | Action::Statement(_, slot, ..) => {
                without_id(record, self.statement(*slot))
            }
            _ => record,
        })
    }

    /// What came of an answer before it failed.
    pub(super) fn received(&mut self) -> &[u8] {
        self.wire.record()
    }

    /// COM_QUERY; `file` is what the server gets if it asks for a file.
    fn query(&mut self, sql: &[u8], file: &[u8]) -> Result<()> {
        let mut payload = vec![0x03];
        if self.has(QUERY_ATTRIBUTES) {
            payload.extend([0, 1]);
        }
        payload.extend_from_slice(sql);
        self.wire.send(&payload)?;
        self.results(file)
    }

    fn change_user(&mut self, account: &Account) -> Result<Vec<u8>> {
        // The plugin named here only spares a round; the server has the last word.
        let challenge = login::Challenge::unasked();
        self.wire.send(&login::change_user(account, self.capabilities, &challenge))?;
        self.statements.clear();
        login::authenticate(&mut self.wire, challenge, account.password)
    }

    fn execute(&self, slot: u8, flags: u8, types: bool, params: &[Param]) -> Vec<u8> {
        let attributes = self.has(QUERY_ATTRIBUTES);
        let mut out = vec![0x17];
        out.extend(self.statement(slot).to_le_bytes());
        // With PARAMETER_COUNT_AVAILABLE the count goes along.
        out.push(if attributes { flags | 0x08 } else { flags });
        out.extend(1u32.to_le_bytes());
        if attributes {
            push_lenenc(&mut out, params.len());
        }
        if params.is_empty() {
            return out;
        }
        let mut nulls = vec![0u8; params.len().div_ceil(8)];
        for (index, _) in params.iter().enumerate().filter(|(_, param)| param.null) {
            nulls[index / 8] |= 1 << (index % 8);
        }
        out.extend(nulls);
        out.push(u8::from(types));
        if types {
            for param in params {
                out.extend([param.kind, if param.unsigned { 0x80 } else { 0 }]);
                if attributes {
                    push_lenenc_bytes(&mut out, b"");
                }
            }
        }
        out.extend(params.iter().flat_map(|param| &param.bytes));
        out
    }

    /// A slot that holds nothing stands for an id that the server never gave.
    fn statement(&self, slot: u8) -> u32 {
        self.statements.get(&slot).copied().unwrap_or(0x7fff_fff0)
    }

    const fn has(&self, capability: u64) -> bool {
        self.capabilities & capability != 0
    }

    fn answer(&mut self, answer: Answer) -> Result<()> {
        match answer {
            Answer::Nothing => Ok(()),
            Answer::Packet => self.wire.receive().map(drop),
            Answer::Rows => self.rows().map(drop),
        }
    }

    /// All results of a query or an execution.
    fn results(&mut self, file: &[u8]) -> Result<()> {
        while self.result(file)? & MORE_RESULTS_EXISTS != 0 {}
        Ok(())
    }

    /// One result and the status flags at its end, none after an ERR.
    fn result(&mut self, file: &[u8]) -> Result<u16> {
        let first = self.wire.receive()?;
        match first.as_slice() {
            [0xff, ..] => Ok(0),
            [0x00, rest @ ..] => self.ok(rest),
            [0xfb, ..] => {
                for part in file.chunks(4096) {
                    self.wire.send(part)?;
                }
                self.wire.send(&[])?;
                self.result(file)
            }
            mut rest => {
                let columns = lenenc(&mut rest)?;
                let present = rest.first() != Some(&0);
                let status = self.definitions(if present { columns } else { 0 })?;
                if status & CURSOR_EXISTS != 0 {
                    return Ok(status);
                }
                let end = self.rows()?;
                // MySQL ends the OUT parameters of a procedure with an EOF that does not tell of the OK behind
                // it: only the EOF of their definitions does.
                Ok(if status & PS_OUT_PARAMS != 0 { status } else { end })
            }
        }
    }

    /// Column or parameter definitions with the EOF behind them; the status flags of that EOF if there is one.
    fn definitions(&mut self, count: u64) -> Result<u16> {
        for _ in 0..count {
            self.wire.receive()?;
        }
        if self.has(DEPRECATE_EOF) {
            return Ok(0);
        }
        match self.wire.receive()?.as_slice() {
            [0xfe, _, _, low, high] => Ok(u16::from_le_bytes([*low, *high])),
            other => Err(Error::other(format!("no EOF but {}", other.escape_ascii()))),
        }
    }

    /// Rows to their end; the status flags there, none after an ERR.
    fn rows(&mut self) -> Result<u16> {
        loop {
            let packet = self.wire.receive()?;
            match packet.as_slice() {
                [0xff, ..] => return Ok(0),
                [0xfe, rest @ ..] if self.has(DEPRECATE_EOF) && packet.len() < MAX_PAYLOAD => {
                    return self.ok(rest);
                }
                [0xfe, _, _, low, high] => return Ok(u16::from_le_bytes([*low, *high])),
                _ => {}
            }
        }
    }

    /// The status flags of an OK packet whose bytes behind the first are `rest`. Session state in it gets an
    /// order in the record: servers report variables in the order of a hash table.
    fn ok(&mut self, mut rest: &[u8]) -> Result<u16> {
        lenenc(&mut rest)?; // affected rows
        lenenc(&mut rest)?; // last insert id
        let status = take_u16(&mut rest)?;
        take_u16(&mut rest)?; // warnings
        if self.has(SESSION_TRACK) && status & SESSION_STATE_CHANGED != 0 {
            lenenc_bytes(&mut rest)?; // text
            let mut state = lenenc_bytes(&mut rest)?;
            let mut changes = Vec::new();
            while let [kind, ..] = state {
                take(&mut state, 1)?;
                changes.push((*kind, lenenc_bytes(&mut state)?));
            }
            changes.sort_unstable();
            let mut sorted = Vec::new();
            for (kind, data) in changes {
                sorted.push(kind);
                push_lenenc_bytes(&mut sorted, data);
            }
            let record = self.wire.record();
            record.truncate(record.len() - sorted.len());
            record.extend(sorted);
        }
        Ok(status)
    }

    /// The answer to COM_STMT_PREPARE; the id is kept for `slot` and blanked in the record.
    fn prepared(&mut self, slot: u8) -> Result<()> {
        let first = self.wire.receive()?;
        let [0x00, id @ ..] = first.as_slice() else { return Ok(()) };
        let rest = &mut &*id;
        let id = take(rest, 4)?.try_into().map_err(Error::other)?;
        self.statements.insert(slot, u32::from_le_bytes(id));
        self.wire.record()[5..9].fill(0);
        let columns = take_u16(rest)?;
        let params = take_u16(rest)?;
        take(rest, 3)?;
        let present = rest.first() != Some(&0);
        for count in [params, columns].into_iter().filter(|count| *count > 0 && present) {
            self.definitions(u64::from(count))?;
        }
        Ok(())
    }
}

/// A statement's error without the statement's id, which the text of some has: `handler (170) given`.
fn without_id(record: Vec<u8>, id: u32) -> Vec<u8> {
    if record.get(4) != Some(&0xff) {
        return record;
    }
    let id = format!("({id})").into_bytes();
    match record.windows(id.len()).position(|window| window == id) {
        // The header goes too: the packet's length depends on the id's.
        Some(at) => [&record[4..at], &record[at + id.len()..]].concat(),
        None => record,
    }
}
