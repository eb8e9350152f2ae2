//! Captures played again: counters and markers go on, hits stay.

use super::*;

fn frame(fec: u8, counter: u32, words: &[[u8; 6]]) -> Vec<u8> {
    let mut frame = counter.to_be_bytes().to_vec();
    frame.extend(b"VM3");
    frame.push(fec << 4);
    frame.extend([0; 8]);
    frame.extend(words.concat());
    frame
}

fn marker(vmm: u8, time: u64) -> [u8; 6] {
    let [.., a, b, c, d] = (time >> 10).to_be_bytes();
    [a, b, c, d, vmm << 2 | (time >> 8 & 3) as u8, time as u8]
}

#[test]
fn a_second_pass_goes_on_where_the_first_ended() {
    let hit = [0, 0, 0, 0, 0x80, 7];
    let frames = [
        frame(1, 7, &[marker(3, 65_536), hit]),
        frame(2, 1, &[marker(0, 65_600)]),
        frame(1, 9, &[marker(3, 131_072)]),
    ];
    let mut moving = Moving::new(false);
    frames.iter().for_each(|f| moving.learn(f, Origin::NONE));
    let again: Vec<_> = frames
        .iter()
        .map(|f| {
            let mut f = f.clone();
            moving.shift(&mut f, Origin::NONE, 2);
            f
        })
        .collect();
    let step = 2 * 131_072;
    assert_eq!(again[0][..4], 13u32.to_be_bytes());
    assert_eq!(again[0][16..22], marker(3, 65_536 + step));
    assert_eq!(again[0][22..], hit);
    assert_eq!(
        (&again[1][..4], &again[1][16..]),
        (&[0, 0, 0, 3][..], &marker(0, 65_600 + step)[..])
    );
}

#[test]
fn relative_markers_of_triggered_firmware_stay() {
    let end = [0xf0, 0, 0, 5, 19 << 2, 0];
    let mut f = frame(1, 0, &[marker(3, 500), marker(19, 4596), end]);
    shift(&mut f, 1, 4096, true);
    assert_eq!(f[16..22], marker(3, 500));
    assert_eq!(f[22..28], marker(19, 8692));
    assert_eq!(f[28..], end);
}

#[test]
fn frames_that_are_refused_keep_their_bytes() {
    let mut f = frame(0, 5, &[marker(1, 1)]);
    let before = f.clone();
    shift(&mut f, 1, 1, false);
    assert_eq!(f, before);
}
