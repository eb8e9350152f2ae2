//! A readout that is carried in SPEAD heaps: every packet accounted for, and the bytes that its sender says. Source: `docs/spead.md`.

use fullcount_testing::veth::{NAME, RECEIVER, Veth};
use serde_json::Value;

use crate::service::{Service, fullcount, say};
use crate::spead::Tap;

#[test]
fn a_readout_is_carried_and_every_packet_accounted_for() {
    for (scheme, keys) in [("spead+udp", ""), ("spead+tcp", ""), ("spead+tcp", "?framing=heap")] {
        let from = format!("{scheme}://127.0.0.1:0{keys}");
        let mut run = Service::start(&[
            "run",
            "--source",
            &from,
            "--detector",
            "sequence",
            "--sink",
            "null",
            "--web",
            "off",
            "--json",
        ]);
        let port = run.wait_for("the port", |line| {
            let rest = line.split_once("listening on ")?.1;
            rest.rsplit(':').next()?.parse::<u16>().ok()
        });
        let to = format!("{scheme}://127.0.0.1:{port}{keys}");
        let sent = say(&[
            "send", "--to", &to, "--count", "2000", "--size", "900", "--rate", "5kpps", "--json",
        ]);
        assert_eq!(sent.code, 0, "{}", sent.err);
        let ran = run.end();
        let s = ran.summary();
        assert_eq!((ran.code, &s["balance"]), (0, &0.into()), "{from}: {}", ran.out);
        assert_eq!(s["packets"]["accepted"], 2000, "{s}");
        assert_eq!(s["counters"]["carrier.no_item"], 0);
        let bytes = carried_bytes(&sent.summary());
        assert_eq!(bytes.payload, bytes.packets * 900, "{}", sent.out);
        // The receiver ends with the first end marks: what follows is sent and not read.
        assert!(s["counters"]["spead.packet_bytes"].as_u64() <= Some(bytes.spead), "{from}: {s}");
        if scheme == "spead+tcp" {
            assert_eq!(bytes.segments, bytes.spead, "the kernel counts the same");
        }
    }
}

/// What a sender of carried packets says that it sent.
struct CarriedBytes {
    /// Those that say the end included.
    packets: u64,
    payload: u64,
    spead: u64,
    /// Without what was sent again.
    segments: u64,
}

fn carried_bytes(sent: &Value) -> CarriedBytes {
    let counters = &sent["destinations"][0]["counters"];
    let of = |name: &str| counters[name].as_u64().unwrap_or(0);
    CarriedBytes {
        packets: of("carry.heaps"),
        payload: of("carry.payload_bytes"),
        spead: of("carry.spead_bytes"),
        segments: of("carry.segment_bytes") - of("carry.segment_bytes_again"),
    }
}

#[test]
fn bytes_of_a_carried_readout_are_those_of_the_frames_on_the_link() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    let cut = veth.sending(|| fullcount_io::sys::set_feature(NAME, "tx-udp-segmentation", false));
    cut.unwrap();
    for (scheme, keys) in [("spead+udp", ""), ("spead+tcp", ""), ("spead+tcp", "?framing=heap")] {
        let at = format!("{scheme}://{RECEIVER}:0{keys}");
        let mut receiver = veth.receiving(|| Service::start(&["receive", &at, "--json"]));
        let port = receiver.udp_port();
        let tap = Tap::begin(&veth, port);
        let to = format!("{scheme}://{RECEIVER}:{port}{keys}");
        let words = ["--count", "1000", "--size", "900", "--rate", "5kpps", "--json"];
        let all = [&["send", "--to", &to][..], &words].concat();
        let sent = veth.sending(|| fullcount(&all).output()).unwrap();
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
        let received = receiver.end();
        assert_eq!(received.code, 0, "{}", received.err);
        let seen = tap.end();
        let bytes = carried_bytes(&serde_json::from_slice(&sent.stdout).unwrap());
        assert_eq!(bytes.payload, bytes.packets * 900, "{to}");
        if scheme == "spead+udp" {
            assert_eq!((bytes.spead, bytes.segments), (seen.payload, 0), "{to}");
        } else {
            assert_eq!((bytes.spead, bytes.segments), (seen.payload, seen.payload), "{to}");
        }
    }
}
