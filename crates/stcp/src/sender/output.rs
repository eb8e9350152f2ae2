//! What leaves, and when: full segments always, short ones by the rules of Nagle and of silly windows.
//!
//! Source: docs/stcp.md, "Segments"; RFC 9293 sections 3.7.4, 3.8.6; RFC 1122 sections 4.2.3.4, 4.2.2.17.

use super::{Outbound, Purpose, Recovery, StcpSender, Timer, US};
use crate::memory::StcpMemory;
use crate::settings::Coalescing;
use crate::state::StcpState;
use crate::wire::TcpFlags;

/// Payload of the longest unit for segmentation offload: what Linux takes at most (`GSO_MAX_SIZE`) less headers.
const LONGEST_UNIT: u32 = 524_280 - 100;

/// What the windows leave.
#[derive(Debug, Clone, Copy)]
struct Usable {
    /// By the peer's window.
    window: u64,
    /// By both.
    both: u64,
    /// Bytes that wait.
    waiting: u64,
    /// Of the next segment.
    length: u64,
}

impl<M: StcpMemory> StcpSender<M> {
    /// The next segment to send now; `most` bytes of payload fit one unit (with segmentation offload several segments), and
    /// one segment always does. What it gives counts as sent.
    pub fn poll(&mut self, now_ns: u64, most: u32) -> Option<Outbound> {
        self.tick(now_ns);
        if self.controls_len > 0 {
            let control = self.controls[0];
            self.controls.copy_within(1.., 0);
            self.controls_len -= 1;
            let window = match control.flags.has(TcpFlags::RST) {
                true => 0,
                false => self.settings.rcv_wnd,
            };
            let segment = self.outbound(Purpose::Control, 0, 0, control.flags);
            return Some(Outbound { seq: control.seq, ack: control.ack, window, ..segment });
        }
        match self.state {
            StcpState::Closed => None,
            StcpState::SynSent => self.syn(now_ns),
            StcpState::Established => {
                let urgent =
                    self.keepalive().or_else(|| self.probe()).or_else(|| self.again(now_ns));
                urgent.or_else(|| self.data(now_ns, most))
            }
        }
    }

    fn outbound(&self, purpose: Purpose, offset: u64, length: u32, flags: TcpFlags) -> Outbound {
        Outbound {
            purpose,
            seq: self.number(offset),
            ack: self.rcv_nxt,
            flags,
            window: self.settings.rcv_wnd,
            options: None,
            offset,
            length,
            mss: self.mss,
        }
    }

    fn syn(&mut self, now_ns: u64) -> Option<Outbound> {
        if !core::mem::take(&mut self.due.syn) {
            return None;
        }
        // Karn: a round trip is measured with the first SYN, if it stays the only one.
        self.timed_at = now_ns;
        self.rtt.careful = self.due.syn_left;
        self.due.syn_left = true;
        self.memory.counters().syns += 1;
        let options = Some((self.settings.mss(), self.settings.ws_local));
        let segment = self.outbound(Purpose::Control, 0, 0, TcpFlags::SYN);
        Some(Outbound { seq: self.iss, ack: 0, options, ..segment })
    }

    fn keepalive(&mut self) -> Option<Outbound> {
        if !core::mem::take(&mut self.due.keepalive) {
            return None;
        }
        self.memory.counters().keepalives += 1;
        let segment = self.outbound(Purpose::KeepAlive, self.una, 1, TcpFlags::ACK);
        Some(Outbound { seq: segment.seq.wrapping_sub(1), ..segment })
    }

    /// One byte beyond the closed window. What was sent before stays where it is: [`StcpSender::nxt`] follows the answer.
    fn probe(&mut self) -> Option<Outbound> {
        if !core::mem::take(&mut self.due.probe) || self.nxt >= self.end || self.edge > self.nxt {
            return None;
        }
        let again = self.nxt < self.max;
        self.max = self.max.max(self.nxt + 1);
        self.timed_end = 0;
        let counters = self.memory.counters();
        counters.probes += 1;
        counters.bytes += 1;
        counters.again_bytes += u64::from(again);
        Some(self.outbound(Purpose::Probe, self.nxt, 1, TcpFlags::ACK.and(TcpFlags::PSH)))
    }

    /// The segment at the oldest byte once more: whatever congestion control says, but inside the peer's window.
    fn again(&mut self, now_ns: u64) -> Option<Outbound> {
        if !core::mem::take(&mut self.due.again) {
            return None;
        }
        let window = self.edge.saturating_sub(self.una);
        let length = u64::from(self.mss).min(self.max - self.una).min(window);
        if length == 0 {
            return None;
        }
        (self.timed_end, self.timed_at) = (0, now_ns);
        self.nxt = self.nxt.max(self.una + length);
        self.start_rto(now_ns);
        let (recovery, partial) = (self.recovery, self.due.partial);
        let mss = self.mss;
        let counters = self.memory.counters();
        match (recovery, partial) {
            (Recovery::Fast, false) => counters.again_fast += 1,
            (Recovery::Fast, true) => counters.again_partial += 1,
            _ => counters.again_rto += 1,
        }
        counters.segments += 1;
        counters.full_segments += u64::from(length == u64::from(mss));
        counters.bytes += length;
        counters.again_bytes += length;
        if let Some(histograms) = self.memory.histograms() {
            histograms.size(length as u32, mss);
        }
        let flags = TcpFlags::ACK.and(TcpFlags::PSH);
        Some(self.outbound(Purpose::Data, self.una, length as u32, flags))
    }

