//! The output `heaps`: arrays of heaps in an HDF5 file. Source: `docs/heap.md`, `docs/configuration.md`.

use std::path::PathBuf;

use fullcount_core::key::Key;
use fullcount_core::key::Takes::{Path, Text, Value};
use fullcount_core::output::{
    Claim, DeclaredOutput, Opened, Opening, OutputKind, OutputOpenError, OutputSetup, Plan,
};
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::sink::Sink;
use fullcount_io::heaps::{HeapLimits, HeapSection, HeapSink, heap_keys, heap_lines};
use fullcount_io::section;
use serde::{Deserialize, Serialize};

use super::writer::HdfHeaps;
use crate::Compression;
use crate::kind::compression;

/// Path of the section.
const SECTION: &str = "output.heaps";

/// `[output.heaps]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct HeapFileSection {
    /// File to write: `.h5` or `.hdf5`.
    file: PathBuf,
    /// Replace an existing file.
    #[serde(default)]
    overwrite: bool,
    /// `none` or `gzip` (level 1 to 9: `gzip:4`).
    #[serde(default = "Compression::unless_chosen")]
    compression: String,
    /// Arrays at most, 1 to 4096.
    #[serde(default = "default_arrays")]
    max_arrays: usize,
    /// Bytes of all arrays at most.
    #[serde(default, deserialize_with = "section::some")]
    max_bytes: Option<String>,
}

fn default_arrays() -> usize {
    256
}

/// Heaps in HDF5.
#[derive(Debug)]
pub struct HeapFile;

const DECLARED: DeclaredOutput = DeclaredOutput {
    keys: KEYS,
    named_by: Some("output.heaps.file"),
    counters: || vec![("output: heaps", heap_lines("heaps"))],
    ..DeclaredOutput::new(
        "heaps",
        SECTION,
        "arrays of heaps in an HDF5 file",
        section::reading::<HeapFileSection>(),
    )
};

impl OutputKind for HeapFile {
    fn declared(&self) -> &'static DeclaredOutput {
        &DECLARED
    }

    fn plan(&self, setup: &OutputSetup<'_>) -> Result<Option<Box<dyn Plan>>, Refusal> {
        let section: HeapFileSection = section::read(SECTION, setup.section)?;
        let HeapFileSection { file, overwrite, max_arrays, max_bytes, .. } = section;
        let ending = file.extension().and_then(|end| end.to_str()).map(str::to_ascii_lowercase);
        if !matches!(ending.as_deref(), Some("h5" | "hdf5")) {
            return Err(refuse(
                "output.heaps.file",
                file.display(),
                "a name that ends in .h5 or .hdf5",
            ));
        }
        heap_keys(setup, "output.heaps.file", file.display())?;
        let limits = HeapSection { max_arrays, max_bytes };
        let limits = limits.limits("output.heaps.max_arrays", "output.heaps.max_bytes")?;
        let compression = compression("output.heaps.compression", &section.compression)?;
        let facts = vec![
            ("detector", setup.detector.to_owned()),
            ("configuration", setup.configuration.to_owned()),
        ];
        Ok(Some(Box::new(HeapPlan { file, overwrite, compression, limits, facts })))
    }
}

/// A checked section.
struct HeapPlan {
    file: PathBuf,
    overwrite: bool,
    compression: Compression,
    limits: HeapLimits,
    facts: Vec<(&'static str, String)>,
}

impl Plan for HeapPlan {
    fn claims(&self) -> Vec<Claim> {
        vec![Claim::WrittenBeside("output.heaps.file", self.file.clone(), ".part")]
    }

    fn open(&mut self, _: &Opening) -> Result<Opened, OutputOpenError> {
        let named = |e| OutputOpenError(format!("output.heaps.file: {e}"));
        let made = HdfHeaps::create(&self.file, self.overwrite, self.compression, &self.facts);
        let sink: Box<dyn Sink> =
            Box::new(HeapSink::new("heaps", made.map_err(named)?, self.limits));
        let facts = vec![format!("output heaps {}", self.file.display())];
        Ok(Opened { facts, ..sink.into() })
    }
}

/// Keys of the section.
const KEYS: &[Key] = &[
    Key::new(
        Path,
        "output.heaps.file",
        "required",
        "name ending in `.h5` or `.hdf5`; its folder must exist",
        "file to write: a group with an array for each item, and tables of the heaps",
    )
    .flag("heaps", "FILE", "Write the arrays of heaps to this HDF5 file"),
    Key::new(
        Value,
        "output.heaps.overwrite",
        "`false`",
        "`true`, `false`",
        "replace a file that is there",
    ),
    Key::new(
        Text,
        "output.heaps.compression",
        "`\"none\"`",
        "`none`, `gzip` (level 4), `gzip:1` to `gzip:9`",
        "with shuffle",
    ),
    Key::new(
        Value,
        "output.heaps.max_arrays",
        "`256`",
        "1 to 4096",
        "arrays at most; another type or shape under the same name is another array",
    ),
    Key::new(
        Text,
        "output.heaps.max_bytes",
        "–",
        "a size",
        "heaps beyond so many bytes of arrays are not written, and counted",
    ),
];
