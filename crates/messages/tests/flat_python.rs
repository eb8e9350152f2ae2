//! Both directions against the Python package `ess-streaming-data-types`: it decodes what we encode, we decode what it
//! encodes now.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fullcount_core::products::EventBatch;
use fullcount_core::time::PulseTime;
use fullcount_messages::{EventWriter, decode};
use serde_json::{Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A Python with the package: `FULLCOUNT_PYTHON`, otherwise `target/python-venv`.
///
/// `None` after printing why; in CI (`CI=true`) a missing one fails the test.
fn python() -> Option<PathBuf> {
    let found = std::env::var_os("FULLCOUNT_PYTHON").map(PathBuf::from).or_else(|| {
        let venv = root().join("target/python-venv/bin/python");
        venv.exists().then_some(venv)
    });
    if found.is_none() {
        let reason = "no Python with ess-streaming-data-types: set FULLCOUNT_PYTHON, or make \
                      target/python-venv and install tests/python/requirements.txt there";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{reason}");
        println!("skipped: {reason}");
    }
    found
}

fn succeed(output: Output) -> String {
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}\n{errors}");
    text.trim().to_owned()
}

fn expected(folder: &Path) -> serde_json::Map<String, Value> {
    let text = fs::read_to_string(folder.join("expected.json")).unwrap();
    let Value::Object(all) = serde_json::from_str(&text).unwrap() else { panic!("an object") };
    all
}

#[test]
fn the_package_decodes_what_we_encode() {
    let Some(python) = python() else { return };
    let golden = root().join("vectors/flatbuffers");
    let ours = tempfile::tempdir().unwrap();
    let mut messages = 0;
    for (name, entry) in expected(&golden) {
        if entry["accept"] == true {
            let buffer = fs::read(golden.join(&name)).unwrap();
            fs::write(ours.path().join(&name), decode(&buffer).unwrap().encode()).unwrap();
            messages += 1;
        }
    }

    // The event writer's own: several pulses with an empty one, the extremes, a full message, nothing.
    let start = 1_527_854_400_000_000_000;
    let mut some = EventBatch::default();
    some.open_pulse(PulseTime(start));
    some.push(0, 1);
    some.push(i32::MAX as u32, i32::MAX as u32);
    some.open_pulse(PulseTime(start + 71_428_571));
    some.open_pulse(PulseTime(start + 142_857_142));
    some.push(5, 7);
    let mut full = EventBatch::default();
    full.open_pulse(PulseTime(start));
    (0..12_400).for_each(|i| full.push(i * 5000, i + 1));
    let mut writer = EventWriter::new();
    let mut wanted = serde_json::Map::new();
    for (name, id, batch) in
        [("some", 1, &some), ("full", i64::MAX, &full), ("some-again", 2, &some)]
    {
        let buffer = writer.ev44("sonde", id, batch).unwrap();
        fs::write(ours.path().join(format!("{name}.ev44")), buffer).unwrap();
        let fields = json!({
            "source_name": "sonde", "message_id": id, "reference_time": batch.pulse_ns,
            "reference_time_index": batch.pulse_first, "time_of_flight": batch.offset_ns,
            "pixel_id": batch.pixel,
        });
        wanted.insert(format!("{name}.ev44"), fields);
    }
    for (name, id, offsets, pixels) in [
        ("full", u64::MAX, &full.offset_ns[..], &full.pixel[..]),
        ("extremes", 0, &[0, u32::MAX][..], &[1, u32::MAX][..]),
    ] {
        let buffer = writer.ev42("multigrid", id, start as u64, offsets, pixels).unwrap();
        fs::write(ours.path().join(format!("{name}.ev42")), buffer).unwrap();
        let fields = json!({
            "source_name": "multigrid", "message_id": id, "pulse_time": start,
            "time_of_flight": offsets, "detector_id": pixels,
        });
        wanted.insert(format!("{name}.ev42"), fields);
    }
    messages += wanted.len();
    fs::write(ours.path().join("events.json"), serde_json::to_vec(&wanted).unwrap()).unwrap();

    let mut check = Command::new(python);
    check.arg(root().join("tests/python/check_flat.py")).arg(&golden).arg(ours.path());
    assert_eq!(succeed(check.output().unwrap()), format!("{messages} messages"));
}

#[test]
fn we_decode_what_the_package_encodes() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut make = Command::new(python);
    make.arg(root().join("vectors/flatbuffers/make_vectors.py")).arg(folder.path());
    assert_eq!(succeed(make.output().unwrap()), "39 vectors");
    let mut decoded = 0;
    for (name, entry) in expected(folder.path()) {
        let buffer = fs::read(folder.path().join(&name)).unwrap();
        match decode(&buffer) {
            Ok(message) => {
                assert_eq!(entry["accept"], true, "{name}");
                assert_eq!(serde_json::to_value(&message).unwrap(), entry["fields"], "{name}");
                decoded += 1;
            }
            Err(error) => assert_ne!(entry["accept"], true, "{name}: {error}"),
        }
    }
    assert_eq!(decoded, 31);
}

#[test]
fn we_decode_what_only_old_topics_hold() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut make = Command::new(python);
    make.arg(root().join("tests/python/old_messages.py")).arg(folder.path());
    assert_eq!(succeed(make.output().unwrap()), "15");
    let mut schemas = std::collections::BTreeSet::new();
    for (name, fields) in expected(folder.path()) {
        let buffer = fs::read(folder.path().join(&name)).unwrap();
        let message = decode(&buffer).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(serde_json::to_value(&message).unwrap(), fields, "{name}");
        assert_eq!(decode(&message.encode()).unwrap(), message, "{name}: what we write of it");
        schemas.insert(message.schema().identifier());
        // Truncated anywhere it is refused, or still complete: padding at the end may be missing.
        let mut refused = 0;
        for end in 0..buffer.len() {
            match decode(&buffer[..end]) {
                Ok(cut) => assert_eq!(cut, message, "{name} cut to {end}"),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > buffer.len() / 2, "{name}: {refused} of {}", buffer.len());
    }
    assert_eq!(schemas.into_iter().collect::<Vec<_>>(), ["ADAr", "ep00", "ev43", "ns10", "senv"]);
}
