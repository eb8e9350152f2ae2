//! Files composed in all variants; truncated and damaged anywhere.

use super::*;
use proptest::prelude::*;

/// Big- or little-endian bytes.
fn n32(big: bool, v: u32) -> [u8; 4] {
    if big { v.to_be_bytes() } else { v.to_le_bytes() }
}

fn n16(big: bool, v: u16) -> [u8; 2] {
    if big { v.to_be_bytes() } else { v.to_le_bytes() }
}

fn classic(big: bool, nanos: bool, link: u32, frames: &[(u32, u32, &[u8], u32)]) -> Vec<u8> {
    let magic = if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    let mut f = n32(big, magic).to_vec();
    f.extend([n16(big, 2), n16(big, 4)].concat());
    f.extend([0, 0, 65_535, link].map(|v| n32(big, v)).concat());
    for &(s, part, bytes, original) in frames {
        f.extend([s, part, bytes.len() as u32, original].map(|v| n32(big, v)).concat());
        f.extend(bytes);
    }
    f
}

fn block(big: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let mut b = [n32(big, kind), n32(big, padded as u32 + 12)].concat();
    b.extend(body);
    b.resize(8 + padded, 0);
    b.extend(n32(big, padded as u32 + 12));
    b
}

fn section(big: bool) -> Vec<u8> {
    let body = [&n32(big, 0x1a2b_3c4d)[..], &n16(big, 1), &n16(big, 0), &[0xff; 8]].concat();
    block(big, 0x0a0d_0d0a, &body)
}

fn option(big: bool, code: u16, value: &[u8]) -> Vec<u8> {
    let mut o = [n16(big, code), n16(big, value.len() as u16)].concat();
    o.extend(value);
    o.resize(o.len().next_multiple_of(4), 0);
    o
}

fn interface(big: bool, link: u16, snap: u32, options: &[u8]) -> Vec<u8> {
    let body = [&n16(big, link)[..], &[0, 0], &n32(big, snap), options].concat();
    block(big, 1, &body)
}

fn enhanced(big: bool, interface: u32, ticks: u64, bytes: &[u8], original: u32) -> Vec<u8> {
    let head = [interface, (ticks >> 32) as u32, ticks as u32, bytes.len() as u32, original];
    block(big, 6, &[&head.map(|v| n32(big, v)).concat()[..], bytes].concat())
}

/// (link, interface, time, bytes, original) of every frame, and how the file ended.
type All = (Vec<(u16, u32, Option<i64>, Vec<u8>, u64)>, Tail, u64);

fn all(file: &[u8]) -> All {
    let mut r = CaptureReader::new(file).unwrap();
    let mut frames = Vec::new();
    while let Some(f) = r.next().unwrap() {
        frames.push((f.link, f.interface, f.time_ns, f.frame.to_vec(), f.original));
    }
    assert!(r.next().unwrap().is_none(), "the end is the end");
    (frames, r.tail(), r.skipped_blocks())
}

#[test]
fn classic_files_of_both_orders_and_units() {
    for big in [false, true] {
        for (nanos, unit) in [(false, 1_000), (true, 1)] {
            let file = classic(big, nanos, 113, &[(7, 9, b"abc", 3), (8, 0, b"", 99)]);
            let expected = vec![
                (113, 0, Some(7_000_000_000 + 9 * unit), b"abc".to_vec(), 3),
                (113, 0, Some(8_000_000_000), b"".to_vec(), 99),
            ];
            assert_eq!(all(&file), (expected, Tail::Complete, 0), "{big} {nanos}");
        }
    }
    // 4 bytes of frame check sequence announced in the upper bits.
    assert_eq!(all(&classic(true, false, 0x4400_0001, &[(0, 0, b"x", 1)])).0[0].0, 1);
}

