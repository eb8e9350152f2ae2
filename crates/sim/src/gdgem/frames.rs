//! SRS frames of one turn: words of every FEC in the order of being read, markers between them, frames in the order of
//! being sent.
//!
//! All frames are equally long: one that ends early, so that no neutron is split, repeats its VMMs' latest markers.
//! From turn to turn only markers, frame counters and time stamps change. Source:
//! `docs/formats/gdgem.md`, sections 2 to 4.

use super::items::{Item, Scene};
use super::wiring::{self, FECS, VMMS};
use super::{CLOCK_NS, PERIOD_CLOCKS, PERIOD_NS};
use crate::Random;
use crate::made::{Cause, Made, Overlap};

/// Bytes of a frame's header.
pub(super) const HEADER: usize = 16;
/// Bytes of a word.
pub(super) const WORD: usize = 6;
/// A hit is read so much later than it came, ns, at most: frames are not quite in the order of time, but neutrons that keep
/// apart are read one after the other, so that frames can end between them.
const LATENCY_NS: f64 = 250.0;
/// TDC slope, ns for 255 counts: the usual one.
const TAC_NS: f64 = 60.0;
/// No item.
const NONE: u32 = u32::MAX;

/// A word before its frame is known.
#[derive(Debug, Clone, Copy)]
struct Word {
    /// When it is read, ns.
    at: f64,
    item: u32,
    /// First four bytes; of a marker: the period.
    head: u32,
    /// Last two bytes; of a marker: the VMM.
    tail: u16,
    marker: bool,
}

/// One turn of frames.
#[derive(Debug, Default)]
pub(super) struct Packed {
    pub bytes: Vec<u8>,
    pub rows: Vec<Made>,
    pub stamps: Vec<Stamp>,
    /// First of each packet's places in `markers`, and their number.
    pub first: Vec<u32>,
    /// Markers: byte within the packet, and period within the turn.
    pub markers: Vec<(u32, u32)>,
    /// Frames of each FEC.
    pub frames: [u32; FECS],
}

/// What changes in a packet's header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamp {
    /// Place of the FEC; `None` for a broken packet.
    pub fec: Option<u8>,
    /// Number among the FEC's frames of the turn.
    pub number: u32,
    /// When it is sent, clocks since the turn's start.
    pub clocks: u64,
}

/// Binary to Gray, 12 bits.
fn gray(n: u32) -> u32 {
    n ^ (n >> 1)
}

/// A hit at `time`, read at `at`, in VMM `vmm`.
fn hit(time: f64, at: f64, vmm: u16, channel: u16, adc: u16) -> (u32, u16) {
    // The TDC runs from the hit to a clock edge half a clock to one and a half away: 53 to 159 counts.
    let clocks = ((time - CLOCK_NS) / CLOCK_NS).ceil().max(0.0);
    let rest = clocks * CLOCK_NS + 1.5 * CLOCK_NS - time;
    let tdc = (rest * 255.0 / TAC_NS).round().clamp(0.0, 255.0) as u16;
    let clocks = clocks as u64;
    let (period, within) = (clocks / PERIOD_CLOCKS, clocks % PERIOD_CLOCKS);
    // Read after the next marker: the period before it.
    let behind = at >= (period + 1) as f64 * PERIOD_NS;
    let offset = if behind { 31 } else { (within >> 12) as u32 };
    let bcid = gray((within & 0xfff) as u32);
    let head = offset << 27 | u32::from(vmm) << 22 | u32::from(adc) << 12 | bcid;
    (head, 0x8000 | 0x4000 | channel << 8 | tdc)
}

/// A word that every decoder refuses, one way after the other.
fn refused(way: usize, random: &mut Random) -> (u32, u16) {
    let bcid = gray(random.below(4096));
    let adc = 100 + random.below(400);
    let word = |offset: u32, vmm: u32| {
        (offset << 27 | vmm << 22 | adc << 12 | bcid, 0xc000 | (random_channel(bcid) << 8))
    };
    match way % 4 {
        // A VMM that does not exist.
        0 => word(3, 16 + bcid % 16),
        // Read too late.
        1 => word(16, bcid % 10),
        // An offset that this firmware does not have.
        2 => word(17 + bcid % 14, bcid % 10),
        // A marker of a VMM that does not exist: 16 and more mean something in triggered firmware only.
        _ => (1 << 20, (16 + (bcid % 16) as u16) << 10),
    }
}

fn random_channel(bits: u32) -> u16 {
    (bits % 64) as u16
}

