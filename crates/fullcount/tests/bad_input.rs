//! Bad input gets a clear message or moves one counter, and nothing else is lost.

use crate::service::{Service, say, vector};
use std::net::UdpSocket;

#[test]
fn wrong_options_exit_2_with_the_key_and_what_is_allowed() {
    for (arguments, words) in [
        (
            &["run", "--source", "carrier-pigeon://x"][..],
            &["source.url", "carrier-pigeon", "udp"][..],
        ),
        (&["run", "--source", "stcp://b:9092"], &["stcp", "not yet"]),
        (&["run", "--source", "udp://127.0.0.1"], &["source.url", "udp://"]),
        (&["run", "--detector", "bubble-chamber"], &["detector.kind", "bubble-chamber", "sonde"]),
        (&["run", "--detector", "plugin:x.so"], &["plugin:x.so", "not supported"]),
        (&["run", "--threads", "3"], &["engine.threads", "3", "1"]),
        (&["run", "--probes", "1ms"], &["engine.probes", "1ms", "100ms", "off"]),
        (&["lab", "bench", "probes", "--readings", "0"], &["readings", "0", "1000000"]),
        (&["run", "--receive-buffer", "lots"], &["source.receive_buffer", "lots", "64KiB"]),
        (&["receive", "udp://127.0.0.1:0", "--engine", "dpdk"], &["source.engine", "gro or uring"]),
        (&["send", "--to", "udp://127.0.0.1:9?engine=uring"], &["engine=uring", "engine=gro"]),
        (&["run", "--pulse", "grid(0Hz)"], &["time.pulse", "grid(0Hz)", "14Hz"]),
        (&["run", "--web", "here"], &["web.listen", "here", "127.0.0.1:8080"]),
        (&["run", "--geometry", "no-such-file.toml"], &["detector.geometry", "no-such-file.toml"]),
        (&["run", "--core", "4096"], &["source.core", "4096"]),
        (&["run", "--sink", "null", "--nexus", "x.nxs"], &["output.sink", "null"]),
        (&["run", "no-such.toml"], &["no-such.toml"]),
        (&["run", "--detector", "sequence", "--nexus", "x.nxs"], &["output.nexus", "no pixels"]),
        (
            &["send", "--to", "udp://127.0.0.1:9", "--source", "sequence", "--rate", "fast"],
            &["fast"],
        ),
        (&["send", "--to", "udp://127.0.0.1:9", "--source", "sequence", "--rate", "0"], &["rate"]),
        (
            &["send", "--to", "udp://127.0.0.1:9", "--source", "sequence", "--size", "5"],
            &["size", "24"],
        ),
        (&["send", "--to", "udp://127.0.0.1:9", "--source", "banana"], &["banana", "sequence"]),
        (
            &["send", "--to", "udp://127.0.0.1:9", "--source", "sequence", "--fault", "eat=1"],
            &["eat"],
        ),
        (
            &[
                "send",
                "--to",
                "udp://127.0.0.1:9",
                "--source",
                "pcap:x.pcap",
                "--detector",
                "sonde",
            ],
            &["detector = sonde", "&shift"],
        ),
        (
            &["send", "--to", "udp://127.0.0.1:9", "--source", "pcap:x?shift", "--detector", "egg"],
            &["detector.kind", "egg", "sequence"],
        ),
        (&["receive", "udp://127.0.0.1:0", "--key", "port"], &["key", "port", "origin"]),
        (
            &["send", "--to", "udp://127.0.0.1:9", "--rate", "1M"],
            &["unit is missing", "1Mbps", "1Mpps", "1Mev/s"],
        ),
        (&["send", "--to", "udp://127.0.0.1:9", "--rate", "max"], &["without --rate", "flat out"]),
        (&["demo", "--rate", "20M", "--no-file"], &["20Mev/s"]),
        (&["advise", "--rate", "10G"], &["10Gbps", "10Gpps"]),
        (&["lab", "link", "--speed", "10G"], &["speed", "10Gbps"]),
        (&["lab", "udp", "--rate", "5G"], &["rate", "5Gbps"]),
        (&["lab", "link-emulator", "--make", "--rate", "1G"], &["rate", "1Gbps"]),
        (&["run", "--source", "127.0.0.1:9000"], &["is udp://127.0.0.1:9000 meant?"]),
        (&["run", "--overwrite"], &["overwrite alone names no file", "--nexus FILE"]),
        (&["run", "--rotate-size", "1GiB"], &["rotate_size alone", "--capture FILE"]),
        (&["run", "--threads", "4"], &["engine.threads", "4", "--workers", "--build-threads"]),
        (&["demo", "--rate", "1000ev/s"], &["--rate", "give at least --rate"]),
        (
            &["send", "--to", "udp://127.0.0.1:9", "--source", "sonde", "--entries", "256"],
            &["--entries: 256", "1 to 255"],
        ),
    ] {
        let said = say(arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.err);
        for word in words {
            assert!(said.err.contains(word), "{arguments:?} must say {word}: {}", said.err);
        }
    }
}