#[test]
fn pcapng_with_interfaces_units_offsets_sections_and_odd_blocks() {
    for big in [false, true] {
        let offset = if big { 100u64.to_be_bytes() } else { 100u64.to_le_bytes() };
        let nanos = option(big, 9, &[9]);
        let binary = [option(big, 2, b"eth0"), option(big, 9, &[0x80 | 10])].concat();
        let late = [option(big, 14, &offset), option(big, 0, b"")].concat();
        let simple = [&n32(big, 6)[..], b"simple"].concat();
        let old = [
            &[n16(big, 2), n16(big, 77)].concat()[..],
            &[0, 3_000_000, 3, 5].map(|v| n32(big, v)).concat(),
            b"old",
        ];
        let mut file = [
            section(big),
            interface(big, 1, 4, &nanos),
            interface(big, 113, 0, &binary),
            interface(big, 101, 0, &late),
            block(big, 0x0bad, &[1; 100]),
            enhanced(big, 0, 1 << 33, b"ns", 2),
            enhanced(big, 1, 1536, b"bin", 3),
            enhanced(big, 2, 1_000_000, b"late!", 9),
            enhanced(big, 3, 0, b"nobody", 6),
            block(big, 3, &simple),
            block(big, 2, &old.concat()),
        ]
        .concat();
        file.extend(section(!big));
        file.extend(interface(!big, 276, 0, &[]));
        file.extend(enhanced(!big, 0, 5, b"two", 3));
        let expected = vec![
            (1, 0, Some(1 << 33), b"ns".to_vec(), 2),
            (113, 1, Some(1_500_000_000), b"bin".to_vec(), 3),
            (101, 2, Some(101_000_000_000), b"late!".to_vec(), 9),
            (1, 0, None, b"simp".to_vec(), 6),
            (101, 2, Some(103_000_000_000), b"old".to_vec(), 5),
            (276, 0, Some(5_000), b"two".to_vec(), 3),
        ];
        assert_eq!(all(&file), (expected, Tail::Complete, 2), "big-endian first: {big}");
    }
}

#[test]
fn every_resolution_is_survived() {
    for n in 0..=255 {
        let file = [
            section(false),
            interface(false, 1, 0, &option(false, 9, &[n])),
            enhanced(false, 0, u64::MAX, b"", 0),
        ];
        let time = all(&file.concat()).0[0].2.unwrap();
        match n {
            0 => assert_eq!(time, i64::MAX, "2^64 s saturate"),
            9 => assert_eq!(time, i64::MAX, "2^64 ns saturate"),
            12 => assert_eq!(time, 18_446_744_073_709_551),
            127 | 255 => assert_eq!(time, 0),
            0xc0 => assert_eq!(time, 999_999_999, "2^-64 s, rounded down"),
            _ => assert!(time >= 0),
        }
    }
}

#[test]
fn a_cut_file_gives_all_whole_records() {
    let body = [&classic(false, true, 1, &[])[24..], &[]].concat();
    assert!(body.is_empty());
    let frames: [(u32, u32, &[u8], u32); 3] =
        [(1, 0, b"one", 3), (2, 0, b"two", 3), (3, 0, b"three", 5)];
    let file = classic(false, true, 1, &frames);
    let ends = [24, 43, 62, 83];
    for cut in 24..=file.len() {
        let (got, tail, _) = all(&file[..cut]);
        let whole = ends.iter().filter(|&&e| e <= cut).count() - 1;
        assert_eq!(got.len(), whole, "cut at {cut}");
        let expected = if ends.contains(&cut) { Tail::Complete } else { Tail::Truncated };
        assert_eq!(tail, expected, "cut at {cut}");
    }
    let blocks = [
        section(true),
        interface(true, 1, 0, &[]),
        block(true, 99, &[0; 64]),
        enhanced(true, 0, 1, b"one", 3),
        enhanced(true, 0, 2, b"two.", 4),
    ];
    let mut ends = vec![0];
    blocks.iter().for_each(|b| ends.push(ends[ends.len() - 1] + b.len()));
    let file = blocks.concat();
    for cut in 28..=file.len() {
        let (got, tail, _) = all(&file[..cut]);
        let whole = ends.iter().filter(|&&e| e <= cut).count().saturating_sub(4);
        assert_eq!(got.len(), whole, "cut at {cut}");
        assert_eq!(tail == Tail::Complete, ends.contains(&cut), "cut at {cut}");
    }
}

#[test]
fn lengths_that_make_no_sense_end_the_file() {
    let good = classic(false, false, 1, &[(1, 0, b"one", 3)]);
    let huge = [&good[..], &[0; 8], &u32::MAX.to_le_bytes(), &[0; 4]].concat();
    assert_eq!((all(&huge).0.len(), all(&huge).1), (1, Tail::Damaged));
    let start =
        [section(false), interface(false, 1, 0, &[]), enhanced(false, 0, 0, b"x", 1)].concat();
    let bad: [Vec<u8>; 6] = [
        [n32(false, 6), n32(false, 8), n32(false, 0)].concat(), // below 12
        [n32(false, 6), n32(false, 33), n32(false, 0)].concat(), // no multiple of 4
        [n32(false, 6), n32(false, 1 << 30), n32(false, 0)].concat(), // known and far too long
        block(false, 6, &[0; 16]),                              // no room for its fields
        block(false, 0x0a0d_0d0a, &[7; 16]),                    // a section in no byte order
        {
            let mut b = enhanced(false, 0, 0, b"x", 1);
            b[20] = 200; // captured length above the block
            b
        },
    ];
    for b in bad {
        let file = [&start[..], &b].concat();
        let (frames, tail, _) = all(&file);
        assert_eq!((frames.len(), tail), (1, Tail::Damaged), "{b:02x?}");
    }
    let mut other_end = start.clone();
    let last = other_end.len() - 4;
    other_end[last] += 4;
    assert_eq!((all(&other_end).0.len(), all(&other_end).1), (0, Tail::Damaged));
}

