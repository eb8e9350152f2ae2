//! Statements 47 and 49; 48 is a property.

use fullcount_stcp::schedule::Turns;
use fullcount_stcp::{Notice, Pressure, StcpSettings, SubmitError};

use crate::rig::*;

#[test]
fn s47_busy_is_raised_in_the_call_that_passes_the_mark() {
    let mut rig = Rig::with(StcpSettings::daq(), 1 << 20, ISS, 65536);
    let mut seen = vec![];
    for _ in 0..16 {
        let accepted = rig.s.submit(rig.t, &[0; 4096]).unwrap();
        seen.push(accepted.pressure);
        assert_eq!(rig.s.pressure(), accepted.pressure);
    }
    // Warning above 3/4, busy from 7/8 on.
    assert_eq!(seen[..12], [Pressure::Ready; 12]);
    assert_eq!(seen[12..], [Pressure::Warning, Pressure::Busy, Pressure::Busy, Pressure::Busy]);
    assert_eq!(rig.s.submit(rig.t, &[0]), Err(SubmitError::WouldBlock));
    assert_eq!(rig.s.submit(rig.t, &[0; 65537]), Err(SubmitError::TooLong));
    assert_eq!(rig.notices(), [Notice::Xoff]);
    rig.all();
    rig.t += 50 * US;
    rig.give(rig.ack(32_767, 1024));
    assert_eq!(rig.notices(), [Notice::Acked(32_767)]);
    assert_eq!(rig.s.pressure(), Pressure::Busy);
    rig.t += 50 * US;
    rig.give(rig.ack(32_768, 1024));
    assert_eq!(rig.notices(), [Notice::Xon, Notice::Acked(32_768)]);
    assert_eq!(rig.s.pressure(), Pressure::Ready);
    assert_eq!((rig.counters().xoff, rig.counters().busy_ns), (1, 100 * US));
    assert!(rig.s.memory().histograms.latency.iter().sum::<u64>() > 0);
}

#[test]
fn busy_is_raised_when_the_largest_fragment_would_not_fit() {
    let settings = StcpSettings { largest_fragment: 40_000, ..StcpSettings::daq() };
    let mut rig = Rig::with(settings, 1 << 20, ISS, 65536);
    assert_eq!(rig.s.submit(rig.t, &[0; 25_536]).unwrap().pressure, Pressure::Ready);
    assert_eq!(rig.s.submit(rig.t, &[0; 1]).unwrap().pressure, Pressure::Busy);
}

#[test]
fn s49_streams_share_a_link_evenly() {
    let mut rigs: Vec<Rig> = (0..5).map(|_| Rig::connected(StcpSettings::daq(), 1 << 20)).collect();
    let mut turns = Turns::default();
    let mut segments = [0u32; 5];
    let mut idle = 0;
    while segments.iter().sum::<u32>() < 4000 {
        let (at, credit) = turns.next(rigs.len(), 8960).unwrap();
        let rig = &mut rigs[at];
        // Stream 4's window is closed.
        if at == 4 && rig.s.snapshot().window > 0 {
            rig.give(rig.ack(0, 0));
        }
        while rig.s.room() >= 10_000 {
            rig.submit(10_000);
        }
        match rig.s.poll(rig.t, credit) {
            Some(o) => {
                segments[at] += 1;
                turns.sent(o.length);
                rig.t += US;
                rig.give(rig.ack(o.offset + u64::from(o.length), 1024));
            }
            None => {
                idle += 1;
                turns.sent(0);
            }
        }
        assert!(idle <= 4000, "a stream without anything stops the others");
    }
    assert_eq!(segments[4], 0);
    assert!(segments[..4].iter().all(|n| (980..=1020).contains(n)), "{segments:?}");
    assert!(Turns::default().next(0, 1).is_none());
}
