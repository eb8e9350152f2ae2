//! The source `lines:FILE`: a packet for each line of hexadecimal digits; empty lines and those that begin with `#` are left out.
//!
//! Refuses a URL without a file and unknown keys; a line that is no packet is counted and left out.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::batch::{Batch, Edge, Origin};
use fullcount_core::ledger::{Info, Sheet};
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::source::{
    OpenedSource, Received, Source, SourceEndpoint, SourceError, SourceKind, SourceOpenError,
    SourceOpening, SourceSetup, UrlKey,
};
use fullcount_core::url::{self, Scheme, SchemeKey};

/// Packets of a batch at most.
const MOST: usize = 64;
/// Longest packet, bytes: a datagram's.
const LONGEST: usize = 65_535;

fullcount_core::counters! {
    /// What the source counts.
    pub enum Line {
        Packets "receive.packets" Packets Sum "receive" In "lines read that are to be packets" "";
        Accepted "receive.accepted" Packets Sum "receive" Accepted "packets handed on" "";
        Refused "lines.refused" Packets Sum "receive" Rejected
            "lines that are no hexadecimal digits, or longer than a datagram" "look at the file";
        Bytes "receive.bytes" Bytes Sum "receive" Note "payload bytes received" "";
    }
}

/// `lines:FILE?skip=N`
struct LineUrl {
    path: PathBuf,
    skip: u32,
}

impl Scheme for LineUrl {
    const NAME: &'static str = "lines";
    const FORM: &'static str = "lines:FILE, for example lines:packets.txt";
    const KEYS: &'static [SchemeKey<LineUrl>] = &[SchemeKey::told(
        "skip",
        "a number from 0",
        "0",
        "packets left out at the beginning",
        |l, v| v.parse().map(|n| l.skip = n),
    )];

    fn at(place: &str) -> Result<LineUrl, String> {
        match place {
            "" => Err("it names no file".into()),
            path => Ok(LineUrl { path: path.into(), skip: 0 }),
        }
    }
}

/// The kind for the registry.
pub struct LineKind;

impl SourceKind for LineKind {
    fn name(&self) -> &'static str {
        LineUrl::NAME
    }

    fn about(&self) -> &'static str {
        "packets as lines of hexadecimal text (an example)"
    }

    fn form(&self) -> &'static str {
        LineUrl::FORM
    }

    fn example(&self) -> &'static str {
        "lines:packets.txt"
    }

    fn keys(&self) -> Vec<UrlKey> {
        UrlKey::of::<LineUrl>()
    }

    fn counters(&self) -> Vec<(&'static str, Vec<Info>)> {
        vec![("receiving: lines", Line::catalogue())]
    }

    fn plan(&self, url: &str, _: &SourceSetup<'_>) -> Result<Box<dyn SourceEndpoint>, Refusal> {
        let read: LineUrl = url::read(url).map_err(|e| refuse("source.url", url, e.to_string()))?;
        Ok(Box::new(read))
    }
}

impl SourceEndpoint for LineUrl {
    fn reads(&self) -> Vec<(&'static str, PathBuf)> {
        vec![("source.url", self.path.clone())]
    }

    fn is_there(&self) -> Result<(), String> {
        std::fs::metadata(&self.path).map(drop).map_err(|e| e.to_string())
    }

    fn is_live(&self) -> bool {
        false
    }

    fn open(&self, _: &SourceOpening<'_>) -> Result<Vec<OpenedSource>, SourceOpenError> {
        let endpoint = format!("lines:{}", self.path.display());
        let file = File::open(&self.path).map_err(|e| failed(&endpoint, &e))?;
        let (file, sheet) = (BufReader::new(file), Sheet::new(Line::catalogue()));
        let source = LineSource { file, endpoint: endpoint.clone(), skip: self.skip, sheet };
        Ok(vec![OpenedSource::new(source, endpoint)])
    }
}

fn failed(endpoint: &str, e: &std::io::Error) -> SourceError {
    SourceError { endpoint: endpoint.into(), what: "reading".into(), cause: e.to_string() }
}

/// Reads the file.
struct LineSource {
    file: BufReader<File>,
    endpoint: String,
    skip: u32,
    sheet: Arc<Sheet>,
}

