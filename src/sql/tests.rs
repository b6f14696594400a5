//! The module as its users see it: tables of statements, and properties over generated ones.

use super::*;
use proptest::prelude::*;

const MYSQL: Dialect = Dialect::new(Flavor::MySql, 80_036);
const MARIADB: Dialect = Dialect { flavor: Flavor::MariaDb, version: 101_119, ..MYSQL };

fn of(text: &str, dialect: Dialect) -> Statement {
    classify(text.as_bytes(), dialect)
}

fn names(tables: &[TableName]) -> Vec<String> {
    let full = |table: &TableName| match &table.schema {
        Some(schema) => format!("{schema}.{}", table.name),
        None => table.name.clone(),
    };
    let mut names: Vec<_> = tables.iter().map(full).collect();
    names.sort();
    names
}

#[test]
fn kinds() {
    for (text, kind) in [
        ("SELECT 1", Kind::Read),
        ("((select 1))", Kind::Read),
        ("(WITH a AS (SELECT 1) SELECT * FROM a)", Kind::Read),
        ("VALUES ROW(1, 2)", Kind::Read),
        ("TABLE t", Kind::Read),
        ("WITH a AS (SELECT 1) SELECT * FROM a", Kind::Read),
        ("WITH a AS (SELECT 1) SELECT * FROM t FOR UPDATE", Kind::Read),
        ("WITH a AS (SELECT 1) DELETE FROM t", Kind::Write),
        ("WITH a (n) AS (SELECT 1) UPDATE t SET b = 1", Kind::Write),
        ("INSERT INTO t VALUES (1)", Kind::Write),
        ("replace t values (1)", Kind::Write),
        ("LOAD DATA INFILE 'x' INTO TABLE t", Kind::Write),
        ("LOAD INDEX INTO CACHE t", Kind::Admin),
        ("(DELETE FROM t)", Kind::Unknown),
        ("CREATE TABLE t (a INT)", Kind::Ddl),
        ("TRUNCATE t", Kind::Ddl),
        ("BEGIN", Kind::Begin),
        ("begin work;", Kind::Begin),
        ("BEGIN NOT ATOMIC SELECT 1", Kind::Unknown),
        ("BEGIN DELETE FROM t", Kind::Unknown),
        ("START TRANSACTION WITH CONSISTENT SNAPSHOT", Kind::Begin),
        ("START REPLICA", Kind::Admin),
        ("COMMIT AND NO CHAIN", Kind::Commit),
        ("ROLLBACK", Kind::Rollback),
        ("ROLLBACK WORK TO SAVEPOINT s", Kind::Savepoint),
        ("ROLLBACK TO s", Kind::Savepoint),
        ("RELEASE SAVEPOINT s", Kind::Savepoint),
        ("SET @a = 1", Kind::SetSession),
        ("SET autocommit = 0, @@session.sql_mode = ''", Kind::SetSession),
        ("SET GLOBAL x = 1", Kind::SetGlobal),
        ("SET a = 1, @@global.x = 1", Kind::SetGlobal),
        ("SET a = (SELECT b, global FROM t), PERSIST x = 1", Kind::SetGlobal),
        ("SET a = 1, @@PERSIST_ONLY.x = 1", Kind::SetGlobal),
        ("SET PASSWORD = 'x'", Kind::Admin),
        ("SET DEFAULT ROLE r TO u", Kind::Admin),
        ("SET ROLE r", Kind::SetSession),
        ("SET STATEMENT max_statement_time = 1 FOR SELECT 1", Kind::Unknown),
        ("USE db", Kind::Use),
        ("SHOW TABLES", Kind::Show),
        ("CALL p()", Kind::Call),
        ("LOCK TABLES t READ", Kind::Lock),
        ("UNLOCK TABLES", Kind::Lock),
        ("ANALYZE TABLE t", Kind::Admin),
        ("ANALYZE SELECT 1", Kind::Explain),
        ("ANALYZE FORMAT=JSON DELETE FROM t", Kind::Explain),
        ("GRANT ALL ON *.* TO u", Kind::Admin),
        ("PREPARE s FROM 'SELECT 1'", Kind::Prepare),
        ("EXECUTE s", Kind::Execute),
        ("EXECUTE IMMEDIATE 'DELETE FROM t'", Kind::Execute),
        ("DROP PREPARE s", Kind::Deallocate),
        ("KILL 5", Kind::Kill),
        ("DESC t", Kind::Explain),
        ("HANDLER t READ FIRST", Kind::Unknown),
        ("DO SLEEP(1)", Kind::Unknown),
        ("XA START 'x'", Kind::Unknown),
        ("SIGNAL SQLSTATE '45000'", Kind::Unknown),
        ("", Kind::Unknown),
        ("-- nothing", Kind::Unknown),
        (";", Kind::Unknown),
        ("SELECT 1; SELECT 2", Kind::Read),
        ("SELECT 1; DELETE FROM t", Kind::Unknown),
        ("/*!50000 BEGIN */", Kind::Begin),
        ("/*!99999 EXPLAIN */ DELETE FROM t", Kind::Write),
    ] {
        assert_eq!(of(text, MYSQL).kind, kind, "{text}");
    }
}

