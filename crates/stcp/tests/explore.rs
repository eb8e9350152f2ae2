//! The state table, walked through: every sequence of four things that can happen, in every order.
//!
//! What happens is made without a look at the table; where the sender then is must be where the table says.

use fullcount_stcp::state::{Reaction, Trigger, response};
use fullcount_stcp::wire::icmp::IcmpKind;
use fullcount_stcp::wire::{Inbound, TcpFlags, WireError};
use fullcount_stcp::{Outbound, StcpCounters, StcpSettings, StcpState};

use crate::rig::*;

const DEPTH: usize = 4;
const TIMERS: [Trigger; 5] = [
    Trigger::SynTimer,
    Trigger::RtoTimer,
    Trigger::PersistTimer,
    Trigger::PushTimer,
    Trigger::KeepAliveTimer,
];

fn flags(list: &[TcpFlags]) -> TcpFlags {
    list.iter().fold(TcpFlags(0), |a, &b| a.and(b))
}

/// Makes it happen; false: it cannot here.
fn happen(rig: &mut Rig, trigger: Trigger) -> bool {
    use Trigger as T;
    let state = rig.s.state();
    let una = rig.s.snapshot().una;
    let plain = rig.ack(una, 60_000);
    let give = |rig: &mut Rig, s: Inbound| rig.give(s);
    match trigger {
        T::Open => {
            let opened = rig.s.open(rig.t, ISS, true);
            assert_eq!(opened.is_ok(), state == StcpState::Closed);
        }
        T::Submit => {
            let full = rig.s.room() < 300;
            let taken = rig.s.submit(rig.t, &[7; 300]);
            assert_eq!(taken.is_err(), state == StcpState::Closed || full);
        }
        T::Flush => rig.s.flush(),
        T::Abort => rig.s.abort(rig.t),
        T::NeighbourLost => rig.s.neighbour(rig.t, false),
        // Whichever of them is next.
        T::SynTimer | T::RtoTimer | T::PersistTimer | T::PushTimer | T::KeepAliveTimer => {
            let Some(at) = rig.s.deadline() else { return false };
            rig.t = rig.t.max(at);
            rig.all();
        }
        T::Malformed => rig.s.refused(WireError::TcpChecksum),
        T::SynAck => give(rig, syn_ack(ISS, 60_000, Some(536), Some(0))),
        T::Syn => give(rig, Inbound { flags: TcpFlags::SYN, seq: IRS + 1, ..plain }),
        T::BadAck => give(rig, Inbound { ack: plain.ack.wrapping_add(1 << 30), ..plain }),
        T::Reset => {
            let both = flags(&[TcpFlags::RST, TcpFlags::ACK]);
            give(rig, Inbound { flags: both, ack: ISS + 1, ..plain });
        }
        T::ResetNear => give(rig, Inbound { flags: TcpFlags::RST, seq: IRS + 9, ..plain }),
        T::ResetElsewhere => give(rig, Inbound { flags: TcpFlags::RST, seq: IRS - 9, ..plain }),
        T::Outside => {
            // While connecting there is no window yet: there such a segment is one without SYN.
            give(rig, Inbound { seq: IRS.wrapping_sub(100_000), ack: ISS + 1, ..plain });
        }
        T::Bare => give(rig, Inbound { flags: TcpFlags(0), ..plain }),
        T::Ack => give(
            rig,
            Inbound { ack: if state == StcpState::SynSent { ISS + 1 } else { plain.ack }, ..plain },
        ),
        T::Data => {
            let ack = if state == StcpState::SynSent { ISS + 1 } else { plain.ack };
            give(rig, Inbound { length: 5, ack, ..plain });
        }
        T::Fin => {
            let ack = if state == StcpState::SynSent { ISS + 1 } else { plain.ack };
            give(rig, Inbound { flags: flags(&[TcpFlags::FIN, TcpFlags::ACK]), ack, ..plain });
        }
        T::IcmpHard => rig.s.icmp(rig.t, IcmpKind::Hard, quoted(rig)),
        T::IcmpSoft => rig.s.icmp(rig.t, IcmpKind::Soft, quoted(rig)),
        T::IcmpTooBig => rig.s.icmp(rig.t, IcmpKind::TooBig(600), quoted(rig)),
    }
    true
}

fn quoted(rig: &Rig) -> u32 {
    match rig.s.state() {
        StcpState::SynSent => ISS,
        _ => rig.seq(rig.s.snapshot().una),
    }
}

/// Which timer it was, by what it counts; one of coalescing counts nothing.
fn fired(before: StcpState, then: &StcpCounters, now: &StcpCounters) -> Trigger {
    match before {
        StcpState::SynSent => Trigger::SynTimer,
        _ if now.rto_expired > then.rto_expired => Trigger::RtoTimer,
        _ if now.probes > then.probes => Trigger::PersistTimer,
        _ if now.keepalives > then.keepalives => Trigger::KeepAliveTimer,
        _ => Trigger::PushTimer,
    }
}

