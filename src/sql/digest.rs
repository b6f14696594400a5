//! What stays of a statement when its literals are gone: a number to find it by, a text to show.

use super::lexer::{Token, TokenKind};
use super::normal::normalise;
use super::{Dialect, Flavor};
use std::fmt;
use std::hash::{DefaultHasher, Hasher};

/// The identity of a statement without its literals. Stable within one build of the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(u64);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The digest of a text. Names and keywords count as they are written; literals count by their sort alone
/// (a number, a string, a list), comments only where a server executes them or reads them as hints.
pub fn digest(text: &[u8], dialect: Dialect) -> Digest {
    Digest(key(text, dialect, DefaultHasher::new()).0)
}

/// The text behind a digest, for people: every literal is `?`, a list of them `?, ...`. Ends with `...` where
/// it would be longer than 4 KiB.
pub fn digest_text(text: &[u8], dialect: Dialect) -> String {
    let mut out = String::new();
    let mut previous = None;
    normalise(text, dialect, |token| {
        if out.len() >= LONGEST_TEXT {
            return;
        }
        if previous.is_some_and(|previous| is_spaced(previous, token.kind)) {
            out.push(' ');
        }
        match token.kind {
            TokenKind::Number | TokenKind::Text | TokenKind::TrackText | TokenKind::Placeholder => {
                out.push('?');
            }
            TokenKind::Literals => out.push_str("?, ..."),
            _ => out.push_str(&String::from_utf8_lossy(token.bytes(text))),
        }
        previous = Some(token.kind);
    });
    if out.len() >= LONGEST_TEXT {
        let end = (0..=LONGEST_TEXT).rev().find(|&end| out.is_char_boundary(end)).unwrap_or_default();
        out.truncate(end);
        out.push_str("...");
    }
    out
}

/// Hashes all that classification may look at; answers the hash and whether a classification may be kept
/// under it. KILL may not, since its number's place in the text matters; nor may ambiguous bytes.
pub(super) fn key(text: &[u8], dialect: Dialect, hasher: impl Hasher) -> (u64, bool) {
    let mut buffer = Buffer { hasher, bytes: [0; BUFFER], used: 0 };
    let mut kills = false;
    let ambiguous = normalise(text, dialect, |token| {
        buffer.token(text, token);
        kills |= token.kind == TokenKind::Word && token.bytes(text).eq_ignore_ascii_case(b"kill");
    });
    let flags = [
        dialect.flavor == Flavor::MySql,
        dialect.ansi_quotes,
        dialect.no_backslash_escapes,
        dialect.ascii_safe,
        ambiguous,
    ];
    buffer.push(&flags.map(u8::from));
    buffer.push(&dialect.version.to_le_bytes());
    (buffer.finish(), !kills && !ambiguous)
}

/// Gathers what goes into a hash: a hasher is slow on many small writes.
struct Buffer<H> {
    hasher: H,
    bytes: [u8; BUFFER],
    used: usize,
}

impl<H: Hasher> Buffer<H> {
    /// One byte for the kind; then, where the bytes matter, these and their length.
    fn token(&mut self, text: &[u8], token: Token) {
        self.push(&[token.kind as u8]);
        if matches!(
            token.kind,
            TokenKind::Word | TokenKind::Quoted | TokenKind::Variable | TokenKind::Hint | TokenKind::Operator
        ) {
            let bytes = token.bytes(text);
            self.push(bytes);
            self.push(&bytes.len().to_le_bytes());
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        match self.bytes.get_mut(self.used..self.used + bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.used += bytes.len();
            }
            None => {
                self.flush();
                self.hasher.write(bytes);
            }
        }
    }

    fn flush(&mut self) {
        self.hasher.write(self.bytes.get(..self.used).unwrap_or_default());
        self.used = 0;
    }

    fn finish(mut self) -> u64 {
        self.flush();
        self.hasher.finish()
    }
}