#[test]
fn certain_reads() {
    for text in [
        "SELECT 1",
        "SELECT 1 --",
        "SELECT 1;",
        "SELECT c FROM sbtest1 WHERE id=12345",
        "/* app:web */ SELECT * FROM t -- done",
        "SELECT /*!50000 SQL_NO_CACHE */ * FROM t",
        "SELECT /*+ MAX_EXECUTION_TIME(1000) */ * FROM t",
        "SELECT SQL_CALC_FOUND_ROWS * FROM t LIMIT 10",
        "SELECT COUNT(*), MAX(a), NOW(), RAND(), UUID() FROM t GROUP BY b HAVING COUNT(*) > 1",
        "SELECT * FROM t WHERE a IN (1, 2) AND (b OR NOT (c)) AND EXISTS (SELECT 1 FROM u)",
        "SELECT IF(a, 'x', \"y\"), REPLACE(a, 'b', 'c'), INSERT(a, 1, 2, 'x'), LEFT(a, 1) FROM t",
        "SELECT `update`, `for` FROM `delete` AS `lock`",
        "SELECT 'INTO OUTFILE', 'FOR UPDATE', '@a := 1', 'f(x)' FROM t",
        "SELECT a FROM t USE INDEX FOR ORDER BY (i) WHERE b = 1",
        "SELECT a FROM t FORCE INDEX (i) PARTITION (p0, p1)",
        "SELECT SUM(a) OVER (PARTITION BY b ORDER BY c ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
        "SELECT RANK() OVER w FROM t WINDOW w AS (ORDER BY a)",
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT * FROM n",
        "WITH sleep (a) AS (SELECT 1), benchmark(b) AS (SELECT 2) SELECT * FROM sleep, benchmark",
        "SELECT * FROM (SELECT 1, 2) AS d (a, b)",
        "SELECT CAST(a AS DECIMAL(10, 2)), CONVERT(b USING utf8mb4), CAST(c AS CHAR (3)) FROM t",
        "SELECT EXTRACT(YEAR FROM d), SUBSTRING(a FROM 1 FOR 2), INTERVAL(1, 2), d + INTERVAL 1 DAY FROM t",
        "SELECT MATCH (a) AGAINST ('x' IN BOOLEAN MODE) FROM t",
        "SELECT * FROM JSON_TABLE('[1]', '$[*]' COLUMNS (a INT PATH '$')) AS j",
        "SELECT a->'$.b', a->>'$.c' FROM t",
        "SELECT * FROM t FOR SYSTEM_TIME AS OF TIMESTAMP '2024-01-01'",
        "(SELECT 1) UNION (SELECT 2) ORDER BY 1",
        "VALUES ROW(1, 2), ROW(3, 4)",
        "TABLE t",
        "SELECT USER(), CURRENT_USER(), CURRENT_USER, DATABASE(), VERSION()",
        "SELECT GROUP_CONCAT(DISTINCT a ORDER BY b SEPARATOR ',') FROM t",
        "SELECT * FROM größe WHERE straße = 'x'",
        "SELECT 1; SELECT 2 FROM t;",
        "SELECT -1, +2, (-3), a - -1 FROM t LIMIT ?, ?",
    ] {
        for dialect in [MYSQL, MARIADB] {
            let statement = of(text, dialect);
            assert!(statement.is_certain_read(), "{text} on {:?}: {statement:?}", dialect.flavor);
        }
    }
}

