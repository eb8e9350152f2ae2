//! The source `pcap`: datagrams recorded in a file, as a kind.
//!
//! Its endpoint names the file, tells what the file knows of the host's clock, and what tells it from other files for a replay that
//! goes on. Refuses a clock in the file that is damaged.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use fullcount_core::batch::Origin;
use fullcount_core::ledger::Info;
use fullcount_core::refusal::Refusal;
use fullcount_core::source::{
    OpenedSource, Replayable, ReplayedFrom, Shifter, SourceEndpoint, SourceKind, SourceOpenError,
    SourceOpening, SourceSetup,
};
use fullcount_core::url;
use fullcount_core::wall::WallClock;

use super::replayed::Replayed;
use super::url::{Ip, PcapSpeed, PcapUrl, Repeat};
use super::{PcapSource, Shift, clock};
use crate::source::{Received, Source as _, SourceError, engine, refused};

/// `pcap:FILE`
pub struct PcapKind;

impl SourceKind for PcapKind {
    fullcount_core::source_of_scheme! {
        PcapUrl: "datagrams recorded in a pcap or pcapng file, at recorded speed or flat out",
        "pcap:run.pcapng"
    }

    fn meant(&self, text: &str) -> Option<String> {
        let place = url::split(text).0;
        let is_one = place.ends_with(".pcap") || place.ends_with(".pcapng");
        is_one.then(|| format!("pcap:{text}"))
    }

    fn counters(&self) -> Vec<(&'static str, Vec<Info>)> {
        vec![("receiving: pcap", Replayed::catalogue())]
    }

    fn plan(
        &self,
        text: &str,
        setup: &SourceSetup<'_>,
    ) -> Result<Box<dyn SourceEndpoint>, Refusal> {
        let url: PcapUrl = url::read(text).map_err(|e| refused(text, e))?;
        engine(setup)?;
        Ok(Box::new(FileEndpoint { url, text: text.to_owned() }))
    }
}

struct FileEndpoint {
    url: PcapUrl,
    /// As configured.
    text: String,
}

impl SourceEndpoint for FileEndpoint {
    fn reads(&self) -> Vec<(&'static str, PathBuf)> {
        vec![("source.url", self.url.path.clone())]
    }

    fn is_there(&self) -> Result<(), String> {
        std::fs::metadata(&self.url.path).map(drop).map_err(|e| e.to_string())
    }

    fn is_live(&self) -> bool {
        false
    }

    fn recorded_clock(&self) -> Result<Option<WallClock>, Refusal> {
        match clock::records(&self.url.path) {
            Ok(records) => Ok(records.and_then(|records| WallClock::recorded(&records))),
            // What cannot be opened is said where it is opened.
            Err(e) if e.kind() != std::io::ErrorKind::InvalidData => Ok(None),
            Err(e) => {
                let why = format!(
                    "a capture whose clock can be read ({e}); time.epoch = \"1970-01-01T00:00:00Z\" reads it without"
                );
                Err(refused(&self.text, why))
            }
        }
    }

    fn replay(&mut self, _: &ReplayedFrom<'_>) -> Result<Option<Replayable>, SourceOpenError> {
        let about = about(&self.url.path);
        Ok(about.map(|about| Replayable { about, ..Replayable::default() }))
    }

    fn open(&self, opening: &SourceOpening<'_>) -> Result<Vec<OpenedSource>, SourceOpenError> {
        let mut url = self.url.clone();
        url.ip = url.ip.or(opening.whole_ipv4.then_some(Ip::WholeV4));
        url.exact_times |= opening.exact_times;
        let downstream = opening.downstream.filter(|_| url.shift);
        let shifter = downstream.and_then(|decoder| decoder.shifter());
        let shift = shifter.map(|s| Moving::learn(s, &url)).transpose()?;
        let shift = shift.map(|s| Box::new(s) as Box<dyn Shift>);
        let source = PcapSource::open(&url, shift)?;
        Ok(vec![OpenedSource::new(source, self.text.as_str())])
    }
}

/// What tells a file from others; `None` if it cannot be read twice.
fn about(path: &Path) -> Option<String> {
    let about = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let path = path.canonicalize().ok()?;
    let changed = about.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("{} {} B, {} ns\n", path.display(), about.len(), changed.as_nanos()))
}

/// A decoder's rule for moving packets on, with what it learnt in one pass over the capture.
struct Moving(Box<dyn Shifter>);

impl Moving {
    fn learn(mut shifter: Box<dyn Shifter>, url: &PcapUrl) -> Result<Moving, SourceError> {
        let once = PcapUrl {
            repeat: Repeat::Times(std::num::NonZeroU64::MIN),
            shift: false,
            preload: false,
            speed: PcapSpeed::FlatOut,
            ..url.clone()
        };
        let mut source = PcapSource::open(&once, None)?;
        let mut batch = source.batch();
        while source.recv(&mut batch, Duration::ZERO)? != Received::End {
            for train in batch.trains() {
                train.chunks().for_each(|chunk| shifter.learn(chunk, train.origin));
            }
        }
        Ok(Moving(shifter))
    }
}

impl Shift for Moving {
    fn shift(&mut self, payload: &mut [u8], origin: Origin, repetition: u64) {
        self.0.shift(payload, origin, repetition);
    }
}
