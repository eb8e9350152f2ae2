//! Frames of a capture file: classic pcap (both byte orders, µs and ns) and pcapng (SHB, IDB, EPB,
//! SPB and the obsolete packet block; both byte orders, several interfaces and sections, other
//! blocks skipped).
//!
//! A file that ends in the middle of a record gives every record before it, and [`CaptureReader::tail`] reports it; so does
//! one with invalid lengths from some point on. Refuses files that do not begin as a capture, pcapng above version 1.
//! Sources: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.

use std::io::{self, Read};

use super::blocks::{Fields, Interface, NoFrame, Order, enhanced, interface, obsolete, simple};

/// Longest accepted frame, bytes: 1 MiB, four times the largest snap length of tcpdump.
pub const LONGEST_FRAME: usize = 1 << 20;
/// Longest pcapng block that is read into memory: a frame, its header and its options. Longer ones
/// of other types are skipped without being held.
const LONGEST_BLOCK: usize = LONGEST_FRAME + (1 << 16);
/// Most accepted interfaces of a section: a tcpdump of everything has some tens.
const MOST_INTERFACES: usize = 65_536;

const PCAPNG: u32 = 0x0a0d_0d0a;

/// Why a file cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum ReadError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the file is empty; a capture has at least a header of 24 bytes")]
    Empty,
    #[error("the file ends inside its header")]
    HeaderCut,
    #[error("not a capture: it begins with {begin}, neither pcap nor pcapng{hint}")]
    NotACapture { begin: String, hint: &'static str },
    #[error("{format} version {major}.{minor} is not known; known are pcap 2.x and pcapng 1.x")]
    Version { format: &'static str, major: u16, minor: u16 },
}

/// How a file ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// At the end of a record, or not yet.
    Complete,
    /// Inside a record.
    Truncated,
    /// With lengths that make no sense.
    Damaged,
}

/// One captured frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapturedFrame<'a> {
    /// Link type number of its interface.
    pub link: u16,
    /// Interface in its section, 0 in classic files.
    pub interface: u32,
    /// Time of capture, ns since 1970 UTC; `None` where the file has none.
    pub time_ns: Option<i64>,
    /// Bytes captured.
    pub frame: &'a [u8],
    /// Bytes on the wire; above `frame.len()` if the capture cut the frame.
    pub original: u64,
}

#[derive(Debug)]
enum Layout {
    Classic { link: u16, nanos: bool },
    Blocks { interfaces: Vec<Interface> },
}

/// Buffered bytes of the file.
#[derive(Debug)]
struct Input<R> {
    inner: R,
    buffer: Box<[u8]>,
    at: usize,
    end: usize,
}

impl<R: Read> Input<R> {
    /// Makes `n` bytes available; fewer come back only at the end of the file.
    fn fill(&mut self, n: usize) -> io::Result<&[u8]> {
        if self.end - self.at < n && self.buffer.len() - self.at < n {
            self.buffer.copy_within(self.at..self.end, 0);
            self.end -= self.at;
            self.at = 0;
        }
        while self.end - self.at < n {
            match self.inner.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(read) => self.end += read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(&self.buffer[self.at..self.end.min(self.at + n)])
    }

    /// Skips `n` bytes; false if the file ends before.
    fn skip(&mut self, mut n: usize) -> io::Result<bool> {
        while n > 0 {
            let have = self.fill(n.min(1 << 16))?.len();
            if have == 0 {
                return Ok(false);
            }
            self.at += have;
            n -= have;
        }
        Ok(true)
    }
}

/// Reads a capture record by record.
#[derive(Debug)]
pub struct CaptureReader<R> {
    input: Input<R>,
    order: Order,
    layout: Layout,
    tail: Tail,
    ended: bool,
    skipped_blocks: u64,
    /// Where the last frame is in the buffer.
    last: std::ops::Range<usize>,
}

/// Where a record is in the buffer, before it is borrowed.
pub(super) struct Found {
    pub link: u16,
    pub interface: u32,
    pub time_ns: Option<i64>,
    pub from: usize,
    pub len: usize,
    pub original: u64,
    /// Bytes of the whole record.
    pub size: usize,
}

/// What a pcapng block turned out to be.
enum Block {
    Frame(Found),
    /// Nothing to deliver; `size` bytes to pass over.
    Other {
        size: usize,
    },
    End(Tail),
}

impl<R: Read> CaptureReader<R> {
    /// Reads the file's header.
    pub fn new(inner: R) -> Result<CaptureReader<R>, ReadError> {
        // Twice the longest block, so that a fill moves each byte at most once on average.
        CaptureReader::with_buffer(inner, vec![0; 2 * LONGEST_BLOCK].into_boxed_slice())
    }

