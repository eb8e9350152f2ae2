//! The output `capture`: packets as they were received, in pcapng files. Source: `docs/capture.md`, `docs/configuration.md`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fullcount_core::key::Key;
use fullcount_core::key::Takes::{Path, Text, Value};
use fullcount_core::ledger::Sheet;
use fullcount_core::output::{
    Claim, DeclaredOutput, Opened, Opening, OutputKind, OutputOpenError, OutputSetup, PacketOutput,
    PacketReport, Plan, Recording,
};
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::sink::SinkError;
use fullcount_core::source::{Source, SourceError};
use serde::{Deserialize, Serialize};

use super::change::commands;
use super::{
    BUFFER_MAX, BUFFER_MIN, Capture, CaptureOptions, Captured, ROTATE_SIZE_MIN, ROTATE_TIME_MIN,
    RunningCapture, Written,
};
use crate::below::RunFolder;
use crate::{quantity, section};

/// Path of the section.
const SECTION: &str = "output.capture";

/// `[output.capture]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct CaptureSection {
    /// File to write, or the beginning of the names of a rotating series.
    file: PathBuf,
    /// The next file begins before this one would be larger, at least 1 MiB.
    #[serde(default, deserialize_with = "section::some")]
    rotate_size: Option<String>,
    /// The next file begins when its first packet is this much later, at least 1 s.
    #[serde(default, deserialize_with = "section::some")]
    rotate_time: Option<String>,
    /// Files of a series that stay, 1..=100000; without it all.
    keep: Option<u32>,
    /// Replace an existing file.
    #[serde(default)]
    overwrite: bool,
    /// Memory between receiver and writer, 8 MiB to 16 GiB; of more than 128 MiB the rest is taken when it is needed.
    #[serde(default = "default_buffer", deserialize_with = "section::text")]
    buffer: String,
    /// What is not captured is a loss of the run; a source that can wait is made to.
    #[serde(default = "default_required")]
    required: bool,
}

fn default_buffer() -> String {
    // 400 ms of 10 Gb/s, or a disk of 500 MB/s that stalls for a second. A quarter is allocated at the start.
    "512MiB".into()
}
fn default_required() -> bool {
    true
}

/// Packets in a file.
#[derive(Debug)]
pub struct PacketFile;

const DECLARED: DeclaredOutput = DeclaredOutput {
    keys: KEYS,
    named_by: Some("output.capture.file"),
    counters: || {
        let mut lines = Captured::catalogue();
        let written = Written::catalogue().into_iter();
        lines.extend(written.filter(|l| l.name != "sink.capture.failed"));
        vec![("output: capture", lines)]
    },
    takes_events: false,
    ..DeclaredOutput::new(
        "capture",
        SECTION,
        "packets as they were received, in pcapng files that rotate",
        section::reading::<CaptureSection>(),
    )
};

impl OutputKind for PacketFile {
    fn declared(&self) -> &'static DeclaredOutput {
        &DECLARED
    }

    fn plan(&self, setup: &OutputSetup<'_>) -> Result<Option<Box<dyn Plan>>, Refusal> {
        let section = section::read(SECTION, setup.section)?;
        let mut options = capture_options(&section)?;
        options.wall.clone_from(&setup.wall);
        Ok(Some(Box::new(CapturePlan(options, RunFolder::of(setup)))))
    }
}

/// A checked section.
struct CapturePlan(CaptureOptions, Option<RunFolder>);

impl Plan for CapturePlan {
    fn claims(&self) -> Vec<Claim> {
        let (key, file) = ("output.capture.file", self.0.file.clone());
        vec![if self.0.rotates() { Claim::Series(key, file) } else { Claim::Written(key, file) }]
    }

    fn takes_packets(&self) -> bool {
        true
    }

    fn open(&mut self, opening: &Opening) -> Result<Opened, OutputOpenError> {
        let capture = Capture::open(&self.0, opening.workers);
        let capture = capture.map_err(|e| OutputOpenError(e.to_string()))?;
        let facts = vec![capture_fact(&self.0)];
        let commands = commands(&self.0, self.1.clone(), &capture.orders());
        Ok(Opened { packets: Some(Box::new(capture)), facts, commands, ..Opened::default() })
    }
}

impl PacketOutput for Capture {
    fn name(&self) -> &'static str {
        "capture"
    }

    fn sheet(&self) -> Arc<Sheet> {
        Capture::sheet(self)
    }

    fn safe(&self, worker: usize) -> Option<Arc<AtomicU64>> {
        Capture::safe(self, worker)
    }

    fn tap(
        &mut self,
        source: Box<dyn Source>,
        name: &str,
    ) -> Result<(Box<dyn Source>, Arc<Sheet>), SourceError> {
        let tap = Capture::tap(self, source, name)?;
        let sheet = tap.capture_sheet();
        Ok((Box::new(tap), sheet))
    }

    fn start(
        self: Box<Self>,
        on_failure: Box<dyn Fn(&SinkError) + Send>,
    ) -> std::io::Result<Box<dyn Recording>> {
        let said = move |e: &super::CaptureError| {
            on_failure(&SinkError { sink: "capture", message: e.to_string() });
        };
        Ok(Box::new(Capture::start(*self, said)?))
    }
}