/// Words of each FEC in the order of being read.
fn words(scene: &Scene, periods: u64, random: &mut Random) -> [Vec<Word>; FECS] {
    let mut fecs: [Vec<Word>; FECS] = Default::default();
    for period in 0..periods {
        for words in &mut fecs {
            words.extend((0..VMMS).map(|vmm| Word {
                at: period as f64 * PERIOD_NS,
                item: NONE,
                head: period as u32,
                tail: vmm,
                marker: true,
            }));
        }
    }
    let mut bad = 0;
    for (number, item) in scene.items.iter().enumerate() {
        let item_number = number as u32;
        if item.kind == Cause::Bad {
            let (head, tail) = refused(bad, random);
            bad += 1;
            let fec = random.below(FECS as u32) as usize;
            let at = item.time;
            fecs[fec].push(Word { at, item: item_number, head, tail, marker: false });
        }
        for h in scene.hits(item) {
            let time = item.time + f64::from(h.later);
            let at = time + LATENCY_NS * random.unit();
            let (vmm, channel) = wiring::input(h.strip);
            let (head, tail) = hit(time, at, vmm, channel, h.adc);
            let fec = wiring::fec(usize::from(item.sector), usize::from(h.plane));
            fecs[fec].push(Word { at, item: item_number, head, tail, marker: false });
        }
    }
    // Stable: the markers of one moment stay in the order of the VMMs, and in front of hits.
    fecs.iter_mut().for_each(|words| words.sort_by(|a, b| a.at.total_cmp(&b.at)));
    fecs
}

/// Ends of the frames among a FEC's words: `most` words at most, and where possible no item in two frames.
fn cuts(words: &[Word], most: usize, items: usize) -> Vec<usize> {
    let mut last = vec![0u32; items];
    for (at, word) in words.iter().enumerate().filter(|(_, w)| w.item != NONE) {
        last[word.item as usize] = at as u32;
    }
    // After word i everything that began has ended.
    let mut open_until = 0;
    let mut ends = Vec::new();
    let (mut start, mut whole) = (0, 0);
    for (at, word) in words.iter().enumerate() {
        if at - start == most {
            // If everything piles up there is no such place in reach: a neutron is split. A neutron's words and a set
            // of markers are 30.
            let reach = (most / 2).max(35);
            let end = if whole > start && whole + reach > at { whole } else { at };
            ends.push(end);
            start = end;
        }
        if word.item != NONE {
            open_until = open_until.max(last[word.item as usize] as usize);
        }
        if open_until <= at {
            whole = at + 1;
        }
    }
    if start < words.len() {
        ends.push(words.len());
    }
    ends
}

/// Writes the words of a frame; gives the places of its markers.
fn write(words: &[Word], size: usize, fec: usize, period: &mut [u32], out: &mut Packed) {
    let start = out.bytes.len();
    out.bytes.extend_from_slice(&[0; HEADER]);
    out.bytes[start + 4..start + 8].copy_from_slice(&[b'V', b'M', b'3', ((fec + 1) << 4) as u8]);
    out.bytes[start + 12..start + 16].copy_from_slice(&((1u32 << VMMS) - 1).to_be_bytes());
    let put = |head: u32, tail: u16, bytes: &mut Vec<u8>| {
        bytes.extend_from_slice(&head.to_be_bytes());
        bytes.extend_from_slice(&tail.to_be_bytes());
    };
    for word in words {
        if word.marker {
            period[usize::from(word.tail)] = word.head;
            out.markers.push(((out.bytes.len() - start) as u32, word.head));
            put(0, word.tail << 10, &mut out.bytes);
        } else {
            put(word.head, word.tail, &mut out.bytes);
        }
    }
    let mut vmm = 0;
    while out.bytes.len() < start + size {
        out.markers.push(((out.bytes.len() - start) as u32, period[usize::from(vmm)]));
        put(0, vmm << 10, &mut out.bytes);
        vmm = (vmm + 1) % VMMS;
    }
}

/// A frame that is refused whole.
fn broken(way: usize, size: usize, out: &mut Packed) {
    let start = out.bytes.len();
    out.bytes.resize(start + size, 0);
    let head: &[u8; 4] = if way == 0 { b"VM2\x10" } else { b"VM3\x00" };
    out.bytes[start + 4..start + 8].copy_from_slice(head);
}

/// A frame that waits for its turn: when it is sent, FEC, words.
type Waiting = (f64, usize, std::ops::Range<usize>);

