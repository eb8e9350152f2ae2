//! A folder of this run for files that children read: geometries and captures. Made when first needed, gone at the
//! end.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The folder.
#[derive(Debug, Default)]
pub struct Scratch(OnceCell<PathBuf>);

impl Scratch {
    /// Path of a file in it.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn path(&self, name: &str) -> anyhow::Result<PathBuf> {
        if let Some(folder) = self.0.get() {
            return Ok(folder.join(name));
        }
        let name_of = format!("fullcount-detectors-{}", std::process::id());
        let folder = std::env::temp_dir().join(name_of);
        // Refused where somebody else made it before.
        std::fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(self.0.get_or_init(|| folder).join(name))
    }

    /// Writes a file in it.
    ///
    /// # Errors
    /// What the system says, with the path.
    pub fn write(&self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.path(name)?;
        write(&path, text)?;
        Ok(path)
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(folder) = self.0.get() {
            // What cannot be removed stays in the system's temporary folder.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
