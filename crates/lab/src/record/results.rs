//! Where a campaign's results go, and the two files that most campaigns leave: `NAME.json` and `NAME.md`.
//!
//! Looked at before anything is measured. Refuses: a name that cannot be one, and files that are there and may not be
//! replaced.

use std::path::{Path, PathBuf};

use super::{Record, files};
use crate::error::LabError;

/// Folder, name and whether files may be replaced.
#[derive(Debug, Clone)]
pub struct Results {
    /// Folder.
    pub folder: PathBuf,
    /// Name of the files, if it is not the usual one.
    pub name: Option<String>,
    /// Files that are there may be replaced.
    pub overwrite: bool,
}

impl Results {
    /// In the asked folder, the repository's own, or here.
    pub fn new(folder: Option<PathBuf>, name: Option<String>, overwrite: bool) -> Results {
        let own = Path::new("docs/results");
        let usual = || if own.is_dir() { own.to_owned() } else { PathBuf::from(".") };
        Results { folder: folder.unwrap_or_else(usual), name, overwrite }
    }

    /// Name of the files.
    pub fn name<'a>(&'a self, usual: &'a str) -> &'a str {
        self.name.as_deref().unwrap_or(usual)
    }

    /// Begins the results, before anything is measured: JSON and Markdown.
    ///
    /// # Errors
    /// A name that cannot be one, and files that are there.
    pub fn begin(&self, usual: &str) -> Result<Record, LabError> {
        self.begin_with(usual, &["json", "md"])
    }

    /// The same for files with these endings.
    pub fn begin_with(&self, usual: &str, endings: &[&str]) -> Result<Record, LabError> {
        let name = self.name(usual);
        let record = Record::begin(name).map_err(|e| LabError::Refused(e.to_string()))?;
        let names: Vec<String> = endings.iter().map(|ending| format!("{name}.{ending}")).collect();
        self.ready(&names)?;
        Ok(record)
    }

    /// Refuses files that are there, unless they may be replaced, and a folder that takes none.
    ///
    /// # Errors
    /// The first that is.
    pub fn ready(&self, names: &[String]) -> Result<(), LabError> {
        let ready = files::ready(&self.folder, names, self.overwrite);
        ready.map_err(|e| LabError::Refused(e.to_string()))
    }

    /// Writes the JSON; gives its path.
    pub fn write(&self, record: &Record) -> Result<PathBuf, LabError> {
        Ok(record.write(&self.folder, self.overwrite).map_err(anyhow::Error::from)?)
    }

    /// Writes JSON and Markdown; gives their paths.
    pub fn write_both(&self, record: &Record, text: &str) -> Result<[PathBuf; 2], LabError> {
        let path = self.write(record)?;
        let file = format!("{}.md", record.name());
        let beside = files::put(&self.folder, &file, text.as_bytes(), self.overwrite);
        Ok([path, beside.map_err(anyhow::Error::from)?])
    }
}

/// The text of the Markdown file. `done`: Measured, or Computed.
pub fn document(done: &str, record: &Record, title: &str, table: &str) -> String {
    let json = record.json();
    let text =
        |key: &str| json.pointer(key).and_then(|v| v.as_str()).unwrap_or("unknown").to_owned();
    let head = format!(
        "# {title}\n\n{done} {} at revision {} on {} with Linux {}.\n\n",
        text("/date"),
        text("/revision"),
        text("/host/cpu"),
        text("/host/kernel"),
    );
    head + table
}
