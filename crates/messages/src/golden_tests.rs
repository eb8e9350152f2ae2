//! Golden messages of other producers: each decodes to the expected fields, the damaged ones are refused.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::{Message, NotAMessage, Schema, decode};

fn vectors() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/flatbuffers")
}

fn expected() -> serde_json::Map<String, Value> {
    let text = fs::read_to_string(vectors().join("expected.json")).unwrap();
    let Value::Object(all) = serde_json::from_str(&text).unwrap() else { panic!("an object") };
    assert_eq!(all.len(), 39);
    all
}

#[test]
fn golden_messages_decode_to_what_is_expected() {
    let mut seen = std::collections::BTreeSet::new();
    for (name, entry) in expected() {
        let buffer = fs::read(vectors().join(&name)).unwrap();
        if entry["accept"] != true {
            continue;
        }
        let message = decode(&buffer).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(message.schema().identifier(), entry["schema"], "{name}");
        assert_eq!(serde_json::to_value(&message).unwrap(), entry["fields"], "{name}");
        seen.insert(message.schema());
        // What we write of it says the same, at any address.
        let ours = message.encode();
        for shift in 0..8 {
            let moved = [&vec![0xa5; shift][..], &ours].concat();
            assert_eq!(decode(&moved[shift..]).unwrap(), message, "{name}");
        }
    }
    // Those of slow control that only the file writer reads have no golden ones: the Python package makes them.
    let old = [Schema::Ev43, Schema::Ns10, Schema::Ep00, Schema::Senv, Schema::Adar];
    let made = [&old[..], &[Schema::Ep01, Schema::Se00, Schema::Tdct, Schema::Ad00]].concat();
    let golden = Schema::ALL.iter().copied().filter(|schema| !made.contains(schema));
    assert!(seen.into_iter().eq(golden), "a golden message for each schema");
}

#[test]
fn damaged_messages_are_refused_and_each_reason_has_its_counter() {
    use super::FlatCounter::*;
    let mut refused = 0;
    for (name, entry) in expected().into_iter().filter(|(_, entry)| entry["accept"] != true) {
        let buffer = fs::read(vectors().join(&name)).unwrap();
        let error = decode(&buffer).expect_err(&name);
        let counter = match name.as_str() {
            "invalid/empty.bin" | "invalid/too_short.bin" => TooShort,
            "invalid/ev44_wrong_identifier.bin" | "mo01_2018_no_identifier.bin" => UnknownSchema,
            _ => Damaged,
        };
        assert_eq!(error.counter(), counter, "{name}: {error}");
        assert!(entry["fields"].is_null() || name.starts_with("mo01_2018"), "{name}");
        refused += 1;
    }
    assert_eq!(refused, 8);
}

#[test]
fn a_golden_message_cut_anywhere_is_refused_or_still_whole() {
    for (name, entry) in expected().into_iter().filter(|(_, entry)| entry["accept"] == true) {
        let buffer = fs::read(vectors().join(&name)).unwrap();
        let whole = decode(&buffer).unwrap();
        let mut refused = 0;
        for end in 0..buffer.len() {
            match decode(&buffer[..end]) {
                // Padding at the end may go.
                Ok(message) => assert_eq!(message, whole, "{name} cut to {end}"),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > buffer.len() / 2, "{name}: {refused} of {} in {entry}", buffer.len());
    }
}

#[test]
fn no_changed_byte_of_a_golden_message_makes_a_panic() {
    let mut refused = 0;
    for (name, _) in expected() {
        let mut buffer = fs::read(vectors().join(&name)).unwrap();
        for at in 0..buffer.len() {
            let was = buffer[at];
            for value in [0, 1, 4, 0x7f, 0x80, 0xff, was ^ 1, was.wrapping_add(4)] {
                buffer[at] = value;
                match decode(&buffer) {
                    Ok(message) => drop(serde_json::to_string(&message).unwrap()),
                    Err(error) => refused += u32::from(!error.to_string().is_empty()),
                }
            }
            buffer[at] = was;
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn text_that_f142_once_had_is_refused_by_its_number() {
    let mut buffer = fs::read(vectors().join("f142_alarm.bin")).unwrap();
    // The tag of `Double`, 10, occurs once as a separate byte of value 10.
    let found: Vec<_> = (8..buffer.len())
        .filter(|&at| {
            let was = std::mem::replace(&mut buffer[at], 21);
            let hit = matches!(
                decode(&buffer),
                Err(NotAMessage::UnknownMember { schema: Schema::F142, field: "value", tag: 21 })
            );
            buffer[at] = was;
            hit
        })
        .collect();
    assert_eq!(found.len(), 1);
    assert!(matches!(decode(&buffer), Ok(Message::F142(_))));
}
