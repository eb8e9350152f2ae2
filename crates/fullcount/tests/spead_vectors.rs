//! SPEAD vectors through the program: `spead2 recv` of each capture gives the heaps and statistics that spead2 gave, for
//! what its options can say: not with a filter, packets in any order or no unsized heaps, which the crate's own vectors have.
//!
//! Answers: `vectors/spead/expected.json`.

use serde_json::Value;

use crate::service::{say, vector};

#[test]
fn each_capture_gives_what_spead2_gave() {
    let text = std::fs::read_to_string(vector("spead/expected.json")).expect("committed");
    let all: Value = serde_json::from_str(&text).unwrap();
    let captures = all["cases"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|case| case["file"].as_str().is_some_and(|name| name.contains(".pcap")));
    let mut answers = 0;
    for case in captures {
        let name = case["file"].as_str().unwrap();
        for answer in case["receive"].as_array().unwrap() {
            let config = &answer["config"];
            // The tool has no option for these.
            let other =
                config["allow_out_of_order"] == true || config["allow_unsized_heaps"] == false;
            if other || answer["filter"] != "" {
                continue;
            }
            answers += 1;
            let [heaps, substreams] =
                ["max_heaps", "substreams"].map(|key| config[key].to_string());
            let said = say(&[
                "spead2",
                "recv",
                "--concurrent-heaps",
                &heaps,
                "--substreams",
                &substreams,
                &vector(&format!("spead/{name}")),
            ]);
            assert_eq!(said.code, 0, "{name}: {}", said.err);
            let found: Vec<_> = said.out.lines().filter_map(heap).collect();
            let told = answer["heaps"].as_array().unwrap().iter();
            let wanted: Vec<_> =
                told.map(|heap| (heap["cnt"].as_u64().unwrap(), heap["kind"] == "heap")).collect();
            assert_eq!(found, wanted, "{name}, {heaps} heaps: {}", said.out);
            for (key, value) in answer["stats"].as_object().unwrap() {
                assert!(
                    said.out.lines().any(|line| line == format!("{key}: {value}")),
                    "{name} {key}: {value}\n{}",
                    said.out
                );
            }
        }
    }
    assert!(answers >= 20, "{answers}");
}

#[test]
fn a_capture_of_another_link_type_is_an_error_as_in_spead2() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = std::fs::read(vector("spead/udp_capture.pcap")).expect("committed");
    // Linux cooked v2.
    file[20..22].copy_from_slice(&276u16.to_le_bytes());
    let path = dir.path().join("cooked2.pcap");
    std::fs::write(&path, file).unwrap();
    let said = say(&["spead2", "recv", path.to_str().unwrap()]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("frames of link type 276"), "{}", said.err);
}

/// Number of the heap that a line tells of, and whether it is whole.
fn heap(line: &str) -> Option<(u64, bool)> {
    let (words, whole) = match line.strip_prefix("Received heap ") {
        Some(words) => (words, true),
        None => (line.strip_prefix("Discarding incomplete heap ")?, false),
    };
    Some((words.split(' ').next()?.parse().ok()?, whole))
}
