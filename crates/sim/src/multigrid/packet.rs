//! Multi-Grid packets of one length, written word by word, and the places of numbers and times.
//!
//! Each trigger is one event of the container with a block of the VMMR: header, extended timestamp,
//! readouts, fill words, end of event. The rest of a packet is filled with empty triggers and, below
//! 32 bytes, with more fill words in the last block. Source: `docs/formats/multigrid.md`, sections 2 and 3.

use std::num::NonZeroU16;

use super::triggers::{ALL_CHANNELS, Bad, Content, Plan, Readout, Trigger, Turn};
use super::wiring::CHANNELS;
use crate::Random;
use crate::made::{Cause, Made, Overlap};

/// Words in a packet; with the header of 3 bytes 1,299 bytes, as recorded.
const WORDS: usize = 324;
/// Payload bytes of every packet.
pub(super) const BYTES: usize = 3 + 4 * WORDS;
/// Words of an event around its data: header, begin, cookie, end.
const AROUND: usize = 4;
/// Words of a block without readouts and fill words: header, extended timestamp, end of event.
const FRAME: usize = 3;
/// Words of an empty trigger: the frame and one fill word.
const EMPTY_WORDS: usize = AROUND + FRAME + 1;

/// Where a trigger carries its number and time, in bytes from the packet's start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamp {
    /// The begin word; the extended timestamp is the second word after it.
    begin: u16,
    /// The end of event, if there is one.
    low: Option<NonZeroU16>,
    /// Ticks from the turn's start.
    time: i64,
}

/// One turn of packets.
#[derive(Debug, Default)]
pub(super) struct Packed {
    pub bytes: Vec<u8>,
    pub stamps: Vec<Stamp>,
    /// First stamp of each packet, and the number of stamps.
    pub first: Vec<u32>,
    pub rows: Vec<Made>,
}

/// Ways to break a packet.
const BREAKS: usize = 6;

fn data_words(content: &Content) -> usize {
    let readouts = match content {
        Content::Readouts(range) => range.len(),
        Content::Pulse | Content::Empty | Content::Bad(Bad::NoEnd) => 0,
        Content::Bad(Bad::Glitch) => usize::from(ALL_CHANNELS),
        Content::Bad(_) => 1,
    };
    // A block has an even number of words.
    (FRAME + readouts).next_multiple_of(2)
}

struct Writer<'a> {
    plan: &'a Plan,
    random: Random,
    out: Packed,
    /// Words free in the open packet; 0: none is open.
    free: usize,
    /// Byte offset of the last event header in the open packet.
    last: usize,
    /// Its data words.
    data: usize,
    made: usize,
}

