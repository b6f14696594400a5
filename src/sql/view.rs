//! The tokens of one statement with the text that they were cut from.

use super::lexer::{Token, TokenKind};

/// One statement, read by position; past the ends there is nothing.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    /// The whole text of the client.
    pub text: &'a [u8],
    /// The tokens of one statement of it.
    pub tokens: &'a [Token],
}

impl<'a> View<'a> {
    /// The token at `at`.
    pub(super) fn token(self, at: usize) -> Option<Token> {
        self.tokens.get(at).copied()
    }

    /// The kind of the token at `at`.
    pub(super) fn kind(self, at: usize) -> Option<TokenKind> {
        Some(self.token(at)?.kind)
    }

    /// The kind of the token before `at`.
    pub(super) fn kind_before(self, at: usize) -> Option<TokenKind> {
        self.kind(at.checked_sub(1)?)
    }

    /// The bytes of the token at `at`.
    pub(super) fn bytes(self, at: usize) -> &'a [u8] {
        self.token(at).map_or(&[], |token| token.bytes(self.text))
    }

    /// The unquoted word at `at` in lower case; empty for anything else.
    pub(super) fn word(self, at: usize) -> Lower {
        match self.token(at) {
            Some(token) if token.kind == TokenKind::Word => Lower::of(token.bytes(self.text)),
            _ => Lower::EMPTY,
        }
    }

    /// The unquoted word before `at`, like [`Self::word`].
    pub(super) fn word_before(self, at: usize) -> Lower {
        at.checked_sub(1).map_or(Lower::EMPTY, |before| self.word(before))
    }

    /// The name at `at`, quoted or not, as written but without its quotes.
    pub(super) fn name(self, at: usize) -> Option<String> {
        let token = self.token(at)?;
        let bytes = token.bytes(self.text);
        match token.kind {
            TokenKind::Word => Some(String::from_utf8_lossy(bytes).into_owned()),
            TokenKind::Quoted => Some(unquote(bytes)),
            _ => None,
        }
    }

    /// Whether the token at `at` opens a parenthesis.
    pub(super) fn opens(self, at: usize) -> bool {
        matches!(self.kind(at), Some(TokenKind::Open | TokenKind::SpacedOpen))
    }

    /// Whether the token at `at` is this operator.
    pub(super) fn is_operator(self, at: usize, operator: &[u8]) -> bool {
        self.kind(at) == Some(TokenKind::Operator) && self.bytes(at) == operator
    }

    /// The words from `at` on, until the first token that is none.
    pub(super) fn has_words(self, at: usize, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(offset, word)| self.word(at + offset).as_str() == *word)
    }
}

/// What is between the quotes, with doubled quotes made single.
pub(super) fn unquote(bytes: &[u8]) -> String {
    let [quote, inner @ ..] = bytes else { return String::new() };
    let inner = inner.strip_suffix(&[*quote]).unwrap_or(inner);
    let quote = char::from(*quote);
    String::from_utf8_lossy(inner).replace(&format!("{quote}{quote}"), &quote.to_string())
}

/// A word in lower case, without allocation. No keyword and no name is longer than 64 characters.
pub(super) struct Lower {
    bytes: [u8; 64],
    length: usize,
}

impl Lower {
    const EMPTY: Self = Self { bytes: [0; 64], length: 0 };

    fn of(word: &[u8]) -> Self {
        let mut lower = Self::EMPTY;
        if let Some(place) = lower.bytes.get_mut(..word.len()) {
            place.copy_from_slice(word);
            place.make_ascii_lowercase();
            lower.length = word.len();
        }
        lower
    }

    /// The word; empty when it is over-long or not UTF-8.
    pub(super) fn as_str(&self) -> &str {
        self.bytes.get(..self.length).and_then(|word| std::str::from_utf8(word).ok()).unwrap_or_default()
    }
}
