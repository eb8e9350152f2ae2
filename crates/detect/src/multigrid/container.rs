//! The SIS3153 container: a datagram as a sequence of sub-buffers, one per trigger.
//!
//! Refuses a packet at its first damaged word, with one [`MultiGridRefusal`] per rule; sub-buffers before that word
//! stay valid. Lengths are checked against the datagram before anything is read, so nothing outside of it
//! can be. Source: `docs/formats/multigrid.md` section 2.

/// A word as it stands in the datagram: little-endian, not aligned.
pub type ContainerWord = [u8; 4];

/// First byte of a packet of buffered events.
pub(super) const BUFFERED: u8 = 0x60;
/// Header of the packet, bytes.
pub(super) const HEADER_BYTES: usize = 3;
/// Header and four words: an event without data.
const SHORTEST: usize = HEADER_BYTES + 16;
pub(super) const EVENT_HEADER: u8 = 0x58;
pub(super) const BEGIN: u8 = 0xbb;
pub(super) const COOKIE: u32 = 0x8765_4321;
pub(super) const END: u8 = 0xee;
/// Words of an event without data.
pub(super) const EMPTY_EVENT: usize = 4;
/// The same in bytes.
pub(super) const EMPTY_BYTES: usize = 4 * EMPTY_EVENT;

/// Why parsing of a packet stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MultiGridRefusal {
    /// Empty, or its first byte is not 0x60.
    PacketType,
    /// Below 19 bytes.
    ShortPacket,
    /// Low byte of an event's first word is not 0x58.
    EventHeader,
    /// High byte of an event's second word is not 0xBB.
    BeginWord,
    /// Length below 3, or beyond the packet.
    EventLength,
    /// No 0x87654321 behind the data.
    EndCookie,
    /// High byte of an event's last word is not 0xEE.
    EndWord,
}

impl MultiGridRefusal {
    /// Word for counters and `inspect`.
    pub fn reason(self) -> &'static str {
        match self {
            MultiGridRefusal::PacketType => "packet_type",
            MultiGridRefusal::ShortPacket => "short_packet",
            MultiGridRefusal::EventHeader => "event_header",
            MultiGridRefusal::BeginWord => "begin_word",
            MultiGridRefusal::EventLength => "event_length",
            MultiGridRefusal::EndCookie => "end_cookie",
            MultiGridRefusal::EndWord => "end_word",
        }
    }
}

/// What was left of a packet behind its sub-buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rest {
    /// Why parsing stopped before the end.
    pub refusal: Option<MultiGridRefusal>,
    /// Bytes given up at the refusal.
    pub discarded: usize,
    /// Bytes behind the last event that cannot hold one more.
    pub ignored: usize,
    /// Words of the whole events in front, counted from the packet's header.
    pub whole: usize,
}

/// Calls `each` with every whole sub-buffer and the sequence number of its event (24 bits).
#[inline]
pub fn sub_buffers<'a>(packet: &'a [u8], mut each: impl FnMut(&'a [ContainerWord], u32)) -> Rest {
    let all =
        |refusal| Rest { refusal: Some(refusal), discarded: packet.len(), ignored: 0, whole: 0 };
    if packet.first() != Some(&BUFFERED) {
        return all(MultiGridRefusal::PacketType);
    }
    if packet.len() < SHORTEST {
        return all(MultiGridRefusal::ShortPacket);
    }
    let (mut words, tail) = packet[HEADER_BYTES..].as_chunks::<4>();
    let in_all = words.len();
    let stop = |refusal, event: usize, discarded: usize| Rest {
        refusal: Some(refusal),
        discarded: 4 * discarded,
        ignored: tail.len(),
        whole: in_all - event,
    };
    while words.len() > EMPTY_EVENT {
        let [head, begin, body @ ..] = words else { break };
        if head[0] != EVENT_HEADER {
            return stop(MultiGridRefusal::EventHeader, words.len(), words.len());
        }
        if begin[3] != BEGIN {
            return stop(MultiGridRefusal::BeginWord, words.len(), words.len() - 1);
        }
        // Counts begin, data, cookie and end; big-endian, unlike everything else.
        let length = usize::from(u16::from_be_bytes([head[1], head[2]]));
        if length < 3 || length - 1 > body.len() {
            return stop(MultiGridRefusal::EventLength, words.len(), body.len());
        }
        let (data, ends) = body.split_at(length - 3);
        let [cookie, end, rest @ ..] = ends else { break };
        if u32::from_le_bytes(*cookie) != COOKIE {
            return stop(MultiGridRefusal::EndCookie, words.len(), ends.len());
        }
        if end[3] != END {
            return stop(MultiGridRefusal::EndWord, words.len(), ends.len() - 1);
        }
        each(data, u32::from_le_bytes(*begin) & 0xff_ffff);
        words = rest;
    }
    let ignored = 4 * words.len() + tail.len();
    Rest { refusal: None, discarded: 0, ignored, whole: in_all - words.len() }
}

