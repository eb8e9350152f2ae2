//! What tshark's TCP analysis says of the frames that every experiment writes: the entries that may be there are listed for each,
//! any other fails. Needs tshark; the live ones root and iproute2.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::service::say;
use crate::stcp_live::{TRIES, rows, skipped};

/// Entries of a connection that nothing disturbs.
const BEGUN: [&str; 2] =
    ["Connection establish request (SYN)", "Connection establish acknowledge (SYN+ACK)"];
/// Those of one to Linux: its end, and a reader that may stand still: a window that was full, its probes and their answers, the
/// window that opens again.
pub const LIVE: [&str; 9] = [
    BEGUN[0],
    BEGUN[1],
    "Connection reset (RST)",
    "TCP window specified by the receiver is now completely full",
    "TCP Zero Window segment",
    "TCP Zero Window Probe",
    "ACK to a TCP Zero Window Probe",
    "TCP window update",
    "TCP keep-alive",
];
/// Where segments are lost, or late, behind the place where frames are written.
pub const AGAIN: [&str; 5] = [
    "out-of-order segment",
    "Duplicate ACK",
    "This frame is a (suspected) retransmission",
    "fast retransmission",
    "spurious retransmission",
];
/// Where they are lost before it, too.
const GAPS: [&str; 2] = ["Previous segment(s) not captured", "ACKed segment that wasn't captured"];
/// Where the receiver hangs up first, as Linux does if it has read all that came.
const HUNG_UP: [&str; 2] =
    ["This frame initiates the connection closing", "Connection finish (FIN)"];
/// Where trials follow each other in one file: each has a receiver and connections of its own.
const TRIALS: [&str; 2] =
    ["Duplicate IP address", "A new tcp session is started with the same ports"];

/// Entries of a file that are in none of the lists; checksums are verified too. `None`: there is no tshark.
pub fn unexpected(file: &Path, expected: &[&[&str]]) -> Option<Vec<String>> {
    let out = Command::new("tshark")
        .args(["-r", file.to_str().unwrap(), "-q", "-z", "expert"])
        .args(["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"])
        // The payload is a pattern; nothing of it is to be guessed from the ports.
        .args(["-d", "tcp.port==5000,data", "-d", "tcp.port==10,data"])
        .output();
    let out = match out {
        Ok(out) => out,
        Err(e) => {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CI needs tshark: {e}");
            println!("skipped: tshark: {e}");
            return None;
        }
    };
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && !err.contains("cut short"), "{err}");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let is_entry = |line: &&str| {
        line.split_whitespace().next().is_some_and(|word| word.bytes().all(|b| b.is_ascii_digit()))
    };
    let entries: Vec<&str> = text.lines().filter(is_entry).collect();
    assert!(entries.iter().any(|e| e.contains("(SYN)")), "{text}");
    let known = |e: &&str| expected.iter().copied().flatten().any(|known| e.contains(known));
    Some(entries.into_iter().filter(|e| !known(e)).map(str::to_owned).collect())
}

/// Frames whose ACK is of bytes that no frame before it carries. When all is sent again, tshark follows the repetition and takes an ACK of
/// what was sent before it for one of something it has not seen; this asks the file.
fn acks_of_nothing(file: &Path) -> Vec<String> {
    let fields = ["frame.number", "tcp.srcport", "tcp.nxtseq", "tcp.ack"];
    let mut command = Command::new("tshark");
    command.args(["-r", file.to_str().unwrap(), "-d", "tcp.port==5000,data", "-T", "fields"]);
    let out = command.args(fields.iter().flat_map(|field| ["-e", *field])).output().unwrap();
    let (mut sent, mut wrong) = (0, vec![]);
    for line in String::from_utf8_lossy(&out.stdout).lines() {
        let numbers: Vec<u64> = line.split('\t').filter_map(|word| word.parse().ok()).collect();
        match numbers[..] {
            [_, 10, next, _] => sent = next.max(sent),
            [_, 5000, _, ack] if ack > sent => wrong.push(format!("{line} behind {sent}")),
            _ => {}
        }
    }
    assert!(sent > 1_000_000, "tshark has read it: {sent}");
    wrong
}

/// Of an experiment without loss: no try has an entry beyond these and repetitions, and one has no repetition. A busy host delays
/// an ACK beyond the least retransmission time: then there is one, and another try.
fn undisturbed(name: &str, expected: &[&[&str]], mut one: impl FnMut(usize) -> std::path::PathBuf) {
    let with_again = [expected, &[&AGAIN[..]]].concat();
    for n in 0..TRIES {
        let file = one(n);
        let Some(none) = unexpected(&file, &with_again) else { return };
        assert!(none.is_empty(), "{name}: {none:#?}");
        if unexpected(&file, expected).is_some_and(|none| none.is_empty()) {
            return;
        }
    }
    panic!("{name}: repetitions each time");
}

