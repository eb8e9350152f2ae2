//! SPEAD heaps through the binary: captures of spead2 and the simulated array telescope to HDF5, `.npy`, inspect and the page.
//! Source: `docs/heap.md`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::python;
use crate::service::{PATIENCE, Service, browser, get, say, vector};

/// Says the facts of a folder or an HDF5 file as JSON.
const READ: &str = r#"
import json, pathlib, sys
import numpy as np
def facts(a):
    return {"shape": list(a.shape), "dtype": str(a.dtype), "sum": float(np.abs(a.astype(complex)).sum()) if a.dtype.kind in "iufc" else 0.0}
path, said = pathlib.Path(sys.argv[1]), {}
if path.is_dir():
    for file in sorted(path.glob("*.npy*")):
        said[file.name.split(".npy")[0]] = facts(np.load(open(file, "rb")))
else:
    import h5py
    with h5py.File(path) as f:
        for name in f["items"]:
            said[name] = facts(f["items"][name]["values"][()])
            said[name + ".heap"] = facts(f["items"][name]["heap"][()])
        said["complete"] = int(f["heaps/complete"][()].sum())
        said["heaps"] = len(f["heaps/number"])
        said["missing"] = len(f["missing/heap"])
print(json.dumps(said))
"#;

fn read(path: &str) -> Option<Value> {
    let python = python::interpreter()?;
    let said = Command::new(python).args(["-c", READ, path]).output().expect("Python runs");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    Some(serde_json::from_slice(&said.stdout).expect("JSON"))
}

#[test]
fn a_capture_of_spead2_becomes_arrays_in_files_and_what_is_missing_is_flagged() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (capture, complete, code) in
        [("udp_capture.pcap", true, 0), ("missing_middle.pcap", false, 3)]
    {
        let source = format!("pcap:{}?flat-out", vector(&format!("spead/{capture}")));
        let (file, npy) = (path(&format!("{capture}.h5")), path(capture));
        let words = [
            "run",
            "--source",
            &source,
            "--detector",
            "heap",
            "--heaps",
            &file,
            "--npy",
            &npy,
            "--web",
            "off",
            "--json",
        ];
        let said = say(&words);
        assert_eq!(said.code, code, "{}", said.err);
        assert_eq!(said.counter("heaps.incomplete") == 0, complete);
        assert_eq!(said.summary()["balance"], 0);
        assert_eq!(said.counter("sink.heaps.heaps"), said.counter("sink.npy.heaps"));
        assert_eq!(said.counter("sink.npy.incomplete"), said.counter("heaps.incomplete"));
        let Some(hdf) = read(&file) else { return };
        let arrays = read(&npy).unwrap();
        assert_eq!(hdf["heaps"], arrays["heaps"]["shape"][0]);
        assert_eq!(hdf["missing"], arrays["missing"]["shape"][0]);
        let hdf = hdf.as_object().unwrap();
        let same = hdf.iter().filter(|(_, facts)| facts.get("shape").is_some());
        for (name, facts) in same {
            assert_eq!(facts["shape"], arrays[name]["shape"], "{capture}: {name}");
            assert_eq!(facts["sum"], arrays[name]["sum"], "{capture}: {name}");
        }
        // A second run replaces nothing.
        assert_eq!(say(&words).code, 1);
    }
}

