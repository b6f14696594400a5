//! Hints: wishes in the first comment of a statement, `/* ramsplit: replica, max_lag=50ms */`.

use super::policy::{Policy, Wish, parse_duration};
use crate::config::Consistency;

/// Reads what follows `ramsplit:`, items with commas or blanks between. `None` when any of it is not
/// understood: half of a hint could do what nobody meant.
pub fn parse(hint: &[u8]) -> Option<Policy> {
    let text = std::str::from_utf8(hint).ok()?;
    let mut policy = Policy::default();
    for item in text.split([',', ' ', '\t', '\n', '\r']).filter(|item| !item.is_empty()) {
        let (key, value) = item.split_once('=').unwrap_or((item, ""));
        match (key, value) {
            ("primary", "") => policy.wish = Some(Wish::Primary),
            // Until there is a cache, a replica is the nearest to it.
            ("replica" | "cache", "") => policy.wish = Some(Wish::Replica),
            ("consistency", level) => policy.consistency = Some(Consistency::parse(level)?),
            ("max_lag", duration) => policy.max_lag = Some(parse_duration(duration)?),
            ("wait", duration) => policy.wait = Some(parse_duration(duration)?),
            _ => return None,
        }
    }
    Some(policy)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn items_are_read() {
        let policy = parse(b"replica, max_lag=50ms wait=5ms,consistency=global").unwrap();
        assert_eq!(
            policy,
            Policy {
                wish: Some(Wish::Replica),
                consistency: Some(Consistency::Global),
                max_lag: Some(Duration::from_millis(50)),
                wait: Some(Duration::from_millis(5)),
            }
        );
        assert_eq!(parse(b"primary").unwrap().wish, Some(Wish::Primary));
        assert_eq!(parse(b"cache").unwrap().wish, Some(Wish::Replica));
        assert_eq!(parse(b""), Some(Policy::default()));
        for hint in [
            "Primary",
            "replica=1",
            "replica; primary",
            "max_lag",
            "max_lag=5",
            "consistency=strong",
            "replica \u{e4}",
        ] {
            assert_eq!(parse(hint.as_bytes()), None, "{hint}");
        }
        assert_eq!(parse(b"\xFF"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse(&bytes);
        }
    }
}
