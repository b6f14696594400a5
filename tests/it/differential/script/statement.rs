//! Text statements: every column type at its bounds, errors, warnings, several results, transactions, and state
//! that belongs to the session.

use super::{Action, Script};

pub(super) fn add(script: &mut Script) {
    script.queries(SET_UP);
    script.queries(TYPES);
    let every_byte: String = (0..=255u8).map(|byte| format!("{byte:02x}")).collect();
    script.query(format!("INSERT INTO bytes VALUES (1, x'{every_byte}'), (2, x''), (3, NULL)"));
    script.queries(&["SELECT id, b, HEX(b) FROM bytes ORDER BY id"]);
    script.queries(ERRORS);
    script.queries(WARNINGS);
    script.queries(SEVERAL);
    script.queries(TRANSACTIONS);
    script.queries(SESSION);
    script.queries(ODD);
    for sql in [b"".as_slice(), b";", b"-- only a comment", b"/* only a comment */", b"# \xff\xfe"] {
        script.query(sql);
    }
    for sql in [
        b"SELECT '\xff\xfe\x80', 1".as_slice(),
        b"SELECT \xc3\x28",
        b"SELECT 'a\0b', LENGTH('a\0b')",
        b"SELECT 1\0",
        b"SELECT 1 AS `\xe2\x82\xac`",
    ] {
        script.query(sql);
    }
    for (name, file) in [
        ("infile", b"1\tone\n2\ttwo\n3\t\\N\n".to_vec()),
        ("empty infile", vec![]),
        ("long infile", long_file()),
    ] {
        let sql = "LOAD DATA LOCAL INFILE 'file.txt' INTO TABLE loaded (id, t)";
        script.add(name, Action::Infile(sql, file));
        script.queries(&[
            "SHOW WARNINGS",
            "SELECT COUNT(*), SUM(id), MAX(t) FROM loaded",
            "DELETE FROM loaded",
        ]);
    }
    script.query("LOAD DATA LOCAL INFILE 'file.txt' INTO TABLE no_such_table (id, t)");
}

/// More than one packet of a file, with rows that warn.
fn long_file() -> Vec<u8> {
    (0..5000)
        .flat_map(|id| format!("{id}\trow {id}\n{}", if id == 7 { "x\ty\n" } else { "" }).into_bytes())
        .collect()
}

