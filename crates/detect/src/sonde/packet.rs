//! One SoNDe datagram: header, mode and body, with every check of the format in its order.
//!
//! Refuses what `docs/formats/sonde.md` section 4 refuses, one [`SondeRefusal`] per reason; the first
//! failing check decides. [`header`] makes checks 1 and 2, [`mode`] 4 and 5, [`body`] 7 to 11; the
//! sequence check (3) stands between the first two and belongs to the reader. Reads big-endian bytes,
//! never outside the slice, and assumes no alignment.

use fullcount_core::bytes::Bytes;

/// Bytes of the header of every packet type.
pub const HEADER_BYTES: usize = 10;

/// Bytes of one 0xD6 entry: time and channel.
pub const ENTRY_BYTES: usize = 5;

/// Bytes of one 0xD4 sample: trigger type, ASIC, channel, ADC.
pub const SAMPLE_BYTES: usize = 5;

/// The 10 bytes in front of every payload (section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SondeHeader {
    /// System number, 0..=31.
    pub system: u8,
    /// Packet type; only 0xD6, 0xD5 and 0xD4 are data.
    pub packet_type: u8,
    /// 0 stand-alone, 1 first, 2 continuation, 3 last of a group; no effect on decoding.
    pub flag: u8,
    /// Packet count, 0..=16383.
    pub count: u16,
    /// Packet time, ticks of a free-running 32-bit counter.
    pub timestamp: u32,
    /// Bytes that follow the header, as the sender says.
    pub length: u16,
}

/// Data modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SondeMode {
    /// 0xD6: time and channel of each hit.
    TriggerTime,
    /// 0xD5: one charge sample per channel for one trigger.
    SingleEvent,
    /// 0xD4: N triggers with M charge samples each.
    MultiEvent,
}

/// Payload of an accepted packet; the slices hold whole entries only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body<'a> {
    /// 0xD6.
    TriggerTime {
        /// 5 bytes per entry: time, ASIC and channel.
        entries: &'a [u8],
    },
    /// 0xD5.
    SingleEvent {
        /// ASIC that triggered.
        source: u8,
        /// Trigger type.
        trigger: u8,
        /// Channel that triggered.
        channel: u8,
        /// Hold delay.
        hold_delay: u16,
        /// 2 bytes per sample.
        samples: &'a [u8],
    },
    /// 0xD4.
    MultiEvent {
        /// Number of events.
        events: u8,
        /// Samples per event.
        per_event: u16,
        /// `4 + 5 M` bytes per event.
        data: &'a [u8],
        /// Bytes behind the last event; allowed (the recorded 150-event packet has one).
        trailing: usize,
    },
}

/// Why a packet gives no events: one variant per reason word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SondeRefusal {
    /// Check 1: below 11 bytes.
    ShortPacket,
    /// Check 2: version is not 0.
    Version,
    /// Check 4: the length field disagrees with the datagram's size.
    LengthMismatch,
    /// Check 5: no data packet.
    PacketType,
    /// Check 7: 0xD6 whose length is not 1 + 5 N.
    EntryCountMismatch,
    /// Check 8: 0xD5 without its whole 7-byte sub-header.
    ShortSubheader,
    /// Check 9: 0xD5 whose length is not 7 + 2 n.
    SampleCountMismatch,
    /// Check 10: 0xD4 payload below 12 bytes.
    ShortPayload,
    /// Check 11: 0xD4 that is shorter than its events.
    EventCountMismatch,
}

/// Error class as the published implementation names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SondeErrorClass {
    /// `bad_size`.
    BadSize,
    /// `header`.
    Header,
    /// `unsupported`.
    Unsupported,
}

impl SondeErrorClass {
    /// Word in vectors and counters.
    pub fn word(self) -> &'static str {
        match self {
            SondeErrorClass::BadSize => "bad_size",
            SondeErrorClass::Header => "header",
            SondeErrorClass::Unsupported => "unsupported",
        }
    }
}

impl SondeRefusal {
    /// All reasons, in the order of the checks.
    pub const ALL: [SondeRefusal; 9] = [
        SondeRefusal::ShortPacket,
        SondeRefusal::Version,
        SondeRefusal::LengthMismatch,
        SondeRefusal::PacketType,
        SondeRefusal::EntryCountMismatch,
        SondeRefusal::ShortSubheader,
        SondeRefusal::SampleCountMismatch,
        SondeRefusal::ShortPayload,
        SondeRefusal::EventCountMismatch,
    ];

