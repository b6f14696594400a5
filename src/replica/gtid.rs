//! Sets of global transaction ids, as both server families write them. Pure.

use std::{
    collections::BTreeMap,
    fmt::{self, Display, Formatter, Write},
};

use crate::sql::Flavor;

/// Transactions by their global ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gtids {
    /// MySQL's: for each server and tag, which numbers.
    /// <https://dev.mysql.com/doc/refman/9.6/en/replication-gtids-concepts.html>
    MySql(BTreeMap<Source, Intervals>),
    /// MariaDB's: for each domain, the last one; those before it are in the set, since a domain has one order.
    /// <https://mariadb.com/kb/en/gtid/>
    MariaDb(BTreeMap<u32, Last>),
}

/// Who gave a MySQL transaction its number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    uuid: [u8; 16],
    /// Empty for none; only MySQL from 8.3 on has any.
    tag: String,
}

/// The last transaction of a MariaDB domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Last {
    server: u32,
    number: u64,
}

/// Numbers as ranges, both ends included: in order, and no two of them touch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Intervals(Vec<(u64, u64)>);

/// Bytes of a tag at most.
const TAG_LEN: usize = 32;

impl Gtids {
    /// The set without transactions.
    pub const fn empty(flavor: Flavor) -> Self {
        match flavor {
            Flavor::MySql => Self::MySql(BTreeMap::new()),
            Flavor::MariaDb => Self::MariaDb(BTreeMap::new()),
        }
    }

    /// Reads what a server of this family writes; `None` when it is no such set.
    pub fn parse(flavor: Flavor, text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut gtids = Self::empty(flavor);
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match &mut gtids {
                Self::MySql(sources) => parse_source(part, sources)?,
                Self::MariaDb(domains) => {
                    let (domain, last) = parse_last(part)?;
                    keep_last(domains, domain, last);
                }
            }
        }
        Some(gtids)
    }

    /// Whether it is of this family.
    pub const fn is_of(&self, flavor: Flavor) -> bool {
        matches!((self, flavor), (Self::MySql(_), Flavor::MySql) | (Self::MariaDb(_), Flavor::MariaDb))
    }

    /// Whether there are no transactions in it.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::MySql(sources) => sources.is_empty(),
            Self::MariaDb(domains) => domains.is_empty(),
        }
    }

    /// Adds all of `other`; of another family it has nothing to add.
    pub fn unite(&mut self, other: &Self) {
        match (self, other) {
            (Self::MySql(mine), Self::MySql(others)) => {
                for (source, numbers) in others {
                    let entry = mine.entry(source.clone()).or_default();
                    numbers.0.iter().for_each(|&(first, last)| entry.add(first, last));
                }
            }
            (Self::MariaDb(mine), Self::MariaDb(others)) => {
                others.iter().for_each(|(&domain, &last)| keep_last(mine, domain, last));
            }
            (Self::MySql(_), Self::MariaDb(_)) | (Self::MariaDb(_), Self::MySql(_)) => {}
        }
    }

    /// Whether every transaction of `other` is in it.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::MySql(mine), Self::MySql(others)) => others
                .iter()
                .all(|(source, numbers)| mine.get(source).is_some_and(|mine| mine.covers(numbers))),
            (Self::MariaDb(mine), Self::MariaDb(others)) => others
                .iter()
                .all(|(domain, other)| mine.get(domain).is_some_and(|mine| mine.number >= other.number)),
            (_, other) => other.is_empty(),
        }
    }
}

/// As the server takes it.
impl Display for Gtids {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::MySql(sources) => {
                for (place, (source, numbers)) in sources.iter().enumerate() {
                    write!(f, "{}{source}{numbers}", if place == 0 { "" } else { "," })?;
                }
            }
            Self::MariaDb(domains) => {
                for (place, (domain, Last { server, number })) in domains.iter().enumerate() {
                    write!(f, "{}{domain}-{server}-{number}", if place == 0 { "" } else { "," })?;
                }
            }
        }
        Ok(())
    }
}

impl Display for Source {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.uuid.iter().enumerate() {
            if matches!(place, 4 | 6 | 8 | 10) {
                f.write_char('-')?;
            }
            write!(f, "{byte:02x}")?;
        }
        if self.tag.is_empty() { Ok(()) } else { write!(f, ":{}", self.tag) }
    }
}

