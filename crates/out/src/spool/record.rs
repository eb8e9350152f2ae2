//! One message on disk: head, checksum, key, headers, payload.
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | `FCR1` |
//! | 4..8 | length of the body, u32 |
//! | 8..16 | number in this spool, u64 |
//! | 16..20 | events in it, u32 |
//! | 20..24 | CRC-32 of bytes 4..20 and of the body |
//! | 24..32 | body: time of the append, ms since 1970, i64 |
//! | 32..40 | message id, u64 |
//! | 40..44 | length of the key, u32; 2³²−1: no key |
//! | 44..46 | number of headers, u16 |
//! | 46.. | key; each header (length of name u16, name, length of value u32, value); payload |
//!
//! All little-endian. Refuses what does not fit together, whatever its checksum says.

/// First four bytes of a record.
pub(super) const MAGIC: [u8; 4] = *b"FCR1";
/// Bytes in front of the body.
pub(super) const HEAD: usize = 24;
/// Bytes of the body in front of the key.
const FIXED: usize = 22;
/// Most bytes of a body: librdkafka sends at most 1 GB, Kafka's brokers are set to 10 MB and the like.
pub const LARGEST: usize = 1 << 30;
/// Length of the key that says that there is none.
const NO_KEY: u32 = u32::MAX;

/// A header of this name is for the spool's owner only and is never sent: a note that is appended in one step with its
/// message. The last one is handed to the next start ([`Start::note`](super::Start::note)), however long ago its message
/// was confirmed.
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

/// Who a message is: on the topic this is the value of the header that tells our own messages from others'.
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
    /// Kafka headers, as laid down: see [`Stored::headers`].
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

/// Lays everything in front of a message's payload down in `out`, whose contents it replaces. The payload follows it on
/// disk, from where it is: nothing copies it in memory first.
pub(super) fn lay_front(out: &mut Vec<u8>, sequence: u64, time_ms: i64, message: &Outgoing<'_>) {
    out.clear();
    out.extend(MAGIC);
    out.extend([0; 4]);
    out.extend(sequence.to_le_bytes());
    out.extend(message.events.to_le_bytes());
    out.extend([0; 4]);
    out.extend(time_ms.to_le_bytes());
    out.extend(message.message_id.to_le_bytes());
    let key = message.key.map_or(NO_KEY, |key| key.len() as u32);
    out.extend(key.to_le_bytes());
    out.extend((message.headers.len() as u16).to_le_bytes());
    out.extend(message.key.unwrap_or_default());
    for (name, value) in message.headers {
        out.extend((name.len() as u16).to_le_bytes());
        out.extend(name.as_bytes());
        out.extend((value.len() as u32).to_le_bytes());
        out.extend(*value);
    }
    let body = (out.len() - HEAD + message.payload.len()) as u32;
    out[4..8].copy_from_slice(&body.to_le_bytes());
    let check = checksum([&out[4..20], &out[HEAD..], message.payload]);
    out[20..24].copy_from_slice(&check.to_le_bytes());
}

/// What a message takes on disk.
pub(super) fn size(message: &Outgoing<'_>) -> usize {
    let headers: usize = message.headers.iter().map(|(n, v)| 6 + n.len() + v.len()).sum();
    HEAD + FIXED + message.key.map_or(0, <[u8]>::len) + headers + message.payload.len()
}

/// Head of a record, before its body has been looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// Bytes of the body.
    pub body: usize,
    /// Number within the spool.
    pub sequence: u64,
    /// Events in it.
    pub events: u32,
    check: u32,
}

impl Head {
    /// `None` if these are not the first bytes of a record.
    pub fn read(bytes: &[u8]) -> Option<Head> {
        if bytes.get(..4)? != MAGIC {
            return None;
        }
        let body = half(bytes, 4)? as usize;
        if !(FIXED..=LARGEST).contains(&body) {
            return None;
        }
        let (sequence, events, check) = (word(bytes, 8)?, half(bytes, 16)?, half(bytes, 20)?);
        Some(Head { body, sequence, events, check })
    }

    /// Bytes of the whole record.
    pub fn whole(&self) -> usize {
        HEAD + self.body
    }
}

/// The head of the whole and undamaged record that `bytes` begin with.
pub(super) fn verify(bytes: &[u8]) -> Option<Head> {
    let head = Head::read(bytes)?;
    let record = bytes.get(..head.whole())?;
    (checksum([&record[4..20], &record[HEAD..]]) == head.check).then_some(head)
}

/// The fields of a record whose checksum is right; `None` if they do not fit together. `spool` and `start` are those of
/// the segment.
pub(super) fn fields(bytes: &[u8], head: Head, spool: [u8; 16], start: u64) -> Option<Stored<'_>> {
    let body = bytes.get(HEAD..head.whole())?;
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
