//! Frames of a capture file: classic pcap (both byte orders, µs and ns) and pcapng (SHB, IDB, EPB,
//! SPB and the obsolete packet block; both byte orders, several interfaces and sections, other
//! blocks skipped).
//!
//! A file that ends in the middle of a record gives every record before it, and [`Reader::tail`]
//! says so; so does one whose lengths make no sense from some point on.
//! Refuses: files that do not begin as a capture, pcapng above version 1.
//! Sources: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.

use std::io::{self, Read};

/// Longest frame that is believed, bytes: 1 MiB, four times the largest snap length of tcpdump.
pub const LONGEST_FRAME: usize = 1 << 20;
/// Longest pcapng block that is read into memory: a frame, its header and its options. Longer ones
/// of other types are skipped without being held.
const LONGEST_BLOCK: usize = LONGEST_FRAME + (1 << 16);
/// Most interfaces of a section that are believed: a tcpdump of everything has some tens.
const MOST_INTERFACES: usize = 65_536;

const PCAPNG: u32 = 0x0a0d_0d0a;

/// Why a file cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system's answer.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Nothing in it, not even a header.
    #[error("the file is empty; a capture has at least a header of 24 bytes")]
    Empty,
    /// Too short for its header.
    #[error("the file ends inside its header")]
    HeaderCut,
    /// Some other kind of file.
    #[error("not a capture: it begins with {begin}, neither pcap nor pcapng{hint}")]
    NotACapture {
        /// First bytes in hexadecimal.
        begin: String,
        /// What it may be and what to do, or empty.
        hint: &'static str,
    },
    /// Newer than the formats known here.
    #[error("{format} version {major}.{minor} is not known; known are pcap 2.x and pcapng 1.x")]
    Version {
        /// `pcap` or `pcapng`.
        format: &'static str,
        /// Version in the file.
        major: u16,
        /// Version in the file.
        minor: u16,
    },
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
pub struct Record<'a> {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Big,
    Little,
}

impl Order {
    fn u16(self, b: [u8; 2]) -> u16 {
        match self {
            Order::Big => u16::from_be_bytes(b),
            Order::Little => u16::from_le_bytes(b),
        }
    }

    fn u32(self, b: [u8; 4]) -> u32 {
        match self {
            Order::Big => u32::from_be_bytes(b),
            Order::Little => u32::from_le_bytes(b),
        }
    }

    fn u64(self, b: [u8; 8]) -> u64 {
        match self {
            Order::Big => u64::from_be_bytes(b),
            Order::Little => u64::from_le_bytes(b),
        }
    }
}

/// Reads fields in the file's byte order out of a block.
#[derive(Clone, Copy)]
struct Fields<'a> {
    rest: &'a [u8],
    order: Order,
}

impl<'a> Fields<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(n)?;
        self.rest = tail;
        Some(head)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(|b| self.order.u16(b))
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(|b| self.order.u32(b))
    }
}

/// Unit of an interface's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resolution {
    /// 10⁻ⁿ s.
    Decimal(u8),
    /// 2⁻ⁿ s.
    Binary(u8),
}

impl Resolution {
    /// Nanoseconds of `ticks`, rounded down.
    fn to_nanos(self, ticks: u64) -> i128 {
        let ns = u128::from(ticks) * 1_000_000_000;
        let ns = match self {
            // 10³⁸ still fits; beyond, 2⁶⁴ ticks are less than a nanosecond.
            Resolution::Decimal(n) => 10u128.checked_pow(n.into()).map_or(0, |d| ns / d),
            Resolution::Binary(n) => ns.checked_shr(n.into()).unwrap_or(0),
        };
        // At most 2⁶⁴ × 10⁹ < 2⁹⁴.
        ns as i128
    }
}

#[derive(Debug, Clone, Copy)]
struct Interface {
    link: u16,
    snap: u32,
    resolution: Resolution,
    offset_s: i64,
}

impl Interface {
    fn time(&self, ticks: u64) -> i64 {
        clamp(self.resolution.to_nanos(ticks) + i128::from(self.offset_s) * 1_000_000_000)
    }
}