    /// Error class.
    pub fn class(self) -> SondeErrorClass {
        match self {
            SondeRefusal::ShortPacket | SondeRefusal::ShortPayload => SondeErrorClass::BadSize,
            SondeRefusal::PacketType => SondeErrorClass::Unsupported,
            SondeRefusal::Version
            | SondeRefusal::LengthMismatch
            | SondeRefusal::EntryCountMismatch
            | SondeRefusal::ShortSubheader
            | SondeRefusal::SampleCountMismatch
            | SondeRefusal::EventCountMismatch => SondeErrorClass::Header,
        }
    }

    /// Reason word of section 4.
    pub fn reason(self) -> &'static str {
        match self {
            SondeRefusal::ShortPacket => "short_packet",
            SondeRefusal::Version => "version",
            SondeRefusal::LengthMismatch => "length_mismatch",
            SondeRefusal::PacketType => "packet_type",
            SondeRefusal::EntryCountMismatch => "entry_count_mismatch",
            SondeRefusal::ShortSubheader => "short_subheader",
            SondeRefusal::SampleCountMismatch => "sample_count_mismatch",
            SondeRefusal::ShortPayload => "short_payload",
            SondeRefusal::EventCountMismatch => "event_count_mismatch",
        }
    }
}

/// Checks 1 and 2.
///
/// # Errors
/// [`SondeRefusal::ShortPacket`], [`SondeRefusal::Version`].
#[inline]
pub fn header(packet: &[u8]) -> Result<SondeHeader, SondeRefusal> {
    let Some((head, [_, ..])) = packet.split_first_chunk::<HEADER_BYTES>() else {
        return Err(SondeRefusal::ShortPacket);
    };
    let &[id, packet_type, s0, s1, t0, t1, t2, t3, l0, l1] = head;
    if id >> 5 != 0 {
        return Err(SondeRefusal::Version);
    }
    let sequence = u16::from_be_bytes([s0, s1]);
    Ok(SondeHeader {
        system: id & 31,
        packet_type,
        flag: (sequence >> 14) as u8,
        count: sequence & 0x3fff,
        timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
        length: u16::from_be_bytes([l0, l1]),
    })
}

/// Checks 4 and 5.
///
/// # Errors
/// [`SondeRefusal::LengthMismatch`], [`SondeRefusal::PacketType`].
#[inline]
pub fn mode(header: &SondeHeader, packet: &[u8]) -> Result<SondeMode, SondeRefusal> {
    if HEADER_BYTES + usize::from(header.length) != packet.len() {
        return Err(SondeRefusal::LengthMismatch);
    }
    match header.packet_type {
        0xd6 => Ok(SondeMode::TriggerTime),
        0xd5 => Ok(SondeMode::SingleEvent),
        0xd4 => Ok(SondeMode::MultiEvent),
        _ => Err(SondeRefusal::PacketType),
    }
}

/// True if a packet passes all checks but that of its sequence.
pub fn looks_right(packet: &[u8]) -> bool {
    let whole = || body(mode(&header(packet)?, packet)?, packet);
    whole().is_ok()
}

/// Checks 7 to 11, on a packet that passed those before.
///
/// # Errors
/// The remaining reasons.
#[inline]
pub fn body(mode: SondeMode, packet: &[u8]) -> Result<Body<'_>, SondeRefusal> {
    let payload = packet.get(HEADER_BYTES..).unwrap_or_default();
    match mode {
        SondeMode::TriggerTime => match payload.split_first() {
            Some((&n, entries)) if entries.len() == ENTRY_BYTES * usize::from(n) => {
                Ok(Body::TriggerTime { entries })
            }
            _ => Err(SondeRefusal::EntryCountMismatch),
        },
        SondeMode::SingleEvent => single_event(payload),
        SondeMode::MultiEvent => multi_event(payload),
    }
}

fn single_event(payload: &[u8]) -> Result<Body<'_>, SondeRefusal> {
    let Some((sub, samples)) = payload.split_first_chunk::<7>() else {
        return Err(SondeRefusal::ShortSubheader);
    };
    let &[source, trigger, channel, h0, h1, n0, n1] = sub;
    if samples.len() != 2 * usize::from(u16::from_be_bytes([n0, n1])) {
        return Err(SondeRefusal::SampleCountMismatch);
    }
    let hold_delay = u16::from_be_bytes([h0, h1]);
    Ok(Body::SingleEvent { source, trigger, channel, hold_delay, samples })
}

