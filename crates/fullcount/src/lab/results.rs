//! Where a campaign's results go: the flags, and what is shown of them.

use std::path::PathBuf;

use clap::Args;
use fullcount_lab::record::Record;
use fullcount_lab::record::results::{Results, document};

use crate::exit::Failure;
use crate::{note, say, tell};

/// Where the results go.
#[derive(Debug, Args)]
pub struct ResultFlags {
    /// Folder for the results [default: docs/results if there is one here, else this folder]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Name of the results files
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Replace results files that exist
    #[arg(long)]
    overwrite: bool,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

impl ResultFlags {
    /// True if JSON is wanted on standard output.
    pub fn json(&self) -> bool {
        self.json
    }

    /// Folder, name and whether files may be replaced.
    pub fn results(&self) -> Results {
        Results::new(self.out.clone(), self.name.clone(), self.overwrite)
    }

    /// Begins the results file, before anything is measured; a name that cannot be one is refused here, and so are files
    /// that are there.
    pub fn begin(&self, usual: &str) -> Result<Record, Failure> {
        Ok(self.results().begin(usual)?)
    }

    /// Writes JSON and Markdown, and prints one of them.
    pub fn finish(&self, record: &Record, title: &str, table: &str) -> Result<(), Failure> {
        self.show(record, table, &document("Measured", record, title, table))
    }

    /// The same for what was not measured now.
    pub fn computed(&self, record: &Record, title: &str, table: &str) -> Result<(), Failure> {
        self.show(record, table, &document("Computed", record, title, table))
    }

    /// Prints `table`, or the record; writes the record and `text`.
    pub fn show(&self, record: &Record, table: &str, text: &str) -> Result<(), Failure> {
        // Shown first: what cannot be written is not lost.
        if self.json {
            say!("{}", record.json());
        } else {
            tell!("{table}");
        }
        let [path, beside] = self.results().write_both(record, text)?;
        note!("written to {} and {}", path.display(), beside.display());
        Ok(())
    }
}
