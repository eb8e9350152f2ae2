//! Written files are read back; the first bytes are those of the drafts.

use super::*;
use crate::pcap::datagrams::Datagrams;
use crate::pcap::read::Tail;
use fullcount_core::batch::Origin;
use proptest::prelude::*;
use std::net::SocketAddr;

fn route() -> Route {
    Route {
        source: "10.0.0.1:50011".parse().unwrap(),
        destination: "10.0.0.2:9000".parse().unwrap(),
        vlan: None,
    }
}

#[test]
fn records_are_laid_out_as_in_the_drafts() {
    let mut w = Writer::new(Vec::new(), CaptureFormat::Pcap, None).unwrap();
    w.frame(3_000_000_007, b"abcde").unwrap();
    let file = w.finish().unwrap();
    let expected: [u8; 45] = [
        0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0, //
        3, 0, 0, 0, 7, 0, 0, 0, 5, 0, 0, 0, 5, 0, 0, 0, b'a', b'b', b'c', b'd', b'e',
    ];
    assert_eq!(file, expected);
    let mut w = Writer::new(Vec::new(), CaptureFormat::PcapNg, None).unwrap();
    w.frame(0x1_0000_0002, b"abcde").unwrap();
    let file = w.finish().unwrap();
    let epb: [u8; 40] = [
        6, 0, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 5, 0, 0,
        0, //
        b'a', b'b', b'c', b'd', b'e', 0, 0, 0, 40, 0, 0, 0,
    ];
    assert_eq!(&file[60..], &epb);
    assert_eq!(file.len() % 4, 0);
}

#[test]
fn what_the_format_cannot_say_is_refused() {
    let mut w = Writer::new(Vec::new(), CaptureFormat::Pcap, None).unwrap();
    assert!(matches!(w.frame(-1, b""), Err(CaptureWriteError::Time { .. })));
    assert!(matches!(w.frame(i64::MAX, b""), Err(CaptureWriteError::Time { .. })));
    assert!(matches!(
        w.frame(0, &vec![0; LONGEST_FRAME + 1]),
        Err(CaptureWriteError::TooLong { .. })
    ));
    assert!(matches!(w.udp(0, &route(), &vec![0; 65_508]), Err(CaptureWriteError::Emit(_))));
    assert_eq!(w.frames(), 0);
    let mut w = Writer::new(Vec::new(), CaptureFormat::PcapNg, None).unwrap();
    w.frame(i64::MAX, b"").unwrap();
    w.frame(0, &vec![0; LONGEST_FRAME]).unwrap();
    let file = w.finish().unwrap();
    let mut r = crate::pcap::CaptureReader::new(&file[..]).unwrap();
    assert_eq!(r.next().unwrap().unwrap().time_ns, Some(i64::MAX));
    assert_eq!(r.next().unwrap().unwrap().frame.len(), LONGEST_FRAME);
}

#[test]
fn the_name_chooses_the_format() {
    let f = |p: &str| CaptureFormat::from_path(std::path::Path::new(p));
    assert_eq!((f("a.pcapng"), f("a.PcapNG")), (CaptureFormat::PcapNg, CaptureFormat::PcapNg));
    assert_eq!((f("a.pcap"), f("a")), (CaptureFormat::Pcap, CaptureFormat::Pcap));
}

fn address(six: bool) -> impl Strategy<Value = SocketAddr> {
    (any::<[u8; 4]>(), any::<[u8; 16]>(), any::<u16>()).prop_map(move |(v4, v6, port)| {
        if six { SocketAddr::from((v6, port)) } else { SocketAddr::from((v4, port)) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read_back(
        ng: bool,
        mtu in proptest::option::of(1280usize..3_000),
        packets in proptest::collection::vec(
            (any::<bool>().prop_flat_map(|six| (address(six), address(six))),
             proptest::option::of(0u16..4096),
             0i64..4_000_000_000_000_000_000,
             proptest::collection::vec(any::<u8>(), 0..4_000)),
            0..12,
        ),
    ) {
        let format = if ng { CaptureFormat::PcapNg } else { CaptureFormat::Pcap };
        let mut w = Writer::new(Vec::new(), format, mtu).unwrap();
        for ((source, destination), vlan, time, data) in &packets {
            let route = Route { source: *source, destination: *destination, vlan: *vlan };
            w.udp(*time, &route, data).unwrap();
        }
        let frames = w.frames();
        let file = w.finish().unwrap();
        let mut r = Datagrams::open(&file[..], None).unwrap();
        for ((source, destination), _, time, data) in &packets {
            let d = r.next().unwrap().unwrap();
            prop_assert_eq!(d.origin, Origin::from(*source));
            prop_assert_eq!(d.destination, *destination);
            prop_assert_eq!(d.time_ns, Some(*time));
            prop_assert_eq!(d.payload, &data[..]);
        }
        prop_assert!(r.next().unwrap().is_none());
        let t = r.tally();
        prop_assert_eq!((t.frames, t.skipped(), t.balance()), (frames, 0, 0));
        prop_assert_eq!((t.truncated, t.damaged, t.fragments - t.fragments_used), (0, 0, 0));
        prop_assert_eq!(crate::pcap::CaptureReader::new(&file[..]).unwrap().tail(), Tail::Complete);
    }
}
