//! The outputs `hits` and `clusters`: tables in a file. Source: `docs/tables.md`, `docs/configuration.md`.

use std::path::PathBuf;

use fullcount_core::key::{Flag, Words};
use fullcount_core::output::{
    Claim, DeclaredOutput, Opened, Opening, OutputKind, OutputOpenError, OutputSetup, Plan,
};
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::sink::Sink;
use fullcount_io::section;
use serde::{Deserialize, Serialize};

use super::{TableFormat, TableOptions, TableOutput, TableSink};
use crate::Compression;
use crate::kind::compression;

/// `[output.hits]` and `[output.clusters]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TableSection {
    /// File to write; its ending decides the format: `.h5`, `.hdf5` or `.parquet`.
    pub file: PathBuf,
    /// Replace an existing file.
    #[serde(default)]
    pub overwrite: bool,
    /// `none` or `gzip` (level 1 to 9: `gzip:4`).
    #[serde(default = "Compression::unless_chosen")]
    pub compression: String,
}

/// Tables of one output.
#[derive(Debug)]
pub struct Tables(pub TableOutput);

impl Tables {
    fn compression_key(&self) -> &'static str {
        match self.0 {
            TableOutput::Hits => "output.hits.compression",
            TableOutput::Clusters => "output.clusters.compression",
        }
    }
}

const HITS: DeclaredOutput = DeclaredOutput {
    keys: HIT_KEYS,
    named_by: Some("output.hits.file"),
    counters: || vec![("output: hits", TableOutput::Hits.catalogue())],
    ..DeclaredOutput::new(
        "hits",
        "output.hits",
        "hits as a table, in HDF5 or Parquet",
        section::reading::<TableSection>(),
    )
};

const CLUSTERS: DeclaredOutput = DeclaredOutput {
    keys: CLUSTER_KEYS,
    named_by: Some("output.clusters.file"),
    counters: || vec![("output: clusters", TableOutput::Clusters.catalogue())],
    ..DeclaredOutput::new(
        "clusters",
        "output.clusters",
        "clusters of planes and detectors as tables, in HDF5 or Parquet",
        section::reading::<TableSection>(),
    )
};

impl OutputKind for Tables {
    fn declared(&self) -> &'static DeclaredOutput {
        match self.0 {
            TableOutput::Hits => &HITS,
            TableOutput::Clusters => &CLUSTERS,
        }
    }

    fn plan(&self, setup: &OutputSetup<'_>) -> Result<Option<Box<dyn Plan>>, Refusal> {
        let output = self.0;
        let table: TableSection = section::read(self.section(), setup.section)?;
        let (key, file) = (output.key(), table.file.display());
        if TableFormat::of(&table.file).is_none() {
            return Err(refuse(key, file, TableFormat::ENDINGS));
        }
        let mut tables = setup.tables.to_vec();
        tables.retain(|&table| output.takes(table));
        if tables.is_empty() {
            let givers = (setup.givers)(&|table| output.takes(table));
            let why = format!(
                "leave it out: detector.kind = {} gives no tables of {}; those that do: {}",
                setup.detector,
                output.name(),
                givers.join(", ")
            );
            return Err(refuse(key, file, why));
        }
        Ok(Some(Box::new(TablePlan(TableOptions {
            output,
            path: table.file.clone(),
            overwrite: table.overwrite,
            compression: compression(self.compression_key(), &table.compression)?,
            tables,
            epoch: setup.epoch,
            wall: setup.wall.clone(),
            detector: setup.detector.to_owned(),
            configuration: setup.configuration.to_owned(),
        }))))
    }
}

/// A checked section.
struct TablePlan(TableOptions);

impl Plan for TablePlan {
    fn claims(&self) -> Vec<Claim> {
        let one = |file| Claim::WrittenBeside(self.0.output.key(), file, ".part");
        self.0.files().into_iter().map(one).collect()
    }

    fn open(&mut self, _: &Opening) -> Result<Opened, OutputOpenError> {
        let sink = TableSink::create(&self.0).map_err(|e| OutputOpenError(e.to_string()))?;
        let fact = format!("output {} {}", self.0.output.name(), self.0.path.display());
        let sink: Box<dyn Sink> = Box::new(sink);
        Ok(Opened { facts: vec![fact], ..sink.into() })
    }
}

fullcount_core::keys! {
    /// Keys of `[output.hits]`.
    const HIT_KEYS =
        Path "output.hits.file" "required" "name ending in `.h5`, `.hdf5` or `.parquet`; its folder must exist"
            "file to write; the ending decides the format"
            .flag("hits", "FILE", "Write hits to this table: .h5, .hdf5 or .parquet");
        Value "output.hits.overwrite" "`false`" "`true`, `false`"
            "replace a file that is there; the flag is for the files that flags name"
            .with(Flag { name: "overwrite", value: "", help: "Replace the files that flags name if they exist; without such flags, the NeXus file", words: Words::Replace });
        Text "output.hits.compression" "`\"none\"`" "`none`, `gzip` (level 4), `gzip:1` to `gzip:9`"
            "in HDF5 with shuffle";
}

fullcount_core::keys! {
    /// Keys of `[output.clusters]`.
    const CLUSTER_KEYS =
        Path "output.clusters.file" "required" "as of hits"
            "file to write; in Parquet, plane clusters stand beside it in `NAME.planes.parquet`"
            .flag("clusters", "FILE", "Write clusters of planes and of detectors to these tables: .h5, .hdf5 or .parquet");
        Value "output.clusters.overwrite" "`false`" "`true`, `false`"
            "as of hits"
            .with(Flag { name: "overwrite", value: "", help: "Replace the files that flags name if they exist; without such flags, the NeXus file", words: Words::Replace });
        Text "output.clusters.compression" "`\"none\"`" "as of hits"
            "as of hits";
}
