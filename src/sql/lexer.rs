//! Bytes to tokens, as the servers' own lexers cut them. Never fails: what a server would refuse becomes
//! some token, what two servers may read differently sets [`Lexer::ambiguous`].
//!
//! MySQL: <https://dev.mysql.com/doc/refman/8.4/en/language-structure.html>; checked on both servers.

use super::Dialect;
use super::comment::{end_of_comment, executable};

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum TokenKind {
    /// A keyword or an unquoted name.
    Word,
    /// A quoted name.
    Quoted,
    /// A number, also `0x1F` and `0b01`; after [`super::normal`] also a signed one or NULL in a list.
    Number,
    /// A string, also `x'..'`, `b'..'`, `n'..'`.
    Text,
    /// A string with `session_track` in it; [`super::normal`] keeps it apart from other literals.
    TrackText,
    /// `?`
    Placeholder,
    /// Several literals with commas between; only [`super::normal`] makes it.
    Literals,
    /// `@name`
    Variable,
    /// `@@`; the name follows as a token of its own.
    SystemVariable,
    /// An optimizer hint, `/*+ ... */`.
    Hint,
    /// `(` right after the token before.
    Open,
    /// `(` after a blank or a comment, which can decide whether a name is a function.
    SpacedOpen,
    /// `)`
    Close,
    /// `,`
    Comma,
    /// `.`
    Dot,
    /// `;`
    Semicolon,
    /// Any other character, or two or three that are one operator.
    Operator,
}

/// A token: its kind and where it is in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl Token {
    /// The bytes of the token in the text that it was cut from.
    pub(super) fn bytes(self, text: &[u8]) -> &[u8] {
        text.get(self.start..self.end).unwrap_or_default()
    }
}

/// Cuts a text into tokens.
pub(super) struct Lexer<'a> {
    text: &'a [u8],
    dialect: Dialect,
    pos: usize,
    /// Inside an executable comment whose content is live. The servers do not count these either.
    in_executable: bool,
    previous: Option<Token>,
    ambiguous: bool,
}

impl<'a> Lexer<'a> {
    /// A lexer at the start of `text`.
    pub(super) fn new(text: &'a [u8], dialect: Dialect) -> Self {
        let ambiguous = !dialect.ascii_safe && !text.is_ascii();
        Self { text, dialect, pos: 0, in_executable: false, previous: None, ambiguous }
    }

    /// Whether the bytes read so far may mean something else to another server, version or character set.
    pub(super) const fn ambiguous(&self) -> bool {
        self.ambiguous
    }

    fn at(&self, offset: usize) -> Option<u8> {
        self.text.get(self.pos + offset).copied()
    }

    /// Skips blanks and comments; the position is then at a token or at the end.
    fn skip_blanks(&mut self) {
        while let Some(byte) = self.at(0) {
            match (byte, self.at(1)) {
                (b' ' | b'\t' | b'\n' | 0x0B | 0x0C | b'\r', _) => self.pos += 1,
                (b'#', _) => self.skip_line(),
                (b'-', Some(b'-')) if self.opens_dash_comment() => self.skip_line(),
                (b'/', Some(b'*')) if !self.opens_hint() => self.skip_comment(),
                (b'*', Some(b'/')) if self.in_executable => {
                    self.in_executable = false;
                    self.pos += 2;
                }
                _ => return,
            }
        }
        self.ambiguous |= self.in_executable;
    }

    /// `--` opens a comment only before a blank, a control character or the end.
    fn opens_dash_comment(&mut self) -> bool {
        let Some(next) = self.at(2) else { return true };
        // A byte above 0x7F may be a blank in the client's character set.
        self.ambiguous |= !next.is_ascii();
        next == b' ' || next.is_ascii_control()
    }

    /// `/*+` is a hint right after the verb of a statement; anywhere else it is a comment.
    fn opens_hint(&self) -> bool {
        let after = self.previous.filter(|token| token.kind == TokenKind::Word);
        let verb = after.map_or(&[][..], |token| token.bytes(self.text));
        let verbs: [&[u8]; 5] = [b"select", b"insert", b"update", b"delete", b"replace"];
        self.at(2) == Some(b'+') && verbs.iter().any(|known| verb.eq_ignore_ascii_case(known))
    }

