//! Prepared statements: every parameter type, NULL bitmaps at their byte bounds, cursors, long data, and misuse.

use super::param::{BLOB, VAR_STRING};
use super::{Action, Answer, Param, Script};

const FETCH: u8 = 0x1c;
const RESET: u8 = 0x1a;
const CLOSE: u8 = 0x19;
const LONG_DATA: u8 = 0x18;
const CURSOR_READ_ONLY: u8 = 0x01;
const CURSOR_FOR_UPDATE: u8 = 0x02;

pub(super) fn add(script: &mut Script) {
    for table in ["ints", "reals", "times", "texts", "bytes", "worded"] {
        script.prepared(format!("SELECT * FROM {table} ORDER BY id"), [vec![]]);
        script.prepared(
            format!("SELECT * FROM {table} WHERE id = ?"),
            [1, 2, 3, 9].map(|id| vec![Param::int(id)]),
        );
    }
    add_types(script);
    add_null_bitmaps(script);
    add_results(script);
    add_lifetime(script);
    add_cursors(script);
    add_long_data(script);
    add_misuse(script);
}

fn add_types(script: &mut Script) {
    for param in typed() {
        script.prepared("SELECT ? AS p, ? IS NULL, HEX(?)", [vec![param; 3]]);
    }
    script.prepared(
        "SELECT ?, ?",
        [vec![Param::text("same"), Param::int(1)], vec![Param::null(6), Param::null(3)]],
    );
    script.prepared(
        "INSERT INTO ints (id, t, tu, b, bu) VALUES (?, ?, ?, ?, ?)",
        [vec![
            Param::int(30),
            Param::fixed(0x01, &[0x80]),
            Param::unsigned(0x01, &[0xff]),
            Param::fixed(0x08, &i64::MIN.to_le_bytes()),
            Param::unsigned(0x08, &u64::MAX.to_le_bytes()),
        ]],
    );
    script.queries(&["SELECT * FROM ints WHERE id = 30", "DELETE FROM ints WHERE id = 30"]);
}

/// Values of every type that a client may send.
fn typed() -> Vec<Param> {
    let fixed: &[(u8, &[u8])] = &[
        (0x01, &[0x7f]),
        (0x01, &[0x80]),
        (0x02, &[0xff, 0x7f]),
        (0x02, &[0x00, 0x80]),
        (0x03, &i32::MIN.to_le_bytes()),
        (0x03, &i32::MAX.to_le_bytes()),
        (0x08, &i64::MIN.to_le_bytes()),
        (0x08, &i64::MAX.to_le_bytes()),
        (0x04, &1.5f32.to_le_bytes()),
        (0x04, &f32::MIN.to_le_bytes()),
        (0x05, &f64::MAX.to_le_bytes()),
        (0x05, &(-0.0f64).to_le_bytes()),
        // Date and time: the length says how much of it is there.
        (0x0a, &[4, 0xe8, 0x07, 2, 29]),
        (0x0a, &[0]),
        (0x0c, &[0]),
        (0x0c, &[4, 0xe8, 0x07, 2, 29]),
        (0x0c, &[7, 0xe8, 0x07, 2, 29, 23, 59, 58]),
        (0x0c, &[11, 0xe8, 0x07, 2, 29, 23, 59, 58, 0x3f, 0x42, 0x0f, 0]),
        (0x07, &[7, 0xe8, 0x07, 2, 29, 1, 2, 3]),
        (0x0b, &[0]),
        (0x0b, &[8, 1, 34, 0, 0, 0, 22, 59, 59]),
        (0x0b, &[12, 0, 1, 0, 0, 0, 2, 3, 4, 0x01, 0, 0, 0]),
    ];
    let unsigned: &[(u8, &[u8])] = &[
        (0x01, &[0xff]),
        (0x02, &[0xff, 0xff]),
        (0x03, &u32::MAX.to_le_bytes()),
        (0x08, &u64::MAX.to_le_bytes()),
    ];
    let sized: &[(u8, &[u8])] = &[
        (0x00, b"-123.456"), // the old decimal
        (0xf6, b"-99999999999999999999.000000001"),
        (0xf5, b"{\"k\": [1, 2]}"),
        (0xf9, b"tiny\0blob"),
        (0xfa, b"medium\xffblob"),
        (0xfb, b"long\xfeblob"),
        (BLOB, b""),
        (VAR_STRING, b""),
        (VAR_STRING, "\u{20ac}\u{1f600}".as_bytes()),
        (0x0f, b"varchar"),
        (0xfe, b"string"),
        (0xf7, b"enum"),
        (0xf8, b"set"),
        (0x10, b"\x05"), // bit
    ];
    let null = [0x01, 0x05, 0x06, 0x0c, BLOB, VAR_STRING].map(Param::null);
    let long = [250, 251, 65_535, 65_536].map(|length| Param::sized(VAR_STRING, &vec![b'p'; length]));
    fixed
        .iter()
        .map(|(kind, bytes)| Param::fixed(*kind, bytes))
        .chain(unsigned.iter().map(|(kind, bytes)| Param::unsigned(*kind, bytes)))
        .chain(sized.iter().map(|(kind, bytes)| Param::sized(*kind, bytes)))
        .chain(null)
        .chain(long)
        .collect()
}

