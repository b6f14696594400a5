//! Room in memory: which tmpfs to use, and whether it and the machine have enough for a replica.
//!
//! A tmpfs without a size limit takes files until the machine has no memory left, so its own figure proves
//! nothing: the machine's available memory is checked as well, before anything starts.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access, statfs};

use super::Options;
use super::directory::fresh_in;
use super::error::Error;
use super::program::Flavor;

/// Bytes in a mebibyte.
pub const MIB: u64 = 1024 * 1024;

/// The usual room for the files of a server in memory, in bytes. At the start of the demo MySQL 9.7 uses
/// 177 MiB and MariaDB 10.11 73 MiB, redo logs included; the rest is for relay logs, temporary tables and
/// data.
pub const DEFAULT: u64 = 512 * MIB;

/// Whole mebibytes in `bytes`, for texts.
pub const fn in_mib(bytes: u64) -> u64 {
    bytes / MIB
}

/// A memory file system with room for a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The directory for the server's files, a fresh one in a tmpfs or ramfs.
    pub directory: PathBuf,
    /// Bytes that the server's files may take, as the options say; as many were free at the start.
    pub reserved: u64,
    /// Bytes that were free there at the start; `None` when it has no limit (ramfs).
    pub free: Option<u64>,
    /// Bytes of memory that the machine had available at the start.
    pub available: u64,
}

impl Place {
    /// Finds the place that the options ask for: the given directory, else `/dev/shm`, else the first
    /// writable tmpfs with enough room. `servers` processes are going to run.
    pub(super) fn find(options: &Options, servers: u64) -> Result<Self, Error> {
        let meminfo = std::fs::read_to_string("/proc/meminfo").map_err(Error::io("/proc/meminfo"))?;
        let available = parse_available(&meminfo).unwrap_or_default();
        let needed = options.memory.saturating_add(servers * process(options.program.flavor));
        if available < needed {
            return Err(Error::TooLittleMemory { available, needed });
        }
        let check = |directory: &Path| {
            let free = free(directory)?.ok_or_else(|| Error::NotInMemory(directory.to_owned()))?;
            let place =
                Self { directory: directory.to_owned(), reserved: options.memory, free: free.0, available };
            place.checked()
        };
        if let Some(directory) = &options.memory_directory {
            return check(directory);
        }
        let mounts = std::fs::read_to_string("/proc/mounts").map_err(Error::io("/proc/mounts"))?;
        let mut refused = None;
        for directory in candidates(&mounts) {
            if access(&directory, Access::WRITE_OK | Access::EXEC_OK).is_err() {
                continue;
            }
            match check(&directory) {
                Ok(place) => return Ok(place),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or(Error::NoMemoryDirectory))
    }

    /// Takes a file system for what it has room for, and names the directory in it.
    fn checked(self) -> Result<Self, Error> {
        match self.free {
            Some(free) if free < self.reserved => {
                Err(Error::TooSmall { directory: self.directory, free, needed: self.reserved })
            }
            _ => Ok(Self { directory: fresh_in(&self.directory)?, ..self }),
        }
    }
}

/// Whether `directory` is on a memory file system.
pub(super) fn is_in_memory(directory: &Path) -> Result<bool, Error> {
    Ok(free(directory)?.is_some())
}

/// Free bytes of a memory file system.
struct Free(Option<u64>);

/// The free bytes of the memory file system that holds `directory`; `None` when it is another kind.
fn free(directory: &Path) -> Result<Option<Free>, Error> {
    let system =
        statfs(directory).map_err(|error| Error::io(directory.display().to_string())(error.into()))?;
    // The types differ between platforms, the values fit all of them.
    let kind = u64::try_from(system.f_type).unwrap_or_default();
    let block = u64::try_from(system.f_bsize).unwrap_or_default();
    Ok(match kind {
        TMPFS if system.f_blocks == 0 => Some(Free(None)),
        TMPFS => Some(Free(Some(block.saturating_mul(system.f_bavail)))),
        RAMFS => Some(Free(None)),
        _ => None,
    })
}

/// Memory that one server process takes beside its files, in bytes. At the start of the demo MySQL 9.7 has
/// 530 MiB resident (with `performance_schema`) and MariaDB 10.11 100 MiB; the buffer pool fills later.
const fn process(flavor: Flavor) -> u64 {
    match flavor {
        Flavor::MySql => 640 * MIB,
        Flavor::MariaDb => 256 * MIB,
    }
}

/// `MemAvailable` of /proc/meminfo in bytes.
fn parse_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kib.saturating_mul(1024))
}

/// Memory file systems of /proc/mounts that may be written to, `/dev/shm` first.
fn candidates(mounts: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (directory, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
            let usable = matches!(kind, "tmpfs" | "ramfs") && options.split(',').any(|option| option == "rw");
            // Blanks in paths are written as escapes; such a mount is not worth the code.
            (usable && !directory.contains('\\')).then(|| PathBuf::from(directory))
        })
        .collect();
    found.sort_by_key(|directory| directory != Path::new("/dev/shm"));
    found.dedup();
    found
}

/// `f_type` of tmpfs, see statfs(2).
const TMPFS: u64 = 0x0102_1994;
/// `f_type` of ramfs, see statfs(2).
const RAMFS: u64 = 0x8584_58f6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_as_the_kernel_writes_it() {
        let text = "MemTotal:       24684084 kB\nMemFree:        21941196 kB\nMemAvailable:   24267016 kB\n";
        assert_eq!(parse_available(text), Some(24_267_016 * 1024));
        assert_eq!(parse_available("MemTotal: 1 kB\n"), None);
        assert_eq!(parse_available("MemAvailable: many kB\n"), None);
    }

    #[test]
    fn mounts_that_can_be_used() {
        let text = "devtmpfs /dev devtmpfs rw,relatime 0 0\n\
                    tmpfs /run tmpfs rw,nosuid 0 0\n\
                    tmpfs /dev/shm tmpfs rw,relatime,size=24684084k 0 0\n\
                    tmpfs /sealed tmpfs ro,nosuid 0 0\n\
                    tmpfs /with\\040blank tmpfs rw 0 0\n\
                    ramfs /fast ramfs rw 0 0\n\
                    /dev/vda / ext4 rw 0 0\n";
        let expected: Vec<PathBuf> = ["/dev/shm", "/run", "/fast"].into_iter().map(PathBuf::from).collect();
        assert_eq!(candidates(text), expected);
    }

    #[test]
    fn too_little_room_is_refused_with_both_figures() {
        let place = |free| Place { directory: "/m".into(), reserved: 512 * MIB, free, available: 0 };
        let text = place(Some(64 * MIB)).checked().unwrap_err().to_string();
        assert!(text.contains("/m has 64 MiB free") && text.contains("512 MiB"), "{text}");
        assert!(place(Some(512 * MIB)).checked().is_ok());
        assert!(place(None).checked().is_ok());
    }

    #[test]
    fn proc_is_not_a_memory_file_system() {
        assert!(!is_in_memory(Path::new("/proc")).unwrap());
    }
}
