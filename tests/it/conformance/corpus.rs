//! The statements in the files of the servers' own tests: all that is odd in SQL, malformed bytes too.

use std::collections::HashSet;
use std::path::Path;

use ramsplit::sandbox::Flavor;
use ramsplit::sql::{self, Dialect, Kind, classify, digest_text, leading_comment_hint};

use super::mtr;

/// Both suites together must have as many different ones; how they come apart into statements is only nearly what their own
/// runner does.
const LEAST: usize = 200_000;
/// The words that a certain read can begin with.
const READS: [&[u8]; 5] = [b"SELECT", b"WITH", b"VALUES", b"TABLE", b"("];

#[test]
fn every_statement_of_the_suites_is_classified() {
    let (mut understood, mut reads) = (0, 0);
    for (flavor, dialect) in [
        (Flavor::MySql, Dialect::new(sql::Flavor::MySql, 90_704)),
        (Flavor::MariaDb, Dialect::new(sql::Flavor::MariaDb, 101_119)),
    ] {
        let mut statements = HashSet::new();
        collect(&mtr::runner(flavor).0, &mut statements);
        for text in &statements {
            let statement = classify(text, dialect);
            understood += usize::from(statement.kind != Kind::Unknown);
            if statement.is_certain_read() {
                reads += 1;
                assert!(begins_as_read(text), "{}", String::from_utf8_lossy(text));
            }
            digest_text(text, dialect);
            leading_comment_hint(text);
        }
    }
    println!("{understood} statements, {reads} certain reads");
    assert!(understood >= LEAST, "{understood} statements");
    assert!(reads > 0);
}

fn begins_as_read(text: &[u8]) -> bool {
    let start = without_comments(text);
    READS.iter().any(|word| start.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)))
}

fn without_comments(mut text: &[u8]) -> &[u8] {
    loop {
        text = text.trim_ascii_start();
        let end = match text {
            // What servers execute of a comment begins behind its version.
            [b'/', b'*', b'!', rest @ ..] | [b'/', b'*', b'M', b'!', rest @ ..] => {
                text = &rest[rest.iter().take_while(|byte| byte.is_ascii_digit()).count()..];
                continue;
            }
            [b'/', b'*', ..] => text.windows(2).position(|pair| pair == b"*/").map(|end| end + 2),
            [b'#', ..] | [b'-', b'-', ..] => text.iter().position(|byte| *byte == b'\n').map(|end| end + 1),
            _ => return text,
        };
        let Some(end) = end else { return text };
        text = &text[end..];
    }
}

/// The statements in all files of tests below `folder`.
fn collect(folder: &Path, statements: &mut HashSet<Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            collect(&path, statements);
        } else if path
            .extension()
            .is_some_and(|extension| ["test", "inc", "sql"].iter().any(|known| extension == *known))
        {
            split(&std::fs::read(&path).unwrap(), statements);
        }
    }
}

/// Statements end at the end of a line with the delimiter in force; `#` and `--` begin lines for the runner.
fn split(text: &[u8], statements: &mut HashSet<Vec<u8>>) {
    let mut delimiter = b";".to_vec();
    let mut statement = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let trimmed = line.trim_ascii();
        if statement.is_empty()
            && (trimmed.is_empty() || trimmed.starts_with(b"#") || trimmed.starts_with(b"--"))
        {
            continue;
        }
        if let Some(chosen) = delimiter_of(trimmed) {
            delimiter = chosen
                .strip_suffix(&delimiter[..])
                .filter(|rest| !rest.is_empty())
                .unwrap_or(chosen)
                .to_vec();
            continue;
        }
        statement.extend_from_slice(line);
        if let Some(whole) = statement.trim_ascii_end().strip_suffix(&delimiter[..]) {
            statements.insert(whole.to_vec());
            statement.clear();
        } else {
            statement.push(b'\n');
        }
    }
}

fn delimiter_of(line: &[u8]) -> Option<&[u8]> {
    const WORD: &[u8] = b"delimiter ";
    line.get(..WORD.len()).filter(|start| start.eq_ignore_ascii_case(WORD))?;
    Some(line[WORD.len()..].trim_ascii())
}
