//! Segments with bits and options that this TCP has no use for, and with rubbish in place of options: as bytes, through the reader.
//!
//! Sections 4.5 and 5 of the specification: URG, ECE and CWR mean nothing, unknown options are skipped by their length, an option that goes
//! wrong ends the walk and the segment counts. So a session with any of them goes as the same session without.

use fullcount_stcp::receiver::{ModelReceiver, ReceiverSetup};
use fullcount_stcp::wire::{
    Addresses, ChecksumTrust, Inbound, Packet, TcpFlags, WireError, checksum, ip, parse,
};
use fullcount_stcp::{Outbound, StcpCounters, StcpSettings};

use crate::rig::*;

/// The peer's ends, as it writes.
const ENDS: Addresses =
    Addresses { local: [10, 77, 0, 2], remote: [10, 77, 0, 1], local_port: 5000, remote_port: 10 };
const URG: u8 = 32;
const ECE: u8 = 64;
const CWR: u8 = 128;

/// What a segment wears beside what counts.
#[derive(Debug, Clone, Copy)]
struct Worn {
    /// Bits beside those that are known.
    bits: u8,
    /// Low half of the byte of the data offset: reserved bits, and what was once NS.
    reserved: u8,
    urgent: u16,
    /// Multiple of four bytes, up to 40.
    options: &'static [u8],
}

const BARE: Worn = Worn { bits: 0, reserved: 0, urgent: 0, options: &[] };

