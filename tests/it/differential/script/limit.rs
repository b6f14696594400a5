//! Sizes: payloads around the packet's limit, values of 20 MB, lengths and counts where their encoding changes.

use super::super::wire::MAX_PAYLOAD;
use super::param::BLOB;
use super::{Answer, Param, Script};

const TWENTY_MB: usize = 20 << 20;

pub(super) fn add(script: &mut Script) {
    add_counts(script);
    for length in [250, 251, 252, 65_535, 65_536] {
        script.query(format!("SELECT REPEAT('x', {length})"));
    }
    // A row is the value behind its length, which takes 4 bytes here: the payload is one byte short of the
    // limit, at it, and one beyond; the last value's length takes 9.
    for length in [MAX_PAYLOAD - 5, MAX_PAYLOAD - 4, MAX_PAYLOAD - 3, MAX_PAYLOAD, MAX_PAYLOAD + 1] {
        script.query(format!("SELECT REPEAT('x', {length})"));
    }
    for length in [MAX_PAYLOAD - 1, MAX_PAYLOAD, MAX_PAYLOAD + 1] {
        script.query(query_of(length));
    }
    script.query("CREATE TABLE big (id INT PRIMARY KEY, b LONGBLOB)");
    script.query(format!("INSERT INTO big VALUES (1, '{}')", "q".repeat(TWENTY_MB)));
    script.prepared(
        "INSERT INTO big VALUES (?, ?)",
        [vec![Param::int(2), Param::sized(BLOB, &vec![0xfe; TWENTY_MB])]],
    );
    script.prepare(1, "INSERT INTO big VALUES (3, ?)");
    for part in [MAX_PAYLOAD - 7, 1 << 20] {
        let tail = [vec![0, 0], vec![b'l'; part]].concat();
        script.statement("long data", 0x18, 1, &tail, Answer::Nothing);
    }
    script.execute(1, vec![Param::long(BLOB)]);
    script.queries(&["SELECT id, LENGTH(b), MD5(b) FROM big ORDER BY id", "SELECT * FROM big ORDER BY id"]);
    script.prepared("SELECT b FROM big WHERE id = ?", [vec![Param::int(2)]]);
    script.query("DROP TABLE big");
}

/// A query that makes a payload of `length` bytes with the command in front of it.
fn query_of(length: usize) -> String {
    let frame = "SELECT LENGTH('')".len() + 1;
    format!("SELECT LENGTH('{}')", "y".repeat(length - frame))
}

fn add_counts(script: &mut Script) {
    let numbers = |count: usize| vec!["1"; count].join(", ");
    for count in [250, 251, 252, 4096, 4097] {
        script.query(format!("SELECT {}", numbers(count)));
    }
    script.query(format!("SELECT COUNT(*) FROM ints WHERE id IN ({})", numbers(70_000)));
    script.queries(&[
        "CREATE TABLE digits (d INT PRIMARY KEY)",
        "INSERT INTO digits VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15)",
        "CREATE TABLE numbers (n INT PRIMARY KEY, v INT)",
        "INSERT INTO numbers SELECT a.d + 16 * b.d + 256 * c.d + 4096 * d.d, 0 \
         FROM digits a, digits b, digits c, digits d",
    ]);
    for count in [250, 251, 252, 65_535, 65_536] {
        script.query(format!("UPDATE numbers SET v = v + 1 WHERE n < {count}"));
        script.query(format!("UPDATE numbers SET v = v WHERE n < {count}"));
    }
    script.queries(&["SELECT n FROM numbers ORDER BY n", "DROP TABLE numbers, digits"]);
    script.prepared(
        "SELECT n.d, n.d * ? FROM (SELECT 1 AS d UNION SELECT 2 UNION SELECT 3) n ORDER BY 1",
        [vec![Param::int(3)]],
    );
}