#[test]
fn reads_that_are_not_certain() {
    for (text, fact) in [
        ("SELECT * FROM t FOR UPDATE", Facts::LOCKS_ROWS),
        ("SELECT 1 FOR UPDATE", Facts::LOCKS_ROWS),
        ("SELECT * FROM t FOR SHARE SKIP LOCKED", Facts::LOCKS_ROWS),
        ("SELECT * FROM t FOR /* x */ UPDATE OF t, u", Facts::LOCKS_ROWS),
        ("SELECT * FROM t LOCK IN SHARE MODE", Facts::LOCKS_ROWS),
        ("SELECT * FROM (SELECT * FROM t FOR UPDATE) x", Facts::LOCKS_ROWS),
        ("(SELECT 1) UNION (SELECT 2 FOR UPDATE)", Facts::LOCKS_ROWS),
        ("SELECT * FROM t WHERE a IN (SELECT b FROM u LOCK IN SHARE MODE)", Facts::LOCKS_ROWS),
        ("SELECT 1 /*!50000 FOR UPDATE */ FROM t", Facts::LOCKS_ROWS),
        ("SELECT a INTO @x FROM t", Facts::INTO),
        ("SELECT a FROM t INTO @x, @y", Facts::ASSIGNS_VARIABLE),
        ("SELECT 'x' INTO OUTFILE '/tmp/x'", Facts::INTO),
        ("SELECT 'x'INTO DUMPFILE '/tmp/x'", Facts::INTO),
        ("TABLE t INTO OUTFILE 'x'", Facts::INTO),
        ("(SELECT 1) LIMIT 1 INTO @v", Facts::INTO),
        ("SELECT @a := 1", Facts::ASSIGNS_VARIABLE),
        ("SELECT @a", Facts::READS_USER_VARIABLE),
        ("SELECT * FROM t WHERE a = @`b c`", Facts::READS_USER_VARIABLE),
        ("SELECT @@version", Facts::READS_SYSTEM_VARIABLE),
        ("SELECT @@session.warning_count", Facts::LAST_RESULT),
        ("SELECT @@identity", Facts::LAST_RESULT.and(Facts::READS_SYSTEM_VARIABLE)),
        ("SELECT @@IDENTITY", Facts::LAST_RESULT),
        ("SELECT GET_LOCK('a', 1)", Facts::UNSAFE_FUNCTION),
        ("SELECT sleep (1)", Facts::UNSAFE_FUNCTION),
        ("SELECT BENCHMARK(1, MD5('a'))", Facts::UNSAFE_FUNCTION),
        ("SELECT my_function()", Facts::UNSAFE_FUNCTION),
        ("SELECT a FROM t WHERE b = f (1)", Facts::MAY_WRITE),
        ("SELECT `abs`(1)", Facts::UNSAFE_FUNCTION),
        ("SELECT db.abs(1)", Facts::UNSAFE_FUNCTION),
        ("SELECT db . `f` (1)", Facts::UNSAFE_FUNCTION),
        ("SELECT count (*) FROM t", Facts::UNSAFE_FUNCTION),
        ("SELECT count/**/(*) FROM t", Facts::UNSAFE_FUNCTION),
        ("SELECT äbs(1)", Facts::UNSAFE_FUNCTION),
        ("SELECT DEFAULT(a) FROM t", Facts::UNSAFE_FUNCTION),
        ("SELECT ENCRYPT('a')", Facts::UNSAFE_FUNCTION),
        ("SELECT LOAD_FILE('/etc/passwd')", Facts::UNSAFE_FUNCTION),
        ("SELECT WAIT_FOR_EXECUTED_GTID_SET('x', 1)", Facts::UNSAFE_FUNCTION),
        ("SELECT UUID_SHORT()", Facts::UNSAFE_FUNCTION),
        ("SELECT LAST_INSERT_ID(5)", Facts::UNSAFE_FUNCTION),
        ("SELECT LAST_INSERT_ID()", Facts::LAST_RESULT),
        ("SELECT FOUND_ROWS(), ROW_COUNT()", Facts::LAST_RESULT),
        ("SELECT CONNECTION_ID()", Facts::CONNECTION_LOCAL),
        ("SELECT CURRENT_ROLE", Facts::CONNECTION_LOCAL),
        ("SELECT NEXTVAL(s)", Facts::SEQUENCE),
        ("SELECT NEXT VALUE FOR s", Facts::SEQUENCE),
        ("SELECT s.nextval", Facts::SEQUENCE),
        ("SELECT SETVAL(s, 1)", Facts::SEQUENCE),
        ("SELECT * FROM t PROCEDURE ANALYSE()", Facts::UNSAFE_FUNCTION),
        ("SELECT /*+ SET_VAR(sort_buffer_size = 1) */ 1", Facts::UNSAFE_FUNCTION),
        ("SELECT /*+ Resource_Group(x) */ 1", Facts::UNSAFE_FUNCTION),
        ("SELECT * FROM information_schema.tables", Facts::SYSTEM_SCHEMA),
        ("SELECT * FROM `MySQL` . user", Facts::SYSTEM_SCHEMA),
        ("SELECT * FROM Performance_Schema.threads, t", Facts::SYSTEM_SCHEMA),
        ("TABLE sys.version", Facts::SYSTEM_SCHEMA),
        ("SELECT 1; SELECT @a := 2", Facts::MULTI),
        ("WITH a AS (SELECT f()) SELECT * FROM a", Facts::UNSAFE_FUNCTION),
        ("WITH f (a) AS (SELECT 1) SELECT f(a) FROM f", Facts::UNSAFE_FUNCTION),
    ] {
        for dialect in [MYSQL, MARIADB] {
            let statement = of(text, dialect);
            assert_eq!(statement.kind, Kind::Read, "{text}");
            assert!(!statement.is_certain_read(), "{text} on {:?}", dialect.flavor);
            assert!(statement.facts.contains(fact), "{text}: {:?}", statement.facts);
        }
    }
}

#[test]
fn counters_of_a_session_are_told_from_those_of_a_server() {
    for (text, default, uses) in [
        ("SHOW SESSION STATUS", "d", true),
        ("SHOW GLOBAL STATUS", "d", false),
        ("SHOW TABLE STATUS", "d", false),
        ("SHOW REPLICA STATUS", "d", false),
        ("SELECT * FROM performance_schema.session_status", "d", true),
        ("SELECT * FROM session_status", "performance_schema", true),
        ("SELECT * FROM session_status", "d", false),
        ("TRUNCATE TABLE performance_schema.events_statements_history", "d", true),
        ("SELECT * FROM performance_schema.global_status", "d", false),
    ] {
        for dialect in [MYSQL, MARIADB] {
            assert_eq!(of(text, dialect).uses_session_counters(default.as_bytes()), uses, "{text}");
        }
    }
    assert!(shows_tls(b"SHOW STATUS LIKE 'Ssl_cipher' "));
    assert!(shows_tls(b"SHOW STATUS LIKE \"SSL_VERSION\""));
    for text in ["SHOW STATUS", "SHOW STATUS LIKE 'Handler%'", "SHOW STATUS WHERE a = 'ssl_cipher' OR 1"] {
        assert!(!shows_tls(text.as_bytes()), "{text}");
    }
}

