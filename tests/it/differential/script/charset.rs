//! Character sets and collations: what a client's choice does to texts, names, errors and column definitions.

use super::Script;

pub(super) fn add(script: &mut Script) {
    script.query(
        "CREATE TABLE worded (id INT PRIMARY KEY, \
         l VARCHAR(20) CHARACTER SET latin1, u VARCHAR(20) CHARACTER SET utf8mb4, b VARBINARY(20), \
         k VARCHAR(20) CHARACTER SET koi8r, `n\u{e4}me` CHAR(3) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)",
    );
    script.query("INSERT INTO worded VALUES (1, 'caf\u{e9}', '\u{20ac}\u{4e2d}\u{1f600}', x'e9', '\u{414}\u{430}', 'x')");
    for name in CHARSETS {
        script.query(format!("SET NAMES {name}"));
        script.query("SELECT * FROM worded");
        // The text of the error is in the client's charset too; the bytes are a letter in some, a fault in others.
        script.query(b"SELECT 'it\xe9 \x81\x40 \xa4\xa2', no_such_column FROM worded");
        script.query(b"SELECT '\xa4\xa2', LENGTH('\xa4\xa2'), CHARSET('x'), COLLATION('x')");
    }
    for name in COLLATIONS {
        script.query(format!("SET NAMES utf8mb4 COLLATE {name}"));
        script.query("SELECT 'a' = 'A', 'x', u FROM worded");
    }
    // A backslash as the second byte of a letter.
    script.query("SET NAMES gbk");
    script.query(b"SELECT '\xbf\x5c', '\xbf\x5c\x27'");
    script.query("SET NAMES sjis");
    script.query(b"SELECT '\x95\x5c', HEX('\x95\x5c')");
    script.queries(&[
        "SET NAMES utf8mb4",
        "SET character_set_results = NULL",
        "SELECT * FROM worded",
        "SET character_set_results = binary",
        "SELECT * FROM worded",
        "SET CHARACTER SET latin1",
        "SELECT * FROM worded",
        "SET NAMES utf8mb4",
        "SELECT @@character_set_client, @@character_set_connection, @@character_set_results, @@collation_connection",
    ]);
}

const CHARSETS: &[&str] = &[
    "armscii8",
    "ascii",
    "big5",
    "binary",
    "cp1250",
    "cp1251",
    "cp1256",
    "cp1257",
    "cp850",
    "cp852",
    "cp866",
    "cp932",
    "dec8",
    "eucjpms",
    "euckr",
    "gb18030",
    "gb2312",
    "gbk",
    "geostd8",
    "greek",
    "hebrew",
    "hp8",
    "keybcs2",
    "koi8r",
    "koi8u",
    "latin1",
    "latin2",
    "latin5",
    "latin7",
    "macce",
    "macroman",
    "sjis",
    "swe7",
    "tis620",
    "ucs2",
    "ujis",
    "utf16",
    "utf16le",
    "utf32",
    "utf8mb3",
    "utf8mb4",
    "no_such_charset",
];

/// Some have numbers beyond one byte, and each flavor has some that the other refuses.
const COLLATIONS: &[&str] = &[
    "utf8mb4_bin",
    "utf8mb4_general_ci",
    "utf8mb4_unicode_520_ci",
    "utf8mb4_0900_ai_ci",
    "utf8mb4_ja_0900_as_cs",
    "utf8mb4_zh_0900_as_cs",
    "utf8mb4_nopad_bin",
    "uca1400_ai_ci",
    "utf8mb4_uca1400_swedish_as_cs",
    "latin1_swedish_ci",
];
