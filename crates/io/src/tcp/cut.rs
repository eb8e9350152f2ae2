//! A received piece of a stream becomes packets: trains that lie where the bytes were received.
//!
//! Neighbours of equal length become one train, unless something in front of each is not handed on. Panics on no bytes; stops at
//! the first length that the rule refuses.

use fullcount_core::batch::{Edge, Origin, TrainMeta};
use fullcount_core::source::{FrameFault, FrameRule};

/// What a piece held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CutReport {
    /// Packets.
    pub packets: u64,
    /// Bytes of these packets as they are handed on.
    pub handed: u64,
    /// Bytes of whole frames: what follows them is the beginning of another one.
    pub used: usize,
    /// The largest packet.
    pub largest: usize,
    /// Length of the unfinished frame at the end, if enough of it is there to tell.
    pub next: Option<usize>,
    /// Nothing behind `used` has a meaning.
    pub fault: Option<FrameFault>,
}

/// Cuts `bytes`; each train goes to `push`. `most`: longest frame.
pub(super) fn cut(
    bytes: &[u8],
    rule: &FrameRule,
    most: usize,
    (origin, time_ns): (Origin, i64),
    mut push: impl FnMut(TrainMeta),
) -> CutReport {
    let mut report = CutReport::default();
    let mut open: Option<TrainMeta> = None;
    let mut before: Option<(u64, usize)> = None;
    loop {
        // The head alone tells the length: most frames have the one of the frame before, and are not asked again.
        let head = short_head(&bytes[report.used..], rule);
        let same = before.filter(|(of, _)| head == Some(*of)).map(|(_, whole)| whole);
        let whole =
            match same.map_or_else(|| rule.whole(&bytes[report.used..], most), |w| Ok(Some(w))) {
                Ok(Some(whole)) => whole,
                Ok(None) => break,
                Err(fault) => {
                    report.fault = Some(fault);
                    break;
                }
            };
        before = head.map(|head| (head, whole));
        if bytes.len() - report.used < whole {
            report.next = Some(whole);
            break;
        }
        let (start, len) = (report.used + rule.skip, whole - rule.skip);
        report.used += whole;
        report.packets += 1;
        report.handed += len as u64;
        report.largest = report.largest.max(len);
        match &mut open {
            Some(train) if train.stride == len && train.start + train.len == start && len > 0 => {
                train.len += len;
            }
            _ => {
                let next = TrainMeta { start, len, stride: len, origin, time_ns, edge: Edge::Heap };
                open.replace(next).into_iter().for_each(&mut push);
            }
        }
        if let (Some(head), Some(train), 0) = (head, &mut open, rule.skip) {
            let more = alike(&bytes[report.used..], whole, head, rule);
            train.len += more * len;
            report.used += more * whole;
            report.packets += more as u64;
            report.handed += (more * len) as u64;
        }
    }
    open.into_iter().for_each(push);
    report
}

/// How many whole frames with this head follow each other. Their places depend on no byte, so the processor loads the next heads meanwhile.
#[inline]
fn alike(bytes: &[u8], whole: usize, head: u64, rule: &FrameRule) -> usize {
    let frames = bytes.chunks_exact(whole.max(1));
    frames.take_while(|frame| short_head(frame, rule) == Some(head)).count()
}

/// The head as a number, if it has 8 bytes at most and 8 bytes are there.
#[inline]
fn short_head(bytes: &[u8], rule: &FrameRule) -> Option<u64> {
    let word = u64::from_le_bytes(*bytes.first_chunk()?);
    let unused = 8usize.checked_sub(rule.head)?;
    // A head of 0 bytes leaves nothing.
    word.checked_shl(8 * unused as u32).or(Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chunks(bytes: &[u8], rule: &FrameRule, most: usize) -> (Vec<Vec<u8>>, CutReport) {
        let mut all = Vec::new();
        let report = cut(bytes, rule, most, (Origin::NONE, 0), |train| {
            let of = &bytes[train.start..train.start + train.len];
            if of.is_empty() {
                all.push(Vec::new());
            }
            all.extend(of.chunks(train.stride.max(1)).map(<[u8]>::to_vec));
        });
        (all, report)
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_were_put_in(
            packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..20),
            lost in 0usize..30,
        ) {
            let rule = FrameRule::prefix("u16be").unwrap();
            let mut bytes = Vec::new();
            for packet in &packets {
                bytes.extend((packet.len() as u16).to_be_bytes());
                bytes.extend(packet);
            }
            bytes.truncate(bytes.len().saturating_sub(lost));
            let (all, report) = chunks(&bytes, &rule, 100);
            prop_assert_eq!(&packets[..all.len()], &all[..]);
            prop_assert!(report.fault.is_none() && report.used <= bytes.len());
            prop_assert!(lost > 0 || all.len() == packets.len());
            prop_assert_eq!(report.handed as usize, all.iter().map(Vec::len).sum::<usize>());
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), most in 2usize..300) {
            for rule in FrameRule::PREFIXES {
                let (all, report) = chunks(&bytes, &rule, most);
                prop_assert_eq!(all.len() as u64, report.packets);
            }
        }
    }

    /// Heads shorter than what is compared at once, as long, and longer; the length is in their last byte.
    const HEADS: [FrameRule; 5] = {
        const fn rule(head: usize) -> FrameRule {
            let length = |head: &[u8]| Some(head.len() + 1 + usize::from(head.last()? % 4));
            FrameRule { name: "last", head, length, skip: 0, most: None }
        }
        let nothing = FrameRule { name: "3", head: 0, length: |_| Some(3), skip: 0, most: None };
        [nothing, rule(1), rule(7), rule(8), rule(9)]
    };

    proptest! {
        /// Few values, so that heads repeat and that other bytes than the last differ too.
        #[test]
        fn a_length_is_that_of_its_head_whatever_came_before(bytes in prop::collection::vec(0u8..3, 0..150)) {
            for rule in HEADS {
                let (mut expected, mut used) = (Vec::new(), 0);
                while let Ok(Some(whole)) = rule.whole(&bytes[used..], 99) {
                    let Some(frame) = bytes.get(used..used + whole) else { break };
                    expected.push(frame.to_vec());
                    used += whole;
                }
                let (all, report) = chunks(&bytes, &rule, 99);
                prop_assert_eq!(all, expected, "{}", rule.head);
                prop_assert_eq!(report.used, used);
            }
        }
    }

    #[test]
    fn equal_neighbours_are_one_train() {
        let rule = FrameRule { name: "3", head: 1, length: |_| Some(3), skip: 0, most: None };
        let mut trains = Vec::new();
        let report =
            cut(b"abcdefgh", &rule, 9, (Origin::NONE, 0), |t| trains.push((t.start, t.len)));
        assert_eq!((trains, report.packets, report.next), (vec![(0, 6)], 2, Some(3)));
    }
}
