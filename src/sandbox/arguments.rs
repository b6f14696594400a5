//! The command line of a server. Option files are never read, so a sandbox is the same on every machine.

use std::ffi::OsString;
use std::path::Path;

use super::process::Spec;
use super::program::{Flavor, Version};
use super::server::Role;

/// What every call of a server program starts with.
pub(super) fn first() -> Vec<OsString> {
    vec!["--no-defaults".into()]
}

/// Where the data is and how it is laid out: the same while initialising and while running.
pub(super) fn storage(spec: &Spec) -> Vec<OsString> {
    // A starting server removes what others left in its directory for temporary files, so each has its own.
    let mut arguments =
        vec![with_path("--datadir=", &spec.data()), with_path("--tmpdir=", &spec.temporary())];
    if rustix::process::geteuid().is_root() {
        // Servers refuse to run as root unless told to. MariaDB's set-up script takes `--user` to itself and
        // then changes owners in the plugin directory; `-u` it leaves to the server.
        arguments.push("-uroot".into());
    }
    let redo = match (spec.program.flavor, spec.program.version) {
        (Flavor::MySql, version) if version >= Version(8, 0, 30) => "--innodb-redo-log-capacity=64M",
        // Two files of this size in older MySQL, one in MariaDB.
        _ => "--innodb-log-file-size=32M",
    };
    arguments.push(redo.into());
    arguments
}

/// Everything that a running server is told.
pub(super) fn running(spec: &Spec) -> Vec<OsString> {
    let mut arguments = first();
    arguments.extend(storage(spec));
    arguments.extend([
        with_path("--secure-file-priv=", &spec.temporary()),
        with_path("--socket=", &spec.socket()),
        with_path("--pid-file=", &spec.pid_file()),
        with_path("--log-error=", &spec.log()),
        format!("--port={}", spec.port).into(),
        format!("--server-id={}", spec.role.server_id()).into(),
    ]);
    arguments.extend(COMMON.iter().map(OsString::from));
    let flavored = match spec.program.flavor {
        Flavor::MySql => MYSQL,
        Flavor::MariaDb => MARIADB,
    };
    arguments.extend(flavored.iter().map(OsString::from));
    let role = match (spec.role, spec.program.flavor) {
        (Role::Primary, _) => PRIMARY,
        (Role::Replica, Flavor::MySql) => MYSQL_REPLICA,
        (Role::Replica, Flavor::MariaDb) => MARIADB_REPLICA,
    };
    arguments.extend(role.iter().map(OsString::from));
    arguments.extend(spec.arguments.iter().map(OsString::from));
    arguments
}

fn with_path(option: &str, path: &Path) -> OsString {
    let mut argument = OsString::from(option);
    argument.push(path);
    argument
}

/// Both flavors, both roles. Without name resolution a client from 127.0.0.1 is not `localhost`, so `root`,
/// which has no password, can come only through the socket in this user's own directory.
const COMMON: &[&str] = &[
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--max-connections=600",
    "--innodb-buffer-pool-size=128M",
    "--character-set-server=utf8mb4",
    // As in the newest servers, and what older MySQL and MariaDB would refuse an application.
    "--max-allowed-packet=64M",
    "--local-infile=ON",
];

const MYSQL: &[&str] = &["--mysqlx=OFF", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"];

const MARIADB: &[&str] = &["--binlog-format=ROW", "--gtid-strict-mode=ON"];

/// Full durability: a commit that was answered is on the disk, in the redo log and in the binlog.
const PRIMARY: &[&str] =
    &["--log-bin=binlog", "--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1", "--innodb-doublewrite=ON"];

/// A replica in memory: nothing of it survives the machine anyway, so nothing is flushed, and it writes no
/// binlog (its position is kept in a table). It applies in commit order, which is MySQL's default.
const MYSQL_REPLICA: &[&str] = &[
    "--skip-log-bin",
    "--relay-log=relay",
    "--read-only=ON",
    "--super-read-only=ON",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=OFF",
    // A row that MyISAM adds while others read is seen only when the writer's lock is gone, and that is after its
    // GTID counts as executed.
    "--concurrent-insert=NEVER",
];

/// As [`MYSQL_REPLICA`]; MariaDB's only `read_only` holds for all but administrators.
const MARIADB_REPLICA: &[&str] = &[
    "--skip-log-bin",
    "--relay-log=relay",
    "--read-only=ON",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=OFF",
    "--concurrent-insert=NEVER",
];
