//! What arrives: each segment is one [`Trigger`], by the order of checks of RFC 9293 section 3.10.7 and RFC 5961; the table says what follows.

use super::types::Control;
use super::{Ended, Outbound, Purpose, Recovery, StcpSender, Timer, US, told};
use crate::memory::StcpMemory;
use crate::seq;
use crate::settings::PeerPolicy;
use crate::state::{Reaction, StcpState, Trigger, response};
use crate::wire::icmp::IcmpKind;
use crate::wire::{Inbound, TcpFlags};

/// MSS of a peer that says none.
const DEFAULT_MSS: u16 = 536;
/// The least that is used, whatever the peer says.
const LEAST_MSS: u16 = 64;

/// RFC 9293 section 3.10.7.1: the RST that its sender accepts.
fn reset_of(s: &Inbound) -> Control {
    match s.flags.has(TcpFlags::ACK) {
        true => Control { seq: s.ack, ack: 0, flags: TcpFlags::RST },
        false => Control {
            seq: 0,
            ack: s.seq.wrapping_add(s.span()),
            flags: TcpFlags::RST.and(TcpFlags::ACK),
        },
    }
}

/// The answer to a segment that belongs to no stream, as in CLOSED; `None`: it is a RST. How many leave a second is the
/// caller's business.
pub fn stray_reset(segment: &Inbound) -> Option<Outbound> {
    let Control { seq, ack, flags } = reset_of(segment);
    (!segment.flags.has(TcpFlags::RST)).then_some(Outbound {
        purpose: Purpose::Control,
        seq,
        ack,
        flags,
        window: 0,
        options: None,
        offset: 0,
        length: 0,
        mss: 0,
    })
}

impl<M: StcpMemory> StcpSender<M> {
    /// A segment for this stream arrived.
    pub fn receive(&mut self, now_ns: u64, segment: &Inbound) {
        self.tick(now_ns);
        let trigger = self.classify(segment);
        let reaction = response(self.state, trigger).reaction;
        match reaction {
            Reaction::RuleC => self.rule_c(now_ns, segment),
            Reaction::Connect => self.connect(now_ns, segment),
            Reaction::NoSimultaneous => self.memory.counters().simultaneous += 1,
            Reaction::HalfOpen => self.half_open(now_ns, segment),
            Reaction::Refused => {
                self.memory.counters().resets_in += 1;
                self.end(now_ns, Ended::Refused);
            }
            Reaction::PeerReset => {
                self.memory.counters().resets_in += 1;
                self.end(now_ns, Ended::ResetByPeer);
            }
            Reaction::Challenge => self.challenge(now_ns, trigger),
            Reaction::Process => self.process(now_ns, segment),
            Reaction::Drop => match trigger {
                Trigger::ResetElsewhere | Trigger::ResetNear => {
                    self.memory.counters().resets_ignored += 1;
                }
                _ => self.memory.counters().bare += 1,
            },
            _ => {}
        }
        let ordered = self.una <= self.nxt && self.nxt <= self.max && self.max <= self.end;
        if !ordered && self.state == StcpState::Established {
            self.abort_for(now_ns, Ended::Internal);
        }
    }

    fn classify(&self, s: &Inbound) -> Trigger {
        let (reset, syn, ack) =
            (s.flags.has(TcpFlags::RST), s.flags.has(TcpFlags::SYN), s.flags.has(TcpFlags::ACK));
        match self.state {
            StcpState::Closed if reset => Trigger::ResetElsewhere,
            StcpState::Closed if ack => Trigger::Ack,
            StcpState::Closed => Trigger::Bare,
            StcpState::SynSent => {
                let ours = ack && self.due.syn_left && s.ack == self.iss.wrapping_add(1);
                match (reset, syn) {
                    (true, _) if ours => Trigger::Reset,
                    (true, _) => Trigger::ResetElsewhere,
                    _ if ack && !ours => Trigger::BadAck,
                    (_, true) if ours => Trigger::SynAck,
                    (_, true) => Trigger::Syn,
                    _ => Trigger::Bare,
                }
            }
            StcpState::Established => {
                let shift = if self.due.scaled { self.settings.ws_local } else { 0 };
                let window = u32::from(self.settings.rcv_wnd) << shift;
                let inside = |number| seq::inside(number, self.rcv_nxt, window);
                let last = s.seq.wrapping_add(s.span().saturating_sub(1));
                let acceptable = inside(s.seq) || (s.span() > 0 && inside(last));
                if reset {
                    return match s.seq == self.rcv_nxt {
                        true => Trigger::Reset,
                        false if inside(s.seq) => Trigger::ResetNear,
                        false => Trigger::ResetElsewhere,
                    };
                }
                let diff = i64::from(s.ack.wrapping_sub(self.number(self.una)) as i32);
                let known =
                    -i64::from(self.max_wnd) <= diff && diff <= (self.max - self.una) as i64;
                match () {
                    () if !acceptable => Trigger::Outside,
                    () if syn => Trigger::Syn,
                    () if !ack => Trigger::Bare,
                    () if !known => Trigger::BadAck,
                    () => Trigger::Ack,
                }
            }
        }
    }

    /// RFC 9293 section 3.10.7.1; never in answer to a RST.
    fn rule_c(&mut self, now_ns: u64, s: &Inbound) {
        if !self.resets.allow(now_ns, u16::from(self.settings.challenge_rate) * 10) {
            self.memory.counters().resets_spared += 1;
            return;
        }
        self.memory.counters().resets_out += 1;
        let Control { seq, ack, flags } = reset_of(s);
        self.control(seq, ack, flags);
    }

