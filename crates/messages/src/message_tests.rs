//! Reading inverts writing, and no bytes make a panic or a large allocation.

use flatbuffers::FlatBufferBuilder;
use proptest::prelude::*;

use super::arbitrary::message;
use super::generated::{da00, ev44};
use super::{
    Events42, FacilityData, FlatCounter, IsisData, LogEntry142, LogEntry144, LogValue, Message,
    NotAMessage, RunState, Schema, decode,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn reading_inverts_writing(message in message()) {
        let buffer = message.encode();
        let read = decode(&buffer).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(&read, &message);
        prop_assert_eq!(read.schema().identifier().as_bytes(), &buffer[4..8]);
    }

    #[test]
    fn no_bytes_make_a_panic(
        schema in proptest::sample::select(Schema::ALL),
        root in 0u32..64,
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut buffer = root.to_le_bytes().to_vec();
        buffer.extend(schema.identifier().as_bytes());
        buffer.extend(&bytes);
        if let Ok(message) = decode(&buffer) {
            prop_assert_eq!(message.schema(), schema);
            prop_assert!(serde_json::to_string(&message).is_ok());
        }
        let _ = decode(&bytes);
    }

    #[test]
    fn damage_to_a_message_is_refused_or_read_without_panic(
        message in message(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut buffer = message.encode();
        for (at, value) in damage {
            let at = at.index(buffer.len());
            buffer[at] = value;
        }
        if let Ok(message) = decode(&buffer) {
            // What came through the verifier can be shown and written again.
            prop_assert!(serde_json::to_string(&message).is_ok());
            prop_assert!(decode(&message.encode()).is_ok());
        }
    }
}

#[test]
fn identifiers_are_those_of_the_format_and_lead_back() {
    let all: Vec<_> = Schema::ALL.iter().map(|schema| schema.identifier()).collect();
    assert_eq!(
        all.join(" "),
        "ev42 ev44 hs00 hs01 da00 ar51 f142 f144 al00 json x5f2 pl72 6s4t answ wrdn mo01 ep01 se00 tdct ad00 \
         ev43 ns10 ep00 senv ADAr"
    );
    for &schema in Schema::ALL {
        let identifier = schema.identifier().as_bytes().try_into().unwrap();
        assert_eq!(Schema::of(identifier), Some(schema));
        assert_eq!(schema.to_string(), schema.identifier());
    }
}

/// Each number that equality alone would let through with another sign or another payload.
const HARD: [f64; 5] =
    [-0.0, 0.0, f64::NAN, f64::NEG_INFINITY, f64::from_bits(0xfff0_0000_0000_0001)];

#[test]
fn minus_zero_and_what_is_no_number_keep_their_bits_in_logs() {
    for value in HARD {
        let (source_name, timestamp) = ("x", 0);
        let written = LogEntry144 { source_name, timestamp, value: LogValue::Double(value) };
        let buffer = Message::F144(written).encode();
        let Ok(Message::F144(read)) = decode(&buffer) else { panic!("f144") };
        let LogValue::Double(read) = read.value else { panic!("a double") };
        assert_eq!(read.to_bits(), value.to_bits());
        let value = value as f32;
        let written = LogEntry142 {
            source_name: None,
            value: Some(LogValue::Float(value)),
            timestamp: 0,
            status: super::AlarmStatus::NoChange,
            severity: super::AlarmSeverity::NoChange,
        };
        let buffer = Message::F142(written).encode();
        let Ok(Message::F142(read)) = decode(&buffer) else { panic!("f142") };
        let Some(LogValue::Float(read)) = read.value else { panic!("a float") };
        assert_eq!(read.to_bits(), value.to_bits());
    }
}

#[test]
fn minus_zero_and_what_is_no_number_keep_their_bits_in_proton_charges() {
    for value in HARD {
        let proton_charge = value as f32;
        let isis = IsisData { period_number: 0, run_state: RunState::ALL[0], proton_charge };
        let written = Events42 {
            source_name: Some("x"),
            message_id: 0,
            pulse_time: 0,
            time_of_flight: None,
            detector_id: None,
            facility_specific_data: Some(FacilityData::Isis(isis)),
        };
        let buffer = Message::Ev42(written).encode();
        let Ok(Message::Ev42(read)) = decode(&buffer) else { panic!("ev42") };
        let Some(FacilityData::Isis(read)) = read.facility_specific_data else { panic!("ISIS") };
        assert_eq!(read.proton_charge.to_bits(), proton_charge.to_bits());
    }
}

#[test]
fn a_small_buffer_that_names_one_vector_many_times_is_refused() {
    let mut builder = FlatBufferBuilder::new();
    let name = builder.create_string("x");
    let shape = builder.create_vector(&[1i64]);
    let data = builder.create_vector(&vec![7u8; 10_000]);
    let args = da00::da00_VariableArgs {
        name: Some(name),
        shape: Some(shape),
        data: Some(data),
        ..Default::default()
    };
    let variable = da00::da00_Variable::create(&mut builder, &args);
    let message = |builder: &mut FlatBufferBuilder<'static>, times: usize| {
        let mut builder = std::mem::take(builder);
        let variables = builder.create_vector(&vec![variable; times]);
        let args = da00::da00_DataArrayArgs {
            source_name: Some(name),
            timestamp: 0,
            data: Some(variables),
        };
        let root = da00::da00_DataArray::create(&mut builder, &args);
        builder.finish(root, Some("da00"));
        builder.finished_data().to_vec()
    };
    // 2000 variables of 10 kB: 20 MB out of 18 kB.
    let buffer = message(&mut builder, 2000);
    assert!(buffer.len() < 20_000);
    let error = decode(&buffer).unwrap_err();
    assert!(matches!(error, NotAMessage::Damaged { schema: Schema::Da00, .. }), "{error}");
    assert_eq!(error.counter(), FlatCounter::Damaged);
}

#[test]
fn fields_behind_the_last_known_one_are_ignored() {
    let mut builder = FlatBufferBuilder::new();
    let name = builder.create_string("later");
    let times = builder.create_vector(&[5i64]);
    let firsts = builder.create_vector(&[0i32]);
    let weight = builder.create_vector(&[1i16, 2]);
    let table = builder.start_table();
    builder.push_slot_always(ev44::Event44Message::VT_SOURCE_NAME, name);
    builder.push_slot_always(ev44::Event44Message::VT_REFERENCE_TIME, times);
    builder.push_slot_always(ev44::Event44Message::VT_REFERENCE_TIME_INDEX, firsts);
    builder.push_slot_always(4 + 2 * 6, weight);
    let root = builder.end_table(table);
    builder.finish(root, Some("ev44"));
    let Ok(Message::Ev44(events)) = decode(builder.finished_data()) else { panic!("ev44") };
    assert_eq!((events.source_name, &events.reference_time[..]), ("later", &[5][..]));
    assert_eq!(events.message_id, 0, "absent: the default");
    assert_eq!((events.time_of_flight, events.pixel_id), (None, None));
}
