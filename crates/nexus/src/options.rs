//! Options of a NeXus file, and the checks that open no file.
//!
//! Defaults follow `docs/formats/nexus.md` section 3, each with its reason there.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::time::{Nanos, TickLength};
use fullcount_core::view::PixelMap;
use fullcount_core::wall::WallClock;

use super::about::{About, line};
use super::deflate::VALUE;
use super::error::NexusError;
use super::events::CHUNK_PULSES;
use super::packers::BESIDE;
use fullcount_io::building::landing;
use fullcount_io::compression::Compression;

/// Most threads that compress.
const MOST_PACKERS: usize = 16;

/// Most bytes of chunks that are compressed or wait for it.
const MOST_PACKED: usize = 1 << 30;
/// Bytes that an entry of such a chunk takes: its value, and as much for what it becomes.
const PACKED_ENTRY: usize = 2 * VALUE;

/// What is below `/entry/instrument` beside the panel.
const TAKEN: [&str; 2] = ["source", "name"];

/// Name of the one attribute of `event_time_zero` that carries the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StartAttribute {
    /// `offset`: NeXus' name, and the one that Mantid reads.
    #[default]
    Offset,
    /// `start`: as the Kafka file writer of ESS does; Mantid then assumes 1970 with a warning.
    Start,
}

impl StartAttribute {
    /// The name in the file.
    pub fn name(self) -> &'static str {
        match self {
            StartAttribute::Offset => "offset",
            StartAttribute::Start => "start",
        }
    }
}

/// Stored type of `event_id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EventIdType {
    /// int32, as the existing writer.
    #[default]
    I32,
    /// uint32, for old versions of Mantid.
    U32,
}

/// Who compresses the columns of events. By turns at level 1 on one of two cores (`cargo bench -p fullcount-nexus --bench gzip`), by HDF5 and
/// directly: events as `lab bench write` makes them 86 and 726 MB/s, any pixels 90 and 995, a spot 97 and 858, packets of modules 115
/// and 354; with two threads on two cores 1.48 to 1.94 times that. Files are 0.99 to 1.02 times as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Threads of the output; finished chunks go past HDF5's filters into the file. Same filters in the file, and
    /// the same readers.
    Direct {
        /// Threads, 1 to 16. Each takes up to twice the bytes of a chunk, and so does each chunk that waits: 1 GiB at most.
        threads: usize,
    },
    /// HDF5, on the thread that writes.
    Hdf5,
}

impl Packing {
    /// Half of the cores compress: the others receive and decode. More than 4 no disk keeps up with.
    pub fn usual_threads() -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        (cores / 2).clamp(1, 4)
    }
}

impl Default for Packing {
    fn default() -> Packing {
        Packing::Direct { threads: Packing::usual_threads() }
    }
}

/// How large rows get to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DiskWay {
    /// Bypassing the page cache, on a separate thread, if the file system supports it; otherwise ordinary writes.
    #[default]
    Direct,
    /// Through the page cache, by HDF5.
    Cached,
}

/// What to do with a file that is at the path already. An empty file is always replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// A complete file is refused; one that a killed run left unfinished is recovered and renamed:
    /// `run.nxs` becomes `run.recovered-1.nxs` (the first free number).
    #[default]
    Refuse,
    /// Replaced, with any content, unless a living process has it open.
    Replace,
}

