//! The output `pulses`: a line `pulse_ns,events` for each row of pulses.
//!
//! Refuses unknown keys and a file that is there. A line is safe once it has been written to the file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::key::{Key, Takes};
use fullcount_core::ledger::Sheet;
use fullcount_core::output::{
    Claim, DeclaredOutput, Opened, Opening, OutputKind, OutputOpenError, OutputSetup, Plan,
};
use fullcount_core::products::Products;
use fullcount_core::progress::SafeBatches;
use fullcount_core::refusal::Refusal;
use fullcount_core::sink::{Report, Sink, SinkError};
use fullcount_io::{newfile, section};
use serde::{Deserialize, Serialize};

const SECTION: &str = "output.pulses";

fullcount_core::counters! {
    /// Counters of the output.
    pub enum Count {
        In "sink.pulses.in" Events Sum "sink.pulses" In "events given to the output of pulses" "";
        Counted "sink.pulses.events" Events Sum "sink.pulses" Accepted "events counted in a line" "";
        Lines "sink.pulses.lines" Messages Sum "sink.pulses" Note "lines written" "";
    }
}

/// `[output.pulses]`
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Section {
    /// File to write.
    file: PathBuf,
}

/// The kind for the registry.
pub struct PulseLines;

const DECLARED: DeclaredOutput = DeclaredOutput {
    keys: &[Key::new(Takes::Path, "output.pulses.file", "required", "path", "file to write").flag(
        "pulses-file",
        "FILE",
        "Write the events of each pulse to this file, a line each",
    )],
    named_by: Some("output.pulses.file"),
    counters: || vec![("output: pulses", Count::catalogue())],
    ..DeclaredOutput::new(
        "pulses",
        SECTION,
        "events of each pulse as lines of text (an example)",
        section::reading::<Section>(),
    )
};

impl OutputKind for PulseLines {
    fn declared(&self) -> &'static DeclaredOutput {
        &DECLARED
    }

    fn plan(&self, setup: &OutputSetup<'_>) -> Result<Option<Box<dyn Plan>>, Refusal> {
        let section: Section = section::read(SECTION, setup.section)?;
        Ok(Some(Box::new(LinePlan(section.file))))
    }
}

struct LinePlan(PathBuf);

impl Plan for LinePlan {
    fn claims(&self) -> Vec<Claim> {
        vec![Claim::Written("output.pulses.file", self.0.clone())]
    }

    fn open(&mut self, _: &Opening) -> Result<Opened, OutputOpenError> {
        let sink = LineSink::create(&self.0)
            .map_err(|e| OutputOpenError(format!("pulses {}: {e}", self.0.display())))?;
        let facts = vec![format!("output pulses {}", self.0.display())];
        let sink: Box<dyn Sink> = Box::new(sink);
        Ok(Opened { facts, ..sink.into() })
    }
}

/// Writes the lines.
pub struct LineSink {
    file: BufWriter<File>,
    path: PathBuf,
    sheet: Arc<Sheet>,
    safe: SafeBatches,
}

impl LineSink {
    /// Creates the file, which must not exist, not even as a link.
    pub fn create(path: &FilePath) -> std::io::Result<LineSink> {
        let file = BufWriter::new(newfile::create(path)?);
        let (sheet, safe) = (Sheet::new(Count::catalogue()), SafeBatches::default());
        Ok(LineSink { file, path: path.to_owned(), sheet, safe })
    }

    /// Writes the lines to the file; their events are safe then.
    fn flush(&mut self) -> Result<(), SinkError> {
        self.file.flush().map_err(|e| self.failed(&e))?;
        self.safe.reached(self.sheet.get(Count::Lines as usize));
        Ok(())
    }

    fn failed(&self, e: &std::io::Error) -> SinkError {
        SinkError { sink: "pulses", message: format!("{}: {e}", self.path.display()) }
    }
}

impl Sink for LineSink {
    fn name(&self) -> &'static str {
        "pulses"
    }

    fn required(&self) -> bool {
        true
    }

    fn push(&mut self, products: &Arc<Products>) -> Result<(), SinkError> {
        let events = &products.events;
        self.sheet.add(Count::In as usize, events.len() as u64);
        let ends = events.pulse_first.iter().skip(1).map(|&first| first as usize);
        let ends = ends.chain([events.len()]);
        for ((pulse, &first), end) in events.pulse_ns.iter().zip(&events.pulse_first).zip(ends) {
            let count = end - first as usize;
            writeln!(self.file, "{pulse},{count}").map_err(|e| self.failed(&e))?;
            self.sheet.add(Count::Counted as usize, count as u64);
            self.sheet.add(Count::Lines as usize, 1);
        }
        self.safe.took(products.complete, self.sheet.get(Count::Lines as usize));
        Ok(())
    }

    fn safe(&self, pipeline: u32) -> u64 {
        self.safe.upto(pipeline)
    }

    fn tick(&mut self, _: Duration) -> Result<(), SinkError> {
        self.flush()
    }

    fn finish(&mut self) -> Result<Report, SinkError> {
        self.flush()?;
        let events = self.sheet.get(Count::Counted as usize);
        let bytes = self.path.metadata().map_or(0, |m| m.len());
        let place = self.path.display().to_string();
        Ok(Report { place, events, bytes, ..Report::default() })
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_core::conformance::OutputCase;
    use fullcount_core::time::PulseTime;

    #[test]
    fn it_passes_the_suite_that_every_output_must_pass() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pulses.csv");
        let mut sink = LineSink::create(&path).unwrap();
        let fill = |products: &mut Products, n: u64| {
            products.events.open_pulse(PulseTime(1000 * n as i64));
            products.events.push(1, 1);
        };
        let mut kept = || std::fs::read_to_string(&path).unwrap().lines().count() as u64;
        let case = OutputCase { sink: &mut sink, fill: &fill, kept: &mut kept, at_close: false };
        fullcount_core::conformance::output(case).unwrap();
        assert!(LineSink::create(&path).is_err(), "a file that is there stays");
    }
}
