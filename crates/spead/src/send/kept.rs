//! Heaps that were sent and may be asked for again: so one lost packet does not cost a heap.
//!
//! Selective re-request instead of parity packets: loss comes in bursts, which parity of a few packets does not repair and
//! parity of many pays for all the time; a re-request costs one round trip and just the bytes that were lost, and the
//! back-channel is there for the rate anyway. What is sent again are ordinary packets, which any receiver takes. Off by
//! default: `keep_bytes` is 0. Bounded by bytes: the oldest heap goes.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;

use super::out_heap::OutHeap;
use super::packetise::{PacketCut, Packetiser};

/// Why packets cannot be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResendError {
    /// The heap is not kept any more, or never was.
    #[error("heap {0} is not kept")]
    Unknown(u64),
    /// Too much waits to be sent again already.
    #[error("{0} packets wait to be sent again already")]
    Busy(usize),
}

/// Most packets that wait to be sent again.
const MOST_WAITING: usize = 65_536;

#[derive(Debug)]
struct KeptHeap {
    heap: OutHeap,
    packetiser: Packetiser,
    substream: usize,
    bytes: u64,
}

/// One packet that is to be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Again {
    cnt: u64,
    offset: u64,
}

/// Heaps by age.
#[derive(Debug)]
pub(super) struct Kept {
    most_bytes: u64,
    bytes: u64,
    heaps: VecDeque<KeptHeap>,
    again: VecDeque<Again>,
    /// The same, to find them: whoever asks often costs no more than one look for each packet.
    waits: HashSet<Again>,
}

impl Kept {
    pub fn new(most_bytes: u64) -> Kept {
        Kept {
            most_bytes,
            bytes: 0,
            heaps: VecDeque::new(),
            again: VecDeque::new(),
            waits: HashSet::new(),
        }
    }

    pub fn add(&mut self, heap: OutHeap, mut packetiser: Packetiser, substream: usize) {
        // What an entry costs beside its bytes.
        let bytes = heap.bytes() + 128 + 64 * heap.entries().len() as u64;
        if bytes > self.most_bytes {
            return;
        }
        packetiser.rewind();
        self.bytes += bytes;
        self.heaps.push_back(KeptHeap { heap, packetiser, substream, bytes });
        while self.bytes > self.most_bytes {
            let Some(old) = self.heaps.pop_front() else { break };
            self.bytes -= old.bytes;
        }
    }

    fn find(&self, cnt: u64) -> Option<usize> {
        // The newest, should a number come twice.
        self.heaps.iter().rposition(|kept| kept.packetiser.cnt() == cnt)
    }

    /// Every packet that touches one of the ranges will be sent again. Returns how many.
    pub fn ask(&mut self, cnt: u64, ranges: &[Range<u64>]) -> Result<usize, ResendError> {
        if self.again.len() >= MOST_WAITING {
            return Err(ResendError::Busy(self.again.len()));
        }
        let at = self.find(cnt).ok_or(ResendError::Unknown(cnt))?;
        let mut packetiser = self.heaps[at].packetiser.clone();
        // It stands behind the packet that was sent again last.
        packetiser.rewind();
        let (mut prefix, mut asked) = (Vec::new(), 0);
        while let Some(PacketCut { payload, .. }) = packetiser.next_cut(&mut prefix) {
            prefix.clear();
            let touches = |r: &Range<u64>| r.start < payload.end && payload.start < r.end;
            let packet = Again { cnt, offset: payload.start };
            if ranges.iter().any(touches) && !self.waits.contains(&packet) {
                if self.again.len() >= MOST_WAITING {
                    break;
                }
                self.again.push_back(packet);
                self.waits.insert(packet);
                asked += 1;
            }
        }
        Ok(asked)
    }

    pub fn has_next(&self) -> bool {
        !self.again.is_empty()
    }

    /// The next packet that is sent again: appended to `out`. Returns the substream, payload bytes and bytes.
    pub fn next_packet(&mut self, out: &mut Vec<u8>) -> Option<(usize, usize, usize)> {
        while let Some(packet) = self.again.pop_front() {
            self.waits.remove(&packet);
            let Again { cnt, offset } = packet;
            let Some(at) = self.find(cnt) else { continue };
            let kept = &mut self.heaps[at];
            // Asked for in order: mostly the next one.
            let mut restarted = false;
            let begin = out.len();
            loop {
                match kept.packetiser.next_cut(out) {
                    Some(cut) if cut.payload.start == offset => {
                        for part in kept.packetiser.segments(&kept.heap, cut.payload.clone()) {
                            out.extend_from_slice(part);
                        }
                        out.resize(out.len() + kept.packetiser.padding(&cut.payload), 0);
                        let payload = (cut.payload.end - cut.payload.start) as usize;
                        return Some((kept.substream, payload, cut.bytes()));
                    }
                    Some(cut) if cut.payload.start < offset => out.truncate(begin),
                    _ if restarted => {
                        out.truncate(begin);
                        break;
                    }
                    _ => {
                        out.truncate(begin);
                        kept.packetiser.rewind();
                        restarted = true;
                    }
                }
            }
        }
        None
    }
}
