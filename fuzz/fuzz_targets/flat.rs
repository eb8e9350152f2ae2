//! Any bytes as messages of an event stream: no panic, and what is accepted can be shown, written and read again.
//!
//! The seeds are `vectors/flatbuffers`, damaged ones included.

#![no_main]

use fullcount_messages::{EventView, Message, decode};
use libfuzzer_sys::fuzz_target;

/// The columns as they lie there are those that were decoded, and both say no to the same buffers.
fn views(data: &[u8], message: Option<&Message<'_>>) {
    let view = EventView::ev44(data);
    if let (Ok(view), Some(Message::Ev44(events))) = (&view, message) {
        assert!(events.check().is_ok());
        let times: Vec<i32> = view.time_of_flight.iter().map(|t| i32::from_le_bytes(*t)).collect();
        assert_eq!(times, events.time_of_flight.as_deref().unwrap_or_default());
        let pixels: Vec<i32> =
            view.pixel.unwrap_or_default().iter().map(|p| i32::from_le_bytes(*p)).collect();
        assert_eq!(pixels, events.pixel_id.as_deref().unwrap_or_default());
    } else if let Some(Message::Ev44(events)) = message {
        assert!(events.check().is_err());
    }
    let _ = EventView::ev42(data);
    if let (Ok(view), Some(Message::Ev43(events))) = (EventView::ev43(data), message) {
        let times: Vec<u32> = view.time_of_flight.iter().map(|t| u32::from_le_bytes(*t)).collect();
        assert_eq!(times, events.time_of_flight.as_deref().unwrap_or_default());
        assert_eq!(Some(view.pulses.len()), events.pulse_time.as_ref().map(|times| times.len()));
        assert!(view.pulses.iter().all(|(_, first)| *first <= times.len()));
    }
}

fuzz_target!(|data: &[u8]| {
    views(data, decode(data).ok().as_ref());
    let message = match decode(data) {
        Ok(message) => message,
        Err(refused) => {
            assert!(!refused.to_string().is_empty());
            return;
        }
    };
    let text = serde_json::to_string(&message).expect("plain fields");
    if let Message::Ev44(events) = &message
        && let Ok(pulses) = events.pulses()
    {
        let mut end = 0;
        for (_, events) in pulses {
            assert_eq!(events.start, end);
            end = events.end;
        }
        assert_eq!(end, events.time_of_flight.as_ref().map_or(0, |times| times.len()));
    }
    // Shown, not compared: a float of the input may be no number, which is not equal to itself.
    let again = message.encode();
    let again = decode(&again).expect("ours");
    assert_eq!(serde_json::to_string(&again).expect("plain fields"), text);
});