    fn skip_line(&mut self) {
        let rest = self.text.get(self.pos..).unwrap_or_default();
        let length = rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |newline| newline + 1);
        // The servers end such a comment at a NUL too, and then stumble over it.
        self.ambiguous |= rest.iter().take(length).any(|&byte| byte == 0);
        self.pos += length;
    }

    fn skip_comment(&mut self) {
        let mut nested = 0;
        if let Some(comment) = executable(self.text, self.pos, self.dialect) {
            self.ambiguous |= !comment.certain;
            if comment.live {
                self.in_executable = true;
                self.pos = comment.content;
                return;
            }
            nested = u8::from(self.dialect.flavor == super::Flavor::MariaDb || self.at(2) == Some(b'!'));
        }
        self.skip_to(end_of_comment(self.text, self.pos, nested));
    }

    /// Moves to `end`; without one the text is broken and ends here.
    fn skip_to(&mut self, end: Option<usize>) {
        self.ambiguous |= end.is_none();
        self.pos = end.unwrap_or(self.text.len());
    }

    /// Reads one token that starts at `self.pos` with `byte`.
    fn token(&mut self, byte: u8) -> TokenKind {
        match byte {
            b'\'' => self.string(b'\''),
            b'"' if !self.dialect.ansi_quotes => self.string(b'"'),
            b'"' | b'`' => self.quoted_name(byte),
            b'x' | b'X' | b'b' | b'B' | b'n' | b'N' if self.at(1) == Some(b'\'') => {
                self.pos += 1;
                self.string(b'\'')
            }
            b'0'..=b'9' => self.number_or_name(),
            b'.' => self.dot_or_number(),
            b'@' => self.variable(),
            b'/' if self.at(1) == Some(b'*') => {
                self.skip_to(end_of_comment(self.text, self.pos, 0));
                TokenKind::Hint
            }
            byte if is_name_byte(byte) => self.name(),
            _ => self.sign(byte),
        }
    }

    fn name(&mut self) -> TokenKind {
        let rest = self.text.get(self.pos..).unwrap_or_default();
        let length = rest.iter().position(|&byte| !is_name_byte(byte)).unwrap_or(rest.len());
        let name = rest.get(..length).unwrap_or_default();
        // `$` may open a dollar-quoted text (MySQL 9).
        self.ambiguous |= name.starts_with(b"$") || !(name.is_ascii() || is_plain_utf8(name));
        self.pos += length;
        TokenKind::Word
    }

    /// A string; the position is at its opening quote.
    fn string(&mut self, quote: u8) -> TokenKind {
        let start = self.pos + 1;
        let mut pos = start;
        let end = loop {
            match self.text.get(pos) {
                None => break None,
                Some(b'\\') if !self.dialect.no_backslash_escapes => pos += 2,
                Some(&byte) if byte == quote => {
                    if self.text.get(pos + 1) != Some(&quote) {
                        break Some(pos + 1);
                    }
                    pos += 2;
                }
                Some(_) => pos += 1,
            }
        };
        self.skip_to(end);
        let content = self.text.get(start..self.pos).unwrap_or_default();
        if mentions_session_track(content) { TokenKind::TrackText } else { TokenKind::Text }
    }

    /// A quoted name; the quote is doubled inside, a backslash means nothing.
    fn quoted_name(&mut self, quote: u8) -> TokenKind {
        let start = self.pos + 1;
        let mut pos = start;
        let end = loop {
            match self.text.get(pos) {
                None => break None,
                Some(&byte) if byte == quote => {
                    if self.text.get(pos + 1) != Some(&quote) {
                        break Some(pos + 1);
                    }
                    pos += 2;
                }
                Some(_) => pos += 1,
            }
        };
        self.skip_to(end);
        let name = self.text.get(start..self.pos).unwrap_or_default();
        self.ambiguous |= name.contains(&0) || std::str::from_utf8(name).is_err();
        TokenKind::Quoted
    }

    /// Digits: a number, or a name that begins with digits.
    fn number_or_name(&mut self) -> TokenKind {
        if self.follows_dot() {
            return self.name();
        }
        match (self.at(0), self.at(1)) {
            (Some(b'0'), Some(b'x')) => return self.radix(|byte| byte.is_ascii_hexdigit()),
            (Some(b'0'), Some(b'b')) => return self.radix(|byte| matches!(byte, b'0' | b'1')),
            _ => {}
        }
        let digits = self.digits(0);
        match self.at(digits) {
            Some(b'.') => self.fraction(digits),
            Some(b'e' | b'E') if self.exponent(digits) > 0 => {
                self.finish_number(digits + self.exponent(digits))
            }
            Some(byte) if is_name_byte(byte) => self.name(),
            _ => self.finish_number(digits),
        }
    }

    /// `0x..` and `0b..`: a number only when all of the word is made of its digits.
    fn radix(&mut self, is_digit: impl Fn(u8) -> bool) -> TokenKind {
        let rest = self.text.get(self.pos + 2..).unwrap_or_default();
        let digits = rest.iter().position(|&byte| !is_digit(byte)).unwrap_or(rest.len());
        let ends_here = !self.at(2 + digits).is_some_and(is_name_byte);
        if digits > 0 && ends_here { self.finish_number(2 + digits) } else { self.name() }
    }

    /// The rest of a number whose dot is `offset` bytes ahead.
    fn fraction(&mut self, offset: usize) -> TokenKind {
        let length = offset + 1 + self.digits(offset + 1);
        self.finish_number(length + self.exponent(length))
    }

    fn digits(&self, offset: usize) -> usize {
        let rest = self.text.get(self.pos + offset..).unwrap_or_default();
        rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len())
    }

    /// The length of `e5`, `E+5` or `e-5` at `offset`, else 0.
    fn exponent(&self, offset: usize) -> usize {
        if !matches!(self.at(offset), Some(b'e' | b'E')) {
            return 0;
        }
        let sign = usize::from(matches!(self.at(offset + 1), Some(b'+' | b'-')));
        match self.digits(offset + 1 + sign) {
            0 => 0,
            digits => 1 + sign + digits,
        }
    }

    fn finish_number(&mut self, length: usize) -> TokenKind {
        self.pos += length;
        // `1.5FROM`: the servers go on with a word here; no one needs that to be a certain read.
        self.ambiguous |= self.at(0).is_some_and(is_name_byte);
        TokenKind::Number
    }

    fn dot_or_number(&mut self) -> TokenKind {
        let after_name = self.previous.filter(|token| token.end == self.pos).map(|token| token.kind);
        if self.at(1).is_some_and(|byte| byte.is_ascii_digit()) && after_name != Some(TokenKind::Word) {
            // After a quoted name the servers take `.5` as a number, people as a name.
            self.ambiguous |= after_name == Some(TokenKind::Quoted);
            return self.fraction(0);
        }
        self.pos += 1;
        TokenKind::Dot
    }

    /// Whether the byte at hand comes right after a dot, which makes digits a name.
    fn follows_dot(&self) -> bool {
        self.previous.is_some_and(|token| token.kind == TokenKind::Dot && token.end == self.pos)
    }

    fn variable(&mut self) -> TokenKind {
        self.pos += 1;
        match self.at(0) {
            Some(b'@') => {
                self.pos += 1;
                return TokenKind::SystemVariable;
            }
            Some(quote @ (b'\'' | b'"')) if !(quote == b'"' && self.dialect.ansi_quotes) => {
                self.string(quote);
            }
            Some(quote @ (b'"' | b'`')) => {
                self.quoted_name(quote);
            }
            _ => {
                let rest = self.text.get(self.pos..).unwrap_or_default();
                let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'$');
                let length = rest.iter().position(|&byte| !is_part(byte)).unwrap_or(rest.len());
                self.pos += length;
                self.ambiguous |= self.at(0).is_some_and(|byte| !byte.is_ascii());
            }
        }
        TokenKind::Variable
    }

    fn sign(&mut self, byte: u8) -> TokenKind {
        self.ambiguous |= byte == 0;
        let rest = self.text.get(self.pos..).unwrap_or_default();
        let (kind, length) = match rest {
            [b'(', ..] if self.previous.is_some_and(|token| token.end == self.pos) => (TokenKind::Open, 1),
            [b'(', ..] => (TokenKind::SpacedOpen, 1),
            [b')', ..] => (TokenKind::Close, 1),
            [b',', ..] => (TokenKind::Comma, 1),
            [b';', ..] => (TokenKind::Semicolon, 1),
            [b'?', ..] => (TokenKind::Placeholder, 1),
            [b'-', b'>', b'>', ..] | [b'<', b'=', b'>', ..] => (TokenKind::Operator, 3),
            [b':' | b'<' | b'>' | b'!', b'=', ..]
            | [b'-' | b'<' | b'>', b'>', ..]
            | [b'<', b'<', ..]
            | [b'|', b'|', ..]
            | [b'&', b'&', ..] => (TokenKind::Operator, 2),
            _ => (TokenKind::Operator, 1),
        };
        self.pos += length;
        kind
    }
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        self.skip_blanks();
        let start = self.pos;
        let byte = self.at(0)?;
        let kind = self.token(byte);
        let token = Token { kind, start, end: self.pos };
        self.previous = Some(token);
        Some(token)
    }
}

