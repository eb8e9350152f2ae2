//! The state table, walked through: every sequence of four things that can happen, in every order.
//!
//! What happens is made without a look at the table; where the sender then is must be where the table says, and what left
//! and what was counted must be what it says. Each state that the table allows must be reached.

use std::collections::HashSet;

use fullcount_stcp::sender::{Purpose, Snapshot};
use fullcount_stcp::settings::PeerPolicy;
use fullcount_stcp::state::{Reaction as R, Trigger, response};
use fullcount_stcp::wire::icmp::IcmpKind;
use fullcount_stcp::wire::{Inbound, TcpFlags, WireError};
use fullcount_stcp::{Ended, Notice, Outbound, StcpCounters, StcpSettings, StcpState};

use crate::rig::*;

const DEPTH: usize = 4;
const TIMERS: [Trigger; 5] = [
    Trigger::SynTimer,
    Trigger::RtoTimer,
    Trigger::PersistTimer,
    Trigger::PushTimer,
    Trigger::KeepAliveTimer,
];
/// The peer's window, its MSS and ours, and the MSS that ICMP leaves.
const WINDOW: u16 = 60_000;
const MSS: u16 = 600;
const LOWER: u16 = 536;
const FRAGMENT: usize = 300;
/// An ACK number so far from the right one was never sent, nor long ago.
const FAR: u32 = 1 << 30;

/// Where a walk begins.
#[derive(Debug, Clone, Copy)]
struct Start {
    state: StcpState,
    /// The peer's window once connected, bytes.
    window: u16,
    /// The rare half of the table: limits that the second expiry passes, a peer that may send and close, one whose SYN+ACK
    /// has an MSS of 0, and ICMP that quotes what is not in flight.
    odd: bool,
}

fn starts() -> impl Iterator<Item = Start> {
    let windows = [WINDOW, 0, 100].map(|window| (StcpState::Established, window));
    let from = [(StcpState::Closed, WINDOW), (StcpState::SynSent, WINDOW)].into_iter();
    let all: Vec<_> = from.chain(windows).collect();
    [false, true]
        .into_iter()
        .flat_map(move |odd| {
            all.clone().into_iter().map(move |(state, window)| (state, window, odd))
        })
        .map(|(state, window, odd)| Start { state, window, odd })
}

impl Start {
    fn settings(self) -> StcpSettings {
        let usual = StcpSettings { mtu: MSS + 40, ..StcpSettings::daq() };
        match self.odd {
            false => usual,
            true => StcpSettings {
                give_up_us: 8000,
                persist_give_up_us: 12_000,
                keepalive_probes: 1,
                on_data: PeerPolicy::Tolerate,
                on_fin: PeerPolicy::Tolerate,
                ..usual
            },
        }
    }

    fn walk(self) -> Walk {
        let mut rig = Rig::sized(self.settings(), 1024);
        if self.state != StcpState::Closed {
            rig.s.open(0, ISS, true).unwrap();
            rig.all();
        }
        if self.state == StcpState::Established {
            rig.give(syn_ack(ISS, WINDOW, Some(MSS), Some(0)));
            rig.all();
            rig.give(rig.ack(0, u32::from(self.window)));
            assert!(rig.all().is_empty());
        }
        rig.notices();
        Walk { rig, start: self, peer: IRS + 1 }
    }
}

/// On the way.
struct Walk {
    rig: Rig,
    start: Start,
    /// Next number of the peer.
    peer: u32,
}

fn flags(list: &[TcpFlags]) -> TcpFlags {
    list.iter().fold(TcpFlags(0), |a, &b| a.and(b))
}

