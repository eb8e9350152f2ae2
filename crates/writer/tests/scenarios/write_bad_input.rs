//! Bad input to the file writer: each piece is counted for its reason, orders are answered, and the service lives on.

use std::path::Path;

use crate::write_made::*;
use fullcount_messages::{Events42, Events44, Message};
use fullcount_writer::{Options, Service, WriteCounter};

const NOW: u64 = 1_000_000;
const S: i64 = 1_000_000_000;

fn service(folder: &Path) -> (Service, Broker) {
    let broker = Broker::with(&["events", "control"]);
    let options = Options { jobs: 100, ..options(folder) };
    (Service::new(options, NOW, &broker).unwrap(), broker)
}

/// Event messages whose headers are right and whose vectors contradict them or each other.
fn contradictory() -> Vec<Vec<u8>> {
    let good = || Events44 {
        source_name: "bank",
        message_id: 1,
        reference_time: vec![S, 2 * S].into(),
        reference_time_index: vec![0, 1].into(),
        time_of_flight: Some(vec![1, 2, 3].into()),
        pixel_id: Some(vec![1, 2, 3].into()),
    };
    let wrong: Vec<Message<'static>> = vec![
        Message::Ev44(Events44 { pixel_id: Some(vec![1, 2].into()), ..good() }),
        Message::Ev44(Events44 { time_of_flight: Some(vec![1].into()), ..good() }),
        Message::Ev44(Events44 { reference_time_index: vec![0].into(), ..good() }),
        Message::Ev44(Events44 { reference_time_index: vec![0, 4].into(), ..good() }),
        Message::Ev44(Events44 { reference_time_index: vec![0, -1].into(), ..good() }),
        Message::Ev44(Events44 { reference_time_index: vec![2, 1].into(), ..good() }),
        Message::Ev42(Events42 {
            source_name: Some("bank"),
            message_id: 1,
            pulse_time: S as u64,
            time_of_flight: Some(vec![1, 2, 3].into()),
            detector_id: Some(vec![1].into()),
            facility_specific_data: None,
        }),
    ];
    wrong.iter().map(Message::encode).collect()
}

#[test]
fn malformed_unknown_and_contradictory_messages_cost_no_other_message() {
    let dir = tempfile::tempdir().unwrap();
    let (mut service, mut broker) = service(dir.path());
    // Both schemas, so that both are looked at.
    let structure = structure_of_events(1024);
    let order = Message::Pl72(start("a", "a.nxs", &structure)).encode();
    service.order(&pool(0, &order), NOW, &broker);
    let invalid = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/flatbuffers/invalid");
    let mut files: Vec<_> =
        std::fs::read_dir(invalid).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 7, "{files:?}");
    let invalid: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    let bad: Vec<Vec<u8>> = invalid.into_iter().chain(contradictory()).collect();
    for (n, bytes) in bad.iter().enumerate() {
        broker.send_bytes("events", NOW, bytes.clone());
        broker.send("events", NOW, &ev44("bank", n as i64, S + n as i64, &[5], &[1]));
    }
    broker.feed(&mut service, NOW, usize::MAX);
    let reasons = [
        WriteCounter::TooShort,
        WriteCounter::UnknownSchema,
        WriteCounter::Damaged,
        WriteCounter::Contradictory,
        // ev42 is on a topic of which the structure wants ev44 only.
        WriteCounter::NotAsked,
    ]
    .map(|counter| count(&service, counter));
    assert_eq!(reasons, [2, 1, 4, 6, 1]);
    assert_eq!(count(&service, WriteCounter::Ev44), bad.len() as u64);
    service.order(&pool(1, &Message::S6s4t(stop("a", NOW + 1, "c")).encode()), NOW, &broker);
    broker.feed(&mut service, NOW + 10_002, usize::MAX);
    service.tick(NOW + 10_002);
    let done = replies(&mut service).into_iter().find(|(_, m)| m["schema"] == "wrdn").unwrap().1;
    assert_eq!(
        done["error_encountered"], false,
        "what others send is no fault of the file: {done}"
    );
    assert!(done["metadata"].as_str().unwrap().contains("\"messages_refused\":13"), "{done}");
    let file = hdf5_metno::File::open(dir.path().join("a.nxs")).unwrap();
    assert_eq!(file.dataset("/entry/bank_events/event_id").unwrap().size(), bad.len());
    let refused = file.dataset("/entry/fullcount/messages_refused").unwrap();
    assert_eq!(refused.read_scalar::<u64>().unwrap(), 13);
    assert_balanced(&service);
}

