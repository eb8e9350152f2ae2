//! One direction of the emulated link: the thread that drives a channel with the real clock.
//!
//! Frames are taken up to 64 a call, each with one copy into memory that is used again and again; no lock,
//! allocation or line per frame once the link has filled. The thread sleeps until the next frame is due or
//! one comes; the last 60 µs before a due frame are spun away, because a sleep ends late. What the system does not take
//! is counted by reason.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fullcount_core::link::cost::{CHECK, GAP, PREAMBLE, SMALLEST_FRAME};
use fullcount_core::sim::Channel;
use fullcount_core::sim::channel::ChannelTotals;
use fullcount_io::frames::{
    BATCH, FrameNotSent, FrameReceiver, FrameSender, FramesError, NOTE, train,
};
use serde_json::{Value, json};

/// A sleep ends up to 60 µs late on a quiet core.
const NEAR: Duration = Duration::from_micros(60);
/// Longest sleep: how soon a wish to stop is seen.
const LONGEST: Duration = Duration::from_millis(20);
/// Between two reports.
const REPORT: Duration = Duration::from_millis(100);

/// What one direction counted, in frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrameCounts {
    /// What the channel did.
    pub channel: ChannelTotals,
    /// In the channel at this moment.
    pub inside: u64,
    /// The channel's balance.
    pub balance: i128,
    /// Frames that came while the socket's buffer was full: the emulator was too slow.
    pub missed: u64,
    /// Cut or empty frames.
    pub malformed_in: u64,
    /// Frames that the other interface's MTU does not allow.
    pub too_long: u64,
    /// Frames for which the other interface had no room.
    pub no_buffer: u64,
    /// Frames that the system did not understand.
    pub malformed_out: u64,
    /// Trains of segments that went through as one frame each.
    pub trains: u64,
}

impl FrameCounts {
    fn refuse(&mut self, why: FrameNotSent) {
        match why {
            FrameNotSent::TooLong => self.too_long += 1,
            FrameNotSent::NoBuffer => self.no_buffer += 1,
            FrameNotSent::Malformed => self.malformed_out += 1,
        }
    }

    /// Frames that came in, or would have.
    pub fn offered(&self) -> u64 {
        self.channel.taken + self.missed + self.malformed_in
    }

    /// Frames that left at the other interface.
    pub fn sent(&self) -> u64 {
        self.channel.delivered - (self.too_long + self.no_buffer + self.malformed_out)
    }

    /// Frames that will not arrive, all reasons.
    pub fn gone(&self) -> u64 {
        let ChannelTotals { dropped, no_memory, lost, .. } = self.channel;
        let refused = self.too_long + self.no_buffer + self.malformed_out;
        dropped + no_memory + lost + self.missed + self.malformed_in + refused
    }

    /// Frames that went wrong against the setup: the emulator or the host failed, not the emulated link.
    pub fn failed(&self) -> u64 {
        self.gone() - self.channel.dropped - self.channel.lost
    }

    /// Every reason with its name, number, and what to do.
    fn reasons(&self) -> [(&'static str, u64, &'static str); 8] {
        let t = &self.channel;
        [
            ("dropped", t.dropped, "the queue was full: that is the link; --queue makes it longer"),
            ("lost", t.lost, "by --fault"),
            ("no_memory", t.no_memory, "raise --memory, or lower rate or delay"),
            (
                "missed",
                self.missed,
                "the emulator was too slow: see --measure; pin it with --cores",
            ),
            ("malformed_in", self.malformed_in, "frames that were cut"),
            ("too_long", self.too_long, "give both interfaces the same MTU"),
            (
                "no_buffer",
                self.no_buffer,
                "the other interface had no room: it is slower than the link",
            ),
            ("malformed_out", self.malformed_out, "frames that the system refused"),
        ]
    }

    /// For a summary.
    pub fn json(&self) -> Value {
        let t = &self.channel;
        let mut object = json!({
            "offered": self.offered(), "taken": t.taken, "sent": self.sent(), "inside": self.inside,
            "doubled": t.doubled, "moved": t.moved, "trains": self.trains,
            "bytes_in": t.taken_bytes, "bytes_out": t.delivered_bytes,
        });
        if let Some(o) = object.as_object_mut() {
            o.extend(self.reasons().map(|(name, n, _)| (name.to_owned(), n.into())));
        }
        object
    }

