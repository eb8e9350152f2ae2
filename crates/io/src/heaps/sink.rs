//! The sink of heaps over any form of file: which array a value belongs to, limits, counters, flushes on time.
//!
//! Refuses arrays beyond the limits; a file that cannot be written ends the output. Source: `docs/contracts.md`, "Sinks and overload".

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::heaps::{HeapProduct, ItemProduct};
use fullcount_core::ledger::{Info, Merge, Place, Role, Sheet, Unit};
use fullcount_core::products::{Products, Want};
use fullcount_core::progress::{Flush, SafeBatches};
use fullcount_core::sink::{Load, Report, Sink, SinkError};
use fullcount_spead::describe::NumpyHeader;

use super::safe_name;

/// Time between two flushes: the most that a kill can lose.
const FLUSH: Duration = Duration::from_secs(2);
/// Pairs of name and type that are remembered, those that were refused included.
const MOST_KNOWN: usize = 4096;

const IN: usize = 0;
const WRITTEN: usize = 1;
const WAITING: usize = 2;
const UNWRITTEN: usize = 3;
const OVER_LIMIT: usize = 4;
const INCOMPLETE: usize = 5;
const ARRAYS: usize = 6;
const VALUES: usize = 7;
const REFUSED: usize = 8;

/// Lines of the ledger of an output of this name.
pub fn heap_lines(name: &'static str) -> Vec<Info> {
    let line = |what: &str, unit, role, meaning: &str, todo: &'static str| Info {
        name: format!("sink.{name}.{what}").into(),
        unit,
        merge: Merge::Sum,
        hop: format!("sink.{name}").into(),
        role,
        meaning: meaning.to_owned().into(),
        todo: Cow::Borrowed(todo),
    };
    let (heaps, disk) = (Unit::Messages, "free space on the disk or choose another path");
    let fewer = "name the wanted arrays in detector.items";
    vec![
        line("in", heaps, Role::In, "heaps given to this output", ""),
        line("heaps", heaps, Role::Accepted, "heaps that a reader of the files finds", ""),
        line("waiting", heaps, Role::Queued, "heaps on their way to the files", ""),
        line(
            "unwritten",
            heaps,
            Role::Dropped(Place::Down),
            "heaps taken but in no readable file because writing failed",
            disk,
        ),
        line(
            "over_limit",
            heaps,
            Role::Dropped(Place::Queue),
            "heaps that were not written because the files had max_bytes",
            "raise max_bytes, or end the run earlier",
        ),
        line(
            "incomplete",
            heaps,
            Role::Note,
            "of the heaps given: those with missing bytes, flagged in the table",
            "",
        ),
        line("arrays", Unit::Times, Role::Note, "arrays that were begun", ""),
        line("values", Unit::Rows, Role::Note, "rows written to arrays", ""),
        line("refused", Unit::Rows, Role::Note, "rows of arrays beyond max_arrays", fewer),
    ]
}

/// One heap, as its table has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapRow {
    /// Number, as its sender gave it.
    pub number: u64,
    /// When its first packet came, ns since 1970; 0: unknown.
    pub time_ns: i64,
    /// Bytes of its payload; −1: unknown.
    pub length: i64,
    /// Bytes that are there.
    pub received: u64,
    /// Bytes that are missing.
    pub missing: u64,
    /// Nothing is missing.
    pub complete: bool,
}

impl HeapRow {
    fn of(heap: &HeapProduct) -> HeapRow {
        HeapRow {
            number: heap.number,
            time_ns: heap.time_ns,
            length: heap.length.map_or(-1, |length| length as i64),
            received: heap.received,
            missing: heap.missing.iter().map(|gap| gap.end - gap.start).sum(),
            complete: heap.complete,
        }
    }
}

/// Files that arrays go to. Every message names the path.
pub trait HeapWriter: Send {
    /// Begins an array under a safe name that is free: of this type, with rows of this shape. It has the next number from 0 on.
    ///
    /// # Errors
    /// The system's or the library's words.
    fn begin(&mut self, name: &str, item: &ItemProduct, of: &NumpyHeader) -> Result<(), String>;

