//! `SET @a = 1, @b = 'x'`: assignments whose values stand in the text, so that they can be said again.

use super::Dialect;
use super::lexer::{Lexer, Token, TokenKind};
use super::view::unquote;

/// A user variable and the literal that it got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The name, in lower case, without `@`.
    pub variable: String,
    /// The literal as it was written: a number, NULL, TRUE, FALSE, or a plain string.
    pub literal: Vec<u8>,
    /// The literal's character set and collation are the connection's.
    pub is_text: bool,
}

/// The assignments of a SET that does nothing else; `None` for any other text, and where a literal could mean
/// something else to another server (anything but plain ASCII without backslashes).
pub fn literal_assignments(text: &[u8], dialect: Dialect) -> Option<Vec<Assignment>> {
    let mut lexer = Lexer::new(text, dialect);
    let mut tokens: Vec<Token> = lexer.by_ref().collect();
    if lexer.ambiguous() {
        return None;
    }
    if tokens.last().is_some_and(|token| token.kind == TokenKind::Semicolon) {
        tokens.pop();
    }
    let (verb, items) = tokens.split_first()?;
    if !verb.bytes(text).eq_ignore_ascii_case(b"set") {
        return None;
    }
    items.split(|token| token.kind == TokenKind::Comma).map(|item| assignment(text, item)).collect()
}

fn assignment(text: &[u8], item: &[Token]) -> Option<Assignment> {
    let [variable, operator, value @ ..] = item else { return None };
    let is_assignment = variable.kind == TokenKind::Variable
        && operator.kind == TokenKind::Operator
        && matches!(operator.bytes(text), b"=" | b":=");
    let name = match variable.bytes(text).strip_prefix(b"@")? {
        quoted @ [b'`' | b'\'' | b'"', ..] => unquote(quoted),
        plain => std::str::from_utf8(plain).ok()?.to_owned(),
    };
    let literal = literal(text, value).filter(|_| is_assignment && !name.is_empty())?;
    let is_text = value.iter().any(|token| token.kind == TokenKind::Text);
    Some(Assignment { variable: name.to_lowercase(), literal, is_text })
}

fn literal(text: &[u8], value: &[Token]) -> Option<Vec<u8>> {
    let (sign, value) = match value {
        [sign, value] if sign.kind == TokenKind::Operator && matches!(sign.bytes(text), b"-" | b"+") => {
            (sign.bytes(text), value)
        }
        [value] => (&b""[..], value),
        _ => return None,
    };
    let bytes = value.bytes(text);
    let is_plain = match value.kind {
        TokenKind::Number => bytes.is_ascii(),
        TokenKind::Text if sign.is_empty() => is_plain_text(bytes),
        TokenKind::Word if sign.is_empty() => {
            [&b"null"[..], b"true", b"false"].iter().any(|word| bytes.eq_ignore_ascii_case(word))
        }
        _ => false,
    };
    is_plain.then(|| [sign, bytes].concat())
}

/// `'...'` of printable ASCII without quotes and backslashes.
fn is_plain_text(bytes: &[u8]) -> bool {
    let inner = bytes.strip_prefix(b"'").and_then(|rest| rest.strip_suffix(b"'"));
    inner.is_some_and(|inner| {
        inner.iter().all(|&byte| matches!(byte, b' '..=b'~') && byte != b'\'' && byte != b'\\')
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Flavor;

    fn of(text: &str) -> Option<Vec<(String, String, bool)>> {
        let found = literal_assignments(text.as_bytes(), Dialect::new(Flavor::MySql, 80_036))?;
        let text = |literal: Vec<u8>| String::from_utf8(literal).unwrap();
        Some(found.into_iter().map(|one| (one.variable, text(one.literal), one.is_text)).collect())
    }

    #[test]
    fn literals_are_taken_as_they_are_written() {
        for (text, expected) in [
            ("SET @a = 1", vec![("a", "1", false)]),
            ("set @A:=-1.5e3, @`b c` = 'x y' ;", vec![("a", "-1.5e3", false), ("b c", "'x y'", true)]),
            (
                "SET @a = NULL, @b = True, @c = 0x41",
                vec![("a", "NULL", false), ("b", "True", false), ("c", "0x41", false)],
            ),
        ] {
            let expected: Vec<_> =
                expected.into_iter().map(|(a, b, c)| (a.to_owned(), b.to_owned(), c)).collect();
            assert_eq!(of(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn everything_else_is_not_taken() {
        for text in [
            "SET @a = @b",
            "SET @a = 1 + 1",
            "SET @a = f()",
            "SET @a = (1)",
            "SET @a = 1, x = 2",
            "SET x = 1",
            "SET @@x = 1",
            r"SET @a = 'a\'b'",
            "SET @a = 'a''b'",
            "SET @a = 'a' 'b'",
            "SET @a = 'ä'",
            "SET @a = _utf8'a'",
            "SET @a = \"a\"",
            "SET @a = x'41'",
            "SET @a = 1; DELETE FROM t",
            "SELECT @a := 1",
            "SET",
            "",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