impl Walk {
    /// Makes it happen, and gives what then leaves; `None`: it cannot here.
    fn happen(&mut self, trigger: Trigger) -> Option<Vec<Outbound>> {
        use Trigger as T;
        let (start, quoted, rig) = (self.start, self.quoted(), &mut self.rig);
        let state = rig.s.state();
        let una = rig.s.snapshot().una;
        let plain = Inbound { seq: self.peer, ..rig.ack(una, u32::from(WINDOW)) };
        let of = |list: &[TcpFlags]| Inbound { flags: flags(list), ..plain };
        match trigger {
            T::Open => {
                let opened = rig.s.open(rig.t, ISS, true);
                assert_eq!(opened.is_ok(), state == StcpState::Closed);
            }
            T::Submit => {
                let full = rig.s.room() < FRAGMENT as u64;
                let taken = rig.s.submit(rig.t, &[7; FRAGMENT]);
                assert_eq!(taken.is_err(), state == StcpState::Closed || full);
            }
            T::Flush => rig.s.flush(),
            T::Abort => rig.s.abort(rig.t),
            T::NeighbourLost => rig.s.neighbour(rig.t, false),
            // Whichever of them is next.
            T::SynTimer | T::RtoTimer | T::PersistTimer | T::PushTimer | T::KeepAliveTimer => {
                rig.t = rig.t.max(rig.s.deadline()?);
            }
            T::Malformed => rig.s.refused(WireError::TcpChecksum),
            T::SynAck => {
                let mss = if start.odd { 0 } else { MSS };
                rig.give(syn_ack(ISS, WINDOW, Some(mss), Some(0)));
            }
            T::Syn => rig.give(of(&[TcpFlags::SYN])),
            T::BadAck => rig.give(Inbound { ack: plain.ack.wrapping_add(FAR), ..plain }),
            T::Reset => {
                rig.give(Inbound { ack: ISS + 1, ..of(&[TcpFlags::RST, TcpFlags::ACK]) });
            }
            T::ResetNear => {
                rig.give(Inbound { seq: self.peer + 8, ..of(&[TcpFlags::RST]) });
            }
            T::ResetElsewhere => rig.give(Inbound { seq: IRS - 9, ..of(&[TcpFlags::RST]) }),
            // While connecting there is no window yet: there such a segment is one without SYN.
            T::Outside => rig.give(Inbound { seq: IRS - 100_000, ..plain }),
            T::Bare => rig.give(of(&[])),
            T::Ack => rig.give(plain),
            T::Data => rig.give(Inbound { length: 5, ..plain }),
            T::Fin => rig.give(of(&[TcpFlags::FIN, TcpFlags::ACK])),
            T::IcmpHard => rig.s.icmp(rig.t, IcmpKind::Hard, quoted),
            T::IcmpSoft => rig.s.icmp(rig.t, IcmpKind::Soft, quoted),
            T::IcmpTooBig => rig.s.icmp(rig.t, IcmpKind::TooBig(LOWER + 40), quoted),
        }
        let mut out = vec![];
        // Once more for a time that is already over when it is set.
        for _ in 0..4 {
            out.extend(self.rig.all());
            if self.rig.s.deadline().is_none_or(|at| at > self.rig.t) {
                return Some(out);
            }
        }
        panic!("a timer that is over stays: {:?}", self.rig.s)
    }

    /// The number that ICMP quotes: the oldest in flight, if any is.
    fn quoted(&self) -> u32 {
        let first = match self.rig.s.state() {
            StcpState::SynSent => ISS,
            _ => self.rig.seq(self.rig.s.snapshot().una),
        };
        first.wrapping_sub(u32::from(self.start.odd))
    }

    fn moment(&self) -> Moment {
        Moment { s: self.rig.s.snapshot(), c: self.rig.counters() }
    }

    /// One step, checked; `None`: it cannot be made here.
    fn step(&mut self, path: &[Trigger]) -> Option<(StcpState, Trigger, StcpState)> {
        let (then, peer) = (self.moment(), self.peer);
        let wanted = *path.last()?;
        let out = self.happen(wanted)?;
        let now = self.moment();
        let (before, after) = (then.s.state, now.s.state);
        let ended = match after {
            StcpState::Closed => self.rig.notices().into_iter().find_map(|n| match n {
                Notice::Aborted(why) => Some(why),
                _ => None,
            }),
            _ => None,
        };
        let due_ns = self.rig.s.deadline().map(|at| at - self.rig.t);
        let mut step = Step { start: self.start, path, then, now, out, ended, due_ns, peer };
        let trigger = if TIMERS.contains(&wanted) { step.fired() } else { wanted };
        step.check(trigger);
        // A FIN that was taken has a number.
        match response(before, trigger).reaction {
            R::Connect => self.peer = IRS + 1,
            R::PeerFin if self.start.odd => self.peer += 1,
            _ => {}
        }
        Some((before, trigger, after))
    }
}

/// What the sender is like, and what it has counted.
struct Moment {
    s: Snapshot,
    c: StcpCounters,
}

