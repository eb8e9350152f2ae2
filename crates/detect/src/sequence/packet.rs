//! One datagram of the `sequence` payload: numbered packets of an artificial instrument.
//!
//! Little-endian: magic `FCSQ`, stream id u32, number u64, sender time ns u64, then a pattern whose byte
//! at payload offset i is `32 × number + i` (mod 256): eight different packets, so that a sender's ring
//! of them stays in its cache. A stream ends with number 2⁶⁴−1, the total in the time
//! field, sent five times. Refuses what is shorter than 24 bytes, another magic, and numbers that no
//! sender reaches. Source: `docs/contracts.md`, "`sequence` payload" (the "UDP instrument"
//! of Christensen et al. 2018).

/// First four bytes on the wire.
pub const MAGIC: [u8; 4] = *b"FCSQ";

/// Smallest payload.
pub const HEADER_BYTES: usize = 24;

/// Number of an end mark.
pub const END: u64 = u64::MAX;

/// First number that is refused: 95 years at 24 million packets per second. A damaged number must not
/// make a loss of any size.
pub const NUMBER_LIMIT: u64 = 1 << 56;

/// What a datagram says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequencePayload<'a> {
    /// A numbered packet.
    Data {
        /// Stream id.
        stream: u32,
        /// Number, from 0, below [`NUMBER_LIMIT`].
        number: u64,
        /// Sender's clock, ns since 1970 UTC.
        sent_ns: u64,
        /// Bytes behind the header.
        pattern: &'a [u8],
    },
    /// The stream is complete.
    End {
        /// Stream id.
        stream: u32,
        /// Packets sent, up to [`NUMBER_LIMIT`].
        total: u64,
    },
}

/// Why a datagram is no packet of a stream: one variant per counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SequenceRefusal {
    /// Below 24 bytes.
    ShortPacket,
    /// The first four bytes are not `FCSQ`.
    Magic,
    /// Number, or total of an end mark, out of range.
    Number,
    /// Pattern differs (checked only with `verify = true`).
    Pattern,
}

impl SequenceRefusal {
    /// Error class, as for the other detectors.
    pub fn class(self) -> &'static str {
        match self {
            SequenceRefusal::ShortPacket => "bad_size",
            SequenceRefusal::Magic | SequenceRefusal::Number => "header",
            SequenceRefusal::Pattern => "payload",
        }
    }

    /// Reason word.
    pub fn reason(self) -> &'static str {
        match self {
            SequenceRefusal::ShortPacket => "short_packet",
            SequenceRefusal::Magic => "magic",
            SequenceRefusal::Number => "number",
            SequenceRefusal::Pattern => "pattern",
        }
    }
}

/// Reads the header.
///
/// # Errors
/// [`SequenceRefusal::ShortPacket`], [`SequenceRefusal::Magic`], [`SequenceRefusal::Number`].
#[inline]
pub fn parse(chunk: &[u8]) -> Result<SequencePayload<'_>, SequenceRefusal> {
    let Some((head, pattern)) = chunk.split_first_chunk::<HEADER_BYTES>() else {
        return Err(SequenceRefusal::ShortPacket);
    };
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&head[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let id = word(0);
    if id as u32 != u32::from_le_bytes(MAGIC) {
        return Err(SequenceRefusal::Magic);
    }
    let (stream, number, time) = ((id >> 32) as u32, word(8), word(16));
    if number < NUMBER_LIMIT {
        return Ok(SequencePayload::Data { stream, number, sent_ns: time, pattern });
    }
    if number == END && time <= NUMBER_LIMIT {
        return Ok(SequencePayload::End { stream, total: time });
    }
    Err(SequenceRefusal::Number)
}

/// True if the header can be that of a stream.
pub fn looks_right(chunk: &[u8]) -> bool {
    parse(chunk).is_ok()
}

/// True if `pattern`, which begins at payload offset 24, is that of packet `number`.
pub fn pattern_matches(number: u64, pattern: &[u8]) -> bool {
    let first = (number as u8).wrapping_mul(32).wrapping_add(HEADER_BYTES as u8);
    let wrong = |(i, &byte): (usize, &u8)| byte ^ first.wrapping_add(i as u8);
    // Branch-free, so that it becomes vector code: this reads every byte of the stream.
    pattern.iter().enumerate().map(wrong).fold(0, |all, x| all | x) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_shows_the_letters_in_order() {
        let mut packet = b"FCSQ\x07\0\0\0\x01\x02\0\0\0\0\0\0\xff\0\0\0\0\0\0\0".to_vec();
        let want = SequencePayload::Data { stream: 7, number: 0x201, sent_ns: 255, pattern: &[] };
        assert_eq!(parse(&packet), Ok(want));
        packet[8..16].fill(0xff);
        assert_eq!(parse(&packet), Ok(SequencePayload::End { stream: 7, total: 255 }));
        packet[8] = 0xfe;
        assert_eq!(parse(&packet), Err(SequenceRefusal::Number));
        packet[0] = b'Q';
        assert_eq!(parse(&packet), Err(SequenceRefusal::Magic));
        assert_eq!(parse(&packet[..23]), Err(SequenceRefusal::ShortPacket));
    }

    #[test]
    fn the_pattern_counts_on_from_the_number_times_32() {
        let pattern: Vec<u8> = (24..400).map(|i: usize| (i as u8).wrapping_add(32)).collect();
        assert!(pattern_matches(0x109, &pattern));
        for at in [0, 100, 375] {
            let mut bad = pattern.clone();
            bad[at] ^= 4;
            assert!(!pattern_matches(0x109, &bad));
        }
    }
}
