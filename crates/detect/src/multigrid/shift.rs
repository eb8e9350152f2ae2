//! Moves a recorded packet on, so that a capture can be sent again and again as one long run.
//!
//! Learns from one pass how far: event numbers go on where the pass left them, all times by the length of the
//! pass. What the decoder would refuse keeps its bytes. Source: `docs/formats/multigrid.md`
//! sections 2 and 3; for users: `docs/multigrid.md`, "Repeating a capture".

use fullcount_core::batch::Origin;
use fullcount_core::sequence::streams::Streams;

use super::container::{self, ContainerWord, HEADER_BYTES};
use super::file::DatagramFormat;
use super::numbers::{self, EventRun, MASK, NUMBERING};
use super::records;
use super::words::{HighTime, LOW_BITS, Take};
use crate::detector::Shifter;
use crate::repeat::{PassNumbers, PassTimes};

const LOW_MASK: u32 = (1 << LOW_BITS) - 1;
/// Takes nothing: only times matter here.
struct Nothing;

impl Take for Nothing {
    fn readout(&mut self, _: u32, _: u16) {}
    fn pulse(&mut self, _: u32) {}
}

/// What the times of a capture look like.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    /// 62.5 ns.
    ticks: PassTimes,
    /// There are extended times.
    extended: bool,
    /// There are triggers without one of their own.
    carried: bool,
}

/// The rule of a capture, learnt in one pass.
///
/// *Event numbers* move by (number expected after the pass − first number) mod 2²⁴ per pass, each sender's by its own;
/// those of events without data at a packet's end and, as far as they can be read, of refused packets too. *Times* move by
/// the span from the earliest to the latest plus the mean distance of two packets. A time has a low part
/// of 30 bits in every trigger and a high part that a trigger may leave out; where one does, the step is
/// rounded up to whole turns of the low part (67 s), so that only high parts change. A high time that is
/// made up, or never sent, needs the low part alone.
pub(super) struct Moving {
    format: DatagramFormat,
    spoof: bool,
    high: HighTime,
    times: Times,
    senders: Streams<PassNumbers>,
    /// Smallest and largest trigger of replay records.
    triggers: Option<(u64, u64)>,
    /// Words of data of the packet's sub-buffers.
    lengths: Vec<usize>,
}

impl Moving {
    pub fn new(format: DatagramFormat, spoof: bool) -> Moving {
        Moving {
            format,
            spoof,
            high: HighTime::new(spoof),
            times: Times::default(),
            senders: Streams::new(&NUMBERING),
            triggers: None,
            lengths: Vec::new(),
        }
    }

    /// Ticks per pass.
    fn ticks(&self) -> u64 {
        let step = self.times.ticks.step();
        let whole = !self.spoof && self.times.extended && self.times.carried;
        match step.checked_next_multiple_of(1 << LOW_BITS) {
            Some(turns) if whole => turns,
            _ => step,
        }
    }

    fn learn_packet(&mut self, payload: &[u8], origin: Origin) {
        let mut seen = false;
        let mut runs = Vec::new();
        let mut run = EventRun::default();
        let rest = container::sub_buffers(payload, |data, number| {
            if !run.takes(number) {
                runs.push(std::mem::replace(&mut run, EventRun::of(number)));
            }
            let Ok(good) = self.high.decode(data, &mut Nothing) else { return };
            seen = true;
            self.times.ticks.see(good.time);
            let own = data.iter().any(is_extended);
            self.times.extended |= own;
            self.times.carried |= !own;
        });
        if seen {
            self.times.ticks.packet();
        }
        runs.push(run);
        let last = run.next().wrapping_sub(1) & MASK;
        runs.extend(numbers::empty_last(payload, rest.ignored).map(EventRun::of));
        if rest.refusal.is_some() {
            runs.extend(numbers::of_refused(payload, rest.whole, (run.count > 0).then_some(last)));
        }
        runs.iter().filter(|run| run.count > 0).for_each(|run| self.learn_numbers(*run, origin));
    }

    fn learn_numbers(&mut self, run: EventRun, origin: Origin) {
        if let Some(at) = self.join(origin) {
            self.senders.all[at].see_run(run.first.into(), run.count);
        }
    }

