//! The hot loop: 0xD6 entries of one pulse into the event columns.
//!
//! Refuses a packet with an entry outside the pulse or without a pixel (`false`, nothing written):
//! the reader then takes the exact way. All checks are accumulated bits, so that no loop branches on
//! data. Two forms of the same loop, chosen by the instructions at hand: what is fastest with SSE2 is half as fast
//! with AVX-512 and the other way round. Source: `docs/formats/sonde.md` sections 3.1 and 6.

use fullcount_core::products::EventBatch;
use fullcount_instructions::{Set, Work};

use super::clock::Window;
use super::packet::ENTRY_BYTES;
use super::pixel::{NO_PIXEL, TABLE};

/// Appends all `entries` (5 bytes each) as events of `window`'s pulse, or nothing. `set`: the instructions that the caller is
/// compiled for.
#[inline(always)]
pub(super) fn append<S: Set>(
    set: S,
    entries: &[u8],
    window: Window,
    offset: u32,
    out: &mut EventBatch,
) -> bool {
    let first = out.pixel.len();
    let clean = if S::SHUFFLES_BYTES {
        // A function of its own: inside the reader the same code is vectorised differently, at half the rate.
        set.call(Shuffled { entries, window, offset, out })
    } else {
        append_in_passes(entries, window, offset, out)
    };
    if !clean {
        out.offset_ns.truncate(first);
        out.pixel.truncate(first);
    } else if first < out.pixel.len() && out.pulse_ns.last() != Some(&window.pulse.0) {
        out.pulse_ns.push(window.pulse.0);
        out.pulse_first.push(first as u32);
    }
    clean
}

/// Top bit set exactly if `after` lies outside `0..=last`, for `last` below 2³¹.
#[inline]
fn outside(after: u32, last: u32) -> u32 {
    after | last.wrapping_sub(after)
}

/// For narrow vectors: a scalar pass gathers the fields in place, a vector pass subtracts and checks.
/// One pass with the checks inside makes 1.00 G events/s with SSE2 on a Zen 4 core, this 1.21 G
/// (1.67 G with AVX2).
#[inline(always)]
fn append_in_passes(entries: &[u8], window: Window, offset: u32, out: &mut EventBatch) -> bool {
    let (first, last) = (out.pixel.len(), window.span - 1);
    let mut bad = 0;
    out.offset_ns.extend(
        entries.chunks_exact(ENTRY_BYTES).map(|e| u32::from_be_bytes([e[0], e[1], e[2], e[3]])),
    );
    for time in &mut out.offset_ns[first..] {
        *time = time.wrapping_sub(window.base);
        bad |= outside(*time, last);
    }
    out.pixel.extend(entries.chunks_exact(ENTRY_BYTES).map(|e| TABLE[usize::from(e[4])]));
    for pixel in &mut out.pixel[first..] {
        bad |= *pixel;
        *pixel = pixel.wrapping_add(offset);
    }
    bad & NO_PIXEL == 0
}

/// Entries of one block of [`append_shuffled`]: 8 times fill a 256-bit register; with 12 or 16 the
/// compiler falls back to byte moves (1.4 G and 0.8 G events/s instead of 1.9 G).
const BLOCK: usize = 8;

/// For byte shuffles over whole registers (AVX-512 VBMI): blocks of constant shape, pixels by
/// arithmetic instead of a table. 1.9 G events/s on a Zen 4 core; with SSE2 only 0.45 G.
struct Shuffled<'a> {
    entries: &'a [u8],
    window: Window,
    offset: u32,
    out: &'a mut EventBatch,
}

impl Work for Shuffled<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Set>(self, _: S) -> bool {
        append_shuffled(self.entries, self.window, self.offset, self.out)
    }
}

/// [`Shuffled`], with the instructions of the function that it is inlined into.
#[inline(always)]
fn append_shuffled(entries: &[u8], window: Window, offset: u32, out: &mut EventBatch) -> bool {
    let (blocks, rest) = entries.as_chunks::<{ ENTRY_BYTES * BLOCK }>();
    let last = window.span - 1;
    let mut bad = [0u32; BLOCK];
    let events = entries.len() / ENTRY_BYTES;
    out.offset_ns.reserve(events);
    out.pixel.reserve(events);
    for block in blocks {
        let (mut bytes, mut codes) = ([0u8; 4 * BLOCK], [0u8; BLOCK]);
        for i in 0..BLOCK {
            bytes[4 * i] = block[ENTRY_BYTES * i + 3];
            bytes[4 * i + 1] = block[ENTRY_BYTES * i + 2];
            bytes[4 * i + 2] = block[ENTRY_BYTES * i + 1];
            bytes[4 * i + 3] = block[ENTRY_BYTES * i];
        }
        for i in 0..BLOCK {
            codes[i] = block[ENTRY_BYTES * i + 4];
        }
        let (mut times, mut pixels) = ([0u32; BLOCK], [0u32; BLOCK]);
        for i in 0..BLOCK {
            let time = [bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]];
            times[i] = u32::from_le_bytes(time).wrapping_sub(window.base);
        }
        for i in 0..BLOCK {
            pixels[i] = flagged_pixel(u32::from(codes[i])).wrapping_add(offset + 1);
        }
        for i in 0..BLOCK {
            bad[i] |= outside(times[i], last) | pixels[i] | pixels[i] << 1;
        }
        out.offset_ns.extend_from_slice(&times);
        out.pixel.extend_from_slice(&pixels);
    }
    let bad = bad.iter().fold(0, |all, b| all | b);
    let mut clean = bad & NO_PIXEL == 0;
    for entry in rest.chunks_exact(ENTRY_BYTES) {
        let time = u32::from_be_bytes([entry[0], entry[1], entry[2], entry[3]]);
        let (time, pixel) = (time.wrapping_sub(window.base), TABLE[usize::from(entry[4])]);
        clean &= (outside(time, last) | pixel) & NO_PIXEL == 0;
        out.push(time, pixel.wrapping_add(offset));
    }
    clean
}

