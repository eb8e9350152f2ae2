//! The state table, walked through: every sequence of four things that can happen, in every order.
//!
//! What happens is made without a look at the table; where the sender then is must be where the table says.

use fullcount_stcp::state::{Reaction, Trigger, response};
use fullcount_stcp::wire::icmp::IcmpKind;
use fullcount_stcp::wire::{Inbound, TcpFlags, WireError};
use fullcount_stcp::{StcpSettings, StcpState};

use crate::rig::*;

const DEPTH: usize = 4;

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
            give(rig, Inbound { seq: IRS + 100_000, ack: ISS + 1, ..plain });
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

/// Which states may follow, and what must be seen on the way.
fn check(rig: &mut Rig, before: StcpState, trigger: Trigger, path: &[Trigger]) {
    use Trigger as T;
    let timers = [T::SynTimer, T::RtoTimer, T::PersistTimer, T::PushTimer, T::KeepAliveTimer];
    let next: Vec<StcpState> = match timers.contains(&trigger) {
        true => timers.iter().flat_map(|&t| response(before, t).next).copied().collect(),
        false => response(before, trigger).next.to_vec(),
    };
    let after = rig.s.state();
    assert!(next.contains(&after), "{path:?}: {before:?} → {after:?}, the table says {next:?}");
    let out = rig.all();
    let resets = out.iter().filter(|o| o.flags.has(TcpFlags::RST)).count();
    match response(before, trigger).reaction {
        Reaction::LocalAbort => assert!((1..=2).contains(&resets), "{path:?}: {out:?}"),
        Reaction::Drop | Reaction::Nothing | Reaction::Note | Reaction::Leave => {
            assert_eq!(resets, 0, "{path:?}: {out:?}");
        }
        _ => {}
    }
    assert!(out.iter().all(|o| !o.flags.has(TcpFlags::FIN)), "{path:?}: {out:?}");
    let s = rig.s.snapshot();
    assert!(s.una <= s.nxt && s.nxt <= s.max && s.max <= s.end, "{path:?}: {s:?}");
    if after == StcpState::Closed {
        assert_eq!((rig.s.deadline(), rig.s.used()), (None, 0), "{path:?}");
    }
}

#[test]
fn every_sequence_of_events_follows_the_table() {
    let all = Trigger::ALL;
    let mut seen = std::collections::HashSet::new();
    let mut path = [0usize; DEPTH];
    let settings = StcpSettings { mtu: 576, ..StcpSettings::daq() };
    // From a closed sender, and from one that sends.
    for begin in [StcpState::Closed, StcpState::SynSent, StcpState::Established] {
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
            for (at, &trigger) in triggers.iter().enumerate() {
                let before = rig.s.state();
                if happen(&mut rig, trigger) {
                    seen.insert((before, trigger));
                    check(&mut rig, before, trigger, &triggers[..=at]);
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
            let timer = state == StcpState::Closed;
            assert!(seen.contains(&(state, trigger)) || never && timer, "{state:?} {trigger:?}");
        }
    }
}
