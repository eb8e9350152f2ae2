//! Writes records: heads from a buffer, bytes of fragments from where they were received.
//!
//! Counts events given, those in the file, and after a failure those that are not.

use std::fs::File;
use std::io::{IoSlice, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::ledger::Sheet;
use fullcount_core::products::{Products, Want};
use fullcount_core::progress::SafeBatches;
use fullcount_core::records::EventRecords;
use fullcount_core::sink::{Load, Report, Sink, SinkError};

use crate::building::{Building, BuildingError, Leftover, inspect, landing};
use crate::lock::{LockFound, alone};

/// First bytes of a file: name and version of its layout.
pub const FILE_MAGIC: [u8; 8] = *b"FCREC\0\0\x01";
/// Ends the name of a file that is not whole yet.
const PART: &str = ".part";
/// Pieces that one call writes; the kernel takes 1024.
const PIECES: usize = 1024;
/// Fills fragments up to a multiple of 8.
const ZEROS: [u8; 8] = [0; 8];

fullcount_core::counters! {
    /// Lines of the output.
    pub enum RecordCounter {
        In "sink.records.in" Events Sum "sink.records" In "events given to the file of records" "";
        Events "sink.records.events" Events Sum "sink.records" Accepted "events in the file" "";
        Unwritten "sink.records.unwritten" Events Sum "sink.records" Dropped(Down)
            "events taken but not in the file because writing failed"
            "free space on the disk or choose another path; the .part file has the records before";
        Incomplete "sink.records.incomplete" Events Sum "sink.records" Note
            "of the events in the file: those without all their fragments, flagged" "";
        Bytes "sink.records.bytes" Bytes Sum "sink.records" Note "bytes of the file" "";
    }
}

enum State {
    Open(File, Building),
    Closed(Report),
    Failed(String),
}

/// The file. A required sink.
pub struct RecordSink {
    state: State,
    path: PathBuf,
    overwrite: bool,
    heads: Vec<u8>,
    sheet: Arc<Sheet>,
    safe: SafeBatches,
}

fn words(e: BuildingError) -> String {
    match e {
        BuildingError::Path { path, fault } => format!("{}: {fault}", path.display()),
        BuildingError::InUse { path } => format!("{}: another process writes it", path.display()),
        BuildingError::Left { path } => {
            format!("{}: a killed run left it; move it away, or set overwrite", path.display())
        }
        BuildingError::Io { path, doing, source } => {
            format!("{}: cannot {doing}: {source}", path.display())
        }
    }
}

impl RecordSink {
    /// Makes the file.
    ///
    /// # Errors
    /// The path cannot hold a file, or holds one that is to stay.
    pub fn create(path: &Path, overwrite: bool) -> Result<RecordSink, String> {
        let path = landing(path);
        inspect(&path).map_err(words)?;
        let system =
            |doing: &str, e: std::io::Error| format!("{}: cannot {doing}: {e}", path.display());
        match alone(&path).map_err(|e| system("look at the existing file", e))? {
            LockFound::Nothing => {}
            LockFound::Free(_) if overwrite => {}
            LockFound::Free(_) => {
                return Err(format!(
                    "{}: the file is there; set overwrite, or choose another path",
                    path.display()
                ));
            }
            LockFound::InUse => return Err(words(BuildingError::InUse { path })),
        }
        let left = if overwrite { Leftover::Removed } else { Leftover::Kept };
        let mut building = Building::reserve(&path, PART, left).map_err(words)?;
        let mut file = building.handle().map_err(|e| system("open the file", e))?;
        file.write_all(&FILE_MAGIC).map_err(|e| system("write", e))?;
        building.keep();
        let sheet = Sheet::new(RecordCounter::catalogue());
        sheet.set(RecordCounter::Bytes as usize, FILE_MAGIC.len() as u64);
        let (state, heads, safe) =
            (State::Open(file, building), Vec::new(), SafeBatches::default());
        Ok(RecordSink { state, path, overwrite, heads, sheet, safe })
    }

    fn add(&self, line: RecordCounter, n: u64) {
        self.sheet.add(line as usize, n);
    }

    fn error(&self, message: String) -> SinkError {
        SinkError { sink: "records", message }
    }

    fn fail(&mut self, doing: &str, e: &std::io::Error) -> SinkError {
        let get = |line: RecordCounter| self.sheet.get(line as usize);
        let unwritten = get(RecordCounter::In) - get(RecordCounter::Events);
        self.sheet.set(RecordCounter::Unwritten as usize, unwritten);
        let message = format!("{}{PART}: cannot {doing}: {e}", self.path.display());
        self.state = State::Failed(message.clone());
        self.error(message)
    }
}

/// Writes all of it.
fn write_all(file: &mut File, mut slices: &mut [IoSlice<'_>]) -> std::io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match file.write_vectored(&slices[..slices.len().min(PIECES)]) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut slices, n),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Writes all events.
fn write(file: &mut File, heads: &mut Vec<u8>, records: &EventRecords) -> std::io::Result<()> {
    heads.clear();
    let mut ends = Vec::with_capacity(records.len());
    for event in 0..records.len() {
        records.head(event, heads);
        ends.push(heads.len());
    }
    let mut slices = Vec::with_capacity(records.len() + 2 * records.piece_count());
    let mut begin = 0;
    for (event, end) in ends.into_iter().enumerate() {
        slices.push(IoSlice::new(&heads[std::mem::replace(&mut begin, end)..end]));
        for part in records.parts(event) {
            let mut len = 0;
            for piece in records.pieces(part).filter(|piece| !piece.is_empty()) {
                len += piece.len();
                slices.push(IoSlice::new(piece));
            }
            if len % 8 > 0 {
                slices.push(IoSlice::new(&ZEROS[..8 - len % 8]));
            }
        }
    }
    write_all(file, &mut slices)
}

impl Sink for RecordSink {
    fn name(&self) -> &'static str {
        "records"
    }

    fn required(&self) -> bool {
        true
    }

    fn want(&self) -> Want {
        Want { records: true, ..Want::default() }
    }

    fn load(&self) -> Load {
        Load { of: |products| products.records.len() as u64, ..Load::EVENTS }
    }

    fn push(&mut self, products: &Arc<Products>) -> Result<(), SinkError> {
        let records = &products.records;
        let n = records.len() as u64;
        self.add(RecordCounter::In, n);
        let written = match &mut self.state {
            State::Open(file, _) => write(file, &mut self.heads, records),
            State::Closed(_) => return Err(self.error("the file is closed".into())),
            State::Failed(message) => {
                let message = message.clone();
                return Err(self.error(message));
            }
        };
        written.map_err(|e| self.fail("write", &e))?;
        self.add(RecordCounter::Events, n);
        let size: usize = (0..records.len()).map(|event| records.size(event)).sum();
        self.add(RecordCounter::Bytes, size as u64);
        let flag = fullcount_core::records::flags::MISSING;
        let incomplete = records.flags.iter().filter(|of| **of & flag != 0).count();
        self.add(RecordCounter::Incomplete, incomplete as u64);
        // Written is safe: a killed process loses nothing that the kernel has.
        let events = self.sheet.get(RecordCounter::Events as usize);
        self.safe.took(products.complete, events);
        self.safe.reached(events);
        Ok(())
    }

    fn safe(&self, pipeline: u32) -> u64 {
        self.safe.upto(pipeline)
    }

    fn tick(&mut self, _: Duration) -> Result<(), SinkError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<Report, SinkError> {
        let failed = State::Failed("closing failed".into());
        match std::mem::replace(&mut self.state, failed) {
            State::Open(file, mut building) => {
                let moved = file.sync_data().and_then(|()| match self.overwrite {
                    true => building.move_to(&self.path),
                    false => building.move_to_free(&self.path),
                });
                moved.map_err(|e| self.fail("give the finished file its name", &e))?;
            }
            State::Closed(report) => {
                self.state = State::Closed(report.clone());
                return Ok(report);
            }
            State::Failed(message) => {
                self.state = State::Failed(message.clone());
                return Err(self.error(message));
            }
        }
        let get = |line: RecordCounter| self.sheet.get(line as usize);
        let (events, bytes) = (get(RecordCounter::Events), get(RecordCounter::Bytes));
        let place = self.path.display().to_string();
        let report = Report { place, events, bytes, ..Report::default() };
        self.state = State::Closed(report.clone());
        Ok(report)
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }
}

#[cfg(test)]
mod tests {
    use fullcount_core::conformance::OutputCase;
    use fullcount_core::records::{RecordPart, RecordPiece};

    use super::*;

    fn fill(products: &mut Products, n: u64) {
        let memory: Arc<[u8]> = vec![n as u8; 12].into();
        products.records.begin(n);
        products.records.part(RecordPart { source: 5, flags: 0 });
        for (start, len) in [(0, 4), (4, 0), (4, 8 - (n % 2) as u32)] {
            products.records.piece(&RecordPiece { memory: memory.clone(), start, len });
        }
        products.records.end(7, 0);
    }

    /// Whole records of a file, by their lengths.
    fn records(path: &Path) -> Vec<Vec<u8>> {
        let bytes = std::fs::read(path).unwrap_or_default();
        let Some(mut rest) = bytes.strip_prefix(&FILE_MAGIC) else { return Vec::new() };
        let mut all = Vec::new();
        while rest.len() >= 40 {
            let size = u64::from_le_bytes(rest[24..32].try_into().unwrap()) as usize;
            let Some((record, more)) = rest.split_at_checked(size) else { break };
            all.push(record.to_vec());
            rest = more;
        }
        all
    }

    #[test]
    fn it_passes_the_suite_and_the_file_is_what_the_records_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.rec");
        let mut sink = RecordSink::create(&path, false).unwrap();
        let (part, whole) = (folder.path().join("a.rec.part"), path.clone());
        let mut kept = || records(&part).len().max(records(&whole).len()) as u64;
        let case = OutputCase { sink: &mut sink, fill: &fill, kept: &mut kept, at_close: false };
        fullcount_core::conformance::output(case).unwrap();
        let mut products = Products::default();
        fill(&mut products, 0);
        fill(&mut products, 1);
        for (event, record) in records(&path).iter().take(2).enumerate() {
            let mut expected = Vec::new();
            products.records.write(event, &mut expected);
            assert_eq!(*record, expected);
        }
        assert!(!folder.path().join("a.rec.part").exists());
    }

    #[test]
    fn files_that_are_there_stay_unless_they_may_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.rec");
        std::fs::write(&path, "mine").unwrap();
        assert!(RecordSink::create(&path, false).err().unwrap().contains("the file is there"));
        let mut sink = RecordSink::create(&path, true).unwrap();
        assert!(RecordSink::create(&path, true).err().unwrap().contains("another process"));
        sink.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), FILE_MAGIC);
    }
}
