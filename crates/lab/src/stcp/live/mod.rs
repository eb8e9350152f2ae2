//! The simplified TCP live: its sender on an interface, the real Linux stack as the receiver, in namespaces of this host.
//!
//! [`place`] makes the network, [`sink`] reads and checks, [`sender`] sends with one of the drivers or with plain Linux sockets.
//! [`sweep`] goes over fragment sizes, [`scaling`] over numbers of streams, [`pressure`] measures how soon a source sees
//! that the buffer is full, [`soak`] compares every byte over a bad link, [`tape`] keeps the frames of trials, and [`realtime`] is the congestion experiment at a tenth
//! of its rates. Refuses: see [`crate::error::LabError`]; needs Linux and root. LiveSource: docs/stcp.md, "Measured".

pub mod place;
pub mod pressure;
pub mod realtime;
pub mod scaling;
pub mod sender;
pub mod sink;
pub mod soak;
pub mod sweep;
pub mod tape;
pub mod trial;

use anyhow::Context;

use crate::error::LabError;
use crate::plot::Chart;

/// What came of a campaign that has something to reach.
#[derive(Debug, Default)]
pub struct LiveFound {
    /// Table or line, Markdown.
    pub text: String,
    /// Figures, to be written.
    pub figures: Vec<Chart>,
    /// What was to be reached and was not.
    pub missed: Vec<String>,
}

/// With what was being done.
fn during<T, E: std::error::Error + Send + Sync + 'static>(
    what: &'static str,
    done: Result<T, E>,
) -> Result<T, LabError> {
    Ok(done.context(what)?)
}

/// Gb/s to three places.
fn gbps(bits: f64) -> f64 {
    (bits / 1e6).round() / 1e3
}

/// Bytes that can be told from each other: each 8 of them are a number of their place and of the stream.
pub mod pattern {
    fn word(at: u64, salt: u64) -> [u8; 8] {
        (at ^ salt << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
    }

    /// Writes the bytes of the stream `salt` from `offset` on.
    pub fn fill(to: &mut [u8], offset: u64, salt: u64) {
        each(to.len(), offset, |range, at, from| {
            to[range].copy_from_slice(&word(at, salt)[from]);
            true
        });
    }

    /// LivePlace of the first byte that is not right.
    pub fn wrong(bytes: &[u8], offset: u64, salt: u64) -> Option<u64> {
        let mut found = None;
        each(bytes.len(), offset, |range, at, from| {
            let (got, want) = (&bytes[range.clone()], &word(at, salt)[from]);
            if got != want {
                let same = got.iter().zip(want).take_while(|(a, b)| a == b).count();
                found = Some(offset + (range.start + same) as u64);
            }
            found.is_none()
        });
        found
    }

    /// The words of `length` bytes from `offset` on: range of bytes, number of the word, range in it.
    fn each(
        length: usize,
        offset: u64,
        mut act: impl FnMut(std::ops::Range<usize>, u64, std::ops::Range<usize>) -> bool,
    ) {
        let mut at = 0;
        while at < length {
            let place = offset + at as u64;
            let from = (place % 8) as usize;
            let size = (8 - from).min(length - at);
            if !act(at..at + size, place / 8, from..from + size) {
                return;
            }
            at += size;
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_byte_is_found_wherever_pieces_begin() {
            let mut whole = vec![0; 1000];
            fill(&mut whole, 5, 3);
            let mut pieces = vec![];
            for (at, size) in [(0, 1), (1, 6), (7, 8), (15, 100), (115, 885)] {
                let mut piece = vec![0; size];
                fill(&mut piece, 5 + at, 3);
                assert_eq!(wrong(&piece, 5 + at, 3), None);
                pieces.extend(piece);
            }
            assert_eq!(whole, pieces);
            assert!(wrong(&whole, 5, 4).is_some() && wrong(&whole, 6, 3).is_some());
            for at in [0usize, 3, 500, 999] {
                whole[at] ^= 1;
                assert_eq!(wrong(&whole, 5, 3), Some(5 + at as u64));
                whole[at] ^= 1;
            }
        }
    }
}