#[test]
fn the_simulated_telescope_is_received_written_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.h5").to_str().unwrap().to_owned();
    let source = "udp://127.0.0.1:0?receive_buffer=4MiB";
    let mut service = Service::start(&[
        "run",
        "--source",
        source,
        "--detector",
        "heap",
        "--heaps",
        &file,
        "--web",
        "127.0.0.1:0",
        "--set",
        "detector.waterfall=power",
        "--json",
    ]);
    let port = service.udp_port();
    let page = service.page();
    let to = format!("udp://127.0.0.1:{port}");
    let sent = say(&[
        "send",
        "--to",
        &to,
        "--source",
        "heap",
        "--channels",
        "256",
        "--rate",
        "50ev/s",
        "--count",
        "1600",
        "--json",
    ]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    let made = sent.summary()["events"]["sent"].as_u64().or(sent.summary()["events"].as_u64());
    // Pictures are made ten times a second.
    let state = (0..1200).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let state: Value = serde_json::from_str(&get(&page, "/api/state")).expect("JSON");
        let plot = &state["plots"][0];
        (plot["counted"].as_u64()? > 50).then_some(state)
    });
    let state = state.expect("lines of the waterfall");
    assert_eq!(
        (&state["plots"][0]["kind"], &state["plots"][0]["id"]),
        (&"waterfall".into(), &"waterfall".into())
    );
    service.interrupt();
    let said = service.end();
    assert_eq!(said.code, 0, "{}", said.err);
    let complete = said.counter("heaps.with_arrays");
    // The stop heap holds no array, and ends nothing.
    let stops = (said.counter("heaps.complete") - complete, said.counter("heaps.stop"));
    assert!(complete > 50 && stops == (1, 0), "{}", said.err);
    if let Some(made) = made {
        assert_eq!(complete, made);
    }
    if let Some(hdf) = read(&file) {
        assert_eq!(hdf["power"]["shape"], serde_json::json!([complete, 256]));
        assert_eq!(hdf["power"]["dtype"], "float32");
        assert_eq!(hdf["visibilities"]["shape"], serde_json::json!([complete, 10, 256]));
        assert_eq!(hdf["complete"], complete);
    }
}

/// The live page in a real browser: `tests/browser/heaps.py` sends heaps, some in part and some not at all, and looks at tiles and waterfall.
fn look_at_the_page(source: &str, settings: &[&str], joined: bool) {
    let (Some(browser), Some(python)) = (browser(), python::interpreter()) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/browser/heaps.py");
    let mut look = Command::new(python);
    look.arg(script).arg("--browser").arg(browser);
    if let Some(folder) = std::env::var_os("FULLCOUNT_SHOTS") {
        look.arg("--shots").arg(folder);
    }
    if joined {
        look.arg("--joined");
    }
    look.args(["--", env!("CARGO_BIN_EXE_fullcount"), "run", "--source", source]);
    look.args(["--detector", "heap", "--sink", "null", "--web", "127.0.0.1:0"]);
    for set in settings {
        look.args(["--set", &format!("detector.{set}")]);
    }
    let said = look.output().expect("Python runs");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(said.status.success(), "{}\n{}", text(&said.stdout), text(&said.stderr));
    assert!(text(&said.stdout).contains("the page of heaps is right"), "{}", text(&said.stdout));
}

#[test]
fn a_browser_shows_the_rate_what_is_incomplete_and_the_waterfall() {
    let settings = ["bins=64", "lines=64", "sequence=[1,1]", "heap_timeout=300ms"];
    look_at_the_page("udp://127.0.0.1:0", &settings, false);
}

#[test]
fn a_browser_shows_heaps_that_the_source_misses() {
    let source = "spead+udp://127.0.0.1:0?sequence=1,1&heap_timeout=300ms&max_heap=4kB";
    look_at_the_page(source, &["bins=64", "lines=64"], true);
}

