//! Captures of heaps by either form of their URL: `pcap:FILE`, as `send` and `receive` take it, and `spead+pcap:FILE`.
//!
//! Source: `docs/spead.md`, "Captures: `pcap:` or `spead+pcap:`".

use crate::service::{capture, say, vector};

#[test]
fn send_and_receive_take_both_forms_of_a_capture() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let heaps = ["--source", "heaps", "--heaps", "3", "--heap-size", "100kB", "--verify", "--json"];
    let mut bytes = vec![];
    for (scheme, name) in [("pcap", "a.pcapng"), ("spead+pcap", "b.pcapng")] {
        let to = format!("{scheme}:{}", file(name));
        let sent = say(&[&["send", "--to", &to][..], &heaps].concat());
        assert_eq!(sent.code, 0, "{to}: {}", sent.err);
        bytes.push(sent.summary()["bytes"]["spead"].clone());
        for scheme in ["pcap", "spead+pcap"] {
            let from = format!("{scheme}:{}?flat-out&max_heaps=8", file(name));
            let said = say(&["receive", &from, "--verify", "--json"]);
            assert_eq!(said.code, 0, "{from}: {}", said.err);
            let s = said.summary();
            let heaps = &s["heaps"];
            assert_eq!((&heaps["received"], &heaps["wrong"]), (&3.into(), &0.into()), "{from}");
            assert_eq!(s["bytes"]["spead"], bytes[0], "{from}");
            assert_eq!(said.err.contains("it is read as spead+pcap:"), scheme == "pcap");
        }
    }
    assert_eq!(bytes[0], bytes[1]);
}

#[test]
fn a_capture_of_numbered_packets_is_none_of_heaps_and_the_first_packet_decides() {
    let folder = tempfile::tempdir().unwrap();
    let numbered = |n: u8| [b"FCSQ".as_slice(), &[1, 0, 0, 0, n], &[0; 15]].concat();
    let spead = std::fs::read(vector("spead/one_item_small.bin")).unwrap();
    // Other traffic comes first.
    let other = b"neither of the two".to_vec();
    for (name, packets, heaps) in [
        ("numbers", vec![other.clone(), numbered(0), spead.clone(), numbered(1)], false),
        ("heaps", vec![other.clone(), spead, numbered(0)], true),
        ("others", vec![other], false),
    ] {
        let path = capture(folder.path(), name, &packets);
        let said = say(&["receive", &format!("pcap:{path}?flat-out"), "--json"]);
        assert_eq!(said.err.contains("holds SPEAD packets"), heaps, "{name}: {}", said.err);
        assert_eq!(said.summary()["heaps"].is_object(), heaps, "{name}: {}", said.out);
    }
    let missing = folder.path().join("missing.pcap").display().to_string();
    let said = say(&["receive", &format!("pcap:{missing}")]);
    assert!(said.code == 2 && said.err.contains("missing.pcap"), "{}: {}", said.code, said.err);
}