    /// For people: a line a place, those that are empty left out.
    pub fn lines(&self) -> String {
        let t = &self.channel;
        let mut text = format!(
            "  in                   {:>16} frames, {} bytes\n  out                  {:>16} frames, {} bytes\n",
            self.offered(),
            t.taken_bytes,
            self.sent(),
            t.delivered_bytes
        );
        let notes = [
            ("inside", self.inside, "on their way when this was counted"),
            ("doubled", t.doubled, "by --fault; in addition"),
            ("moved", t.moved, "by --fault; they arrive"),
            (
                "trains",
                self.trains,
                "segments that went as one frame: switch off tx-udp-segmentation and \
              tx-tcp-segmentation at the sender (ethtool -K)",
            ),
        ];
        for (name, n, what) in notes.into_iter().chain(self.reasons()).filter(|(_, n, _)| *n > 0) {
            text += &format!("  {name:<20} {n:>16}  ({what})\n");
        }
        text
    }
}

/// Where a direction leaves its counts, ten times a second.
#[derive(Debug, Default)]
pub struct DirectionWatch(Mutex<FrameCounts>);

impl DirectionWatch {
    /// The last ones.
    pub fn counts(&self) -> FrameCounts {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, counts: FrameCounts) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = counts;
    }
}

/// Everything that one thread needs.
#[derive(Debug)]
pub struct Direction {
    /// Where frames come from.
    pub from: FrameReceiver,
    /// Where they go.
    pub to: FrameSender,
    /// What happens between.
    pub channel: Channel<Vec<u8>>,
    /// Origin of the channel's time.
    pub began: Instant,
    /// Core of the thread.
    pub core: Option<usize>,
    /// Never sleep.
    pub busy: bool,
}

/// Link time of a frame with its note, in bits: padding, check sequence, preamble and gap included, for
/// each segment of a train.
pub fn wire_bits(noted: &[u8]) -> u64 {
    let bytes = noted.len().saturating_sub(NOTE) as u64;
    let frame = |bytes: u64| (bytes + CHECK).max(SMALLEST_FRAME) + PREAMBLE + GAP;
    let Some(train) = train(noted) else { return 8 * frame(bytes) };
    let header = (train.header as u64).min(bytes);
    let (data, segment) = (bytes - header, train.segment as u64);
    let (full, rest) = (data / segment, data % segment);
    let last = if rest > 0 { frame(header + rest) } else { 0 };
    8 * (full * frame(header + segment) + last)
}

impl Direction {
    /// Hands frames on until `stop`.
    ///
    /// # Errors
    /// An interface went down or away; the counts are left in `watch`.
    pub fn run(
        mut self,
        stop: &AtomicBool,
        watch: &Arc<DirectionWatch>,
    ) -> Result<(), FramesError> {
        if let Some(core) = self.core {
            // Not fatal: a container may forbid it.
            let _ = fullcount_io::sys::pin_thread(core);
        }
        let _ = fullcount_io::sys::precise_sleep();
        let mut counts = FrameCounts::default();
        let outcome = self.hand_on(stop, watch, &mut counts);
        self.note(&mut counts, watch);
        outcome
    }

    fn note(&mut self, counts: &mut FrameCounts, watch: &DirectionWatch) {
        counts.channel = self.channel.totals();
        counts.inside = self.channel.inside();
        counts.balance = self.channel.balance();
        counts.missed = self.from.missed();
        watch.set(*counts);
    }

