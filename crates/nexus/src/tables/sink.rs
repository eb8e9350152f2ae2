//! The sink: collects rows to blocks, hands them to the file, flushes on time, closes.
//!
//! Counts rows that were given, those that a reader will find, those in memory, and after a failure those that are
//! lost. Every row of its tables goes into the file.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::ledger::{Info, Merge, Place, Role, Sheet, Unit};
use fullcount_core::products::{Products, Want};
use fullcount_core::progress::{Flush, SafeBatches};
use fullcount_core::tables::Table;

use super::block::Block;
use super::error::{TableError, library_error};
use super::hdf5::{self, Hdf5};
use super::options::{TableFormat, TableOptions, TableOutput};
use super::parquet::{GROUP_ROWS, ParquetFile};
use super::part::Part;
use fullcount_core::sink::{Load, Report, Sink, SinkError};

/// Time between two flushes of an HDF5 file: the most that a kill can lose. As for NeXus files.
const FLUSH: Duration = Duration::from_secs(2);

const IN: usize = 0;
const ROWS: usize = 1;
const WAITING: usize = 2;
const UNWRITTEN: usize = 3;
const FLUSHES: usize = 4;

impl TableOutput {
    /// Lines of the ledger, in the order of their numbers.
    pub fn catalogue(self) -> Vec<Info> {
        let name = self.name();
        let line = |what: &str, unit, role, meaning: String, todo: &'static str| Info {
            name: format!("sink.{name}.{what}").into(),
            unit,
            merge: Merge::Sum,
            hop: format!("sink.{name}").into(),
            role,
            meaning: meaning.into(),
            todo: Cow::Borrowed(todo),
        };
        let rows = |what, role, meaning, todo| line(what, Unit::Rows, role, meaning, todo);
        let lost = "free space on the disk or choose another path; a .part file in HDF5 has the rows up to its last flush";
        vec![
            rows("in", Role::In, format!("rows given to the tables of {name}"), ""),
            rows(
                "rows",
                Role::Accepted,
                format!("rows of {name} that a reader of the file finds"),
                "",
            ),
            rows("waiting", Role::Queued, format!("rows of {name} on their way to the file"), ""),
            rows(
                "unwritten",
                Role::Dropped(Place::Down),
                format!("rows of {name} taken but not in a readable file because writing failed"),
                lost,
            ),
            line("flushes", Unit::Times, Role::Note, format!("flushes of the file of {name}"), ""),
        ]
    }
}

/// Origin of the data, stored in every file.
pub(super) fn facts(options: &TableOptions) -> Vec<(&'static str, String)> {
    vec![
        ("creator", concat!("fullcount ", env!("CARGO_PKG_VERSION")).to_owned()),
        ("format", "fullcount/tables/1".to_owned()),
        ("detector", options.detector.clone()),
        ("configuration", options.configuration.clone()),
    ]
}

/// The file of one or more tables.
#[derive(Debug)]
enum Writer {
    Hdf5(Hdf5),
    Parquet(Box<ParquetFile>),
}

/// A table and its file.
#[derive(Debug)]
struct Stream {
    table: Table,
    block: Block,
    /// Handed to the file's library.
    written: u64,
}

/// An open file with its tables.
#[derive(Debug)]
struct Target {
    // Closed before its place is given up.
    writer: Writer,
    streams: Vec<Stream>,
    part: Part,
}

impl Target {
    fn create(path: &Path, tables: &[Table], options: &TableOptions) -> Result<Target, TableError> {
        let part = Part::reserve(path, options)?;
        let (place, doing) = (part.place(), "create the file");
        let format = TableFormat::of(path);
        let writer = match (format, tables) {
            (Some(TableFormat::Parquet), [table]) => {
                let file = part.handle()?;
                let made = ParquetFile::create(file, *table, options);
                Writer::Parquet(Box::new(made.map_err(library_error(place, doing))?))
            }
            _ => Writer::Hdf5(Hdf5::create(place, tables, options)?),
        };
        let stream = |&table| Stream { table, block: Block::new(table), written: 0 };
        Ok(Target { writer, streams: tables.iter().map(stream).collect(), part })
    }

    fn push(&mut self, products: &Products) -> Result<u64, TableError> {
        let mut taken = 0;
        for at in 0..self.streams.len() {
            let table = self.streams[at].table;
            let rows = table.rows(products);
            if rows == 0 {
                continue;
            }
            self.part.keep();
            let values = table.values(products);
            let mut from = 0;
            while from < rows {
                let room = self.room(at) - self.streams[at].block.rows();
                let to = rows.min(from + room);
                self.streams[at].block.extend(&values, from, to);
                if to - from == room {
                    self.write(at)?;
                }
                from = to;
            }
            taken += rows as u64;
        }
        Ok(taken)
    }

