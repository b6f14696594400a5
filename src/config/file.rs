//! The configuration file: raw TOML, then every fault at once, then a [`Config`].

use std::{
    net::{SocketAddr, ToSocketAddrs},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;
use zeroize::Zeroizing;

use super::{Account, Backend, BackendTls, ClientTls, Config, Consistency, RouteMode, Scope, StaticAccount};

/// Why a configuration file is of no use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("{path}: {error}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// It is not TOML, or has keys or types that there are not.
    #[error("{path}: {error}")]
    Syntax {
        /// The file.
        path: String,
        /// Where and why.
        #[source]
        error: Box<toml::de::Error>,
    },
    /// Values are wrong: one line a fault, with its key path.
    #[error("{path}:\n  {}", faults.join("\n  "))]
    Faults {
        /// The file.
        path: String,
        /// What is wrong.
        faults: Vec<String>,
    },
}

/// Reads and checks a configuration file.
///
/// # Errors
/// When it cannot be read, or with every fault in it.
pub fn load(path: &Path) -> Result<Config, Error> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| Error::Read { path: name.clone(), error })?;
    let mut config = parse(&text, &name)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    config.rules = config.rules.map(|rules| folder.join(rules));
    Ok(config)
}

/// Checks the text of a configuration file called `name`.
///
/// # Errors
/// With every fault in it.
pub fn parse(text: &str, name: &str) -> Result<Config, Error> {
    let path = name.to_owned();
    let raw: Raw = match toml::from_str(text) {
        Ok(raw) => raw,
        Err(error) => return Err(Error::Syntax { path, error: Box::new(error) }),
    };
    let mut faults = Faults::default();
    let config = raw.check(&mut faults);
    match config {
        Some(config) if faults.0.is_empty() => Ok(config),
        _ => Err(Error::Faults { path, faults: faults.0 }),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    listen: String,
    http: Option<String>,
    #[serde(default)]
    route: Route,
    consistency: Option<String>,
    scope: Option<String>,
    wait_ms: Option<u64>,
    rules: Option<PathBuf>,
    max_connections: Option<usize>,
    max_prepared_statements: Option<usize>,
    login_timeout_ms: Option<u64>,
    write_timeout_ms: Option<u64>,
    shutdown_grace_ms: Option<u64>,
    #[serde(default)]
    tls: RawTls,
    primary: RawServer,
    replica: Option<RawServer>,
    #[serde(default)]
    backend: RawBackend,
    monitor: Option<RawAccount>,
    #[serde(default)]
    account: Vec<RawStatic>,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Route {
    #[default]
    Auto,
    Primary,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawTls {
    enabled: Option<bool>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawServer {
    address: String,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawBackend {
    #[serde(default)]
    tls: RawBackendTls,
    authorities: Option<PathBuf>,
    connect_timeout_ms: Option<u64>,
    max_lag_ms: Option<u64>,
    probe_interval_ms: Option<u64>,
    probe_timeout_ms: Option<u64>,
    unknown_position_hold_ms: Option<u64>,
}

#[derive(Deserialize, Default, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum RawBackendTls {
    Off,
    #[default]
    AsClient,
    Required,
    Verify,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAccount {
    user: String,
    password: Option<String>,
    password_env: Option<String>,
    password_file: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStatic {
    user: String,
    password: Option<String>,
    password_env: Option<String>,
    password_file: Option<PathBuf>,
    backend: Option<RawAccount>,
}

/// What is wrong, each with its key path.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn add(&mut self, key: &str, what: impl std::fmt::Display) {
        self.0.push(format!("{key}: {what}"));
    }

    fn take<T, E: std::fmt::Display>(&mut self, key: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.add(key, error)).ok()
    }
}

impl Raw {
    /// Every part is checked before any is missed, so that all faults are found.
    fn check(self, faults: &mut Faults) -> Option<Config> {
        let listen = socket(faults, "listen", &self.listen);
        let http = self.http.as_deref().map(|text| socket(faults, "http", text));
        let primary = server(faults, "primary", "primary", &self.primary);
        let replica = self.replica.as_ref().map(|raw| server(faults, "replica", "replica", raw));
        let monitor = self.monitor.map(|raw| raw.check(faults, "monitor"));
        if replica.is_some() && monitor.is_none() {
            faults.add("monitor", "needed to watch the replica; without it no reads leave the primary");
        }
        let accounts: Vec<_> =
            self.account.into_iter().enumerate().map(|(at, raw)| raw.check(faults, at)).collect();
        let client_tls = self.tls.check(faults);
        let backend_tls = self.backend.tls(faults);
        let consistency = self.consistency.map(|text| {
            let read = Consistency::parse(&text);
            faults.take(
                "consistency",
                read.ok_or_else(|| format!("'{text}' is none of {}", Consistency::NAMES)),
            )
        });
        let scope = self.scope.map(|text| {
            let read = Scope::parse(&text);
            faults.take("scope", read.ok_or_else(|| format!("'{text}' is none of {}", Scope::NAMES)))
        });
        let defaults = Config::new(listen?, primary?);
        let mut time = |key: &str, value: Option<u64>, default: Duration| time(faults, key, value, default);
        let config = Config {
            http: http.unwrap_or_default(),
            route: match self.route {
                Route::Auto => RouteMode::Auto,
                Route::Primary => RouteMode::Primary,
            },
            consistency: consistency.unwrap_or(Some(defaults.consistency))?,
            scope: scope.unwrap_or(Some(defaults.scope))?,
            wait: match self.wait_ms {
                Some(0) => Duration::ZERO,
                wait => time("wait_ms", wait, defaults.wait),
            },
            rules: self.rules,
            replicas: replica.flatten().into_iter().collect(),
            monitor: monitor.flatten(),
            accounts: accounts.into_iter().flatten().collect(),
            client_tls: client_tls?,
            backend_tls: backend_tls?,
            max_connections: self.max_connections.unwrap_or(defaults.max_connections),
            max_prepared_statements: self.max_prepared_statements.unwrap_or(defaults.max_prepared_statements),
            login_timeout: time("login_timeout_ms", self.login_timeout_ms, defaults.login_timeout),
            write_timeout: time("write_timeout_ms", self.write_timeout_ms, defaults.write_timeout),
            shutdown_grace: time("shutdown_grace_ms", self.shutdown_grace_ms, defaults.shutdown_grace),
            connect_timeout: time(
                "backend.connect_timeout_ms",
                self.backend.connect_timeout_ms,
                defaults.connect_timeout,
            ),
            max_lag: time("backend.max_lag_ms", self.backend.max_lag_ms, defaults.max_lag),
            probe_interval: time(
                "backend.probe_interval_ms",
                self.backend.probe_interval_ms,
                defaults.probe_interval,
            ),
            probe_timeout: time(
                "backend.probe_timeout_ms",
                self.backend.probe_timeout_ms,
                defaults.probe_timeout,
            ),
            unknown_position_hold: time(
                "backend.unknown_position_hold_ms",
                self.backend.unknown_position_hold_ms,
                defaults.unknown_position_hold,
            ),
            ..defaults
        };
        Some(config)
    }
}

/// Times are from 1 ms to one day.
fn time(faults: &mut Faults, key: &str, value: Option<u64>, default: Duration) -> Duration {
    const DAY: u64 = 86_400_000;
    match value {
        Some(ms @ 1..=DAY) => Duration::from_millis(ms),
        Some(ms) => {
            faults.add(key, format_args!("{ms} is not between 1 and {DAY}"));
            default
        }
        None => default,
    }
}

fn socket(faults: &mut Faults, key: &str, text: &str) -> Option<SocketAddr> {
    let resolved = text
        .to_socket_addrs()
        .map_err(|error| format!("'{text}' is no address to listen on, such as 127.0.0.1:6033 ({error})"))
        .and_then(|mut found| found.next().ok_or_else(|| format!("'{text}' resolves to no address")));
    faults.take(key, resolved)
}

fn server(faults: &mut Faults, key: &str, name: &str, raw: &RawServer) -> Option<Backend> {
    let backend = Backend { name: name.to_owned(), address: raw.address.clone() };
    let named =
        raw.address.rsplit_once(':').filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if named.is_none() {
        faults.add(&format!("{key}.address"), format_args!("'{}' is not host:port", raw.address));
        return None;
    }
    Some(backend)
}

impl RawTls {
    fn check(self, faults: &mut Faults) -> Option<ClientTls> {
        match (self.enabled.unwrap_or(true), self.certificate, self.key) {
            (false, None, None) => Some(ClientTls::Off),
            (false, ..) => {
                faults.add("tls.enabled", "is false although a certificate or key is given");
                None
            }
            (true, None, None) => Some(ClientTls::Generated),
            (true, Some(certificate), Some(key)) => Some(ClientTls::Files { certificate, key }),
            (true, ..) => {
                faults.add("tls", "certificate and key belong together");
                None
            }
        }
    }
}

impl RawBackend {
    fn tls(&self, faults: &mut Faults) -> Option<BackendTls> {
        match (self.tls, self.authorities.clone()) {
            (RawBackendTls::Verify, Some(authorities)) => Some(BackendTls::Verify { authorities }),
            (RawBackendTls::Verify, None) => {
                faults.add("backend.authorities", "needed by backend.tls = \"verify\"");
                None
            }
            (_, Some(_)) => {
                faults.add("backend.authorities", "used only by backend.tls = \"verify\"");
                None
            }
            (RawBackendTls::Off, None) => Some(BackendTls::Off),
            (RawBackendTls::AsClient, None) => Some(BackendTls::AsClient),
            (RawBackendTls::Required, None) => Some(BackendTls::Required),
        }
    }
}

impl RawAccount {
    fn check(self, faults: &mut Faults, key: &str) -> Option<Account> {
        let given = [self.password.is_some(), self.password_env.is_some(), self.password_file.is_some()];
        if given.into_iter().filter(|given| *given).count() != 1 {
            faults.add(key, "give one of password, password_env and password_file");
            return None;
        }
        let password = match (self.password, self.password_env, self.password_file) {
            (Some(password), ..) => Some(password),
            (_, Some(variable), _) => {
                let value = std::env::var(&variable).map_err(|error| format!("{variable}: {error}"));
                faults.take(&format!("{key}.password_env"), value)
            }
            (_, _, Some(file)) => {
                let text =
                    std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()));
                let text = faults.take(&format!("{key}.password_file"), text);
                text.map(|text| text.trim_end_matches(['\r', '\n']).to_owned())
            }
            (None, None, None) => None,
        };
        Some(Account { user: self.user, password: Zeroizing::new(password?) })
    }
}

impl RawStatic {
    fn check(self, faults: &mut Faults, at: usize) -> Option<StaticAccount> {
        let key = format!("account[{at}]");
        let client = RawAccount {
            user: self.user,
            password: self.password,
            password_env: self.password_env,
            password_file: self.password_file,
        }
        .check(faults, &key);
        let backend = match self.backend {
            Some(raw) => raw.check(faults, &format!("{key}.backend")),
            None => client.clone(),
        };
        Some(StaticAccount { client: client?, backend: backend? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = "listen = '127.0.0.1:6033'\n[primary]\naddress = '127.0.0.1:3306'\n";

    #[test]
    fn a_minimal_file_gets_the_defaults() {
        let config = parse(MINIMAL, "x").unwrap();
        assert_eq!(config.listen.port(), 6033);
        assert_eq!(config.primary.address, "127.0.0.1:3306");
        assert_eq!(config.client_tls, ClientTls::Generated);
        assert_eq!(config.max_lag, Duration::from_secs(5));
    }

    #[test]
    fn every_fault_is_named_at_once() {
        let text = "listen = 'nowhere'\nscope = 'x'\nlogin_timeout_ms = 0\n[primary]\naddress = 'x'\n[replica]\naddress = 'y'\n\
                    [tls]\ncertificate = 'c'\n[backend]\ntls = 'verify'\n[[account]]\nuser = 'u'\n";
        let Err(Error::Faults { faults, .. }) = parse(text, "x") else { panic!("no faults") };
        for key in [
            "listen:",
            "scope:",
            "primary.address:",
            "replica.address:",
            "monitor:",
            "tls:",
            "backend.authorities:",
            "account[0]:",
        ] {
            assert!(faults.iter().any(|fault| fault.starts_with(key)), "{key} is not in {faults:?}");
        }
    }

    #[test]
    fn unknown_keys_are_refused() {
        let text = format!("{MINIMAL}lisen = 1\n");
        assert!(matches!(parse(&text, "x"), Err(Error::Syntax { .. })));
    }

    #[test]
    fn passwords_come_from_one_place_and_are_not_shown() {
        let text = format!("{MINIMAL}[monitor]\nuser = 'm'\npassword = 'hidden'\n");
        let config = parse(&text, "x").unwrap();
        assert_eq!(config.monitor.as_ref().unwrap().password.as_str(), "hidden");
        assert!(!format!("{config:?}").contains("hidden"));
        let both = format!("{MINIMAL}[monitor]\nuser = 'm'\npassword = 'a'\npassword_env = 'B'\n");
        assert!(matches!(parse(&both, "x"), Err(Error::Faults { .. })));
    }

    #[test]
    fn the_example_files_are_valid() {
        for name in ["ramsplit.toml", "minimal.toml"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config").join(name);
            let text = std::fs::read_to_string(&path).unwrap();
            parse(&text, name).unwrap();
        }
    }
}