    fn hand_on(
        &mut self,
        stop: &AtomicBool,
        watch: &DirectionWatch,
        counts: &mut FrameCounts,
    ) -> Result<(), FramesError> {
        // Frames that are not in use; grows to what the link holds at once.
        let mut spare: Vec<Vec<u8>> = Vec::new();
        let mut ready: Vec<Vec<u8>> = Vec::with_capacity(BATCH);
        let mut noted = Duration::ZERO;
        while !stop.load(Relaxed) {
            let came = self.from.receive()?;
            let now = self.began.elapsed();
            let now_ns = now.as_nanos() as u64;
            for i in 0..came {
                let mut frame = spare.pop().unwrap_or_default();
                if !self.from.copy(i, &mut frame) {
                    counts.malformed_in += 1;
                    spare.push(frame);
                    continue;
                }
                counts.trains += u64::from(train(&frame).is_some());
                let (bytes, bits) = ((frame.len() - NOTE) as u32, wire_bits(&frame));
                // What the channel does not take is freed by it: a rare frame, and one allocation.
                self.channel.push(now_ns, frame, bytes, bits, Vec::clone);
            }
            let mut sent = 0;
            while let Some(frame) = self.channel.pop(now_ns) {
                ready.push(frame);
                sent += 1;
                if ready.len() == BATCH {
                    self.send(&mut ready, &mut spare, counts)?;
                }
            }
            self.send(&mut ready, &mut spare, counts)?;
            if now - noted >= REPORT {
                noted = now;
                self.note(counts, watch);
            }
            if came == 0 && sent == 0 {
                self.rest()?;
            }
        }
        Ok(())
    }

    fn send(
        &mut self,
        ready: &mut Vec<Vec<u8>>,
        spare: &mut Vec<Vec<u8>>,
        counts: &mut FrameCounts,
    ) -> Result<(), FramesError> {
        if !ready.is_empty() {
            let outcome = self.to.send(ready, |why| counts.refuse(why));
            spare.append(ready);
            outcome?;
        }
        Ok(())
    }

    /// Nothing to do at this moment: sleeps until something comes or is nearly due.
    fn rest(&self) -> Result<(), FramesError> {
        if self.busy {
            std::hint::spin_loop();
            return Ok(());
        }
        let due = self.channel.next_ns().map(Duration::from_nanos);
        let limit = due.map_or(LONGEST, |due| due.saturating_sub(self.began.elapsed()));
        match limit.min(LONGEST).checked_sub(NEAR) {
            Some(sleep) if !sleep.is_zero() => self.from.wait(sleep).map(|_| ()),
            _ => {
                std::hint::spin_loop();
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_time_of_frames_and_trains() {
        let frame = |kind: u8, header: u16, segment: u16, bytes: usize| {
            let mut f = vec![0; NOTE + bytes];
            f[1] = kind;
            f[2..4].copy_from_slice(&header.to_ne_bytes());
            f[4..6].copy_from_slice(&segment.to_ne_bytes());
            f
        };
        assert_eq!(wire_bits(&frame(0, 0, 0, 42)), 84 * 8, "padded");
        assert_eq!(wire_bits(&frame(0, 0, 0, 1514)), 1538 * 8);
        // Three segments of 1472 B and one of 100 B behind 42 B of headers, each a frame.
        let train = frame(5, 42, 1472, 42 + 3 * 1472 + 100);
        assert_eq!(wire_bits(&train), (3 * 1538 + 166) * 8);
        assert_eq!(wire_bits(&[]), 84 * 8);
    }

    #[test]
    fn counts_add_up_and_name_what_to_do() {
        let channel = ChannelTotals {
            taken: 100,
            doubled: 2,
            delivered: 80,
            dropped: 5,
            lost: 7,
            no_memory: 0,
            ..ChannelTotals::default()
        };
        let mut c = FrameCounts { channel, inside: 10, missed: 3, ..FrameCounts::default() };
        for why in [
            FrameNotSent::TooLong,
            FrameNotSent::NoBuffer,
            FrameNotSent::NoBuffer,
            FrameNotSent::Malformed,
        ] {
            c.refuse(why);
        }
        assert_eq!((c.offered(), c.sent(), c.gone()), (103, 76, 5 + 7 + 3 + 4));
        assert_eq!(c.failed(), 3 + 4);
        // In, and doubled, is out, gone or inside.
        assert_eq!(c.offered() + c.channel.doubled, c.sent() + c.gone() + c.inside);
        let lines = c.lines();
        assert!(lines.contains("no_buffer") && lines.contains("--queue"), "{lines}");
        assert!(!lines.contains("no_memory"), "empty places are left out: {lines}");
        assert_eq!(c.json()["too_long"], 1);
    }
}
