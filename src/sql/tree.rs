//! The second opinion of sqlparser on a read: its tables without the names of common table expressions, and
//! any sign of a write. It gets our tokens, not the text, so quotes, comments and character sets are read
//! in one place only; literals are blank, so their values cannot matter.

use super::facts::Facts;
use super::lexer::TokenKind;
use super::statement::TableName;
use super::view::{View, unquote};
use sqlparser::ast::{ObjectName, Query, SetExpr, Visit, Visitor};
use sqlparser::dialect::MySqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Word};
use std::ops::ControlFlow;

/// What sqlparser says about a read.
pub(super) struct Opinion {
    /// The tables, without common table expressions.
    pub tables: Vec<TableName>,
    /// What speaks against a plain read.
    pub facts: Facts,
}

/// Parses a statement that begins like a read. `None`: not understood, or more than [`MOST_TOKENS`] or
/// [`MOST_NESTED`]. Long chains of operators parse well but overflow the stack when their tree is dropped, and
/// such a text costs milliseconds of a worker.
pub(super) fn opinion(view: View<'_>) -> Option<Opinion> {
    if view.tokens.len() > MOST_TOKENS || nesting(view) > MOST_NESTED {
        return None;
    }
    let tokens = (0..view.tokens.len()).filter_map(|at| token(view, at)).collect();
    let mut parser = Parser::new(&MySqlDialect {}).with_tokens(tokens);
    let query = parser.parse_query().ok()?;
    if parser.peek_token().token != Token::EOF {
        return None;
    }
    let mut reader = Reader { scopes: Vec::new(), tables: Vec::new(), facts: Facts::empty() };
    match query.visit(&mut reader) {
        ControlFlow::Continue(()) => Some(Opinion { tables: reader.tables, facts: reader.facts }),
        ControlFlow::Break(NotRead) => None,
    }
}

