//! Where the files of a sandbox are, and the promise that they go away.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::accounts::random_word;
use super::error::Error;
use super::guard::Guard;
use super::memory::is_in_memory;
use super::server::{Role, Server};
use super::{Options, Program};

/// The directories of a sandbox and the guard that removes them.
#[derive(Debug)]
pub(super) struct Ground {
    guard: Guard,
    program: Program,
    arguments: Vec<String>,
    directory: PathBuf,
    memory: Option<PathBuf>,
}

impl Ground {
    /// Chooses the directory on disk, starts the guard, then makes the directories, for this user only.
    pub(super) async fn prepare(options: &Options, memory: Option<&Path>) -> Result<Self, Error> {
        let directory = disk_directory(options.directory.as_deref())?;
        let memory = memory.map(Path::to_owned);
        let directories: Vec<PathBuf> =
            [Some(&directory), memory.as_ref()].into_iter().flatten().cloned().collect();
        let (binary, guarded) = (options.guard.clone(), directories.clone());
        let guard = blocking(move || Guard::start(&binary, &guarded)).await?;
        for directory in &directories {
            make(directory)?;
        }
        let (program, arguments) = (options.program.clone(), options.arguments.clone());
        Ok(Self { guard, program, arguments, directory, memory })
    }

    /// A server that is not set up yet, with a directory of its own.
    pub(super) fn server(&self, role: Role) -> Result<Server, Error> {
        let parent = match (role, &self.memory) {
            (Role::Replica, Some(memory)) => memory,
            _ => &self.directory,
        };
        let directory = parent.join(role.word());
        make(&directory)?;
        Server::new(self.program.clone(), role, directory, self.arguments.clone(), self.guard.group())
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Kills what still runs, removes the files, and makes sure of it.
    pub(super) async fn sweep(self) -> Result<(), Error> {
        let Self { guard, directory, memory, .. } = self;
        blocking(move || {
            drop(guard);
            Ok(())
        })
        .await?;
        match [Some(directory), memory].into_iter().flatten().find(|directory| directory.exists()) {
            Some(left) => Err(Error::LeftBehind(left)),
            None => Ok(()),
        }
    }
}

/// Runs `work` where it may wait.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Error::io("a worker thread")(error.into())),
    }
}

/// A directory on a disk that is not there yet: the given one, or one inside it when it is there and empty,
/// or one in the first usual place that is not in memory.
fn disk_directory(given: Option<&Path>) -> Result<PathBuf, Error> {
    let Some(given) = given else {
        let places = [std::env::temp_dir(), PathBuf::from("/var/tmp")];
        let on_disk = places.iter().find(|place| is_in_memory(place).is_ok_and(|in_memory| !in_memory));
        let [temporary, _] = &places;
        return fresh_in(on_disk.ok_or_else(|| Error::NotADisk(temporary.clone()))?);
    };
    let given = std::path::absolute(given).map_err(Error::io(given.display().to_string()))?;
    let exists = given.exists();
    let on = if exists { given.as_path() } else { given.parent().unwrap_or(&given) };
    if is_in_memory(on)? {
        return Err(Error::NotADisk(given));
    }
    if !exists {
        return Ok(given);
    }
    let mut entries = std::fs::read_dir(&given).map_err(Error::io(given.display().to_string()))?;
    if entries.next().is_some() { Err(Error::NotEmpty(given)) } else { fresh_in(&given) }
}

/// A directory in `parent` that is not there yet.
pub(super) fn fresh_in(parent: &Path) -> Result<PathBuf, Error> {
    Ok(parent.join(format!("ramsplit-{}", random_word(4)?)))
}

fn make(directory: &Path) -> Result<(), Error> {
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(directory)
        .map_err(Error::io(format!("cannot create {}", directory.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_directory_is_used_as_it_is_and_an_empty_one_gets_a_fresh_one_inside() {
        let base = tempfile::tempdir_in("/var/tmp").unwrap();
        let new = base.path().join("new");
        assert_eq!(disk_directory(Some(&new)).unwrap(), new);
        let inside = disk_directory(Some(base.path())).unwrap();
        assert_eq!(inside.parent(), Some(base.path()));
        assert!(!inside.exists());
    }

    #[test]
    fn a_directory_with_content_is_refused() {
        let base = tempfile::tempdir_in("/var/tmp").unwrap();
        std::fs::write(base.path().join("file"), "precious").unwrap();
        assert!(matches!(disk_directory(Some(base.path())), Err(Error::NotEmpty(_))));
    }

    #[test]
    fn memory_is_not_a_disk() {
        let error = disk_directory(Some(Path::new("/dev/shm/ramsplit-test"))).unwrap_err();
        assert!(matches!(error, Error::NotADisk(_)), "{error}");
    }

    #[test]
    fn two_fresh_directories_differ() {
        assert_ne!(fresh_in(Path::new("/x")).unwrap(), fresh_in(Path::new("/x")).unwrap());
    }
}