#[test]
fn an_order_cut_anywhere_is_answered_counted_and_survived() {
    let dir = tempfile::tempdir().unwrap();
    let (mut service, broker) = service(dir.path());
    let structure = structure_of_events(1024);
    let orders = [
        ("StartJob", Message::Pl72(start("a", "a.nxs", &structure)).encode()),
        ("SetStopTime", Message::S6s4t(stop("a", NOW + 5, "c")).encode()),
    ];
    let mut broken = 0;
    for (action, whole) in &orders {
        // Cut and overwritten all over; what is still an order by chance is answered as one.
        for at in (8..whole.len()).step_by(1 + whole.len() / 97) {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x80;
            for bytes in [whole[..at].to_vec(), flipped] {
                let before = count(&service, WriteCounter::OrderBroken);
                service.order(&pool(at as i64, &bytes), NOW, &broker);
                let answers = replies(&mut service);
                let answers: Vec<_> =
                    answers.iter().filter(|(_, m)| m["schema"] == "answ").collect();
                if count(&service, WriteCounter::OrderBroken) == before {
                    assert!(answers.len() <= 1);
                    continue;
                }
                broken += 1;
                let [(topic, answer)] = answers[..] else { panic!("{answers:?}") };
                assert_eq!(topic, "control");
                assert_eq!(
                    (&answer["action"], &answer["outcome"], &answer["status_code"]),
                    (&(*action).into(), &"Failure".into(), &400.into())
                );
                let place = format!("order at pool/0/{at}: ");
                assert!(answer["message"].as_str().unwrap().starts_with(&place), "{answer}");
            }
        }
    }
    assert!(broken > 100, "{broken}");
    // Whatever was taken of these, the next order is obeyed.
    let order = Message::Pl72(start("next", "next.nxs", &structure)).encode();
    service.order(&pool(9_999, &order), NOW, &broker);
    assert!(service.jobs().any(|job| job.id() == "next"));
    assert_balanced(&service);
}

/// Messages with the topic that they come on and the counter of what is wrong with them.
fn bad_messages() -> Vec<(&'static str, Vec<u8>, WriteCounter)> {
    let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/flatbuffers");
    let cut = {
        let mut whole = ev44("bank", 1, S, &[5], &[1]).encode();
        whole.truncate(whole.len() / 2);
        whole
    };
    let mut unknown = ev44("bank", 1, S, &[5], &[1]).encode();
    unknown[4..8].copy_from_slice(b"zz99");
    let ev42_short = Message::Ev42(Events42 {
        source_name: Some("old"),
        message_id: 1,
        pulse_time: S as u64,
        time_of_flight: Some(vec![1, 2, 3].into()),
        detector_id: Some(vec![1].into()),
        facility_specific_data: None,
    });
    let image = [0_u8; 11];
    let signal = [0_u8; 12];
    let Message::Se00(mut few_times) = se00("fast", S, vec![1, 2, 3]) else { panic!("se00") };
    few_times.timestamps = Some(vec![S, S + 1].into());
    let of_the_past = std::fs::read(format!("{vectors}/mo01_2018_no_identifier.bin")).unwrap();
    vec![
        ("events", vec![1, 2, 3], WriteCounter::TooShort),
        ("events", cut, WriteCounter::Damaged),
        ("events", unknown, WriteCounter::UnknownSchema),
        ("events", of_the_past, WriteCounter::UnknownSchema),
        ("events", contradictory().remove(0), WriteCounter::Contradictory),
        ("events", ev42_short.encode(), WriteCounter::Contradictory),
        ("logs", ad00("camera", S, &image).encode(), WriteCounter::Shape),
        ("logs", da00("spectrum", S, &signal, &image).encode(), WriteCounter::Shape),
        ("logs", hs01("histogram", S, vec![1, 2], vec![1.0]).encode(), WriteCounter::Shape),
        ("logs", Message::Se00(few_times).encode(), WriteCounter::Shape),
    ]
}

