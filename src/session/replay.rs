//! Session settings made on the primary, said again on a replica's connection before it is used.

/// What becomes of a changed variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// It changes what reads answer: replay it.
    Replay,
    /// It concerns writes, or the connection to the primary alone.
    Ignore,
    /// Only with this value a replica can answer as the primary would.
    Only(&'static [u8]),
}

/// Variables that applications set. Any other ties the session to the primary. Sorted, for the search.
const RULES: &[(&str, Rule)] = &[
    ("autocommit", Rule::Ignore),
    ("big_tables", Rule::Replay),
    ("binlog_format", Rule::Ignore),
    ("binlog_row_image", Rule::Ignore),
    ("character_set_client", Rule::Replay),
    ("character_set_connection", Rule::Replay),
    ("character_set_results", Rule::Replay),
    ("collation_connection", Rule::Replay),
    ("default_storage_engine", Rule::Ignore),
    ("default_tmp_storage_engine", Rule::Ignore),
    ("default_week_format", Rule::Replay),
    ("div_precision_increment", Rule::Replay),
    ("eq_range_index_dive_limit", Rule::Replay),
    ("foreign_key_checks", Rule::Ignore),
    ("group_concat_max_len", Rule::Replay),
    ("information_schema_stats_expiry", Rule::Ignore),
    ("innodb_lock_wait_timeout", Rule::Ignore),
    ("innodb_strict_mode", Rule::Ignore),
    ("interactive_timeout", Rule::Ignore),
    ("join_buffer_size", Rule::Replay),
    ("lc_time_names", Rule::Replay),
    ("lock_wait_timeout", Rule::Ignore),
    ("long_query_time", Rule::Ignore),
    ("max_execution_time", Rule::Replay),
    ("max_heap_table_size", Rule::Replay),
    ("max_join_size", Rule::Replay),
    ("max_length_for_sort_data", Rule::Replay),
    ("max_sort_length", Rule::Replay),
    ("max_statement_time", Rule::Replay),
    ("net_read_timeout", Rule::Ignore),
    ("net_write_timeout", Rule::Ignore),
    ("optimizer_prune_level", Rule::Replay),
    ("optimizer_search_depth", Rule::Replay),
    ("optimizer_switch", Rule::Replay),
    ("read_buffer_size", Rule::Replay),
    ("read_rnd_buffer_size", Rule::Replay),
    // The proxy's own doing: a client that names one of them has its reads on the primary already.
    ("session_track_gtids", Rule::Ignore),
    ("session_track_schema", Rule::Ignore),
    ("session_track_state_change", Rule::Ignore),
    ("session_track_system_variables", Rule::Ignore),
    ("sort_buffer_size", Rule::Replay),
    ("sql_auto_is_null", Rule::Only(b"OFF")),
    ("sql_big_selects", Rule::Replay),
    ("sql_log_bin", Rule::Only(b"ON")),
    ("sql_mode", Rule::Replay),
    ("sql_notes", Rule::Replay),
    ("sql_quote_show_create", Rule::Ignore),
    ("sql_safe_updates", Rule::Replay),
    ("sql_select_limit", Rule::Replay),
    ("sql_warnings", Rule::Ignore),
    ("time_zone", Rule::Replay),
    ("tmp_table_size", Rule::Replay),
    ("transaction_isolation", Rule::Replay),
    // A replica's connection only reads in any case.
    ("transaction_read_only", Rule::Ignore),
    ("tx_isolation", Rule::Replay),
    ("tx_read_only", Rule::Ignore),
    ("unique_checks", Rule::Ignore),
    ("wait_timeout", Rule::Ignore),
    ("windowing_use_high_precision", Rule::Replay),
];

/// Variables by which servers read a text.
const PARSING: [&str; 4] =
    ["character_set_client", "character_set_connection", "collation_connection", "sql_mode"];

/// Settings in the order in which they were last made.
#[derive(Debug, Default)]
pub(super) struct Replay {
    entries: Vec<Entry>,
    version: u64,
    parsing: u64,
}

#[derive(Debug)]
struct Entry {
    name: Vec<u8>,
    assignment: Vec<u8>,
    version: u64,
}

impl Replay {
    /// The number of the last setting. A connection that has said everything up to it is up to date.
    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    /// The number of the last setting that changed how texts are read.
    pub(super) const fn parsing(&self) -> u64 {
        self.parsing
    }

