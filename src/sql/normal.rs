//! Tokens to normal form: a list of literals becomes one token, rows of literals become one row, a sign
//! joins its number. Everything that reads a statement, the cache key included, sees only this form, so
//! what is dropped here can never decide what a statement is.

use super::Dialect;
use super::lexer::{Lexer, Token, TokenKind};

/// Gives the tokens of `text` in normal form to `sink`; answers whether the text is ambiguous.
pub(super) fn normalise(text: &[u8], dialect: Dialect, mut sink: impl FnMut(Token)) -> bool {
    let mut lexer = Lexer::new(text, dialect);
    let mut literals = Literals::default();
    let mut rows = Rows::default();
    for token in lexer.by_ref() {
        literals.push(text, token, &mut |token| rows.push(token, &mut sink));
    }
    literals.flush(&mut |token| rows.push(token, &mut sink));
    rows.flush(&mut sink);
    lexer.ambiguous()
}

/// Joins `-1` after an operator, a comma or a parenthesis, and `1, 2, 3`.
#[derive(Default)]
struct Literals {
    /// The kind of the last token that came in.
    previous: Option<TokenKind>,
    sign: Option<Token>,
    literal: Option<Token>,
    /// The comma after `literal`.
    comma: Option<Token>,
}

impl Literals {
    fn push(&mut self, text: &[u8], mut token: Token, out: &mut impl FnMut(Token)) {
        let previous = self.previous.replace(token.kind);
        if token.kind == TokenKind::Operator
            && matches!(token.bytes(text), b"-" | b"+")
            && opens_operand(previous)
        {
            if let Some(sign) = self.sign.replace(token) {
                self.flush_literal(out);
                out(sign);
            }
            return;
        }
        if let Some(sign) = self.sign.take() {
            if token.kind == TokenKind::Number {
                token.start = sign.start;
            } else {
                self.flush_literal(out);
                out(sign);
            }
        }
        if is_null(text, token) && in_list(previous) {
            token.kind = TokenKind::Number;
        }
        match (self.literal, token.kind) {
            (Some(literal), kind) if is_literal(kind) && self.comma.take().is_some() => {
                self.literal =
                    Some(Token { kind: TokenKind::Literals, start: literal.start, end: token.end });
            }
            (Some(_), TokenKind::Comma) if self.comma.is_none() => self.comma = Some(token),
            (_, kind) => {
                self.flush_literal(out);
                if is_literal(kind) { self.literal = Some(token) } else { out(token) }
            }
        }
    }

    fn flush(&mut self, out: &mut impl FnMut(Token)) {
        self.flush_literal(out);
        self.sign.take().into_iter().for_each(out);
    }

    fn flush_literal(&mut self, out: &mut impl FnMut(Token)) {
        self.literal.take().into_iter().chain(self.comma.take()).for_each(out);
    }
}

/// Drops the second and later of `(?), (?), ...`.
#[derive(Default)]
struct Rows {
    /// How much of a row has passed: its parenthesis, its literals, its end.
    passed: usize,
    /// What has come of the next row, its comma first; at most comma, parenthesis, literals.
    held: [Option<Token>; 3],
    holding: usize,
}

impl Rows {
    fn push(&mut self, token: Token, out: &mut impl FnMut(Token)) {
        let shape = Shape::of(token.kind);
        if self.passed == ROW.len() && NEXT_ROW.get(self.holding) == Some(&shape) {
            match self.held.get_mut(self.holding) {
                Some(place) => {
                    *place = Some(token);
                    self.holding += 1;
                }
                None => self.holding = 0,
            }
            return;
        }
        self.flush(out);
        self.pass(shape);
        out(token);
    }

    fn flush(&mut self, out: &mut impl FnMut(Token)) {
        for token in self.held.iter_mut().take(self.holding).filter_map(Option::take) {
            self.passed = 0;
            out(token);
        }
        // A broken row `, ( ?` may be the start of another one: `(1), (2), ...` after `f(0), (1 + 2)`.
        if self.holding > 1 {
            self.passed = self.holding - 1;
        }
        self.holding = 0;
    }

    fn pass(&mut self, shape: Shape) {
        self.passed = match ROW.get(self.passed) {
            Some(expected) if *expected == shape => self.passed + 1,
            _ => usize::from(shape == Shape::Open),
        };
    }
}

/// What matters of a token to [`Rows`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Open,
    Literals,
    Close,
    Comma,
    Other,
}

impl Shape {
    const fn of(kind: TokenKind) -> Self {
        match kind {
            TokenKind::Open | TokenKind::SpacedOpen => Self::Open,
            TokenKind::Close => Self::Close,
            TokenKind::Comma => Self::Comma,
            kind if is_literal(kind) => Self::Literals,
            _ => Self::Other,
        }
    }
}

const ROW: [Shape; 3] = [Shape::Open, Shape::Literals, Shape::Close];
const NEXT_ROW: [Shape; 4] = [Shape::Comma, Shape::Open, Shape::Literals, Shape::Close];

/// Literals whose value never decides anything.
const fn is_literal(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Number | TokenKind::Text | TokenKind::Placeholder | TokenKind::Literals)
}

/// Whether a sign after this belongs to the number that follows it.
const fn opens_operand(previous: Option<TokenKind>) -> bool {
    matches!(previous, Some(TokenKind::Operator)) || in_list(previous)
}

const fn in_list(previous: Option<TokenKind>) -> bool {
    matches!(previous, Some(TokenKind::Open | TokenKind::SpacedOpen | TokenKind::Comma))
}

fn is_null(text: &[u8], token: Token) -> bool {
    token.kind == TokenKind::Word && token.bytes(text).eq_ignore_ascii_case(b"null")
}