#[test]
fn tables_of_system_schemas_are_known_by_the_default_one() {
    for (text, default, system) in [
        ("SELECT * FROM tables", "information_schema", true),
        ("SELECT * FROM user", "MYSQL", true),
        ("SELECT * FROM user", "d", false),
        ("SELECT * FROM d.user", "mysql", false),
        ("SELECT 1", "sys", false),
    ] {
        assert_eq!(of(text, MYSQL).is_of_system_schema(default.as_bytes()), system, "{text}");
    }
}

#[test]
fn doubtful_bytes_are_never_a_read() {
    for text in [
        &b"SELECT 1 /*!99999 FOR UPDATE */"[..],
        b"SELECT 1 /*!80030 FOR UPDATE */ FROM t",
        b"SELECT 1 /*M!110800 FOR UPDATE */",
        b"SELECT 'unterminated",
        b"SELECT 1 /* unterminated",
        b"SELECT 1\0",
        b"SELECT \xE9t\xE9 FROM t",
        b"SELECT $$ x $$",
        b"SELECT /*+ QB_NAME(`a`) */ 1",
        b"SELECT 1 \xC3\xA0INTO OUTFILE 'x'",
    ] {
        for dialect in [MYSQL, MARIADB] {
            let statement = classify(text, dialect);
            let text = String::from_utf8_lossy(text);
            assert!(statement.facts.contains(Facts::AMBIGUOUS.and(Facts::MAY_WRITE)), "{text}");
            assert_eq!(statement.kind, Kind::Unknown, "{text}");
            assert!(statement.unparsed, "{text}");
        }
    }
    let live = of("SELECT 1 /*!80000 FOR UPDATE */ FROM t", MYSQL);
    assert!(live.facts.contains(Facts::LOCKS_ROWS) && !live.facts.contains(Facts::AMBIGUOUS));
    let skipped = of("SELECT 1 /*!80000 FOR UPDATE */ FROM t", MARIADB);
    assert!(!skipped.facts.contains(Facts::LOCKS_ROWS) && !skipped.is_certain_read());
    let plain = of("SELECT 1 /*M! FOR UPDATE */", MARIADB);
    assert_eq!((plain.kind, plain.facts), (Kind::Read, Facts::LOCKS_ROWS));
    assert!(!of("SELECT 1 /*M! FOR UPDATE */", MYSQL).is_certain_read());
    let hidden = of("/*M!100000 DELETE FROM t */", MARIADB);
    assert_eq!(hidden.kind, Kind::Write);
    let gbk = Dialect { ascii_safe: false, ..MYSQL };
    assert!(!classify(b"SELECT '\xBF\\'", gbk).is_certain_read());
    assert!(classify(b"SELECT 'plain'", gbk).is_certain_read());
}

#[test]
fn sql_mode_moves_the_quotes() {
    let text = r"SELECT '\'; DELETE FROM t; -- '";
    assert!(of(text, MYSQL).is_certain_read());
    let literal = of(text, Dialect { no_backslash_escapes: true, ..MYSQL });
    assert!(literal.facts.contains(Facts::MULTI) && literal.kind == Kind::Unknown);
    let text = r#"SELECT "f"(1), "a" FROM "mysql"."user""#;
    let ansi = of(text, Dialect { ansi_quotes: true, ..MYSQL });
    assert!(ansi.facts.contains(Facts::UNSAFE_FUNCTION.and(Facts::SYSTEM_SCHEMA)));
    assert_eq!(names(&ansi.tables), ["mysql.user"]);
}