fn multi_event(payload: &[u8]) -> Result<Body<'_>, SondeRefusal> {
    if payload.len() < 12 {
        return Err(SondeRefusal::ShortPayload);
    }
    let mut bytes = Bytes::new(payload);
    let (Some(events), Some(per_event)) = (bytes.u8(), bytes.be16()) else {
        return Err(SondeRefusal::ShortPayload);
    };
    // At most 255 * (4 + 5 * 65535) = 83,558,145: no overflow from 32 bits on.
    let need = usize::from(events) * event_bytes(per_event);
    let Some(data) = bytes.take(need) else {
        return Err(SondeRefusal::EventCountMismatch);
    };
    Ok(Body::MultiEvent { events, per_event, data, trailing: bytes.rest().len() })
}

/// Bytes of one 0xD4 event with `per_event` samples, at least 4.
#[inline]
pub fn event_bytes(per_event: u16) -> usize {
    4 + SAMPLE_BYTES * usize::from(per_event)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(packet: &[u8]) -> Result<Body<'_>, SondeRefusal> {
        let h = header(packet)?;
        body(mode(&h, packet)?, packet)
    }

    #[test]
    fn the_worked_example_reads_as_the_format_says() {
        let packet = [
            0x01, 0xd6, 0x03, 0x04, 0, 0, 0, 1, 0, 0x10, 3, 0, 0, 0, 1, 0x0a, 0, 0, 0, 2, 0x4a, 0,
            0, 0, 3, 0x8a,
        ];
        let h = header(&packet).unwrap();
        let want = SondeHeader {
            system: 1,
            packet_type: 0xd6,
            flag: 0,
            count: 772,
            timestamp: 1,
            length: 16,
        };
        assert_eq!(h, want);
        assert_eq!(verdict(&packet), Ok(Body::TriggerTime { entries: &packet[11..] }));
    }

    #[test]
    fn flag_and_count_share_sixteen_bits() {
        let h = header(&[0x1f, 0xd6, 0xff, 0xff, 0, 0, 0, 0, 0, 1, 0]).unwrap();
        assert_eq!((h.system, h.flag, h.count), (31, 3, 16383));
    }

    #[test]
    fn the_first_failing_check_decides() {
        // Short and of a wrong version: short. Wrong version and length: version.
        assert_eq!(verdict(&[0xe0; 10]), Err(SondeRefusal::ShortPacket));
        assert_eq!(verdict(&[0xe0; 11]), Err(SondeRefusal::Version));
        assert_eq!(verdict(&[0x01; 11]), Err(SondeRefusal::LengthMismatch));
        assert_eq!(verdict(&[0, 0x10, 0, 0, 0, 0, 0, 0, 0, 1, 9]), Err(SondeRefusal::PacketType));
        assert_eq!(
            verdict(&[0, 0xd6, 0, 0, 0, 0, 0, 0, 0, 1, 9]),
            Err(SondeRefusal::EntryCountMismatch)
        );
        assert_eq!(
            verdict(&[0, 0xd5, 0, 0, 0, 0, 0, 0, 0, 1, 9]),
            Err(SondeRefusal::ShortSubheader)
        );
        assert_eq!(verdict(&[0, 0xd4, 0, 0, 0, 0, 0, 0, 0, 1, 9]), Err(SondeRefusal::ShortPayload));
    }

    #[test]
    fn the_length_must_fit_in_both_directions() {
        let mut packet = vec![0, 0xd6, 0, 0, 0, 0, 0, 0, 0, 1, 0];
        assert!(verdict(&packet).is_ok());
        packet[9] = 0;
        assert_eq!(verdict(&packet), Err(SondeRefusal::LengthMismatch));
        packet[9] = 2;
        assert_eq!(verdict(&packet), Err(SondeRefusal::LengthMismatch));
    }

    #[test]
    fn the_largest_counts_do_not_overflow() {
        let mut packet = vec![0, 0xd4, 0, 0, 0, 0, 0, 0, 0, 12, 255, 255, 255];
        packet.resize(22, 0);
        assert_eq!(verdict(&packet), Err(SondeRefusal::EventCountMismatch));
        packet[9..13].copy_from_slice(&[12, 0, 255, 255]);
        assert!(verdict(&packet).is_ok(), "no events of 65535 samples need 3 bytes");
    }

    #[test]
    fn every_reason_has_its_own_word() {
        let mut words: Vec<_> = SondeRefusal::ALL.iter().map(|r| r.reason()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), SondeRefusal::ALL.len());
    }
}