/// Every kind of bad input that a writer has to live with, one after the other, at one service with a run under way. An
/// order is answered with an error, everything is counted, and the run's file holds what is good.
#[test]
fn each_kind_of_bad_input_is_counted_answered_if_it_is_an_order_and_survived() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Broker::with(&["events", "logs", "control"]);
    let mut service = Service::new(options(dir.path()), NOW, &broker).unwrap();
    let structure = structure_of_all().to_string();
    let run = || Message::Pl72(start("run", "run.nxs", &structure));
    service.order(&pool(0, &run().encode()), NOW, &broker);
    assert_eq!(replies(&mut service)[0].1["status_code"], 201);
    let mut good = 0;

    let bad = bad_messages();
    for (i, (topic, bytes, counter)) in bad.iter().enumerate() {
        let before = count(&service, *counter);
        broker.send_bytes(topic, NOW, bytes.clone());
        broker.send("events", NOW, &ev44("bank", i as i64, S, &[5], &[1]));
        good += 1;
        broker.feed(&mut service, NOW, usize::MAX);
        assert_eq!(count(&service, *counter), before + 1, "message {i}: {counter:?}");
        assert_eq!(count(&service, WriteCounter::Ev44), good, "message {i}");
    }

    // Orders.
    let cut = {
        let mut whole = run().encode();
        whole.truncate(whole.len() / 2);
        whole
    };
    let outside = start("other", "../other.nxs", &structure);
    let orders: Vec<(Vec<u8>, &str, &str, WriteCounter, &str)> = vec![
        // Cut, but its job can still be read.
        (cut, "StartJob", "run", WriteCounter::OrderBroken, "order at pool/0/1: "),
        (
            Message::Pl72(outside).encode(),
            "StartJob",
            "other",
            WriteCounter::OrderPath,
            "leads out of",
        ),
        (run().encode(), "StartJob", "run", WriteCounter::OrderTwice, "runs here"),
        (
            Message::S6s4t(stop("run", NOW - 20_000, "late")).encode(),
            "SetStopTime",
            "run",
            WriteCounter::OrderPast,
            "in the past",
        ),
    ];
    for (i, (bytes, action, job, counter, words)) in orders.iter().enumerate() {
        service.order(&pool(1 + i as i64, bytes), NOW, &broker);
        assert_eq!(count(&service, *counter), 1, "order {i}");
        let all: Vec<_> = replies(&mut service).into_iter().map(|(_, m)| m).collect();
        let [answer] = &all[..] else { panic!("order {i}: {all:?}") };
        let found = (&answer["schema"], &answer["action"], &answer["outcome"], &answer["job_id"]);
        let wanted = ("answ".into(), (*action).into(), "Failure".into(), (*job).into());
        assert_eq!(found, (&wanted.0, &wanted.1, &wanted.2, &wanted.3), "order {i}");
        assert_eq!(answer["status_code"], 400, "order {i}");
        assert!(answer["message"].as_str().unwrap().contains(words), "{answer}");
    }
    assert!(!dir.path().join("../other.nxs").exists());

    service.order(&pool(9, &Message::S6s4t(stop("run", 0, "now")).encode()), NOW, &broker);
    broker.feed(&mut service, NOW + 10_001, usize::MAX);
    service.tick(NOW + 10_001);
    let done = replies(&mut service).into_iter().find(|(_, m)| m["schema"] == "wrdn").unwrap().1;
    assert_eq!(done["error_encountered"], false, "{done}");
    let file = hdf5_metno::File::open(dir.path().join("run.nxs")).unwrap();
    assert_eq!(file.dataset("/entry/bank_events/event_id").unwrap().size() as u64, good);
    let refused = file.dataset("/entry/fullcount/messages_refused").unwrap();
    assert_eq!(refused.read_scalar::<u64>().unwrap(), bad.len() as u64);
    assert_balanced(&service);
}