#[test]
fn facts_of_other_kinds() {
    for (text, facts) in [
        ("START TRANSACTION READ ONLY", Facts::READ_ONLY_BEGIN),
        ("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", Facts::READ_ONLY_BEGIN),
        ("START TRANSACTION READ WRITE", Facts::empty()),
        ("COMMIT", Facts::empty()),
        ("COMMIT RELEASE", Facts::RELEASES),
        ("ROLLBACK WORK AND NO CHAIN RELEASE", Facts::RELEASES),
        ("COMMIT AND CHAIN NO RELEASE", Facts::empty()),
        ("LOCK TABLES t READ", Facts::LOCKS_TABLES),
        ("UNLOCK TABLES", Facts::UNLOCKS_TABLES),
        ("LOCK INSTANCE FOR BACKUP", Facts::empty()),
        ("FLUSH TABLES WITH READ LOCK", Facts::LOCKS_TABLES.and(Facts::MAY_WRITE)),
        ("FLUSH TABLES t FOR EXPORT", Facts::LOCKS_TABLES.and(Facts::MAY_WRITE)),
        ("FLUSH STATUS", Facts::SESSION_COUNTERS.and(Facts::MAY_WRITE)),
        ("FLUSH LOCAL STATUS", Facts::SESSION_COUNTERS.and(Facts::MAY_WRITE)),
        ("SHOW STATUS LIKE 'Handler%'", Facts::SESSION_COUNTERS.and(Facts::CONNECTION_LOCAL)),
        ("SHOW LOCAL STATUS", Facts::SESSION_COUNTERS.and(Facts::CONNECTION_LOCAL)),
        ("FLUSH TABLES", Facts::MAY_WRITE),
        ("SET NAMES utf8mb4", Facts::SETS_NAMES),
        ("SET NAMES 'utf8mb4' COLLATE 'utf8mb4_bin'", Facts::SETS_NAMES),
        ("SET CHARACTER SET latin1", Facts::SETS_NAMES),
        ("SET CHARSET DEFAULT", Facts::SETS_NAMES),
        ("SET NAMES utf8mb4, autocommit = 0", Facts::empty()),
        ("SET NAMES utf8mb4, @v = 1", Facts::ASSIGNS_VARIABLE),
        ("SET NAMES @v", Facts::READS_USER_VARIABLE),
        ("SET SESSION TRANSACTION READ ONLY", Facts::SETS_TRANSACTION_CHARACTERISTICS),
        ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", Facts::SETS_TRANSACTION_CHARACTERISTICS),
        ("SET autocommit = 1", Facts::empty()),
        ("SET @a = 1, @b := 2", Facts::ASSIGNS_VARIABLE),
        ("SET @a = f()", Facts::ASSIGNS_VARIABLE.and(Facts::UNSAFE_FUNCTION).and(Facts::MAY_WRITE)),
        ("SET @@session.sql_mode = @@global.sql_mode", Facts::READS_SYSTEM_VARIABLE),
        ("SET session_track_gtids = OFF", Facts::MENTIONS_SESSION_TRACK),
        ("SET @@SESSION_TRACK_SCHEMA = 0", Facts::MENTIONS_SESSION_TRACK.and(Facts::SETS_UNREPORTED)),
        ("PREPARE s FROM 'SET session_track_schema=0'", Facts::MENTIONS_SESSION_TRACK),
        ("CREATE TEMPORARY TABLE t (a INT)", Facts::TEMPORARY_TABLE.and(Facts::MAY_WRITE)),
        ("CREATE OR REPLACE TEMPORARY TABLE t (a INT)", Facts::TEMPORARY_TABLE.and(Facts::MAY_WRITE)),
        ("DROP TEMPORARY TABLE t", Facts::TEMPORARY_TABLE.and(Facts::MAY_WRITE).and(Facts::DROPS_TABLES)),
        ("DROP TABLE t", Facts::MAY_WRITE.and(Facts::DROPS_TABLES)),
        ("CREATE TABLE t (temporary INT)", Facts::MAY_WRITE),
        ("SHOW WARNINGS LIMIT 1", Facts::LAST_RESULT),
        ("SHOW COUNT(*) ERRORS", Facts::LAST_RESULT),
        ("SHOW PROFILES", Facts::CONNECTION_LOCAL),
        ("SHOW TABLES", Facts::empty()),
        (
            "GET DIAGNOSTICS @n = NUMBER",
            Facts::LAST_RESULT
                .and(Facts::ASSIGNS_VARIABLE)
                .and(Facts::READS_USER_VARIABLE)
                .and(Facts::MAY_WRITE)
                .and(Facts::SETS_UNREPORTED),
        ),
        ("EXPLAIN SELECT 1", Facts::empty()),
        ("EXPLAIN DELETE FROM t", Facts::empty()),
        ("EXPLAIN ANALYZE DELETE FROM t", Facts::MAY_WRITE),
        ("ANALYZE UPDATE t SET a = 1", Facts::MAY_WRITE),
        ("EXPLAIN FORMAT=JSON INTO @v SELECT 1", Facts::INTO.and(Facts::ASSIGNS_VARIABLE)),
        ("INSERT INTO t (a) VALUES (1)", Facts::MAY_WRITE),
        ("GRANT ALL ON *.* TO 'u'@'h', u@h", Facts::MAY_WRITE),
        ("CREATE DEFINER = u@h PROCEDURE p() BEGIN SELECT 1; END", Facts::MAY_WRITE.and(Facts::MULTI)),
        ("EXECUTE s USING @a", Facts::READS_USER_VARIABLE.and(Facts::MAY_WRITE).and(Facts::SETS_UNREPORTED)),
        ("CALL p()", Facts::MAY_WRITE.and(Facts::UNSAFE_FUNCTION).and(Facts::SETS_UNREPORTED)),
        ("SET a = 1, @@b = 2", Facts::SETS_UNREPORTED),
        ("SET @@`b` = 2", Facts::SETS_UNREPORTED),
        ("SET @@local.a = 1, @@session.b = 2", Facts::empty()),
        ("SET a = 1; SET @@b = 2", Facts::SETS_UNREPORTED.and(Facts::MULTI)),
        ("SELECT SQL_CALC_FOUND_ROWS 1", Facts::CALC_FOUND_ROWS),
        ("SELECT 1; SELECT 2", Facts::MULTI),
    ] {
        assert_eq!(of(text, MYSQL).facts, facts, "{text}");
    }
}