const SET_UP: &[&str] = &[
    "SELECT 1",
    "SELECT VERSION(), @@version_comment, DATABASE(), USER(), CURRENT_USER()",
    "CREATE TABLE ints (id INT PRIMARY KEY, t TINYINT, tu TINYINT UNSIGNED, s SMALLINT, su SMALLINT UNSIGNED, \
     m MEDIUMINT, mu MEDIUMINT UNSIGNED, i INT, iu INT UNSIGNED, b BIGINT, bu BIGINT UNSIGNED, \
     z INT(8) UNSIGNED ZEROFILL, bo BOOL, bit1 BIT(1), bit64 BIT(64), y YEAR)",
    "INSERT INTO ints VALUES \
     (1, -128, 0, -32768, 0, -8388608, 0, -2147483648, 0, -9223372036854775808, 0, 0, 0, b'0', 0, 1901), \
     (2, 127, 255, 32767, 65535, 8388607, 16777215, 2147483647, 4294967295, 9223372036854775807, \
      18446744073709551615, 99999999, 1, b'1', 18446744073709551615, 2155), \
     (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "CREATE TABLE reals (id INT PRIMARY KEY, f FLOAT, d DOUBLE, d1 DECIMAL(1,0), d2 DECIMAL(65,30), fz FLOAT ZEROFILL)",
    "INSERT INTO reals VALUES (1, -3.4028e38, -1.7976931348623157e308, -9, \
     -99999999999999999999999999999999999.999999999999999999999999999999, 0), \
     (2, 1.17549e-38, 2.2250738585072014e-308, 9, 0.000000000000000000000000000001, 1.5), \
     (3, 0, -0.0, 0, 0, NULL), (4, NULL, NULL, NULL, NULL, NULL)",
    "CREATE TABLE times (id INT PRIMARY KEY, d DATE, t TIME, t6 TIME(6), dt DATETIME, dt6 DATETIME(6), \
     ts TIMESTAMP NULL, ts3 TIMESTAMP(3) NULL)",
    "SET time_zone = '+00:00'",
    "INSERT INTO times VALUES (1, '1000-01-01', '-838:59:59', '-838:59:59.000000', '1000-01-01 00:00:00', \
     '1000-01-01 00:00:00.000001', '1970-01-01 00:00:01', '1970-01-01 00:00:01.001'), \
     (2, '9999-12-31', '838:59:59', '838:59:58.999999', '9999-12-31 23:59:59', '9999-12-31 23:59:59.999999', \
     '2038-01-19 03:14:07', '2038-01-19 03:14:06.999'), \
     (3, '2024-02-29', '00:00:00', '00:00:00.5', '2024-02-29 12:00:00', '2024-02-29 00:00:00', NULL, NULL), \
     (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "CREATE TABLE texts (id INT PRIMARY KEY, c CHAR(10), v VARCHAR(300), tt TINYTEXT, t TEXT, mt MEDIUMTEXT, \
     lt LONGTEXT, bi BINARY(4), vb VARBINARY(300), tb TINYBLOB, bl BLOB, mb MEDIUMBLOB, lb LONGBLOB, \
     e ENUM('a','b','\u{20ac}'), s SET('x','y','z'), j JSON, g GEOMETRY) CHARACTER SET utf8mb4",
    "INSERT INTO texts VALUES (1, '', '', '', '', '', '', '', '', '', '', '', '', 'a', '', '{}', NULL), \
     (2, 'ten chars.', REPEAT('v', 250), REPEAT('t', 251), REPEAT('T', 252), REPEAT('m', 65535), \
      REPEAT('l', 65536), x'00ff00ff', x'00', x'ff', x'fe', x'fb', x'fc', '\u{20ac}', 'x,z', \
      '{\"a\": [1, null, \"\u{1f600}\"]}', POINT(1, -2)), \
     (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "CREATE TABLE bytes (id INT PRIMARY KEY, b BLOB)",
    "CREATE TABLE counted (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL, UNIQUE (v))",
    "CREATE TABLE loaded (id INT, t TEXT)",
    "CREATE TABLE parent (id INT PRIMARY KEY)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id), CHECK (id < 100))",
    "CREATE VIEW joined AS SELECT p.id, c.id AS child FROM parent p LEFT JOIN child c ON c.p = p.id",
    "CREATE PROCEDURE results(IN n INT, OUT o INT, INOUT io VARCHAR(20)) BEGIN \
     SELECT n; SELECT id, t FROM ints ORDER BY id; SET o = n + 1; SET io = CONCAT(io, '!'); SELECT 'last' AS l; END",
    "CREATE PROCEDURE nothing() BEGIN END",
    "CREATE PROCEDURE failing() BEGIN SELECT 'before'; \
     SIGNAL SQLSTATE '45123' SET MESSAGE_TEXT = 'its own text', MYSQL_ERRNO = 31234; END",
    "SHOW TABLES",
    "SHOW CREATE TABLE texts",
    "SHOW COLUMNS FROM ints",
    "SHOW INDEX FROM counted",
    "DESCRIBE joined",
];