/// Lays out one turn of frames with `most` words each.
pub(super) fn pack(
    scene: &Scene,
    periods: u64,
    most: usize,
    share_broken: f64,
    seed: u64,
) -> Packed {
    let mut random = Random::new(seed ^ 0x6d6);
    let fecs = words(scene, periods, &mut random);
    let size = HEADER + WORD * most;
    let mut waiting: Vec<Waiting> = Vec::new();
    for (fec, words) in fecs.iter().enumerate() {
        let mut start = 0;
        for end in cuts(words, most, scene.items.len()) {
            waiting.push((words[end - 1].at, fec, start..end));
            start = end;
        }
    }
    waiting.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut out = Packed { bytes: Vec::with_capacity(waiting.len() * size), ..Packed::default() };
    let mut period = [[0; VMMS as usize]; FECS];
    let mut packet_of = vec![0u64; scene.items.len()];
    let mut broken_ones = 0;
    // Evenly spread: a short turn would have any number of them, and repeat it.
    let mut broken_due = random.unit();
    for (at, fec, range) in waiting {
        broken_due += share_broken;
        if broken_due >= 1.0 {
            broken_due -= 1.0;
            let packet = out.stamps.len() as u64;
            out.first.push(out.markers.len() as u32);
            out.stamps.push(Stamp { fec: None, number: 0, clocks: (at / CLOCK_NS) as u64 });
            broken(broken_ones % 2, size, &mut out);
            broken_ones += 1;
            let (kind, overlap, time) = (Cause::Packet, Overlap::None, at as i64);
            out.rows.push(Made { packet, module: 0, time, pixel: 0, kind, overlap, spot: None });
        }
        let packet = out.stamps.len() as u64;
        out.first.push(out.markers.len() as u32);
        let number = out.frames[fec];
        out.frames[fec] += 1;
        out.stamps.push(Stamp { fec: Some(fec as u8), number, clocks: (at / CLOCK_NS) as u64 });
        let words = &fecs[fec][range];
        write(words, size, fec, &mut period[fec], &mut out);
        for word in words.iter().filter(|w| w.item != NONE) {
            packet_of[word.item as usize] = packet;
        }
    }
    out.first.push(out.markers.len() as u32);
    rows(scene, &packet_of, &mut out);
    out
}

/// Rows of truth; each item's with the packet that completes it.
fn rows(scene: &Scene, packet_of: &[u64], out: &mut Packed) {
    let row = |(item, &packet): (&Item, &u64)| {
        let spot = matches!(item.kind, Cause::Neutron | Cause::Coincidence).then_some(item.spot);
        Made {
            packet,
            module: u16::from(item.sector),
            time: item.time.floor() as i64,
            pixel: item.pixel(),
            kind: item.kind,
            overlap: item.overlap,
            spot,
        }
    };
    out.rows.extend(scene.items.iter().zip(packet_of).map(row));
    out.rows.sort_by_key(|r| r.packet);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gray_code_is_the_one_of_the_format() {
        assert_eq!(gray(2044), 0x402);
        // Example of section 3.1: offset 28, VMM 2, ADC 290, BCID 2044.
        assert_eq!(28 << 27 | 2 << 22 | 290 << 12 | gray(2044), 0xe092_2402);
    }

    #[test]
    fn a_hit_has_its_time_to_a_quarter_of_a_nanosecond() {
        let mut random = Random::new(4);
        for _ in 0..10_000 {
            let time = 7000.0 + 3e6 * random.unit();
            let (head, tail) = hit(time, time, 3, 17, 900);
            assert_eq!((head >> 22 & 31, head >> 12 & 1023, tail >> 8 & 63), (3, 900, 17));
            let mut bcid = head & 0xfff;
            for shift in [8, 4, 2, 1] {
                bcid ^= bcid >> shift;
            }
            let period = (time / PERIOD_NS).floor() * PERIOD_NS;
            let tdc = f64::from(tail & 0xff);
            let got = period + f64::from(head >> 27) * 102_400.0 + f64::from(bcid) * 25.0 + 37.5
                - tdc * 60.0 / 255.0;
            let period = if got - time > 1e6 { PERIOD_NS } else { 0.0 };
            assert!((got - period - time).abs() < 0.13, "{got} {time}");
        }
    }

    #[test]
    fn a_hit_read_behind_the_next_marker_has_the_offset_of_the_period_before() {
        let time = 2.0 * PERIOD_NS - 500.0;
        let raw = |at: f64| hit(time, at, 0, 0, 100).0 >> 27;
        assert_eq!((raw(time + 400.0), raw(time + 600.0)), (15, 31));
    }
}