impl LineSource {
    /// The next packet's digits, cut behind the longest; `None` at the end.
    fn digits(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        loop {
            let mut line = Vec::new();
            let most = 2 * LONGEST as u64 + 2;
            if (&mut self.file).take(most).read_until(b'\n', &mut line)? == 0 {
                return Ok(None);
            }
            if line.len() as u64 == most && !line.ends_with(b"\n") {
                self.file.skip_until(b'\n')?;
            }
            let line = line.trim_ascii();
            match line.is_empty() || line.starts_with(b"#") {
                true => {}
                false if self.skip > 0 => self.skip -= 1,
                false => return Ok(Some(line.to_vec())),
            }
        }
    }
}

fn bytes(digits: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_chunks::<2>();
    let nibble = |digit: u8| char::from(digit).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| Some((nibble(*high)? << 4 | nibble(*low)?) as u8);
    let fits = rest.is_empty() && pairs.len() <= LONGEST;
    fits.then(|| pairs.iter().map(byte).collect()).flatten()
}

impl Source for LineSource {
    fn recv(&mut self, batch: &mut Batch, _: Duration) -> Result<Received, SourceError> {
        batch.clear();
        while batch.trains().len() < MOST {
            let digits = self.digits().map_err(|e| failed(&self.endpoint, &e))?;
            let Some(digits) = digits else { break };
            self.sheet.add(Line::Packets as usize, 1);
            let Some(bytes) = bytes(&digits) else {
                self.sheet.add(Line::Refused as usize, 1);
                continue;
            };
            self.sheet.add(Line::Accepted as usize, 1);
            self.sheet.add(Line::Bytes as usize, bytes.len() as u64);
            batch.append(&bytes, Origin::NONE, 0, Edge::Datagram);
        }
        Ok(if batch.is_empty() { Received::End } else { Received::Data })
    }

    fn batch(&self) -> Batch {
        Batch::with_slots(MOST, 2048)
    }

    fn lossless(&self) -> bool {
        true
    }

    fn replay(&self) -> bool {
        true
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }

    fn describe(&self) -> Vec<String> {
        vec![format!("packets of the lines of {}", self.endpoint)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_core::source::Sources;
    use fullcount_core::source::conformance::{SourceCase, Twin};

    fn sources() -> Sources {
        let mut sources = Sources::default();
        sources.register(Box::new(LineKind));
        sources
    }

    #[test]
    fn it_passes_the_suite_that_every_source_must_pass() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("packets.txt");
        let hex = |packet: &Vec<u8>| packet.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let case = SourceCase {
            sources: &sources(),
            url: &format!("lines:{}", path.display()),
            refused: &["lines:", "lines:a?skip=x", "lines:a?skip", "lines:a?speed=1"],
            give: &mut |_, packets| {
                let lines: Vec<String> = packets.iter().map(hex).collect();
                std::fs::write(&path, format!("# packets\n\n{}", lines.join("\n"))).unwrap();
            },
            ends: true,
            twin: Twin::Reads,
        };
        fullcount_core::source::conformance::source(case).unwrap();
    }

    #[test]
    fn lines_that_are_no_packets_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("packets.txt");
        let long = "ab".repeat(LONGEST + 1);
        std::fs::write(&path, format!("00\n0\nxy\n{long}\n  ABcd \n{}", "0".repeat(300_000)))
            .unwrap();
        let (sources, url) = (sources(), format!("lines:{}?skip=1", path.display()));
        let endpoint = SourceSetup::plain(&sources).endpoint(&url).unwrap();
        let mut source = endpoint.open(&SourceOpening::PLAIN).unwrap().remove(0).source;
        let mut batch = source.batch();
        assert_eq!(source.recv(&mut batch, Duration::ZERO).unwrap(), Received::Data);
        let chunks: Vec<&[u8]> = batch.trains().flat_map(|train| train.chunks()).collect();
        assert_eq!(chunks, [[0xab, 0xcd]]);
        let sheet = source.sheet();
        let counted = [Line::Packets, Line::Accepted, Line::Refused].map(|l| sheet.get(l as usize));
        assert_eq!(counted, [5, 1, 4]);
    }
}
