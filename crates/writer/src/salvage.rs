//! What can still be read of a run start that the verifier refused: whose job it is, and who wants to hear of it.
//!
//! A start that was cut on its way, or that another version made, is refused all the same; its sender hears so under the id
//! that it knows. Each step is checked against the length of the message. What cannot be read is not there.
//! Source: `docs/formats/flatbuffers.md` sections 1 and 5 (slots of pl72).

use super::name::{is_job_id, is_topic};

/// Slots of pl72.
const JOB_ID: usize = 5;
const SERVICE_ID: usize = 7;
const CONTROL_TOPIC: usize = 12;
/// Bytes of an id or a topic; longer text is neither.
const LONGEST: usize = 249;

/// Texts of a start that cannot be read as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Salvaged<'a> {
    pub(super) job_id: Option<&'a str>,
    pub(super) service_id: Option<&'a str>,
    pub(super) control_topic: Option<&'a str>,
}

/// What there is of `start`, a buffer with the identifier pl72.
pub(super) fn salvage(start: &[u8]) -> Salvaged<'_> {
    Salvaged {
        job_id: text(start, JOB_ID).filter(|id| is_job_id(id)),
        service_id: text(start, SERVICE_ID),
        control_topic: text(start, CONTROL_TOPIC).filter(|topic| is_topic(topic)),
    }
}

fn u32_at(buffer: &[u8], at: usize) -> Option<usize> {
    let bytes = buffer.get(at..)?.first_chunk()?;
    usize::try_from(u32::from_le_bytes(*bytes)).ok()
}

fn u16_at(buffer: &[u8], at: usize) -> Option<usize> {
    Some(u16::from_le_bytes(*buffer.get(at..)?.first_chunk()?).into())
}

/// The text in a slot of the root table.
fn text(buffer: &[u8], slot: usize) -> Option<&str> {
    let table = u32_at(buffer, 0)?;
    let back = i32::from_le_bytes(*buffer.get(table..)?.first_chunk()?);
    let vtable = usize::try_from(i64::try_from(table).ok()? - i64::from(back)).ok()?;
    let entry = 4 + 2 * slot;
    if entry + 2 > u16_at(buffer, vtable)? {
        return None;
    }
    let field = u16_at(buffer, vtable.checked_add(entry)?).filter(|&offset| offset > 0)?;
    let field = table.checked_add(field)?;
    let begin = field.checked_add(u32_at(buffer, field)?)?;
    let length = u32_at(buffer, begin).filter(|&length| length <= LONGEST)?;
    let begin = begin.checked_add(4)?;
    std::str::from_utf8(buffer.get(begin..begin.checked_add(length)?)?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use fullcount_messages::{Message, RunStart, decode};

    fn start() -> Vec<u8> {
        let whole = RunStart {
            start_time: 1,
            stop_time: 0,
            run_name: Some("run"),
            instrument_name: Some("loki"),
            nexus_structure: Some("{\"children\": []}"),
            job_id: Some("job-1"),
            broker: None,
            service_id: Some("writer-2"),
            filename: Some("a.nxs"),
            n_periods: 1,
            detector_spectrum_map: None,
            metadata: Some("{}"),
            control_topic: Some("own"),
        };
        Message::Pl72(whole).encode()
    }

    #[test]
    fn who_sent_a_start_is_known_although_it_cannot_be_read() {
        let whole = start();
        let all = Salvaged {
            job_id: Some("job-1"),
            service_id: Some("writer-2"),
            control_topic: Some("own"),
        };
        assert_eq!(salvage(&whole), all);
        // Cut, and with text that is none.
        let cut = &whole[..whole.len() - 8];
        assert!(decode(cut).is_err());
        assert!(salvage(cut).job_id.is_some() || salvage(cut).control_topic.is_some());
        let mut broken = whole.clone();
        let at = whole.windows(5).position(|w| w == b"a.nxs").unwrap();
        broken[at] = 0xff;
        assert!(decode(&broken).is_err(), "text that is not UTF-8");
        assert_eq!(salvage(&broken), all);
        assert_eq!(salvage(b""), Salvaged::default());
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            at in 0_usize..200,
            value in any::<u8>(),
        ) {
            salvage(&bytes);
            let mut start = start();
            let at = at % start.len();
            start[at] = value;
            salvage(&start);
            salvage(&start[..at]);
        }
    }
}
