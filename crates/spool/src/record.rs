//! One message on disk: head, checksums, key, headers, payload.
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | `FCR2` |
//! | 4..8 | length of the body, u32 |
//! | 8..16 | number in this spool, u64 |
//! | 16..24 | start of the process that appended it, ns since 1970, u64 |
//! | 24..32 | events in all messages of this spool before it, u64 |
//! | 32..36 | events in it, u32 |
//! | 36..40 | CRC-32 of the body |
//! | 40..44 | CRC-32 of the spool's salt, the record's place in its file (u64), and bytes 0..40 |
//! | 44..48 | zero |
//! | 48..56 | body: time of the append, ms since 1970, i64 |
//! | 56..64 | message id, u64 |
//! | 64..68 | length of the key, u32; 2³²−1: no key |
//! | 68..70 | number of headers, u16 |
//! | 70.. | key; each header (length of name u16, name, length of value u32, value); payload |
//!
//! The head has a checksum of its own, so a damaged body loses only that body: the head still gives the place of the
//! next record. Salt and place are part of it so that no other bytes count as a record: neither a copy of a record
//! inside a payload, nor one that a sender of packets forged, because the salt is never sent.
//!
//! The previous version (`FCR1`) is read: there bytes 16..20 are the events, 20..24 the CRC-32 of bytes 4..20 and of
//! the body, and the body follows.
//!
//! All little-endian. Refuses contradictions even if the checksum is right.

use super::folder::Key;

/// Which layout a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// Version 1, in which heads had no checksum of their own.
    One,
    /// What is written.
    Two,
}

impl Version {
    /// First four bytes of a record.
    pub fn magic(self) -> [u8; 4] {
        match self {
            Version::One => *b"FCR1",
            Version::Two => *b"FCR2",
        }
    }

    /// Bytes in front of the body.
    pub fn head(self) -> usize {
        match self {
            Version::One => 24,
            Version::Two => HEAD,
        }
    }
}

/// Bytes before the body in the present version.
pub(super) const HEAD: usize = 48;
/// Bytes of the body in front of the key.
const FIXED: usize = 22;
/// Most bytes of a body: librdkafka sends at most 1 GB, Kafka's brokers are set to 10 MB and the like.
pub const LARGEST: usize = 1 << 30;
/// Length that means that there is no key.
const NO_KEY: u32 = u32::MAX;

/// A header of this name is for the spool's owner only and is never sent: a note that is appended in one step with its
/// message. The next start gets the last one ([`Start::note`](super::Start::note)), even if its message was confirmed
/// long ago.
pub const NOTE: &str = "fc.note";

/// A message to be appended.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outgoing<'a> {
    /// Kafka key; `None`: none.
    pub key: Option<&'a [u8]>,
    /// Kafka headers.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// Kafka value.
    pub payload: &'a [u8],
    /// Running number in the payload.
    pub message_id: u64,
    /// Events in it, for the balance.
    pub events: u32,
}

/// Identity of a message: on the topic this is the value of the header that marks our own messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// The spool, for good.
    pub spool: [u8; 16],
    /// The process that appended it: its start, ns since 1970. After a loss of power a number may come a second time,
    /// never with the same start.
    pub start: u64,
    /// Number within the spool.
    pub sequence: u64,
}

impl Identity {
    /// As a header's value.
    pub fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.spool);
        bytes[16..24].copy_from_slice(&self.start.to_le_bytes());
        bytes[24..].copy_from_slice(&self.sequence.to_le_bytes());
        bytes
    }

    /// From a header's value; `None` if it is not 32 bytes long.
    pub fn from_bytes(bytes: &[u8]) -> Option<Identity> {
        let bytes: &[u8; 32] = bytes.try_into().ok()?;
        let (spool, rest) = bytes.split_first_chunk()?;
        Some(Identity { spool: *spool, start: word(rest, 0)?, sequence: word(rest, 8)? })
    }
}