/// Pixel - 1 of an ASIC/channel byte (section 6 as arithmetic), with the bits of channels above 15 in
/// bits 30 and 31, which no module offset reaches (the geometry ends at pixel 256,000).
///
/// In its half of the module an unturned ASIC (1, 3) shows channel c + 4 r at 8 r + c; a turned one
/// (0, 2) at 31 minus that, which is the same with all five bits flipped.
#[inline(always)]
fn flagged_pixel(code: u32) -> u32 {
    let place = code & 3 | (code & 12) << 1;
    let turned = (code >> 6 & 1 ^ 1).wrapping_neg() & 31;
    ((place ^ turned) + (code >> 7 << 5)) | (code & 0b11_0000) << 26
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_core::time::PulseTime;
    use fullcount_instructions::{Instructions, available};
    use proptest::prelude::*;

    const WINDOW: Window = Window { pulse: PulseTime(5), base: 100, span: 1000 };

    /// A form of the loop with some instructions: the one that they choose, or the one named.
    #[derive(Clone, Copy)]
    enum Form {
        Chosen,
        InPasses,
        Shuffled,
    }

    struct Try<'a>(Form, &'a [u8], Window, u32, &'a mut EventBatch);

    impl Work for Try<'_> {
        type Output = bool;

        fn run<S: Set>(self, set: S) -> bool {
            let Try(form, entries, window, offset, out) = self;
            match form {
                Form::Chosen => append(set, entries, window, offset, out),
                Form::InPasses => append_in_passes(entries, window, offset, out),
                Form::Shuffled => set.call(super::Shuffled { entries, window, offset, out }),
            }
        }
    }

    fn append_with(with: Instructions, entries: &[u8], out: &mut EventBatch) -> bool {
        with.run(Try(Form::Chosen, entries, WINDOW, 0, out))
    }

    fn entries(list: &[(u32, u8)]) -> Vec<u8> {
        list.iter().flat_map(|&(t, code)| [&t.to_be_bytes()[..], &[code]].concat()).collect()
    }

    #[test]
    fn arithmetic_and_table_name_the_same_pixels() {
        for code in (0..=255u8).filter(|c| c & 0b11_0000 == 0) {
            assert_eq!(flagged_pixel(u32::from(code)) + 1, TABLE[usize::from(code)], "{code:#x}");
        }
        for code in (0..=255u8).filter(|c| c & 0b11_0000 != 0) {
            assert!(flagged_pixel(u32::from(code)) >> 30 != 0, "{code:#x}");
        }
    }

    #[test]
    fn a_refused_packet_leaves_no_trace() {
        let bad = [(99, 0), (1100, 0), (100, 16), (u32::MAX, 0), (100 + (1 << 31), 0)];
        for (with, bad) in available().flat_map(|with| bad.map(|bad| (with, bad))) {
            let mut out = EventBatch::default();
            assert!(append_with(with, &entries(&[(100, 0)]), &mut out));
            let before = out.clone();
            let mut list = vec![(100, 0); 20];
            for at in [0, 7, 8, 19] {
                let good = std::mem::replace(&mut list[at], bad);
                assert!(!append_with(with, &entries(&list), &mut out), "{with}: {bad:?} at {at}");
                assert_eq!(out, before);
                list[at] = good;
            }
        }
    }

    proptest! {
        /// Both forms, with all instructions that are there, against the plainest one.
        #[test]
        fn both_forms_agree_with_the_plain_loop(
            list in proptest::collection::vec((90u32..1110, any::<u8>()), 0..60),
            tame in any::<bool>(), offset in 0u32..1 << 20, longest in any::<bool>(),
        ) {
            let tame = |(t, c): (u32, u8)| if tame { (t.clamp(100, 1099), c & 0xcf) } else { (t, c) };
            let list: Vec<_> = list.into_iter().map(tame).collect();
            let span = if longest { 1 << 31 } else { 1000 };
            let window = Window { span, ..WINDOW };
            let inside = |t: u32| t.wrapping_sub(100) < span;
            let clean = list.iter().all(|&(t, c)| inside(t) && TABLE[usize::from(c)] < NO_PIXEL);
            let bytes = entries(&list);
            let forms = [Form::Chosen, Form::InPasses, Form::Shuffled];
            for (with, form) in available().flat_map(|with| forms.map(|form| (with, form))) {
                let mut out = EventBatch::default();
                prop_assert_eq!(with.run(Try(form, &bytes, window, offset, &mut out)), clean);
                if clean {
                    let want = |&(t, c): &(u32, u8)| (t - 100, TABLE[usize::from(c)] + offset);
                    let seen = out.offset_ns.iter().copied().zip(out.pixel.iter().copied());
                    prop_assert_eq!(seen.collect::<Vec<_>>(), list.iter().map(want).collect::<Vec<_>>());
                }
            }
        }
    }
}
