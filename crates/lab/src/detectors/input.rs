//! What each detector is given: recorded packets, simulated ones, or a capture of the user's.
//!
//! Recorded packets are the vectors of the repository, so they are there in a clone only; simulated ones are there
//! always. Refuses: a capture that cannot be read or holds no UDP payload, with its path.

use std::path::{Path, PathBuf};

use super::recorded;
use anyhow::Context;
use fullcount_core::batch::Origin;
use fullcount_detect::detector::Detector;
use fullcount_engine::config::refuse;
use fullcount_io::endpoint::{Endpoint, PcapSpeed, PcapUrl};
use fullcount_io::input_file;
use fullcount_io::pcap::PcapSource;
use fullcount_io::source::{Received, Source};

use super::image::{Image, Packet};
use super::simulated::{Simulated, simulated};
use crate::error::LabError;

/// Name of a capture that the user gave.
pub const CAPTURE: &str = "capture";
/// Name of what is made here and is measured where one input has to do.
pub const SIMULATED: &str = "simulated";
/// What a detector sent, where it was recorded.
const RECORDED: &str = "recorded";
/// All packets of the vectors.
const VECTORS: &str = "vectors";
/// All others.
pub const NAMES: [&str; 7] =
    [RECORDED, "recorded-calibrated", "recorded-xyu", VECTORS, "dense", "noisy", SIMULATED];
/// Word for [`Input::is_played`] of each detector, whatever it is called.
pub const CAPTURES: &str = "captures";

/// The detector whose reading is a figure of its own.
const GEM: &str = "gdgem";
/// How the capture's makers convert it.
const GEM_EXAMPLE: [&str; 6] = ["bc=44.444", "ccs=3", "dt=100", "spc=200", "crl=0.2", "cru=10"];
/// The same for that of three planes.
const GEM_XYU: [&str; 3] = ["ccs=3", "crl=0.2", "cru=10"];

/// Sender's port of vectors: that of the recording device.
pub(super) const PORT: u16 = 50_011;

/// Packets for a detector.
#[derive(Debug, Clone)]
pub struct Input {
    /// Detector.
    pub detector: String,
    /// One of [`NAMES`], or [`CAPTURE`].
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
    /// A table of recorded Multi-Blade readouts.
    MultiBlade(PathBuf),
    /// Simulated packets: makes them from the start.
    Traffic(fn() -> Result<Simulated, LabError>),
}

impl Input {
    /// Fills at least `bytes` of memory.
    pub fn image(&self, detector: &dyn Detector, bytes: usize) -> Result<Image, LabError> {
        let packets = match &self.stock {
            Stock::Traffic(make) => {
                let (mut traffic, ports) = make()?;
                let image = Image::of_traffic(traffic.as_mut(), &ports, bytes);
                return Ok(image.with_context(|| self.title())?);
            }
            Stock::Payloads(paths) => payloads(paths)?,
            Stock::Capture(url) => capture(url)?,
            Stock::MultiBlade(path) => table(path)?,
        };
        let image = Image::of_packets(&packets, detector.shifter(), bytes);
        Ok(image.with_context(|| format!("{}: {}", self.title(), self.about))?)
    }

    /// True of the one that is played where a detector is measured as the paper did: the user's capture, else the
    /// recorded one, else that of the vectors.
    pub fn is_played(&self) -> bool {
        [CAPTURE, RECORDED, VECTORS].contains(&self.name)
    }

    /// For people: `sonde simulated`.
    pub fn title(&self) -> String {
        format!("{} {}", self.detector, self.name)
    }
}