/// Everything a file is made with. [`NexusOptions::new`] gives the defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct NexusOptions {
    /// Path of the file; its directory must exist.
    pub path: PathBuf,
    /// What to do if it exists.
    pub existing: Existing,
    /// `/entry/title`.
    pub title: String,
    /// Run number, proposal, users, sample.
    pub about: About,
    /// `/entry/instrument/name`.
    pub instrument: String,
    /// Name of the NXdetector: letters, digits, `_`, `-`; default is the pixel map's name.
    pub panel: String,
    /// Pixel numbers and positions.
    pub pixels: PixelMap,
    /// Distance of the source from the sample, metres, against the beam; `None` if unknown (the source
    /// group then has no transformation, and readers put it at the origin).
    pub source_distance_m: Option<f64>,
    /// Length of the detector's tick.
    pub tick: TickLength,
    /// True if that length was assumed for want of a configured one.
    pub tick_assumed: bool,
    /// Time of the detector's tick 0, ns since 1970.
    pub epoch: Nanos,
    /// Pulse mode as configured: `data`, `grid(…)`, `none`.
    pub pulse_mode: String,
    /// Configuration as text.
    pub configuration: String,
    /// Geometry as text; default is the pixel map's source.
    pub geometry: String,
    /// Calibration as text.
    pub calibration: String,
    /// Version of the writing software.
    pub version: String,
    /// The detector's clock and the host's, where times are the host's: the file says how they are joined.
    pub wall: Option<Arc<WallClock>>,
    /// Name of the epoch's attribute.
    pub start_attribute: StartAttribute,
    /// Stored type of `event_id`.
    pub event_id: EventIdType,
    /// Filters.
    pub compression: Compression,
    /// How compression is done, if any.
    pub packing: Packing,
    /// How events without compression get to the disk. The page cache buffers events of a source that does not wait and
    /// is faster than the disk for some seconds; without the cache they would be lost.
    pub disk: DiskWay,
    /// Entries per chunk of the event datasets, 1 Ki to 64 Mi.
    pub chunk_events: usize,
    /// Entries per chunk of the pulse datasets, 64 to 1 Mi.
    pub chunk_pulses: usize,
    /// Time between flushes, 10 ms to 1 h.
    pub flush_interval: Duration,
    /// Events between cues, 1 or more.
    pub cue_interval: u64,
    /// Remove the write permission when the file is complete.
    pub read_only: bool,
    /// Start of the run, ns since 1970; `None`: the system's clock says start and end. If given, the end
    /// is the start plus the time of the last [`tick`](fullcount_core::sink::Sink::tick).
    pub start_time_ns: Option<i64>,
}

impl NexusOptions {
    /// The defaults for a file at `path` of a detector with `pixels`.
    pub fn new(path: impl Into<PathBuf>, pixels: PixelMap) -> NexusOptions {
        NexusOptions {
            path: path.into(),
            existing: Existing::default(),
            title: "Fullcount run".into(),
            about: About::default(),
            instrument: pixels.name.clone(),
            panel: pixels.name.clone(),
            geometry: pixels.source_text.clone(),
            pixels,
            source_distance_m: None,
            tick: TickLength::NANOSECOND,
            tick_assumed: true,
            epoch: Nanos(0),
            wall: None,
            pulse_mode: "none".into(),
            configuration: String::new(),
            calibration: String::new(),
            version: env!("CARGO_PKG_VERSION").into(),
            start_attribute: StartAttribute::default(),
            event_id: EventIdType::default(),
            compression: Compression::default(),
            packing: Packing::default(),
            disk: DiskWay::Cached,
            chunk_events: 1 << 20,
            chunk_pulses: CHUNK_PULSES,
            flush_interval: Duration::from_secs(2),
            cue_interval: 100_000_000,
            read_only: true,
            start_time_ns: None,
        }
    }

