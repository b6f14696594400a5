//! Capability flags and the sets of them that the script runs with.
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/group__group__cs__capabilities__flags.html>

pub(super) const LONG_PASSWORD: u64 = 1; // in MariaDB CLIENT_MYSQL: its own flags are in use when it is off
const FOUND_ROWS: u64 = 1 << 1;
const LONG_FLAG: u64 = 1 << 2;
pub(super) const CONNECT_WITH_DB: u64 = 1 << 3;
const LOCAL_FILES: u64 = 1 << 7;
const IGNORE_SPACE: u64 = 1 << 8;
const PROTOCOL_41: u64 = 1 << 9;
const INTERACTIVE: u64 = 1 << 10;
const TRANSACTIONS: u64 = 1 << 13;
const SECURE_CONNECTION: u64 = 1 << 15;
const MULTI_STATEMENTS: u64 = 1 << 16;
const MULTI_RESULTS: u64 = 1 << 17;
const PS_MULTI_RESULTS: u64 = 1 << 18;
const PLUGIN_AUTH: u64 = 1 << 19;
pub(super) const CONNECT_ATTRS: u64 = 1 << 20;
const PLUGIN_AUTH_LENENC_CLIENT_DATA: u64 = 1 << 21;
pub(super) const SESSION_TRACK: u64 = 1 << 23;
pub(super) const DEPRECATE_EOF: u64 = 1 << 24;
const OPTIONAL_RESULTSET_METADATA: u64 = 1 << 25;
pub(super) const QUERY_ATTRIBUTES: u64 = 1 << 27;
const MARIADB_BULK: u64 = 1 << 34;
const MARIADB_EXTENDED_METADATA: u64 = 1 << 35;
const MARIADB_CACHE_METADATA: u64 = 1 << 36;

const BASE: u64 = LONG_FLAG
    | PROTOCOL_41
    | TRANSACTIONS
    | SECURE_CONNECTION
    | PLUGIN_AUTH
    | PLUGIN_AUTH_LENENC_CLIENT_DATA
    | CONNECT_WITH_DB;
const MULTI: u64 = MULTI_STATEMENTS | MULTI_RESULTS | PS_MULTI_RESULTS;

/// Names and flags; flags that the server does not offer are left out when it is asked.
pub(super) const SETS: [(&str, u64); 4] = [
    ("classic", BASE | LONG_PASSWORD | MULTI | LOCAL_FILES | CONNECT_ATTRS),
    ("plain", BASE | LONG_PASSWORD | FOUND_ROWS | IGNORE_SPACE | INTERACTIVE),
    (
        "modern",
        BASE | LONG_PASSWORD
            | MULTI
            | LOCAL_FILES
            | CONNECT_ATTRS
            | SESSION_TRACK
            | DEPRECATE_EOF
            | QUERY_ATTRIBUTES,
    ),
    (
        // Without LONG_PASSWORD, which is CLIENT_MYSQL to MariaDB and would turn its own flags off.
        "optional metadata",
        BASE | MULTI
            | LOCAL_FILES
            | DEPRECATE_EOF
            | SESSION_TRACK
            | OPTIONAL_RESULTSET_METADATA
            | MARIADB_BULK
            | MARIADB_EXTENDED_METADATA
            | MARIADB_CACHE_METADATA,
    ),
];