#[test]
fn variables_are_read_or_written() {
    for (text, read, written) in [
        ("SET @A = @b + 1, @`c` := @'d'", &["b", "d"][..], &["a", "c"][..]),
        ("SELECT @x := @y, @z", &["y", "z"], &["x"]),
        ("SELECT 1, 2 INTO @a, @b", &[], &["a", "b"]),
        ("CALL p(@x)", &["x"], &["x"]),
        ("EXECUTE s USING @a, @b", &["a", "b"], &[]),
        ("INSERT INTO t VALUES (@v)", &["v"], &[]),
        ("CREATE USER 'u'@'h'", &[], &[]),
    ] {
        let statement = of(text, MYSQL);
        assert_eq!(
            (&statement.variables_read[..], &statement.variables_written[..]),
            (
                &read.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()[..],
                &written.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()[..],
            ),
            "{text}"
        );
    }
}

#[test]
fn tables_are_named() {
    for (text, tables) in [
        ("SELECT * FROM a JOIN d.b ON a.x = b.x, `c d`", &["a", "c d", "d.b"][..]),
        ("SELECT * FROM a WHERE x IN (SELECT y FROM B)", &["B", "a"]),
        ("WITH a AS (SELECT * FROM t) SELECT * FROM a, d.a", &["d.a", "t"]),
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a", &["a"]),
        ("WITH RECURSIVE a AS (SELECT 1 UNION SELECT x FROM a) SELECT * FROM a", &[]),
        ("WITH a AS (SELECT 1), b AS (SELECT * FROM a) SELECT * FROM b", &[]),
        ("SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a) x, a", &["a"]),
        ("TABLE d.t", &["d.t"]),
        ("SELECT * FROM t, u LOCK IN SHARE MODE", &["t", "u"]),
        ("INSERT INTO d.t (a, b) SELECT x, y FROM u", &["d.t", "u"]),
        ("INSERT t VALUES (1) ON DUPLICATE KEY UPDATE a = 1, b = 2", &["t"]),
        ("REPLACE LOW_PRIORITY t SET a = REPLACE(b, 'x', 'y')", &["t"]),
        ("UPDATE a, b SET a.x = 1, b.y = 2", &["a", "b"]),
        ("DELETE FROM a WHERE x = 1", &["a"]),
        ("DELETE a FROM a JOIN b USING (id)", &["a", "b"]),
        ("CREATE TABLE IF NOT EXISTS d.t (a INT, b INT)", &["d.t"]),
        ("DROP TABLE a, b", &["a", "b"]),
        ("RENAME TABLE a TO b", &["a", "b"]),
        ("TRUNCATE t", &["t"]),
        ("LOCK TABLES a READ, b WRITE", &["a", "b"]),
        ("LOAD DATA INFILE 'x' INTO TABLE t", &["t"]),
    ] {
        assert_eq!(names(&of(text, MYSQL).tables), tables, "{text}");
    }
}

#[test]
fn kill_is_understood_where_it_is_plain() {
    for (text, number, query_only) in [
        ("KILL 5", "5", false),
        ("kill connection 123;", "123", false),
        ("KILL QUERY 77 -- x", "77", true),
        ("KILL /*!50000 QUERY */ 8", "8", true),
        ("KILL HARD QUERY 9", "9", true),
        ("KILL SOFT 9", "9", false),
    ] {
        let kill = of(text, MARIADB).kill.unwrap_or_else(|| panic!("{text}"));
        assert_eq!((&text[kill.number], kill.query_only), (number, query_only), "{text}");
    }
    for text in [
        "KILL QUERY ID 5",
        "KILL USER 'u'@'h'",
        "KILL 5 + 1",
        "KILL -5",
        "KILL 1e3",
        "KILL 0x5",
        "KILL (5)",
        "KILL @a",
        "KILL 5; KILL 6",
        "KILL 5, 6",
        "KILL 5 /*!99999 x */",
        "KILL",
    ] {
        assert_eq!(of(text, MARIADB).kill, None, "{text}");
    }
}

#[test]
fn refused_by_sqlparser_and_still_proven() {
    for (text, certain) in [
        ("SELECT !0 * 5 FROM ( t1, t2 ) WHERE MATCH (a) AGAINST ('x')", true),
        ("SELECT 10 MOD 7 FROM { OJ t LEFT JOIN u ON TRUE }", true),
        ("SELECT * FROM t LIMIT ROWS EXAMINED 9", true),
        ("SELECT * FROM ( t1, t2 ) LOCK IN SHARE MODE", false),
        ("SELECT !f(1)", false),
    ] {
        let statement = of(text, MYSQL);
        assert_eq!((statement.unparsed, statement.is_certain_read()), (true, certain), "{text}");
    }
}