    /// What is sent again after an expiry is no progress, however often the timer was stopped in between.
    fn start_rto(&mut self, now_ns: u64) {
        if !self.runs(Timer::Rto) {
            if self.expiries == 0 {
                self.progress_at = now_ns;
            }
            let limit = self.progress_at + u64::from(self.settings.give_up_us) * US;
            self.set(Timer::Rto, (now_ns + self.rtt.rto_ns(&self.settings)).min(limit));
        }
    }

    fn usable(&self) -> Usable {
        let window = self.edge.saturating_sub(self.nxt);
        let cwnd = u64::from(self.congestion.window(self.max_wnd, self.mss));
        let both = window.min((self.una + cwnd).saturating_sub(self.nxt));
        let waiting = self.end - self.nxt;
        Usable { window, both, waiting, length: waiting.min(both).min(u64::from(self.mss)) }
    }

    /// The end of what waits need not wait for more, or for an ACK.
    fn pushed(&self) -> bool {
        self.settings.coalescing == Coalescing::NoDelay || self.flush_to > self.nxt
    }

    /// By the rules S1 (full), S2 and S3 (tail), S4 (small window), S5 (override) of docs/stcp.md.
    fn may_leave(&self, usable: Usable) -> bool {
        let Usable { length, waiting, .. } = usable;
        let idle = self.una == self.nxt;
        length > 0
            && (length == u64::from(self.mss)
                || (length == waiting && (idle || self.pushed()))
                || (idle && length >= u64::from(self.max_wnd / 2))
                || self.due.short)
    }

    fn data(&mut self, now_ns: u64, most: u32) -> Option<Outbound> {
        let usable = self.usable();
        if !self.may_leave(usable) {
            self.wait(now_ns, usable);
            return None;
        }
        let mss = u64::from(self.mss);
        let mut length = usable.length;
        if length == mss {
            let unit = u64::from(most.min(LONGEST_UNIT)).min(usable.both).min(usable.waiting);
            length = (unit / mss * mss).max(mss);
        }
        self.due.short = false;
        let offset = self.nxt;
        let first = offset >= self.max;
        if first && self.timed_end == 0 && self.recovery == Recovery::No {
            (self.timed_end, self.timed_at) = (offset + length, now_ns);
        }
        let segments = length.div_ceil(mss);
        let full = length / mss;
        let again = length.min(self.max - offset);
        // What lies below the last expiry's highest byte: not what an ICMP message or a probe left behind.
        let expired = self.recover.saturating_sub(offset).min(length).div_ceil(mss);
        self.nxt += length;
        self.max = self.max.max(self.nxt);
        self.start_rto(now_ns);
        for timer in [Timer::Persist, Timer::Override, Timer::Coalesce, Timer::KeepAlive] {
            self.stop(timer);
        }
        let counters = self.memory.counters();
        counters.segments += segments;
        counters.full_segments += full;
        counters.bytes += length;
        counters.again_bytes += again;
        counters.again_rto += expired;
        if let Some(histograms) = self.memory.histograms() {
            for _ in 0..segments {
                histograms.size(length.min(mss) as u32, mss as u16);
            }
        }
        // The peer acknowledges at once what was pushed, else up to 41 ms later: pushed is what nothing can follow now.
        let next = self.usable();
        let follows = next.length > 0
            && (next.length == mss || (next.length == next.waiting && self.pushed()));
        let mut flags = TcpFlags::ACK;
        if !follows || self.flush_to == self.nxt {
            flags = flags.and(TcpFlags::PSH);
        }
        Some(self.outbound(Purpose::Data, offset, length as u32, flags))
    }

    /// Nothing may leave: sets the timer that ends this.
    fn wait(&mut self, now_ns: u64, usable: Usable) {
        let Usable { window, waiting, length, .. } = usable;
        let idle = self.una == self.nxt;
        let closed = idle && waiting > 0 && window == 0;
        if idle {
            self.stop(Timer::Rto);
        }
        match (closed, self.runs(Timer::Persist)) {
            (true, false) => {
                self.persist_count = 0;
                self.heard_at = now_ns;
                self.set(Timer::Persist, now_ns + self.persist_wait());
            }
            (false, true) => self.stop(Timer::Persist),
            _ => {}
        }
        // An override that fired has nothing to act on any more; another one is for the next window.
        self.due.short = false;
        let short = window > 0 && window < waiting.min(u64::from(self.mss));
        match (short, self.runs(Timer::Override)) {
            (true, false) => {
                self.set(Timer::Override, now_ns + u64::from(self.settings.sws_override_us) * US);
            }
            (false, true) => self.stop(Timer::Override),
            _ => {}
        }
        if let Coalescing::Within(us) = self.settings.coalescing
            && waiting > 0
            && length == waiting
        {
            let since = self.unsent_since().unwrap_or(now_ns);
            self.set(Timer::Coalesce, (since + u64::from(us) * US).max(now_ns));
        } else {
            self.stop(Timer::Coalesce);
        }
        let quiet = waiting == 0 && self.una == self.max && self.settings.keepalive_idle_us > 0;
        if quiet && !self.runs(Timer::KeepAlive) {
            self.set(Timer::KeepAlive, now_ns + u64::from(self.settings.keepalive_idle_us) * US);
        }
    }

    /// When the oldest byte that was never sent was submitted.
    fn unsent_since(&mut self) -> Option<u64> {
        let (head, length, max) = (self.marks_head, self.marks_len, self.max);
        let mut sent = self.marks_sent;
        let marks = self.memory.marks();
        let all = marks.len() as u32;
        let mut since = None;
        while sent < length {
            let mark = marks[((head + sent) % all) as usize];
            if mark.end > max {
                since = Some(mark.at_ns);
                break;
            }
            sent += 1;
        }
        self.marks_sent = sent;
        since
    }
}
