//! One SRS frame: header, and words of 6 bytes that are hits or markers, with every check in its order.
//!
//! Refuses what `docs/formats/gdgem.md` section 2.1 refuses, one [`GdGemRefusal`] per reason; the first failing
//! check decides. All fields are big endian. Words are never refused here: what a VMM or an offset means
//! depends on the firmware, which the reader knows.

/// Bytes of the header.
pub const HEADER_BYTES: usize = 16;

/// Bytes of a word.
pub const WORD_BYTES: usize = 6;

/// Triggered firmware: largest relative trigger time; larger ones are ignored (section 13).
pub const MOST_RELATIVE: u64 = 4095;

/// A hit or a marker as it was sent.
pub type RawWord = [u8; WORD_BYTES];

/// The 16 bytes in front of the words (section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GdGemHeader {
    /// Counts the frames of this FEC.
    pub counter: u32,
    /// Front-end concentrator, 1 to 15.
    pub fec: u8,
    /// Low 32 bits of the FEC clock at sending; not used.
    pub sent: u32,
    /// Bit mask of the VMMs whose marker was sent; not used.
    pub overflow: u32,
}

/// Why a frame is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GdGemRefusal {
    /// Check 1: fewer than 4 bytes.
    NoCounter,
    /// Check 3: fewer than 22 bytes, which are a header and a word.
    ShortFrame,
    /// Check 4: bytes 4 to 6 are not "VM3".
    DataId,
    /// Check 5: FEC 0.
    FecId,
    /// Check 6: the words are not whole.
    Ragged,
}

impl GdGemRefusal {
    /// All reasons, in the order of the checks.
    pub const ALL: [GdGemRefusal; 5] = [
        GdGemRefusal::NoCounter,
        GdGemRefusal::ShortFrame,
        GdGemRefusal::DataId,
        GdGemRefusal::FecId,
        GdGemRefusal::Ragged,
    ];

    /// Class of the reason, as in counter names.
    pub fn class(self) -> &'static str {
        match self {
            GdGemRefusal::NoCounter | GdGemRefusal::ShortFrame | GdGemRefusal::Ragged => "bad_size",
            GdGemRefusal::DataId | GdGemRefusal::FecId => "header",
        }
    }

    /// Word of the reason, as in counter names.
    pub fn reason(self) -> &'static str {
        match self {
            GdGemRefusal::NoCounter => "no_counter",
            GdGemRefusal::ShortFrame => "short_frame",
            GdGemRefusal::DataId => "data_id",
            GdGemRefusal::FecId => "fec_id",
            GdGemRefusal::Ragged => "ragged",
        }
    }
}

/// Header and words of a frame.
///
/// # Errors
/// The first check that fails.
#[inline]
pub fn frame(bytes: &[u8]) -> Result<(GdGemHeader, &[RawWord]), GdGemRefusal> {
    if bytes.len() < 4 {
        return Err(GdGemRefusal::NoCounter);
    }
    let Some((head, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(GdGemRefusal::ShortFrame);
    };
    if rest.len() < WORD_BYTES {
        return Err(GdGemRefusal::ShortFrame);
    }
    let number =
        |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    if &head[4..7] != b"VM3" {
        return Err(GdGemRefusal::DataId);
    }
    let fec = head[7] >> 4;
    if fec == 0 {
        return Err(GdGemRefusal::FecId);
    }
    let (words, ragged) = rest.as_chunks::<WORD_BYTES>();
    if !ragged.is_empty() {
        return Err(GdGemRefusal::Ragged);
    }
    Ok((GdGemHeader { counter: number(0), fec, sent: number(8), overflow: number(12) }, words))
}

/// True if a frame passes all checks.
pub fn looks_right(bytes: &[u8]) -> bool {
    frame(bytes).is_ok()
}

/// Gray code to binary, 12 bits.
#[inline]
pub const fn gray(code: u16) -> u16 {
    let mut b = code;
    b ^= b >> 8;
    b ^= b >> 4;
    b ^= b >> 2;
    b ^ (b >> 1)
}

/// [`gray`] of all codes: one load in place of seven steps that wait for each other.
static BINARY: [u16; 4096] = {
    let mut table = [0; 4096];
    let mut code = 0;
    while code < 4096 {
        table[code] = gray(code as u16);
        code += 1;
    }
    table
};

/// A word with its fields within reach: the lower 48 bits. What lies above them belongs to another word.
#[derive(Debug, Clone, Copy)]
pub struct Word(u64);

/// The words of a frame in their order. Each is read with one load of 8 bytes, which ends with the word.
#[derive(Debug, Clone, Copy)]
pub struct FrameWords<'a>(&'a [u8]);