/// Whether `session_track` is in a name or a string, in any case.
pub(super) fn mentions_session_track(content: &[u8]) -> bool {
    const NAME: &[u8] = b"session_track";
    const UNDERSCORE: usize = 7;
    if content.len() < NAME.len() {
        return false;
    }
    content.iter().enumerate().filter(|(_, byte)| **byte == b'_').any(|(at, _)| {
        let start = at.checked_sub(UNDERSCORE);
        start
            .and_then(|start| content.get(start..start + NAME.len()))
            .is_some_and(|found| found.eq_ignore_ascii_case(NAME))
    })
}

/// Bytes of unquoted names; above 0x7F see [`is_plain_utf8`].
const fn is_name_byte(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'$' | 0x80..)
}

/// A name that is valid UTF-8 and has no byte that is a blank in one of the servers' other character sets
/// (0xA0 in most, 0x9A in koi8, 0xCA in macroman, 0xFF in the DOS ones): there the blank would end the name,
/// and what follows could be a keyword.
fn is_plain_utf8(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok() && !name.iter().any(|byte| matches!(byte, 0x9A | 0xA0 | 0xCA | 0xFF))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Flavor;

    const MYSQL: Dialect = Dialect::new(Flavor::MySql, 80_036);

    /// The tokens with `|` between, and whether the text was ambiguous.
    fn cut(text: &[u8], dialect: Dialect) -> (String, bool) {
        let mut lexer = Lexer::new(text, dialect);
        let tokens: Vec<_> =
            lexer.by_ref().map(|token| String::from_utf8_lossy(token.bytes(text)).into_owned()).collect();
        (tokens.join("|"), lexer.ambiguous())
    }

    fn plain(text: &str) -> String {
        let (tokens, ambiguous) = cut(text.as_bytes(), MYSQL);
        assert!(!ambiguous, "{text} is ambiguous");
        tokens
    }

    #[test]
    fn texts_are_cut_as_the_servers_cut_them() {
        for (text, tokens) in [
            ("", ""),
            ("  -- only\n# comments\n/* here */ ", ""),
            ("SELECT 1 --", "SELECT|1"),
            ("SELECT 1 -- x", "SELECT|1"),
            ("SELECT 1--1", "SELECT|1|-|-|1"),
            ("SELECT 1--\t1", "SELECT|1"),
            ("a/**/b", "a|b"),
            ("a/* /* */b", "a|b"),
            ("a/*!b*/c", "a|b|c"),
            ("a/*!50000b /* x */ c*/d", "a|b|c|d"),
            ("a*/b", "a|*|/|b"),
            ("'a''b' 'c\\'d' \"e\"\"f\"", "'a''b'|'c\\'d'|\"e\"\"f\""),
            ("`a``b`.`c`", "`a``b`|.|`c`"),
            ("x'4F' b'01' N'n' _utf8'u' xy", "x'4F'|b'01'|N'n'|_utf8|'u'|xy"),
            ("1 1.5 .5 1. 1e5 1E+5 1e-5 0x1F 0b01", "1|1.5|.5|1.|1e5|1E+5|1e-5|0x1F|0b01"),
            ("1a 1e 1ex 0x1g 0b2 2024_t", "1a|1e|1ex|0x1g|0b2|2024_t"),
            ("t.1a t.1e5 t.5", "t|.|1a|t|.|1e5|t|.|5"),
            ("t .5", "t|.5"),
            ("@a.b @`x y` @'q' @@global.x @", "@a.b|@`x y`|@'q'|@@|global|.|x|@"),
            (
                "a:=b<=>c->>d->e<=f>=g<>h!=i||j&&k<<l>>m",
                "a|:=|b|<=>|c|->>|d|->|e|<=|f|>=|g|<>|h|!=|i||||j|&&|k|<<|l|>>|m",
            ),
            ("größe.名前", "größe|.|名前"),
            ("SELECT/*+ MAX_EXECUTION_TIME(1) */1", "SELECT|/*+ MAX_EXECUTION_TIME(1) */|1"),
        ] {
            assert_eq!(plain(text), tokens, "{text}");
        }
    }

    #[test]
    fn what_servers_may_read_differently_is_noted() {
        for text in [
            &b"SELECT 'a"[..],
            b"SELECT `a",
            b"SELECT 1 /* x",
            b"SELECT 1 /*! x",
            b"SELECT 1 /*!99999 x */",
            b"SELECT 1 /*M! x */",
            b"SELECT 1\0",
            b"SELECT `a\0b`",
            b"SELECT 1 -- a\0b",
            b"SELECT 1 --\xA0",
            b"SELECT \xFFa",
            b"SELECT FOR\xA0UPDATE",
            "SELECT 1 \u{e0}INTO OUTFILE 'x'".as_bytes(),
            b"SELECT `\xFF`",
            b"SELECT $$ a $$",
            b"SELECT 1.5FROM t",
            b"SELECT 1e5x",
            b"SELECT `t`.5",
            b"SELECT @\xC3\xA4",
        ] {
            assert!(cut(text, MYSQL).1, "{}", String::from_utf8_lossy(text));
        }
        let gbk = Dialect { ascii_safe: false, ..MYSQL };
        assert!(cut(b"SELECT '\xBF\\'", gbk).1);
        assert!(!cut(b"SELECT 'a\\'b'", gbk).1);
        assert!(!cut(b"SELECT '\xFF\0'", MYSQL).1, "any byte may be in a string");
    }

    #[test]
    fn quotes_follow_the_sql_mode() {
        let ansi = Dialect { ansi_quotes: true, ..MYSQL };
        assert_eq!(cut(br#""a\" "b""c""#, ansi).0, r#""a\"|"b""c""#);
        let literal = Dialect { no_backslash_escapes: true, ..MYSQL };
        assert_eq!(cut(br"'\'; DELETE FROM t; -- '", literal).0, r"'\'|;|DELETE|FROM|t|;");
        assert_eq!(cut(br"'\'; DELETE FROM t; -- '", MYSQL).0, r"'\'; DELETE FROM t; -- '");
    }

    #[test]
    fn session_track_is_found_in_strings() {
        assert!(mentions_session_track(b"'x Session_Track_gtids'"));
        assert!(mentions_session_track(b"__session_track"));
        assert!(!mentions_session_track(b"session_trac_session-track"));
        let kind = |text: &[u8]| Lexer::new(text, MYSQL).next().map(|token| token.kind);
        assert_eq!(kind(b"'session_track_gtids'"), Some(TokenKind::TrackText));
        assert_eq!(kind(b"'session_trac_gtids'"), Some(TokenKind::Text));
    }
}