fn clamp(ns: i128) -> i64 {
    ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
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
pub struct Reader<R> {
    input: Input<R>,
    order: Order,
    layout: Layout,
    tail: Tail,
    ended: bool,
    skipped_blocks: u64,
    /// Where the last frame lies in the buffer.
    last: std::ops::Range<usize>,
}

/// Where a record lies in the buffer, before it is borrowed.
struct Found {
    link: u16,
    interface: u32,
    time_ns: Option<i64>,
    from: usize,
    len: usize,
    original: u64,
    /// Bytes of the whole record.
    size: usize,
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

impl<R: Read> Reader<R> {
    /// Reads the file's header.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn new(inner: R) -> Result<Reader<R>, ReadError> {
        // Twice the longest block, so that a fill moves each byte at most once on average.
        Reader::with_buffer(inner, vec![0; 2 * LONGEST_BLOCK].into_boxed_slice())
    }

    /// As [`Reader::new`], with the memory that [`Reader::into_buffer`] of another reader gave.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn with_buffer(inner: R, buffer: Box<[u8]>) -> Result<Reader<R>, ReadError> {
        if buffer.len() < 2 * LONGEST_BLOCK {
            return Reader::new(inner);
        }
        let mut input = Input { inner, buffer, at: 0, end: 0 };
        let head = input.fill(24)?;
        let Some(magic) = head.first_chunk::<4>() else {
            return Err(if head.is_empty() { ReadError::Empty } else { not_a_capture(head) });
        };
        let (order, nanos) = match u32::from_be_bytes(*magic) {
            PCAPNG => {
                let mut reader = Reader {
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
        Ok(Reader {
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

    /// The frame that [`Reader::next`] gave last, empty before the first one.
    pub fn last(&self) -> &[u8] {
        &self.input.buffer[self.last.clone()]
    }

    /// How the file ended, once [`Reader::next`] has given `None`.
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
    pub fn next(&mut self) -> io::Result<Option<Record<'_>>> {
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
        Ok(Some(Record {
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

enum NoFrame {
    /// Its interface was not described: the link type is unknown.
    Undeclared,
    Damaged,
}

/// Interface description block.
fn interface(mut f: Fields<'_>) -> Option<Interface> {
    let link = f.u16()?;
    f.u16()?;
    let snap = f.u32()?;
    let mut interface = Interface { link, snap, resolution: Resolution::Decimal(6), offset_s: 0 };
    // Options that end early or reach over the block say nothing.
    while let (Some(code), Some(len)) = (f.u16(), f.u16()) {
        let Some(value) = f.take(usize::from(len)) else { break };
        f.take((4 - usize::from(len) % 4) % 4);
        match (code, value) {
            (0, _) => break,
            (9, &[n]) if n & 0x80 == 0 => interface.resolution = Resolution::Decimal(n),
            (9, &[n]) => interface.resolution = Resolution::Binary(n & 0x7f),
            (14, value) => {
                if let Ok(b) = value.try_into() {
                    interface.offset_s = f.order.u64(b) as i64;
                }
            }
            _ => {}
        }
    }
    Some(interface)
}

/// Time, lengths and data, common to the enhanced and the obsolete packet block. `from` counts
/// from the start of the block.
fn timed(mut f: Fields<'_>, interface: u32, interfaces: &[Interface]) -> Result<Found, NoFrame> {
    let (Some(high), Some(low), Some(len), Some(original)) = (f.u32(), f.u32(), f.u32(), f.u32())
    else {
        return Err(NoFrame::Damaged);
    };
    let len = len as usize;
    if len > f.rest.len() || len > LONGEST_FRAME {
        return Err(NoFrame::Damaged);
    }
    let Some(i) = interfaces.get(interface as usize) else { return Err(NoFrame::Undeclared) };
    let ticks = u64::from(high) << 32 | u64::from(low);
    Ok(Found {
        link: i.link,
        interface,
        time_ns: Some(i.time(ticks)),
        from: 28,
        len,
        original: u64::from(original),
        size: 0,
    })
}

/// Enhanced packet block.
fn enhanced(mut f: Fields<'_>, interfaces: &[Interface]) -> Result<Found, NoFrame> {
    let interface = f.u32().ok_or(NoFrame::Damaged)?;
    timed(f, interface, interfaces)
}

/// Obsolete packet block: 16 bits of interface, 16 bits of drop count.
fn obsolete(mut f: Fields<'_>, interfaces: &[Interface]) -> Result<Found, NoFrame> {
    let (Some(interface), Some(_drops)) = (f.u16(), f.u16()) else { return Err(NoFrame::Damaged) };
    timed(f, interface.into(), interfaces)
}

/// Simple packet block: interface 0, no time, length cut by its snap length.
fn simple(mut f: Fields<'_>, interfaces: &[Interface]) -> Result<Found, NoFrame> {
    let original = f.u32().ok_or(NoFrame::Damaged)?;
    let Some(i) = interfaces.first() else { return Err(NoFrame::Undeclared) };
    let snap = if i.snap == 0 { u32::MAX } else { i.snap };
    let len = original.min(snap) as usize;
    if len > f.rest.len() || len > LONGEST_FRAME {
        return Err(NoFrame::Damaged);
    }
    let original = u64::from(original);
    Ok(Found { link: i.link, interface: 0, time_ns: None, from: 12, len, original, size: 0 })
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
