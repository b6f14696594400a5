//! The leading words of a statement: its kind, and what they alone say.

use super::facts::Facts;
use super::lexer::TokenKind;
use super::set;
use super::statement::{Kill, Kind};
use super::view::View;

/// The kind of a statement, and the facts that its leading words carry.
pub(super) fn kind(view: View<'_>) -> (Kind, Facts) {
    let first = (0..view.tokens.len()).find(|at| !view.opens(*at)).unwrap_or_default();
    if first > 0 {
        // Only selects may stand in parentheses.
        let read = matches!(view.word(first).as_str(), "select" | "with" | "values" | "table");
        return (if read { Kind::Read } else { Kind::Unknown }, Facts::empty());
    }
    let plain = match view.word(0).as_str() {
        "select" | "values" | "table" => Kind::Read,
        "with" => with(view),
        "insert" | "update" | "delete" | "replace" => Kind::Write,
        "load" if view.word(1).as_str() == "index" => Kind::Admin,
        "load" | "import" => Kind::Write,
        "begin" | "start" => return begin(view),
        "commit" => return (Kind::Commit, release(view)),
        "rollback" => return (rollback(view), release(view)),
        "savepoint" | "release" => Kind::Savepoint,
        "set" => return set::kind(view),
        "use" => Kind::Use,
        "show" | "help" => return (Kind::Show, show(view)),
        "call" => Kind::Call,
        "lock" | "unlock" => return (Kind::Lock, lock(view)),
        "flush" => return (Kind::Admin, flush(view)),
        "create" | "alter" | "drop" | "rename" | "truncate" => return ddl(view),
        "prepare" => Kind::Prepare,
        "execute" => Kind::Execute,
        "deallocate" => Kind::Deallocate,
        "kill" => Kind::Kill,
        "explain" | "describe" | "desc" => Kind::Explain,
        "analyze"
            if !matches!(view.word(1).as_str(), "table" | "tables" | "local" | "no_write_to_binlog") =>
        {
            Kind::Explain
        }
        "get" => return (Kind::Unknown, Facts::LAST_RESULT),
        "analyze" | "backup" | "binlog" | "cache" | "change" | "check" | "checksum" | "clone" | "grant"
        | "install" | "optimize" | "purge" | "repair" | "reset" | "restart" | "revoke" | "shutdown"
        | "stop" | "uninstall" => Kind::Admin,
        _ => Kind::Unknown,
    };
    (plain, Facts::empty())
}

/// `KILL [HARD | SOFT] [CONNECTION | QUERY] <digits>` and nothing more.
pub(super) fn kill(view: View<'_>) -> Option<Kill> {
    let mut at = 1;
    if matches!(view.word(at).as_str(), "hard" | "soft") {
        at += 1;
    }
    let query_only = view.word(at).as_str() == "query";
    if query_only || view.word(at).as_str() == "connection" {
        at += 1;
    }
    let number = view.token(at).filter(|token| token.kind == TokenKind::Number)?;
    let is_last = at + 1 == view.tokens.len();
    (is_last && number.bytes(view.text).iter().all(u8::is_ascii_digit))
        .then_some(Kill { number: number.start..number.end, query_only })
}

/// Whether `;` inside belongs to the body of a stored program.
pub(super) fn has_body(view: View<'_>) -> bool {
    matches!(view.word(0).as_str(), "create" | "alter")
        && (1..HEAD_OF_PROGRAM).any(|at| {
            matches!(view.word(at).as_str(), "procedure" | "function" | "trigger" | "event" | "package")
        })
}

/// WITH is a read unless its main statement is one of those that write.
fn with(view: View<'_>) -> Kind {
    let mut depth = 0_usize;
    for (at, token) in view.tokens.iter().enumerate() {
        match token.kind {
            TokenKind::Open | TokenKind::SpacedOpen => depth += 1,
            TokenKind::Close => depth = depth.saturating_sub(1),
            TokenKind::Word if depth == 0 => match view.word(at).as_str() {
                "update" if view.word_before(at).as_str() == "for" => {}
                "insert" | "update" | "delete" | "replace" if !view.opens(at + 1) => return Kind::Write,
                _ => {}
            },
            _ => {}
        }
    }
    Kind::Read
}