/// On the small stack of a test thread, without the optimiser.
#[test]
fn size_and_depth_are_survived() {
    let long = |head: &str, part: &str, count: usize| format!("{head}{}1", part.repeat(count));
    let nested = |open: &str, inner: &str, close: &str, depth: usize| {
        format!("SELECT {}{inner}{}", open.repeat(depth), close.repeat(depth))
    };
    for text in [
        long("SELECT ", "a = 1 OR ", 40_000),
        long("SELECT ", "a = 1 OR ", 490),
        long("SELECT ", "1 + ", 900),
        long("", "SELECT a FROM t UNION ", 300) + " FROM t",
        long("SELECT ", "- ", 1_500),
        nested("(", "1", ")", 10_000),
        nested("(", "1", ")", 45),
        nested("(SELECT ", "1", ")", 400),
        nested("ABS(", "1", ")", 600),
        nested("CASE WHEN ", "1", " THEN 1 END", 300),
    ] {
        assert!(of(&text, MYSQL).is_certain_read(), "{}", &text[..40]);
        assert!(!of(&format!("{text} INTO @v"), MYSQL).is_certain_read(), "{}", &text[..40]);
        of(&format!("WITH x AS ({text}) {text} UNION {text}"), MYSQL);
    }
}

/// What makes a statement write, lock, wait or look at the session, with blanks and comments to be put
/// between its words.
fn poison() -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::select(vec![
        vec!["FOR", "UPDATE"],
        vec!["FOR", "SHARE"],
        vec!["LOCK", "IN", "SHARE", "MODE"],
        vec!["INTO", "OUTFILE", "'x'"],
        vec!["INTO", "@v"],
        vec!["+", "stored", "(", "1", ")"],
        vec!["+", "db", ".", "abs", "(", "1", ")"],
        vec!["+", "`count`", "(", "1", ")"],
        vec!["+", "SLEEP", "(", "1", ")"],
        vec!["+", "GET_LOCK", "(", "'a'", ",", "1", ")"],
        vec!["+", "NEXTVAL", "(", "s", ")"],
        vec!["+", "NEXT", "VALUE", "FOR", "s"],
        vec!["+", "(", "@a", ":=", "1", ")"],
        vec!["+", "@@x"],
        vec!["+", "FOUND_ROWS", "(", ")"],
        vec![";", "DELETE", "FROM", "t"],
        vec![";", "COMMIT"],
        vec!["UNION", "SELECT", "*", "FROM", "mysql", ".", "user"],
        vec!["PROCEDURE", "ANALYSE", "(", ")"],
    ])
}

fn gap() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        " ",
        "\n",
        "\t",
        "/**/",
        " /* ' */ ",
        "# \"\n",
        "-- `\n",
        " /*!*/ ",
        "/*!50000*/",
        "\r\n",
        "\x0B",
        "/*+ x */ ",
    ])
}

fn read() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "SELECT a",
        "SELECT 1 FROM t WHERE b = 'x'",
        "select * from t where a in (1, 2, 3) and b = 2",
        "WITH c AS (SELECT 1) SELECT * FROM c WHERE x = 1",
        "(SELECT 1)",
        "VALUES ROW(1, 'it''s')",
        "SELECT '\\'', \"/*\", `--`, 1",
        "TABLE t",
    ])
    .prop_map(str::to_owned)
}

fn mixed_case(word: &str, upper: bool) -> String {
    if upper || word.starts_with(['\'', '`', '@']) { word.to_owned() } else { word.to_ascii_lowercase() }
}

/// As much stack as the threads have that serve clients.
const STACK: usize = 2 * 1024 * 1024;

#[test]
fn nesting_overflows_no_stack() {
    let nests = [
        ("SELECT ", "(", "1", ")", ""),
        ("SELECT ", "(SELECT ", "1", ")", ""),
        ("SELECT ", "f(", "1", ")", ""),
        ("SELECT ", "CAST(", "1", " AS CHAR)", ""),
        ("SELECT ", "CASE WHEN ", "1", " THEN 1 END", ""),
        ("SELECT ", "NOT ", "1", "", ""),
        ("SELECT ", "- ", "a", "", ""),
        ("SELECT ", "1 + (", "1", ")", ""),
        ("SELECT ", "1 IN (1, ", "1", ")", ""),
        ("SELECT ", "a BETWEEN (", "1", ") AND 2", ""),
        ("SELECT ", "INTERVAL(1, ", "1", ")", ""),
        ("SELECT ", "d + INTERVAL (", "1", ") DAY", ""),
        ("SELECT ", "EXISTS (SELECT 1 FROM t WHERE ", "1", ")", ""),
        ("SELECT ", "(a, (", "1", "))", ""),
        ("SELECT 1 FROM ", "(", "t", ")", ""),
        ("SELECT 1 FROM ", "(t JOIN ", "t", ")", ""),
        ("SELECT 1 FROM ", "((t JOIN t) JOIN ", "t", ")", ""),
        ("SELECT 1 FROM ", "t JOIN (", "t", ")", ""),
        ("SELECT 1 FROM ", "(SELECT * FROM ", "t", ") AS x", ""),
        ("SELECT 1 FROM ", "LATERAL (SELECT * FROM ", "t", ") AS x", ""),
        ("", "(", "SELECT 1", ")", ""),
        ("", "(SELECT 1) UNION (", "SELECT 1", ")", ""),
        ("", "WITH w AS (", "SELECT 1", ") SELECT * FROM w", ""),
        ("SELECT 1 WHERE ", "a OR (b AND ", "1", ")", ""),
        ("SELECT JSON_TABLE(", "'[]', '$' COLUMNS (NESTED PATH '$' COLUMNS (", "a INT PATH '$'", "))", ")"),
        ("SELECT ", "COUNT(1) OVER (PARTITION BY ", "a", ")", ""),
        ("SELECT ", "a COLLATE x LIKE (", "1", ")", ""),
        ("SELECT ", "@a := ", "1", "", ""),
        ("SELECT 1 FROM t WHERE ", "a = 1 OR ", "1", "", ""),
    ];
    let run = move || {
        for (before, opens, inside, closes, after) in nests {
            for depth in [3, 5, 8, 10, 15, 20, 30, 50, 100, 200, 1_000, 20_000] {
                let text = format!("{before}{}{inside}{}{after}", opens.repeat(depth), closes.repeat(depth));
                for dialect in [MYSQL, MARIADB] {
                    classify(text.as_bytes(), dialect);
                    digest_text(text.as_bytes(), dialect);
                }
            }
        }
    };
    std::thread::Builder::new().stack_size(STACK).spawn(run).unwrap().join().unwrap();
}