impl Display for Intervals {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (first, last) in &self.0 {
            if first == last { write!(f, ":{first}")? } else { write!(f, ":{first}-{last}")? }
        }
        Ok(())
    }
}

impl Intervals {
    /// Adds the numbers from `first` to `last`.
    fn add(&mut self, first: u64, last: u64) {
        // Mostly the next number after the last one.
        if let Some((_, end)) = self.0.last_mut().filter(|(_, end)| end.checked_add(1) == Some(first)) {
            *end = last;
            return;
        }
        // Those that overlap or touch the new one become one with it.
        let from = self.0.partition_point(|&(_, end)| end.saturating_add(1) < first);
        let to = self.0.partition_point(|&(begin, _)| begin <= last.saturating_add(1));
        let touched = self.0.get(from..to).unwrap_or_default();
        let first = touched.first().map_or(first, |&(begin, _)| begin.min(first));
        let last = touched.last().map_or(last, |&(_, end)| end.max(last));
        self.0.splice(from..to.max(from), [(first, last)]);
    }

    fn covers(&self, other: &Self) -> bool {
        other.0.iter().all(|&(first, last)| {
            let at = self.0.partition_point(|&(_, end)| end < first);
            self.0.get(at).is_some_and(|&(begin, end)| begin <= first && last <= end)
        })
    }
}

/// `uuid[:tag]:numbers[:numbers]..[:tag:numbers]..`
fn parse_source(part: &str, sources: &mut BTreeMap<Source, Intervals>) -> Option<()> {
    let mut pieces = part.split(':').map(str::trim);
    let uuid = parse_uuid(pieces.next()?)?;
    let mut source = Source { uuid, tag: String::new() };
    for piece in pieces {
        if piece.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            source.tag = parse_tag(piece)?;
            continue;
        }
        let (first, last) = parse_interval(piece)?;
        match sources.get_mut(&source) {
            Some(numbers) => numbers.add(first, last),
            None => sources.entry(source.clone()).or_default().add(first, last),
        }
    }
    Some(())
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let mut digits = text.bytes().filter(|&byte| byte != b'-');
    let mut uuid = [0; 16];
    for byte in &mut uuid {
        let high = char::from(digits.next()?).to_digit(16)?;
        let low = char::from(digits.next()?).to_digit(16)?;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    digits.next().is_none().then_some(uuid)
}

fn parse_tag(text: &str) -> Option<String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (text.len() <= TAG_LEN && text.bytes().all(is_part)).then(|| text.to_ascii_lowercase())
}

fn parse_interval(text: &str) -> Option<(u64, u64)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (1 <= first && first <= last).then_some((first, last))
}

/// `domain-server-number`
fn parse_last(part: &str) -> Option<(u32, Last)> {
    let (domain, rest) = part.split_once('-')?;
    let (server, number) = rest.split_once('-')?;
    let last = Last { server: server.parse().ok()?, number: number.parse().ok()? };
    Some((domain.parse().ok()?, last))
}