/// Whether a blank goes between two tokens of the digest text.
const fn is_spaced(left: TokenKind, right: TokenKind) -> bool {
    let joins =
        matches!(left, TokenKind::Dot | TokenKind::SystemVariable | TokenKind::Open | TokenKind::SpacedOpen);
    let joined = match right {
        TokenKind::Open => !matches!(left, TokenKind::Comma | TokenKind::Operator),
        TokenKind::Dot | TokenKind::Close | TokenKind::Comma | TokenKind::Semicolon => true,
        _ => false,
    };
    !joins && !joined
}

/// In bytes: most statements fit.
const BUFFER: usize = 256;

/// In bytes.
const LONGEST_TEXT: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const MYSQL: Dialect = Dialect::new(Flavor::MySql, 80_036);

    #[test]
    fn literals_are_gone_from_the_text() {
        for (text, expected) in [
            ("SELECT c FROM t WHERE id=12345", "SELECT c FROM t WHERE id = ?"),
            ("select  a.`b`,'x' from a -- c", "select a.`b`, ? from a"),
            (
                "SELECT * FROM t WHERE a IN (1, 2,3 ) AND b IN(4)",
                "SELECT * FROM t WHERE a IN (?, ...) AND b IN(?)",
            ),
            ("INSERT INTO t VALUES (1,NULL,'a'),(2,-3,'b'), (4,5,x'00')", "INSERT INTO t VALUES (?, ...)"),
            ("INSERT INTO t VALUES (1),(now()),(2),(3)", "INSERT INTO t VALUES (?), (now()), (?)"),
            ("SELECT f(1), (1 + 2), (3), (4)", "SELECT f(?), (? + ?), (?)"),
            ("SELECT a - 1, -1, b = -1, - -1, -a", "SELECT a - ?, ..., b = ?, - ?, - a"),
            ("SELECT @@global.x, @a, (NULL), a IS NULL", "SELECT @@global.x, @a, (?), a IS NULL"),
            (
                "SELECT/*+ NO_ICP(t) */ /*!50000 SQL_NO_CACHE */ ?, /*+ x */ ?",
                "SELECT /*+ NO_ICP(t) */ SQL_NO_CACHE ?, ...",
            ),
            ("", ""),
        ] {
            assert_eq!(digest_text(text.as_bytes(), MYSQL), expected, "{text}");
        }
        let long = digest_text(format!("SELECT {}1", "a + ".repeat(5_000)).as_bytes(), MYSQL);
        assert_eq!(long.len(), LONGEST_TEXT + 3);
    }

    #[test]
    fn only_the_literals_are_free() {
        let of = |text: &str| digest(text.as_bytes(), MYSQL);
        assert_eq!(of("SELECT a FROM t WHERE b = 1"), of("SELECT  a FROM t /* x */ WHERE b = 23"));
        assert_eq!(of("SELECT a IN (1, 2)"), of("SELECT a IN (1, 'x', -3)"));
        let distinct = [
            "SELECT a FROM t WHERE b = 1",
            "SELECT a FROM t WHERE b = 'x'",
            "SELECT a FROM u WHERE b = 1",
            "SELECT a FROM `t` WHERE b = 1",
            "SELECT a FROM t WHERE b = 1 FOR UPDATE",
            "SELECT a FROM t WHERE b = @x",
            "SELECT a FROM t WHERE b = count(1)",
            "SELECT a FROM t WHERE b = count (1)",
            "SELECT a FROM t WHERE b = 'session_track'",
            "SELECT a FROM t WHERE b = 1;",
            "SELECT /*+ X */ a FROM t WHERE b = 1",
        ];
        let digests: std::collections::HashSet<_> = distinct.iter().map(|text| of(text)).collect();
        assert_eq!(digests.len(), distinct.len());
        let ansi = Dialect { ansi_quotes: true, ..MYSQL };
        assert_ne!(digest(b"SELECT \"a\"", MYSQL), digest(b"SELECT \"a\"", ansi));
        assert_eq!(of("SELECT 1").to_string().len(), 16);
    }
}