    /// As [`CaptureReader::new`], with the memory that [`CaptureReader::into_buffer`] of another reader gave.
    pub fn with_buffer(inner: R, buffer: Box<[u8]>) -> Result<CaptureReader<R>, ReadError> {
        if buffer.len() < 2 * LONGEST_BLOCK {
            return CaptureReader::new(inner);
        }
        let mut input = Input { inner, buffer, at: 0, end: 0 };
        let head = input.fill(24)?;
        let Some(magic) = head.first_chunk::<4>() else {
            return Err(if head.is_empty() { ReadError::Empty } else { not_a_capture(head) });
        };
        let (order, nanos) = match u32::from_be_bytes(*magic) {
            PCAPNG => {
                let mut reader = CaptureReader {
                    input,
                    order: Order::Little,
                    layout: Layout::Blocks { interfaces: Vec::new() },
                    tail: Tail::Complete,
                    ended: false,
                    skipped_blocks: 0,
                    last: 0..0,
                };
                reader.first_section()?;
                return Ok(reader);
            }
            0xa1b2_c3d4 => (Order::Big, false),
            0xa1b2_3c4d => (Order::Big, true),
            0xd4c3_b2a1 => (Order::Little, false),
            0x4d3c_b2a1 => (Order::Little, true),
            _ => return Err(not_a_capture(head)),
        };
        if head.len() < 24 {
            return Err(ReadError::HeaderCut);
        }
        let (major, minor) = (order.u16([head[4], head[5]]), order.u16([head[6], head[7]]));
        if major != 2 {
            return Err(ReadError::Version { format: "pcap", major, minor });
        }
        // The upper half says how long the frame check sequence is; the IP length cuts it off.
        let link = order.u32([head[20], head[21], head[22], head[23]]) as u16;
        input.at += 24;
        Ok(CaptureReader {
            input,
            order,
            layout: Layout::Classic { link, nanos },
            tail: Tail::Complete,
            ended: false,
            skipped_blocks: 0,
            last: 0..0,
        })
    }

    fn first_section(&mut self) -> Result<(), ReadError> {
        let head = self.input.fill(28)?;
        if head.len() < 28 {
            return Err(ReadError::HeaderCut);
        }
        let bytes: [u8; 4] = [head[8], head[9], head[10], head[11]];
        let order = match u32::from_be_bytes(bytes) {
            0x1a2b_3c4d => Order::Big,
            0x4d3c_2b1a => Order::Little,
            _ => return Err(not_a_capture(head)),
        };
        let (major, minor) = (order.u16([head[12], head[13]]), order.u16([head[14], head[15]]));
        if major != 1 {
            return Err(ReadError::Version { format: "pcapng", major, minor });
        }
        Ok(())
    }

    /// The memory, to be used for another file.
    pub fn into_buffer(self) -> Box<[u8]> {
        self.input.buffer
    }

    /// The frame that [`CaptureReader::next`] gave last, empty before the first one.
    pub fn last(&self) -> &[u8] {
        &self.input.buffer[self.last.clone()]
    }

    /// How the file ended, once [`CaptureReader::next`] has given `None`.
    pub fn tail(&self) -> Tail {
        self.tail
    }

    /// pcapng blocks passed over: statistics, names, packets of undeclared interfaces.
    pub fn skipped_blocks(&self) -> u64 {
        self.skipped_blocks
    }

    /// The next frame, `None` at the end.
    ///
    /// # Errors
    /// Only what the system reports while reading.
    #[expect(clippy::should_implement_trait, reason = "a record borrows the buffer")]
    pub fn next(&mut self) -> io::Result<Option<CapturedFrame<'_>>> {
        if self.ended {
            return Ok(None);
        }
        let found = match self.layout {
            Layout::Classic { link, nanos } => self.classic(link, nanos)?,
            Layout::Blocks { .. } => self.blocks()?,
        };
        let found = match found {
            Ok(found) => found,
            Err(tail) => {
                self.tail = tail;
                self.ended = true;
                return Ok(None);
            }
        };
        let start = self.input.at;
        self.input.at += found.size;
        let from = start + found.from;
        self.last = from..from + found.len;
        Ok(Some(CapturedFrame {
            link: found.link,
            interface: found.interface,
            time_ns: found.time_ns,
            frame: self.last(),
            original: found.original,
        }))
    }

