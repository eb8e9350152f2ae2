//! What the readout unit counts: blocks in hop `decode`, fragments in `fragments`, events in `events`.
//!
//! Behind these lines stand [`PerSource`] lines for each configured source, named by its id. Source: `docs/fragments.md`.

use fullcount_core::ledger::{Info, Merge, Role, Unit};

use super::block::BlockRefusal;

fullcount_core::counters! {
    /// Lines of the unit's sheet.
    pub enum FragmentCounter {
        Packets "decode.packets" Packets Sum "decode" In "blocks given to the decoder" "";
        Accepted "decode.accepted" Packets Sum "decode" Accepted "blocks with a right header" "";
        ShortBlock "errors.bad_size.short_block" Packets Sum "decode" Rejected
            "blocks below 16 bytes" "something else sends to this port: look at it with `fullcount inspect`";
        Signature "errors.header.signature" Packets Sum "decode" Rejected
            "blocks that do not begin with 47 5a" "something else sends to this port: look at it with `fullcount inspect`";
        BlockLength "errors.bad_size.block_length" Packets Sum "decode" Rejected
            "blocks whose header tells another length than they have, or above 4080 bytes of payload"
            "the sender is damaged, or the framing of the source is not that of these blocks";
        BlockOrder "blocks.out_of_order" Packets Sum "decode" Note
            "blocks that do not follow the one before: number, event or source; their fragment is marked as broken"
            "the sender lost blocks, or several write to one stream";
        Count "fragments.count" Fragments Sum "fragments" In "fragments that came to their end" "";
        Merged "fragments.merged" Fragments Sum "fragments" Accepted "fragments that left with their event" "";
        Repeated "fragments.repeated" Fragments Sum "fragments" Rejected
            "fragments with a number that their source has had; the first is kept" "the sender repeats or counts backwards: restart all senders together";
        Late "fragments.late" Fragments Sum "fragments" Rejected
            "fragments whose event had left" "raise detector.event_timeout or detector.memory, or look why the source is slow";
        Unknown "fragments.unknown_source" Fragments Sum "fragments" Rejected
            "fragments of sources that detector.sources does not name; their stream is closed" "add the source, or stop its sender";
        Doubled "fragments.doubled_source" Fragments Sum "fragments" Rejected
            "fragments of a stream whose source another open stream has; the stream is closed" "two senders have one source id: give each its own";
        Waiting "fragments.waiting" Fragments Sum "fragments" Queued "fragments that wait for those of the other sources" "";
        Lost "fragments.lost" Fragments Sum "fragments" Missing(Unknown)
            "fragments missing from events: numbers that a source left out, sources that did not come in time or at all"
            "fragments.source.N.lost names the source; look at its sender";
        LostDown "fragments.lost.down" Fragments Sum "fragments" Missing(Down)
            "fragments of events before the first one of their source, or from detector.first_event to the first event that came"
            "the unit was not running, or a sender began later than the others";
        AtEnd "fragments.not_awaited" Fragments Sum "fragments" Note
            "fragments missing from events that left at the end of the run, of sources that were connected and had not been silent for a second while something waited for them" "";
        Unfinished "fragments.unfinished" Fragments Sum "fragments" Note
            "beginnings of fragments whose stream ended" "the sender was killed, or the connection broke";
        Checked "fragments.checked" Fragments Sum "fragments" Note "fragments whose checksum was computed" "";
        WrongCrc "fragments.wrong_crc" Fragments Sum "fragments" Note
            "fragments with a wrong checksum; their event is marked" "look at the link and the memory of the sender that fragments.source.N.bad names";
        WrongFrame "fragments.wrong_frame" Fragments Sum "fragments" Note
            "fragments without header or trailer; their event is marked" "the sender is damaged";
        WrongLength "fragments.wrong_length" Fragments Sum "fragments" Note
            "fragments with another length than their trailer says; their event is marked" "the sender is damaged, or lost blocks";
        WrongNumber "fragments.wrong_number" Fragments Sum "fragments" Note
            "fragments whose header has another event number or source than their blocks; their event is marked" "the sender is damaged";
        Gaps "fragments.gaps" Times Sum "fragments" Note "times that a source left out numbers" "";
        Warning "throttling.warning" Fragments Sum "fragments" Note "fragments whose trailer says throttling state 1: warning, nearly full" "";
        OutOfSync "throttling.out_of_sync" Fragments Sum "fragments" Note
            "fragments whose trailer says throttling state 2: out of synchronisation" "resynchronise the source";
        Busy "throttling.busy" Fragments Sum "fragments" Note "fragments whose trailer says throttling state 4: busy" "";
        Failing "throttling.error" Fragments Sum "fragments" Note "fragments whose trailer says throttling state 12: error" "look at the source";
        Disconnected "throttling.disconnected" Fragments Sum "fragments" Note "fragments whose trailer says throttling state 15: disconnected" "look at the source";
        UnknownState "throttling.unknown" Fragments Sum "fragments" Note
            "fragments whose trailer says a throttling state that nobody has defined: 3, 5 to 7, 9 to 11, 13, 14" "look at the source";
        Decided "events.decided" Events Sum "events" In "events that left" "";
        Events "events.count" Events Sum "events" Accepted "events that left, complete or not" "";
        Incomplete "events.incomplete" Events Sum "events" Note "events that left without all their fragments" "";
        Marked "events.marked" Events Sum "events" Note "events with a fragment that is damaged" "";
        Expired "events.expired" Events Sum "events" Note "events that left because detector.event_timeout was over" "look at fragments.source.N.lost";
        ExpiredMs "events.expired_ms" Times Max "events" Note
            "greatest age that an event's first fragment had when it left because detector.event_timeout was over, ms"
            "more than 5 above detector.event_timeout: the unit, an output or the host is too slow; up to 20 above it also where the unit had paused a stream (tcp.pauses)";
        Forced "events.forced" Events Sum "events" Note
            "events that left because detector.memory was full and the source of the data cannot wait" "raise detector.memory, or send over tcp://";
        Skipped "events.skipped" Events Sum "events" Note "numbers that no source had" "";
        Restarts "events.restarts" Events Sum "events" Note "times that all senders ended and began anew with lower numbers" "";
        Bytes "events.bytes" Bytes Sum "events" Note "bytes of fragments that left with their events" "";
        Held "merge.held" Bytes Present "fragments" Note
            "memory of fragments that wait: for other sources, for the end of an earlier stream, for their own rest; with what is noted of each" "";
        Pauses "merge.pauses" Times Sum "fragments" Note
            "times that a stream which is ahead of the others was paused" "it is no loss: the streams that are awaited are slower; detector.memory holds more";
        Paused "merge.paused" Times Present "fragments" Note "streams that are paused now" "";
        Awaited "merge.awaited" Times Present "fragments" Note "sources that the next event waits for" "";
        Absent "merge.absent" Times Present "fragments" Note "configured sources without an open stream" "start their senders; fragments.source.N.streams tells which";
        OldestMs "merge.oldest_ms" Times Max "fragments" Note "age of the oldest fragment that waits, ms" "a source is slow or stopped: fragments.source.N.streams, tcp.stalled";
    }
}