impl Recording for RunningCapture {
    fn finish(self: Box<Self>) -> Result<PacketReport, String> {
        let r = RunningCapture::finish(*self).map_err(|e| e.to_string())?;
        let (packets, bytes, files) = (r.packets, r.bytes, Some(r.files));
        Ok(PacketReport { place: r.place, packets, bytes, files })
    }
}

/// Checks the section.
fn capture_options(config: &CaptureSection) -> Result<CaptureOptions, Refusal> {
    let mut o = CaptureOptions::new(&config.file);
    let shown = config.file.display();
    if config.file.file_name().is_none() {
        return Err(refuse("output.capture.file", shown, "the name of a file"));
    }
    let end = config.file.extension().map(|e| e.to_ascii_lowercase());
    if end.is_some_and(|e| e == "pcap" || e == "cap") {
        let why = "pcapng is written: a name that ends in .pcapng";
        return Err(refuse("output.capture.file", shown, why));
    }
    let size =
        |key, text: &String| quantity::size(text).map_err(|e| refuse(key, text, e.to_string()));
    if let Some(text) = &config.rotate_size {
        let key = "output.capture.rotate_size";
        let bytes = size(key, text)?;
        if bytes < ROTATE_SIZE_MIN {
            return Err(refuse(key, text, "1MiB or more"));
        }
        o.rotate_size = Some(bytes);
    }
    if let Some(text) = &config.rotate_time {
        let key = "output.capture.rotate_time";
        let time = quantity::duration(text).map_err(|e| refuse(key, text, e.to_string()))?;
        if time < ROTATE_TIME_MIN {
            return Err(refuse(key, text, "1s or more"));
        }
        o.rotate_time = Some(time);
    }
    if let Some(keep) = config.keep {
        let key = "output.capture.keep";
        if !(1..=100_000).contains(&keep) {
            return Err(refuse(key, keep, "1 to 100000 files"));
        }
        if !o.rotates() {
            let why = "only with output.capture.rotate_size or rotate_time: there is one file";
            return Err(refuse(key, keep, why));
        }
        o.keep = Some(keep);
    }
    if config.overwrite && o.rotates() {
        let why = "not with rotation: a series goes on behind the files that are there";
        return Err(refuse("output.capture.overwrite", true, why));
    }
    o.overwrite = config.overwrite;
    o.buffer = size("output.capture.buffer", &config.buffer)?;
    if !(BUFFER_MIN..=BUFFER_MAX).contains(&o.buffer) {
        return Err(refuse("output.capture.buffer", &config.buffer, "8MiB to 16GiB"));
    }
    o.required = config.required;
    Ok(o)
}

fn capture_fact(o: &CaptureOptions) -> String {
    let mut fact = format!("output capture {}", o.file.display());
    if let Some(size) = o.rotate_size {
        fact += &format!(", a new file each {}", quantity::size_text(size));
    }
    if let Some(time) = o.rotate_time {
        fact += &format!(", a new file each {time:?}");
    }
    if let Some(keep) = o.keep {
        fact += &format!(", the last {keep} stay");
    }
    fact + &format!(", buffer {}", quantity::size_text(o.buffer))
}

/// Keys of the section.
const KEYS: &[Key] = &[
    Key::new(
        Path,
        "output.capture.file",
        "required",
        "path that does not end in `.pcap`; its folder must exist",
        "file to write, or what the names of a series begin with",
    )
    .flag(
        "capture",
        "FILE",
        "Capture all packets received into this pcapng file, with kernel times",
    ),
    Key::new(
        Text,
        "output.capture.rotate_size",
        "–",
        "1 MiB or more",
        "the next file begins before this one would be larger",
    )
    .flag(
        "rotate-size",
        "SIZE",
        "Begin a new capture file before one would be larger than this, e.g. 1GiB",
    ),
    Key::new(
        Text,
        "output.capture.rotate_time",
        "–",
        "1 s or more",
        "the next file begins when its first packet is this much later than this one's",
    )
    .flag("rotate-time", "TIME", "Begin a new capture file after this time, e.g. 10min"),
    Key::new(
        Value,
        "output.capture.keep",
        "–",
        "1 to 100,000; only with rotation",
        "files of the series that stay; the oldest is removed first",
    )
    .flag("keep", "N", "Capture files of a series that stay; the oldest is removed first"),
    Key::new(
        Value,
        "output.capture.overwrite",
        "`false`",
        "`true`, `false`; not with rotation",
        "replace a file that is there and that nobody writes",
    ),
    Key::new(
        Text,
        "output.capture.buffer",
        "`\"512MiB\"`",
        "8 MiB to 16 GiB",
        "memory between receiver and writer, all workers together; of more than 128 MiB the rest is taken when the disk stands, and kept until the end of the run",
    ),
    Key::new(
        Value,
        "output.capture.required",
        "`true`",
        "`true`, `false`",
        "packets that are not captured make exit code 3, and a source that can wait is made to. `false`: they are only counted",
    ),
];
