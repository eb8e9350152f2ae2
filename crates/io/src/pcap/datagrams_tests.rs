//! Recorded captures give their payloads; every other frame is counted.

use super::*;
use proptest::prelude::*;
use std::fs;
use std::path::PathBuf;

fn vector(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors").join(name);
    fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

type All = (Vec<(String, u16, Option<i64>, Vec<u8>)>, CaptureTally);

fn all(file: &[u8], port: Option<u16>) -> All {
    let mut r = Datagrams::open(file, port).unwrap();
    let mut got = Vec::new();
    while let Some(d) = r.next().unwrap() {
        got.push((d.origin.to_string(), d.destination.port(), d.time_ns, d.payload.to_vec()));
    }
    assert_eq!(r.tally().balance(), 0, "{:?}", r.tally());
    (got, r.tally())
}

fn payloads(file: &[u8], port: Option<u16>) -> Vec<Vec<u8>> {
    all(file, port).0.into_iter().map(|d| d.3).collect()
}

/// Order of `vectors/sonde/expected.json`.
const SONDE: [&str; 21] = [
    "err_short_header",
    "err_version_1",
    "err_d5_header_only",
    "err_length_field",
    "err_type_df",
    "d6_0_events",
    "d6_1_event",
    "d6_3_events",
    "d5_1_sample",
    "err_d4_truncated",
    "d4_1_event_1_sample",
    "d4_3_events_1_sample",
    "d5_capture_all_channels_64_samples",
    "syn_d6_all_64_pixels",
    "syn_d6_channels_above_15",
    "syn_d6_255_entries",
    "syn_d5_subheader_cut",
    "syn_d5_80_samples",
    "syn_d4_bad_asic_and_channel",
    "syn_d4_no_events",
    "syn_d4_no_events_padded",
];

#[test]
fn the_sonde_capture_holds_the_sonde_payloads() {
    let (got, tally) = all(&vector("sonde/sonde.pcap"), None);
    assert_eq!(got.len(), SONDE.len());
    for (k, (d, name)) in got.iter().zip(SONDE).enumerate() {
        assert_eq!((d.0.as_str(), d.1), ("10.0.0.1:50011", 9000));
        assert_eq!(d.2.unwrap() - got[0].2.unwrap(), k as i64 * 1_000_000, "1 ms apart");
        assert_eq!(d.3, vector(&format!("sonde/{name}.bin")), "{name}");
    }
    let bytes = got.iter().map(|d| d.3.len() as u64).sum();
    assert_eq!(tally, CaptureTally { frames: 21, datagrams: 21, bytes, ..CaptureTally::default() });
}

#[test]
fn cooked_pcapng_and_merged_captures_hold_the_same_bytes() {
    let live = payloads(&vector("pcap/udp_capture.pcap"), None);
    assert_eq!(live.len(), 14);
    assert_eq!(payloads(&vector("pcap/pcap_sll.pcap"), None), live);
    assert_eq!(payloads(&vector("pcap/pcap_ng.pcapng"), None), live);
    let merged = payloads(&vector("pcap/pcap_merged.pcap"), None);
    assert_eq!(merged, [live[..4].concat(), live[4..].concat()], "offload is delivered as it is");
}

#[test]
fn a_port_is_picked_and_the_rest_counted() {
    let live = payloads(&vector("pcap/udp_capture.pcap"), None);
    let (got, tally) = all(&vector("pcap/pcap_filter.pcap"), Some(7149));
    assert!(got.iter().map(|d| &d.3).eq(live.iter()));
    assert_eq!((tally.frames, tally.datagrams, tally.other_port), (28, 14, 14));
    assert_eq!(payloads(&vector("pcap/pcap_filter.pcap"), None).len(), 28);
}

#[test]
fn odd_frames_are_decoded_or_counted_by_reason() {
    let live = payloads(&vector("pcap/udp_capture.pcap"), None);
    let (got, tally) = all(&vector("pcap/pcap_odd_frames.pcap"), None);
    let first = &live[0];
    // VLAN and IPv6 hold the first packet; then one from two fragments; TCP and the truncated frame are skipped;
    // padding is ignored.
    assert_eq!([&got[0].3, &got[1].3, &got[3].3], [first; 3]);
    assert!(got[1].0.starts_with('['), "IPv6");
    assert!(got[4..].iter().map(|d| &d.3).eq(live[1..].iter()));
    let expected = CaptureTally {
        frames: 20,
        datagrams: 17,
        bytes: tally.bytes,
        not_udp: 1,
        snapped: 1,
        fragments: 2,
        fragments_used: 2,
        reassembled: 1,
        ..CaptureTally::default()
    };
    assert_eq!(tally, expected);
}

#[test]
fn where_only_whole_ipv4_counts_the_rest_is_counted() {
    let file = vector("pcap/pcap_odd_frames.pcap");
    let (any, _) = all(&file, None);
    let mut r = Datagrams::open(&file[..], None).unwrap().only(Ip::WholeV4);
    let mut got = Vec::new();
    while let Some(d) = r.next().unwrap() {
        got.push(d.payload.to_vec());
    }
    // Neither the second, over IPv6, nor the third, in two fragments.
    let wanted = any.iter().enumerate().filter(|(at, _)| ![1, 2].contains(at));
    assert!(got.iter().eq(wanted.map(|(_, d)| &d.3)));
    let tally = r.tally();
    assert_eq!((tally.datagrams, tally.other_ip, tally.balance()), (15, 1, 0));
    assert_eq!((tally.fragments, tally.fragments_refused, tally.reassembled), (2, 2, 0));
}

#[test]
fn where_only_plain_ipv4_counts_tags_are_left_out_and_other_links_refused() {
    let file = vector("pcap/pcap_odd_frames.pcap");
    let payloads = |ip: Ip, file: &[u8]| {
        let mut r = Datagrams::open(file, None).unwrap().only(ip);
        let mut got = Vec::new();
        while let Some(d) = r.next().unwrap() {
            got.push(d.payload.to_vec());
        }
        (got, r.tally())
    };
    let ((whole, of_whole), (plain, of_plain)) =
        (payloads(Ip::WholeV4, &file), payloads(Ip::PlainV4, &file));
    assert!(whole.ends_with(&plain), "the first has a tag");
    assert_eq!((plain.len() + 1, of_plain.other_ip), (whole.len(), of_whole.other_ip + 1));
    assert_eq!((of_plain.balance(), of_whole.link_type, of_plain.link_type), (0, 0, 0));
    // The same frames said to be of raw IP and of Linux cooked v2.
    for link in [101u16, 276] {
        let mut other = file.clone();
        other[20..22].copy_from_slice(&link.to_le_bytes());
        let e = Datagrams::open(&other[..], None).unwrap().only(Ip::PlainV4).next().unwrap_err();
        assert!(e.to_string().starts_with(&format!("frames of link type {link};")), "{e}");
    }
}

#[test]
fn a_truncated_capture_gives_what_is_whole_and_says_so() {
    let file = vector("sonde/sonde.pcap");
    let whole = payloads(&file, None);
    let (got, tally) = all(&file[..file.len() - 1], None);
    assert!(got.iter().map(|d| &d.3).eq(whole[..20].iter()));
    assert_eq!((tally.frames, tally.truncated, tally.damaged), (20, 1, 0));
}

#[test]
fn an_unknown_link_type_and_missing_fragments_are_counted() {
    let mut file = vector("sonde/sonde.pcap");
    file[20] = 105;
    assert_eq!(all(&file, None).1.link_type, 21);
    let odd = vector("pcap/pcap_odd_frames.pcap");
    // The records up to the first fragment: VLAN, IPv6, fragment 1.
    let mut r = CaptureReader::new(&odd[..]).unwrap();
    let end: usize =
        24 + (0..3).map(|_| 16 + r.next().unwrap().unwrap().frame.len()).sum::<usize>();
    let (got, tally) = all(&odd[..end], None);
    assert_eq!((got.len(), tally.fragments, tally.fragments_used), (2, 1, 0));
    assert_eq!((tally.reassembly_incomplete, tally.truncated), (1, 0));
}

#[test]
fn the_sum_of_two_passes_is_twice_one() {
    let one = all(&vector("pcap/pcap_odd_frames.pcap"), None).1;
    let mut two = one;
    two.add(&one);
    assert_eq!((two.frames, two.datagrams, two.snapped, two.reassembled), (40, 34, 2, 2));
    assert_eq!((two.balance(), two.bytes), (0, 2 * one.bytes));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn damaged_captures_are_accounted_for(
        which in 0usize..4, damage in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..8),
    ) {
        let names =
            ["pcap/pcap_odd_frames.pcap", "pcap/pcap_sll.pcap", "pcap/pcap_ng.pcapng", "sonde/sonde.pcap"];
        let mut file = vector(names[which]);
        for (at, to) in damage {
            let at = 24 + at % (file.len() - 24);
            file[at] = to;
        }
        if let Ok(mut r) = Datagrams::open(&file[..], None) {
            let mut n = 0;
            while let Some(d) = r.next().unwrap() {
                prop_assert!(d.payload.len() <= file.len());
                n += 1;
            }
            let t = r.tally();
            prop_assert_eq!((t.balance(), t.datagrams), (0, n));
        }
    }
}
