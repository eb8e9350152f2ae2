//! The event writer against the generated reader and builder; the rules that the verifier does not check.

use std::borrow::Cow;

use fullcount_core::products::EventBatch;
use fullcount_core::time::PulseTime;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{EventFault, EventWriter, Events42, Events44, Message, decode};

fn batch() -> impl Strategy<Value = EventBatch> {
    let event = (0u32..1 << 31, 1u32..1 << 31);
    vec((any::<i64>(), vec(event, 0..30)), 0..6).prop_map(|pulses| {
        let mut batch = EventBatch::default();
        for (pulse, events) in pulses {
            batch.open_pulse(PulseTime(pulse));
            events.iter().for_each(|&(offset, pixel)| batch.push(offset, pixel));
        }
        batch
    })
}

fn signed(column: &[u32]) -> Cow<'static, [i32]> {
    column.iter().map(|&value| i32::try_from(value).unwrap()).collect()
}

proptest! {
    #[test]
    fn a_batch_as_ev44_is_read_back_and_equals_what_the_builder_makes(
        source in "[a-zµ]{0,12}",
        id in any::<i64>(),
        batches in vec(batch(), 1..4),
    ) {
        // One writer for all: nothing of an older message is in the next.
        let mut writer = EventWriter::new();
        for batch in &batches {
            let buffer = writer.ev44(&source, id, batch).unwrap().to_vec();
            let wanted = Message::Ev44(Events44 {
                source_name: &source,
                message_id: id,
                reference_time: Cow::Borrowed(&batch.pulse_ns),
                reference_time_index: signed(&batch.pulse_first),
                time_of_flight: Some(signed(&batch.offset_ns)),
                pixel_id: Some(signed(&batch.pixel)),
            });
            prop_assert_eq!(&decode(&buffer).unwrap(), &wanted);
            let built = wanted.encode();
            prop_assert_eq!(&decode(&built).unwrap(), &wanted);
            let fresh = EventWriter::new().ev44(&source, id, batch).unwrap().to_vec();
            prop_assert_eq!(fresh, buffer, "the memory's past shows");
            let Ok(Message::Ev44(read)) = decode(writer.ev44(&source, id, batch).unwrap()) else {
                return Err(TestCaseError::fail("ev44"));
            };
            if batch.pulse_ns.is_empty() {
                prop_assert_eq!(read.check(), Err(EventFault::NoPulse));
            } else {
                let ranges: Vec<_> = read.pulses().unwrap().collect();
                prop_assert_eq!(ranges.len(), batch.pulse_ns.len());
                prop_assert_eq!(ranges.last().unwrap().1.end, batch.len());
            }
        }
    }

    #[test]
    fn a_pulse_as_ev42_is_read_back(
        source in "[a-z]{0,12}",
        id in any::<u64>(),
        pulse in any::<u64>(),
        events in vec((any::<u32>(), any::<u32>()), 0..50),
    ) {
        let (offsets, pixels): (Vec<_>, Vec<_>) = events.into_iter().unzip();
        let mut writer = EventWriter::new();
        let wanted = Message::Ev42(Events42 {
            source_name: Some(&source),
            message_id: id,
            pulse_time: pulse,
            time_of_flight: Some(Cow::Borrowed(&offsets)),
            detector_id: Some(Cow::Borrowed(&pixels)),
            facility_specific_data: None,
        });
        let buffer = writer.ev42(&source, id, pulse, &offsets, &pixels).unwrap();
        prop_assert_eq!(decode(buffer).unwrap(), wanted);
    }
}

#[test]
fn a_full_message_has_the_size_of_its_contents() {
    let mut batch = EventBatch::default();
    batch.open_pulse(PulseTime(1_527_854_400_000_000_000));
    (0..12_400).for_each(|i| batch.push(i, i + 1));
    let mut writer = EventWriter::new();
    let bytes = writer.ev44("sonde", 1, &batch).unwrap().len();
    assert_eq!(bytes - 8 * 12_400, 96, "what is in front of 12400 events of 8 bytes");
}

#[test]
fn a_message_above_what_offsets_span_is_refused_before_anything_is_taken() {
    let mut writer = EventWriter::new();
    // 1 GiB of address space that is never touched, given twice.
    let zeros = vec![0u32; 1 << 28];
    let error = writer.ev44_columns("x", 0, &[0], &[0], &zeros, &zeros).unwrap_err();
    assert_eq!(error.bytes, (8 << 28) + 96);
    assert!(error.to_string().contains("2147483744 bytes"), "{error}");
    assert_eq!(writer.ev42("x", 0, 0, &zeros, &zeros).unwrap_err().bytes, (8 << 28) + 80);
    assert!(writer.ev44_columns("x", 0, &[0], &[0], &zeros[..5], &zeros[..5]).is_ok());
}

fn events44(times: &[i64], firsts: &[i32], tof: usize, pixels: usize) -> Events44<'static> {
    Events44 {
        source_name: "x",
        message_id: 0,
        reference_time: times.to_vec().into(),
        reference_time_index: firsts.to_vec().into(),
        time_of_flight: Some(vec![1; tof].into()),
        pixel_id: Some(vec![1; pixels].into()),
    }
}