/// What one thing did.
struct Step<'a> {
    start: Start,
    path: &'a [Trigger],
    then: Moment,
    now: Moment,
    out: Vec<Outbound>,
    ended: Option<Ended>,
    /// Until the next timer, ns.
    due_ns: Option<u64>,
    peer: u32,
}

impl Step<'_> {
    /// Which timer it was, by what the sender was doing; of those that run together, by what it counts or why it ended.
    fn fired(&self) -> Trigger {
        let then = &self.then.s;
        let (waits, idle) = (then.end > then.nxt, then.una == then.nxt);
        match then.state {
            StcpState::SynSent => Trigger::SynTimer,
            _ if idle && !waits => Trigger::KeepAliveTimer,
            _ if idle && then.window == 0 => Trigger::PersistTimer,
            _ if self.more(|c| c.rto_expired) > 0 => Trigger::RtoTimer,
            _ if self.ended == Some(Ended::SendTimeout) => Trigger::RtoTimer,
            _ => Trigger::PushTimer,
        }
    }

    /// Which state may follow, and what must be seen on the way.
    fn check(&mut self, trigger: Trigger) {
        let Step { start, path, ref then, ref now, ref out, .. } = *self;
        let whole = response(then.s.state, trigger);
        let (next, after) = (whole.next, now.s.state);
        let before = then.s.state;
        assert!(
            next.contains(&after),
            "{start:?} {path:?}: {before:?} → {after:?}, the table says {next:?}"
        );
        assert!(
            self.does(trigger, whole.reaction),
            "{start:?} {path:?}: {trigger:?}: {:?}\n{:?}\n{:?}\n{out:?} {:?} {:?}",
            whole.reaction,
            then.s,
            now.s,
            self.ended,
            self.counted()
        );
        assert!(out.iter().all(|o| !o.flags.has(TcpFlags::FIN)), "{path:?}: {out:?}");
        let s = &now.s;
        assert!(s.una <= s.nxt && s.nxt <= s.max && s.max <= s.end, "{path:?}: {s:?}");
        if after == StcpState::Closed {
            assert_eq!((self.due_ns, s.end - s.una), (None, 0), "{path:?}");
        }
    }

    fn more(&self, of: fn(&StcpCounters) -> u64) -> u64 {
        of(&self.now.c) - of(&self.then.c)
    }

    /// Counters that rose, by how much.
    fn counted(&self) -> Vec<(&'static str, u64)> {
        let mut then = vec![];
        self.then.c.each(|_, _, _, value| then.push(value));
        let (mut then, mut rose) = (then.into_iter(), vec![]);
        self.now.c.each(|name, _, _, value| rose.push((name, value - then.next().unwrap_or(0))));
        rose.retain(|&(_, by)| by > 0);
        rose
    }

    fn number(offset: u64) -> u32 {
        (ISS + 1).wrapping_add(offset as u32)
    }

    /// Segments with this bit that leave.
    fn with(&self, flag: TcpFlags) -> u64 {
        self.out.iter().filter(|o| o.flags.has(flag)).count() as u64
    }

    /// Nothing leaves, and nothing is counted.
    fn nothing(&self) -> bool {
        self.silent() && self.now.c == self.then.c
    }

    fn silent(&self) -> bool {
        self.out.is_empty()
    }

    /// The only segment that leaves.
    fn only(&self) -> Option<&Outbound> {
        self.out.first().filter(|_| self.out.len() == 1)
    }

    /// The first segment of payload that leaves begins here.
    fn begins(&self, offset: u64) -> bool {
        let first = self.out.iter().find(|o| o.purpose == Purpose::Data);
        first.is_some_and(|o| o.offset == offset && o.seq == Self::number(offset) && o.length > 0)
    }

    /// Behind the last byte that the windows let out.
    fn reach(&self) -> u64 {
        let s = &self.now.s;
        s.end.min(s.una + s.window.min(u64::from(s.cwnd)))
    }

    /// Ended for this, with RSTs that one of the peer's possible numbers fits.
    fn aborted(&self, why: Ended) -> bool {
        let s = &self.then.s;
        let both = [s.max, s.una];
        let places = if s.max > s.una { &both[..] } else { &both[..1] };
        let reset = flags(&[TcpFlags::RST, TcpFlags::ACK]);
        let fits = |(o, &at): (&Outbound, &u64)| o.flags == reset && o.seq == Self::number(at);
        self.left(why)
            && self.out.len() == places.len()
            && self.out.iter().zip(places).all(fits)
            && self.more(|c| c.resets_out) == places.len() as u64
    }

    fn left(&self, why: Ended) -> bool {
        self.ended == Some(why)
    }

    /// Is what ICMP quotes on its way?
    fn in_flight(&self) -> bool {
        let s = &self.then.s;
        !self.start.odd && (s.state == StcpState::SynSent || s.max > s.una)
    }

    /// What leaves and what is counted is what the table says.
    fn does(&self, trigger: Trigger, reaction: R) -> bool {
        let plain = (self.with(TcpFlags::RST), self.with(TcpFlags::SYN)) == (0, 0);
        let silent = self.silent();
        match reaction {
            R::Nothing | R::Remember | R::AlreadyOpen | R::NotConnected => self.nothing(),
            R::Begin => self.is_syn(),
            R::Take => plain && self.more(|c| c.fragments) + self.more(|c| c.would_block) == 1,
            R::PushTail => plain && self.pushes(trigger),
            R::Leave => silent && self.left(Ended::LocalAbort),
            R::LocalAbort => self.aborted(Ended::LocalAbort),
            R::Unreachable => silent && self.left(Ended::HostUnreachable),
            R::KeepTrying => silent && self.more(|c| c.no_neighbour) == 1,
            R::ResendSyn | R::Retransmit | R::Probe | R::KeepAlive => self.expires(reaction),
            R::Never => false,
            _ => self.answers(reaction),
        }
    }

    fn is_syn(&self) -> bool {
        let syn = |o: &Outbound| {
            (o.flags, o.seq, o.options) == (TcpFlags::SYN, ISS, Some((MSS, 1))) && o.length == 0
        };
        self.only().is_some_and(syn) && self.more(|c| c.syns) == 1
    }

    /// All leaves that the windows let out; of a flush only if they hold back nothing.
    fn pushes(&self, trigger: Trigger) -> bool {
        let (then, now) = (&self.then.s, &self.now.s);
        if trigger == Trigger::Flush && self.reach() < now.end {
            return then.nxt == now.nxt;
        }
        let pushed = self.out.last().is_none_or(|o| o.flags.has(TcpFlags::PSH));
        let leaves = trigger == Trigger::Flush && then.nxt == then.end || self.begins(then.nxt);
        leaves && pushed && now.nxt == self.reach()
    }

    /// What a timer does, or the end that its limit brings.
    fn expires(&self, reaction: R) -> bool {
        let (then, now) = (&self.then.s, &self.now.s);
        let one = |purpose, offset, number| {
            let is = |o: &Outbound| {
                (o.purpose, o.offset, o.seq, o.length) == (purpose, offset, number, 1)
            };
            self.only().is_some_and(is)
        };
        let closed = now.state == StcpState::Closed;
        match reaction {
            R::ResendSyn if closed => self.silent() && self.left(Ended::ConnectTimeout),
            R::ResendSyn => self.is_syn(),
            R::Retransmit if closed => self.aborted(Ended::SendTimeout),
            R::Retransmit => {
                let most = u64::from(self.start.settings().rto_max_us) * US;
                // What a closed window holds back is probed for.
                let again = match then.window {
                    0 => self.silent() && self.due_ns.is_some(),
                    _ => self.begins(then.una),
                };
                again && now.rto_ns == (2 * then.rto_ns).min(most)
            }
            R::Probe | R::KeepAlive if closed => self.aborted(Ended::PeerDead),
            R::Probe => one(Purpose::Probe, then.nxt, Self::number(then.nxt)),
            _ => one(Purpose::KeepAlive, then.una, Self::number(then.una) - 1),
        }
    }

    /// What a segment or a message of ICMP does.
    fn answers(&self, reaction: R) -> bool {
        let (silent, now) = (self.silent(), &self.now.s);
        let plain = (self.with(TcpFlags::RST), self.with(TcpFlags::SYN)) == (0, 0);
        let control = |flags, seq, ack| {
            self.only().is_some_and(|o| (o.flags, o.seq, o.ack, o.length) == (flags, seq, ack, 0))
        };
        let dropped = |c: &StcpCounters| c.refused.iter().sum::<u64>() + c.bare + c.resets_ignored;
        match reaction {
            R::Drop => silent && self.more(dropped) == 1,
            R::RuleC => {
                let reset = self.only().is_some_and(|o| o.flags.has(TcpFlags::RST));
                reset && self.more(|c| c.resets_out) == 1
            }
            R::Connect if self.start.odd => self.aborted(Ended::PeerNonsense),
            R::Connect => {
                let first = self.out.first();
                let ack = first.is_some_and(|o| (o.flags, o.ack) == (TcpFlags::ACK, IRS + 1));
                plain && ack && (now.mss, now.window) == (MSS, u64::from(WINDOW))
            }
            R::NoSimultaneous => silent && self.more(|c| c.simultaneous) == 1,
            R::HalfOpen => {
                let reset = control(TcpFlags::RST, Self::number(FAR.into()), 0);
                let first = self.path.iter().filter(|&&t| t == Trigger::BadAck).count() == 1;
                let retry_ns = u64::from(self.start.settings().half_open_retry_us) * US;
                let counted = (self.more(|c| c.half_open), self.more(|c| c.resets_out)) == (1, 1);
                reset && counted && (!first || self.due_ns.is_some_and(|ns| ns <= retry_ns))
            }
            R::Refused => silent && self.more(|c| c.resets_in) == 1 && self.left(Ended::Refused),
            R::PeerReset => {
                silent && self.more(|c| c.resets_in) == 1 && self.left(Ended::ResetByPeer)
            }
            R::Challenge => {
                let answer = control(TcpFlags::ACK, Self::number(now.nxt), self.peer);
                answer && self.more(|c| c.challenges) == 1
            }
            R::Process => {
                let taken = self.more(|c| c.acks) == 1 && now.window == u64::from(WINDOW);
                plain && taken && self.more(|c| c.challenges) == 0
            }
            R::PeerData => {
                let ends = if self.start.odd { plain } else { self.aborted(Ended::PeerSentData) };
                ends && self.more(|c| c.peer_data_bytes) == 5
            }
            R::PeerFin => {
                let taken = self.out.first().is_some_and(|o| o.ack == self.peer + 1);
                let ends = if self.start.odd { taken } else { self.aborted(Ended::PeerClosed) };
                ends && self.more(|c| c.peer_fins) == 1
            }
            R::IcmpEnd | R::IcmpCheck if !self.in_flight() => {
                silent && self.ended.is_none() && self.more(|c| c.icmp_hard) == 1
            }
            R::IcmpEnd => silent && self.left(Ended::IcmpError) && self.more(|c| c.icmp_hard) == 0,
            R::IcmpCheck => self.aborted(Ended::IcmpError) && self.more(|c| c.icmp_hard) == 0,
            R::LowerMss => self.lowers(),
            _ => silent && self.more(|c| c.icmp_soft) == 1,
        }
    }

    /// What was too long leaves again in smaller segments.
    fn lowers(&self) -> bool {
        let (then, now) = (&self.then.s, &self.now.s);
        let counted = (self.more(|c| c.mss_lowered), self.more(|c| c.icmp_soft));
        if !self.in_flight() || then.mss == LOWER {
            return self.silent() && counted == (0, 1) && now.mss == then.mss;
        }
        let short = self.out.iter().all(|o| o.length <= u32::from(LOWER));
        let open = now.window == u64::from(WINDOW);
        counted == (1, 0) && now.mss == LOWER && short && self.begins(now.una) == open
    }
}

#[test]
fn every_sequence_of_events_follows_the_table() {
    // One of the timers stands for all: which it is, is seen.
    let all: Vec<Trigger> =
        Trigger::ALL.iter().copied().filter(|t| *t == TIMERS[0] || !TIMERS.contains(t)).collect();
    let mut seen = HashSet::new();
    let mut path = [0usize; DEPTH];
    for start in starts() {
        'sequence: loop {
            let triggers = path.map(|p| all[p]);
            let mut walk = start.walk();
            for at in 1..=DEPTH {
                seen.extend(walk.step(&triggers[..at]));
            }
            for place in (0..DEPTH).rev() {
                path[place] += 1;
                if path[place] < all.len() {
                    continue 'sequence;
                }
                path[place] = 0;
            }
            break;
        }
    }
    for state in StcpState::ALL {
        for &trigger in Trigger::ALL {
            let whole = response(state, trigger);
            for &next in whole.next {
                let reached = seen.contains(&(state, trigger, next));
                assert_eq!(reached, whole.reaction != R::Never, "{state:?} {trigger:?} {next:?}");
            }
        }
    }
}