proptest! {
    #[test]
    fn what_writes_is_never_a_certain_read(
        read in read(), poison in poison(), gaps in prop::collection::vec(gap(), 12), upper: bool,
        inside: bool, tail in gap(), maria: bool, ansi: bool, literal: bool,
    ) {
        let mut text = read;
        for (word, gap) in poison.iter().zip(&gaps) {
            text.push_str(gap);
            text.push_str(&mixed_case(word, upper));
        }
        text.push_str(tail);
        if inside {
            text = format!("SELECT * FROM (\n{text}\n) AS x");
        }
        let flavor = if maria { Flavor::MariaDb } else { Flavor::MySql };
        let dialect = Dialect { flavor, ansi_quotes: ansi, no_backslash_escapes: false, ..MYSQL };
        prop_assert!(!of(&text, dialect).is_certain_read(), "{}", text);
        let other = Dialect { no_backslash_escapes: literal, ..dialect };
        let cached = Cache::new(8).classify(text.as_bytes(), other);
        prop_assert_eq!(&*cached, &of(&text, other));
    }

    #[test]
    fn bytes_never_panic_and_the_cache_tells_the_same(
        texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..8),
        ansi: bool, literal: bool, safe: bool, maria: bool,
    ) {
        let flavor = if maria { Flavor::MariaDb } else { Flavor::MySql };
        let dialect = Dialect {
            flavor, ansi_quotes: ansi, no_backslash_escapes: literal, ascii_safe: safe, ..MYSQL
        };
        let cache = Cache::new(4);
        for text in texts.iter().chain(&texts) {
            prop_assert_eq!(&*cache.classify(text, dialect), &classify(text, dialect));
            digest_text(text, dialect);
            leading_comment_hint(text);
        }
    }

    /// Pieces of SQL in any order, some of which share a digest.
    #[test]
    fn pieces_never_panic_and_the_cache_tells_the_same(
        texts in prop::collection::vec(prop::collection::vec(prop::sample::select(PIECES), 0..24), 2..12),
        maria: bool,
    ) {
        let dialect = if maria { MARIADB } else { MYSQL };
        let cache = Cache::new(1_000);
        for text in texts.iter().map(|pieces| pieces.concat()) {
            let statement = of(&text, dialect);
            prop_assert_eq!(&*cache.classify(text.as_bytes(), dialect), &statement, "{}", text);
        }
    }
}

const PIECES: &[&str] = &[
    "SELECT ",
    "1",
    "2",
    ", ",
    ",",
    "(",
    ")",
    " (",
    "a",
    "t",
    ".",
    " FROM ",
    " WHERE ",
    "'x'",
    "'y'",
    "\"y\"",
    "`q`",
    "NULL",
    "-",
    "- ",
    "+",
    " = ",
    "*",
    "count",
    "f",
    "@v",
    "@@",
    " INTO ",
    " FOR ",
    "UPDATE ",
    ";",
    "/*!",
    "*/",
    "/*",
    "-- ",
    "\n",
    "#",
    "?",
    ":=",
    " AS ",
    "WITH ",
    " UNION ",
    "SET ",
    "NAMES ",
    "INSERT ",
    "VALUES",
    " IN ",
    "KILL ",
    "CALL ",
    "BEGIN",
    "0x",
    "1e5",
    "'session_track'",
    "NEXT VALUE FOR ",
    "TABLE ",
    "EXPLAIN ",
    "CASE ",
];

#[test]
fn temporary_tables_are_named() {
    for (text, expected) in [
        ("CREATE TEMPORARY TABLE t SELECT * FROM u", &["t"][..]),
        ("CREATE OR REPLACE TEMPORARY TABLE IF NOT EXISTS s.`T` LIKE u", &["s.T"]),
        ("CREATE TEMPORARY SEQUENCE q", &["q"]),
        ("CREATE TEMPORARY TABLE a (x INT); CREATE TEMPORARY TABLE b (x INT)", &["a", "b"]),
        ("CREATE TABLE t (temporary INT)", &[]),
        ("DROP TEMPORARY TABLE t", &[]),
    ] {
        assert_eq!(names(&of(text, MARIADB).temporary), expected, "{text}");
    }
}
