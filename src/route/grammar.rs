//! The property that the whole split stands on: whatever writes in some way, wherever in a statement that is,
//! goes to no replica, whatever rules and hints wish and whatever the session is in.
//!
//! Frames are reads made from a grammar, with places where an expression or the end of a query may be anything.
//! With harmless things in all places a frame must go to the replica; with one that writes in any of them, never.
//! So each frame shows by itself that nothing but what writes keeps it on the primary.

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::{Asked, Policy, Replica, Session, Target, Transaction, decide, hint, policy::Wish};
use crate::sql::{Dialect, Flavor, classify, leading_comment_hint};

/// Where an expression may stand.
const EXPRESSION: &str = "{expression}";
/// Where a query ends.
const END: &str = "{end}";

/// Expressions that write, lock, wait, or may do anything.
const WRITING_EXPRESSIONS: &[&str] = &[
    "f ( 1 )",
    "f()",
    "`f` ( a )",
    "shop.f(a, 1)",
    "`shop`.`f`(1)",
    "CONCAT('x', shop . f (1))",
    "(SELECT f(1))",
    "EXISTS (SELECT f(a) FROM t)",
    "/*! f(1) */",
    "/*!50000 f(1) */",
    "@a := 1",
    "@`a` := a + 1",
    "(@a := @a + 1)",
    "GET_LOCK('a', 1)",
    "RELEASE_LOCK('a')",
    "RELEASE_ALL_LOCKS()",
    "IS_FREE_LOCK('a')",
    "SLEEP(1)",
    "BENCHMARK(10, f(1))",
    "BENCHMARK(10, MD5('x'))",
    "LAST_INSERT_ID(5)",
    "LAST_INSERT_ID(a + 1)",
    "NEXTVAL(s)",
    "NEXT VALUE FOR s",
    "NEXT VALUE FOR shop.s",
    "PREVIOUS VALUE FOR s",
    "SETVAL(s, 1)",
    "LASTVAL(s)",
    "s.nextval",
    "MASTER_POS_WAIT('f', 4, 1)",
    "WAIT_FOR_EXECUTED_GTID_SET('', 1)",
    "MASTER_GTID_WAIT('0-1-1', 1)",
    "UUID_TO_BIN(f(1))",
    "ST_BUFFER(p, no_such_function(1))",
    "COUNT (1)",
    "NOW (1)",
    "mysql.f(1)",
    "LOAD_FILE('/etc/passwd')",
    "KEYRING_KEY_REMOVE('a')",
    "EXTRACTVALUE('<a/>', '$@a')",
    "UPDATEXML('<a/>', '$@a', 'x')",
    "(SELECT a FROM t FOR UPDATE)",
    "(SELECT a FROM t LIMIT 1 LOCK IN SHARE MODE)",
    "(SELECT a FROM t ORDER BY a FOR SHARE)",
    "(SELECT a INTO @x)",
];

/// What makes of a query one that locks or writes.
const WRITING_ENDS: &[&str] = &[
    "FOR UPDATE",
    "FOR UPDATE NOWAIT",
    "FOR UPDATE SKIP LOCKED",
    "FOR UPDATE OF t",
    "FOR SHARE",
    "FOR SHARE SKIP LOCKED",
    "LOCK IN SHARE MODE",
    "/*! FOR UPDATE */",
    "/*!80000 FOR SHARE */",
    "/*!50000 LOCK IN SHARE MODE */",
    "/*!40000 FOR /*!40000 UPDATE */ */",
    "INTO @a",
    "INTO @a, @b",
    "INTO OUTFILE '/tmp/a'",
    "INTO DUMPFILE '/tmp/a'",
    "/*! INTO OUTFILE '/tmp/a' */",
    "INTO OUTFILE '/tmp/a' CHARACTER SET utf8mb4 FIELDS TERMINATED BY ','",
    "PROCEDURE ANALYSE()",
];

/// What only MariaDB executes; to MySQL it is a comment.
const WRITING_IN_MARIADB: &[Writing] = &[
    Writing { expression: "/*M! f(1) */", end: "/*M! FOR UPDATE */" },
    Writing { expression: "/*M!100500 f(1) */", end: "/*M!100500 INTO OUTFILE '/tmp/a' */" },
];