const TYPES: &[&str] = &[
    "SELECT * FROM ints ORDER BY id",
    "SELECT * FROM reals ORDER BY id",
    "SELECT * FROM times ORDER BY id",
    "SELECT * FROM texts ORDER BY id",
    "SELECT c, v, e, s, j FROM texts WHERE id = 2",
    "SELECT NULL, TRUE, 1, -1, 1.5, 1e10, 'text', x'ff', b'101', DATE'2024-01-01', TIME'10:00:00.5'",
    "SELECT id AS a, id AS b, t.id AS `a.b`, CONCAT(id, 'x') FROM ints AS t ORDER BY 1",
    "SELECT * FROM ints WHERE 1 = 0",
    "SELECT COUNT(*), SUM(i), AVG(i), MIN(d2), MAX(d2), GROUP_CONCAT(ints.id ORDER BY 1) FROM ints JOIN reals USING (id)",
    "SELECT CAST(1 AS CHAR), CAST('1' AS SIGNED), CAST(-1 AS UNSIGNED), CAST('2024-01-01' AS DATETIME(6))",
    "SELECT LENGTH(mt), LENGTH(lt) FROM texts ORDER BY id",
    "SELECT id FROM ints UNION ALL SELECT v FROM texts WHERE id = 1 UNION SELECT NULL",
    "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000) SELECT n, REPEAT('r', n % 7) FROM n",
];

const ERRORS: &[&str] = &[
    "SELEC 1",
    "SELECT 'unfinished",
    "SELECT * FROM no_such_table",
    "SELECT no_such_column FROM ints",
    "SELECT * FROM no_such_schema.t",
    "USE no_such_schema",
    "SELECT no_such_function(1)",
    "CALL no_such_procedure()",
    "INSERT INTO ints (id) VALUES (1)",
    "INSERT INTO ints (id) VALUES ('x')",
    "INSERT INTO ints (id, t) VALUES (10, 128)",
    "INSERT INTO ints (id, y) VALUES (10, 3000)",
    "INSERT INTO texts (id, c) VALUES (10, 'more than ten')",
    "INSERT INTO texts (id, j) VALUES (10, 'no json')",
    "INSERT INTO times (id, d) VALUES (10, '2023-02-30')",
    "INSERT INTO child VALUES (1, 77)",
    "INSERT INTO child VALUES (100, NULL)",
    "INSERT INTO counted (v) VALUES (NULL)",
    "INSERT INTO ints (id, t) VALUES (11, 1 DIV 0)",
    "CREATE TABLE ints (id INT)",
    "DROP TABLE no_such_table",
    "CREATE TABLE bad (a INT, a INT)",
    "GRANT ALL ON *.* TO nobody",
    "SELECT * FROM mysql.user",
    "SET GLOBAL max_connections = 1",
    "SET no_such_variable = 1",
    "SET sql_mode = 'NO_SUCH_MODE'",
    "SELECT (SELECT id FROM ints)",
    "SELECT id, POW(10, id * 120) FROM ints ORDER BY id",
    "SELECT 9223372036854775807 + 1",
    "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'text with \u{20ac}'",
    "KILL 4294967290",
    "KILL QUERY 4294967290",
    "ROLLBACK TO SAVEPOINT never_set",
    "EXECUTE never_prepared",
];

const WARNINGS: &[&str] = &[
    "SET sql_mode = ''",
    "INSERT INTO ints (id, t, y) VALUES (20, 999, 1), (21, 'x', 'y'), (22, '', NULL)",
    "SHOW WARNINGS",
    "SHOW COUNT(*) WARNINGS",
    "SELECT @@warning_count, @@error_count",
    "SELECT 1/0, CAST('abc' AS SIGNED), CAST('1x' AS DECIMAL)",
    "SHOW WARNINGS LIMIT 1, 1",
    "SELECT * FROM no_such_table",
    "SHOW ERRORS",
    "GET DIAGNOSTICS CONDITION 1 @state = RETURNED_SQLSTATE, @text = MESSAGE_TEXT",
    "SELECT @state, @text",
    "DROP TABLE IF EXISTS no_such_table, nor_this",
    "SHOW WARNINGS",
    "DELETE FROM ints WHERE id >= 20",
    "SET sql_mode = DEFAULT",
    "SELECT @@sql_mode",
];

