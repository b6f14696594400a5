//! The whole way from bytes to a [`Statement`].

use super::Dialect;
use super::facts::Facts;
use super::lexer::TokenKind;
use super::normal::normalise;
use super::statement::{Kind, Statement};
use super::view::View;
use super::{scan, tables, tree, verb};

/// Classifies a text of one or more statements. Never fails: what is not understood is no certain read.
pub fn classify(text: &[u8], dialect: Dialect) -> Statement {
    let mut tokens = Vec::new();
    let ambiguous = normalise(text, dialect, |token| tokens.push(token));
    let whole = View { text, tokens: &tokens };
    let parts: Vec<_> = if verb::has_body(whole) {
        vec![whole]
    } else {
        tokens
            .split(|token| token.kind == TokenKind::Semicolon)
            .filter(|part| !part.is_empty())
            .map(|tokens| View { text, tokens })
            .collect()
    };
    let mut statements = parts.iter().map(|part| one(*part, dialect));
    let mut statement = statements.next().unwrap_or_else(|| Statement::new(Kind::Unknown));
    statements.for_each(|further| statement.merge(further));
    if parts.len() > 1 || has_inner_semicolon(whole, &parts) {
        statement.facts.insert(Facts::MULTI);
        statement.kill = None;
    }
    if ambiguous || statement.facts.contains(Facts::AMBIGUOUS) {
        doubt(&mut statement);
    }
    statement.settle();
    statement
}

/// Classifies one statement.
fn one(view: View<'_>, dialect: Dialect) -> Statement {
    let (kind, facts) = verb::kind(view);
    let mut statement = Statement::new(kind);
    statement.facts = facts;
    scan::scan(view, dialect, &mut statement);
    match kind {
        Kind::Read => match tree::opinion(view) {
            Some(opinion) => {
                statement.facts.insert(opinion.facts);
                statement.tables = opinion.tables;
            }
            None => {
                statement.unparsed = true;
                statement.tables = tables::tables(view);
            }
        },
        Kind::Ddl => {
            statement.tables = tables::tables(view);
            statement.temporary.extend(tables::created_temporary(view));
        }
        Kind::Write | Kind::Lock | Kind::Explain => statement.tables = tables::tables(view),
        Kind::Kill => statement.kill = verb::kill(view),
        Kind::Call | Kind::Execute | Kind::Unknown => statement.facts.insert(Facts::SETS_UNREPORTED),
        _ => {}
    }
    statement
}

/// A stored program whose body holds statements of its own, or that another statement follows.
fn has_inner_semicolon(whole: View<'_>, parts: &[View<'_>]) -> bool {
    let inner = whole.tokens.split_last().map_or(&[][..], |(_, inner)| inner);
    parts.len() == 1 && verb::has_body(whole) && inner.iter().any(|token| token.kind == TokenKind::Semicolon)
}

/// Nothing is certain about bytes that can be read in two ways.
fn doubt(statement: &mut Statement) {
    statement.facts.insert(Facts::AMBIGUOUS.and(Facts::MAY_WRITE).and(Facts::SETS_UNREPORTED));
    statement.unparsed = true;
    statement.kill = None;
    if statement.kind == Kind::Read {
        statement.kind = Kind::Unknown;
    }
}
