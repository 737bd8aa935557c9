//! The configuration file on disk: read with bounds, written whole or not at all.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// The longest configuration file, in bytes: several times what 50,000 backends take.
const FILE_CAP: u64 = 64 << 20;

/// Mode of a file that was not there before: the flow hash key is a secret.
const NEW_MODE: u32 = 0o640;

/// The file could not be written; what was there stays.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot write {}: {source}; the file is as it was. Check that the daemon may write in its \
     folder and that there is room",
    path.display()
)]
pub struct SaveError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// The text of a file.
///
/// A pipe or a device at the path must not hold up management, which reads the file at `reload`.
pub(super) fn read(path: &Path) -> io::Result<String> {
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

/// Replaces the content of a file, or makes it. Whoever reads it, also after a crash, finds the old
/// text or the new one. Owner and mode stay; a symbolic link stays, and what it leads to changes.
///
/// # Errors
/// [`SaveError`]; the file is as it was.
pub fn replace(path: &Path, text: &str) -> Result<(), SaveError> {
    write_beside(path, text).map_err(|source| SaveError { path: path.to_owned(), source })
}

fn write_beside(path: &Path, text: &str) -> io::Result<()> {
    let target = match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        found => found?,
    };
    let folder = target.parent().unwrap_or(Path::new("/")).to_owned();
    let name =
        target.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy().into_owned();
    let temporary = Temporary(folder.join(format!(".{name}.{}", std::process::id())));
    // One that a crash left behind.
    let _ = fs::remove_file(&temporary.0);
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary.0)?;
    file.write_all(text.as_bytes())?;
    match fs::metadata(&target) {
        Ok(old) => {
            let new = file.metadata()?;
            if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
                chown(&temporary.0, Some(old.uid()), Some(old.gid()))?;
            }
            file.set_permissions(Permissions::from_mode(old.mode() & 0o7777))?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            file.set_permissions(Permissions::from_mode(NEW_MODE))?;
        }
        Err(error) => return Err(error),
    }
    file.sync_all()?;
    fs::rename(&temporary.0, &target)?;
    File::open(&folder)?.sync_all()
}

/// A file that goes unless it was renamed.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // After the rename there is none.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lodestone.toml");
        replace(&path, "first").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, NEW_MODE);
        fs::set_permissions(&path, Permissions::from_mode(0o604)).unwrap();
        replace(&path, "second").unwrap();
        assert_eq!(read(&path).unwrap(), "second");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o604);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
    }

    #[test]
    fn a_link_stays_and_a_failure_leaves_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "old").unwrap();
        symlink(&real, &link).unwrap();
        replace(&link, "new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(read(&real).unwrap(), "new");

        let missing = folder.path().join("no/such/folder");
        let error = replace(&missing, "x").unwrap_err().to_string();
        assert!(error.contains("no/such/folder") && error.contains("as it was"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