const SEVERAL: &[&str] = &[
    "SELECT 1; SELECT 2, 3",
    "SELECT 1; INSERT INTO parent VALUES (1), (2); SELECT * FROM parent; DO 1",
    "DO 1; DO 2",
    "SELECT 1;",
    "SELECT 1; ; SELECT 2",
    "SELECT 1; SELECT * FROM no_such_table; SELECT 3",
    "SELECT 1; SELEC 2",
    "INSERT INTO parent VALUES (3); INSERT INTO parent VALUES (3); SELECT 'never'",
    "SELECT * FROM ints WHERE id = 0; SELECT 'after an empty one'",
    "SELECT 'text with ; in it'; SELECT 2 -- ; 3",
    "SELECT CAST('x' AS SIGNED); SHOW WARNINGS; SELECT 1/0",
    "SET @io = 'in'",
    "CALL results(41, @o, @io)",
    "SELECT @o, @io",
    "CALL nothing()",
    "CALL failing()",
    "CALL results(1, @o, @io); SELECT @o",
    "CALL results(1, 2, @io)",
    "SELECT * FROM joined ORDER BY 1",
];

const TRANSACTIONS: &[&str] = &[
    "BEGIN",
    "SELECT COUNT(*) FROM parent",
    "INSERT INTO parent VALUES (10)",
    "SELECT COUNT(*) FROM parent",
    "SAVEPOINT one",
    "INSERT INTO parent VALUES (11)",
    "ROLLBACK TO SAVEPOINT one",
    "RELEASE SAVEPOINT one",
    "ROLLBACK",
    "SELECT COUNT(*) FROM parent",
    "START TRANSACTION READ ONLY",
    "SELECT COUNT(*) FROM parent",
    "INSERT INTO parent VALUES (12)",
    "COMMIT",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    "COMMIT AND CHAIN",
    "INSERT INTO parent VALUES (13)",
    "COMMIT",
    "SET autocommit = 0",
    "SELECT COUNT(*) FROM parent",
    "INSERT INTO parent VALUES (14)",
    "SET autocommit = 1",
    "SELECT COUNT(*) FROM parent",
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "BEGIN",
    "SELECT * FROM parent WHERE id = 1 FOR UPDATE",
    "INSERT INTO parent VALUES (1)",
    "CREATE TABLE commits (id INT)",
    "ROLLBACK",
    "XA START 'branch'",
    "INSERT INTO parent VALUES (15)",
    "SELECT COUNT(*) FROM parent",
    "XA END 'branch'",
    "XA PREPARE 'branch'",
    "XA COMMIT 'branch'",
    "BEGIN; INSERT INTO parent VALUES (16); COMMIT; SELECT COUNT(*) FROM parent",
];