impl<'a> FrameWords<'a> {
    /// Bytes in front of a word that are read with it.
    const BEFORE: usize = 8 - WORD_BYTES;

    /// The first `n` words of a good frame; fewer if it does not hold so many.
    pub fn of(frame: &'a [u8], n: usize) -> FrameWords<'a> {
        let rest = frame.get(HEADER_BYTES - FrameWords::BEFORE..).unwrap_or_default();
        let end = (FrameWords::BEFORE + n * WORD_BYTES).min(rest.len());
        FrameWords(&rest[..end])
    }

    /// Takes the next word, also as words of which it is the only one.
    pub fn split_next(&mut self) -> Option<(Word, FrameWords<'a>)> {
        let alone = FrameWords(self.0.get(..8)?);
        self.next().map(|word| (word, alone))
    }

    /// Words that are left.
    pub fn len(&self) -> usize {
        self.0.len().saturating_sub(FrameWords::BEFORE) / WORD_BYTES
    }

    /// True if none is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Iterator for FrameWords<'_> {
    type Item = Word;

    #[inline]
    fn next(&mut self) -> Option<Word> {
        let (eight, _) = self.0.split_first_chunk::<8>()?;
        self.0 = &self.0[WORD_BYTES..];
        Some(Word(u64::from_be_bytes(*eight)))
    }
}

impl Word {
    /// Reads the bytes.
    #[inline]
    pub fn read(raw: &RawWord) -> Word {
        let high = u32::from_be_bytes([raw[0], raw[1], raw[2], raw[3]]);
        let low = u16::from_be_bytes([raw[4], raw[5]]);
        Word(u64::from(high) << 16 | u64::from(low))
    }

    /// True for a hit, false for a marker.
    #[inline]
    pub fn is_hit(self) -> bool {
        self.0 & 1 << 15 != 0
    }

    /// Hit: raw offset, 0 to 31.
    #[inline]
    pub fn offset(self) -> usize {
        (self.0 >> 43 & 0x1f) as usize
    }

    /// Hit: VMM, 0 to 31.
    #[inline]
    pub fn vmm(self) -> usize {
        (self.0 >> 38 & 0x1f) as usize
    }

    /// Hit: amplitude, 0 to 1023.
    #[inline]
    pub fn adc(self) -> u16 {
        (self.0 >> 28 & 0x3ff) as u16
    }

    /// Hit: bunch-crossing counter, decoded, 0 to 4095.
    #[inline]
    pub fn bcid(self) -> u16 {
        BINARY[(self.0 >> 16 & 0xfff) as usize]
    }

    /// Hit: VMM × 128 + over threshold × 64 + channel, 0 to 4095: two pieces of the word as they stand.
    #[inline]
    pub fn vmm_flag_and_channel(self) -> usize {
        (self.0 >> 31 & 0xf80 | self.0 >> 8 & 0x7f) as usize
    }

    /// Hit: (VMM mod 16) × 64 + channel, 0 to 1023.
    #[inline]
    pub fn vmm_and_channel(self) -> usize {
        (self.0 >> 32 & 0x3c0 | self.0 >> 8 & 0x3f) as usize
    }

    /// Hit: true if the strip itself was above threshold, false if a neighbour was.
    #[inline]
    pub fn over_threshold(self) -> bool {
        self.0 & 1 << 14 != 0
    }

    /// Hit: channel, 0 to 63.
    #[inline]
    pub fn channel(self) -> usize {
        (self.0 >> 8 & 0x3f) as usize
    }

    /// Hit: time-to-digital counter, 0 to 255.
    #[inline]
    pub fn tdc(self) -> u8 {
        self.0 as u8
    }

