//! What each detector is given: recorded packets, simulated ones, or a capture of the user's.
//!
//! Recorded packets are the vectors of the repository, so they are there in a clone only; simulated ones are there
//! always. Refuses: a capture that cannot be read or holds no UDP payload, with its path.

use std::path::{Path, PathBuf};

use anyhow::Context;
use fullcount_core::batch::Origin;
use fullcount_core::detector::sample::SamplePacket;
use fullcount_core::simulator::facts::{RecordedFile, RecordedInput, TableOfPackets};
use fullcount_detect::detector::Detector;
use fullcount_engine::config::refuse;
use fullcount_io::endpoint::{Endpoint, PcapSpeed, PcapUrl};
use fullcount_io::input_file;
use fullcount_io::pcap::PcapSource;
use fullcount_io::source::{Received, Source};

use super::image::PacketImage;
use super::simulated::{Loaded, simulated};
use crate::error::LabError;

/// Name of a capture that the user gave.
pub const CAPTURE: &str = "capture";
/// Name of what is made here and is measured where one input has to do.
pub const SIMULATED: &str = "simulated";
/// What a detector sent, where it was recorded.
const RECORDED: &str = "recorded";
/// All packets of the vectors.
const VECTORS: &str = "vectors";
/// Word for [`Input::is_played`] of each detector, whatever it is called.
pub const CAPTURES: &str = "captures";

/// Names of all inputs that there may be, whatever the detector.
pub fn names() -> Vec<&'static str> {
    let mut all = vec![RECORDED, VECTORS, SIMULATED];
    for kind in fullcount_sim::registered().kinds() {
        all.extend(kind.declared().recorded.iter().map(|r| r.name));
        all.extend(kind.loads().iter().map(|l| l.name));
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Sender's port of vectors: that of the recording device.
pub(super) const PORT: u16 = 50_011;

/// Packets for a detector.
#[derive(Debug, Clone)]
pub struct Input {
    /// Detector.
    pub detector: String,
    /// One of [`names`], or [`CAPTURE`].
    pub name: &'static str,
    /// What that is.
    pub about: String,
    /// Text of the geometry that fits; empty: the detector's own.
    pub geometry: String,
    /// Settings of the detector that fit, as `detector.KEY=VALUE`.
    pub settings: Vec<String>,
    /// True if reading alone is a figure of its own, beside the whole chain.
    pub reading: bool,
    pub(super) stock: Stock,
}

#[derive(Debug, Clone)]
pub(super) enum Stock {
    /// Files of one payload each, in this order.
    Payloads(Vec<PathBuf>),
    /// A capture.
    Capture(PcapUrl),
    /// A table of recorded readouts, and how packets are made of it.
    Table(PathBuf, TableOfPackets),
    /// Simulated packets.
    Traffic(Loaded),
}

impl Input {
    /// Fills at least `bytes` of memory.
    pub fn image(&self, detector: &dyn Detector, bytes: usize) -> Result<PacketImage, LabError> {
        let packets = match &self.stock {
            Stock::Traffic(loaded) => {
                let (mut traffic, ports) = loaded.make()?;
                let image = PacketImage::of_traffic(traffic.as_mut(), &ports, bytes);
                return Ok(image.with_context(|| self.title())?);
            }
            Stock::Payloads(paths) => payloads(paths)?,
            Stock::Capture(url) => capture(url)?,
            Stock::Table(path, packets) => table(path, *packets)?,
        };
        let image = PacketImage::of_packets(&packets, detector.shifter(), bytes);
        Ok(image.with_context(|| format!("{}: {}", self.title(), self.about))?)
    }

    /// True of the one that is played where a detector is measured as the paper did: the user's capture, else the
    /// recorded one, else that of the vectors.
    pub fn is_played(&self) -> bool {
        [CAPTURE, RECORDED, VECTORS].contains(&self.name)
    }

    /// For people: `KIND simulated`.
    pub fn title(&self) -> String {
        format!("{} {}", self.detector, self.name)
    }
}

fn payloads(paths: &[PathBuf]) -> Result<Vec<SamplePacket>, LabError> {
    paths.iter().map(|p| Ok((read(p)?, sender()))).collect()
}

/// A file of the vectors and its sender.
fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    input_file::bytes(path, input_file::LARGEST_INPUT)
        .with_context(|| format!("reading {}", path.display()))
}

fn sender() -> Origin {
    Origin::from(std::net::SocketAddr::from(([127, 0, 0, 1], PORT)))
}

fn table(path: &Path, packets: TableOfPackets) -> Result<Vec<SamplePacket>, LabError> {
    let text = String::from_utf8_lossy(&read(path)?).into_owned();
    let packets = packets(&text).map_err(anyhow::Error::msg);
    let packets = packets.with_context(|| format!("reading {}", path.display()))?;
    Ok(packets.into_iter().map(|p| (p, sender())).collect())
}