/// Statements that write, around a query.
const WRITING_STATEMENTS: &[&str] = &[
    "WITH w AS ({query}) DELETE FROM t",
    "WITH w AS ({query}) DELETE t FROM t JOIN w",
    "WITH w (a) AS ({query}) UPDATE t SET a = 1",
    "WITH RECURSIVE w AS ({query}), v AS (SELECT 1) UPDATE t JOIN w SET a = 1",
    "WITH w AS ({query}) INSERT INTO t SELECT * FROM w",
    "WITH w AS ({query}) REPLACE INTO t SELECT * FROM w",
    "INSERT INTO t {query}",
    "INSERT IGNORE INTO t ({query})",
    "INSERT INTO t WITH w AS ({query}) SELECT * FROM w",
    "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = ({query})",
    "REPLACE t SELECT * FROM ({query}) x",
    "INSERT INTO t {query} RETURNING a",
    "UPDATE t SET a = ({query})",
    "DELETE FROM t WHERE a IN ({query})",
    "DELETE FROM t WHERE a IN ({query}) RETURNING a",
    "CREATE TABLE u {query}",
    "CREATE TEMPORARY TABLE u AS {query}",
    "CREATE VIEW v AS {query}",
    "SET @a = ({query})",
    "SET GLOBAL max_connections = ({query})",
    "DO ({query})",
    "CALL p(({query}))",
    "EXPLAIN ANALYZE {query}",
    "ANALYZE FORMAT=JSON {query}",
    "PREPARE p FROM '{query}'",
    "EXECUTE IMMEDIATE '{query}'",
    "DECLARE c CURSOR FOR {query}",
    "HANDLER t OPEN",
    "{query}; DELETE FROM t",
    "DELETE FROM t; {query}",
    "{query}; SELECT f(1)",
    "{query} ; ; SET @a = 1",
    "/*! DELETE FROM t; */ {query}",
    "/*!40000 INSERT INTO t */ {query}",
    "BEGIN NOT ATOMIC {query}; DELETE FROM t; END",
    "SET STATEMENT max_statement_time = 1 FOR {query}",
    "VALUES (f(1))",
    "TABLE t INTO OUTFILE '/tmp/a'",
    "TABLE t FOR UPDATE",
    "VALUES ROW(1) INTO @a",
];

/// Wishes of a client that wants the replica at any price.
const HINTS: &[&str] =
    &["", "/* ramsplit: replica */ ", "/* ramsplit: replica, consistency=eventual, max_lag=1h */ "];

fn expression() -> impl Strategy<Value = String> {
    let leaf = select(
        &["1", "a", "t.a", "'text'", "NULL", "`a`", "-1.5e3", "0x41", "DATE '2026-12-01'", EXPRESSION][..],
    )
    .prop_map(str::to_owned);
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (
                inner.clone(),
                select(&["+", "-", "*", "=", "<=>", "AND", "OR", "LIKE", "DIV"][..]),
                inner.clone()
            )
                .prop_map(|(a, operator, b)| format!("{a} {operator} {b}")),
            (select(&["COALESCE", "CONCAT", "GREATEST", "IFNULL"][..]), inner.clone(), inner.clone())
                .prop_map(|(name, a, b)| format!("{name}({a}, {b})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("CASE WHEN {a} THEN {b} ELSE {c} END")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} IN ({b}, 2))")),
            inner.clone().prop_map(|a| format!("(SELECT {a} FROM t WHERE b = 1 {END})")),
            inner.clone().prop_map(|a| format!("EXISTS (SELECT 1 FROM t WHERE {a})")),
            inner.prop_map(|a| format!("CAST({a} AS CHAR)")),
        ]
    })
}

fn query() -> impl Strategy<Value = String> {
    let source = select(
        &["t", "shop.t", "`t` AS x", "t JOIN u ON t.a = u.a", "t LEFT JOIN shop.u USING (a)", "t, u"][..],
    );
    let simple = (expression(), source, expression(), select(&["", "DISTINCT ", "SQL_SMALL_RESULT "][..]))
        .prop_map(|(shown, source, condition, option)| {
            format!("SELECT {option}{shown} FROM {source} WHERE {condition}")
        });
    simple.prop_recursive(3, 6, 2, |inner| {
        prop_oneof![
            (inner.clone(), expression()).prop_map(|(a, by)| format!("{a} ORDER BY {by} LIMIT 5 {END}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} {END}) UNION ALL ({b} {END})")),
            inner.clone().prop_map(|a| format!("SELECT * FROM ({a} {END}) AS d {END}")),
            (inner.clone(), inner.clone())
                .prop_map(|(a, b)| format!("SELECT 1 FROM t WHERE a = ANY ({a}) OR b IN ({b}) {END}")),
            (inner.clone(), inner)
                .prop_map(|(a, b)| format!("WITH w AS ({a}), v AS (SELECT * FROM w {END}) {}", wrapped(&b))),
        ]
    })
}

/// A query that may follow WITH, whatever it begins with.
fn wrapped(query: &str) -> String {
    format!("SELECT * FROM ({query}) AS q {END}")
}

/// A read with places, the text around its words not chosen yet.
fn frame() -> impl Strategy<Value = String> {
    // At least one place of each kind.
    (query(), expression())
        .prop_map(|(query, e)| format!("SELECT {EXPRESSION}, {e} FROM ({query}) AS f {END}"))
}