/// Two blocks behind the hole, as a peer tells them that was allowed to.
const SACK: &[u8] = &[1, 1, 5, 18, 1, 2, 40, 0, 1, 2, 80, 0, 1, 2, 120, 0, 1, 2, 160, 0];
const TIMESTAMPS: &[u8] = &[1, 1, 8, 10, 255, 255, 255, 255, 0, 0, 0, 1];
/// An option of a kind that nobody has, one that fills the header.
const UNKNOWN: &[u8] = &[
    253, 40, 2, 4, 0, 1, 3, 3, 14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// Sense and rubbish: each must change nothing of a segment that is no SYN.
const WORN: [Worn; 22] = [
    Worn { bits: URG, ..BARE },
    Worn { bits: URG, urgent: 1, ..BARE },
    Worn { bits: URG, urgent: 65_535, ..BARE },
    Worn { urgent: 7, ..BARE },
    Worn { bits: ECE, ..BARE },
    Worn { bits: CWR, ..BARE },
    Worn { bits: URG | ECE | CWR, reserved: 15, urgent: 9, options: TIMESTAMPS },
    Worn { reserved: 15, ..BARE },
    Worn { options: SACK, ..BARE },
    Worn { options: TIMESTAMPS, ..BARE },
    Worn { options: UNKNOWN, ..BARE },
    // MSS, scale, SACK-permitted and fast open, which only a SYN may have.
    Worn { options: &[2, 4, 0, 1, 3, 3, 14, 1, 4, 2, 34, 2], ..BARE },
    // MD5 and the authentication option, in lengths that they do not have.
    Worn { options: &[19, 4, 0, 0, 29, 4, 0, 0], ..BARE },
    // Length 0, 1, beyond the header, and none at all behind the kind.
    Worn { options: &[5, 0, 0, 0], ..BARE },
    Worn { options: &[8, 1, 1, 1], ..BARE },
    Worn { options: &[5, 41, 1, 1], ..BARE },
    Worn { options: &[254, 255, 255, 255], ..BARE },
    Worn { options: &[1, 1, 1, 5], ..BARE },
    Worn { options: &[1, 1, 1, 1], ..BARE },
    // SACK of a length that is no number of blocks, and of none.
    Worn { options: &[5, 7, 1, 2, 3, 4, 5, 1], ..BARE },
    Worn { options: &[5, 2, 5, 2], ..BARE },
    // Behind the end of options is nothing.
    Worn { options: &[0, 5, 255, 2, 4, 0, 1, 0], ..BARE },
];

/// The packet that says this, as it is worn.
fn packet(segment: &Inbound, worn: Worn) -> Vec<u8> {
    let length = 20 + worn.options.len();
    let mut tcp = vec![0; length];
    tcp[0..2].copy_from_slice(&ENDS.local_port.to_be_bytes());
    tcp[2..4].copy_from_slice(&ENDS.remote_port.to_be_bytes());
    tcp[4..8].copy_from_slice(&segment.seq.to_be_bytes());
    tcp[8..12].copy_from_slice(&segment.ack.to_be_bytes());
    tcp[12] = ((length / 4) << 4) as u8 | worn.reserved;
    tcp[13] = segment.flags.0 | worn.bits;
    tcp[14..16].copy_from_slice(&segment.window.to_be_bytes());
    tcp[18..20].copy_from_slice(&worn.urgent.to_be_bytes());
    tcp[20..].copy_from_slice(worn.options);
    tcp.resize(length + segment.length as usize, 0x77);
    let sum = checksum::pseudo(ENDS.local, ENDS.remote, 6, tcp.len()).with(&tcp).finish();
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    [&ip::header(ENDS.local, ENDS.remote, 6, 1, tcp.len())[..], &tcp].concat()
}

fn read(packet: &[u8]) -> Result<Inbound, WireError> {
    match parse(packet, ENDS.remote, ChecksumTrust::Check)? {
        Packet::Tcp { segment, .. } => Ok(segment),
        Packet::Icmp { .. } => panic!("no ICMP"),
    }
}

/// What a session came to: what left and when, what was counted, and how it stood.
type Came = (Vec<(u64, Outbound)>, StcpCounters, String);

/// A session with a lost segment: duplicate ACKs, a repetition, a closed window and its probe, an end by a RST. What the peer
/// says from the connection on is worn like this.
fn session(worn: Worn) -> Came {
    let mut rig = Rig::closed(StcpSettings::default());
    let mut peer = ModelReceiver::<64>::new(ReceiverSetup { iss: IRS, ..ReceiverSetup::default() });
    let mut left: Vec<(u64, Outbound)> = vec![];
    let say = |rig: &mut Rig, segment: Inbound| {
        // MSS and scale of the SYN+ACK are no others.
        let worn = if segment.flags.has(TcpFlags::SYN) { None } else { Some(worn) };
        let read = worn.map(|worn| read(&packet(&segment, worn)).expect("well formed"));
        rig.give(read.unwrap_or(segment));
    };
    rig.s.open(0, ISS, true).unwrap();
    rig.submit(200_000);
    let mut lost = false;
    for _ in 0..200 {
        let out = rig.all();
        for o in &out {
            left.push((rig.t, *o));
            // The second one does not arrive, the first time.
            if o.offset == 8960 && !std::mem::replace(&mut lost, true) {
                continue;
            }
            if let Some(answer) = deliver(&rig, &mut peer, o) {
                rig.t += US;
                say(&mut rig, answer);
            }
        }
        if out.is_empty() {
            if rig.s.used() == 0 {
                break;
            }
            // A delayed ACK, or a timer.
            let due = [rig.s.deadline(), peer.deadline()].into_iter().flatten().min();
            rig.t = due.expect("something comes").max(rig.t);
            if let Some(late) = peer.tick(rig.t) {
                say(&mut rig, late);
            }
        }
    }
    assert_eq!(rig.s.used(), 0, "{worn:?}");
    // The window closes, and a probe is answered.
    let told = |rig: &Rig, una, window| Inbound { window, ..rig.ack(una, 0) };
    let shut = told(&rig, 200_000, 0);
    say(&mut rig, shut);
    rig.submit(1000);
    assert!(rig.all().is_empty());
    let (at, probe) = rig.until_sent();
    left.extend(probe.iter().map(|o| (at, *o)));
    let open = told(&rig, 200_001, 1000);
    say(&mut rig, open);
    left.extend(rig.all().iter().map(|o| (rig.t, *o)));
    let rst = Inbound { flags: TcpFlags::RST.and(TcpFlags::ACK), ..told(&rig, 200_001, 1000) };
    say(&mut rig, rst);
    left.extend(rig.all().iter().map(|o| (rig.t, *o)));
    let state = format!("{:?} {:?}", rig.s.snapshot(), rig.notices());
    (left, rig.counters(), state)
}

#[test]
fn bits_and_options_that_mean_nothing_change_nothing_of_a_session() {
    let (left, counters, state) = session(BARE);
    assert!(counters.again_fast == 1 && counters.probes == 1 && counters.resets_in == 1);
    for worn in WORN {
        let (own, counted, stood) = session(worn);
        assert!(own == left, "{worn:?}: {} segments in place of {}", own.len(), left.len());
        assert_eq!(format!("{counted:?}"), format!("{counters:?}"), "{worn:?}");
        assert_eq!(stood, state, "{worn:?}");
    }
}

/// A SYN+ACK has MSS and scale where they are right, whatever stands before and behind; what is wrong ends the walk.
#[test]
fn a_syn_ack_says_its_mss_and_scale_among_other_options() {
    // All that a Linux peer may say, and in an odd order; then rubbish before, between and behind.
    let cases: [(&'static [u8], Option<u16>, Option<u8>); 12] = [
        (&[2, 4, 35, 0, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 3, 7], Some(8960), Some(7)),
        (&[34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 3, 3, 7, 1, 2, 4, 35, 0, 0, 0], Some(8960), Some(7)),
        (&[253, 4, 0, 0, 2, 4, 35, 0], Some(8960), None),
        (&[2, 4, 35, 0, 3, 0, 7, 0], Some(8960), None),
        (&[2, 4, 35, 0, 3, 1, 7, 0], Some(8960), None),
        (&[2, 4, 35, 0, 3, 9, 7, 0], Some(8960), None),
        (&[2, 3, 35, 3, 3, 7, 0, 0], None, Some(7)),
        (&[2, 5, 35, 0, 0, 3, 3, 7], None, Some(7)),
        (&[2, 0, 35, 0, 3, 3, 7, 0], None, None),
        (&[2, 255, 35, 0, 3, 3, 7, 0], None, None),
        (&[0, 0, 0, 0, 2, 4, 35, 0], None, None),
        (&[1, 1, 1, 2], None, None),
    ];
    for (options, mss, scale) in cases {
        for bits in [0, URG, ECE, CWR, ECE | CWR] {
            let worn = Worn { bits, urgent: 3, options, ..BARE };
            let segment = read(&packet(&syn_ack(ISS, 1000, None, None), worn)).unwrap();
            assert_eq!((segment.mss, segment.scale), (mss, scale), "{options:?}");
            let mut rig = Rig::opening(StcpSettings::default());
            rig.t = 100 * US;
            rig.give(segment);
            let acks = rig.all();
            assert_eq!((acks.len(), acks[0].flags), (1, TcpFlags::ACK), "{options:?} {bits}");
            assert_eq!(rig.s.snapshot().mss, mss.unwrap_or(536), "{options:?} {bits}");
        }
    }
}

/// A header that ends before its options do, or begins behind the segment: dropped and counted, and nothing is any different.
#[test]
fn a_header_that_cannot_be_is_dropped_and_counted() {
    let mut rig = Rig::connected(StcpSettings::default(), 60_000);
    rig.submit(200_000);
    rig.all();
    let before = (format!("{:?}", rig.s.snapshot()), rig.s.deadline());
    let ack = rig.ack(8960, 60_000);
    let whole = packet(&ack, Worn { options: TIMESTAMPS, ..BARE });
    let mut dropped = 0;
    for offset in 0..16u8 {
        let mut odd = whole.clone();
        odd[20 + 12] = offset << 4;
        // The checksum is right: it is the offset that is wrong.
        odd[36..38].fill(0);
        let sum = checksum::pseudo(ENDS.local, ENDS.remote, 6, odd.len() - 20).with(&odd[20..]);
        odd[36..38].copy_from_slice(&sum.finish().to_be_bytes());
        match read(&odd) {
            // A header of 20 to 32 bytes: the rest of the options is payload then.
            Ok(segment) => {
                assert!((5..=8).contains(&offset), "{offset}");
                assert_eq!(segment.length, 4 * (8 - u32::from(offset)));
            }
            Err(why) => {
                assert_eq!(why, WireError::DataOffset, "{offset}");
                rig.s.refused(why);
                dropped += 1;
            }
        }
    }
    assert_eq!(rig.counters().refused[WireError::DataOffset as usize], dropped);
    assert_eq!(dropped, 12);
    assert!(rig.all().is_empty());
    assert_eq!((format!("{:?}", rig.s.snapshot()), rig.s.deadline()), before);
}

/// Every kind with every length at every place of a header, in a SYN and outside one: the reader comes back, and says the same of all else.
#[test]
fn no_option_makes_the_reader_fail() {
    let mut options = [1; 40];
    for (flags, at) in [TcpFlags::ACK, TcpFlags::SYN.and(TcpFlags::ACK)]
        .into_iter()
        .flat_map(|flags| [0, 1, 19, 36, 37, 38, 39].map(|at| (flags, at)))
    {
        for kind in 0..=255 {
            for length in 0..=255 {
                options.fill(1);
                options[at] = kind;
                if let Some(place) = options.get_mut(at + 1) {
                    *place = length;
                }
                let mut header = [0; 60];
                header[4..8].copy_from_slice(&7u32.to_be_bytes());
                header[12] = 15 << 4;
                header[13] = flags.0;
                header[20..].copy_from_slice(&options);
                let (_, segment) = fullcount_stcp::wire::tcp::read(&header).expect("well formed");
                assert_eq!((segment.seq, segment.flags, segment.length), (7, flags, 0));
                let known = segment.mss.is_some() || segment.scale.is_some();
                assert!(!known || flags.has(TcpFlags::SYN) && (kind == 2 || kind == 3));
            }
        }
    }
}
