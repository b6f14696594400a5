//! The command of `--exec`: its environment, its end, its exit status.

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::{Child, Command};

use super::Signals;
use crate::config::Account;
use crate::sandbox::Sandbox;

/// Where the proxy is.
pub(super) struct Addresses {
    pub(super) proxy: SocketAddr,
    pub(super) http: SocketAddr,
}

/// The variables that the command gets: `RAMSPLIT_URL` and its parts for the proxy, the same with `PRIMARY_`
/// and `REPLICA_` for the servers themselves, the HTTP endpoint, and the flavor of the servers.
pub(super) fn environment(sandbox: &Sandbox, addresses: &Addresses) -> Vec<(String, String)> {
    let account = sandbox.application();
    let mut variables = vec![
        ("RAMSPLIT_HTTP".to_owned(), format!("http://{}", addresses.http)),
        ("RAMSPLIT_FLAVOR".to_owned(), sandbox.primary().program().flavor.word().to_owned()),
        ("RAMSPLIT_DATABASE".to_owned(), Sandbox::SCHEMA.to_owned()),
    ];
    variables.extend(variables_of("", addresses.proxy, account));
    variables.extend(variables_of("PRIMARY_", sandbox.primary().address(), account));
    variables.extend(variables_of("REPLICA_", sandbox.replica().address(), account));
    variables
}

/// Runs `text` by `sh -c` and answers with its exit status: its own code, 128 + n when signal n ended it,
/// 124 when `limit` did (as timeout(1) has it).
///
/// On a terminal the command shares our process group, so that it may use the terminal, and a Ctrl-C is its
/// business. Elsewhere it gets a group of its own, all of which is ended by SIGTERM and Ctrl-C.
pub(super) async fn run(
    text: &str,
    environment: Vec<(String, String)>,
    signals: &mut Signals,
    limit: Duration,
) -> io::Result<ExitCode> {
    let interactive = io::stdin().is_terminal();
    let mut command = Command::new("sh");
    command.arg("-c").arg(text).envs(environment).kill_on_drop(true);
    if !interactive {
        command.process_group(0);
    }
    let mut child = command.spawn()?;
    let ended = async { if interactive { signals.terminated().await } else { signals.end().await } };
    let timed_out = tokio::select! {
        status = child.wait() => return status.map(code),
        () = ended => false,
        () = tokio::time::sleep(limit) => true,
    };
    let status = end(&mut child, !interactive).await?;
    Ok(if timed_out { ExitCode::from(TIMED_OUT) } else { code(status) })
}

/// Ends the command, or with `group` the whole group that it leads: SIGTERM, and SIGKILL after a while.
async fn end(child: &mut Child, group: bool) -> io::Result<ExitStatus> {
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    for signal in [Signal::TERM, Signal::KILL] {
        if let Some(pid) = pid {
            // Not waited for yet, so the number is still the command's; it may be gone all the same.
            let _ = if group { kill_process_group(pid, signal) } else { kill_process(pid, signal) };
        }
        if let Ok(status) = tokio::time::timeout(END_LIMIT, child.wait()).await {
            return status;
        }
    }
    child.wait().await
}

fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn variables_of(prefix: &str, address: SocketAddr, account: &Account) -> [(String, String); 5] {
    let (user, password) = (&account.user, account.password.as_str());
    [
        ("URL", format!("mysql://{user}:{password}@{address}/{}", Sandbox::SCHEMA)),
        ("HOST", address.ip().to_string()),
        ("PORT", address.port().to_string()),
        ("USER", user.clone()),
        ("PASSWORD", password.to_owned()),
    ]
    .map(|(name, value)| (format!("RAMSPLIT_{prefix}{name}"), value))
}

/// The exit code after `--seconds` has ended the command.
const TIMED_OUT: u8 = 124;

/// How long the command may take to end after SIGTERM.
const END_LIMIT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use zeroize::Zeroizing;

    #[test]
    fn parts_of_an_address() {
        let account = Account { user: "app".to_owned(), password: Zeroizing::new("s3cret".to_owned()) };
        let variables = variables_of("REPLICA_", "127.0.0.1:21000".parse().unwrap(), &account);
        let expected = [
            ("RAMSPLIT_REPLICA_URL", "mysql://app:s3cret@127.0.0.1:21000/demo"),
            ("RAMSPLIT_REPLICA_HOST", "127.0.0.1"),
            ("RAMSPLIT_REPLICA_PORT", "21000"),
            ("RAMSPLIT_REPLICA_USER", "app"),
            ("RAMSPLIT_REPLICA_PASSWORD", "s3cret"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(variables, expected);
    }

    #[test]
    fn exit_codes_as_a_shell_has_them() {
        let exit = |code: i32| ExitStatus::from_raw(code << 8);
        assert_eq!(code(exit(0)), ExitCode::SUCCESS);
        assert_eq!(code(exit(3)), ExitCode::from(3));
        assert_eq!(code(ExitStatus::from_raw(15)), ExitCode::from(143));
    }
}
