//! Comments: which are skipped, which are executed, and the proxy's own hints.
//!
//! MySQL: <https://dev.mysql.com/doc/refman/8.4/en/comments.html>. MariaDB:
//! <https://mariadb.com/kb/en/comment-syntax/>. What the pages leave open was measured on MySQL 9.7 and
//! MariaDB 10.11: a comment that is not executed may hold one level of comments, a plain one may not;
//! MariaDB skips `/*!50700` to `/*!99999` but not `/*M!80000`.

use super::{Dialect, Flavor};

/// How an executable comment is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Executable {
    /// Where its content starts.
    pub content: usize,
    /// The content is executed.
    pub live: bool,
    /// Every supported server of the family reads it the same way.
    pub certain: bool,
}

/// Reads the head of `/*!`, `/*!NNNNN`, `/*M!` or `/*M!NNNNNN` at `start`; `None` for any other comment.
pub(super) fn executable(text: &[u8], start: usize, dialect: Dialect) -> Option<Executable> {
    let rest = text.get(start + 2..)?;
    let (marker, maria_marker) = match rest {
        [b'!', ..] => (1, false),
        [b'M', b'!', ..] => (2, true),
        _ => return None,
    };
    let digits = rest.iter().skip(marker).take(6).take_while(|byte| byte.is_ascii_digit());
    let (count, version) = digits.fold((0, 0), |(count, version), digit| {
        (count + 1, version * 10 + u32::from(digit.wrapping_sub(b'0')))
    });
    let versioned = count >= 5;
    let content = start + 2 + marker + if versioned { count } else { 0 };
    let (live, certain) = match dialect.flavor {
        // A plain comment to MySQL, yet someone wrote it for a server that executes it.
        Flavor::MySql if maria_marker => (false, false),
        _ if !versioned => (true, true),
        // Six digits are one number to 8.4 and later, five and the start of the content to 8.0.
        Flavor::MySql => (version <= dialect.version, count == 5 && version <= OLDEST_MYSQL),
        Flavor::MariaDb => {
            let skipped = (50_700..=99_999).contains(&version) && !maria_marker;
            (version <= dialect.version && !skipped, version <= OLDEST_MARIADB && !skipped)
        }
    };
    Some(Executable { content, live, certain })
}

/// The position after the comment that opens at `start`, which may hold comments `nested` levels deep;
/// `None` when it has no end.
pub(super) fn end_of_comment(text: &[u8], start: usize, nested: u8) -> Option<usize> {
    let mut pos = start + 2;
    loop {
        match text.get(pos..)? {
            [b'*', b'/', ..] => return Some(pos + 2),
            [b'/', b'*', ..] if nested > 0 => pos = end_of_comment(text, pos, nested - 1)?,
            [] => return None,
            _ => pos += 1,
        }
    }
}

/// The text of `/* ramsplit: ... */` when that is the first thing in `text`, without the blanks around it.
pub fn leading_comment_hint(text: &[u8]) -> Option<&[u8]> {
    let comment = text.trim_ascii_start().strip_prefix(b"/*")?;
    let end = comment.windows(2).position(|pair| pair == b"*/")?;
    let hint = comment.get(..end)?.trim_ascii().strip_prefix(b"ramsplit:")?;
    Some(hint.trim_ascii())
}

/// The oldest MySQL that is supported: what it executes, every one does.
const OLDEST_MYSQL: u32 = 80_000;
/// The oldest MariaDB that is supported.
const OLDEST_MARIADB: u32 = 100_600;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, flavor: Flavor, version: u32) -> Option<(bool, bool)> {
        let dialect =
            Dialect { flavor, version, ansi_quotes: false, no_backslash_escapes: false, ascii_safe: true };
        executable(text.as_bytes(), 0, dialect).map(|comment| (comment.live, comment.certain))
    }

    #[test]
    fn versions_are_compared_as_the_servers_do() {
        let live = Some((true, true));
        let live_here = Some((true, false));
        let dead = Some((false, false));
        for (text, mysql, maria) in [
            ("/*! x */", live, live),
            ("/*!5000 x */", live, live),
            ("/*!50600 x */", live, live),
            ("/*!50700 x */", live, dead),
            ("/*!80000 x */", live, dead),
            ("/*!90700 x */", live_here, dead),
            ("/*!90705 x */", dead, dead),
            ("/*!99999 x */", dead, dead),
            ("/*!090700 x */", live_here, dead),
            ("/*!100000 x */", dead, live),
            ("/*!101119 x */", dead, live_here),
            ("/*!101120 x */", dead, dead),
            ("/*M! x */", dead, live),
            ("/*M!80000 x */", dead, live),
            ("/*M!101120 x */", dead, dead),
            ("/*m! x */", None, None),
            ("/* ! x */", None, None),
            ("/*", None, None),
        ] {
            assert_eq!(read(text, Flavor::MySql, 90_704), mysql, "{text} on MySQL");
            assert_eq!(read(text, Flavor::MariaDb, 101_119), maria, "{text} on MariaDB");
        }
    }

    #[test]
    fn only_a_skipped_comment_nests() {
        let text = b"/* a /* b */ c */";
        assert_eq!(end_of_comment(text, 0, 0), Some(12));
        assert_eq!(end_of_comment(text, 0, 1), Some(17));
        assert_eq!(end_of_comment(b"/* a", 0, 0), None);
        assert_eq!(end_of_comment(b"/*/", 0, 0), None);
    }

    #[test]
    fn hints_come_first_or_not_at_all() {
        assert_eq!(leading_comment_hint(b" /* ramsplit: primary */ SELECT 1"), Some(&b"primary"[..]));
        assert_eq!(leading_comment_hint(b"/*ramsplit:max_lag=5ms*/SELECT 1"), Some(&b"max_lag=5ms"[..]));
        for text in ["SELECT /* ramsplit: primary */ 1", "/* other */ SELECT 1", "/* ramsplit: x", "", "/*"] {
            assert_eq!(leading_comment_hint(text.as_bytes()), None, "{text}");
        }
    }
}
