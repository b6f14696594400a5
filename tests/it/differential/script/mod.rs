//! The script as data: a list of steps that both sides get. Every step is self-contained text or bytes; a step
//! that one flavor of server refuses compares the refusals.

mod charset;
mod command;
mod limit;
mod param;
mod prepared;
mod statement;

pub(super) use param::Param;

use super::login::Account;

/// One step: what is sent and what a report calls it.
pub(super) struct Step {
    pub(super) name: String,
    pub(super) action: Action,
}

/// What a step sends.
pub(super) enum Action {
    /// COM_QUERY.
    Query(Vec<u8>),
    /// COM_QUERY with query attributes in front where they were agreed on.
    Attributed(&'static str),
    /// COM_QUERY that makes the server ask for a file, and the file.
    Infile(&'static str, Vec<u8>),
    /// COM_STMT_PREPARE of a statement that later steps know by a slot.
    Prepare(u8, Vec<u8>),
    /// COM_STMT_EXECUTE with its flags; `types` sends the types of the parameters along.
    Execute { slot: u8, flags: u8, types: bool, params: Vec<Param> },
    /// A command that has the statement's id behind its first byte, and what follows the id.
    Statement(u8, u8, Vec<u8>, Answer),
    /// Any other command, as it is.
    Command(Vec<u8>, Answer),
    /// COM_PING, without its warning count: MySQL repeats the last statement's, which a ping answered by the
    /// proxy does not.
    Ping,
    /// COM_STATISTICS, whose numbers change all the time: the text without them is compared.
    Statistics,
    /// COM_CHANGE_USER: the verdict is compared.
    ChangeUser(Account),
    /// COM_QUERY with the connection's own id between two pieces of text.
    OwnThread(&'static str, &'static str),
    /// COM_QUIT and the end of the connection.
    Quit,
}

/// What a command is answered with.
#[derive(Clone, Copy)]
pub(super) enum Answer {
    Nothing,
    Packet,
    Rows,
}

/// The whole script. It starts and ends without its tables, so that it can run again.
pub(super) fn steps() -> Vec<Step> {
    let mut script = Script::default();
    statement::add(&mut script);
    charset::add(&mut script);
    prepared::add(&mut script);
    command::add(&mut script);
    limit::add(&mut script);
    script.add("quit", Action::Quit);
    script.steps
}

#[derive(Default)]
struct Script {
    steps: Vec<Step>,
}

impl Script {
    fn add(&mut self, name: impl Into<String>, action: Action) {
        self.steps.push(Step { name: name.into(), action });
    }

    fn query(&mut self, sql: impl Into<Vec<u8>>) {
        let sql = sql.into();
        self.add(format!("query {}", shown(&sql)), Action::Query(sql));
    }

    fn queries(&mut self, statements: &[&str]) {
        for sql in statements {
            self.query(*sql);
        }
    }

    fn prepare(&mut self, slot: u8, sql: impl Into<Vec<u8>>) {
        let sql = sql.into();
        self.add(format!("prepare {}", shown(&sql)), Action::Prepare(slot, sql));
    }

    fn execute(&mut self, slot: u8, params: Vec<Param>) {
        self.add(format!("execute {slot}"), Action::Execute { slot, flags: 0, types: true, params });
    }

    /// Prepare, execute with each row of parameters, close.
    fn prepared(&mut self, sql: impl Into<Vec<u8>>, rows: impl IntoIterator<Item = Vec<Param>>) {
        const SLOT: u8 = 255;
        self.prepare(SLOT, sql);
        for params in rows {
            self.execute(SLOT, params);
        }
        self.statement("close", 0x19, SLOT, &[], Answer::Nothing);
    }

    fn statement(&mut self, name: &str, command: u8, slot: u8, tail: &[u8], answer: Answer) {
        self.add(format!("{name} {slot}"), Action::Statement(command, slot, tail.to_vec(), answer));
    }

    fn command(&mut self, name: &str, payload: &[u8], answer: Answer) {
        self.add(name, Action::Command(payload.to_vec(), answer));
    }
}

/// The beginning of a statement, for a report.
fn shown(sql: &[u8]) -> String {
    sql[..sql.len().min(100)].escape_ascii().to_string()
}