/// Frames of the interface's MTU, and units of 64 KiB that it would cut, of each driver; then over a bad link, whose faults come before the
/// frames that leave are written, and of those that come as well.
#[test]
fn soak_without_and_with_faults() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let soak = |sender: &str, name: String, fault: Option<&str>| {
        let file = folder.path().join(name);
        let path = file.to_str().unwrap();
        let mut words = vec!["soak", "--bytes", "4MB", "--sender", sender, "--frames-to", path];
        words.extend(fault.iter().flat_map(|fault| ["--fault", fault]));
        let (code, rows, err) = rows(&words);
        assert_eq!(code, 0, "{err}");
        let of = |what: &str| rows[0][what].as_u64().unwrap();
        let units = ["offload", "tap"].contains(&sender);
        let largest = if units { 65_535 } else { 9000 };
        assert!(of("frames_in_file") > 4_000_000 / largest, "{}", rows[0]);
        (file, of("again_bytes"))
    };
    let senders = [
        ("frames", "pcap"),
        ("offload", "pcapng"),
        ("xdp", "pcap"),
        ("tap", "pcap"),
        ("tap-frames", "pcapng"),
    ];
    for (sender, ending) in senders {
        undisturbed(sender, &[&LIVE], |n| soak(sender, format!("{sender}{n}.{ending}"), None).0);
    }
    let fault = "loss=0.01,duplicate=0.005,swap=0.01,seed=2";
    let (file, again) = soak("frames", "loss.pcap".into(), Some(fault));
    assert!(again > 0);
    if let Some(none) = unexpected(&file, &[&LIVE, &AGAIN, &GAPS]) {
        assert!(none.is_empty(), "{none:#?}");
    }
}

/// Whole trials, to their RST.
#[test]
fn sweep_streams_and_backpressure() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trials = ["--repeats", "1", "--time", "300ms", "--senders", "offload,frames"];
    let sweep = [&["sweep", "--links", "200Mbps", "--sizes", "16,2048"][..], &trials].concat();
    let streams = [&["streams", "--link", "200Mbps", "--streams", "1,4"][..], &trials].concat();
    let pressure =
        ["backpressure", "--time", "500ms", "--rate", "400Mbps", "--buffer", "256KiB"].to_vec();
    for (name, words, several) in
        [("sweep", sweep, true), ("streams", streams, true), ("backpressure", pressure, false)]
    {
        let expected: &[&[&str]] = if several { &[&LIVE, &TRIALS] } else { &[&LIVE] };
        undisturbed(name, expected, |n| {
            let file = folder.path().join(format!("{n}-{name}.pcap"));
            let path = file.to_str().unwrap();
            let (_, rows, err) =
                rows(&[&words[..], &["--frames-to", path, "--frames-limit", "200MB"]].concat());
            assert_eq!(rows.len(), if several { 4 } else { 1 }, "{err}");
            let size = std::fs::metadata(&file).unwrap().len();
            assert!((2_000_000..199_000_000).contains(&size), "{name}: {size} B: {err}");
            file
        });
    }
}

/// Into the readout unit and the readers beside it, to the RST of each stream; a reader that has its time hangs up.
#[test]
fn the_readout_unit() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    undisturbed("readout", &[&LIVE, &TRIALS, &HUNG_UP], |n| {
        let file = folder.path().join(format!("readout{n}.pcapng"));
        let path = file.to_str().unwrap();
        let words = ["readout", "--sender", "frames", "--streams", "4", "--crc-every", "100"];
        let more = ["--link", "200Mbps", "--time", "100ms", "--repeats", "1", "--frames-to", path];
        let (_, rows, err) = rows(&[&words[..], &more].concat());
        assert_eq!(rows.len(), 5, "{err}");
        // All trials, of 0.6 s and more each.
        let size = std::fs::metadata(&file).unwrap().len();
        assert!((50_000_000..300_000_000).contains(&size), "{size} B: {err}");
        file
    });
}