    /// Rows of the next block, of which some may be there already.
    fn room(&self, at: usize) -> usize {
        match &self.writer {
            Writer::Hdf5(file) => file.room(at),
            Writer::Parquet(_) => GROUP_ROWS,
        }
    }

    fn write(&mut self, at: usize) -> Result<(), TableError> {
        let stream = &mut self.streams[at];
        if stream.block.rows() == 0 {
            return Ok(());
        }
        let (place, doing) = (self.part.place(), "write rows");
        match &mut self.writer {
            Writer::Hdf5(file) => {
                file.append(at, &stream.block).map_err(library_error(place, doing))?;
            }
            Writer::Parquet(file) => {
                file.append(&stream.block).map_err(library_error(place, doing))?;
            }
        }
        stream.written += stream.block.rows() as u64;
        stream.block.clear();
        Ok(())
    }

    /// Rows that a reader would find now.
    fn flush(&mut self) -> Result<u64, TableError> {
        if let Writer::Parquet(_) = self.writer {
            // Without the closing entries nothing can be read, and small groups make large files.
            return Ok(0);
        }
        for at in 0..self.streams.len() {
            self.write(at)?;
        }
        if let Writer::Hdf5(file) = &mut self.writer {
            file.flush().map_err(library_error(self.part.place(), "flush the rows"))?;
        }
        Ok(self.streams.iter().map(|s| s.written).sum())
    }

    /// Closes the file and gives it its name.
    fn close(mut self) -> Result<Report, TableError> {
        for at in 0..self.streams.len() {
            self.write(at)?;
        }
        let Target { writer, streams, mut part } = self;
        part.keep();
        let place = part.place();
        let tables: Vec<Table> = streams.iter().map(|s| s.table).collect();
        let found = match writer {
            Writer::Hdf5(mut file) => {
                file.flush().map_err(library_error(place, "flush the rows"))?;
                file.close().map_err(library_error(place, "close the file"))?;
                hdf5::rows(place, &tables).map_err(library_error(place, "read the closed file"))?
            }
            Writer::Parquet(file) => {
                vec![file.close().map_err(library_error(place, "close the file"))?]
            }
        };
        for (stream, &found) in streams.iter().zip(&found) {
            if found != stream.written {
                let (path, table) = (place.to_owned(), stream.table.name());
                return Err(TableError::Count { path, table, found, written: stream.written });
            }
        }
        let bytes = part.finish()?;
        let rows = streams.iter().map(|s| (s.table.name(), s.written)).collect();
        Ok(Report { place: part.path().display().to_string(), bytes, rows, ..Report::default() })
    }
}

#[derive(Debug)]
enum State {
    Open(Vec<Target>),
    Closed(Report),
    Failed(String),
}

/// Writes the tables of one output. A required sink.
#[derive(Debug)]
pub struct TableSink {
    state: State,
    output: TableOutput,
    tables: Vec<Table>,
    sheet: Arc<Sheet>,
    last_flush: Duration,
    /// Places are rows that readers find.
    safe: SafeBatches,
}

impl TableSink {
    /// Makes the file or files.
    ///
    /// # Errors
    /// A name whose ending says no format, a path that cannot hold a file or holds one, or words of the system.
    pub fn create(options: &TableOptions) -> Result<TableSink, TableError> {
        let (output, path) = (options.output, &options.path);
        let format = TableFormat::of(path)
            .ok_or_else(|| TableError::Ending { key: output.key(), path: path.clone() })?;
        let files = format.files(path, &options.tables);
        let make = |(path, tables): &(PathBuf, Vec<Table>)| Target::create(path, tables, options);
        let targets = files.iter().map(make).collect::<Result<Vec<_>, _>>()?;
        Ok(TableSink {
            state: State::Open(targets),
            output,
            tables: options.tables.clone(),
            sheet: Sheet::new(output.catalogue()),
            last_flush: Duration::ZERO,
            safe: SafeBatches::default(),
        })
    }

