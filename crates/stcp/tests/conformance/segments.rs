//! Statements 11 to 16.

use fullcount_stcp::receiver::{ModelReceiver, ReceiverSetup};
use fullcount_stcp::settings::Coalescing;
use fullcount_stcp::wire::{Addresses, ChecksumTrust, Packet, TcpFlags, ip};
use fullcount_stcp::{StcpSettings, StcpState};

use crate::rig::*;

const PUSHED: TcpFlags = TcpFlags(TcpFlags::ACK.0 | TcpFlags::PSH.0);

fn hundred(settings: StcpSettings) -> (Rig, Vec<u32>) {
    let mut rig = Rig::connected(settings, 1 << 20);
    for _ in 0..100 {
        rig.submit(2048);
    }
    let sizes = rig.sizes();
    (rig, sizes)
}

#[test]
fn s11_full_segments_leave_and_the_tail_waits() {
    let (mut rig, sizes) = hundred(StcpSettings::default());
    assert_eq!(sizes, vec![8960; 22]);
    rig.give(rig.ack(8960 * 21, 1024));
    assert!(rig.all().is_empty());
    rig.give(rig.ack(8960 * 22, 1024));
    let out = rig.all();
    assert_eq!((out.len(), out[0].length, out[0].flags), (1, 7680, PUSHED));
}

#[test]
fn s12_no_delay_and_within_a_time() {
    let (_, sizes) =
        hundred(StcpSettings { coalescing: Coalescing::NoDelay, ..StcpSettings::default() });
    assert_eq!((sizes.len(), sizes[22]), (23, 7680));
    let settings = StcpSettings { coalescing: Coalescing::Within(1000), ..StcpSettings::default() };
    let (mut rig, sizes) = hundred(settings);
    assert_eq!(sizes, vec![8960; 22]);
    let submitted = rig.t;
    let (t, out) = rig.until_sent();
    assert_eq!((t, out.len(), out[0].length), (submitted + MS, 1, 7680));
}

#[test]
fn s12_the_time_counts_from_the_oldest_byte_that_was_not_sent() {
    let settings = StcpSettings { coalescing: Coalescing::Within(1000), ..StcpSettings::default() };
    let mut rig = Rig::connected(settings, 1 << 20);
    rig.submit(8960);
    assert_eq!(rig.sizes(), [8960]);
    let first = rig.t + 100 * US;
    for at in [first, first + 300 * US, first + 900 * US] {
        rig.t = at;
        rig.submit(10);
        assert!(rig.all().is_empty());
    }
    let (t, out) = rig.until_sent();
    assert_eq!((t, out[0].length), (first + MS, 30));
}

#[test]
fn s13_flush_sends_the_tail() {
    let (mut rig, _) = hundred(StcpSettings::default());
    rig.s.flush();
    let out = rig.all();
    assert_eq!((out.len(), out[0].length, out[0].flags), (1, 7680, PUSHED));
    // Not what comes later.
    rig.submit(10);
    assert!(rig.all().is_empty());
}

#[test]
fn only_what_nothing_can_follow_is_pushed() {
    let mut rig = Rig::connected(StcpSettings::default(), 1 << 20);
    rig.submit(8960 * 3 + 5);
    let flags: Vec<_> = rig.all().iter().map(|o| o.flags).collect();
    assert_eq!(flags, [TcpFlags::ACK, TcpFlags::ACK, PUSHED]);
}

#[test]
fn s14_checksum_over_two_parts_of_odd_length() {
    let mut rig = Rig::with(StcpSettings::default(), 1 << 20, ISS, 16384);
    rig.submit(16381 - 8960);
    rig.s.flush();
    rig.all();
    rig.give(rig.ack(16381 - 8960, 1024));
    rig.submit(8960);
    rig.all();
    rig.give(rig.ack(16381, 1024));
    // The next segment goes round the end: 3 bytes, then the others.
    rig.submit(8960);
    let out = rig.all();
    let (a, b) = fullcount_stcp::memory::ring_slices(&rig.s.memory().ring, out[0].offset, 8960);
    assert_eq!((a.len(), b.len()), (3, 8957));
    let ends = Addresses {
        local: [10, 77, 0, 1],
        remote: [10, 77, 0, 2],
        local_port: 10,
        remote_port: 5000,
    };
    let mut header = [0; ip::HEADERS];
    let length = ip::write(&mut header, &ends, 9, &out[0], (a, b), false);
    let packet = [&header[..length], a, b].concat();
    let parsed = fullcount_stcp::wire::parse(&packet, ends.remote, ChecksumTrust::Check).unwrap();
    assert!(
        matches!(parsed, Packet::Tcp { segment, .. } if segment.length == 8960 && segment.seq == out[0].seq)
    );
    let mut wrong = packet;
    wrong[60] ^= 1;
    assert!(fullcount_stcp::wire::parse(&wrong, ends.remote, ChecksumTrust::Check).is_err());
}