const SESSION: &[&str] = &[
    "SET @a = 1, @b = 'two', @c = NULL, @d = 4.5, @e = x'ff'",
    "SELECT @a, @b, @c, @d, @e, @never",
    "SELECT @a := @a + 1, @a",
    "SELECT id, t INTO @i, @t FROM ints WHERE id = 2",
    "SELECT @i, @t",
    "SELECT id INTO @i FROM ints WHERE id = 0",
    "INSERT INTO counted (v) VALUES (1), (2), (3)",
    "SELECT LAST_INSERT_ID(), @@identity, ROW_COUNT()",
    "UPDATE counted SET v = v + 100",
    "SELECT ROW_COUNT()",
    "UPDATE counted SET v = v",
    "REPLACE INTO counted VALUES (1, 7)",
    "INSERT INTO counted VALUES (1, 8) ON DUPLICATE KEY UPDATE v = 9",
    "SELECT LAST_INSERT_ID(77)",
    "SELECT LAST_INSERT_ID()",
    "INSERT INTO counted VALUES (250, 250)",
    "INSERT INTO counted (v) VALUES (251)",
    "INSERT INTO counted VALUES (65534, 65534)",
    "INSERT INTO counted (v) VALUES (65535)",
    "INSERT INTO counted (v) VALUES (65536)",
    "INSERT INTO counted VALUES (16777214, 16777214)",
    "INSERT INTO counted (v) VALUES (16777215)",
    "INSERT INTO counted (v) VALUES (16777216)",
    "INSERT INTO counted VALUES (4294967295, 99)",
    "INSERT INTO counted (v) VALUES (98)",
    "INSERT INTO counted VALUES (9223372036854775807, 97)",
    "INSERT INTO counted (v) VALUES (96)",
    "SELECT SQL_CALC_FOUND_ROWS id FROM ints ORDER BY id LIMIT 1",
    "SELECT FOUND_ROWS()",
    "CREATE TEMPORARY TABLE temporary_one (id INT) SELECT id FROM ints",
    "SELECT COUNT(*) FROM temporary_one",
    "DROP TEMPORARY TABLE temporary_one",
    "LOCK TABLES parent READ, child WRITE",
    "SELECT COUNT(*) FROM parent",
    "INSERT INTO parent VALUES (50)",
    "SELECT COUNT(*) FROM ints",
    "UNLOCK TABLES",
    "SELECT GET_LOCK('differential', 0), IS_FREE_LOCK('differential')",
    "SELECT RELEASE_LOCK('differential'), RELEASE_LOCK('differential')",
    "HANDLER ints OPEN",
    "HANDLER ints READ FIRST",
    "HANDLER ints CLOSE",
    "PREPARE p FROM 'SELECT ? + 1, ?'",
    "EXECUTE p USING @a, @b",
    "DEALLOCATE PREPARE p",
    "SET SESSION max_join_size = 1000000",
    "SELECT @@max_join_size, @@session.autocommit, @@local.time_zone",
    "SET max_join_size = DEFAULT, lc_time_names = 'de_DE'",
    "SELECT MONTHNAME('2024-03-01'), @@lc_time_names",
    "SET lc_time_names = DEFAULT",
    "SET group_concat_max_len = 4",
    "SELECT GROUP_CONCAT(id) FROM parent",
    "SET group_concat_max_len = DEFAULT",
    "SHOW SESSION VARIABLES LIKE 'autocommit'",
    "SET resultset_metadata = NONE",
    "SELECT id, t FROM ints ORDER BY id",
    "SET resultset_metadata = FULL",
];

const ODD: &[&str] = &[
    "DO 1",
    "DO SLEEP(0)",
    "SELECT 1 FROM DUAL",
    "(SELECT 1)",
    "((SELECT 1) UNION (SELECT 2)) ORDER BY 1",
    "VALUES ROW(1, 2), ROW(3, 4)",
    "VALUES (1, 2), (3, 4)",
    "TABLE parent",
    "  \t\n SELECT 1",
    "/*! SELECT */ 1",
    "/*!99999 nonsense */ SELECT 2",
    "/* a */ SELECT /* b */ 3 /* c */ -- d",
    "SELECT 1 -- \n + 1",
    "SELECT 1 # \n + 1",
    "SELECT COUNT (*) FROM ints",
    "SELECT \"double quoted\", 'it''s', 'back\\'slash', N'national', _latin1'\\xe9'",
    "SELECT '\u{1f600}', '\u{20ac}', 'a\u{300}'",
    "SELECT 1 AS ''",
    "SELECT 1 AS `a``b`",
    "SELECT id FROM ints LIMIT 0",
    "SELECT id FROM ints ORDER BY id LIMIT 18446744073709551615",
    "EXPLAIN FORMAT=JSON SELECT 1",
    "CHECKSUM TABLE parent",
    "CHECK TABLE parent",
    "HELP 'no such topic'",
    "SHOW CHARACTER SET LIKE 'utf8mb4'",
    "SHOW COLLATION LIKE 'latin1%'",
    "SHOW CREATE PROCEDURE nothing",
    "SHOW GRANTS",
    "TRUNCATE TABLE commits",
    "ALTER TABLE commits ADD COLUMN v INT DEFAULT 5",
    "RENAME TABLE commits TO renamed",
    "DROP TABLE renamed",
    "ANALYZE TABLE parent",
];
