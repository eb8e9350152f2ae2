//! The output `npy`: heaps as `.npy` files in a folder; and the section that it has in common with heaps in HDF5.
//!
//! Source: `docs/heap.md`, `docs/configuration.md`.

use std::path::PathBuf;

use fullcount_core::key::Key;
use fullcount_core::key::Takes::{Path, Text, Value};
use fullcount_core::output::{
    Claim, DeclaredOutput, Opened, Opening, OutputKind, OutputOpenError, OutputSetup, Plan,
};
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::sink::Sink;
use fullcount_core::view::PlotKind;
use serde::{Deserialize, Serialize};

use super::{HeapLimits, HeapSink, NpyWriter, heap_lines};
use crate::{quantity, section};

/// Path of the section.
const SECTION: &str = "output.npy";

fn default_arrays() -> usize {
    256
}

/// Limits of `[output.npy]` and of heaps in HDF5.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct HeapSection {
    /// Arrays at most, 1 to 4096.
    #[serde(default = "default_arrays")]
    pub max_arrays: usize,
    /// Bytes of all arrays at most.
    #[serde(default, deserialize_with = "section::some")]
    pub max_bytes: Option<String>,
}

impl HeapSection {
    /// The limits.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub fn limits(&self, arrays: &'static str, bytes: &'static str) -> Result<HeapLimits, Refusal> {
        if !(1..=4096).contains(&self.max_arrays) {
            return Err(refuse(arrays, self.max_arrays, "1 to 4096"));
        }
        let read =
            |text: &String| quantity::size(text).map_err(|e| refuse(bytes, text, e.to_string()));
        let bytes = self.max_bytes.as_ref().map(read).transpose()?;
        Ok(HeapLimits { arrays: self.max_arrays, bytes })
    }
}

/// Refuses detectors that give no heaps.
///
/// # Errors
/// Key, value and what is allowed.
pub fn heap_keys(
    setup: &OutputSetup<'_>,
    key: &'static str,
    value: impl ToString,
) -> Result<(), Refusal> {
    // Who gives heaps shows them.
    let gives = setup.plots.iter().any(|plot| matches!(plot.kind, PlotKind::Waterfall(_)));
    match gives {
        true => Ok(()),
        false => {
            let why = format!("leave it out: detector.kind = {} gives no heaps", setup.detector);
            Err(refuse(key, value, why))
        }
    }
}

/// `[output.npy]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct NpySection {
    /// Folder to make.
    folder: PathBuf,
    /// Arrays at most, 1 to 4096.
    #[serde(default = "default_arrays")]
    max_arrays: usize,
    /// Bytes of all arrays at most.
    #[serde(default, deserialize_with = "section::some")]
    max_bytes: Option<String>,
}

/// Heaps as `.npy` files.
#[derive(Debug)]
pub struct NpyFolder;

const DECLARED: DeclaredOutput = DeclaredOutput {
    keys: KEYS,
    named_by: Some("output.npy.folder"),
    counters: || vec![("output: npy", heap_lines("npy"))],
    ..DeclaredOutput::new(
        "npy",
        SECTION,
        "arrays of heaps as .npy files in a folder",
        section::reading::<NpySection>(),
    )
};

impl OutputKind for NpyFolder {
    fn declared(&self) -> &'static DeclaredOutput {
        &DECLARED
    }

    fn plan(&self, setup: &OutputSetup<'_>) -> Result<Option<Box<dyn Plan>>, Refusal> {
        let section: NpySection = section::read(SECTION, setup.section)?;
        heap_keys(setup, "output.npy.folder", section.folder.display())?;
        let NpySection { folder, max_arrays, max_bytes } = section;
        let limits = HeapSection { max_arrays, max_bytes };
        let limits = limits.limits("output.npy.max_arrays", "output.npy.max_bytes")?;
        Ok(Some(Box::new(NpyPlan { folder, limits })))
    }
}

/// A checked section.
struct NpyPlan {
    folder: PathBuf,
    limits: HeapLimits,
}

impl Plan for NpyPlan {
    fn claims(&self) -> Vec<Claim> {
        vec![Claim::Folder("output.npy.folder", self.folder.clone())]
    }

    fn open(&mut self, _: &Opening) -> Result<Opened, OutputOpenError> {
        let named = |e| OutputOpenError(format!("output.npy.folder: {e}"));
        let writer = NpyWriter::create(&self.folder).map_err(named)?;
        let sink: Box<dyn Sink> = Box::new(HeapSink::new("npy", writer, self.limits));
        let facts = vec![format!("output npy {}", self.folder.display())];
        Ok(Opened { facts, ..sink.into() })
    }
}

/// Keys of the section.
const KEYS: &[Key] = &[
    Key::new(
        Path,
        "output.npy.folder",
        "required",
        "path of a folder that is empty or not there",
        "folder for `.npy` files: an array with a row for each heap, and tables of the heaps",
    )
    .flag("npy", "DIR", "Write the arrays of heaps to .npy files in this folder"),
    Key::new(
        Value,
        "output.npy.max_arrays",
        "`256`",
        "1 to 4096",
        "arrays at most; another type or shape under the same name is another array",
    ),
    Key::new(
        Text,
        "output.npy.max_bytes",
        "–",
        "a size",
        "heaps beyond so many bytes of arrays are not written, and counted",
    ),
];