/// Which state may follow, and what must be seen on the way.
fn check(
    rig: &mut Rig,
    (before, then): (StcpState, &StcpCounters),
    trigger: Trigger,
    path: &[Trigger],
) {
    let next = response(before, trigger).next;
    let after = rig.s.state();
    assert!(next.contains(&after), "{path:?}: {before:?} → {after:?}, the table says {next:?}");
    let (out, now) = (rig.all(), rig.counters());
    does(response(before, trigger).reaction, &out, (then, &now), path);
    assert!(out.iter().all(|o| !o.flags.has(TcpFlags::FIN)), "{path:?}: {out:?}");
    let s = rig.s.snapshot();
    assert!(s.una <= s.nxt && s.nxt <= s.max && s.max <= s.end, "{path:?}: {s:?}");
    if after == StcpState::Closed {
        assert_eq!((rig.s.deadline(), rig.s.used()), (None, 0), "{path:?}");
    }
}

/// What leaves and what is counted is what the table says.
fn does(
    reaction: Reaction,
    out: &[Outbound],
    (then, now): (&StcpCounters, &StcpCounters),
    path: &[Trigger],
) {
    use Reaction as R;
    let of = |flags: TcpFlags| out.iter().filter(|o| o.flags.has(flags)).count() as u64;
    let (resets, syns) = (of(TcpFlags::RST), of(TcpFlags::SYN));
    let more = |of: fn(&StcpCounters) -> u64| of(now) - of(then);
    let challenged = more(|c| c.challenges) + more(|c| c.challenges_spared);
    let reset = more(|c| c.resets_out) + more(|c| c.resets_spared);
    let seen = (resets, syns, out.len(), challenged, reset);
    let holds = match reaction {
        R::Challenge => {
            let answer = |o: &Outbound| o.flags == TcpFlags::ACK && o.length == 0;
            (resets, syns, challenged) == (0, 0, 1) && out.len() <= 1 && out.iter().all(answer)
        }
        R::RuleC => out.len() as u64 == resets && resets <= 1 && reset == 1,
        R::LocalAbort => (1..=2).contains(&resets),
        R::Begin => (resets, syns, out.len()) == (0, 1, 1),
        R::Connect => (resets, syns) == (0, 0) && !out.is_empty(),
        R::HalfOpen => resets <= 1 && syns == 0 && reset <= 1,
        R::Process => (resets, syns, challenged) == (0, 0, 0) && more(|c| c.acks) == 1,
        R::PeerData => more(|c| c.peer_data_bytes) == 5,
        R::PeerFin => more(|c| c.peer_fins) == 1,
        R::Refused | R::PeerReset => out.is_empty() && more(|c| c.resets_in) == 1,
        R::IcmpEnd | R::IcmpCheck => syns == 0 && resets <= 2,
        R::Note => out.is_empty() && more(|c| c.icmp_soft) == 1,
        R::NoSimultaneous => out.is_empty() && more(|c| c.simultaneous) == 1,
        R::Nothing
        | R::Drop
        | R::AlreadyOpen
        | R::NotConnected
        | R::Leave
        | R::Unreachable
        | R::Remember => out.is_empty() && challenged == 0 && reset == 0,
        R::Take | R::PushTail | R::LowerMss | R::KeepTrying => (resets, syns) == (0, 0),
        R::ResendSyn | R::Retransmit | R::Probe | R::KeepAlive => resets <= 2,
        R::Never => false,
    };
    assert!(holds, "{path:?}: {reaction:?}: {seen:?} {out:?}");
}

#[test]
fn every_sequence_of_events_follows_the_table() {
    let all = Trigger::ALL;
    let mut seen = std::collections::HashSet::new();
    let mut path = [0usize; DEPTH];
    let settings = StcpSettings { mtu: 576, ..StcpSettings::daq() };
    // From a closed sender, from one that sends, and from one whose peer has closed its window.
    let shut = [false, false, false, true];
    let begins = [StcpState::Closed, StcpState::SynSent, StcpState::Established];
    for (begin, shut) in begins.into_iter().chain([StcpState::Established]).zip(shut) {
        'sequence: loop {
            let triggers: Vec<Trigger> = path.iter().map(|&p| all[p]).collect();
            let mut rig = Rig::sized(settings, 1024);
            if begin != StcpState::Closed {
                rig.s.open(0, ISS, true).unwrap();
                rig.all();
            }
            if begin == StcpState::Established {
                rig.give(syn_ack(ISS, 60_000, Some(536), Some(0)));
                rig.all();
            }
            if shut {
                rig.give(rig.ack(0, 0));
            }
            for (at, &trigger) in triggers.iter().enumerate() {
                let (before, then) = (rig.s.state(), rig.counters());
                if happen(&mut rig, trigger) {
                    let trigger = match TIMERS.contains(&trigger) {
                        true => fired(before, &then, &rig.counters()),
                        false => trigger,
                    };
                    seen.insert((before, trigger));
                    check(&mut rig, (before, &then), trigger, &triggers[..=at]);
                }
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
        for &trigger in all {
            let never = response(state, trigger).reaction == Reaction::Never;
            assert!(seen.contains(&(state, trigger)) != never, "{state:?} {trigger:?}");
        }
    }
}
