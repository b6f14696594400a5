//! What a rule or a hint asks for.

use std::time::Duration;

use crate::config::Consistency;

/// Wishes about a statement; what is `None` is left to whoever is asked next, in the end the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    /// Where it shall run.
    pub wish: Option<Wish>,
    /// What it must see.
    pub consistency: Option<Consistency>,
    /// A replica later than this is not fit.
    pub max_lag: Option<Duration>,
    /// How long a replica may take to get what it lacks.
    pub wait: Option<Duration>,
}

/// Where a statement shall run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// On the primary.
    Primary,
    /// On a replica, if it is a read and one is fit.
    Replica,
    /// As if there were no other rule.
    Auto,
}

impl Policy {
    /// These wishes, and `other` where there is none.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        const fn first<T: Copy>(a: Option<T>, b: Option<T>) -> Option<T> {
            if a.is_some() { a } else { b }
        }
        Self {
            wish: first(self.wish, other.wish),
            consistency: first(self.consistency, other.consistency),
            max_lag: first(self.max_lag, other.max_lag),
            wait: first(self.wait, other.wait),
        }
    }
}

impl Wish {
    /// Reads `primary`, `replica` or `auto`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "primary" => Some(Self::Primary),
            "replica" => Some(Self::Replica),
            "auto" => Some(Self::Auto),
            _ => None,
        }
    }
}

/// Reads a time such as `50ms`, `1.5s`, `200us`, up to one day.
pub fn parse_duration(text: &str) -> Option<Duration> {
    const DAY: Duration = Duration::from_secs(86_400);
    let unit = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at_checked(unit)?;
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = number.trim_end().parse().ok().filter(|_| is_plain)?;
    Duration::try_from_secs_f64(number * seconds).ok().filter(|duration| *duration <= DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wish_counts() {
        let hint = Policy { consistency: Some(Consistency::Global), ..Policy::default() };
        let rule = Policy {
            wish: Some(Wish::Primary),
            consistency: Some(Consistency::Eventual),
            ..Policy::default()
        };
        let both = hint.or(rule);
        assert_eq!(
            (both.wish, both.consistency, both.wait),
            (Some(Wish::Primary), Some(Consistency::Global), None)
        );
    }

    #[test]
    fn durations_have_a_unit() {
        for (text, millis) in
            [("50ms", 50.0), ("1.5s", 1500.0), ("200us", 0.2), ("0s", 0.0), ("86400s", 86_400_000.0)]
        {
            let duration = parse_duration(text).unwrap();
            assert!((duration.as_secs_f64() * 1e3 - millis).abs() < 1e-9, "{text}");
        }
        for text in ["", "5", "ms", "-1ms", "1h", "1e3s", "NaNs", "infs", "86401s", "1 ms "] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