#[test]
fn advice_names_only_flags_that_the_verb_has() {
    let said = say(&["demo", "--rate", "1000ev/s", "--no-file"]);
    assert_eq!(said.code, 2);
    assert!(!said.err.contains("entries") && !said.err.contains("readouts per"), "{}", said.err);
    // The rate that it names is one that it takes: the next complaint is about the page.
    let named = said.err.split("--rate ").last().unwrap().trim();
    let said = say(&["demo", "--rate", named, "--no-file", "--web", "here"]);
    assert!(said.err.contains("web.listen"), "{named}: {}", said.err);
}

#[test]
fn the_catalogue_as_json_says_what_it_is() {
    let said = say(&["catalogue", "--json"]);
    let object = said.summary();
    assert_eq!(object["schema"], "fullcount/catalogue/1");
    assert_eq!(object["verb"], "catalogue");
    let counters = object["counters"].as_array().expect("a list");
    for name in ["receive.wire_bytes", "fault.dropped", "packets.lost"] {
        assert!(counters.iter().any(|c| c["name"] == name), "{name}");
    }
}

#[test]
fn what_cannot_be_opened_exits_1_and_names_it() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let url = format!("udp://{}", taken.local_addr().unwrap());
    let said = say(&["run", "--source", &url, "--web", "off", "--sink", "null"]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains(&url) && said.err.to_lowercase().contains("in use"), "{}", said.err);

    let page = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = page.local_addr().unwrap().to_string();
    let said = say(&["run", "--source", "udp://127.0.0.1:0", "--web", &address, "--sink", "null"]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains(&address) && said.err.contains("in use"), "{}", said.err);
}

#[test]
fn a_truncated_capture_delivers_what_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read(vector("sonde/sonde.pcap")).unwrap();
    let path = dir.path().join("cut.pcap");
    std::fs::write(&path, &whole[..whole.len() - 7]).unwrap();
    let source = format!("pcap:{}?flat-out", path.display());
    let said = say(&["run", "--source", &source, "--sink", "null", "--web", "off", "--json"]);
    assert_eq!(said.summary()["packets"]["received"], 20, "{}", said.err);
    assert_eq!(said.counter("pcap.truncated"), 1);
    assert_eq!(said.summary()["balance"], 0);
}

