//! A run that refuses most of its packets: exit code 3, red on the page, and the matching detector is named.

use std::net::UdpSocket;

use crate::service::{Service, capture, get, say, seen_by_a_browser, vector};
use serde_json::Value;

/// A Multi-Grid container with one event of one word, written by hand.
fn multigrid() -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0x58, 0, 4, 0, 7, 0, 0, 0xbb];
    packet.extend([1, 2, 3, 4, 0x21, 0x43, 0x65, 0x87, 0, 0, 1, 0xee]);
    packet
}

const COMMON: [&str; 5] = ["--sink", "null", "--web", "off", "--json"];

#[test]
fn packets_of_another_detector_end_with_3_and_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let grid = capture(folder.path(), "grid", &vec![multigrid(); 40]);
    let sonde = vector("sonde/sonde.pcap");
    for (file, detector, fits, title) in [
        (&grid, "sonde", "multigrid", "Multi-Grid"),
        (&grid, "gdgem", "multigrid", "Multi-Grid"),
        (&grid, "sequence", "multigrid", "Multi-Grid"),
        (&sonde, "multigrid", "sonde", "SoNDe"),
        (&sonde, "multiblade", "sonde", "SoNDe"),
    ] {
        let source = format!("pcap:{file}?flat-out");
        let said =
            say(&[&["run", "--source", &source, "--detector", detector][..], &COMMON].concat());
        assert_eq!(said.code, 3, "{detector}: {}", said.err);
        let s = said.summary();
        assert_eq!(s["refused"]["looks_like"], fits, "{detector}: {s}");
        assert_eq!(s["refused"]["limit_percent"], 50.0);
        assert_eq!(s["refused"]["packets"], s["packets"]["received"]);
        let words = format!("these look like {title} packets: --detector {fits}");
        assert!(said.err.contains(&words), "{detector}: {}", said.err);
        assert_eq!(s["balance"], 0);
    }
}

#[test]
fn the_limit_is_a_key_and_receive_only_counts() {
    let folder = tempfile::tempdir().unwrap();
    // Two of three packets are foreign: 66.7 %.
    let numbered = [&b"FCSQ\x01\0\0\0"[..], &[0; 16]].concat();
    let packets = [multigrid(), b"what is this?".to_vec(), numbered];
    let source = format!("pcap:{}?flat-out", capture(folder.path(), "mixed", &packets));
    let run = ["run", "--source", &source, "--detector", "sequence"];
    for (limit, code) in [("66%", 3), ("66.7 %", 0), ("100%", 0), ("0%", 3)] {
        let set = format!("engine.max_refused={limit}");
        let said = say(&[&run[..], &COMMON, &["--set", &set]].concat());
        assert_eq!(said.code, code, "{limit}: {}", said.err);
        assert_eq!(said.summary().get("refused").is_some(), code == 3, "{limit}");
    }
    for wrong in ["50", "101%", "-1%", "NaN%", "half"] {
        let set = format!("engine.max_refused={wrong}");
        let said = say(&[&run[..], &COMMON, &["--set", &set]].concat());
        assert_eq!(said.code, 2, "{wrong}: {}", said.err);
        assert!(said.err.contains("engine.max_refused") && said.err.contains("0% to 100%"));
    }
    let said = say(&["receive", &source, "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.summary().get("refused"), None);
}

#[test]
fn a_wrong_port_is_red_while_it_lasts_and_shows_what_came() {
    let run = ["run", "--source", "udp://127.0.0.1:0", "--detector", "sonde"];
    let more = ["--sink", "null", "--web", "127.0.0.1:0", "--json"];
    let mut run = Service::start(&[&run[..], &more].concat());
    let (page, port) = (run.page(), run.udp_port());
    let gauge = |page: &str| {
        let text = get(page, "/metrics");
        let line = text.lines().find(|l| l.starts_with("fullcount_mostly_refused "));
        line.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    assert_eq!(gauge(&page), "fullcount_mostly_refused 0");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..20 {
        socket.send_to(b"\x12\x34\x81\x80\0\x01 a name", ("127.0.0.1", port)).unwrap();
    }
    run.wait_for("the word about it", |l| l.contains("no detector of this version").then_some(()));
    assert_eq!(gauge(&page), "fullcount_mostly_refused 1");
    let state: Value = serde_json::from_str(&get(&page, "/api/state")).unwrap();
    let word = state["mostly_refused"].as_str().unwrap_or_else(|| panic!("{state}"));
    let from = format!("the last of them from {}", socket.local_addr().unwrap());
    for words in ["20 of 20 packets (100.0 %)", "13 bytes", "begins with 12 34 81 80", &from] {
        assert!(word.contains(words), "{words}: {word}");
    }
    if let Some(shown) = seen_by_a_browser(&page) {
        let badge = shown.split("id=\"state\"").nth(1).unwrap_or_else(|| panic!("{shown}"));
        let badge = badge.split("</span>").next().unwrap();
        assert!(badge.contains("pill bad") && badge.contains("Packets refused"), "{badge}");
        assert!(shown.contains("20 of 20 packets (100.0 %) were refused"), "{shown}");
    }
    run.interrupt();
    let said = run.end();
    assert_eq!(said.code, 3, "{}", said.err);
    assert_eq!(said.summary()["refused"]["looks_like"], Value::Null);
}