/// How deep parentheses stand in parentheses.
fn nesting(view: View<'_>) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for token in view.tokens {
        match token.kind {
            TokenKind::Open | TokenKind::SpacedOpen => depth += 1,
            TokenKind::Close => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// One of our tokens as one of sqlparser's. Hints are none; of `@@x` only the name is left.
fn token(view: View<'_>, at: usize) -> Option<Token> {
    let bytes = view.bytes(at);
    Some(match view.kind(at)? {
        TokenKind::Word => Token::make_word(&String::from_utf8_lossy(bytes), None),
        TokenKind::Variable => Token::make_word("@v", None),
        TokenKind::Quoted => {
            Token::Word(Word { value: unquote(bytes), quote_style: Some('`'), keyword: Keyword::NoKeyword })
        }
        TokenKind::Number | TokenKind::Literals => Token::Number("0".to_owned(), false),
        TokenKind::Text | TokenKind::TrackText => Token::SingleQuotedString(String::new()),
        TokenKind::Placeholder => Token::Placeholder("?".to_owned()),
        TokenKind::Open | TokenKind::SpacedOpen => Token::LParen,
        TokenKind::Close => Token::RParen,
        TokenKind::Comma => Token::Comma,
        TokenKind::Dot => Token::Period,
        TokenKind::Operator => operator(bytes),
        TokenKind::Hint | TokenKind::SystemVariable | TokenKind::Semicolon => return None,
    })
}

fn operator(bytes: &[u8]) -> Token {
    match bytes {
        b"=" => Token::Eq,
        b"<" => Token::Lt,
        b">" => Token::Gt,
        b"<=" => Token::LtEq,
        b">=" => Token::GtEq,
        b"<>" | b"!=" => Token::Neq,
        b"<=>" => Token::Spaceship,
        b"<<" => Token::ShiftLeft,
        b">>" => Token::ShiftRight,
        b"->" => Token::Arrow,
        b"->>" => Token::LongArrow,
        b":=" => Token::Assignment,
        b"||" => Token::StringConcat,
        b"&&" => Token::Overlap,
        b"+" => Token::Plus,
        b"-" => Token::Minus,
        b"*" => Token::Mul,
        b"/" => Token::Div,
        b"%" => Token::Mod,
        b"&" => Token::Ampersand,
        b"|" => Token::Pipe,
        b"^" => Token::Caret,
        b"~" => Token::Tilde,
        b"!" => Token::ExclamationMark,
        b"{" => Token::LBrace,
        b"}" => Token::RBrace,
        b":" => Token::Colon,
        other => Token::Char(other.first().map_or('\0', |byte| char::from(*byte))),
    }
}

/// The tree holds a table that the visitor is not shown.
struct NotRead;

struct Reader {
    /// The queries that enclose the place at hand.
    scopes: Vec<Scope>,
    tables: Vec<TableName>,
    facts: Facts,
}

/// The common table expressions of one query.
struct Scope {
    /// Their names, and where the tree has their definitions.
    names: Vec<(String, *const Query)>,
    /// Whether a definition may use its own name.
    recursive: bool,
    /// How many of the names may be used at the place at hand.
    visible: usize,
}

impl Visitor for Reader {
    type Break = NotRead;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<NotRead> {
        if let Some(outer) = self.scopes.last_mut() {
            // A definition sees those before it, and itself if recursive; the query's body sees all.
            let own = outer.names.iter().position(|(_, definition)| std::ptr::eq(*definition, query));
            outer.visible = match own {
                Some(own) => own + usize::from(outer.recursive),
                None => outer.visible,
            };
        }
        let names = query.with.iter().flat_map(|with| &with.cte_tables);
        let names: Vec<_> = names
            .map(|cte| (cte.alias.name.value.clone(), std::ptr::from_ref::<Query>(&cte.query)))
            .collect();
        let recursive = query.with.as_ref().is_some_and(|with| with.recursive);
        self.scopes.push(Scope { visible: names.len(), names, recursive });
        if !query.locks.is_empty() {
            self.facts.insert(Facts::LOCKS_ROWS);
        }
        match reads(&query.body) {
            Some(true) => {}
            Some(false) => self.facts.insert(Facts::MAY_WRITE),
            None => return ControlFlow::Break(NotRead),
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<NotRead> {
        self.scopes.pop();
        if let Some(outer) = self.scopes.last_mut()
            && outer.names.iter().any(|(_, definition)| std::ptr::eq(*definition, query))
        {
            outer.visible = outer.names.len();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<NotRead> {
        let mut parts = relation.0.iter().rev().filter_map(|part| part.as_ident());
        if let Some(name) = parts.next() {
            let schema = parts.next().map(|schema| schema.value.clone());
            let name = name.value.clone();
            if schema.is_some() || !self.is_expression(&name) {
                self.tables.push(TableName { schema, name });
            }
        }
        ControlFlow::Continue(())
    }
}

impl Reader {
    /// Whether a common table expression of this name is in sight.
    fn is_expression(&self, name: &str) -> bool {
        self.scopes.iter().any(|scope| {
            scope.names.iter().take(scope.visible).any(|(known, _)| known.eq_ignore_ascii_case(name))
        })
    }
}

/// Whether a query's body holds nothing but selects and values; `None` for `TABLE t`, of which the tree keeps
/// the name as a string. Nested queries are visited on their own.
fn reads(body: &SetExpr) -> Option<bool> {
    match body {
        SetExpr::Select(select) => Some(select.into.is_none()),
        SetExpr::Query(_) | SetExpr::Values(_) => Some(true),
        SetExpr::Table(_) => None,
        SetExpr::SetOperation { left, right, .. } => Some(reads(left)? && reads(right)?),
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => Some(false),
    }
}

/// Far below the 30,000 terms that the parser's tree was seen to survive on a 2 MiB stack.
const MOST_TOKENS: usize = 2_000;
/// Joins in parentheses have the parser call itself without its own guard: 15 of them, one in another, overflow
/// a 2 MiB stack in a build without optimisation.
const MOST_NESTED: usize = 8;