/// True if a packet is whole, from its first event to its last. One that holds no event, or only the empty one at its end,
/// says too little.
pub fn looks_right(packet: &[u8]) -> bool {
    let mut events = 0;
    let rest = sub_buffers(packet, |_, _| events += 1);
    rest.refusal.is_none() && events > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event of `data` words behind a header that claims `length`.
    fn event(length: u16, data: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0x58];
        bytes.extend(length.to_be_bytes());
        bytes.extend([0, 7, 0, 0, 0xbb]);
        bytes.extend(data.iter().flat_map(|w| w.to_le_bytes()));
        bytes.extend([0x21, 0x43, 0x65, 0x87, 0, 0, 1, 0xee]);
        bytes
    }

    fn packet(events: &[Vec<u8>]) -> Vec<u8> {
        [&[0x60, 0, 0][..], &events.concat()].concat()
    }

    fn walk(packet: &[u8]) -> (Vec<usize>, Rest) {
        let mut lengths = Vec::new();
        let rest = sub_buffers(packet, |data, sequence| {
            assert_eq!(sequence, 7);
            lengths.push(data.len());
        });
        (lengths, rest)
    }

    #[test]
    fn an_event_without_data_is_seen_unless_it_is_the_last() {
        let (empty, one) = (event(3, &[]), event(4, &[9]));
        let (lengths, rest) = walk(&packet(&[empty.clone(), one.clone(), empty.clone()]));
        assert_eq!((lengths, rest.ignored, rest.refusal), (vec![0, 1], 16, None));
        let (lengths, rest) = walk(&packet(&[one, vec![1, 2, 3]]));
        assert_eq!((lengths, rest.ignored, rest.refusal), (vec![1], 3, None));
    }

    #[test]
    fn each_rule_discards_from_its_own_word() {
        let good = packet(&[event(5, &[1, 2]), event(5, &[3, 4])]);
        let second = 3 + 4 * 6;
        for (at, byte, refusal, discarded) in [
            (second, 0x59, MultiGridRefusal::EventHeader, 24),
            (second + 7, 0xba, MultiGridRefusal::BeginWord, 20),
            (second + 2, 2, MultiGridRefusal::EventLength, 16),
            (second + 2, 6, MultiGridRefusal::EventLength, 16),
            (second + 1, 1, MultiGridRefusal::EventLength, 16),
            (second + 16, 0x20, MultiGridRefusal::EndCookie, 8),
            (second + 23, 0xef, MultiGridRefusal::EndWord, 4),
        ] {
            let mut bad = good.clone();
            bad[at] = byte;
            let (lengths, rest) = walk(&bad);
            assert_eq!(lengths, [2], "{refusal:?}: the first stays");
            assert_eq!(rest, Rest { refusal: Some(refusal), discarded, ignored: 0, whole: 6 });
        }
    }

    #[test]
    fn what_is_no_packet_is_discarded_whole() {
        for (bytes, refusal) in [
            (&[][..], MultiGridRefusal::PacketType),
            (&[0x50; 30], MultiGridRefusal::PacketType),
            (&[0x60; 18], MultiGridRefusal::ShortPacket),
        ] {
            let (lengths, rest) = walk(bytes);
            assert!(lengths.is_empty());
            let discarded = bytes.len();
            assert_eq!(rest, Rest { refusal: Some(refusal), discarded, ignored: 0, whole: 0 });
        }
        let short = Rest { refusal: None, discarded: 0, ignored: 16, whole: 0 };
        assert_eq!(walk(&[0x60; 19]).1, short);
    }
}
