//! Prepared statements of the binary protocol. Each is prepared on the primary, whose number for it is the
//! client's; a read is prepared on the replica too when it runs there for the first time.

mod commands;
mod parameters;

use std::{collections::HashMap, sync::Arc};

use parameters::{LongData, ParameterTypes};

use super::state::State;
use crate::{
    route::Target,
    sql::Statement,
    wire::execute::{self, Types},
};

/// The id that MariaDB's clients send for the statement prepared last.
/// <https://mariadb.com/kb/en/com_stmt_execute/>
const LAST_PREPARED: u32 = u32::MAX;

/// The prepared statements of a session.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    by_id: HashMap<u32, Entry>,
    last: u32,
}

/// A prepared statement.
#[derive(Debug)]
pub(super) struct Entry {
    /// What it is.
    pub statement: Arc<Statement>,
    /// As the client sent it; empty when it was too long to be looked at as a whole.
    pub text: Vec<u8>,
    /// The default schema when it was prepared: names without one belong to it for good.
    pub schema: Vec<u8>,
    /// What it takes to run it on a replica; only reads may.
    pub read: Option<Read>,
}

/// A prepared read.
#[derive(Debug)]
pub(super) struct Read {
    /// The settings by which the primary read the text, see [`super::replay::Replay::parsing`].
    parsing: u64,
    params: u16,
    types: ParameterTypes,
    long_data: LongData,
    /// Where its cursor was opened last.
    cursor: Option<Target>,
    replica: Option<Handle>,
}

/// A statement on a replica's connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handle {
    /// The connection, see [`super::replica_link::ReplicaLink::number`].
    pub link: u64,
    /// The statement's id there.
    pub id: u32,
    /// The version of the parameters' types that it has.
    types: u64,
}

/// What a command to execute says.
#[derive(Debug)]
pub(super) struct Execution {
    /// The statement, as the client calls it.
    pub id: u32,
    /// Whether a cursor is asked for.
    pub cursor: bool,
    types: Types,
}

impl Prepared {
    /// The statement that a client calls `id`.
    pub(super) fn get(&self, id: u32) -> Option<&Entry> {
        self.by_id.get(&self.resolve(id))
    }

    /// The read that a client calls `id`.
    pub(super) fn read_mut(&mut self, id: u32) -> Option<&mut Read> {
        let id = self.resolve(id);
        self.by_id.get_mut(&id)?.read.as_mut()
    }

    const fn resolve(&self, id: u32) -> u32 {
        if id == LAST_PREPARED { self.last } else { id }
    }
}

impl Read {
    fn new(params: u16, state: &State) -> Self {
        Self {
            parsing: state.replay.parsing(),
            params,
            types: ParameterTypes::default(),
            long_data: LongData::default(),
            cursor: None,
            replica: None,
        }
    }

    /// Whether a replica would read the text as the primary did, and the primary has nothing of the
    /// parameters already.
    pub(super) fn may_move(&self, state: &State) -> bool {
        self.parsing == state.replay.parsing() && self.long_data.is_here()
    }

    /// The statement on the replica's connection of this number.
    pub(super) fn on(&self, link: u64) -> Option<Handle> {
        self.replica.filter(|handle| handle.link == link)
    }

    /// It is prepared on a replica's connection, as `id`.
    pub(super) fn is_on(&mut self, link: u64, id: u32) -> Handle {
        *self.replica.insert(Handle { link, id, types: 0 })
    }

    /// The replica's connection does not have it any more.
    pub(super) const fn leave_replica(&mut self) -> Option<Handle> {
        self.replica.take()
    }

    /// Parameters that were sent ahead, renamed for the replica, one command each.
    pub(super) fn long_data_for(&self, handle: Handle) -> Vec<Vec<u8>> {
        self.long_data.commands(handle.id)
    }

    /// Appends the command in `payload` as the replica gets it.
    pub(super) fn put_for_replica(
        &mut self,
        out: &mut Vec<u8>,
        payload: &[u8],
        handle: Handle,
        execution: &Execution,
    ) {
        execute::put(out, payload, handle.id, self.types.missing(handle.types, &execution.types));
        self.replica = Some(Handle { types: self.types.version(), ..handle });
    }

    /// An execution ended on `target`: what was sent ahead for it is used up.
    pub(super) fn executed(&mut self, target: Target, execution: &Execution) {
        self.long_data = LongData::default();
        self.cursor = execution.cursor.then_some(target);
    }
}