    /// The peer holds an old connection with our ports: the RST kills it, and the next SYN is welcome.
    fn half_open(&mut self, now_ns: u64, s: &Inbound) {
        self.memory.counters().half_open += 1;
        self.rule_c(now_ns, s);
        if !self.due.half_open_used && self.due.syn_left {
            self.due.half_open_used = true;
            let retry = now_ns + u64::from(self.settings.half_open_retry_us) * US;
            self.set(Timer::HalfOpen, retry);
        }
    }

    fn challenge(&mut self, now_ns: u64, trigger: Trigger) {
        let counters = self.memory.counters();
        match trigger {
            Trigger::Outside => counters.outside += 1,
            Trigger::Syn => counters.syns_challenged += 1,
            Trigger::BadAck => counters.acks_out_of_range += 1,
            _ => counters.resets_ignored += 1,
        }
        if !self.challenges.allow(now_ns, u16::from(self.settings.challenge_rate)) {
            self.memory.counters().challenges_spared += 1;
            return;
        }
        self.memory.counters().challenges += 1;
        self.acknowledge();
    }

    pub(super) fn acknowledge(&mut self) {
        self.control(self.number(self.nxt), self.rcv_nxt, TcpFlags::ACK);
    }

    fn connect(&mut self, now_ns: u64, s: &Inbound) {
        self.rcv_nxt = s.seq.wrapping_add(1);
        self.state = StcpState::Established;
        let mss = s.mss.unwrap_or(DEFAULT_MSS);
        if mss == 0 {
            return self.abort_for(now_ns, Ended::PeerNonsense);
        }
        self.mss = mss.min(self.settings.mss()).max(LEAST_MSS);
        if self.mss < DEFAULT_MSS {
            self.notices |= told::SMALL_MSS;
            self.memory.counters().small_mss += 1;
        }
        self.scale = s.scale.unwrap_or(0);
        self.due.scaled = s.scale.is_some();
        if self.scale > 14 {
            self.scale = 14;
            self.memory.counters().scale_above_14 += 1;
        }
        // Without scale: the field of a SYN never has one.
        self.edge = u64::from(s.window);
        self.max_wnd = u32::from(s.window);
        self.last_window = s.window;
        (self.wl1, self.wl2) = (s.seq, 0);
        if !self.rtt.careful {
            self.sample(now_ns);
        }
        self.stop(Timer::Syn);
        self.stop(Timer::HalfOpen);
        self.due.syn = false;
        (self.heard_at, self.progress_at) = (now_ns, now_ns);
        self.congestion.begin(self.mss);
        self.notices |= told::CONNECTED;
        self.acknowledge();
    }

    fn process(&mut self, now_ns: u64, s: &Inbound) {
        self.acknowledged(now_ns, s);
        if s.length > 0 {
            self.memory.counters().peer_data_bytes += u64::from(s.length);
            if self.settings.on_data == PeerPolicy::Abort {
                return self.abort_for(now_ns, Ended::PeerSentData);
            }
        }
        // A FIN behind data that was not taken is not reached.
        if s.flags.has(TcpFlags::FIN) {
            self.memory.counters().peer_fins += 1;
            if self.settings.on_fin == PeerPolicy::Abort {
                return self.abort_for(now_ns, Ended::PeerClosed);
            }
            if s.seq == self.rcv_nxt && s.length == 0 {
                self.rcv_nxt = self.rcv_nxt.wrapping_add(1);
                self.acknowledge();
            }
        }
    }

    /// An error message quotes the segment with number `quoted`.
    pub fn icmp(&mut self, now_ns: u64, kind: IcmpKind, quoted: u32) {
        let trigger = match kind {
            IcmpKind::Soft => Trigger::IcmpSoft,
            IcmpKind::Hard => Trigger::IcmpHard,
            IcmpKind::TooBig(_) => Trigger::IcmpTooBig,
        };
        let in_flight = match self.state {
            StcpState::SynSent => self.due.syn_left && quoted == self.iss,
            _ => (quoted.wrapping_sub(self.number(self.una)) as u64) < self.max - self.una,
        };
        match response(self.state, trigger).reaction {
            Reaction::IcmpEnd if in_flight => self.end(now_ns, Ended::IcmpError),
            Reaction::IcmpCheck if in_flight => self.abort_for(now_ns, Ended::IcmpError),
            Reaction::IcmpEnd | Reaction::IcmpCheck => self.memory.counters().icmp_hard += 1,
            Reaction::LowerMss => {
                let mss = match kind {
                    IcmpKind::TooBig(mtu) => mtu.saturating_sub(40),
                    _ => 0,
                };
                match in_flight && (DEFAULT_MSS..self.mss).contains(&mss) {
                    true => {
                        self.mss = mss;
                        self.memory.counters().mss_lowered += 1;
                        // What was too long is lost: it is cut anew, and nothing else is to be repaired.
                        if self.recovery == Recovery::Fast {
                            self.congestion.recovered();
                        }
                        (self.recovery, self.recover) = (Recovery::No, self.una);
                        self.due.again = false;
                        self.nxt = self.una;
                        self.timed_end = 0;
                    }
                    false => self.memory.counters().icmp_soft += 1,
                }
            }
            Reaction::Note => self.memory.counters().icmp_soft += 1,
            _ => {}
        }
    }
}