    /// Marker: VMM, 0 to 31; above 15 only in triggered firmware.
    #[inline]
    pub fn marker_vmm(self) -> usize {
        (self.0 >> 10 & 0x1f) as usize
    }

    /// Marker: 42-bit counter of bunch-crossing clocks.
    #[inline]
    pub fn marker_time(self) -> u64 {
        (self.0 >> 16 & 0xffff_ffff) << 10 | self.0 & 0x3ff
    }

    /// Marker of a VMM above 15 in triggered firmware: the event counter that ends a trigger.
    #[inline]
    pub fn event_counter(self) -> Option<u32> {
        let ends = self.0 >> 44 & 0xf == 0xf;
        ends.then_some(((self.0 >> 16 & 0x3f) << 10 | self.0 & 0x3ff) as u32)
    }
}

/// Words up to and with hit number `room`, and whether some remain: a hit buffer of that size is full.
pub fn within(words: &[RawWord], room: usize) -> (&[RawWord], &[RawWord]) {
    if words.len() <= room {
        return (words, &[]);
    }
    let mut hits = 0;
    for (at, raw) in words.iter().enumerate() {
        if hits == room {
            return words.split_at(at);
        }
        hits += usize::from(raw[4] >> 7);
    }
    (words, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_format() {
        let word = Word::read(&[0xe0, 0x92, 0x24, 0x02, 0x80, 0x00]);
        assert!(word.is_hit() && !word.over_threshold());
        assert_eq!((word.offset(), word.vmm(), word.adc(), word.bcid()), (28, 2, 290, 2044));
        assert_eq!((word.channel(), word.tdc()), (0, 0));
    }

    #[test]
    fn gray_code_changes_one_bit_per_step() {
        for b in 0..4096u16 {
            assert_eq!(gray(b ^ b >> 1), b);
        }
    }

    #[test]
    fn markers_have_42_bits() {
        let word = Word::read(&[0xff, 0xff, 0xff, 0xff, 0x0f, 0xff]);
        assert!(!word.is_hit());
        assert_eq!((word.marker_vmm(), word.marker_time()), (3, (1 << 42) - 1));
        assert_eq!(word.event_counter(), Some(0xffff));
        assert_eq!(Word::read(&[0x7f, 0, 0, 0, 0, 0]).event_counter(), None);
    }

    #[test]
    fn words_of_a_frame_are_those_of_its_bytes() {
        let frame: Vec<u8> = (0..=255).cycle().take(HEADER_BYTES + 50 * WORD_BYTES).collect();
        let one_by_one = frame[HEADER_BYTES..].as_chunks::<WORD_BYTES>().0.iter().map(Word::read);
        let fields = |w: Word| {
            let hit = (w.offset(), w.vmm(), w.adc(), w.bcid(), w.channel(), w.tdc());
            let places = (w.vmm_flag_and_channel(), w.vmm_and_channel(), w.over_threshold());
            (hit, places, w.is_hit(), w.marker_vmm(), w.marker_time(), w.event_counter())
        };
        let wanted: Vec<_> = one_by_one.map(fields).collect();
        assert_eq!(FrameWords::of(&frame, 50).map(fields).collect::<Vec<_>>(), wanted);
        assert_eq!(FrameWords::of(&frame, 7).map(fields).collect::<Vec<_>>(), wanted[..7]);
        assert_eq!(FrameWords::of(&frame[..13], 7).count(), 0);
        let word = FrameWords::of(&frame, 1).next().unwrap();
        let flag = usize::from(word.over_threshold());
        assert_eq!(word.vmm_flag_and_channel(), (word.vmm() * 2 + flag) * 64 + word.channel());
        assert_eq!(word.vmm_and_channel(), word.vmm() % 16 * 64 + word.channel());
    }

    #[test]
    fn a_full_buffer_ends_behind_its_last_hit() {
        let (hit, marker) = ([0, 0, 0, 0, 0x80, 0], [0; 6]);
        let words = [hit, marker, hit, marker, hit];
        let cut = |room| within(&words, room).0.len();
        assert_eq!((cut(5), cut(3), cut(2), cut(1), cut(0)), (5, 5, 3, 1, 0));
    }
}
