//! Which server program there is, of which flavor and version.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use rustix::fs::{Access, access};

use super::error::Error;

/// The two families of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavor {
    /// MySQL and servers that call themselves compatible (Percona Server).
    MySql,
    /// MariaDB.
    MariaDb,
}

impl Flavor {
    /// The oldest version that ramsplit supports.
    pub const fn oldest(self) -> Version {
        match self {
            Self::MySql => Version(8, 0, 0),
            Self::MariaDb => Version(10, 6, 0),
        }
    }

    /// The word for it in options and environment variables: `mysql` or `mariadb`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::MySql => "mysql",
            Self::MariaDb => "mariadb",
        }
    }
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MySql => "MySQL",
            Self::MariaDb => "MariaDB",
        })
    }
}

impl FromStr for Flavor {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        [Self::MySql, Self::MariaDb]
            .into_iter()
            .find(|flavor| flavor.word() == word)
            .ok_or_else(|| "mysql or mariadb is expected".to_owned())
    }
}

/// A server version: major, minor, patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u16, pub u16, pub u16);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// A server program, which may be a script that runs one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub flavor: Flavor,
    /// Its version.
    pub version: Version,
}

impl Program {
    /// Finds a server: the one at `path`, or the first that will do among `mysqld` and `mariadbd` on `PATH`
    /// and in `/usr/sbin`. With a `flavor` only that one will do.
    ///
    /// # Errors
    /// When there is none, or none that is new enough.
    pub fn find(flavor: Option<Flavor>, path: Option<&Path>) -> Result<Self, Error> {
        if let Some(path) = path {
            return Self::at(path)?.checked(flavor);
        }
        let mut refused = None;
        for path in candidates() {
            match Self::at(&path).and_then(|program| program.checked(flavor)) {
                Ok(program) => return Ok(program),
                Err(Error::WrongFlavor { .. }) => {}
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or(Error::NoProgram(flavor)))
    }

    /// Asks the program at `path` what it is.
    fn at(path: &Path) -> Result<Self, Error> {
        let output = Command::new(path)
            .arg("--version")
            .output()
            .map_err(Error::io(format!("cannot run {} --version", path.display())))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let (flavor, version) = parse_version(&text)
            .ok_or_else(|| Error::NotAServer { path: path.to_owned(), output: text.trim().to_owned() })?;
        Ok(Self { path: path.to_owned(), flavor, version })
    }

    fn checked(self, wanted: Option<Flavor>) -> Result<Self, Error> {
        match wanted {
            Some(wanted) if wanted != self.flavor => {
                Err(Error::WrongFlavor { path: self.path, found: self.flavor, wanted })
            }
            _ if self.version < self.flavor.oldest() => {
                Err(Error::TooOld { path: self.path, flavor: self.flavor, version: self.version })
            }
            _ => Ok(self),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.flavor, self.version, self.path.display())
    }
}

/// The first executable file called `name` in `first`, then on `PATH`, then in `/usr/sbin`, where servers
/// are although it is on few users' `PATH`.
pub(super) fn find_executables(name: &str, first: &[PathBuf]) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    first
        .iter()
        .cloned()
        .chain(std::env::split_paths(&path))
        .chain([PathBuf::from("/usr/sbin")])
        .map(|directory| directory.join(name))
        .filter(|file| file.is_file() && access(file, Access::EXEC_OK).is_ok())
        .collect()
}

fn candidates() -> impl Iterator<Item = PathBuf> {
    ["mysqld", "mariadbd"].into_iter().flat_map(|name| find_executables(name, &[]))
}

/// Flavor and version from what `--version` prints, for example
/// `mariadbd  Ver 10.11.6-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)`. The name in front
/// says nothing: MariaDB installs a link called `mysqld`, and scripts print what they like.
fn parse_version(text: &str) -> Option<(Flavor, Version)> {
    let mut words = text.split_whitespace().skip_while(|word| *word != "Ver").skip(1);
    let word = words.next()?;
    let numbers = word.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
    let mut numbers = numbers.split('.').map(str::parse::<u16>);
    let mut next = || numbers.next()?.ok();
    let version = Version(next()?, next()?, next()?);
    let flavor = if word.contains("MariaDB") { Flavor::MariaDb } else { Flavor::MySql };
    Some((flavor, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_servers_print_them() {
        let cases = [
            (
                "mariadbd  Ver 10.11.6-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)",
                (Flavor::MariaDb, Version(10, 11, 6)),
            ),
            ("mysqld  Ver 10.5.23-MariaDB for Linux on x86_64", (Flavor::MariaDb, Version(10, 5, 23))),
            (
                "/usr/sbin/mysqld  Ver 8.0.36-0ubuntu0.22.04.1 for Linux on x86_64 ((Ubuntu))",
                (Flavor::MySql, Version(8, 0, 36)),
            ),
            (
                "/usr/sbin/mariadbd  Ver 9.7.4-2 for Linux on x86_64 ((Debian))",
                (Flavor::MySql, Version(9, 7, 4)),
            ),
            (
                "mysqld  Ver 8.0.36-28 for Linux on x86_64 (Percona Server (GPL), Release 28, Revision 1)",
                (Flavor::MySql, Version(8, 0, 36)),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_version(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_programs_are_no_servers() {
        for text in ["", "Ver", "sh 5.2", "Ver 8.0", "Ver x.y.z", "Ver 99999.0.1"] {
            assert_eq!(parse_version(text), None, "{text}");
        }
    }

    #[test]
    fn old_servers_are_refused_with_both_versions() {
        let old = |flavor, version| Program { path: "/x/mysqld".into(), flavor, version };
        let text = old(Flavor::MySql, Version(5, 7, 44)).checked(None).unwrap_err().to_string();
        assert!(text.contains("MySQL 5.7.44") && text.contains("8.0.0 or newer"), "{text}");
        let text = old(Flavor::MariaDb, Version(10, 5, 29)).checked(None).unwrap_err().to_string();
        assert!(text.contains("MariaDB 10.5.29") && text.contains("10.6.0 or newer"), "{text}");
        assert!(old(Flavor::MariaDb, Version(10, 6, 0)).checked(Some(Flavor::MariaDb)).is_ok());
        assert!(matches!(
            old(Flavor::MariaDb, Version(11, 4, 2)).checked(Some(Flavor::MySql)),
            Err(Error::WrongFlavor { .. })
        ));
    }
}
