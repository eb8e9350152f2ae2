//! The files that a demonstration leaves: none replaces another without being told to.

use std::path::{Path, PathBuf};

use anyhow::Context;
use fullcount_lab::record::files;

use super::DemoFlags;
use crate::exit::Failure;

/// Refuses to replace what is there; a file that would stay as it is does not count.
pub(super) fn refuse_existing(
    flags: &DemoFlags,
    heaps: bool,
    files: &[(&str, &str)],
) -> Result<(), Failure> {
    let name = if heaps { "demo.h5" } else { "demo.nxs" };
    let file = (!flags.no_file).then(|| flags.dir.join(name));
    let others = files.iter().map(|(name, text)| (flags.dir.join(name), *text));
    let others = others.filter(|(path, text)| !says(path, text)).map(|(path, _)| path);
    let there = |path: &PathBuf| path.symlink_metadata().is_ok();
    match file.into_iter().chain(others).find(there).filter(|_| !flags.overwrite) {
        None => Ok(()),
        Some(path) => {
            let why = "the file exists; replace it with --overwrite, or choose another --dir";
            Err(Failure::Wrong(format!("{}: {why}", path.display())))
        }
    }
}

/// True if a file with this text is there.
fn says(path: &Path, text: &str) -> bool {
    let long = path.metadata().is_ok_and(|m| m.is_file() && m.len() == text.len() as u64);
    long && std::fs::read(path).is_ok_and(|there| there == text.as_bytes())
}

/// Writes a file into the folder. One that says the same stays.
pub(super) fn keep(flags: &DemoFlags, name: &str, text: &str) -> Result<(), Failure> {
    let (dir, path) = (&flags.dir, flags.dir.join(name));
    if says(&path, text) {
        return Ok(());
    }
    let written = files::put(dir, name, text.as_bytes(), flags.overwrite)
        .with_context(|| format!("--dir {}: cannot write {name}", dir.display()))?;
    if written == path {
        return Ok(());
    }
    // It came since the look at the beginning.
    let shown = written.display();
    Err(anyhow::anyhow!("{}: the file exists; the new one is {shown}", path.display()).into())
}