#[test]
fn the_stop_heap_ends_a_run_that_is_told_so() {
    let run = ["run", "--source", "udp://127.0.0.1:0", "--detector", "heap", "--sink", "null"];
    let more = ["--web", "off", "--set", "detector.on_stop=end", "--json"];
    let mut service = Service::start(&[&run[..], &more].concat());
    let to = format!("udp://127.0.0.1:{}", service.udp_port());
    let sent = say(&["send", "--to", &to, "--source", "heap", "--count", "320"]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    assert!(service.child.ended(PATIENCE).expect("a child"), "{:?}", service.seen());
    let said = service.end();
    assert_eq!((said.code, said.counter("heaps.stop")), (0, 1), "{}", said.err);
    assert!(said.counter("heaps.with_arrays") > 0);
}

/// Packets of our simulated telescope and of spead2's own sender over TCP.
#[test]
fn heaps_come_over_tcp_too() {
    let folder = tempfile::tempdir().unwrap();
    for (n, sender) in ["simulated", "spead2"].into_iter().enumerate() {
        let npy = folder.path().join(format!("{n}")).to_str().unwrap().to_owned();
        let source = "tcp://127.0.0.1:0?until=closed";
        let run = ["run", "--source", source, "--detector", "heap", "--npy", &npy, "--web", "off"];
        let mut unit = Service::start(&[&run[..], &["--json"]].concat());
        let url = unit.wait_for("the socket", |l| {
            Some(l.strip_prefix("listening on ")?.split(',').next()?.to_owned())
        });
        let at = url.trim_start_matches("tcp://").to_owned();
        let made = match sender {
            "simulated" => {
                let words = ["send", "--to", &url, "--source", "heap", "--count", "500", "--json"];
                let said = say(&words);
                assert_eq!(said.code, 0, "{}", said.err);
                said.summary()["events"].as_u64().unwrap()
            }
            _ => {
                let Some(python) = python::interpreter() else { return };
                let (host, port) = at.rsplit_once(':').unwrap();
                let sent = Command::new(python).args(["-c", SEND, host, port]).output().unwrap();
                assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
                20
            }
        };
        assert!(unit.child.ended(PATIENCE).expect("a child"), "{sender}: {:?}", unit.seen());
        let said = unit.end();
        assert_eq!((said.code, &said.summary()["balance"]), (0, &0.into()), "{}", said.err);
        assert_eq!(said.counter("heaps.with_arrays"), made, "{sender}: {}", said.err);
        assert_eq!(said.counter("heaps.incomplete"), 0);
    }
}

/// spead2's Python package sends twenty heaps over TCP.
const SEND: &str = r#"
import sys, asyncio
import numpy as np
import spead2, spead2.send
pool = spead2.ThreadPool()
stream = spead2.send.TcpStream(pool, [(sys.argv[1], int(sys.argv[2]))], spead2.send.StreamConfig(max_packet_size=4000))
group = spead2.send.ItemGroup()
group.add_item(0x1234, "values", "numbers", (10000,), np.uint32)
for n in range(20):
    group["values"].value = np.arange(n, n + 10000, dtype=np.uint32)
    stream.send_heap(group.get_heap(descriptors="all", data="all"))
stream.send_heap(group.get_end())
del stream
"#;

#[test]
fn the_demonstration_of_heaps_ends_with_four_equal_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("demo").to_str().unwrap().to_owned();
    let said = say(&[
        "demo",
        "--detector",
        "heap",
        "--duration",
        "4s",
        "--dir",
        &folder,
        "--web",
        "127.0.0.1:0",
        "--json",
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    let four = &said.summary()["demo"];
    assert_eq!(four["packets_sent"], four["packets_delivered"]);
    assert_eq!(four["events_made"], four["events_in_file"]);
    assert!(four["events_made"].as_u64() > Some(100));
}

#[test]
fn people_see_packets_heaps_descriptors_and_values_of_a_capture() {
    let source = format!("pcap:{}?flat-out", vector("spead/udp_capture.pcap"));
    let said = say(&["inspect", &source, "--detector", "heap"]);
    assert_eq!(said.code, 0, "{}", said.err);
    for words in ["flavour=SPEAD-64-40", "heap=1 complete", "descriptors=", "items="] {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
    let said = say(&["inspect", &source, "--detector", "heap", "--json"]);
    let first: Value = serde_json::from_str(said.out.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["header"]["flavour"], &first["result"]),
        (&"SPEAD-64-40".into(), &"ok".into())
    );
    let source = format!("pcap:{}?flat-out", vector("spead/malformed.pcap"));
    let said = say(&["inspect", &source, "--detector", "heap", "--errors"]);
    assert!(said.out.contains("refused: malformed"), "{}", said.out);
}

#[test]
fn an_output_of_heaps_needs_a_detector_of_heaps() {
    let words = ["run", "--source", "udp://127.0.0.1:0", "--detector", "sonde", "--web", "off"];
    for (flags, key) in
        [(["--npy", "x"], "output.npy.folder"), (["--heaps", "x.h5"], "output.heaps.file")]
    {
        let said = say(&[&words[..], &flags].concat());
        assert_eq!(said.code, 2);
        assert!(said.err.contains(key) && said.err.contains("gives no heaps"), "{}", said.err);
    }
    let said = say(&[
        "run",
        "--source",
        "udp://127.0.0.1:0",
        "--detector",
        "heap",
        "--heaps",
        "x.nxs",
        "--web",
        "off",
    ]);
    assert!(said.code == 2 && said.err.contains(".h5 or .hdf5"), "{}", said.err);
}

/// With `spead+pcap:` the source puts the heaps together, with `pcap:` the decoder: the same arrays, and the same is missing.
#[test]
fn heaps_that_the_source_puts_together_are_the_same_in_files() {
    let folder = tempfile::tempdir().unwrap();
    for (capture, code) in [("udp_capture.pcap", 0), ("missing_middle.pcap", 3)] {
        let mut both = Vec::new();
        for scheme in ["pcap", "spead+pcap"] {
            let source = format!("{scheme}:{}?flat-out", vector(&format!("spead/{capture}")));
            let npy = folder.path().join(format!("{scheme}-{capture}")).display().to_string();
            let run = ["run", "--source", &source, "--detector", "heap", "--npy", &npy];
            let said = say(&[&run[..], &["--web", "off", "--json"]].concat());
            assert_eq!((said.code, &said.summary()["balance"]), (code, &0.into()), "{}", said.err);
            if scheme == "spead+pcap" {
                assert!(said.err.contains("the detector gets heaps"), "{}", said.err);
                let heaps = said.counter("carrier.heaps");
                assert!(heaps > 0 && said.counter("carrier.handed_on") == heaps);
                assert_eq!(said.counter("heaps.count"), heaps);
            }
            let missing = said.counter("heaps.incomplete");
            let Some(mut arrays) = read(&npy) else { return };
            // The time of a heap is that of the packet that ended it here, and of its first packet there.
            let heaps = arrays.as_object_mut().unwrap().remove("heaps").unwrap();
            both.push((arrays, heaps["shape"].clone(), missing));
        }
        assert_eq!(both[0], both[1], "{capture}");
    }
}

/// Whole heaps on TCP, and re-requests over UDP, reach a file: only the source can put them together.
#[test]
fn whole_heaps_on_tcp_and_heaps_with_a_back_channel_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let back = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (n, (scheme, above, below)) in [
        ("tcp", "framing=heap".to_owned(), "framing=heap".to_owned()),
        ("udp", format!("feedback={back}&resend"), format!("feedback={back}&keep=64MiB")),
    ]
    .into_iter()
    .enumerate()
    {
        let file = folder.path().join(format!("{n}.h5")).display().to_string();
        let source = format!("spead+{scheme}://127.0.0.1:0?{above}");
        let run = ["run", "--source", &source, "--detector", "heap", "--heaps", &file];
        let mut service = Service::start(&[&run[..], &["--web", "off", "--json"]].concat());
        let url = service.wait_for("the socket", |l| {
            Some(l.strip_prefix("listening on ")?.split(',').next()?.to_owned())
        });
        let at = url.rsplit("//").next().unwrap();
        let to = format!("spead+{scheme}://{at}?{below}");
        let sent = say(&[
            "send",
            "--source",
            "heaps",
            "--to",
            &to,
            "--heaps",
            "30",
            "--heap-size",
            "400000B",
            "--rate",
            "100Mbps",
            "--linger",
            "500ms",
            "--json",
        ]);
        assert_eq!(sent.code, 0, "{}", sent.err);
        assert!(service.child.ended(PATIENCE).expect("a child"), "{url}: {:?}", service.seen());
        let said = service.end();
        assert_eq!((said.code, &said.summary()["balance"]), (0, &0.into()), "{url}: {}", said.err);
        assert_eq!((said.counter("heaps.with_arrays"), said.counter("heaps.incomplete")), (30, 0));
        let Some(hdf) = read(&file) else { return };
        assert_eq!((&hdf["heaps"], &hdf["complete"]), (&30.into(), &30.into()));
        assert_eq!(hdf["Test_item_0"]["shape"], serde_json::json!([30, 100_000]), "{hdf}");
    }
}

#[test]
fn people_see_the_heaps_of_a_capture_that_its_source_puts_together() {
    let source = format!("spead+pcap:{}", vector("spead/udp_capture.pcap"));
    let said = say(&["inspect", &source, "--detector", "heap"]);
    assert_eq!(said.code, 0, "{}", said.err);
    for words in ["heap=1 complete", "descriptors=", "items=", "heap_cnt=1 "] {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
    let heaps = said.out.matches(" complete").count();
    let packets = say(&["inspect", &source.replace("spead+", ""), "--detector", "heap"]);
    assert_eq!(packets.out.matches(" complete").count(), heaps);
    assert!(packets.out.lines().count() > said.out.lines().count());
}

/// Heaps above a limit are thrown away by the source, or by the decoder.
#[test]
fn heaps_that_are_thrown_away_reach_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("long.pcapng").display().to_string();
    let to = format!("spead+pcap:{file}?packet=8972B");
    for (size, thrown) in [("1000B", false), ("5000B", true)] {
        let job = ["send", "--source", "heaps", "--heaps", "9", "--heap-size", size, "--to", &to];
        let sent = say(&job);
        assert_eq!(sent.code, 0, "{}", sent.err);
        for (scheme, key, set, counter) in [
            ("spead+pcap", "&max_heap=4kB", "bins=64", "spead.refused.heap_too_large"),
            ("spead+pcap", "&max_packet=4kB", "bins=64", "spead.reader.too_large"),
            ("pcap", "", "max_heap_bytes='4kB'", "errors.refused.heap_too_large"),
        ] {
            let source = format!("{scheme}:{file}?flat-out{key}");
            let run = ["run", "--source", &source, "--detector", "heap", "--sink", "null"];
            let set = format!("detector.{set}");
            let said = say(&[&run[..], &["--set", &set, "--web", "off", "--json"]].concat());
            let got = (said.counter(counter), said.code);
            assert_eq!(got, if thrown { (9, 3) } else { (0, 0) }, "{counter}: {}", said.err);
            assert_eq!(said.summary()["balance"], 0, "{counter}: {}", said.err);
        }
        std::fs::remove_file(&file).unwrap();
    }
}

/// The source knows by its numbers what the decoder does not.
#[test]
fn heaps_that_the_source_misses_reach_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gaps.pcapng").display().to_string();
    let to = format!("spead+pcap:{file}");
    let odd = ["--heaps", "3", "--heap-size", "1000B", "--heap-step", "2"];
    let sent = say(&[&["send", "--source", "heaps", "--to", &to][..], &odd].concat());
    assert_eq!(sent.code, 0, "{}", sent.err);
    for (keys, lost, code) in [("&sequence=1,1", 2, 3), ("&sequence=1,2", 0, 0)] {
        let source = format!("spead+pcap:{file}?flat-out{keys}");
        let run = ["run", "--source", &source, "--detector", "heap", "--sink", "null"];
        let said = say(&[&run[..], &["--web", "off", "--json"]].concat());
        assert_eq!((said.code, said.counter("spead.lost.heaps")), (code, lost), "{}", said.err);
        assert_eq!((said.counter("heaps.complete"), said.counter("heaps.lost")), (3, 0));
    }
}
