//! `fullcount lab stcp congestion` as a person runs it: figures and numbers of the paper, an own network, wrong options.

use crate::service::say;

#[test]
fn the_papers_experiment_has_its_figures_and_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let words = [
        "lab",
        "stcp",
        "congestion",
        "--variants",
        "none,simplified,figure6",
        "--part-time",
        "300ms",
        "--out",
        out,
    ];
    let layouts = [
        "--parts",
        "reference,merge,detector",
        "--layout-time",
        "20ms",
        "--sources",
        "8",
        "--json",
    ];
    let said = say(&[&words[..], &layouts].concat());
    assert!(said.code <= 1, "{}", said.err);
    let s = said.summary();
    assert_eq!(s["schema"], "fullcount/result/1");
    let rows = s["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 5, "{rows:?}");
    let of = |row: usize, path: &str| rows[row].pointer(path).unwrap().as_f64().unwrap();
    assert!((0.6..0.8).contains(&of(0, "/during/useful_gbps")), "{}", rows[0]);
    assert!(of(0, "/during/link_gbps") > 4.9 && rows[0]["recovery_s"].is_null());
    assert!(of(1, "/during/useful_gbps") > 1.85 && of(1, "/recovery_s") <= 0.1, "{}", rows[1]);
    assert!(of(3, "/before/useful_gbps") > 9.7, "{}", rows[3]);
    let detector = &rows[4];
    assert_eq!(
        (&detector["aborted"], &detector["dropped"], &detector["sources"]),
        (&0.into(), &0.into(), &8.into())
    );
    assert_eq!(detector["throttled_fragments"], 0);
    for file in ["figure5.svg", "figure5.png", "figure6.svg", "simplified.svg"] {
        assert!(folder.path().join(format!("stcp-congestion-{file}")).is_file(), "{file}");
    }
    let text = std::fs::read_to_string(folder.path().join("stcp-congestion.md")).unwrap();
    assert!(text.contains("| paper, without control | 2.048 | 0.69 / 5 |"), "{text}");
    let figure =
        std::fs::read_to_string(folder.path().join("stcp-congestion-figure5.svg")).unwrap();
    assert!(figure.contains("paper: useful 0.69 Gb/s"), "the paper's numbers stand beside ours");
    // A second run replaces nothing.
    assert_eq!(say(&words).code, 2);
}

#[test]
fn what_cannot_be_is_refused_with_flag_and_range() {
    for (words, parts) in [
        (["--parts", "all"], ["parts", "reference, scan, times, merge or detector"]),
        (["--variants", "cubic"], ["variants", "simplified"]),
        (["--scanned", "static=1"], ["scanned", "static=BYTES"]),
        (["--part-time", "1ms"], ["part-time", "10ms to 1h"]),
        (["--sources", "7"], ["sources", "multiple of 4"]),
        (["--queue", "1kB"], ["queue", "10 kB to 1 GiB"]),
        (["--window", "1GiB"], ["window", "64 KiB to 4 MiB"]),
        (["--senders", "0"], ["senders", "1 to 1000"]),
        (["--threads", "0"], ["threads", "1 to 1024"]),
        (["--trace-limit", "much"], ["trace-limit", "much"]),
        (["--frames-limit", "much"], ["frames-limit", "much"]),
    ] {
        let said = say(&[&["lab", "stcp", "congestion"][..], &words].concat());
        assert_eq!(said.code, 2, "{words:?}: {}", said.err);
        assert!(parts.iter().all(|p| said.err.contains(p)), "{words:?}: {}", said.err);
    }
}

#[test]
fn one_sender_is_written_as_frames_and_as_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (out, frames, trace) = (at(""), at("a.pcapng"), at("a.trace"));
    let words = ["lab", "stcp", "congestion", "--part-time", "10ms", "--variants", "none,reno"];
    let files = ["--frames-to", &frames, "--trace", &trace, "--trace-limit", "100kB"];
    let said = say(&[&words[..], &files, &["--json", "--out", &out]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let parameters = said.summary()["parameters"].clone();
    assert!(parameters["frames_in_file"].as_u64().unwrap() > 500, "{parameters}");
    let text = std::fs::read_to_string(&trace).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#')).count() as u64;
    assert_eq!(parameters["lines_in_trace"].as_u64(), Some(lines), "{parameters}");
    assert!((99_000..100_200).contains(&text.len()), "{}", text.len());
    // Opened, then the SYN.
    let mut first = text.lines().skip(1).map(|line| line.split(' ').nth(1).unwrap().to_owned());
    assert_eq!(first.next().as_deref(), Some("2"));
    let again = say(&[&words[..], &files, &["--out", &at("other")]].concat());
    assert_eq!(again.code, 2, "nothing is replaced: {}", again.err);
}

/// Without the reference it is the first network of the first part.
#[test]
fn a_sender_of_any_part_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let run = |name: &str, words: &[&str]| {
        let (out, trace) = (at(name), at(&format!("{name}.trace")));
        let files = ["--trace", &trace, "--trace-limit", "50kB", "--json", "--out", &out];
        let said = say(&[&["lab", "stcp", "congestion", "--parts"][..], words, &files].concat());
        assert!(said.code <= 1, "{}", said.err);
        let parameters = said.summary()["parameters"].clone();
        assert!(parameters["lines_in_trace"].as_u64().unwrap() > 100, "{name}: {parameters}");
        std::fs::read_to_string(&trace).unwrap()
    };
    let short = ["--layout-time", "20ms", "--sources", "4"];
    let merge = run("merge", &[&["merge,detector"][..], &short].concat());
    let detector = run("detector", &[&["detector,merge"][..], &short].concat());
    assert_ne!(merge, detector);
    let reference = ["--part-time", "10ms", "--variants", "simplified"];
    let both = run("both", &[&["merge,reference"][..], &short, &reference].concat());
    let alone = run("alone", &[&["reference"][..], &reference].concat());
    assert_eq!(both, alone, "the reference comes first, wherever it stands");
}