    /// Everything that can be refused before a file is opened; of the disk only links at the path are looked at.
    ///
    /// # Errors
    /// No pixels, a pixel map whose columns do not fit together, an option outside its range, a path that the library
    /// cannot open.
    pub fn validate(&self) -> Result<(), NexusError> {
        let map = &self.pixels;
        if map.is_empty() {
            return Err(NexusError::NoPixels);
        }
        self.validate_names()?;
        self.validate_map()?;
        line("title", &self.title)?;
        line("instrument", &self.instrument)?;
        self.about.validate()?;
        let range = |ok: bool, key: &'static str, value: String, allowed| {
            if ok { Ok(()) } else { Err(NexusError::Option { key: key.into(), value, allowed }) }
        };
        let (events, pulses) = (self.chunk_events, self.chunk_pulses);
        range(
            (1 << 10..=64 << 20).contains(&events),
            "chunk",
            events.to_string(),
            "1024 to 67108864",
        )?;
        range(
            (64..=1 << 20).contains(&pulses),
            "chunk_pulses",
            pulses.to_string(),
            "64 to 1048576",
        )?;
        range(self.cue_interval > 0, "cue_interval", "0".into(), "1 or more events")?;
        let flush = self.flush_interval;
        let flush_ok = (Duration::from_millis(10)..=Duration::from_secs(3600)).contains(&flush);
        range(flush_ok, "flush", format!("{flush:?}"), "10ms to 1h")?;
        if let Compression::Gzip(level) = self.compression {
            range((1..=9).contains(&level), "compression", level.to_string(), "gzip level 1 to 9")?;
        }
        if let Packing::Direct { threads } = self.packing {
            let ok = (1..=MOST_PACKERS).contains(&threads);
            range(ok, "compress_threads", threads.to_string(), "1 to 16")?;
            let most = MOST_PACKED / PACKED_ENTRY / (threads + BESIDE);
            range(
                self.compression == Compression::None || events <= most,
                "chunk and output.nexus.compress_threads",
                format!("{events} and {threads}"),
                "chunk × (compress_threads + 2) up to 134217728, which is 1 GiB of buffers; fewer threads, \
                 smaller chunks, or output.nexus.compress = \"hdf5\"",
            )?;
        }
        if let Some(d) = self.source_distance_m {
            let ok = d.is_finite() && d > 0.0;
            range(ok, "source_distance_m", d.to_string(), "metres above 0")?;
        }
        Ok(())
    }

    /// The path, and the name of the panel.
    fn validate_names(&self) -> Result<(), NexusError> {
        let panel_ok = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if self.panel.is_empty() || self.panel.len() > 64 || !self.panel.chars().all(panel_ok) {
            return Err(NexusError::Option {
                key: "panel".into(),
                value: format!("{:?}", self.panel),
                allowed: "1 to 64 of a-z A-Z 0-9 _ -",
            });
        }
        if TAKEN.contains(&&*self.panel) {
            return Err(NexusError::Option {
                key: "panel".into(),
                value: format!("{:?}", self.panel),
                allowed: "another name than source and name, which are taken below /entry/instrument: \
                          change [panel] name of the geometry",
            });
        }
        // The library takes no other; a link is followed before the file is made.
        let landed = landing(&self.path);
        if landed.to_str().is_none_or(|path| path.contains('\0')) {
            let value = match landed == self.path {
                true => format!("{landed:?}"),
                false => format!("{:?}, a link to {landed:?},", self.path),
            };
            return Err(NexusError::Option {
                key: "path".into(),
                value,
                allowed: "UTF-8 without NUL",
            });
        }
        Ok(())
    }

    fn validate_map(&self) -> Result<(), NexusError> {
        let map = &self.pixels;
        let n = map.cell.len();
        let wrong =
            |message: String| Err(NexusError::PixelMap { panel: self.panel.clone(), message });
        if n > i32::MAX as usize {
            return wrong(format!("{n} pixels; event_id holds at most 2147483647"));
        }
        if map.x_m.len() != n || map.y_m.len() != n {
            let (x, y) = (map.x_m.len(), map.y_m.len());
            return wrong(format!(
                "{n} cells, {x} x and {y} y positions; all must be equally many"
            ));
        }
        let z = map.z_m.len();
        if z != 0 && z != n {
            return wrong(format!(
                "{n} cells, {z} z positions; one for each cell, or none for a flat panel"
            ));
        }
        for (name, metres) in [("x", &map.x_m), ("y", &map.y_m), ("z", &map.z_m)] {
            if let Some(i) = metres.iter().position(|m| !m.is_finite()) {
                return wrong(format!(
                    "{name} of pixel {} is {}; positions are finite numbers of metres",
                    i + 1,
                    metres[i]
                ));
            }
        }
        if !map.distance_m.is_finite() {
            let d = map.distance_m;
            return wrong(format!("distance is {d}; it is a finite number of metres"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn map() -> PixelMap {
        PixelMap {
            name: "p".into(),
            columns: 1,
            rows: 1,
            cell: vec![0],
            x_m: vec![0.0],
            y_m: vec![0.0],
            ..PixelMap::default()
        }
    }

    #[test]
    fn a_detector_without_pixels_is_refused_in_words() {
        let e = NexusOptions::new("x.nxs", PixelMap::default()).validate().unwrap_err();
        assert!(e.to_string().contains("detector has no pixels"), "{e}");
    }

    #[test]
    fn each_option_outside_its_range_names_key_value_and_range() {
        let refused = |change: fn(&mut NexusOptions)| {
            let mut o = NexusOptions::new("x.nxs", map());
            assert!(o.validate().is_ok());
            change(&mut o);
            o.validate().unwrap_err().to_string()
        };
        let chunk = refused(|o| o.chunk_events = 7);
        assert_eq!(chunk, "output.nexus.chunk: 7 is not allowed: 1024 to 67108864");
        assert!(refused(|o| o.panel = "a/b".into()).contains("output.nexus.panel: \"a/b\""));
        assert!(refused(|o| o.panel = String::new()).contains("panel"));
        assert!(refused(|o| o.chunk_pulses = 0).contains("chunk_pulses"));
        assert!(refused(|o| o.cue_interval = 0).contains("cue_interval"));
        assert!(refused(|o| o.flush_interval = Duration::ZERO).contains("output.nexus.flush:"));
        assert!(refused(|o| o.compression = Compression::Gzip(0)).contains("compression"));
        assert!(refused(|o| o.source_distance_m = Some(-1.0)).contains("source_distance"));
        assert!(
            refused(|o| o.packing = Packing::Direct { threads: 17 })
                .contains("compress_threads: 17")
        );
        let source = refused(|o| o.panel = "source".into());
        assert!(source.starts_with("output.nexus.panel: \"source\" is not allowed: "), "{source}");
        assert!(source.contains("[panel] name of the geometry"), "{source}");
        assert!(refused(|o| o.panel = "name".into()).contains("panel: \"name\""));
        let path = refused(|o| o.path = OsStr::from_bytes(b"run-\xff.nxs").into());
        assert_eq!(path, "output.nexus.path: \"run-\\xFF.nxs\" is not allowed: UTF-8 without NUL");
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("run.nxs");
        std::os::unix::fs::symlink(OsStr::from_bytes(b"\xff.nxs"), &link).unwrap();
        let e = NexusOptions::new(link, map()).validate().unwrap_err().to_string();
        assert!(e.contains("run.nxs\", a link to \"") && e.contains("\\xFF.nxs\", is not"), "{e}");
        assert!(refused(|o| o.path = "a\0b".into()).contains("path: \"a\\0b\""));
        assert!(refused(|o| o.title = "a\tb".into()).contains("title: \"a\\tb\" is"));
        assert!(refused(|o| o.instrument = "x".repeat(257)).contains("instrument: \"xxx"));
        assert!(refused(|o| o.about.proposal = Some(String::new())).contains("proposal"));
        assert!(refused(|o| o.pixels.x_m.clear()).contains("equally many"));
        let nan = refused(|o| o.pixels.y_m[0] = f64::NAN);
        assert!(nan.contains("\"p\": y of pixel 1 is NaN; positions are finite"), "{nan}");
        let infinite = refused(|o| o.pixels.z_m = vec![f64::INFINITY]);
        assert!(infinite.contains("z of pixel 1 is inf"), "{infinite}");
        let many = refused(|o| o.pixels.z_m = vec![0.0; 2]);
        assert!(many.contains("1 cells, 2 z positions; one for each cell, or none"), "{many}");
        let far = refused(|o| o.pixels.distance_m = f64::INFINITY);
        assert!(far.contains("distance is inf"), "{far}");
    }

    #[test]
    fn chunks_that_are_compressed_take_a_bounded_part_of_memory() {
        let with = |threads, chunk_events, compression| {
            let packing = Packing::Direct { threads };
            let o = NexusOptions::new("x.nxs", map());
            NexusOptions { packing, chunk_events, compression, ..o }.validate()
        };
        let gzip = Compression::Gzip(1);
        // 6 × 8 B × 22,369,621 is 16 B below 1 GiB.
        assert!(with(4, 22_369_621, gzip).is_ok());
        assert_eq!(
            with(4, 22_369_622, gzip).unwrap_err().to_string(),
            "output.nexus.chunk and output.nexus.compress_threads: 22369622 and 4 is not allowed: \
             chunk × (compress_threads + 2) up to 134217728, which is 1 GiB of buffers; fewer threads, \
             smaller chunks, or output.nexus.compress = \"hdf5\""
        );
        assert!(with(16, 64 << 20, gzip).is_err());
        assert!(with(16, 64 << 20, Compression::None).is_ok(), "nothing is compressed");
        let hdf5 = NexusOptions {
            packing: Packing::Hdf5,
            chunk_events: 64 << 20,
            compression: gzip,
            ..NexusOptions::new("x.nxs", map())
        };
        assert!(hdf5.validate().is_ok());
    }

    #[test]
    fn depth_is_optional() {
        let deep = PixelMap { z_m: vec![0.1], ..map() };
        for pixels in [map(), deep] {
            assert!(NexusOptions::new("x.nxs", pixels).validate().is_ok());
        }
    }
}