    fn join(&mut self, origin: Origin) -> Option<usize> {
        self.senders.join(origin, 0, || PassNumbers::new(&NUMBERING))
    }

    fn learn_records(&mut self, payload: &[u8]) {
        let mut seen = false;
        for record in records::records(payload) {
            seen = true;
            self.times.ticks.see(record.time);
            let (first, last) = self.triggers.unwrap_or((record.trigger, record.trigger));
            self.triggers = Some((first.min(record.trigger), last.max(record.trigger)));
        }
        if seen {
            self.times.ticks.packet();
        }
    }

    fn shift_packet(&mut self, payload: &mut [u8], origin: Origin, repetition: u64) {
        let ticks = repetition.wrapping_mul(self.ticks());
        let numbers = self.join(origin).map_or(0, |at| self.senders.all[at].count());
        let numbers = repetition.wrapping_mul(numbers) as u32;
        self.lengths.clear();
        let lengths = &mut self.lengths;
        let rest = container::sub_buffers(payload, |data, _| lengths.push(data.len()));
        let begins = match rest.refusal {
            Some(_) => numbers::begin_words(payload, rest.whole).collect(),
            None => {
                let word = (payload.len().saturating_sub(rest.ignored + HEADER_BYTES)) / 4 + 1;
                Vec::from_iter(numbers::empty_last(payload, rest.ignored).map(|_| word))
            }
        };
        let Some(payload) = payload.get_mut(HEADER_BYTES..) else { return };
        let mut words = payload.as_chunks_mut::<4>().0;
        for at in begins {
            if let Some(begin) = words.get_mut(at) {
                shift_number(begin, numbers);
            }
        }
        for &n in &self.lengths {
            let Some((event, rest)) = words.split_at_mut_checked(n + 4) else { return };
            shift_number(&mut event[1], numbers);
            shift_trigger(&mut event[2..2 + n], ticks, !self.spoof);
            words = rest;
        }
    }
}

fn shift_number(begin: &mut ContainerWord, by: u32) {
    let word = u32::from_le_bytes(*begin);
    *begin = (word.wrapping_add(by) & MASK | word & !MASK).to_le_bytes();
}

fn is_extended(word: &ContainerWord) -> bool {
    word[3] >> 4 == 2
}

fn is_end(word: &ContainerWord) -> bool {
    word[3] >> 6 == 3
}

/// Adds `ticks` to the time of a trigger; `high`: to its high part as well.
fn shift_trigger(data: &mut [ContainerWord], ticks: u64, high: bool) {
    let low_of = |word: &ContainerWord| u32::from_le_bytes(*word) & LOW_MASK;
    let low = data.iter().rev().find(|w| is_end(w)).map_or(0, low_of);
    // What the low part hands over to the high one.
    let turns = (u64::from(low) + (ticks & u64::from(LOW_MASK))) >> LOW_BITS;
    let turns = turns.wrapping_add(ticks >> LOW_BITS);
    for word in data {
        let value = u32::from_le_bytes(*word);
        if is_end(word) {
            let low = (value & LOW_MASK).wrapping_add(ticks as u32) & LOW_MASK;
            *word = (value & !LOW_MASK | low).to_le_bytes();
        } else if high && is_extended(word) {
            let moved = (value as u16).wrapping_add(turns as u16);
            *word = (value & 0xffff_0000 | u32::from(moved)).to_le_bytes();
        }
    }
}

impl Shifter for Moving {
    fn learn(&mut self, payload: &[u8], origin: Origin) {
        match self.format {
            DatagramFormat::Mesytec => self.learn_packet(payload, origin),
            DatagramFormat::Records => self.learn_records(payload),
        }
    }

    fn shift(&mut self, payload: &mut [u8], origin: Origin, repetition: u64) {
        match self.format {
            DatagramFormat::Mesytec => self.shift_packet(payload, origin, repetition),
            DatagramFormat::Records => {
                let triggers = self.triggers.map_or(0, |(a, b)| (b - a).wrapping_add(1));
                let (triggers, ticks) =
                    (repetition.wrapping_mul(triggers), repetition.wrapping_mul(self.ticks()));
                records::shift(payload, triggers, ticks);
            }
        }
    }
}

#[cfg(test)]
#[path = "shift_tests.rs"]
mod tests;