#[test]
fn a_long_unknown_block_is_skipped_without_being_held() {
    let long = vec![0x55; 3 * LONGEST_BLOCK + 1];
    let file = [
        section(false),
        interface(false, 1, 0, &[]),
        block(false, 0x4000_0000, &long),
        enhanced(false, 0, 0, b"behind", 6),
    ]
    .concat();
    assert_eq!(all(&file).0[0].3, b"behind");
}

#[test]
fn files_that_are_no_capture_are_named() {
    let no = |b: &[u8]| CaptureReader::new(b).unwrap_err().to_string();
    assert!(no(b"").contains("empty"));
    assert!(no(b"\x1f\x8b\x08\0").contains("gunzip"));
    assert!(no(b"hello world, no capture").contains("68656c6c"));
    assert!(no(&[0xd4, 0xc3]).contains("d4c3"));
    assert!(no(&classic(false, false, 1, &[])[..23]).contains("inside its header"));
    assert!(no(&section(false)[..20]).contains("inside its header"));
    let mut three = classic(false, false, 1, &[]);
    three[4] = 3;
    assert!(no(&three).contains("pcap version 3.4"));
    let mut two = section(true);
    two[13] = 2;
    assert!(no(&two).contains("pcapng version 2.0"));
}

/// Gives one byte a call, as a slow pipe.
struct Drops<'a>(&'a [u8]);

impl Read for Drops<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = buf.len().min(self.0.len()).min(1);
        buf[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

#[test]
fn pieces_of_any_size_give_the_same() {
    let file = classic(true, true, 1, &[(1, 2, b"abc", 3), (3, 4, b"defg", 4)]);
    let mut r = CaptureReader::new(Drops(&file)).unwrap();
    assert_eq!(r.next().unwrap().unwrap().frame, b"abc");
    assert_eq!(r.next().unwrap().unwrap().frame, b"defg");
    assert_eq!(r.last(), b"defg");
    assert!(r.next().unwrap().is_none());
}

#[test]
fn memory_is_handed_on_and_too_little_of_it_replaced() {
    let file = classic(false, false, 1, &[(1, 2, &[9; 5_000], 5_000)]);
    let first = CaptureReader::new(&file[..]).unwrap().into_buffer();
    let place = first.as_ptr();
    let mut second = CaptureReader::with_buffer(&file[..], first).unwrap();
    assert_eq!(second.next().unwrap().unwrap().frame, [9; 5_000]);
    let kept = second.into_buffer();
    assert_eq!(kept.as_ptr(), place);
    let mut third = CaptureReader::with_buffer(&file[..], vec![0; 30].into()).unwrap();
    assert_eq!(third.next().unwrap().unwrap().frame, [9; 5_000]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn damage_never_panics_and_never_adds_frames(
        big: bool, ng: bool, at in 24usize..400, to: u8, cut in 0usize..100,
    ) {
        let mut file = if ng {
            let mut f = [section(big), interface(big, 1, 0, &option(big, 9, &[9]))].concat();
            (0..8u64).for_each(|k| f.extend(enhanced(big, 0, k, &[k as u8; 13], 13)));
            f
        } else {
            classic(big, true, 1, &[(1, 2, &[3; 20][..], 20); 8])
        };
        let at = at % file.len();
        file[at] = to;
        file.truncate(file.len().saturating_sub(cut));
        if let Ok(mut r) = CaptureReader::new(&file[..]) {
            let mut frames = 0;
            while let Some(f) = r.next().unwrap() {
                prop_assert!(f.frame.len() <= file.len());
                frames += 1;
            }
            prop_assert!(frames <= file.len() / 12);
        }
    }

    #[test]
    fn any_bytes_behind_a_header_are_survived(
        ng: bool, bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut file = if ng { section(false) } else { classic(false, false, 1, &[]) };
        file.extend(bytes);
        let mut r = CaptureReader::new(&file[..]).unwrap();
        while r.next().unwrap().is_some() {}
    }
}
