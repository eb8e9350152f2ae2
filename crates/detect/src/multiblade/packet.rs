//! One Multi-Blade datagram: header and elements, with every check of the format in its order.
//!
//! Refuses what `docs/formats/multiblade.md` section 2.3 refuses, one [`MultiBladeRefusal`] per reason; the first
//! failing check decides. [`header`] makes checks 1 to 3, [`elements`] check 5; the sequence check (4) stands
//! between them and belongs to the reader. Reads little-endian bytes, never outside the slice, and assumes
//! no alignment: the sequence number stands at byte 26.

use fullcount_core::bytes::Bytes;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 32;

/// Bytes of one element.
pub const ELEMENT_BYTES: usize = 8;

/// The only version that is accepted, major 1 and minor 3, read as a little-endian number.
pub const VERSION: u16 = 0x0301;

/// The only type of element that is accepted.
pub const ELEMENT_TYPE: u16 = 1;

/// The 32 bytes in front of the elements (section 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MultiBladeHeader {
    /// Number of the run; not checked.
    pub run_id: u64,
    /// Milliseconds since 1970 by the readout computer's clock; not used for the events.
    pub global_time: u64,
    /// Serial number of the digitiser.
    pub digitizer: u32,
    /// Type of the elements.
    pub element_type: u16,
    /// Elements, as the sender says.
    pub elements: u16,
    /// Version, [`VERSION`] where it is accepted.
    pub version: u16,
    /// Counts the packets of the sender over all its digitisers.
    pub sequence: u32,
}

/// One readout (section 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readout {
    /// Digitiser clock, ticks since its restart.
    pub time: u32,
    /// Channel; valid ones are below 64 unless the geometry says otherwise.
    pub channel: u16,
    /// Pulse integral; 65535: the integrator overflowed.
    pub adc: u16,
}

impl Readout {
    /// Reads one element.
    #[inline]
    pub fn read(element: [u8; ELEMENT_BYTES]) -> Readout {
        let all = u64::from_le_bytes(element);
        Readout { time: all as u32, channel: (all >> 32) as u16, adc: (all >> 48) as u16 }
    }
}

/// Why a packet gives no readouts: one variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MultiBladeRefusal {
    /// Check 1: below 32 bytes.
    ShortPacket,
    /// Check 2: not version 1.3.
    Version,
    /// Check 3: not type 1.
    ElementType,
    /// Check 5: not exactly 32 + 8 N bytes.
    LengthMismatch,
}

/// Error class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MultiBladeErrorClass {
    /// `bad_size`, published as ESIZE.
    BadSize,
    /// `header`, published as EHEADER.
    Header,
}

impl MultiBladeErrorClass {
    /// Word in counters.
    pub fn word(self) -> &'static str {
        match self {
            MultiBladeErrorClass::BadSize => "bad_size",
            MultiBladeErrorClass::Header => "header",
        }
    }
}

impl MultiBladeRefusal {
    /// All reasons, in the order of the checks.
    pub const ALL: [MultiBladeRefusal; 4] = [
        MultiBladeRefusal::ShortPacket,
        MultiBladeRefusal::Version,
        MultiBladeRefusal::ElementType,
        MultiBladeRefusal::LengthMismatch,
    ];

    /// Error class.
    pub fn class(self) -> MultiBladeErrorClass {
        match self {
            MultiBladeRefusal::ShortPacket | MultiBladeRefusal::LengthMismatch => {
                MultiBladeErrorClass::BadSize
            }
            MultiBladeRefusal::Version | MultiBladeRefusal::ElementType => {
                MultiBladeErrorClass::Header
            }
        }
    }

    /// Reason word.
    pub fn reason(self) -> &'static str {
        match self {
            MultiBladeRefusal::ShortPacket => "short_packet",
            MultiBladeRefusal::Version => "version",
            MultiBladeRefusal::ElementType => "element_type",
            MultiBladeRefusal::LengthMismatch => "length_mismatch",
        }
    }
}

/// The header, whatever it says.
///
/// # Errors
/// [`MultiBladeRefusal::ShortPacket`].
#[inline]
pub fn read_header(packet: &[u8]) -> Result<MultiBladeHeader, MultiBladeRefusal> {
    let Some((head, _)) = packet.split_first_chunk::<HEADER_BYTES>() else {
        return Err(MultiBladeRefusal::ShortPacket);
    };
    let mut bytes = Bytes::new(head);
    let mut read = || {
        Some(MultiBladeHeader {
            run_id: bytes.le64()?,
            global_time: bytes.le64()?,
            digitizer: bytes.le32()?,
            element_type: bytes.le16()?,
            elements: bytes.le16()?,
            version: bytes.le16()?,
            sequence: bytes.le32()?,
        })
    };
    read().ok_or(MultiBladeRefusal::ShortPacket)
}