impl Writer<'_> {
    fn word(&mut self, word: u32) {
        self.out.bytes.extend_from_slice(&word.to_le_bytes());
    }

    fn start(&self) -> usize {
        self.out.bytes.len() / BYTES * BYTES
    }

    fn open(&mut self) {
        self.out.first.push(self.out.stamps.len() as u32);
        self.out.bytes.extend_from_slice(&[0x60, 0, 0]);
        self.free = WORDS;
    }

    /// Writes a trigger into the open packet; there is room for it.
    fn trigger(&mut self, time: i64, content: &Content, pool: &[Readout]) {
        let data = data_words(content);
        let start = self.start();
        let packet = self.out.bytes.len() - start;
        let length = (data + 3) as u32;
        self.word(0x58 | (length >> 8) << 8 | (length & 0xff) << 16);
        self.word(0xbb << 24);
        let pulse = u32::from(*content == Content::Pulse);
        let said = match content {
            Content::Bad(Bad::Length) => data as u32 + 3,
            _ => data as u32 - 1,
        };
        self.word(0x4000_0000 | pulse << 24 | said);
        self.word(0x2000_0000);
        let readout =
            |bus: u32, channel: u32, adc: u32| 0x1000_0000 | bus << 24 | channel << 12 | adc;
        let mut readouts = 0;
        match content {
            Content::Readouts(range) => {
                for r in &pool[range.clone()] {
                    self.word(readout(u32::from(r.bus), u32::from(r.channel), u32::from(r.adc)));
                }
                readouts = range.len();
            }
            Content::Pulse | Content::Empty | Content::Bad(Bad::NoEnd) => {}
            Content::Bad(bad) => {
                let modules = self.plan.modules as u32;
                let bus = self.random.below(modules);
                let adc = 300 + self.random.below(2000);
                let channel = u32::from(CHANNELS);
                match bad {
                    Bad::Channel => {
                        let unused = self.random.below(u32::from(ALL_CHANNELS) - channel);
                        self.word(readout(bus, channel + unused, adc));
                    }
                    Bad::Bus => {
                        let unused = modules + self.random.below(16 - modules);
                        let channel = self.random.below(channel);
                        self.word(readout(unused, channel, adc));
                    }
                    Bad::Word => {
                        let kind = 5 + self.random.below(7);
                        self.word(kind << 28 | adc);
                    }
                    Bad::Glitch => {
                        for channel in 0..u32::from(ALL_CHANNELS) {
                            let adc = 100 + self.random.below(60);
                            self.word(readout(bus, channel ^ 1, adc));
                        }
                    }
                    Bad::Length | Bad::NoEnd => self.word(readout(bus, 0, adc)),
                }
                readouts = if *bad == Bad::Glitch { usize::from(ALL_CHANNELS) } else { 1 };
            }
        }
        for _ in readouts + FRAME..data {
            self.word(0);
        }
        let has_end = *content != Content::Bad(Bad::NoEnd);
        let low = self.out.bytes.len() - start;
        self.word(if has_end { 0xc000_0000 } else { 0 });
        self.word(0x8765_4321);
        self.word(0xee01_0000);
        let low = NonZeroU16::new(low as u16).filter(|_| has_end);
        self.out.stamps.push(Stamp { begin: (packet + 4) as u16, low, time });
        self.free -= data + AROUND;
        (self.last, self.data) = (packet, data);
    }

    /// Fills the open packet to its end.
    fn close(&mut self, time: i64) {
        while self.free >= EMPTY_WORDS {
            self.trigger(time, &Content::Empty, &[]);
        }
        let fill = std::mem::take(&mut self.free);
        if fill == 0 {
            return;
        }
        // More fill words before the last block's end of event; lengths and places move with them.
        let start = self.start();
        let end_of_event = self.out.bytes.len() - 12;
        self.out.bytes.splice(end_of_event..end_of_event, std::iter::repeat_n(0, 4 * fill));
        self.data += fill;
        let length = (self.data + 3) as u32;
        let header = start + self.last;
        let word = 0x58 | (length >> 8) << 8 | (length & 0xff) << 16;
        self.out.bytes[header..header + 4].copy_from_slice(&word.to_le_bytes());
        let block = &mut self.out.bytes[header + 8..header + 12];
        let said = u16::from_le_bytes([block[0], block[1]]) + fill as u16;
        block[..2].copy_from_slice(&said.to_le_bytes());
        if let Some(stamp) = self.out.stamps.last_mut() {
            let later = |low: NonZeroU16| low.saturating_add(4 * fill as u16);
            stamp.low = stamp.low.map(later);
        }
    }

    /// A packet of empty triggers whose first event, or whose type, is wrong.
    fn broken(&mut self, time: i64) {
        let (start, stamps) = (self.out.bytes.len(), self.out.stamps.len());
        self.open();
        self.close(time);
        let way = self.made % BREAKS;
        self.made += 1;
        let event = start + 3;
        // Byte that is changed: type, event header, begin word, length, cookie, end word.
        let (at, byte) = match way {
            0 => (start, 0x61),
            1 => (event, 0x59),
            2 => (event + 7, 0xba),
            3 => (event + 1, 0x7f),
            4 => (event + 4 * (EMPTY_WORDS - 2), 0x20),
            _ => (event + 4 * EMPTY_WORDS - 1, 0xed),
        };
        self.out.bytes[at] = byte;
        // From the length on, the first event's number has been read; the others are never seen.
        self.out.stamps.truncate(stamps + usize::from(way >= 3));
        let packet = (start / BYTES) as u64;
        let (kind, overlap) = (Cause::Packet, Overlap::None);
        self.out.rows.push(Made { packet, module: 0, time, pixel: 0, kind, overlap, spot: None });
    }
}

/// Writes a turn into packets.
pub(super) fn pack(plan: &Plan, turn: &Turn, seed: u64) -> Packed {
    let out = Packed { rows: Vec::with_capacity(turn.rows.len()), ..Packed::default() };
    let random = Random::new(seed ^ 0x9ac4);
    let mut w = Writer { plan, random, out, free: 0, last: 0, data: 0, made: 0 };
    let mut time = 0;
    for Trigger { time: at, content, rows } in &turn.triggers {
        if w.free < data_words(content) + AROUND {
            w.close(time);
            if w.random.unit() < plan.noise.packet {
                w.broken(*at);
            }
            w.open();
        }
        time = *at;
        w.trigger(time, content, &turn.readouts);
        let packet = (w.out.first.len() - 1) as u64;
        let own = turn.rows[rows.clone()].iter();
        w.out.rows.extend(own.map(|row| Made { packet, ..*row }));
    }
    w.close(time);
    w.out.first.push(w.out.stamps.len() as u32);
    w.out
}

impl Stamp {
    /// Ticks from the turn's start.
    pub(super) fn time(&self) -> i64 {
        self.time
    }

    /// Writes number and time; `start` is added to the time.
    #[inline]
    pub(super) fn put(&self, packet: &mut [u8], number: u32, start: i64) {
        let time = self.time + start;
        let begin = usize::from(self.begin);
        packet[begin..begin + 3].copy_from_slice(&number.to_le_bytes()[..3]);
        // Bits 45 to 30 after the begin word and the block's header, bits 29 to 0 at the end.
        packet[begin + 8..begin + 10].copy_from_slice(&((time >> 30) as u16).to_le_bytes());
        if let Some(low) = self.low {
            let low = usize::from(low.get());
            let word = 0xc000_0000 | (time as u32 & 0x3fff_ffff);
            packet[low..low + 4].copy_from_slice(&word.to_le_bytes());
        }
    }
}
