//! Commands beside queries and statements, unknown ones among them, and what resets a session.

use super::super::login::Account;
use super::{Action, Answer, Script};
use crate::differential::{ACCOUNT, BARE};

pub(super) fn add(script: &mut Script) {
    script.add("ping", Action::Ping);
    script.add("statistics", Action::Statistics);
    script.command("init db", b"\x02diff", Answer::Packet);
    script.command("init db, no such schema", b"\x02no_such_schema", Answer::Packet);
    script.command("init db, empty", b"\x02", Answer::Packet);
    script.query("SELECT DATABASE()");
    script.command("field list", b"\x04ints\0", Answer::Rows);
    script.command("field list with a pattern", b"\x04ints\0i%", Answer::Rows);
    script.command("field list, no such table", b"\x04no_such_table\0", Answer::Rows);
    script.command("multi statements on", &[0x1b, 0, 0], Answer::Packet);
    script.query("SELECT 1; SELECT 2");
    script.command("multi statements off", &[0x1b, 1, 0], Answer::Packet);
    script.query("SELECT 1; SELECT 2");
    script.command("multi statements on", &[0x1b, 0, 0], Answer::Packet);
    script.command("set option, no such option", &[0x1b, 9, 0], Answer::Packet);
    for byte in [0x00, 0x05, 0x06, 0x0b, 0x0f, 0x10, 0x14, 0x2a, 0xc8, 0xff] {
        script.command(&format!("command {byte:#04x}"), &[byte], Answer::Packet);
        script.add("ping", Action::Ping);
    }
    script.command("process kill, no such thread", &[0x0c, 0xfa, 0xff, 0xff, 0xff], Answer::Packet);
    script.add("kill own query", Action::OwnThread("KILL QUERY ", ""));
    script.query("SELECT 'after kill'");
    script.add("query with attributes", Action::Attributed("SELECT 'attributed', ints.id FROM ints"));
    add_resets(script);
}

fn add_resets(script: &mut Script) {
    let state = |script: &mut Script| {
        script.query("SET @kept = 1, time_zone = '+05:00', sql_mode = ''");
        script.query("CREATE TEMPORARY TABLE kept (id INT)");
        script.prepare(7, "SELECT 7");
        script.query("BEGIN");
    };
    let check = |script: &mut Script| {
        script.query("SELECT @kept, @@time_zone, @@sql_mode, DATABASE(), @@autocommit, USER()");
        script.query("SELECT * FROM kept");
        script.execute(7, vec![]);
    };
    state(script);
    script.command("reset connection", &[0x1f], Answer::Packet);
    check(script);
    for (name, account) in [
        ("change user", ACCOUNT),
        ("change user, no password", BARE),
        ("change user, no schema", Account { schema: "", ..ACCOUNT }),
        ("change user back", ACCOUNT),
    ] {
        state(script);
        script.add(name, Action::ChangeUser(account));
        check(script);
    }
    script.query("SET NAMES utf8mb4");
}
