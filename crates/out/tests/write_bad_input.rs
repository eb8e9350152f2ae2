//! Bad input to the file writer: each piece is counted for its reason, orders are answered, and the service lives on.
#![cfg(feature = "nexus")]

mod write_made;

use std::path::Path;

use fullcount_out::flat::{Events42, Events44, Message};
use fullcount_out::write::{Options, Service, WriteCounter};
use write_made::*;

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