#[test]
fn s15_numbers_wrap_without_notice() {
    let mut rig = Rig::with(StcpSettings::daq(), 1 << 20, 0u32.wrapping_sub(5000), 1 << 20);
    let mut peer = ModelReceiver::<64>::new(ReceiverSetup { iss: IRS, ..ReceiverSetup::default() });
    let syn = fullcount_stcp::Outbound { seq: rig.iss, flags: TcpFlags::SYN, ..blank() };
    peer.receive(0, &syn);
    rig.submit(100_000);
    rig.s.flush();
    let mut sent = 0;
    while rig.s.snapshot().una < 100_000 {
        for o in rig.all() {
            sent += 1;
            // Every fifth is lost.
            if sent % 5 != 0
                && let Some(ack) = deliver(&rig, &mut peer, &o)
            {
                rig.t += 10 * US;
                rig.give(ack);
            }
        }
        rig.t += MS;
        if let Some(ack) = peer.tick(rig.t) {
            rig.give(ack);
        }
        assert_eq!(rig.s.state(), StcpState::Established);
    }
    assert_eq!(peer.in_order(), 100_000);
    assert!(rig.counters().again_bytes > 0);
}

fn blank() -> fullcount_stcp::Outbound {
    fullcount_stcp::Outbound {
        purpose: fullcount_stcp::sender::Purpose::Control,
        seq: 0,
        ack: 0,
        flags: TcpFlags::ACK,
        window: 0,
        options: None,
        offset: 0,
        length: 0,
        mss: 8960,
    }
}

/// Payload of the longest unit that one IP packet holds.
const UNIT: u32 = 65_535 - 40;

#[test]
fn s16_a_unit_is_as_long_as_the_link_takes_and_512_kib_at_most() {
    let settings = StcpSettings::default();
    let lengths = [300_000, u32::MAX].map(|most| {
        let mut rig = Rig::connected(settings, 4 << 20);
        rig.submit(1 << 20);
        rig.s.flush();
        std::iter::from_fn(|| rig.s.poll(rig.t, most)).map(|o| o.length).max()
    });
    assert_eq!(lengths, [Some(300_000 / 8960 * 8960), Some((524_280 - 100) / 8960 * 8960)]);
}

#[test]
fn s16_units_for_offload_are_whole_segments_inside_the_window() {
    let mut rig = Rig::connected(StcpSettings::default(), 200 * 1024);
    rig.submit(600_000);
    rig.s.flush();
    let mut edge = 0;
    while let Some(o) = rig.s.poll(rig.t, UNIT) {
        assert!(o.length <= UNIT && o.length.is_multiple_of(8960), "{}", o.length);
        edge = o.offset + u64::from(o.length);
        assert!(edge <= 200 * 1024);
    }
    assert_eq!(edge, 8960 * 22);
    assert_eq!(rig.counters().segments, 22);
}

#[test]
fn s16_the_last_segment_alone_is_short() {
    let mut rig = Rig::connected(StcpSettings::default(), 200 * 1024);
    rig.submit(100_000);
    rig.s.flush();
    let (mut edge, mut short) = (0, 0);
    while let Some(o) = rig.s.poll(rig.t, UNIT) {
        assert!(o.length <= UNIT && short == 0, "{} behind a short one", o.length);
        short = o.length % 8960;
        edge = o.offset + u64::from(o.length);
    }
    assert_eq!((edge, short), (100_000, 100_000 % 8960));
    assert_eq!(rig.counters().segments, 12);
}