fn payloads(paths: &[PathBuf]) -> Result<Vec<Packet>, LabError> {
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

fn table(path: &Path) -> Result<Vec<Packet>, LabError> {
    let text = String::from_utf8_lossy(&read(path)?).into_owned();
    let packets = recorded::multiblade(&text);
    let packets = packets.with_context(|| format!("reading {}", path.display()))?;
    Ok(packets.into_iter().map(|p| (p, sender())).collect())
}

/// Played without a clock.
fn flat_out(url: PcapUrl) -> PcapUrl {
    PcapUrl { speed: PcapSpeed::FlatOut, ..url }
}

fn capture(url: &PcapUrl) -> Result<Vec<Packet>, LabError> {
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
    let (geometry, settings, reading) = (String::new(), vec![], detector == GEM);
    Ok(Input { detector, name: CAPTURE, about, geometry, settings, reading, stock })
}

/// What there is for a detector: recorded first, simulated last; empty for one that is not known here.
pub fn known(detector: &str, vectors: &Path) -> Vec<Input> {
    let mut inputs = of_vectors(detector, vectors);
    inputs.extend(simulated(detector));
    inputs
}

/// An input of Gd-GEM with settings.
fn gem(input: Input, settings: &[&str]) -> Input {
    let settings = settings.iter().map(|set| format!("detector.{set}")).collect();
    Input { settings, reading: true, ..input }
}

/// Vectors of the repository, where they are.
fn of_vectors(detector: &str, vectors: &Path) -> Vec<Input> {
    let folder = vectors.join(detector);
    let there = |file: &str| Some(folder.join(file)).filter(|p| p.is_file());
    let input = |name: &'static str, stock, geometry: &str, about: &str| {
        // A geometry that is missing beside its packets is no reason to measure with another one.
        let geometry = match geometry {
            "" => String::new(),
            file => input_file::text(&there(file)?, input_file::LARGEST_INPUT).ok()?,
        };
        let (detector, about) = (detector.to_owned(), about.to_owned());
        let (settings, reading) = (vec![], false);
        Some(Input { detector, name, about, geometry, settings, reading, stock })
    };
    let one = |file: &str| Some(Stock::Payloads(vec![there(file)?]));
    let input = |name, stock: Option<Stock>, geometry, about| input(name, stock?, geometry, about);
    let capture = |file: &str| there(file).map(|p| Stock::Capture(flat_out(PcapUrl::new(p))));
    let inputs = match detector {
        "sonde" => vec![input(
            "recorded",
            one("d5_capture_all_channels_64_samples.bin"),
            "",
            "one recorded packet of 64 samples with amplitude (0xD5)",
        )],
        "multigrid" => vec![input(
            "vectors",
            capture("multigrid.pcap"),
            "config/three_modules_mg24.json",
            "all packets of the vectors, damaged ones included; two recorded ones, mostly glitches",
        )],
        "multiblade" => vec![input(
            "recorded",
            there("readouts_a01000.csv").map(Stock::MultiBlade),
            "config/MB18Freia.json",
            "1000 recorded packets of about 12 readouts, MB18 in Freia orientation, 2018",
        )],
        GEM => vec![
            input(
                "recorded-xyu",
                capture("example_xyu.pcapng"),
                "vmm/example_geometry_xyu.json",
                "a recorded capture of three planes, 66,912 hits in clusters of 3, VMM3a at 40 MHz",
            )
            .map(|input| gem(input, &GEM_XYU)),
            input(
                "recorded-calibrated",
                capture("example.pcapng"),
                "vmm/example_geometry.json",
                "the next one with a calibration that corrects amplitude, time and time walk",
            )
            .zip(there("calibration/full_calibration.json"))
            .map(|(input, path)| {
                let mut input = gem(input, &GEM_EXAMPLE);
                input.settings.push(format!("detector.calibration={}", path.display()));
                input
            }),
            input(
                "recorded",
                capture("example.pcapng"),
                "vmm/example_geometry.json",
                "a recorded capture of two planes, 149,180 hits in clusters of 5, VMM3a at 44.4 MHz",
            )
            .map(|input| gem(input, &GEM_EXAMPLE)),
        ],
        // A detector that is new here: what its vectors hold.
        other => {
            let pcap = format!("{other}.pcap");
            vec![
                input(
                    "vectors",
                    capture(&pcap),
                    "",
                    "all packets of the vectors, damaged ones included",
                ),
                input(
                    "recorded",
                    capture("example.pcapng"),
                    "",
                    "the recorded capture of the vectors",
                ),
            ]
        }
    };
    inputs.into_iter().flatten().collect()
}
