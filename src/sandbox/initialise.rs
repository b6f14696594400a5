//! A new data directory, as the server's own programs make it.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::arguments;
use super::error::Error;
use super::process::{Spec, last_lines};
use super::program::{Flavor, Program, find_executables};

/// Makes the data directory of `spec`. Both programs create an administrator `root` without a password,
/// who comes through the unix socket only, see [`arguments`].
pub(super) async fn initialise(spec: &Spec) -> Result<(), Error> {
    let (program, arguments) = match spec.program.flavor {
        Flavor::MySql => (spec.program.path.clone(), mysql(spec)),
        Flavor::MariaDb => (installer(&spec.program)?, mariadb(spec)),
    };
    let cannot = || Error::io(format!("cannot run {}", program.display()));
    let log_file = spec.directory.join("initialise.log");
    let log = File::create(&log_file).map_err(cannot())?;
    let status = Command::new(&program)
        .args(arguments)
        .env("MYSQLD_BOOTSTRAP", &spec.program.path)
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(cannot())?)
        .stderr(log)
        .process_group(spec.group.as_raw_nonzero().get())
        .status()
        .await
        .map_err(cannot())?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Ended { what: program.display().to_string(), status, log: last_lines(&log_file) })
}

/// Copies a data directory whose server does not run. The identity of a MySQL server is left out, so that
/// the copy gets one of its own.
pub(super) fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else if entry.file_name() != "auto.cnf" {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn mysql(spec: &Spec) -> Vec<OsString> {
    let mut arguments = arguments::first();
    arguments.push("--initialize-insecure".into());
    arguments.extend(arguments::storage(spec));
    arguments
}

fn mariadb(spec: &Spec) -> Vec<OsString> {
    let mut arguments = arguments::first();
    arguments.extend(["--auth-root-authentication-method=normal", "--skip-test-db"].map(OsString::from));
    arguments.extend(arguments::storage(spec));
    arguments
}

/// MariaDB's script: beside the server, in the `bin` or `scripts` next to it, or on PATH. It runs the server
/// in `MYSQLD_BOOTSTRAP`.
fn installer(program: &Program) -> Result<PathBuf, Error> {
    let beside = program.path.parent().unwrap_or(Path::new("/"));
    let near = [beside.to_owned(), beside.join("../bin"), beside.join("../scripts")];
    ["mariadb-install-db", "mysql_install_db"]
        .into_iter()
        .find_map(|name| find_executables(name, &near).into_iter().next())
        .ok_or_else(|| Error::NoInstaller(program.path.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_every_file_but_the_servers_identity() {
        let base = tempfile::tempdir().unwrap();
        let (from, to) = (base.path().join("from"), base.path().join("to"));
        std::fs::create_dir_all(from.join("mysql/deep")).unwrap();
        std::fs::write(from.join("ibdata1"), "pages").unwrap();
        std::fs::write(from.join("mysql/deep/table"), "rows").unwrap();
        std::fs::write(from.join("auto.cnf"), "uuid").unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(std::fs::read(to.join("ibdata1")).unwrap(), b"pages");
        assert_eq!(std::fs::read(to.join("mysql/deep/table")).unwrap(), b"rows");
        assert!(!to.join("auto.cnf").exists());
    }
}