/// 48 networks in short: each has a row, and the table a column for each of eight times.
#[test]
fn retransmission_times_have_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let words = ["lab", "stcp", "congestion", "--parts", "times", "--scan-time", "10ms"];
    let said = say(&[&words[..], &["--scanned", "static=50000", "--json", "--out", out]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let rows = said.summary()["rows"].as_array().unwrap().clone();
    let times: Vec<u64> = rows.iter().map(|row| row["rto_us"].as_u64().unwrap()).collect();
    let eight = [1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000];
    assert_eq!(times, eight.repeat(6));
    // Ten of them, three times.
    let long = |row: &serde_json::Value| {
        let us = (row["seconds"].as_f64().unwrap() * 1e6).round() as u64;
        us >= 30 * row["rto_us"].as_u64().unwrap()
    };
    assert!(rows.iter().all(long), "{rows:?}");
    let text = std::fs::read_to_string(folder.path().join("stcp-congestion.md")).unwrap();
    assert!(text.contains("| 1 ms | 2 ms |") && text.contains("| 4000 | 4194 |"), "{text}");
}

#[test]
fn the_readout_unit_is_measured_beside_a_reader_that_discards() {
    let words = ["lab", "stcp", "readout"];
    let short = ["--streams", "4", "--fragment", "1024", "--time", "200ms", "--repeats", "1"];
    let folder = tempfile::tempdir().unwrap();
    let more = ["--crc-every", "0,1", "--json", "--out", folder.path().to_str().unwrap()];
    let said = say(&[&words[..], &short, &more].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let rows = said.summary()["rows"].clone();
    let names: Vec<&str> =
        rows.as_array().unwrap().iter().map(|row| row["reader"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "discards, reads of 256 KiB",
            "discards, reads of 512 KiB",
            "discards, reads of 1 MiB",
            "unit, no checksums",
            "unit, all checksums",
            "`fullcount run --sink null`, checksums of every 100th event"
        ]
    );
    for row in rows.as_array().unwrap() {
        assert!(row["gbps"].as_f64().unwrap() > 0.0, "{row}");
    }
    for (wrong, allowed) in [
        (["--streams", "1025"], "1 to 1024"),
        (["--streams", "0"], "1 to 1024"),
        (["--fragment", "44"], "a multiple of 8 from 24 to 65000"),
        (["--crc-every", "16777216"], "0 to 16777215"),
        (["--read", "8KiB"], "16KiB to 4MiB"),
        (["--read", "64KiB&connect"], "16KiB to 4MiB"),
        (["--repeats", "0"], "1 to 1000"),
        (["--frames-to", "x.pcap"], "Linux sockets over loopback"),
        (["--link", "200Mbps"], "none; a limit needs --sender offload or frames"),
        (["--link", "fast"], "link = fast"),
        (["--mtu", "1500"], "a --sender of the simplified TCP"),
        (["--buffer", "2MiB"], "a --sender of the simplified TCP"),
        (["--sender", "linux-nodelay"], "linux, offload, frames, xdp, tap or tap-frames"),
    ] {
        let said = say(&[&words[..], &wrong].concat());
        assert!(said.code == 2 && said.err.contains(allowed), "{wrong:?}: {}", said.err);
    }
}

#[test]
fn a_limit_is_refused_for_senders_that_it_does_not_reach() {
    for (words, allowed) in [
        (["streams", "--senders", "frames,xdp"], "none with xdp"),
        (["streams", "--senders", "tap"], "none with tap"),
        (["readout", "--sender", "xdp"], "none; a limit needs --sender offload or frames"),
        (["readout", "--sender", "tap-frames"], "none; a limit needs --sender offload or frames"),
    ] {
        let said = say(&[&["lab", "stcp"][..], &words, &["--link", "200Mbps"]].concat());
        assert!(said.code == 2 && said.err.contains(allowed), "{words:?}: {}", said.err);
    }
}

/// As many streams as the readout of CMS has; each reader gets all of them, also the whole program.
#[test]
fn six_hundred_streams_are_measured() {
    let words =
        ["lab", "stcp", "readout", "--streams", "600", "--fragment", "2048", "--time", "2s"];
    let folder = tempfile::tempdir().unwrap();
    let more = ["--repeats", "1", "--crc-every", "100", "--json", "--out"];
    let said = say(&[&words[..], &more, &[folder.path().to_str().unwrap()]].concat());
    // What a loaded host reaches is not asked here.
    assert!(said.code <= 1, "{}", said.err);
    let rows = said.summary()["rows"].clone();
    assert_eq!(rows.as_array().unwrap().len(), 5, "{}", said.err);
    for row in rows.as_array().unwrap() {
        assert!(row["gbps"].as_f64().unwrap() > 0.0, "{row}");
    }
}
