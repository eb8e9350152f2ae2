//! Packets for tests, written field by field: shares no code with the sender.

/// An item pointer that a test wants, whatever the flavour.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    immediate: bool,
    id: u64,
    value: u64,
}

/// An immediate.
pub(crate) fn imm(id: u64, value: u64) -> Wanted {
    Wanted { immediate: true, id, value }
}

/// An address.
pub(crate) fn adr(id: u64, value: u64) -> Wanted {
    Wanted { immediate: false, id, value }
}

/// A packet in parts.
#[derive(Debug, Clone)]
pub(crate) struct Raw {
    pub bits: u32,
    pub cnt: u64,
    pub heap_length: Option<u64>,
    pub offset: u64,
    pub payload: Vec<u8>,
    pub items: Vec<Wanted>,
    /// Standard items that are left out.
    pub skip: Vec<u64>,
}

impl Raw {
    pub fn new(cnt: u64, heap_length: u64, offset: u64, payload: &[u8]) -> Raw {
        let payload = payload.to_vec();
        let heap_length = Some(heap_length);
        Raw { bits: 40, cnt, heap_length, offset, payload, items: vec![], skip: vec![] }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut items = vec![imm(1, self.cnt)];
        items.extend(self.heap_length.map(|length| imm(2, length)));
        items.extend([imm(3, self.offset), imm(4, self.payload.len() as u64)]);
        items.retain(|item| !self.skip.contains(&item.id));
        items.extend(&self.items);
        let width = (self.bits / 8) as u8;
        let mut out = vec![0x53, 4, 8 - width, width, 0, 0];
        out.extend((items.len() as u16).to_be_bytes());
        for item in items {
            let mut word = [0u8; 8];
            let split = 8 - usize::from(width);
            word[split..].copy_from_slice(&item.value.to_be_bytes()[split..]);
            word[..split].copy_from_slice(&item.id.to_be_bytes()[8 - split..]);
            word[0] |= u8::from(item.immediate) << 7;
            out.extend(word);
        }
        out.extend(&self.payload);
        out
    }
}

/// The packets of a heap: `each` payload bytes, one item at address 0 in the first, offsets from 0.
pub(crate) fn heap(cnt: u64, bytes: &[u8], each: usize) -> Vec<Vec<u8>> {
    let pieces = bytes.chunks(each).enumerate();
    let make = |(n, piece): (usize, &[u8])| {
        let mut raw = Raw::new(cnt, bytes.len() as u64, (n * each) as u64, piece);
        if n == 0 {
            raw.items.push(adr(0x1000, 0));
        }
        raw.bytes()
    };
    pieces.map(make).collect()
}

/// A stop heap.
pub(crate) fn stop(cnt: u64) -> Vec<u8> {
    Raw { items: vec![imm(6, 2), adr(0, 0)], ..Raw::new(cnt, 1, 0, &[0]) }.bytes()
}

/// `n` bytes that differ with `seed`.
pub(crate) fn pattern(n: usize, seed: u64) -> Vec<u8> {
    (0..n as u64).map(|i| (seed + 131 * i + 17 * (i >> 8)) as u8).collect()
}

/// Bytes of hexadecimal digits.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.bytes().filter_map(|b| (b as char).to_digit(16).map(|d| d as u8)).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
