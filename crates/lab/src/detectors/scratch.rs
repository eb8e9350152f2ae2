//! A folder of this run for files that children read: geometries and captures. Made when first needed, gone at the
//! end.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use anyhow::Context;
use fullcount_io::newfile;

/// The folder.
#[derive(Debug, Default)]
pub struct ScratchFiles(OnceCell<newfile::Scratch>);

impl ScratchFiles {
    /// Path of a file in it.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn path(&self, name: &str) -> anyhow::Result<PathBuf> {
        if let Some(folder) = self.0.get() {
            return Ok(folder.path().join(name));
        }
        let folder = std::env::temp_dir();
        let made = newfile::Scratch::make(&folder, "fullcount-detectors")
            .with_context(|| format!("making a folder in {}", folder.display()))?;
        Ok(self.0.get_or_init(|| made).path().join(name))
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
