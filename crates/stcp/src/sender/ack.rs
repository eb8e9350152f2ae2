//! What an ACK in range does: frees bytes, measures, repairs, moves the window.
//!
//! Source: docs/stcp.md, "Acknowledgements"; RFC 5681, 6298, 6582; RFC 9293 section 3.10.7.4.

use super::{NEVER, Recovery, StcpSender, Timer, told};
use crate::memory::StcpMemory;
use crate::seq;
use crate::wire::{Inbound, TcpFlags};

impl<M: StcpMemory> StcpSender<M> {
    pub(super) fn acknowledged(&mut self, now_ns: u64, s: &Inbound) {
        self.heard_at = now_ns;
        self.keepalives = 0;
        self.stop(Timer::KeepAlive);
        self.memory.counters().acks += 1;
        let number = self.number(self.una);
        let Some(ack) = seq::offset(s.ack, self.una, number).filter(|&a| a >= self.una) else {
            self.memory.counters().old_acks += 1;
            return;
        };
        let probing = self.runs(Timer::Persist);
        let same_window = s.window == self.last_window;
        let before = (self.una, self.recovery);
        self.window(now_ns, s, ack);
        if ack > before.0 {
            return self.advance(now_ns, ack);
        }
        let bare = s.length == 0 && !s.flags.has(TcpFlags::FIN);
        match (probing, same_window) {
            // The peer lives and holds: what was sent again before its window closed is no lack of progress.
            (true, _) => {
                self.expiries = 0;
                self.memory.counters().probe_answers += 1;
            }
            (false, false) => self.memory.counters().window_updates += 1,
            (false, true) if bare && self.nxt > self.una => self.duplicate(),
            (false, true) => {}
        }
    }

    /// Takes the window. An ACK that is newer counts first, then a number that is: nothing a stranger sends inside the
    /// window can hold back the peer's updates for good. An ACK below what is acknowledged never gets here.
    fn window(&mut self, now_ns: u64, s: &Inbound, ack: u64) {
        if ack < self.wl2 || (ack == self.wl2 && seq::before(s.seq, self.wl1)) {
            return;
        }
        let window = u32::from(s.window) << self.scale;
        self.edge = ack + u64::from(window);
        self.max_wnd = self.max_wnd.max(window);
        if let Some(histograms) = self.memory.histograms() {
            histograms.window.add(u64::from(window));
        }
        (self.wl1, self.wl2, self.last_window) = (s.seq, ack, s.window);
        match (window, self.zero_since) {
            (0, NEVER) => {
                self.zero_since = now_ns;
                self.memory.counters().zero_windows += 1;
            }
            (1.., since) if since != NEVER => {
                self.zero_since = NEVER;
                self.memory.counters().zero_window_ns += now_ns.saturating_sub(since);
            }
            _ => {}
        }
    }

    /// A round trip that began at [`StcpSender::timed_at`] is over.
    pub(super) fn sample(&mut self, now_ns: u64) {
        let ns = now_ns.saturating_sub(self.timed_at);
        self.rtt.sample(ns);
        if let Some(histograms) = self.memory.histograms() {
            histograms.rtt.add(ns);
        }
    }

    fn duplicate(&mut self) {
        self.memory.counters().duplicate_acks += 1;
        self.dupacks = self.dupacks.saturating_add(1);
        if self.recovery == Recovery::Fast {
            self.congestion.duplicate(self.mss);
        }
        let threshold = self.settings.dupack_threshold;
        if threshold > 0 && self.dupacks == threshold && self.recovery == Recovery::No {
            self.recovery = Recovery::Fast;
            self.recover = self.max;
            self.due.again = true;
            self.due.partial = false;
            self.congestion.lost(self.place());
        }
    }

    /// This first ACK of new bytes is not for what was repeated: it comes too soon after it, and everything that duplicates told of
    /// lies below it. The segment was late and not lost; without this, each ACK of the same window would repeat one more.
    fn early(&self, now_ns: u64, bytes: u64) -> bool {
        let segments = bytes.div_ceil(u64::from(self.mss.max(1)));
        self.recovery == Recovery::Fast
            && !self.due.partial
            && segments > u64::from(self.dupacks)
            && now_ns.saturating_sub(self.timed_at) < self.rtt.srtt_ns / 4
    }

    fn advance(&mut self, now_ns: u64, ack: u64) {
        let bytes = ack - self.una;
        let (used, shift) = (self.used(), self.congestion.shift());
        if let Some(histograms) = self.memory.histograms() {
            // Both only shrink here, so that nothing greater is missed.
            histograms.used_most = histograms.used_most.max(used);
            histograms.shift_most = histograms.shift_most.max(shift);
        }
        let early = self.early(now_ns, bytes);
        self.una = ack;
        self.nxt = self.nxt.max(ack);
        (self.dupacks, self.expiries) = (0, 0);
        self.rtt.progress(&self.settings);
        if self.timed_end != 0 && ack >= self.timed_end {
            self.sample(now_ns);
            self.timed_end = 0;
        }
        let recovering = self.recovery != Recovery::No;
        if recovering && (ack >= self.recover || early) {
            if self.recovery == Recovery::Fast {
                self.congestion.recovered();
            }
            self.recovery = Recovery::No;
        }
        // The next hole, one segment for each ACK that shows one.
        self.due.again = self.recovery != Recovery::No;
        self.due.partial = self.due.again;
        self.congestion.acknowledged(bytes, self.place(), self.recovery == Recovery::Fast);
        self.progress_at = now_ns;
        match self.una == self.max {
            true => self.stop(Timer::Rto),
            false => self.set(Timer::Rto, now_ns + self.rtt.rto_ns(&self.settings)),
        }
        self.memory.counters().acked_bytes += bytes;
        self.release_marks(now_ns);
        self.notices |= told::ACKED;
        self.relax(now_ns);
    }

    fn release_marks(&mut self, now_ns: u64) {
        while self.marks_len > 0 {
            let marks = self.memory.marks();
            let mark = marks[self.marks_head as usize];
            if mark.end > self.una {
                return;
            }
            self.marks_head = (self.marks_head + 1) % marks.len() as u32;
            self.marks_len -= 1;
            self.marks_sent = self.marks_sent.saturating_sub(1);
            self.memory.counters().acked_fragments += u64::from(mark.fragments);
            if let Some(histograms) = self.memory.histograms() {
                histograms.latency(now_ns.saturating_sub(mark.at_ns));
            }
        }
    }
}