#[test]
fn odd_and_random_datagrams_are_counted_and_the_good_ones_survive() {
    let arguments =
        ["run", "--source", "udp://127.0.0.1:0", "--sink", "null", "--web", "off", "--json"];
    let mut run = Service::start(&arguments);
    let to = ("127.0.0.1", run.udp_port());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let good = std::fs::read(vector("sonde/d6_3_events.bin")).unwrap();
    let mut sent = 0u64;
    let mut send = |bytes: &[u8]| {
        socket.send_to(bytes, to).unwrap();
        sent += 1;
    };
    send(&[]);
    send(&vec![0xff; 65_507]);
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    // 20,000 here, 10 million in `cargo xtask prove datagrams`.
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> = (0..random() % 300).map(|_| random() as u8).collect();
        if random() % 2 == 0 && bytes.len() > 10 {
            // Half of them look like packets as far as the length field.
            bytes[0] = (random() % 32) as u8;
            bytes[1] = [0xd4, 0xd5, 0xd6][(random() % 3) as usize];
            let length = (bytes.len() - 10) as u16;
            bytes[8..10].copy_from_slice(&length.to_be_bytes());
        }
        send(&bytes);
    }
    for _ in 0..3 {
        send(&good);
    }
    // A loopback socket keeps what it accepted: the drain at the end reads it all.
    run.interrupt();
    let said = run.end();
    let s = said.summary();
    assert_eq!(s["packets"]["received"], sent, "{}", said.err);
    assert_eq!(s["balance"], 0);
    let rejected: u64 =
        s["packets"]["rejected"].as_object().unwrap().values().flat_map(|v| v.as_u64()).sum();
    assert_eq!(s["packets"]["accepted"].as_u64().unwrap() + rejected, sent);
    assert!(s["events"].as_u64().unwrap() >= 9, "three good packets of three events");
}

#[test]
fn a_missing_input_file_exits_2_whatever_the_verb() {
    let udp = "udp://127.0.0.1:9";
    let pcap = "pcap:no-such-file";
    let quiet = ["--web", "off", "--sink", "null"];
    for arguments in [
        &[&["run", "--source", pcap][..], &quiet].concat()[..],
        &["run", "no-such-file"],
        &[&["run", "--geometry", "no-such-file"][..], &quiet].concat(),
        &[
            &["run", "--detector", "gdgem", "--set", "detector.calibration=no-such-file"][..],
            &quiet,
        ]
        .concat(),
        &["receive", pcap],
        &["inspect", pcap],
        &["inspect", pcap, "--geometry", "no-such-file"],
        &["send", "--to", udp, "--source", pcap],
        &[
            "send",
            "--to",
            "kafka://localhost/x",
            "--source",
            "run",
            "--file",
            "f",
            "--structure",
            "no-such-file",
        ],
        &["recover", "no-such-file"],
        &["lab", "agent", "--listen", "127.0.0.1", "--token-file", "no-such-file"],
        &["lab", "udp", "--where", "192.0.2.1", "--token-file", "no-such-file"],
        &["lab", "capacity", "--instrument", "no-such-file.toml"],
        &["lab", "capacity", "--instrument", "skadi", "--measured", "no-such-file"],
        &["lab", "detectors", "--capture", "sonde=no-such-file", "--detector", "sonde"],
    ] {
        let said = say(arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.err);
        assert!(said.err.contains("no-such-file"), "{arguments:?}: {}", said.err);
    }
}

#[test]
fn a_geometry_of_another_detector_is_called_by_its_name() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/");
    let of = [
        ("sonde", "sonde-400-modules.toml"),
        ("sonde", "sonde-one-module.toml"),
        ("multigrid", "multigrid-three-modules.toml"),
        ("multiblade", "multiblade-50.toml"),
        ("gdgem", "gdgem.toml"),
        ("gdgem", "gdgem-sectors.json"),
    ];
    for (kind, file) in of {
        let path = format!("{examples}{file}");
        for other in ["sonde", "multigrid", "multiblade", "gdgem", "sequence"] {
            let source = "udp://127.0.0.1:0";
            let said = say(&[
                "run",
                "--detector",
                other,
                "--geometry",
                &path,
                "--print-config",
                "--source",
                source,
            ]);
            let code = if other == kind { 0 } else { 2 };
            assert_eq!(said.code, code, "{file} with {other}: {}", said.err);
            let named = said.err.contains(&format!("--detector {kind}) meant?"));
            assert_eq!(named, other != kind, "{file} with {other}: {}", said.err);
        }
    }
}