/// Played without a clock.
fn flat_out(url: PcapUrl) -> PcapUrl {
    PcapUrl { speed: PcapSpeed::FlatOut, ..url }
}

fn capture(url: &PcapUrl) -> Result<Vec<SamplePacket>, LabError> {
    let mut source = PcapSource::open(url, None).map_err(anyhow::Error::from)?;
    let mut batch = source.batch();
    let mut packets = vec![];
    while source.recv(&mut batch, std::time::Duration::ZERO).map_err(anyhow::Error::from)?
        != Received::End
    {
        for train in batch.trains() {
            packets.extend(train.chunks().map(|chunk| (chunk.to_vec(), train.origin)));
        }
    }
    Ok(packets)
}

/// A capture of the user's: `FILE` or `FILE?port=N`.
pub fn given(detector: &str, file: &str) -> Result<Input, LabError> {
    let wrong = |why: String| LabError::from(refuse("capture", format!("{detector}={file}"), why));
    let url = match format!("pcap:{file}").parse() {
        Ok(Endpoint::Pcap(url)) => url,
        Ok(_) => return Err(wrong("KIND=FILE with a pcap or pcapng file".to_owned())),
        Err(e) => return Err(wrong(e.to_string())),
    };
    let plain = PcapUrl { port: url.port, ..PcapUrl::new(url.path.clone()) };
    if plain != url {
        return Err(wrong("of a capture's keys only port=N; repeating is done here".to_owned()));
    }
    std::fs::metadata(&url.path).map_err(|e| wrong(e.to_string()))?;
    let about = url.to_string();
    let stock = Stock::Capture(flat_out(url));
    let detector = detector.to_owned();
    let (geometry, settings, reading) = (String::new(), vec![], reads_apart(&detector));
    Ok(Input { detector, name: CAPTURE, about, geometry, settings, reading, stock })
}

/// What there is for a detector: recorded first, simulated last; empty for one that is not known here.
pub fn known(detector: &str, vectors: &Path) -> Vec<Input> {
    let mut inputs = of_vectors(detector, vectors);
    inputs.extend(simulated(detector));
    inputs
}

/// True if reading alone is a figure of its own.
fn reads_apart(detector: &str) -> bool {
    fullcount_sim::registered().find(detector).is_some_and(|kind| kind.declared().reads_apart)
}

/// Recorded packets of the vectors, where they are.
fn of_vectors(detector: &str, vectors: &Path) -> Vec<Input> {
    let kind = fullcount_sim::registered().find(detector);
    let folder = vectors.join(detector);
    match kind.map(|kind| kind.declared().recorded).filter(|all| !all.is_empty()) {
        Some(all) => all.iter().filter_map(|one| recorded(detector, &folder, one)).collect(),
        None => unnamed(detector, &folder),
    }
}

/// What a kind declares; `None` if a file is missing: that is no reason to measure with another one.
fn recorded(detector: &str, folder: &Path, one: &RecordedInput) -> Option<Input> {
    let there = |file: &str| Some(folder.join(file)).filter(|p| p.is_file());
    let geometry = match one.geometry {
        "" => String::new(),
        file => input_file::text(&there(file)?, input_file::LARGEST_INPUT).ok()?,
    };
    let path = there(one.file.path())?;
    let stock = match one.file {
        RecordedFile::Payload(_) => Stock::Payloads(vec![path]),
        RecordedFile::Capture(_) => Stock::Capture(flat_out(PcapUrl::new(path))),
        RecordedFile::Table(_, packets) => Stock::Table(path, packets),
    };
    let mut settings: Vec<String> = one.settings.iter().map(|&set| set.to_owned()).collect();
    if !one.calibration.is_empty() {
        let path = there(one.calibration)?;
        settings.push(format!("detector.calibration={}", path.display()));
    }
    Some(Input {
        detector: detector.to_owned(),
        name: one.name,
        about: one.about.to_owned(),
        geometry,
        settings,
        reading: reads_apart(detector),
        stock,
    })
}

/// Captures of a detector that declares none: those with the usual names.
fn unnamed(detector: &str, folder: &Path) -> Vec<Input> {
    let input = |name, file: &str, about: &str| {
        let path = Some(folder.join(file)).filter(|p| p.is_file())?;
        let stock = Stock::Capture(flat_out(PcapUrl::new(path)));
        let (detector, about) = (detector.to_owned(), about.to_owned());
        let (geometry, settings, reading) = (String::new(), vec![], false);
        Some(Input { detector, name, about, geometry, settings, reading, stock })
    };
    let vectors = "all packets of the vectors, damaged ones included";
    let all = [
        input(VECTORS, &format!("{detector}.pcap"), vectors),
        input(RECORDED, "example.pcapng", "the recorded capture of the vectors"),
    ];
    all.into_iter().flatten().collect()
}