/// Simulated: the entries are the same each time, and a sender that is constant repeats nothing.
#[test]
fn the_simulated_congestion() {
    let folder = tempfile::tempdir().unwrap();
    let again = &[&BEGUN[..], &AGAIN];
    for (variant, part, expected) in [
        ("static=200000", "20ms", &again[..1]),
        ("simplified", "100ms", again),
        ("figure6", "100ms", again),
        ("reno", "100ms", again),
        ("none", "30ms", again),
    ] {
        let file = folder.path().join(format!("{variant}.pcap"));
        let path = file.to_str().unwrap();
        let words = ["congestion", "--variants", variant, "--part-time", part];
        let more = ["--frames-to", path, "--frames-limit", "100MB"];
        let (_, rows, err) = rows(&[&words[..], &more].concat());
        assert_eq!(rows.len(), 1, "{err}");
        let Some(none) = unexpected(&file, expected) else { return };
        assert!(none.is_empty(), "{variant}: {none:#?}");
        // What is listed does happen.
        let some = unexpected(&file, &again[..1]).unwrap();
        assert_eq!(some.is_empty(), variant == "static=200000", "{variant}: {some:#?}");
    }
}

/// The other parts: the first sender of their first network. Full links into a port that takes them lose nothing.
#[test]
fn the_other_parts_of_the_congestion() {
    let folder = tempfile::tempdir().unwrap();
    let again = &[&BEGUN[..], &AGAIN];
    for (part, expected) in
        [("scan", &again[..]), ("times", again), ("merge", &again[..1]), ("detector", &again[..1])]
    {
        let file = folder.path().join(format!("{part}.pcapng"));
        let path = file.to_str().unwrap();
        let words = ["congestion", "--parts", part, "--scan-time", "30ms", "--layout-time", "20ms"];
        let more = ["--sources", "4", "--frames-to", path, "--frames-limit", "20MB"];
        let (_, rows, err) = rows(&[&words[..], &more].concat());
        assert!(!rows.is_empty(), "{err}");
        let size = std::fs::metadata(&file).unwrap().len();
        assert!((1_000_000..=20_000_000).contains(&size), "{part}: {size} B");
        let Some(none) = unexpected(&file, expected) else { return };
        assert!(none.is_empty(), "{part}: {none:#?}");
    }
}

/// Of five senders the first. A busy host delays ACKs beyond the retransmission time of 20 ms.
#[test]
fn the_congestion_in_real_time() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for variant in ["static=200000", "simplified", "figure6", "reno", "none"] {
        let file = folder.path().join(format!("{variant}.pcapng"));
        let path = file.to_str().unwrap();
        let words = ["realtime", "--variants", variant, "--part-time", "500ms"];
        let more = ["--frames-to", path, "--frames-limit", "100MB"];
        let (code, _, err) = rows(&[&words[..], &more].concat());
        assert_eq!(code, 0, "{err}");
        let size = std::fs::metadata(&file).unwrap().len();
        assert!((1_000_000..100_000_000).contains(&size), "{size}");
        let seen = &GAPS[if variant == "none" { 1 } else { 2 }..];
        let Some(none) = unexpected(&file, &[&LIVE, &AGAIN, seen]) else { return };
        assert!(none.is_empty(), "{variant}: {none:#?}");
        let nothing = acks_of_nothing(&file);
        assert!(nothing.is_empty(), "{variant}: {nothing:#?}");
    }
}

/// What comes after the limit is left out, and no file is replaced.
#[test]
fn a_file_of_frames_ends_at_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let cut = |name: &str, words: &[&str]| {
        let file = folder.path().join(format!("{name}.pcap"));
        let path = file.to_str().unwrap();
        let all = [&[name][..], words, &["--frames-to", path, "--frames-limit", "2MB"]].concat();
        let (_, _, err): (i32, Vec<Value>, String) = rows(&all);
        let size = std::fs::metadata(&file).unwrap().len();
        assert!((1_900_000..=2_000_000).contains(&size), "{name}: {size} B: {err}");
        if let Some(none) = unexpected(&file, &[&LIVE, &AGAIN, &TRIALS]) {
            assert!(none.is_empty(), "{name}: {none:#?}");
        }
        let again = say(&[&["lab", "stcp"][..], &all, &["--out", path]].concat());
        assert_eq!(again.code, 2, "{name}: nothing is replaced: {}", again.err);
    };
    cut("congestion", &["--variants", "static=200000", "--part-time", "20ms"]);
    if skipped() {
        return;
    }
    cut(
        "streams",
        &["--streams", "2", "--senders", "offload", "--repeats", "1", "--time", "300ms"],
    );
    cut("backpressure", &["--rate", "400Mbps", "--buffer", "256KiB", "--time", "300ms"]);
}