/// The bitmap of parameters fills a byte at 8 of them, that of a row at 6 columns, since it starts at bit 2.
fn add_null_bitmaps(script: &mut Script) {
    for count in [1, 2, 5, 6, 7, 8, 9, 13, 14, 15, 16, 17, 64, 300] {
        let marks = vec!["?"; count].join(", ");
        let every = |nth: usize| {
            (0..count).map(move |at| if at % nth == 0 { Param::null(0x03) } else { Param::int(7) }).collect()
        };
        let last =
            (0..count).map(|at| if at + 1 == count { Param::null(0x03) } else { Param::int(7) }).collect();
        script.prepared(format!("SELECT {marks}"), [every(1), every(2), every(3), last]);
    }
}

fn add_results(script: &mut Script) {
    script.prepared("CALL results(?, @o, @io)", [vec![Param::int(5)]]);
    script.prepared("CALL results(?, ?, ?)", [vec![Param::int(5), Param::null(0x03), Param::text("io")]]);
    script.prepared("CALL nothing()", [vec![]]);
    script.prepared("CALL failing()", [vec![]]);
    for sql in [
        "INSERT INTO parent VALUES (?)",
        "UPDATE parent SET id = id WHERE id > ?",
        "DELETE FROM parent WHERE id = ?",
        "DO ?",
        "SET @p = ?",
    ] {
        script.prepared(sql, [vec![Param::int(600)], vec![Param::int(600)]]);
    }
    for sql in
        ["SHOW WARNINGS", "SHOW TABLES", "BEGIN", "COMMIT", "SELECT CAST('w' AS SIGNED)", "SELECT 1 INTO @x"]
    {
        script.prepared(sql, [vec![], vec![]]);
    }
}

fn add_lifetime(script: &mut Script) {
    let again = |params| Action::Execute { slot: 1, flags: 0, types: false, params };
    script.prepare(1, "SELECT ? + 1, ?");
    script.prepare(2, "SELECT COUNT(*) FROM parent WHERE id < ?");
    script.execute(1, vec![Param::int(1), Param::text("first")]);
    script.add("execute without types", again(vec![Param::int(2), Param::text("second")]));
    script.execute(2, vec![Param::int(1000)]);
    script.add("execute without types, NULL", again(vec![Param::null(0x03), Param::text("third")]));
    script.execute(1, vec![Param::fixed(0x05, &2.5f64.to_le_bytes()), Param::null(0x06)]);
    script.statement("reset", RESET, 1, &[], Answer::Packet);
    script.execute(1, vec![Param::int(3), Param::int(4)]);
    script.statement("close", CLOSE, 1, &[], Answer::Nothing);
    script.execute(1, vec![Param::int(1), Param::int(1)]);
    script.query("SELECT 'after close'");
    // The table changes under a prepared statement.
    script.queries(&["CREATE TABLE changing (a INT)", "INSERT INTO changing VALUES (1)"]);
    script.prepare(3, "SELECT * FROM changing");
    script.execute(3, vec![]);
    script.query("ALTER TABLE changing ADD COLUMN b VARCHAR(5) DEFAULT 'new'");
    script.execute(3, vec![]);
    script.query("DROP TABLE changing");
    script.execute(3, vec![]);
    script.statement("close", CLOSE, 3, &[], Answer::Nothing);
    script.statement("close", CLOSE, 2, &[], Answer::Nothing);
    script.statement("close twice", CLOSE, 2, &[], Answer::Nothing);
    script.add("ping after close", Action::Ping);
}