/// Checks 2 and 3.
///
/// # Errors
/// [`MultiBladeRefusal::Version`], [`MultiBladeRefusal::ElementType`].
#[inline]
pub fn check(header: &MultiBladeHeader) -> Result<(), MultiBladeRefusal> {
    if header.version != VERSION {
        return Err(MultiBladeRefusal::Version);
    }
    if header.element_type != ELEMENT_TYPE {
        return Err(MultiBladeRefusal::ElementType);
    }
    Ok(())
}

/// Checks 1 to 3.
///
/// # Errors
/// The first reason.
#[inline]
pub fn header(packet: &[u8]) -> Result<MultiBladeHeader, MultiBladeRefusal> {
    let header = read_header(packet)?;
    check(&header)?;
    Ok(header)
}

/// Check 5: the elements.
///
/// # Errors
/// [`MultiBladeRefusal::LengthMismatch`].
#[inline]
pub fn elements<'a>(
    header: &MultiBladeHeader,
    packet: &'a [u8],
) -> Result<&'a [[u8; ELEMENT_BYTES]], MultiBladeRefusal> {
    let body = packet.get(HEADER_BYTES..).unwrap_or_default();
    match body.as_chunks() {
        (elements, []) if elements.len() == usize::from(header.elements) => Ok(elements),
        _ => Err(MultiBladeRefusal::LengthMismatch),
    }
}

/// True if a packet passes all checks but that of its sequence.
pub fn looks_right(packet: &[u8]) -> bool {
    header(packet).is_ok_and(|header| elements(&header, packet).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(version: [u8; 2], kind: u16, n: u16, bytes: usize) -> Vec<u8> {
        let mut p = vec![0u8; bytes];
        p[20..22].copy_from_slice(&kind.to_le_bytes());
        p[22..24].copy_from_slice(&n.to_le_bytes());
        p[24..26].copy_from_slice(&version);
        p
    }

    fn verdict(p: &[u8]) -> Result<usize, MultiBladeRefusal> {
        elements(&header(p)?, p).map(<[_]>::len)
    }

    #[test]
    fn the_first_failing_check_decides() {
        assert_eq!(verdict(&[0xff; 31]), Err(MultiBladeRefusal::ShortPacket));
        assert_eq!(verdict(&packet([1, 2], 2, 9, 33)), Err(MultiBladeRefusal::Version));
        assert_eq!(verdict(&packet([1, 3], 2, 9, 33)), Err(MultiBladeRefusal::ElementType));
        assert_eq!(verdict(&packet([1, 3], 1, 1, 32)), Err(MultiBladeRefusal::LengthMismatch));
        assert_eq!(verdict(&packet([1, 3], 1, 1, 39)), Err(MultiBladeRefusal::LengthMismatch));
        assert_eq!(verdict(&packet([1, 3], 1, 1, 41)), Err(MultiBladeRefusal::LengthMismatch));
        assert_eq!(verdict(&packet([1, 3], 1, 1, 40)), Ok(1));
        assert_eq!(verdict(&packet([1, 3], 1, 0, 32)), Ok(0));
    }

    #[test]
    fn fields_stand_where_the_format_says() {
        let bytes: Vec<u8> = (0..40).collect();
        let h = read_header(&bytes).unwrap();
        assert_eq!(h.run_id, 0x0706_0504_0302_0100);
        assert_eq!(h.global_time, 0x0f0e_0d0c_0b0a_0908);
        assert_eq!((h.digitizer, h.element_type, h.elements), (0x1312_1110, 0x1514, 0x1716));
        assert_eq!((h.version, h.sequence), (0x1918, 0x1d1c_1b1a));
        let r = Readout::read(bytes[32..].try_into().unwrap());
        assert_eq!((r.time, r.channel, r.adc), (0x2322_2120, 0x2524, 0x2726));
    }

    #[test]
    fn every_reason_has_its_own_word() {
        let mut words: Vec<_> = MultiBladeRefusal::ALL.iter().map(|r| r.reason()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), MultiBladeRefusal::ALL.len());
    }
}