/// A message read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored<'a> {
    /// Who it is.
    pub identity: Identity,
    /// When it was appended, ms since 1970.
    pub time_ms: i64,
    /// Running number in the payload.
    pub message_id: u64,
    /// Events in it.
    pub events: u32,
    /// Bytes that it takes on disk.
    pub bytes: usize,
    /// Kafka key.
    pub key: Option<&'a [u8]>,
    /// Kafka headers, as stored: see [`Stored::headers`].
    headers: &'a [u8],
    /// Kafka value.
    pub payload: &'a [u8],
}

impl<'a> Stored<'a> {
    /// Names and values of its headers, without the [`NOTE`].
    pub fn headers(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        self.all_headers().filter(|(name, _)| *name != NOTE)
    }

    /// Its note, if it has one.
    pub fn note(&self) -> Option<&'a [u8]> {
        self.all_headers().find(|(name, _)| *name == NOTE).map(|(_, value)| value)
    }

    fn all_headers(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        let mut rest = self.headers;
        std::iter::from_fn(move || {
            let (name, value, after) = header(rest)?;
            rest = after;
            Some((name, value))
        })
    }
}

/// Place of a record, and what comes before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// Offset in its file.
    pub place: u64,
    /// Number within the spool.
    pub sequence: u64,
    /// Start of the process.
    pub start: u64,
    /// Events in all messages before it.
    pub before: u64,
    /// Time of the append, ms since 1970.
    pub time_ms: i64,
}

/// Writes everything before a message's payload to `out`, whose contents it replaces. The payload is written after it
/// without a copy in memory.
pub(super) fn lay_front(out: &mut Vec<u8>, key: &Key, slot: Slot, message: &Outgoing<'_>) {
    out.clear();
    out.resize(HEAD, 0);
    out.extend(slot.time_ms.to_le_bytes());
    out.extend(message.message_id.to_le_bytes());
    let key_length = message.key.map_or(NO_KEY, |key| key.len() as u32);
    out.extend(key_length.to_le_bytes());
    out.extend((message.headers.len() as u16).to_le_bytes());
    out.extend(message.key.unwrap_or_default());
    for (name, value) in message.headers {
        out.extend((name.len() as u16).to_le_bytes());
        out.extend(name.as_bytes());
        out.extend((value.len() as u32).to_le_bytes());
        out.extend(*value);
    }
    let body = (out.len() - HEAD + message.payload.len()) as u32;
    let check = checksum([&out[HEAD..], message.payload]);
    out[..4].copy_from_slice(&Version::Two.magic());
    out[4..8].copy_from_slice(&body.to_le_bytes());
    out[8..16].copy_from_slice(&slot.sequence.to_le_bytes());
    out[16..24].copy_from_slice(&slot.start.to_le_bytes());
    out[24..32].copy_from_slice(&slot.before.to_le_bytes());
    out[32..36].copy_from_slice(&message.events.to_le_bytes());
    out[36..40].copy_from_slice(&check.to_le_bytes());
    let check = head_check(key, slot.place, &out[..40]);
    out[40..44].copy_from_slice(&check.to_le_bytes());
}

fn head_check(key: &Key, place: u64, bytes: &[u8]) -> u32 {
    checksum([&key.salt, &place.to_le_bytes(), bytes])
}

/// What a message takes on disk.
pub(super) fn size(message: &Outgoing<'_>) -> usize {
    let headers: usize = message.headers.iter().map(|(n, v)| 6 + n.len() + v.len()).sum();
    HEAD + FIXED + message.key.map_or(0, <[u8]>::len) + headers + message.payload.len()
}

/// Head of a record, before its body has been looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// Its layout.
    pub version: Version,
    /// Bytes of the body.
    pub body: usize,
    /// Number within the spool.
    pub sequence: u64,
    /// Events in it.
    pub events: u32,
    /// Start of the process that appended it, and events before it; not known of version 1.
    pub origin: Option<(u64, u64)>,
    check: u32,
}