/// Fills all places: the chosen one, if any, by `writing`, the others by what is harmless.
fn fill(frame: &str, chosen: Option<(usize, &Writing)>) -> String {
    let mut text = String::new();
    let mut rest = frame;
    let mut place = 0;
    while let Some(at) = rest.find(['{']) {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        let is_end = from.starts_with(END);
        let filler = match chosen {
            Some((number, writing)) if number == place => writing.at(is_end),
            _ if is_end => "",
            _ => "1",
        };
        text.push_str(filler);
        rest = &from[if is_end { END.len() } else { EXPRESSION.len() }..];
        place += 1;
    }
    text + rest
}

#[derive(Debug, Clone, Copy)]
struct Writing {
    expression: &'static str,
    end: &'static str,
}

impl Writing {
    const fn at(&self, is_end: bool) -> &'static str {
        if is_end { self.end } else { self.expression }
    }
}

/// Something that writes, and whether the server is MariaDB.
fn writing() -> impl Strategy<Value = (Writing, bool)> {
    let anywhere = (select(WRITING_EXPRESSIONS), select(WRITING_ENDS), any::<bool>())
        .prop_map(|(expression, end, maria)| (Writing { expression, end }, maria));
    prop_oneof![9 => anywhere, 1 => select(WRITING_IN_MARIADB).prop_map(|writing| (writing, true))]
}

/// The blanks and words of a text as a client may write them; strings, quoted names and comments stay.
fn dress(text: &str, gaps: &[&str], upper: bool) -> String {
    let mut gaps = gaps.iter().cycle();
    let mut dressed = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let whole = match c {
            '\'' | '`' => rest[1..].find(c).map_or(rest.len(), |end| end + 2),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ => 0,
        };
        let (kept, after) = rest.split_at(whole);
        dressed.push_str(kept);
        rest = after;
        if whole == 0 {
            match c {
                ' ' => dressed.push_str(gaps.next().unwrap_or(&" ")),
                c if upper => dressed.push(c),
                c => dressed.push(c.to_ascii_lowercase()),
            }
            rest = &rest[c.len_utf8()..];
        }
    }
    dressed
}

fn gaps() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(select(&[" ", "\n", "\t", "  ", " /* ; */ ", "/**/", " -- x\n", " # x\n"][..]), 7)
}

fn session() -> impl Strategy<Value = Session> {
    let transaction =
        select(&[Transaction::None, Transaction::Primary, Transaction::Replica, Transaction::Both][..]);
    let targets = (any::<bool>(), any::<bool>(), any::<bool>());
    (transaction, targets).prop_map(|(transaction, (knows_variables, last, rows))| {
        let target = |replica| if replica { Target::Replica } else { Target::Primary };
        Session {
            transaction,
            knows_variables,
            last_target: target(last),
            count_target: target(last),
            rows_target: target(rows),
            ..Session::FRESH
        }
    })
}

fn target(text: &str, maria: bool, rule: Option<Wish>, session: Session) -> Target {
    let dialect =
        if maria { Dialect::new(Flavor::MariaDb, 101_119) } else { Dialect::new(Flavor::MySql, 90_704) };
    let hint = leading_comment_hint(text.as_bytes()).and_then(hint::parse).unwrap_or_default();
    let asked = Asked { hint, rule: Policy { wish: rule, ..Policy::default() } };
    decide(&classify(text.as_bytes(), dialect), asked, session, Replica::Serving).target
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn frames_are_reads(frame in frame(), gaps in gaps(), upper: bool, maria: bool) {
        let text = dress(&fill(&frame, None), &gaps, upper);
        prop_assert_eq!(target(&text, maria, None, Session::FRESH), Target::Replica, "{}", text);
    }

    #[test]
    fn what_writes_anywhere_in_a_read_goes_to_no_replica(
        frame in frame(), place: Index, (writing, maria) in writing(), gaps in gaps(), upper: bool,
        hint in select(HINTS), rule in select(&[None, Some(Wish::Replica), Some(Wish::Auto)][..]),
        session in session(),
    ) {
        let places = frame.matches('{').count();
        let text = fill(&frame, Some((place.index(places), &writing)));
        let text = format!("{hint}{}", dress(&text, &gaps, upper));
        prop_assert_eq!(target(&text, maria, rule, session), Target::Primary, "{}", text);
    }

    #[test]
    fn statements_that_write_go_to_no_replica(
        statement in select(WRITING_STATEMENTS), frame in frame(), gaps in gaps(), upper: bool, maria: bool,
        hint in select(HINTS), rule in select(&[None, Some(Wish::Replica)][..]), session in session(),
    ) {
        let text = statement.replace("{query}", &fill(&frame, None));
        let text = format!("{hint}{}", dress(&text, &gaps, upper));
        prop_assert_eq!(target(&text, maria, rule, session), Target::Primary, "{}", text);
    }
}