    /// Appends a row to an array, of the heap in this row of the table. Returns the bytes written.
    ///
    /// # Errors
    /// The system's or the library's words.
    fn append(
        &mut self,
        array: usize,
        heap: u64,
        of: &NumpyHeader,
        bytes: &[u8],
    ) -> Result<u64, String>;

    /// Appends a heap to the table, with what is missing of it.
    ///
    /// # Errors
    /// The system's or the library's words.
    fn heap(&mut self, row: HeapRow, missing: &[Range<u64>]) -> Result<(), String>;

    /// A reader finds everything from here on.
    ///
    /// # Errors
    /// The system's or the library's words.
    fn flush(&mut self) -> Result<(), String>;

    /// Closes the files under their own names. Returns where they are, and how many bytes they have.
    ///
    /// # Errors
    /// The system's or the library's words.
    fn close(&mut self) -> Result<(String, u64), String>;
}

/// How much is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapLimits {
    /// Arrays at most.
    pub arrays: usize,
    /// Bytes of all files at most; `None`: as many as the disk has.
    pub bytes: Option<u64>,
}

enum State<W> {
    Open(W),
    Closed(Report),
    Failed(String),
}

/// An array of the files.
struct Known {
    array: usize,
    of: NumpyHeader,
}

/// Writes heaps. A required sink.
pub struct HeapSink<W> {
    name: &'static str,
    state: State<W>,
    sheet: Arc<Sheet>,
    limits: HeapLimits,
    /// By name and type; `None`: beyond the limit, or no array.
    known: HashMap<(Arc<str>, Arc<str>), Option<Known>>,
    names: HashMap<String, u32>,
    arrays: usize,
    rows: u64,
    bytes: u64,
    last_flush: Duration,
    safe: SafeBatches,
}

impl<W: HeapWriter> HeapSink<W> {
    /// An output of this name over opened files.
    pub fn new(name: &'static str, writer: W, limits: HeapLimits) -> HeapSink<W> {
        HeapSink {
            name,
            state: State::Open(writer),
            sheet: Sheet::new(heap_lines(name)),
            limits,
            known: HashMap::new(),
            // The table of heaps, and what is missing of them.
            names: ["heaps", "missing"].map(|name| (name.to_owned(), 0)).into(),
            arrays: 0,
            rows: 0,
            bytes: 0,
            last_flush: Duration::ZERO,
            safe: SafeBatches::default(),
        }
    }

    fn error(&self, message: String) -> SinkError {
        SinkError { sink: self.name, message }
    }

    /// From here on every call fails with the first error; what no reader finds is counted as lost.
    fn fail(&mut self, message: String) -> SinkError {
        self.sheet.set(WAITING, 0);
        let there = self.sheet.get(WRITTEN) + self.sheet.get(OVER_LIMIT);
        self.sheet.set(UNWRITTEN, self.sheet.get(IN) - there);
        self.state = State::Failed(message.clone());
        self.error(message)
    }

    fn with<T>(&mut self, work: impl FnOnce(&mut W) -> Result<T, String>) -> Result<T, SinkError> {
        let result = match &mut self.state {
            State::Open(writer) => work(writer),
            State::Closed(report) => {
                let message = format!("{}: the files are closed", report.place);
                return Err(self.error(message));
            }
            State::Failed(message) => {
                let message = message.clone();
                return Err(self.error(message));
            }
        };
        result.map_err(|message| self.fail(message))
    }

    /// A name that no other array has.
    fn free_name(&mut self, item: &ItemProduct) -> String {
        let stem = safe_name(&item.name);
        loop {
            let again = self.names.entry(stem.clone()).or_insert(0);
            let name = if *again == 0 { stem.clone() } else { format!("{stem}.{again}") };
            *again += 1;
            if name == stem && ["heaps", "missing"].contains(&name.as_str()) {
                continue;
            }
            if name == stem || !self.names.contains_key(&name) {
                return name;
            }
        }
    }