    /// Writes everything taken so far, at once.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn flush(&mut self) -> Result<(), SinkError> {
        let sheet = self.sheet.clone();
        self.with_targets(|targets| {
            let mut rows = 0;
            for target in targets {
                rows += target.flush()?;
            }
            sheet.set(ROWS, rows);
            sheet.set(WAITING, sheet.get(IN) - rows);
            sheet.add(FLUSHES, u64::from(rows > 0));
            Ok(())
        })?;
        self.safe.reached(self.sheet.get(ROWS));
        Ok(())
    }

    fn with_targets(
        &mut self,
        work: impl FnOnce(&mut [Target]) -> Result<(), TableError>,
    ) -> Result<(), SinkError> {
        let result = match &mut self.state {
            State::Open(targets) => work(targets),
            State::Closed(report) => {
                let message = format!("{}: the file is closed", report.place);
                return Err(self.error(message));
            }
            State::Failed(message) => {
                let message = message.clone();
                return Err(self.error(message));
            }
        };
        result.map_err(|e| self.fail(&e))
    }

    fn error(&self, message: String) -> SinkError {
        SinkError { sink: self.output.name(), message }
    }

    /// From here on every call fails with the first error; what no reader finds is counted as lost.
    fn fail(&mut self, error: &TableError) -> SinkError {
        self.sheet.set(WAITING, 0);
        self.sheet.set(UNWRITTEN, self.sheet.get(IN) - self.sheet.get(ROWS));
        self.state = State::Failed(error.to_string());
        self.error(error.to_string())
    }

    fn close(&mut self, targets: Vec<Target>) -> Result<Report, TableError> {
        let mut report = Report::default();
        for target in targets {
            let Report { place, bytes, rows, .. } = target.close()?;
            let more = !report.place.is_empty();
            report.place += if more { ", " } else { "" };
            report.place += &place;
            report.bytes += bytes;
            report.rows.extend(rows);
            self.sheet.set(ROWS, report.rows.iter().map(|(_, rows)| rows).sum());
        }
        Ok(report)
    }
}

impl Sink for TableSink {
    fn name(&self) -> &'static str {
        self.output.name()
    }

    fn required(&self) -> bool {
        true
    }

    fn want(&self) -> Want {
        Want {
            hits: self.tables.contains(&Table::Amplitudes),
            strip_hits: self.tables.contains(&Table::StripHits),
            module_hits: self.tables.contains(&Table::ModuleHits),
            clusters: self.output == TableOutput::Clusters,
            ..Want::default()
        }
    }

    fn load(&self) -> Load {
        let of: fn(&Products) -> u64 = match (self.output, self.tables.first()) {
            (TableOutput::Hits, Some(Table::Amplitudes)) => |p| Table::Amplitudes.rows(p) as u64,
            (TableOutput::Hits, Some(Table::ModuleHits)) => |p| Table::ModuleHits.rows(p) as u64,
            (TableOutput::Hits, _) => |p| Table::StripHits.rows(p) as u64,
            (TableOutput::Clusters, _) => {
                |p| (Table::PlaneClusters.rows(p) + Table::DetectorClusters.rows(p)) as u64
            }
        };
        Load { unit: Unit::Rows, of }
    }

    fn push(&mut self, products: &Arc<Products>) -> Result<(), SinkError> {
        let sheet = self.sheet.clone();
        let given = (self.load().of)(products);
        self.with_targets(|targets| {
            sheet.add(IN, given);
            sheet.add(WAITING, given);
            targets.iter_mut().try_for_each(|target| target.push(products).map(drop))
        })?;
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
        if self.sheet.get(WAITING) == 0 {
            self.safe.reached(self.sheet.get(ROWS));
            return Ok(());
        }
        self.flush()
    }

    fn finish(&mut self) -> Result<Report, SinkError> {
        let closing = State::Failed("closing failed".to_owned());
        let targets = match std::mem::replace(&mut self.state, closing) {
            State::Open(targets) => targets,
            State::Closed(report) => {
                self.state = State::Closed(report.clone());
                return Ok(report);
            }
            State::Failed(message) => {
                self.state = State::Failed(message.clone());
                return Err(self.error(message));
            }
        };
        match self.close(targets) {
            Ok(report) => {
                self.sheet.set(WAITING, 0);
                self.safe.reached(u64::MAX);
                self.state = State::Closed(report.clone());
                Ok(report)
            }
            Err(e) => Err(self.fail(&e)),
        }
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }
}

impl Drop for TableSink {
    /// A sink that is dropped without `finish` (a panic elsewhere) still closes its files if they hold rows.
    fn drop(&mut self) {
        if matches!(&self.state, State::Open(_)) && self.sheet.get(IN) > 0 {
            // The error cannot be reported any more; flushed data stays readable.
            let _ = self.finish();
        }
    }
}