impl Head {
    /// `None` if these are not the first bytes of a record at this place of a file. For version 1 only the checksum
    /// over the whole record decides, see [`Head::agrees`].
    pub fn read(version: Version, key: &Key, place: u64, bytes: &[u8]) -> Option<Head> {
        let bytes = bytes.get(..version.head())?;
        let body = half(bytes, 4)? as usize;
        if bytes[..4] != version.magic() || !(FIXED..=LARGEST).contains(&body) {
            return None;
        }
        let sequence = word(bytes, 8)?;
        match version {
            Version::One => {
                let (events, check) = (half(bytes, 16)?, half(bytes, 20)?);
                Some(Head { version, body, sequence, events, origin: None, check })
            }
            Version::Two => {
                let right = head_check(key, place, &bytes[..40]) == half(bytes, 40)?;
                let origin = Some((word(bytes, 16)?, word(bytes, 24)?));
                let (events, check) = (half(bytes, 32)?, half(bytes, 36)?);
                let head = Head { version, body, sequence, events, origin, check };
                (right && bytes[44..48] == [0; 4]).then_some(head)
            }
        }
    }

    /// Bytes of the whole record.
    pub fn whole(&self) -> usize {
        self.version.head() + self.body
    }

    /// The sum that its body goes through next, having gone through `head`.
    pub fn sum(&self, head: &[u8]) -> crc32fast::Hasher {
        let mut sum = crc32fast::Hasher::new();
        if self.version == Version::One {
            sum.update(head.get(4..20).unwrap_or_default());
        }
        sum
    }

    /// True if the sum over the whole record is right.
    pub fn agrees(&self, sum: crc32fast::Hasher) -> bool {
        sum.finalize() == self.check
    }

    /// Events in all messages up to and with it.
    pub fn upto(&self) -> Option<u64> {
        self.origin.map(|(_, before)| before.saturating_add(self.events.into()))
    }
}

#[cfg(test)]
/// The head of the whole and undamaged record that `bytes` begin with.
pub(super) fn verify(version: Version, key: &Key, place: u64, bytes: &[u8]) -> Option<Head> {
    let head = Head::read(version, key, place, bytes)?;
    let (front, body) = bytes.get(..head.whole())?.split_at_checked(version.head())?;
    let mut sum = head.sum(front);
    sum.update(body);
    head.agrees(sum).then_some(head)
}

/// The fields of a record whose checksums are right; `None` if they do not fit together. `start` is that of the segment,
/// for records that do not say theirs.
pub(super) fn fields(bytes: &[u8], head: Head, spool: [u8; 16], start: u64) -> Option<Stored<'_>> {
    let body = bytes.get(head.version.head()..head.whole())?;
    let start = head.origin.map_or(start, |(start, _)| start);
    let time_ms = word(body, 0)?.cast_signed();
    let message_id = word(body, 8)?;
    let (key, headers) = (half(body, 16)?, u16::from_le_bytes(*body.get(20..)?.first_chunk()?));
    let rest = body.get(FIXED..)?;
    let (key, rest) = if key == NO_KEY {
        (None, rest)
    } else {
        let (key, rest) = rest.split_at_checked(key as usize)?;
        (Some(key), rest)
    };
    let mut payload = rest;
    for _ in 0..headers {
        payload = header(payload)?.2;
    }
    Some(Stored {
        identity: Identity { spool, start, sequence: head.sequence },
        time_ms,
        message_id,
        events: head.events,
        bytes: head.whole(),
        key,
        headers: &rest[..rest.len() - payload.len()],
        payload,
    })
}

fn header(bytes: &[u8]) -> Option<(&str, &[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (name, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
    let (length, rest) = rest.split_first_chunk()?;
    let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some((std::str::from_utf8(name).ok()?, value, rest))
}

fn checksum<const N: usize>(parts: [&[u8]; N]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    parts.into_iter().for_each(|part| sum.update(part));
    sum.finalize()
}

pub(super) fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
