//! SET, told apart by its words: whose variables, or something else altogether.

use super::facts::Facts;
use super::lexer::TokenKind;
use super::statement::Kind;
use super::view::View;

/// The kind of a SET statement.
pub(super) fn kind(view: View<'_>) -> (Kind, Facts) {
    match view.word(1).as_str() {
        "password" | "default" => (Kind::Admin, Facts::empty()),
        // SET STATEMENT ... FOR runs another statement; a resource group is a trait of the thread.
        "statement" | "resource" => (Kind::Unknown, Facts::empty()),
        "names" if is_names(view, 2) => (Kind::SetSession, Facts::SETS_NAMES),
        "charset" if is_charset(view, 2) => (Kind::SetSession, Facts::SETS_NAMES),
        "character" if view.word(2).as_str() == "set" && is_charset(view, 3) => {
            (Kind::SetSession, Facts::SETS_NAMES)
        }
        "transaction" => (Kind::SetSession, Facts::SETS_TRANSACTION_CHARACTERISTICS),
        "session" | "local" if view.word(2).as_str() == "transaction" => {
            (Kind::SetSession, Facts::SETS_TRANSACTION_CHARACTERISTICS)
        }
        "global" if view.word(2).as_str() == "transaction" => {
            (Kind::SetGlobal, Facts::SETS_TRANSACTION_CHARACTERISTICS)
        }
        _ if names_global(view) => (Kind::SetGlobal, Facts::empty()),
        _ => (Kind::SetSession, Facts::empty()),
    }
}

/// Whether the token at `at` is what an assignment of a SET list assigns to: it comes first or after a comma
/// (of depth 0, which the caller knows), or after the word that says whose variable it is.
pub(super) fn is_target(view: View<'_>, at: usize) -> bool {
    at == 1 || view.kind_before(at) == Some(TokenKind::Comma)
}

/// Whether the system variable at `at`, a target, is `@@x` and neither `@@session.x` nor `@@local.x`.
pub(super) fn is_unscoped(view: View<'_>, at: usize) -> bool {
    !matches!(view.word(at + 1).as_str(), "session" | "local")
}

/// `utf8mb4`, `'utf8mb4'` or DEFAULT, then the end or COLLATE and a name.
fn is_names(view: View<'_>, at: usize) -> bool {
    is_charset(view, at)
        || is_plain(view, at) && view.word(at + 1).as_str() == "collate" && is_charset(view, at + 2)
}

fn is_charset(view: View<'_>, at: usize) -> bool {
    is_plain(view, at) && at + 1 == view.tokens.len()
}

fn is_plain(view: View<'_>, at: usize) -> bool {
    matches!(view.kind(at), Some(TokenKind::Word | TokenKind::Quoted | TokenKind::Text))
}

/// Whether any item is `GLOBAL x`, `PERSIST x`, `PERSIST_ONLY x` or `@@global.x` and its like.
fn names_global(view: View<'_>) -> bool {
    let mut depth = 0_usize;
    (1..view.tokens.len()).any(|at| {
        match view.kind(at) {
            Some(TokenKind::Open | TokenKind::SpacedOpen) => depth += 1,
            Some(TokenKind::Close) => depth = depth.saturating_sub(1),
            _ => {}
        }
        let target = depth == 0 && is_target(view, at);
        let scope = if view.kind(at) == Some(TokenKind::SystemVariable) { at + 1 } else { at };
        // `SET global = 1` would be a variable of that name: no server has one.
        target && matches!(view.word(scope).as_str(), "global" | "persist" | "persist_only")
    })
}