fn keep_last(domains: &mut BTreeMap<u32, Last>, domain: u32, last: Last) {
    let kept = domains.entry(domain).or_insert(last);
    if kept.number < last.number {
        *kept = last;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    const B: &str = "00000000-0000-0000-0000-00000000000b";

    fn mysql(text: &str) -> Gtids {
        Gtids::parse(Flavor::MySql, text.as_bytes()).unwrap()
    }

    fn mariadb(text: &str) -> Gtids {
        Gtids::parse(Flavor::MariaDb, text.as_bytes()).unwrap()
    }

    #[test]
    fn texts_of_servers_are_read_and_written() {
        for (text, written) in [
            (String::new(), String::new()),
            (format!("{A}:1"), format!("{A}:1")),
            (format!("{A}:1-5:7-7:6"), format!("{A}:1-7")),
            (format!("{A}:1-5:11-18,\n{B}:1"), format!("{B}:1,{A}:1-5:11-18")),
            (format!("{}:3", A.to_uppercase()), format!("{A}:3")),
            (format!("{A}:1-2:Tag:5:other:6"), format!("{A}:1-2,{A}:other:6,{A}:tag:5")),
        ] {
            assert_eq!(mysql(&text).to_string(), written, "{text}");
        }
        for text in ["0-1-5", "0-1-5,1-2-18446744073709551615"] {
            assert_eq!(mariadb(text).to_string(), text);
        }
        assert_eq!(mariadb("0-1-5,0-2-9,0-1-7").to_string(), "0-2-9");
    }

    #[test]
    fn what_is_no_set_is_none() {
        let tag = "t".repeat(TAG_LEN + 1);
        for text in [
            "x".to_owned(),
            "3e11fa47:1".to_owned(),
            format!("{A}0:1"),
            format!("{A}:0"),
            format!("{A}:5-4"),
            format!("{A}:-4"),
            format!("{A}:{tag}:1"),
            format!("{A}:t-g:1"),
            format!("{A}:18446744073709551616"),
        ] {
            assert_eq!(Gtids::parse(Flavor::MySql, text.as_bytes()), None, "{text}");
        }
        for text in ["0-1", "0-1-x", "4294967296-1-1", "1"] {
            assert_eq!(Gtids::parse(Flavor::MariaDb, text.as_bytes()), None, "{text}");
        }
        assert_eq!(Gtids::parse(Flavor::MySql, b"\xff"), None);
    }

    #[test]
    fn a_tag_is_a_source_of_its_own() {
        let untagged = mysql(&format!("{A}:1-9"));
        let tagged = mysql(&format!("{A}:tag:3"));
        assert!(!untagged.covers(&tagged) && !tagged.covers(&untagged));
        assert!(mysql(&format!("{A}:1-9:tag:1-3")).covers(&tagged));
    }

    #[test]
    fn families_do_not_mix() {
        let mut set = mysql(&format!("{A}:1"));
        set.unite(&mariadb("0-1-5"));
        assert_eq!(set, mysql(&format!("{A}:1")));
        assert!(!set.covers(&mariadb("0-1-5")));
        assert!(set.covers(&mariadb("")));
    }

    /// A set as its transactions one by one.
    type Plain = BTreeSet<(bool, bool, u64)>;

    fn written(plain: &Plain) -> Gtids {
        let one = |&(b, tagged, number): &(bool, bool, u64)| {
            format!("{}{}:{number}", if b { B } else { A }, if tagged { ":tag" } else { "" })
        };
        mysql(&plain.iter().map(one).collect::<Vec<_>>().join(","))
    }

    fn plain() -> impl Strategy<Value = Plain> {
        prop::collection::btree_set((any::<bool>(), any::<bool>(), 1_u64..40), 0..60)
    }

    proptest! {
        #[test]
        fn sets_behave_as_sets(one in plain(), other in plain()) {
            let (first, second) = (written(&one), written(&other));
            prop_assert_eq!(first.covers(&second), one.is_superset(&other));
            let mut united = first.clone();
            united.unite(&second);
            prop_assert_eq!(&united, &written(&one.union(&other).copied().collect()));
            prop_assert!(united.covers(&first) && united.covers(&second));
            prop_assert_eq!(mysql(&united.to_string()), united);
        }

        #[test]
        fn ranges_are_what_their_numbers_are(ranges in prop::collection::vec((1_u64..60, 0_u64..12), 0..20)) {
            let text: String = ranges.iter().map(|(first, len)| format!(":{first}-{}", first + len)).collect();
            let numbers = ranges.iter().flat_map(|(first, len)| *first..=first + len);
            let plain: Plain = numbers.map(|number| (false, false, number)).collect();
            prop_assert_eq!(mysql(&format!("{A}{text}")).to_string(), written(&plain).to_string());
        }

        #[test]
        fn domains_have_one_order(one in prop::collection::btree_map(0_u32..4, 1_u64..9, 0..4),
                                  other in prop::collection::btree_map(0_u32..4, 1_u64..9, 0..4)) {
            let written = |map: &BTreeMap<u32, u64>| {
                let one = |(domain, number): (&u32, &u64)| format!("{domain}-7-{number}");
                mariadb(&map.iter().map(one).collect::<Vec<_>>().join(","))
            };
            let covers = other.iter().all(|(domain, number)| one.get(domain).is_some_and(|mine| mine >= number));
            let (first, second) = (written(&one), written(&other));
            prop_assert_eq!(first.covers(&second), covers);
            let mut united = first.clone();
            united.unite(&second);
            prop_assert!(united.covers(&first) && united.covers(&second));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            for flavor in [Flavor::MySql, Flavor::MariaDb] {
                let _ = Gtids::parse(flavor, &bytes);
            }
        }
    }
}
