//! The configuration file: loaded with a stamp, and written back whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::error::{LoadError, Warning};
use super::model::Config;
use super::write;

/// What a file held when it was read or written last: a digest of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp([u8; 32]);

impl Stamp {
    fn of(text: &[u8]) -> Self {
        Self(Sha256::digest(text).into())
    }
}

/// A configuration that was read from a file.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What the file says.
    pub config: Config,
    /// What works, but perhaps not as intended.
    pub warnings: Vec<Warning>,
    /// What the file held, for [`save`].
    pub stamp: Stamp,
}

/// What a file may hold when it is overwritten.
#[derive(Clone, Copy, Debug)]
pub enum Expected<'s> {
    /// The same as when this stamp was made.
    Unchanged(&'s Stamp),
    /// Whatever it is, or nothing.
    Anything,
}

/// What [`save`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// What the file holds now.
    pub stamp: Stamp,
    /// Whether it was written: a file that says the configuration already is left alone.
    pub is_written: bool,
    /// The file is replaced, but what follows from the reason told here is not certain: that a power
    /// cut now leaves the new one.
    pub warning: Option<String>,
}

/// A configuration was not written; the file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// Someone else wrote it.
    #[error(
        "{} changed since it was loaded or saved last; compare and reload it, or force to overwrite \
         what was changed there", path.display()
    )]
    ChangedOnDisk {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be read.
    #[error("cannot read {}: {source}; check the path and its permissions", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be written.
    #[error(
        "cannot write {}: {source}; check the permissions and the free space of its folder",
        path.display()
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The new file cannot have the owner of the old one.
    #[error(
        "cannot keep the owner of {} ({uid}:{gid}): {source}; give the file to the user that the \
         daemon runs as",
        path.display()
    )]
    Owner {
        /// The file.
        path: PathBuf,
        /// Its user.
        uid: u32,
        /// Its group.
        gid: u32,
        /// Why.
        source: io::Error,
    },
    /// No text was found that says the configuration. That is a defect of the writer.
    #[error(
        "{} was not written: its new text would not be read as the running configuration; please \
         report this", path.display()
    )]
    Meaning {
        /// The file.
        path: PathBuf,
    },
}

/// Reads the configuration file at `path`; see [`super::parse`].
///
/// # Errors
///
/// The file cannot be read, is no regular file or longer than 64 MiB, or its text has mistakes.
pub fn load_stamped(path: &Path) -> Result<Loaded, LoadError> {
    let text = read(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
    let (config, warnings) = super::parse(&text)
        .map_err(|errors| LoadError::Invalid { path: path.to_owned(), errors })?;
    Ok(Loaded { config, warnings, stamp: Stamp::of(text.as_bytes()) })
}

/// The longest configuration file, in bytes: several times what 50,000 backends take.
const FILE_CAP: u64 = 64 << 20;

/// A pipe or a device at the path must not hold up management, which reads the file at `reload`.
fn read(path: &Path) -> io::Result<String> {
    let kind = fs::metadata(path)?;
    let refusal = if !kind.is_file() {
        "it is not a regular file"
    } else if kind.len() > FILE_CAP {
        "it is longer than any configuration"
    } else {
        return fs::read_to_string(path);
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, refusal))
}

/// Writes a configuration back to its file, which keeps its comments, its layout, its mode and its
/// owner; see [`write::update`]. A symbolic link stays one.
///
/// The file is replaced as a whole by a rename in its folder: who reads it, and what is there after
/// a power cut, is the old text or the new one. It is compared with `expected` right before; a write
/// of another in the very instant between is not seen. A new file is for its owner only, as the
/// configuration holds a secret. This waits for the disk.
///
/// # Errors
///
/// The file holds something else than expected, cannot be read, or cannot be replaced as described.
pub fn save(path: &Path, config: &Config, expected: Expected<'_>) -> Result<Saved, SaveError> {
    save_with(path, config, expected, sync_folder)
}

