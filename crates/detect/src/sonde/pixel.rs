//! Digital geometry of one SoNDe module: (ASIC, channel) to pixel 1..=64.
//!
//! Refuses channels above 15 and ASICs above 3 with `None`: no pixel, no event. Source:
//! `docs/formats/sonde.md` section 6; its four ASICs are quadrants, 0 and 2 rotated by 180 degrees.

/// Pixels of one module.
pub const MODULE_PIXELS: u32 = 64;

/// Columns and rows of one module.
pub const MODULE_SIDE: u32 = 8;

/// Column and row of a channel in the logical view, each 0..=7.
pub const fn place(asic: u8, channel: u8) -> Option<(u32, u32)> {
    if asic > 3 || channel > 15 {
        return None;
    }
    let (c, r) = ((channel % 4) as u32, (channel / 4) as u32);
    Some(match asic {
        0 => (7 - c, 3 - r),
        1 => (c, r),
        2 => (7 - c, 7 - r),
        _ => (c, 4 + r),
    })
}

/// Pixel 1..=64 of a channel: 8 y + x + 1.
pub const fn pixel(asic: u8, channel: u8) -> Option<u32> {
    match place(asic, channel) {
        Some((x, y)) => Some(MODULE_SIDE * y + x + 1),
        None => None,
    }
}

/// Set in [`TABLE`] where a channel has no pixel: adding a module's offset (below 2³¹) keeps it.
pub(super) const NO_PIXEL: u32 = 1 << 31;

/// Pixel by the ASIC/channel byte of 0xD6 (`asic << 6 | channel`), or [`NO_PIXEL`].
pub(super) static TABLE: [u32; 256] = {
    let mut table = [NO_PIXEL; 256];
    let mut byte = 0;
    while byte < 256 {
        if let Some(p) = pixel((byte >> 6) as u8, (byte & 63) as u8) {
            table[byte] = p;
        }
        byte += 1;
    }
    table
};

/// Pixels of all channels in the order of 0xD5: ASIC by ASIC, channel by channel.
pub(super) static IN_ORDER: [u32; MODULE_PIXELS as usize] = {
    let mut pixels = [0; MODULE_PIXELS as usize];
    let mut at = 0;
    while at < pixels.len() {
        if let Some(p) = pixel((at / 16) as u8, (at % 16) as u8) {
            pixels[at] = p;
        }
        at += 1;
    }
    pixels
};

#[cfg(test)]
mod tests {
    use super::*;

    // The picture of the format document, row by row: ASIC/channel at each place, y downwards.
    const PICTURE: [[(u8, u8); 8]; 8] = [
        [(1, 0), (1, 1), (1, 2), (1, 3), (0, 15), (0, 14), (0, 13), (0, 12)],
        [(1, 4), (1, 5), (1, 6), (1, 7), (0, 11), (0, 10), (0, 9), (0, 8)],
        [(1, 8), (1, 9), (1, 10), (1, 11), (0, 7), (0, 6), (0, 5), (0, 4)],
        [(1, 12), (1, 13), (1, 14), (1, 15), (0, 3), (0, 2), (0, 1), (0, 0)],
        [(3, 0), (3, 1), (3, 2), (3, 3), (2, 15), (2, 14), (2, 13), (2, 12)],
        [(3, 4), (3, 5), (3, 6), (3, 7), (2, 11), (2, 10), (2, 9), (2, 8)],
        [(3, 8), (3, 9), (3, 10), (3, 11), (2, 7), (2, 6), (2, 5), (2, 4)],
        [(3, 12), (3, 13), (3, 14), (3, 15), (2, 3), (2, 2), (2, 1), (2, 0)],
    ];

    #[test]
    fn the_mapping_is_the_documents_picture() {
        for (y, row) in PICTURE.iter().enumerate() {
            for (x, &(asic, channel)) in row.iter().enumerate() {
                let want = 8 * y as u32 + x as u32 + 1;
                assert_eq!(pixel(asic, channel), Some(want), "{asic}/{channel}");
                assert_eq!(TABLE[usize::from(asic << 6 | channel)], want);
                assert_eq!(IN_ORDER[usize::from(16 * asic + channel)], want);
            }
        }
    }

    #[test]
    fn only_64_of_all_pairs_have_a_pixel() {
        let all = (0..=255).flat_map(|a| (0..=255).map(move |c| (a, c)));
        assert_eq!(all.filter(|&(a, c)| pixel(a, c).is_some()).count(), 64);
        assert_eq!(TABLE.iter().filter(|&&p| p == NO_PIXEL).count(), 192);
    }
}