impl FragmentCounter {
    /// The one counter of a reason.
    pub fn of(refusal: BlockRefusal) -> FragmentCounter {
        match refusal {
            BlockRefusal::Short => FragmentCounter::ShortBlock,
            BlockRefusal::Signature => FragmentCounter::Signature,
            BlockRefusal::Length => FragmentCounter::BlockLength,
        }
    }

    /// The counter of a throttling state; `None`: ready (8), or nothing said (0).
    pub fn of_throttling(state: u8) -> Option<FragmentCounter> {
        match state {
            1 => Some(FragmentCounter::Warning),
            2 => Some(FragmentCounter::OutOfSync),
            4 => Some(FragmentCounter::Busy),
            12 => Some(FragmentCounter::Failing),
            15 => Some(FragmentCounter::Disconnected),
            0 | 8 => None,
            _ => Some(FragmentCounter::UnknownState),
        }
    }
}

/// Lines of each source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PerSource {
    Count,
    Lost,
    Bad,
    Streams,
    Throttled,
    Awaited,
    First,
}

impl PerSource {
    const ALL: [(&'static str, &'static str); 7] = [
        ("count", "fragments of this source"),
        ("lost", "fragments of this source that are missing from events"),
        ("bad", "fragments of this source that are damaged"),
        ("streams", "open streams of this source: 0 or 1"),
        (
            "throttled",
            "fragments of this source whose trailer says another throttling state than ready (8) or none (0)",
        ),
        ("awaited", "the next event waits for this source: 0 or 1"),
        (
            "first",
            "number of the first event of this source in this run, as it was sent; 0 as long as `count` is 0",
        ),
    ];

    /// Line of the source at this place.
    pub fn line(self, at: usize) -> usize {
        FragmentCounter::LINES + at * PerSource::ALL.len() + self as usize
    }
}

/// All lines for these sources.
pub(super) fn lines(ids: &[u16]) -> Vec<Info> {
    let present = |what: &str| matches!(what, "streams" | "awaited");
    let one = |id: u16, (what, meaning): (&str, &'static str)| Info {
        name: format!("fragments.source.{id}.{what}").into(),
        unit: match what {
            "first" => Unit::Events,
            _ if present(what) => Unit::Times,
            _ => Unit::Fragments,
        },
        merge: match what {
            "first" => Merge::Max,
            _ if present(what) => Merge::Present,
            _ => Merge::Sum,
        },
        hop: "fragments".into(),
        role: Role::Note,
        meaning: meaning.into(),
        todo: "".into(),
    };
    let each = ids.iter().flat_map(|&id| PerSource::ALL.map(|line| one(id, line)));
    FragmentCounter::catalogue().into_iter().chain(each).collect()
}
