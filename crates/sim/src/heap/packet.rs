//! SPEAD packets, field by field: an array's heap with descriptors, cut as spead2 cuts it.
//!
//! Shares no code with `fullcount-spead`. Source: `docs/formats/spead.md`, sections 2 to 7.

/// Bytes before the items of a packet: header and four standard item pointers.
const PREFIX: usize = 40;

/// An item pointer of SPEAD-64-40.
fn pointer(immediate: bool, id: u64, value: u64) -> [u8; 8] {
    (u64::from(immediate) << 63 | id << 40 | value & ((1 << 40) - 1)).to_be_bytes()
}

fn packet(
    out: &mut Vec<u8>,
    cnt: u64,
    length: usize,
    offset: usize,
    items: &[[u8; 8]],
    payload: &[u8],
) {
    out.extend([0x53, 4, 3, 5, 0, 0]);
    out.extend(((4 + items.len()) as u16).to_be_bytes());
    let standard = [(1, cnt), (2, length as u64), (3, offset as u64), (4, payload.len() as u64)];
    out.extend(standard.iter().flat_map(|&(id, value)| pointer(true, id, value)));
    out.extend(items.iter().flatten());
    out.extend(payload);
}

/// A descriptor with a NumPy header.
pub(super) fn descriptor(id: u64, name: &str, about: &str, numpy: &str) -> Vec<u8> {
    let texts = [(0x10, name), (0x11, about), (0x13, ""), (0x12, ""), (0x15, numpy)];
    let mut items = vec![pointer(true, 0x14, id)];
    let mut payload = Vec::new();
    for (id, text) in texts {
        items.push(pointer(false, id, payload.len() as u64));
        payload.extend(text.bytes());
    }
    let mut out = Vec::new();
    packet(&mut out, 1, payload.len(), 0, &items, &payload);
    out
}

/// What a heap holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Entry<'a> {
    /// Lies in the payload.
    Bytes(u64, &'a [u8]),
    /// In its pointer.
    Number(u64, u64),
}

/// Packets of a heap, one behind the other in `out`; their sizes.
pub(super) fn cut(
    out: &mut Vec<u8>,
    cnt: u64,
    entries: &[Entry<'_>],
    largest: usize,
) -> Vec<usize> {
    let largest = largest / 8 * 8;
    let per_packet = (largest - PREFIX - 8) / 8;
    let (mut payload, mut pointers) = (Vec::new(), Vec::new());
    for entry in entries {
        pointers.push(match *entry {
            Entry::Bytes(id, bytes) => {
                let at = pointer(false, id, payload.len() as u64);
                payload.extend_from_slice(bytes);
                at
            }
            Entry::Number(id, value) => pointer(true, id, value),
        });
    }
    let least = 8 * (pointers.len() / per_packet) + 1;
    if payload.len() < least {
        pointers.push(pointer(false, 0, payload.len() as u64));
        payload.resize(least, 0);
    }
    let (mut sizes, mut at) = (Vec::new(), 0);
    let mut rest = &pointers[..];
    while at < payload.len() {
        let (items, later) = rest.split_at(rest.len().min(per_packet));
        rest = later;
        let room = largest - PREFIX - 8 * items.len();
        let end = payload.len().min(at + room);
        let before = out.len();
        packet(out, cnt, payload.len(), at, items, &payload[at..end]);
        sizes.push(out.len() - before);
        at = end;
    }
    sizes
}

/// A stop heap.
pub(super) fn stop(cnt: u64) -> Vec<u8> {
    let mut out = Vec::new();
    packet(&mut out, cnt, 1, 0, &[pointer(true, 6, 2), pointer(false, 0, 0)], &[0]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stop_heap_is_that_of_the_document() {
        let hex: String = stop(2).iter().map(|b| format!("{b:02x}")).collect();
        let want = "5304030500000006800001000000000280000200000000018000030000000000\
                    8000040000000001800006000000000200000000000000000 0"
            .replace(' ', "");
        assert_eq!(hex, want);
    }

    #[test]
    fn packets_have_the_sizes_of_the_document() {
        let mut out = Vec::new();
        // An empty heap is one packet of 49 B; 4 MiB at 1472 B are 2929 packets, the first with 1424 B of payload.
        assert_eq!(cut(&mut out, 1, &[], 1472), [49]);
        let array = vec![0; 4 << 20];
        let sizes = cut(&mut out, 1, &[Entry::Bytes(0x1000, &array)], 1472);
        assert_eq!((sizes.len(), sizes[0], sizes[1]), (2929, 1472, 1472));
        let sizes = cut(&mut out, 1, &[Entry::Bytes(0x1000, &array)], 8972);
        assert_eq!((sizes.len(), sizes.last()), (470, Some(&7120)));
    }
}