fn begin(view: View<'_>) -> (Kind, Facts) {
    let words = view.tokens.len();
    match (view.word(0).as_str(), view.word(1).as_str()) {
        // In MariaDB's ORACLE mode and with NOT ATOMIC, BEGIN opens a block of statements.
        ("begin", "work") if words == 2 => (Kind::Begin, Facts::empty()),
        ("begin", _) if words == 1 => (Kind::Begin, Facts::empty()),
        ("start", "transaction") => {
            let read_only = (2..words).any(|at| view.has_words(at, &["read", "only"]));
            (Kind::Begin, if read_only { Facts::READ_ONLY_BEGIN } else { Facts::empty() })
        }
        ("start", _) => (Kind::Admin, Facts::empty()),
        _ => (Kind::Unknown, Facts::empty()),
    }
}

fn rollback(view: View<'_>) -> Kind {
    let to = usize::from(view.word(1).as_str() == "work") + 1;
    if view.word(to).as_str() == "to" { Kind::Savepoint } else { Kind::Rollback }
}

/// `COMMIT WORK AND NO CHAIN RELEASE` is the longest form.
fn release(view: View<'_>) -> Facts {
    let releases =
        (1..6).any(|at| view.word(at).as_str() == "release" && view.word_before(at).as_str() != "no");
    if releases { Facts::RELEASES } else { Facts::empty() }
}

fn lock(view: View<'_>) -> Facts {
    match (view.word(0).as_str(), view.word(1).as_str()) {
        ("lock", "table" | "tables") => {
            // No table can be called so without quotes.
            let writes = (2..view.tokens.len()).any(|at| view.word(at).as_str() == "write");
            let facts = if writes { Facts::LOCKS_FOR_WRITE } else { Facts::empty() };
            facts.and(Facts::LOCKS_TABLES)
        }
        ("unlock", "table" | "tables") => Facts::UNLOCKS_TABLES,
        _ => Facts::empty(),
    }
}

/// `FLUSH TABLES ... WITH READ LOCK`, `FLUSH TABLES t FOR EXPORT`; `FLUSH [LOCAL] STATUS`.
fn flush(view: View<'_>) -> Facts {
    let mut facts = Facts::empty();
    for at in 1..view.tokens.len() {
        match view.word(at).as_str() {
            "lock" | "export" => facts.insert(Facts::LOCKS_TABLES),
            "status" => facts.insert(Facts::SESSION_COUNTERS),
            _ => {}
        }
    }
    facts
}

fn show(view: View<'_>) -> Facts {
    let last = |word: &str| matches!(word, "warnings" | "errors");
    // SHOW COUNT(*) WARNINGS has its word at 5.
    if last(view.word(1).as_str()) || view.word(1).as_str() == "count" && last(view.word(5).as_str()) {
        return Facts::LAST_RESULT;
    }
    let own = (1..3).any(|at| {
        matches!(view.word(at).as_str(), "profile" | "profiles" | "processlist" | "status" | "variables")
    });
    let counters = match view.word(1).as_str() {
        "status" => true,
        "session" | "local" => view.word(2).as_str() == "status",
        _ => false,
    };
    let mut facts = Facts::empty();
    if own {
        facts.insert(Facts::CONNECTION_LOCAL);
    }
    if counters {
        facts.insert(Facts::SESSION_COUNTERS);
    }
    facts
}

/// Whether a text that shows the status of the session shows only what TLS is like, as some clients ask first
/// of all: `LIKE 'Ssl_cipher'` and nothing after it.
pub fn shows_tls(text: &[u8]) -> bool {
    const PREFIX: &[u8] = b"ssl_";
    let text = text.trim_ascii_end();
    let Some((quote @ (b'\'' | b'"'), inside)) = text.split_last() else { return false };
    let literal = inside.rsplit(|byte| byte == quote).next().unwrap_or_default();
    literal.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

fn ddl(view: View<'_>) -> (Kind, Facts) {
    if view.has_words(0, &["drop", "prepare"]) {
        return (Kind::Deallocate, Facts::empty());
    }
    let mut facts = Facts::empty();
    // CREATE OR REPLACE TEMPORARY TABLE is the longest form.
    if (1..4).any(|at| view.word(at).as_str() == "temporary") {
        facts.insert(Facts::TEMPORARY_TABLE);
    }
    let what = if view.word(1).as_str() == "temporary" { 2 } else { 1 };
    if view.word(0).as_str() == "drop" && matches!(view.word(what).as_str(), "table" | "tables") {
        facts.insert(Facts::DROPS_TABLES);
    }
    (Kind::Ddl, facts)
}

/// Where the word PROCEDURE or its like stands at the latest:
/// CREATE OR REPLACE DEFINER = user @host AGGREGATE FUNCTION.
const HEAD_OF_PROGRAM: usize = 10;
