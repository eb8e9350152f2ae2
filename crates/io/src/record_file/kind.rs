//! The output `records`, as a kind.

use std::path::PathBuf;

use fullcount_core::key::Key;
use fullcount_core::key::Takes::{Path, Value};
use fullcount_core::output::{
    Claim, DeclaredOutput, Opened, Opening, OutputKind, OutputOpenError, OutputSetup, Plan,
};
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::sink::Sink;
use serde::{Deserialize, Serialize};

use super::{RecordCounter, RecordSink};
use crate::section;

/// Path of the section.
const SECTION: &str = "output.records";

/// `[output.records]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RecordSection {
    /// File to write.
    file: PathBuf,
    /// Replace an existing file.
    #[serde(default)]
    overwrite: bool,
}

/// Merged events in a file.
#[derive(Debug)]
pub struct RecordOutput;

const DECLARED: DeclaredOutput = DeclaredOutput {
    keys: KEYS,
    named_by: Some("output.records.file"),
    counters: || vec![("output: records", RecordCounter::catalogue())],
    ..DeclaredOutput::new(
        "records",
        SECTION,
        "events merged of fragments, with their bytes, in a file",
        section::reading::<RecordSection>(),
    )
};

impl OutputKind for RecordOutput {
    fn declared(&self) -> &'static DeclaredOutput {
        &DECLARED
    }

    fn plan(&self, setup: &OutputSetup<'_>) -> Result<Option<Box<dyn Plan>>, Refusal> {
        let section: RecordSection = section::read(SECTION, setup.section)?;
        if !setup.records {
            let why = format!("leave it out: detector.kind = {} gives no records", setup.detector);
            return Err(refuse("output.records.file", section.file.display(), why));
        }
        Ok(Some(Box::new(RecordPlan(section))))
    }
}

/// A checked section.
struct RecordPlan(RecordSection);

impl Plan for RecordPlan {
    fn claims(&self) -> Vec<Claim> {
        vec![Claim::WrittenBeside("output.records.file", self.0.file.clone(), ".part")]
    }

    fn open(&mut self, _: &Opening) -> Result<Opened, OutputOpenError> {
        let named = |e| OutputOpenError(format!("output.records.file: {e}"));
        let sink = RecordSink::create(&self.0.file, self.0.overwrite).map_err(named)?;
        let sink: Box<dyn Sink> = Box::new(sink);
        Ok(Opened {
            facts: vec![format!("output records {}", self.0.file.display())],
            ..sink.into()
        })
    }
}

/// Keys of the section.
const KEYS: &[Key] = &[
    Key::new(
        Path,
        "output.records.file",
        "required",
        "name of a file; its folder must exist",
        "file for the merged events of `fragments`, with their bytes",
    )
    .flag("records", "FILE", "Write merged events with their bytes to this file"),
    Key::new(
        Value,
        "output.records.overwrite",
        "`false`",
        "`true`, `false`",
        "replace a file that is there",
    ),
];
