//! Records of the detector's clock and the host's in our captures: written as comments, read before a replay.
//!
//! A run whose times are those of the host's clock writes the relation of both clocks
//! ([`WallClock`](fullcount_core::wall::WallClock)) to its capture: at the head of each file the current records, then
//! each change, and at the end all records of the file again, which are found from there without reading the packets.
//! Each is a comment in an interface statistics block, which other programs show or ignore. Refuses our comments
//! without valid records. Source: `docs/time.md`, draft-ietf-opsawg-pcapng 4.6.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use fullcount_core::wall::ClockRecord;

/// Begins a comment of ours.
const MARK: &str = "fullcount clock ";
/// Its position: at the head, between packets, at the end.
const HEAD: &str = "head";
const MORE: &str = "more";
const ALL: &str = "all";
/// Records in one comment: an option has 65,535 bytes, a record 90 at most.
const IN_COMMENT: usize = 600;
/// Statistics blocks, interfaces and sections that are read; longer ones are passed over.
const LONGEST: usize = 1 << 17;
/// Most accepted records: those of 12 days.
const MOST_RECORDS: usize = 1 << 20;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;

/// Position of a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommentPlace {
    /// Before the packets of a file.
    Head,
    /// Among them.
    More,
    /// Behind them, with all that the file has.
    All,
}

impl CommentPlace {
    fn word(self) -> &'static str {
        match self {
            CommentPlace::Head => HEAD,
            CommentPlace::More => MORE,
            CommentPlace::All => ALL,
        }
    }
}

/// Comments for these records; one at least, so that an empty head says that there may be more.
pub fn comments(place: CommentPlace, records: &[ClockRecord]) -> Vec<String> {
    let one = |records: &[ClockRecord]| {
        let lines: String = records.iter().map(|record| format!("\n{record}")).collect();
        format!("{MARK}{}{lines}", place.word())
    };
    if records.is_empty() {
        return vec![one(&[])];
    }
    records.chunks(IN_COMMENT).map(one).collect()
}

/// Place and records of a comment; `None`: not of ours.
fn comment(text: &str) -> Option<io::Result<(CommentPlace, Vec<ClockRecord>)>> {
    let rest = text.strip_prefix(MARK)?;
    let mut lines = rest.split('\n');
    let place = match lines.next()? {
        HEAD => CommentPlace::Head,
        MORE => CommentPlace::More,
        ALL => CommentPlace::All,
        _ => return None,
    };
    let odd = |e: fullcount_core::wall::NoRecord| {
        io::Error::new(io::ErrorKind::InvalidData, e.to_string())
    };
    let records = lines.map(|line| line.parse().map_err(odd)).collect::<io::Result<_>>();
    Some(records.map(|records| (place, records)))
}