    /// The array of an item, made if it is new and there is room.
    fn array(&mut self, item: &ItemProduct) -> Result<bool, SinkError> {
        let key = (item.name.clone(), item.header.clone());
        if let Some(known) = self.known.get(&key) {
            return Ok(known.is_some());
        }
        if self.known.len() >= MOST_KNOWN {
            return Ok(false);
        }
        let of = NumpyHeader::parse(&item.header).ok().filter(|_| self.arrays < self.limits.arrays);
        let Some(of) = of else {
            self.known.insert(key, None);
            return Ok(false);
        };
        let name = self.free_name(item);
        self.with(|writer| writer.begin(&name, item, &of))?;
        self.known.insert(key, Some(Known { array: self.arrays, of }));
        self.arrays += 1;
        self.sheet.add(ARRAYS, 1);
        Ok(true)
    }

    fn heap(&mut self, heap: &HeapProduct) -> Result<(), SinkError> {
        self.sheet.add(IN, 1);
        self.sheet.add(INCOMPLETE, u64::from(!heap.complete));
        let more = heap.bytes() as u64;
        if self.limits.bytes.is_some_and(|most| self.bytes + more > most) {
            self.sheet.add(OVER_LIMIT, 1);
            return Ok(());
        }
        self.sheet.add(WAITING, 1);
        let row = self.rows;
        for item in &heap.items {
            if !self.array(item)? {
                self.sheet.add(REFUSED, 1);
                continue;
            }
            let key = (item.name.clone(), item.header.clone());
            let Some(Some(known)) = self.known.remove(&key) else { continue };
            let bytes = item.bytes.as_slice();
            let written = self.with(|writer| writer.append(known.array, row, &known.of, bytes));
            self.known.insert(key, Some(known));
            self.bytes += written?;
            self.sheet.add(VALUES, 1);
        }
        self.with(|writer| writer.heap(HeapRow::of(heap), &heap.missing))?;
        self.rows += 1;
        Ok(())
    }

    /// Writes everything taken so far.
    fn flush(&mut self) -> Result<(), SinkError> {
        self.with(HeapWriter::flush)?;
        self.sheet.set(WRITTEN, self.rows);
        self.sheet.set(WAITING, 0);
        self.safe.reached(self.sheet.get(IN));
        Ok(())
    }
}

impl<W: HeapWriter> Sink for HeapSink<W> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn required(&self) -> bool {
        true
    }

    fn want(&self) -> Want {
        Want { heaps: true, ..Want::default() }
    }

    fn load(&self) -> Load {
        Load { unit: Unit::Messages, of: |products| products.heaps.len() as u64 }
    }

    fn push(&mut self, products: &Arc<Products>) -> Result<(), SinkError> {
        for heap in &products.heaps {
            self.heap(heap)?;
        }
        self.safe.took(products.complete, self.sheet.get(IN));
        if products.flush == Some(Flush::Taken) { self.flush() } else { Ok(()) }
    }

    fn safe(&self, pipeline: u32) -> u64 {
        self.safe.upto(pipeline)
    }

    fn tick(&mut self, since_start: Duration) -> Result<(), SinkError> {
        if since_start.saturating_sub(self.last_flush) < FLUSH {
            return Ok(());
        }
        self.last_flush = since_start;
        self.flush()
    }

    fn finish(&mut self) -> Result<Report, SinkError> {
        if let State::Closed(report) = &self.state {
            return Ok(report.clone());
        }
        let (place, bytes) = self.with(HeapWriter::close)?;
        self.sheet.set(WRITTEN, self.rows);
        self.sheet.set(WAITING, 0);
        self.safe.reached(u64::MAX);
        let rows = vec![("heaps", self.rows), ("values", self.sheet.get(VALUES))];
        let report = Report { place, events: self.rows, bytes, rows };
        self.state = State::Closed(report.clone());
        Ok(report)
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }
}

impl<W> Drop for HeapSink<W> {
    fn drop(&mut self) {
        // Files of a run that did not end stay under their unfinished names, with all rows up to the last flush.
        if let State::Open(_) = &self.state {
            self.sheet.add(UNWRITTEN, self.sheet.get(WAITING));
            self.sheet.set(WAITING, 0);
        }
    }
}