fn add_cursors(script: &mut Script) {
    let open = |slot, flags, params| Action::Execute { slot, flags, types: true, params };
    let rows = |count: u32| count.to_le_bytes();
    script.prepare(1, "SELECT id, bu FROM ints WHERE id < ? ORDER BY id");
    script.add("open a cursor", open(1, CURSOR_READ_ONLY, vec![Param::int(100)]));
    for count in [1, 1, 5] {
        script.statement("fetch", FETCH, 1, &rows(count), Answer::Rows);
    }
    script.statement("fetch past the end", FETCH, 1, &rows(1), Answer::Rows);
    script.add("open it again", open(1, CURSOR_READ_ONLY, vec![Param::int(100)]));
    script.query("SELECT 'between fetches'");
    script.statement("fetch", FETCH, 1, &rows(2), Answer::Rows);
    script.statement("reset", RESET, 1, &[], Answer::Packet);
    script.statement("fetch after reset", FETCH, 1, &rows(1), Answer::Rows);
    script.add("a cursor over nothing", open(1, CURSOR_READ_ONLY, vec![Param::int(-5)]));
    script.statement("fetch", FETCH, 1, &rows(1), Answer::Rows);
    // Prepared anew: MySQL 9.7 itself answers an execution without a cursor after one with a cursor wrongly (an
    // OK in place of rows and EOF).
    script.statement("close", CLOSE, 1, &[], Answer::Nothing);
    script.prepare(1, "SELECT id, bu FROM ints WHERE id < ? ORDER BY id");
    script.execute(1, vec![Param::int(100)]);
    script.statement("fetch without a cursor", FETCH, 1, &rows(1), Answer::Rows);
    script.add("a cursor for update", open(1, CURSOR_FOR_UPDATE, vec![Param::int(100)]));
    script.statement("close", CLOSE, 1, &[], Answer::Nothing);
    script.prepare(2, "UPDATE parent SET id = id");
    script.add("a cursor over no rows at all", open(2, CURSOR_READ_ONLY, vec![]));
    script.statement("close", CLOSE, 2, &[], Answer::Nothing);
    script.prepare(3, "CALL results(1, @o, @io)");
    script.add("a cursor over a procedure", open(3, CURSOR_READ_ONLY, vec![]));
    script.statement("close", CLOSE, 3, &[], Answer::Nothing);
}

fn add_long_data(script: &mut Script) {
    let chunk = |param: u16, data: &[u8]| [&param.to_le_bytes(), data].concat();
    script.prepare(1, "SELECT LENGTH(?), ?, MD5(?)");
    let every_byte: Vec<u8> = (0..=255).collect();
    let long = || vec![Param::long(BLOB), Param::int(5), Param::long(VAR_STRING)];
    for round in 0..2 {
        for part in [every_byte.as_slice(), b"", &[round; 70_000]] {
            script.statement("long data", LONG_DATA, 1, &chunk(0, part), Answer::Nothing);
        }
        script.statement("long data", LONG_DATA, 1, &chunk(2, b"hash this"), Answer::Nothing);
        script.execute(1, long());
    }
    script.statement("long data, dropped", LONG_DATA, 1, &chunk(0, b"dropped"), Answer::Nothing);
    script.statement("reset", RESET, 1, &[], Answer::Packet);
    script.execute(1, vec![Param::sized(BLOB, b"given"), Param::int(5), Param::text("given")]);
    script.statement("long data, no such parameter", LONG_DATA, 1, &chunk(9, b"x"), Answer::Nothing);
    script.execute(1, vec![Param::sized(BLOB, b"given"), Param::int(5), Param::text("given")]);
    script.statement("close", CLOSE, 1, &[], Answer::Nothing);
}

fn add_misuse(script: &mut Script) {
    for sql in [
        "SELEC ?",
        "SELECT * FROM no_such_table",
        "SELECT ?; SELECT ?",
        "",
        "-- nothing",
        "USE mysql",
        "CREATE TABLE made (id INT)",
        "PREPARE p FROM 'SELECT 1'",
    ] {
        script.prepare(9, sql);
    }
    script.prepare(9, b"SELECT '\xff\xfe', ?".as_slice());
    script.execute(200, vec![Param::int(1)]);
    script.statement("fetch of nothing", FETCH, 200, &1u32.to_le_bytes(), Answer::Rows);
    script.statement("reset of nothing", RESET, 200, &[], Answer::Packet);
    script.statement("long data for nothing", LONG_DATA, 200, &[0, 0, 1], Answer::Nothing);
    script.statement("close of nothing", CLOSE, 200, &[], Answer::Nothing);
    script.command("execute cut short", &[0x17, 1, 0], Answer::Packet);
    script.command("fetch cut short", &[0x1c, 1], Answer::Packet);
    script.query("SELECT 'still there'");
}