    fn classic(&mut self, link: u16, nanos: bool) -> io::Result<Result<Found, Tail>> {
        let head = self.input.fill(16)?;
        if head.is_empty() {
            return Ok(Err(Tail::Complete));
        }
        let mut f = Fields { rest: head, order: self.order };
        let (Some(seconds), Some(part), Some(len), Some(original)) =
            (f.u32(), f.u32(), f.u32(), f.u32())
        else {
            return Ok(Err(Tail::Truncated));
        };
        let len = len as usize;
        if len > LONGEST_FRAME {
            return Ok(Err(Tail::Damaged));
        }
        if self.input.fill(16 + len)?.len() < 16 + len {
            return Ok(Err(Tail::Truncated));
        }
        let part = i64::from(part) * if nanos { 1 } else { 1000 };
        Ok(Ok(Found {
            link,
            interface: 0,
            // 2³² s and 2³² µs in ns are below 2⁶³.
            time_ns: Some(i64::from(seconds) * 1_000_000_000 + part),
            from: 16,
            len,
            original: u64::from(original),
            size: 16 + len,
        }))
    }

    fn blocks(&mut self) -> io::Result<Result<Found, Tail>> {
        loop {
            match self.block()? {
                Block::Frame(found) => return Ok(Ok(found)),
                Block::End(tail) => return Ok(Err(tail)),
                Block::Other { size } => {
                    if !self.input.skip(size)? {
                        return Ok(Err(Tail::Truncated));
                    }
                }
            }
        }
    }

    fn block(&mut self) -> io::Result<Block> {
        let head = self.input.fill(12)?;
        if head.is_empty() {
            return Ok(Block::End(Tail::Complete));
        }
        let Some(&[t0, t1, t2, t3, l0, l1, l2, l3, m0, m1, m2, m3]) = head.first_chunk::<12>()
        else {
            return Ok(Block::End(Tail::Truncated));
        };
        let mut order = self.order;
        // The section header reads the same in both orders; the magic in it says which one.
        let section = u32::from_be_bytes([t0, t1, t2, t3]) == PCAPNG;
        if section {
            order = match u32::from_be_bytes([m0, m1, m2, m3]) {
                0x1a2b_3c4d => Order::Big,
                0x4d3c_2b1a => Order::Little,
                _ => return Ok(Block::End(Tail::Damaged)),
            };
        }
        let kind = order.u32([t0, t1, t2, t3]);
        let size = order.u32([l0, l1, l2, l3]) as usize;
        if size < 12 || !size.is_multiple_of(4) || (section && size < 28) {
            return Ok(Block::End(Tail::Damaged));
        }
        let known = section || matches!(kind, 1 | 2 | 3 | 6);
        if !known {
            self.skipped_blocks += 1;
            return Ok(Block::Other { size });
        }
        if size > LONGEST_BLOCK {
            return Ok(Block::End(Tail::Damaged));
        }
        let block = self.input.fill(size)?;
        if block.len() < size {
            return Ok(Block::End(Tail::Truncated));
        }
        let end = &block[size - 4..];
        if order.u32([end[0], end[1], end[2], end[3]]) as usize != size {
            return Ok(Block::End(Tail::Damaged));
        }
        let body = Fields { rest: &block[8..size - 4], order };
        let Layout::Blocks { interfaces } = &mut self.layout else {
            return Ok(Block::End(Tail::Damaged)); // not reached: classic files have no blocks
        };
        if section {
            // A version above 1 may mean anything from here on.
            if order.u16([block[12], block[13]]) != 1 {
                return Ok(Block::End(Tail::Damaged));
            }
            self.order = order;
            interfaces.clear();
            return Ok(Block::Other { size });
        }
        if kind == 1 {
            let Some(interface) = interface(body).filter(|_| interfaces.len() < MOST_INTERFACES)
            else {
                return Ok(Block::End(Tail::Damaged));
            };
            interfaces.push(interface);
            return Ok(Block::Other { size });
        }
        let found = match kind {
            6 => enhanced(body, interfaces),
            2 => obsolete(body, interfaces),
            _ => simple(body, interfaces),
        };
        match found {
            Ok(found) => Ok(Block::Frame(Found { size, ..found })),
            Err(NoFrame::Undeclared) => {
                self.skipped_blocks += 1;
                Ok(Block::Other { size })
            }
            Err(NoFrame::Damaged) => Ok(Block::End(Tail::Damaged)),
        }
    }
}

fn not_a_capture(head: &[u8]) -> ReadError {
    let begin = head.iter().take(4).map(|b| format!("{b:02x}")).collect();
    let hint = match head {
        [0x1f, 0x8b, ..] => " (it is compressed: gunzip it first)",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => " (it is compressed: unzstd it first)",
        [0xfd, b'7', b'z', ..] => " (it is compressed: unxz it first)",
        [0xa1, 0xb2, 0xcd, 0x34, ..] | [0x34, 0xcd, 0xb2, 0xa1, ..] => {
            " (a patched pcap variant: convert it with editcap)"
        }
        [b's', b'n', b'o', b'o', ..] => " (a snoop file: convert it with editcap)",
        _ => "",
    };
    ReadError::NotACapture { begin, hint }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
