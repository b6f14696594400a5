//! The tables that a statement names, read from its tokens alone: for writes, and for reads that sqlparser
//! refuses. May name more than the tables, never less where the grammar is the usual one.

use super::lexer::TokenKind;
use super::statement::TableName;
use super::view::View;

/// The names that stand where a table stands.
pub(super) fn tables(view: View<'_>) -> Vec<TableName> {
    let mut tables = Vec::new();
    // For each open parenthesis and the outside: whether a comma leads to another table.
    let mut lists = vec![false];
    let mut expected = false;
    let mut at = 0;
    while let Some(kind) = view.kind(at) {
        let mut next = at + 1;
        match kind {
            TokenKind::Open | TokenKind::SpacedOpen => lists.push(expected),
            TokenKind::Close => {
                lists.pop();
                expected = false;
            }
            TokenKind::Comma => expected = lists.last().is_some_and(|in_list| *in_list),
            TokenKind::Word | TokenKind::Quoted => match role(view, at) {
                Role::Opens | Role::Ends => {
                    expected = matches!(role(view, at), Role::Opens);
                    if let Some(in_list) = lists.last_mut() {
                        *in_list = expected;
                    }
                }
                Role::Filler => {}
                Role::Name if expected => {
                    let (table, end) = table(view, at);
                    tables.extend(table);
                    next = end;
                    expected = false;
                }
                Role::Name => {}
            },
            _ => expected = false,
        }
        at = next;
    }
    tables
}

/// The name in `CREATE [OR REPLACE] TEMPORARY TABLE [IF NOT EXISTS] name`; MariaDB has temporary sequences too.
pub(super) fn created_temporary(view: View<'_>) -> Option<TableName> {
    let is_create = view.word(0).as_str() == "create";
    let temporary = (1..4).find(|at| view.word(*at).as_str() == "temporary")?;
    let mut name = temporary + 2;
    if view.has_words(name, &["if", "not", "exists"]) {
        name += 3;
    }
    table(view, name).0.filter(|_| is_create)
}

/// What a word means to a search for tables.
enum Role {
    /// A table follows.
    Opens,
    /// The list of tables is over.
    Ends,
    /// May stand between the word that opens and the table.
    Filler,
    Name,
}

fn role(view: View<'_>, at: usize) -> Role {
    let before = view.word_before(at);
    match view.word(at).as_str() {
        // ON DUPLICATE KEY UPDATE, FOR UPDATE; INSERT(, REPLACE( and TRUNCATE( the functions; USING (columns).
        "update" if matches!(before.as_str(), "key" | "for") => Role::Ends,
        "insert" | "replace" | "truncate" | "using" if view.opens(at + 1) => Role::Ends,
        "from" | "join" | "straight_join" | "into" | "update" | "insert" | "replace" | "truncate"
        | "using" | "table" | "tables" | "references" | "view" | "to" | "like" => Role::Opens,
        "low_priority" | "high_priority" | "delayed" | "ignore" | "quick" | "only" | "if" | "not"
        | "exists" | "lateral" => Role::Filler,
        "select" | "where" | "set" | "on" | "group" | "order" | "having" | "limit" | "values" | "value"
        | "union" | "except" | "intersect" | "window" | "for" | "outfile" | "dumpfile" | "with" | "dual" => {
            Role::Ends
        }
        _ => Role::Name,
    }
}

/// The table at `at`, unless it is a table function, and the position after it.
fn table(view: View<'_>, at: usize) -> (Option<TableName>, usize) {
    let first = view.name(at);
    if view.kind(at + 1) == Some(TokenKind::Dot)
        && let Some(name) = view.name(at + 2)
    {
        return (Some(TableName { schema: first, name }), at + 3);
    }
    if view.word(at).as_str() == "json_table" && view.opens(at + 1) {
        return (None, at + 1);
    }
    (first.map(|name| TableName { schema: None, name }), at + 1)
}