#[test]
fn what_contradicts_itself_is_told_by_name() {
    use EventFault::*;
    let check = |times: &[i64], firsts: &[i32], tof, pixels| {
        let events = events44(times, firsts, tof, pixels);
        assert_eq!(events.pulses().err(), events.check().err());
        events.check()
    };
    assert_eq!(check(&[5], &[0], 3, 3), Ok(()));
    assert_eq!(check(&[5], &[0], 3, 0), Ok(()), "one pixel");
    assert_eq!(check(&[5, 6, 7], &[0, 2, 2], 3, 3), Ok(()));
    assert_eq!(check(&[5, 6], &[0, 3], 3, 3), Ok(()), "the last pulse is empty");
    assert_eq!(check(&[], &[], 0, 0), Err(NoPulse));
    assert_eq!(check(&[5, 6], &[0], 3, 3), Err(IndexCount { pulses: 2, indices: 1 }));
    assert_eq!(check(&[5], &[1], 3, 3), Err(IndexStart(1)));
    assert_eq!(check(&[5], &[-1], 3, 3), Err(IndexStart(-1)));
    assert_eq!(check(&[5, 6, 7], &[0, 2, 1], 3, 3), Err(IndexOrder { pulse: 2, index: 1 }));
    assert_eq!(check(&[5, 6], &[0, -2], 3, 3), Err(IndexOrder { pulse: 1, index: -2 }));
    assert_eq!(check(&[5, 6], &[0, 4], 3, 3), Err(IndexRange { pulse: 1, index: 4, events: 3 }));
    assert_eq!(check(&[5], &[0], 3, 2), Err(Lengths { times: 3, pixels: 2 }));
    assert_eq!(check(&[5], &[0], 0, 2), Err(Lengths { times: 0, pixels: 2 }));
    let ranges = events44(&[5, 6, 7], &[0, 2, 2], 3, 3).pulses().unwrap().collect::<Vec<_>>();
    assert_eq!(ranges, [(5, 0..2), (6, 2..2), (7, 2..3)]);
}

#[test]
fn ev43_is_seen_as_it_lies_there_and_contradictions_are_told() {
    use super::{EventRefused, EventView, Events43};
    let seen = |zero: &[u64], first: &[u32], tof: &[u32], pixel: &[u32]| {
        let message = Message::Ev43(Events43 {
            source_name: Some("bank"),
            message_id: 7,
            pulse_time: Some(zero.to_vec().into()),
            pulse_index: Some(first.to_vec().into()),
            time_of_flight: Some(tof.to_vec().into()),
            detector_id: Some(pixel.to_vec().into()),
        });
        let buffer = message.encode();
        EventView::ev43(&buffer).map(|view| {
            assert_eq!((view.source_name, view.message_id, view.unsigned), ("bank", 7, true));
            let bytes = |all: &[u32]| all.iter().map(|n| n.to_le_bytes()).collect::<Vec<_>>();
            assert_eq!(
                (view.time_of_flight, view.pixel),
                (&bytes(tof)[..], Some(&bytes(pixel)[..]))
            );
            view.pulses
        })
    };
    assert_eq!(seen(&[5, 6], &[0, 1], &[1, 2], &[3, u32::MAX]), Ok(vec![(5, 0), (6, 1)]));
    assert_eq!(seen(&[5], &[0], &[], &[]), Ok(vec![(5, 0)]));
    let fault = |zero: &[u64], first: &[u32], pixels: usize| match seen(
        zero,
        first,
        &[1, 2],
        &vec![1; pixels],
    ) {
        Err(EventRefused::Fault(fault)) => fault,
        other => panic!("{other:?}"),
    };
    assert_eq!(fault(&[], &[], 2), EventFault::NoPulse);
    assert_eq!(fault(&[5], &[0], 1), EventFault::Lengths { times: 2, pixels: 1 });
    assert_eq!(fault(&[5], &[0], 0), EventFault::Lengths { times: 2, pixels: 0 });
    assert_eq!(fault(&[5, 6], &[0], 2), EventFault::IndexCount { pulses: 2, indices: 1 });
    assert_eq!(fault(&[5], &[1], 2), EventFault::IndexStart(1));
    assert_eq!(fault(&[5, 6, 7], &[0, 2, 1], 2), EventFault::IndexOrder { pulse: 2, index: 1 });
    let index = i64::from(u32::MAX);
    let range = EventFault::IndexRange { pulse: 1, index, events: 2 };
    assert_eq!(fault(&[5, 6], &[0, u32::MAX], 2), range);
    assert_eq!(fault(&[u64::MAX], &[0], 2), EventFault::PulseTime(u64::MAX));
    // Nothing at all said: no pulse.
    let empty = Message::Ev43(Events43 {
        source_name: None,
        message_id: 0,
        pulse_time: None,
        pulse_index: None,
        time_of_flight: None,
        detector_id: None,
    });
    assert!(matches!(
        EventView::ev43(&empty.encode()),
        Err(EventRefused::Fault(EventFault::NoPulse))
    ));
}
