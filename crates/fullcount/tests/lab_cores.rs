//! `fullcount lab cores` as a program: the matrix, the JSON object, refusals.

use std::process::Command;

fn lab(options: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fullcount"));
    let out = command.args(["lab", "cores"]).args(options).output().unwrap();
    let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
    (out.status.code().unwrap(), text(out.stdout), text(out.stderr))
}

#[test]
fn every_pair_of_cores_is_measured() {
    let cores = std::thread::available_parallelism().unwrap().get();
    let (code, out, err) = lab(&["--json"]);
    if cores < 2 {
        assert_eq!(code, 1, "{err}");
        return;
    }
    assert_eq!(code, 0, "{err}");
    let object: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    let pairs = object["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), cores * (cores - 1) / 2);
    for pair in pairs {
        assert!(pair["round_trip_ns"].as_f64().unwrap() > 1.0, "{pair}");
    }
    let (code, out, _) = lab(&[]);
    assert_eq!(code, 0);
    // A line of the title, one of core numbers, one per core.
    assert_eq!(out.trim_end().lines().count(), 2 + cores, "{out}");
}

#[test]
fn a_watch_of_no_time_is_refused() {
    for bad in ["0s", "soon"] {
        let (code, _, err) = lab(&["--watch", bad]);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains("watch") && err.contains(bad), "{err}");
    }
}