    /// One statement that makes the settings made after `version`, oldest first; `None` when there are none.
    pub(super) fn since(&self, version: u64) -> Option<Vec<u8>> {
        let mut new: Vec<_> = self.entries.iter().filter(|entry| entry.version > version).collect();
        // Setting a character set chooses its default collation, whatever was said of it before.
        new.sort_by_key(|entry| entry.name == b"collation_connection");
        let assignments: Vec<_> = new.iter().map(|entry| entry.assignment.as_slice()).collect();
        (!assignments.is_empty()).then(|| [b"SET SESSION ", assignments.join(&b", "[..]).as_slice()].concat())
    }

    /// A variable has a new value. False when a replica cannot be told, or it is not known what that means
    /// for reads.
    #[must_use]
    pub(super) fn variable(&mut self, name: &[u8], value: &[u8]) -> bool {
        let rule = RULES.binary_search_by(|(known, _)| known.as_bytes().cmp(name));
        match rule.ok().and_then(|at| RULES.get(at)) {
            Some((_, Rule::Ignore)) => true,
            Some((_, Rule::Only(only))) => value == *only,
            Some((_, Rule::Replay)) => {
                self.version += 1;
                if PARSING.iter().any(|parsing| parsing.as_bytes() == name) {
                    self.parsing = self.version;
                }
                self.entries.retain(|entry| entry.name != name);
                let assignment = assignment(name, value);
                self.entries.push(Entry { name: name.to_vec(), assignment, version: self.version });
                true
            }
            None => false,
        }
    }
}

/// `name = value`, as a number where it looks like one (numeric variables refuse strings), as NULL where
/// it is empty and the variable may be NULL, else as a string in hexadecimal, which no sql_mode and no
/// character set can misread.
fn assignment(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut statement = [name, b"="].concat();
    let is_number =
        !value.is_empty() && value.iter().all(|b| b.is_ascii_digit() || *b == b'.') && name != b"time_zone";
    if is_number {
        statement.extend_from_slice(value);
    } else if value.is_empty() && name == b"character_set_results" {
        statement.extend_from_slice(b"NULL");
    } else if value.is_empty() {
        statement.extend_from_slice(b"''");
    } else {
        statement.extend_from_slice(b"_utf8mb4 0x");
        for byte in value {
            for digit in [byte >> 4, byte & 0xF] {
                statement.extend(char::from_digit(digit.into(), 16).map(|digit| digit as u8));
            }
        }
    }
    statement
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_sorted_for_the_search() {
        assert!(RULES.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn settings_are_said_once_and_in_order() {
        let mut replay = Replay::default();
        assert_eq!(replay.since(0), None);
        assert!(replay.variable(b"sql_mode", b"ANSI"));
        assert!(replay.variable(b"sql_select_limit", b"7"));
        let seen = replay.version();
        assert!(replay.variable(b"sql_mode", b""));
        assert!(replay.variable(b"group_concat_max_len", b"1024"));
        assert!(replay.variable(b"autocommit", b"ON"));
        assert!(!replay.variable(b"rand_seed1", b"5"));
        let all = b"SET SESSION sql_select_limit=7, sql_mode='', group_concat_max_len=1024";
        assert_eq!(replay.since(0).as_deref(), Some(&all[..]));
        let later = b"SET SESSION sql_mode='', group_concat_max_len=1024";
        assert_eq!(replay.since(seen).as_deref(), Some(&later[..]));
        assert_eq!(replay.since(replay.version()), None);
    }

    #[test]
    fn a_collation_is_said_after_its_character_set() {
        let mut replay = Replay::default();
        assert!(replay.variable(b"collation_connection", b"latin1_bin"));
        assert!(replay.variable(b"character_set_connection", b"latin1"));
        let text = String::from_utf8(replay.since(0).unwrap()).unwrap();
        assert!(text.find("character_set_connection").unwrap() < text.find("collation_connection").unwrap());
    }

    #[test]
    fn some_settings_have_no_equal_on_a_replica() {
        let mut replay = Replay::default();
        assert!(replay.variable(b"sql_log_bin", b"ON"));
        assert!(!replay.variable(b"sql_log_bin", b"OFF"));
        assert!(!replay.variable(b"sql_auto_is_null", b"ON"));
        assert_eq!(replay.version(), 0);
    }

    #[test]
    fn values_cannot_break_out() {
        assert_eq!(assignment(b"time_zone", b"a'b"), b"time_zone=_utf8mb4 0x612762");
        assert_eq!(assignment(b"character_set_results", b""), b"character_set_results=NULL");
        assert_eq!(
            assignment(b"sql_select_limit", b"18446744073709551615"),
            b"sql_select_limit=18446744073709551615"
        );
    }
}
