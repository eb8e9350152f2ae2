//! Options of tables, and the checks that need no file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fullcount_core::tables::Table;
use fullcount_core::time::Nanos;
use fullcount_core::wall::WallClock;

use crate::Compression;

/// Output of a run that takes tables: each has one file, or one for each table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableOutput {
    /// `[output.hits]`.
    Hits,
    /// `[output.clusters]`.
    Clusters,
}

impl TableOutput {
    /// Name in configuration, counters and summary.
    pub fn name(self) -> &'static str {
        match self {
            TableOutput::Hits => "hits",
            TableOutput::Clusters => "clusters",
        }
    }

    /// Key of its file.
    pub fn key(self) -> &'static str {
        match self {
            TableOutput::Hits => "output.hits.file",
            TableOutput::Clusters => "output.clusters.file",
        }
    }

    /// True if the table belongs there.
    pub fn takes(self, table: Table) -> bool {
        table.is_hits() == (self == TableOutput::Hits)
    }
}

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableFormat {
    /// A group for each table, in it a dataset for each column.
    Hdf5,
    /// A file for each table.
    Parquet,
}

impl TableFormat {
    /// Endings, for messages.
    pub const ENDINGS: &'static str =
        "the ending decides the format: .h5 or .hdf5 (HDF5), .parquet (Parquet)";

    /// Format by the ending of the name, in either case.
    pub fn of(path: &Path) -> Option<TableFormat> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "h5" | "hdf5" => Some(TableFormat::Hdf5),
            "parquet" => Some(TableFormat::Parquet),
            _ => None,
        }
    }

    /// The file of each table; HDF5 has all in one. Of two clusters tables in Parquet, detector clusters are at the
    /// path itself, and plane clusters next to it: `clusters.parquet` and `clusters.planes.parquet`.
    pub fn files(self, path: &Path, tables: &[Table]) -> Vec<(PathBuf, Vec<Table>)> {
        if self == TableFormat::Hdf5 || tables.len() < 2 {
            return vec![(path.to_owned(), tables.to_vec())];
        }
        let place = |table: &Table| match table {
            Table::PlaneClusters => (path.with_extension("planes.parquet"), vec![*table]),
            _ => (path.to_owned(), vec![*table]),
        };
        tables.iter().map(place).collect()
    }
}

/// Everything that tables are written with.
#[derive(Debug, Clone)]
pub struct TableOptions {
    /// Which output.
    pub output: TableOutput,
    /// File; its ending decides the format.
    pub path: PathBuf,
    /// Replace an existing file.
    pub overwrite: bool,
    /// Compression of the columns.
    pub compression: Compression,
    /// Tables in the order of the file.
    pub tables: Vec<Table>,
    /// Absolute time of time 0 of the tables.
    pub epoch: Nanos,
    /// The detector's clock and the host's, if times are the host's: then they give time 0 at the end.
    pub wall: Option<Arc<WallClock>>,
    /// Name of the detector.
    pub detector: String,
    /// The configuration as TOML.
    pub configuration: String,
}

/// Time 0 of a detector's clock that was related to the host's, ns since 1970; `None`: it was not.
pub(super) fn joined(wall: Option<&WallClock>) -> Option<i64> {
    let (detector, host) = wall?.status().anchor?;
    Some(host.saturating_sub(detector))
}

impl TableOptions {
    /// Every file that will be written; none if the ending says no format.
    pub fn files(&self) -> Vec<PathBuf> {
        let files =
            TableFormat::of(&self.path).map(|format| format.files(&self.path, &self.tables));
        files.unwrap_or_default().into_iter().map(|(path, _)| path).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_decides() {
        let of = |name: &str| TableFormat::of(Path::new(name));
        assert_eq!(of("a/b.h5"), Some(TableFormat::Hdf5));
        assert_eq!(of("b.HDF5"), Some(TableFormat::Hdf5));
        assert_eq!(of("b.x.parquet"), Some(TableFormat::Parquet));
        assert!(["b", "b.csv", "b.h5.part", ".parquet", ""].iter().all(|name| of(name).is_none()));
    }

    #[test]
    fn parquet_has_a_file_for_each_table() {
        let both = [Table::PlaneClusters, Table::DetectorClusters];
        let path = Path::new("a/c.parquet");
        let files = TableFormat::Parquet.files(path, &both);
        let names: Vec<_> = files.iter().map(|f| (f.0.to_str().unwrap(), f.1[0])).collect();
        assert_eq!(names, [("a/c.planes.parquet", both[0]), ("a/c.parquet", both[1])]);
        assert_eq!(
            TableFormat::Parquet.files(path, &both[1..]),
            [(path.to_owned(), vec![both[1]])]
        );
        assert_eq!(TableFormat::Hdf5.files(path, &both), [(path.to_owned(), both.to_vec())]);
    }
}
