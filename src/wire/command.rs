//! What answer a command has.

use super::Command;

/// The shape of a command's answer.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_command_phase.html>
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// One OK, ERR or EOF packet.
    Single,
    /// One packet of free form, or ERR (COM_STATISTICS).
    Text,
    /// Any number of results: OK, ERR, LOCAL INFILE request or result set.
    Results,
    /// The same, and the first of them may open a cursor instead of sending its rows (COM_STMT_EXECUTE with
    /// a cursor type).
    CursorOrResults,
    /// COM_STMT_PREPARE_OK with its definitions, or ERR.
    Prepared,
    /// Column definitions up to an EOF packet, or ERR (COM_FIELD_LIST).
    Columns,
    /// Rows up to an EOF packet, or ERR (COM_STMT_FETCH).
    Rows,
    /// Nothing at all.
    None,
    /// The connection becomes a stream of events (replication).
    Tunnel,
}

/// Commands by their number, from zero.
const COMMANDS: [Command; 32] = [
    Command::COM_SLEEP,
    Command::COM_QUIT,
    Command::COM_INIT_DB,
    Command::COM_QUERY,
    Command::COM_FIELD_LIST,
    Command::COM_CREATE_DB,
    Command::COM_DROP_DB,
    Command::COM_REFRESH,
    Command::COM_DEPRECATED_1,
    Command::COM_STATISTICS,
    Command::COM_PROCESS_INFO,
    Command::COM_CONNECT,
    Command::COM_PROCESS_KILL,
    Command::COM_DEBUG,
    Command::COM_PING,
    Command::COM_TIME,
    Command::COM_DELAYED_INSERT,
    Command::COM_CHANGE_USER,
    Command::COM_BINLOG_DUMP,
    Command::COM_TABLE_DUMP,
    Command::COM_CONNECT_OUT,
    Command::COM_REGISTER_SLAVE,
    Command::COM_STMT_PREPARE,
    Command::COM_STMT_EXECUTE,
    Command::COM_STMT_SEND_LONG_DATA,
    Command::COM_STMT_CLOSE,
    Command::COM_STMT_RESET,
    Command::COM_SET_OPTION,
    Command::COM_STMT_FETCH,
    Command::COM_DAEMON,
    Command::COM_BINLOG_DUMP_GTID,
    Command::COM_RESET_CONNECTION,
];

/// The command of this number, if there is one.
pub fn from_byte(byte: u8) -> Option<Command> {
    const BULK_EXECUTE: u8 = Command::COM_STMT_BULK_EXECUTE as u8;
    match byte {
        BULK_EXECUTE => Some(Command::COM_STMT_BULK_EXECUTE),
        _ => COMMANDS.get(usize::from(byte)).copied(),
    }
}

/// The answer to `command` from a server; `None` for what clients may not send.
pub const fn answer(command: Command) -> Option<Answer> {
    Some(match command {
        Command::COM_QUERY
        | Command::COM_PROCESS_INFO
        | Command::COM_STMT_EXECUTE
        | Command::COM_STMT_BULK_EXECUTE => Answer::Results,
        Command::COM_STMT_PREPARE => Answer::Prepared,
        Command::COM_STMT_FETCH => Answer::Rows,
        Command::COM_FIELD_LIST => Answer::Columns,
        Command::COM_STATISTICS => Answer::Text,
        Command::COM_STMT_CLOSE | Command::COM_STMT_SEND_LONG_DATA | Command::COM_QUIT => Answer::None,
        Command::COM_BINLOG_DUMP | Command::COM_BINLOG_DUMP_GTID => Answer::Tunnel,
        Command::COM_INIT_DB
        | Command::COM_CREATE_DB
        | Command::COM_DROP_DB
        | Command::COM_REFRESH
        | Command::COM_DEPRECATED_1
        | Command::COM_PROCESS_KILL
        | Command::COM_DEBUG
        | Command::COM_PING
        | Command::COM_REGISTER_SLAVE
        | Command::COM_TABLE_DUMP
        | Command::COM_STMT_RESET
        | Command::COM_SET_OPTION
        | Command::COM_RESET_CONNECTION
        | Command::COM_CHANGE_USER => Answer::Single,
        Command::COM_SLEEP
        | Command::COM_CONNECT
        | Command::COM_TIME
        | Command::COM_DELAYED_INSERT
        | Command::COM_CONNECT_OUT
        | Command::COM_DAEMON
        | Command::COM_END => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_stand_at_their_number() {
        for byte in 0..=u8::MAX {
            match from_byte(byte) {
                Some(command) => assert_eq!(command as u8, byte),
                None => assert!(byte >= 32),
            }
        }
        assert_eq!(from_byte(0xFA), Some(Command::COM_STMT_BULK_EXECUTE));
    }
}
