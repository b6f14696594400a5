//! Bytes to meaning: what a statement is, which tables, functions and variables it names, and whether it
//! is certain that it only reads.
//!
//! A text passes through four small steps:
//! 1. `lexer` turns bytes into tokens exactly as the servers do (quotes per `sql_mode`, executable
//!    comments per version) and notes where two servers could disagree;
//! 2. `normal` collapses literals; both the cache key and the classification see only its tokens, so an
//!    answer from the cache is the answer that [`classify()`] would give;
//! 3. [`classify()`] reads the tokens: leading word, dangerous words, calls, variables;
//! 4. `tree` asks sqlparser for the exact tables of a read and for a second opinion. It can only take
//!    the verdict "certain read" away, never grant it.
//!
//! When in doubt a statement is not a certain read. What a text cannot show stays out of sight: a view
//! or a column default may call a stored function that writes; a replica must refuse such writes itself.
//!
//! Pure: no I/O, no clock. Uses sqlparser and nothing else of this crate.

mod assignment;
mod cache;
mod classify;
mod comment;
mod digest;
mod facts;
mod functions;
mod lexer;
mod normal;
mod scan;
mod set;
mod statement;
mod tables;
mod tree;
mod verb;
mod view;

#[cfg(test)]
mod tests;

pub use assignment::{Assignment, literal_assignments};
pub use cache::Cache;
pub use classify::classify;
pub use comment::leading_comment_hint;
pub use digest::{Digest, digest, digest_text};
pub use facts::Facts;
pub use statement::{Kill, Kind, Statement, TableName};
pub use verb::shows_tls;

/// The server family whose grammar a text is read with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flavor {
    /// MySQL 8.0 and later.
    MySql,
    /// MariaDB 10.6 and later.
    MariaDb,
}

/// Everything outside the text that decides how the server reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dialect {
    /// The server family.
    pub flavor: Flavor,
    /// The primary's version as one number, two digits for each minor part: 80036, 90704, 101119.
    pub version: u32,
    /// `sql_mode` has ANSI_QUOTES: `"a"` is a name.
    pub ansi_quotes: bool,
    /// `sql_mode` has NO_BACKSLASH_ESCAPES: `'\'` is a whole string.
    pub no_backslash_escapes: bool,
    /// False when `character_set_client` is big5, cp932, gb18030, gbk or sjis: there a byte below 0x80 (0x5C
    /// above all) may be the second half of a character.
    pub ascii_safe: bool,
}

impl Dialect {
    /// A server's defaults, until it says more.
    pub const fn new(flavor: Flavor, version: u32) -> Self {
        Self { flavor, version, ansi_quotes: false, no_backslash_escapes: false, ascii_safe: true }
    }
}
