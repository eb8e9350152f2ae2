//! Event numbers of a packet: those of its sub-buffers as runs, and those that only the container knows.
//!
//! The events of a packet are numbered one after the other, so a packet is one run of numbers. Two sorts of events
//! are no sub-buffers and have a number all the same: one without data at the packet's end, and those of a packet
//! that is refused. Of the latter, what can be read is read, and what lies between two such numbers was there
//! too. What a packet lost of its end has left no number: it did not arrive. Source: `docs/formats/multigrid.md`
//! section 2; for users: `docs/multigrid.md`, "Lost events".

use fullcount_core::ledger::Unit;
use fullcount_core::sequence::numbering::{Limit, Numbering, Per};

use super::container::{
    BEGIN, BUFFERED, COOKIE, ContainerWord, EMPTY_EVENT, END, EVENT_HEADER, HEADER_BYTES,
};
use super::file::DatagramFormat;

/// An SIS3153 numbers its events, so a sender has one series. One turn takes 5.6 s at the published 3 M triggers/s.
pub(super) const NUMBERING: Numbering = Numbering {
    bits: 24,
    unit: Unit::ContainerEvents,
    called: "event numbers",
    per: Per::Sender,
    // A packet of the recorded size holds up to 40 events, so these are 400 packets or six GRO trains; 5 ms at 3 M triggers/s.
    window: Limit::Fixed(1 << 14),
    // 0.5 MiB of windows. A detector has one SIS3153 or a few.
    streams: Some(Limit::Fixed(256)),
    drops_copies: false,
};

/// What `format` numbers: replay records have no numbers.
pub(super) fn of(format: DatagramFormat) -> Option<Numbering> {
    match format {
        DatagramFormat::Mesytec => Some(NUMBERING),
        DatagramFormat::Records => None,
    }
}

/// Event numbers have 24 bits.
pub(super) const MASK: u32 = (1 << NUMBERING.bits) - 1;

/// Numbers that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct EventRun {
    pub first: u32,
    /// 0: none.
    pub count: u32,
}

impl EventRun {
    #[inline]
    pub fn of(number: u32) -> EventRun {
        EventRun { first: number, count: 1 }
    }

    /// The number behind the last one.
    #[inline]
    pub fn next(&self) -> u32 {
        self.first.wrapping_add(self.count) & MASK
    }

    /// True, and taken, if `number` goes on with the run.
    #[inline]
    pub fn takes(&mut self, number: u32) -> bool {
        let goes_on = self.count > 0 && number == self.next();
        self.count += u32::from(goes_on);
        goes_on
    }
}

/// How far `number` lies ahead of `from`, modulo 2²⁴.
pub(super) fn ahead(from: u32, number: u32) -> u32 {
    number.wrapping_sub(from) & MASK
}

/// Takes single numbers out that damage made: what stands alone between, before or behind numbers that follow each
/// other without it had the number that is missing there. `expected`: the number that the packet should begin with;
/// `far`: from this distance on, no gap is seen between the last two events of a packet.
#[cold]
pub(super) fn heal(runs: &mut Vec<EventRun>, expected: Option<u32>, far: u32) {
    let mut at = 0;
    while at < runs.len() && runs.len() > 1 {
        let before = match at {
            0 => expected,
            _ => Some(runs[at - 1].next()),
        };
        let behind = runs.get(at + 1).map(|run| run.first);
        let single = runs[at].count == 1;
        let should_be = before.filter(|&b| match behind {
            Some(behind) => behind == (b + 1) & MASK,
            // Of two that contradict each other, the one that goes on from the packet before is right.
            None => {
                let sure =
                    at > 0 && (runs[at - 1].count > 1 || Some(runs[at - 1].first) == expected);
                sure && ahead(b, runs[at].first) >= far
            }
        });
        let Some(number) = should_be.filter(|_| single) else {
            at += 1;
            continue;
        };
        runs[at].first = number;
        at = at.saturating_sub(1);
        while at + 1 < runs.len() && runs[at].next() == runs[at + 1].first {
            runs[at].count += runs.remove(at + 1).count;
        }
        at += 1;
    }
}