/// Records of a capture, in order; `None` where a run without them, or another program, made it.
///
/// # Errors
/// The file cannot be read, or what we wrote there is damaged.
pub fn records(path: &Path) -> io::Result<Option<Vec<ClockRecord>>> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut blocks = Blocks { file: BufReader::with_capacity(1 << 20, file) };
    let mut found: Option<Vec<ClockRecord>> = None;
    let mut packets = false;
    while let Some((kind, body)) = blocks.next()? {
        match kind {
            SECTION if body.get(..4) != Some(&0x1a2b_3c4du32.to_le_bytes()[..]) => return Ok(None),
            SECTION | INTERFACE => {}
            STATISTICS => {
                let Some(told) = statistics(&body) else { continue };
                let (_, records) = told?;
                let found = found.get_or_insert_default();
                if found.len() + records.len() > MOST_RECORDS {
                    let why = format!("more than {MOST_RECORDS} records of a clock");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, why));
                }
                found.extend(records);
            }
            _ if found.is_none() => return Ok(None),
            _ if !packets => {
                packets = true;
                if let Some(all) = blocks.end()? {
                    return Ok(Some(all));
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

/// The comment of ours in a statistics block.
fn statistics(body: &[u8]) -> Option<io::Result<(CommentPlace, Vec<ClockRecord>)>> {
    let mut rest = body.get(12..)?;
    while let Some((head, behind)) = rest.split_first_chunk::<4>() {
        let (code, len) =
            (u16::from_le_bytes([head[0], head[1]]), u16::from_le_bytes([head[2], head[3]]));
        let value = behind.get(..len.into())?;
        if code == 0 {
            return None;
        }
        if code == 1
            && let Some(told) = std::str::from_utf8(value).ok().and_then(comment)
        {
            return Some(told);
        }
        rest = behind.get(usize::from(len).next_multiple_of(4)..)?;
    }
    None
}

struct Blocks {
    file: BufReader<File>,
}

impl Blocks {
    /// Type and body of the next block; the body of packets, and of long blocks, is skipped.
    fn next(&mut self) -> io::Result<Option<(u32, Vec<u8>)>> {
        let mut head = [0; 8];
        if !fill(&mut self.file, &mut head)? {
            return Ok(None);
        }
        let (kind, len) = head.split_at(4);
        let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let (kind, len) = (word(kind), word(len) as usize);
        if len < 12 || len % 4 != 0 {
            return Ok(None);
        }
        if ![SECTION, INTERFACE, STATISTICS].contains(&kind) || len > LONGEST {
            self.file.seek_relative(len as i64 - 8)?;
            return Ok(Some((kind, Vec::new())));
        }
        let mut body = vec![0; len - 8];
        if !fill(&mut self.file, &mut body)? {
            return Ok(None);
        }
        body.truncate(len - 12);
        Ok(Some((kind, body)))
    }

    /// The records at the end of the file, if it was closed; the file position is unchanged.
    fn end(&mut self) -> io::Result<Option<Vec<ClockRecord>>> {
        let here = self.file.stream_position()?;
        let mut at = self.file.seek(SeekFrom::End(0))?;
        let mut parts: Vec<Vec<ClockRecord>> = Vec::new();
        let mut held = 0;
        while at > here + 12 && held <= MOST_RECORDS {
            let mut len = [0; 4];
            self.file.seek(SeekFrom::Start(at - 4))?;
            self.file.read_exact(&mut len)?;
            let len = u64::from(u32::from_le_bytes(len));
            if len < 12 || len > LONGEST as u64 || at - here < len {
                break;
            }
            self.file.seek(SeekFrom::Start(at - len))?;
            let Some((STATISTICS, body)) = self.next()? else { break };
            let Some(Ok((CommentPlace::All, records))) = statistics(&body) else { break };
            if records.is_empty() {
                break;
            }
            held += records.len();
            parts.push(records);
            at -= len;
        }
        self.file.seek(SeekFrom::Start(here))?;
        let all: Vec<ClockRecord> = parts.into_iter().rev().flatten().collect();
        Ok((!all.is_empty()).then_some(all))
    }
}

/// False at the end of the file.
fn fill(file: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_core::wall::ClockLine;
    use proptest::prelude::*;

    #[test]
    fn comments_read_what_they_write() {
        let line = ClockLine { from: 1, wall: 2, rate: -3 };
        let records: Vec<ClockRecord> =
            std::iter::once(ClockRecord::Era { received: 7, anchor: line })
                .chain((0..1500).map(|_| ClockRecord::Line(line)))
                .collect();
        let texts = comments(CommentPlace::All, &records);
        assert_eq!(texts.len(), 3);
        let back: Vec<ClockRecord> =
            texts.iter().flat_map(|text| comment(text).unwrap().unwrap().1).collect();
        assert_eq!(back, records);
        let head = comment(&comments(CommentPlace::Head, &[])[0]).unwrap().unwrap();
        assert_eq!(head, (CommentPlace::Head, vec![]));
        assert!(comment("fullcount clock all\nnonsense").unwrap().is_err());
        assert!(comment("a user's own words").is_none());
    }

    proptest! {
        #[test]
        fn no_file_panics(bytes in prop::collection::vec(any::<u8>(), 0..400), cut in 0usize..200) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.pcapng");
            let mut all = Vec::new();
            all.extend(SECTION.to_le_bytes());
            all.extend(28u32.to_le_bytes());
            all.extend(0x1a2b_3c4du32.to_le_bytes());
            all.extend([1, 0, 0, 0]);
            all.extend([0xff; 8]);
            all.extend(28u32.to_le_bytes());
            all.extend(STATISTICS.to_le_bytes());
            all.extend(bytes);
            all.truncate(all.len() - cut.min(all.len()));
            std::fs::write(&path, all).unwrap();
            _ = records(&path);
        }
    }
}
