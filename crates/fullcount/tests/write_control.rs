//! Ten runs of two `fullcount write` that share a pool, over a real Kafka, two at once, controlled by a client that
//! uses only `ess-streaming-data-types` and Kafka: it starts, checks, extends, shortens, stops and aborts runs as NICOS
//! and file-writer-control do, while events and logs flow, and reads each file with h5py: every event between start and
//! stop, once, with its time and pixel.
//!
//! The client is `tests/python/control_runs.py`. Needs Java and the jars that `cargo xtask test` has fetched, and a
//! Python with `tests/python/requirements.txt`; without them it is skipped with a message, and fails with CI=true.

use crate::python;
use std::path::Path;
use std::process::Command;

use crate::broker::{BrokerCluster, jars};
use crate::service::Service;
use serde_json::Value;

fn writer(brokers: &str, folder: &Path, id: &str) -> Service {
    let folder = folder.display().to_string();
    let all = [
        &["write", "--brokers", brokers, "--folder", &folder, "--service-id", id, "--json"][..],
        &["--pool", "pool", "--control", "instrument", "--leeway", "5s", "--heartbeat", "500ms"],
        &["--flush", "200ms"],
    ];
    Service::start(&all.concat())
}

#[test]
fn a_client_of_todays_control_systems_runs_ten_files_two_at_once() {
    let Some(jars) = jars() else { return };
    let Some(python) = python::interpreter() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let cluster =
        BrokerCluster::start(&jars, folder.path(), 1, None).unwrap_or_else(|e| panic!("{e}"));
    let brokers = cluster.bootstrap();
    let data = folder.path().join("data");
    std::fs::create_dir_all(data.join("ess/raw")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python/control_runs.py");
    let client = |verb: &str| {
        Command::new(&python).arg(&script).args([verb, &brokers]).arg(&data).output().unwrap()
    };
    let made = client("topics");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let writers = ["w1", "w2"].map(|id| writer(&brokers, &data, id));
    let client = client("runs");
    let (told, errors) =
        (String::from_utf8_lossy(&client.stdout), String::from_utf8_lossy(&client.stderr));
    let ended = writers.map(|writer| {
        writer.interrupt();
        writer.end()
    });
    let said = ended.each_ref().map(|said| said.err.as_str()).join("\n---\n");
    assert!(client.status.success(), "{told}\n{errors}\n{said}");
    print!("{told}");
    let told: Value = serde_json::from_str(&told).expect("one object");
    assert_eq!((&told["runs"], &told["at_once"]), (&10.into(), &2.into()));
    // Nothing is left, and the writers count the same as the client.
    let sum = |name: &str| ended.iter().map(|said| said.counter(name)).sum::<u64>();
    assert_eq!(sum("write.files"), 10, "{said}");
    assert_eq!(sum("write.events"), told["events"].as_u64().unwrap(), "{said}");
    for said in &ended {
        assert_eq!(said.code, 0, "{}", said.err);
        assert_eq!(said.summary()["balance_difference"], 0, "{}", said.out);
    }
}