/// A rename outlasts a power cut when its folder is on the disk.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The same, with another way to bring a folder to the disk.
fn save_with(
    path: &Path,
    config: &Config,
    expected: Expected<'_>,
    sync_folder: impl Fn(&Path) -> io::Result<()>,
) -> Result<Saved, SaveError> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let old = content(&target, path, expected)?;
    let text = write::update(old.as_deref().unwrap_or(""), config);
    let is_right = text.len() as u64 <= FILE_CAP
        && super::parse(&text).is_ok_and(|(written, _)| written == *config);
    if !is_right {
        return Err(SaveError::Meaning { path: path.to_owned() });
    }
    let is_written = old.as_ref() != Some(&text);
    let mut warning = None;
    if is_written {
        let folder = folder_of(&target);
        replace(&target, folder, path, &text, |target| content(target, path, expected).map(drop))?;
        // The new file is in its place, whatever comes of this.
        warning = sync_folder(folder).err().map(|error| {
            format!(
                "{} is written, but its folder could not be brought to the disk: {error}; a power \
                 cut may bring the old file back, so check the disk and save again",
                path.display()
            )
        });
    }
    Ok(Saved { stamp: Stamp::of(text.as_bytes()), is_written, warning })
}

/// What the file holds, if that is as expected; `None` if there is none.
fn content(
    target: &Path,
    path: &Path,
    expected: Expected<'_>,
) -> Result<Option<String>, SaveError> {
    let path = path.to_owned();
    match (read(target), expected) {
        (Ok(text), Expected::Unchanged(stamp)) if Stamp::of(text.as_bytes()) != *stamp => {
            Err(SaveError::ChangedOnDisk { path })
        }
        (Ok(text), _) => Ok(Some(text)),
        (Err(error), Expected::Unchanged(_)) if error.kind() == io::ErrorKind::NotFound => {
            Err(SaveError::ChangedOnDisk { path })
        }
        // Not even text any more: to be overwritten if that is forced.
        (Err(error), Expected::Unchanged(_)) if error.kind() == io::ErrorKind::InvalidData => {
            Err(SaveError::ChangedOnDisk { path })
        }
        (Err(error), Expected::Anything)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) =>
        {
            Ok(None)
        }
        (Err(source), _) => Err(SaveError::Read { path, source }),
    }
}

fn folder_of(target: &Path) -> &Path {
    match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn replace(
    target: &Path,
    folder: &Path,
    path: &Path,
    text: &str,
    check: impl Fn(&Path) -> Result<(), SaveError>,
) -> Result<(), SaveError> {
    let failed = |source| SaveError::Write { path: path.to_owned(), source };
    // Readable by its owner alone from the first moment; removed again if anything fails.
    let mut file =
        tempfile::Builder::new().prefix(".lodestone-").tempfile_in(folder).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    if let Ok(old) = fs::metadata(target) {
        let new = file.as_file().metadata().map_err(failed)?;
        if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
            chown(file.path(), Some(old.uid()), Some(old.gid())).map_err(|source| {
                SaveError::Owner { path: path.to_owned(), uid: old.uid(), gid: old.gid(), source }
            })?;
        }
        // After the owner: a change of owner may clear bits of the mode.
        let mode = fs::Permissions::from_mode(old.mode() & 0o7777);
        file.as_file().set_permissions(mode).map_err(failed)?;
    }
    file.as_file().sync_all().map_err(failed)?;
    check(target)?;
    file.persist(target).map(drop).map_err(|error| failed(error.error))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[appliance]\nname = \"a\"\nflow_hash_key = \
                        \"000102030405060708090a0b0c0d0e0f\"\n[cpu]\nmanagement = 0\nworkers = [1]\n\
                        [[port]]\nname = \"lan\"\ndevice = \"net_lan\"\n\
                        addresses = [\"192.0.2.2/24\"]\n";

    #[test]
    fn a_folder_that_is_not_brought_to_the_disk_is_a_warning_since_the_file_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lodestone.toml");
        fs::write(&path, TEXT).unwrap();
        let mut loaded = load_stamped(&path).unwrap();
        loaded.config.appliance.name = "b".to_owned();
        let expected = Expected::Unchanged(&loaded.stamp);
        let fails = |_: &Path| Err(io::Error::other("as the test wants"));
        let saved = save_with(&path, &loaded.config, expected, fails).unwrap();
        assert!(saved.is_written);
        let warning = saved.warning.unwrap();
        assert!(
            warning.contains("is written, but") && warning.contains("as the test"),
            "{warning}"
        );
        assert!(fs::read_to_string(&path).unwrap().contains("name = \"b\""));
        // There is nothing to write, and so nothing to bring to the disk.
        let saved = save_with(&path, &loaded.config, Expected::Anything, fails).unwrap();
        assert_eq!((saved.is_written, saved.warning), (false, None));
    }
}