/// Number of an event without data at the end of a packet that is not refused: too short to be seen as a sub-buffer.
#[cold]
pub(super) fn empty_last(packet: &[u8], ignored: usize) -> Option<u32> {
    let (words, _) = packet.get(packet.len().checked_sub(ignored)?..)?.as_chunks::<4>();
    let [head, begin, cookie, end] = words else { return None };
    let whole = head[..3] == [EVENT_HEADER, 0, 3]
        && begin[3] == BEGIN
        && u32::from_le_bytes(*cookie) == COOKIE
        && end[3] == END;
    whole.then(|| number(begin))
}

/// Places of the begin words behind the `whole` words of whole events of a refused packet
/// ([`Rest::whole`](super::container::Rest::whole)), in words behind the packet's header.
pub(super) fn begin_words(packet: &[u8], whole: usize) -> impl Iterator<Item = usize> {
    let (words, _) = packet.get(HEADER_BYTES..).unwrap_or(&[]).as_chunks::<4>();
    let kind = packet.first().copied().unwrap_or(0);
    // A packet of one event has no event header: its begin word comes first.
    let single = kind & 0xf0 == 0x50 && words.first().is_some_and(|word| word[3] == BEGIN);
    // Where an event should be, either of its first two words may be the damaged one; of a packet of another type
    // and anywhere else, both must be right.
    let damaged_head = kind == BUFFERED;
    let next = match words.get(whole..) {
        Some([_, ..]) if single => Some(0),
        Some([head, begin, ..]) => {
            let begins = begin[3] == BEGIN && (head[0] == EVENT_HEADER || damaged_head);
            begins.then_some(whole + 1)
        }
        _ => None,
    };
    let behind_end = move |i: usize| {
        let cookie = i > 1 && u32::from_le_bytes(words[i - 2]) == COOKIE;
        cookie || words[i - 1][3] == END
    };
    // Pairs of words: this reads every word of a packet that is refused.
    let behind = if single { &[] } else { words.get(whole + 1..).unwrap_or(&[]) };
    let later = behind.windows(2).zip(whole + 1..).filter(move |&(pair, i)| {
        pair[0][0] == EVENT_HEADER && pair[1][3] == BEGIN && behind_end(i)
    });
    next.into_iter().chain(later.map(|(_, i)| i + 1))
}

/// Numbers of a refused packet behind its `whole` words of whole events, the last of which was `before`.
#[cold]
pub(super) fn of_refused(packet: &[u8], whole: usize, before: Option<u32>) -> Option<EventRun> {
    let mut begins = begin_words(packet, whole).peekable();
    let (words, _) = packet.get(HEADER_BYTES..)?.as_chunks::<4>();
    let headed = words.get(whole).is_some_and(|head| head[0] == EVENT_HEADER);
    let there = begins.peek() == Some(&(whole + 1)) || (headed && packet[0] == BUFFERED);
    let (mut first, mut last) = (before.map(|b| (b + 1) & MASK), before);
    // An event takes four words at least, so not every number can be where it stands.
    let mut room_from = whole.wrapping_sub(EMPTY_EVENT);
    for at in begins {
        let found = number(&words[at]);
        let event = at.saturating_sub(1);
        match last {
            None => {
                let one_before = event > whole && there;
                first = Some(found.wrapping_sub(one_before.into()) & MASK);
            }
            Some(last) => {
                let room = event.wrapping_sub(room_from) / EMPTY_EVENT;
                if !(1..=room).contains(&(ahead(last, found) as usize)) {
                    continue;
                }
            }
        }
        (last, room_from) = (Some(found), event);
    }
    if last == before && there {
        last = first;
    }
    let (first, last) = (first?, last?);
    let count = ahead(first, (last + 1) & MASK);
    (count > 0).then_some(EventRun { first, count })
}

pub(super) fn number(begin: &ContainerWord) -> u32 {
    u32::from_le_bytes(*begin) & MASK
}

#[cfg(test)]
#[path = "numbers_tests.rs"]
mod tests;
