//! From messages of a topic into the trains of a batch.
//!
//! Refuses messages that are no ar51, packets longer than a datagram, and packets without a sender where the detector needs it.

use fullcount_core::batch::{Batch, Edge, Origin, TrainMeta};
use fullcount_messages::{Message, decode};

use super::Needs;
use crate::{SOURCE_HEADER, TIME_HEADER, origin, time};

/// Bytes of a batch: stays in the second-level cache, holds any datagram 15 times.
pub(super) const BATCH_BYTES: usize = 1 << 20;
/// Longest packet.
const LONGEST: usize = 65_535;
/// Messages in a batch at most.
pub(super) const MOST: usize = 1024;

/// A packet that no longer fitted the batch.
pub(super) struct Left {
    pub bytes: Vec<u8>,
    pub origin: Origin,
    pub time_ns: i64,
    /// Partition, and offset behind it.
    pub place: (i32, i64),
}

/// A batch being filled.
#[derive(Default)]
pub(super) struct Filling {
    pub bytes: usize,
    pub packets: u64,
    pub other: u64,
    pub too_long: u64,
    pub no_source: u64,
    pub no_time: u64,
    /// Partition and number of messages, in turn.
    pub runs: Vec<(i32, u32)>,
}

/// One message into the batch, or into `left` if it no longer fits.
pub(super) fn take(
    message: &crate::TopicMessage<'_>,
    needs: Needs,
    batch: &mut Batch,
    filling: &mut Filling,
    left: &mut Option<Left>,
) -> Result<(), &'static str> {
    filling.packets += 1;
    let payload = match decode(message.payload()) {
        Ok(Message::Ar51(raw)) => raw.raw_data.unwrap_or_default(),
        _ => {
            filling.other += 1;
            return Ok(());
        }
    };
    if payload.len() > LONGEST {
        filling.too_long += 1;
        return Ok(());
    }
    let from = message.header(SOURCE_HEADER).and_then(origin);
    if from.is_none() {
        filling.no_source += 1;
        if needs.origin {
            return Err("a packet whose message does not say who sent it (header fc.src)");
        }
    }
    // A sender that did not know it wrote 0.
    let at = message.header(TIME_HEADER).and_then(time).filter(|&at| at > 0);
    filling.no_time += u64::from(at.is_none());
    let (from, at) = (from.unwrap_or(Origin::NONE), at.unwrap_or(0));
    if !put(batch, &mut filling.bytes, payload, from, at) {
        let (bytes, place) = (payload.to_vec(), (message.partition(), message.offset() + 1));
        *left = Some(Left { bytes, origin: from, time_ns: at, place });
    }
    Ok(())
}

/// Puts a packet behind the others; `false` if it does not fit.
pub(super) fn put(
    batch: &mut Batch,
    filled: &mut usize,
    bytes: &[u8],
    origin: Origin,
    time_ns: i64,
) -> bool {
    let end = *filled + bytes.len();
    let Some(place) = batch.memory_mut().get_mut(*filled..end) else { return false };
    place.copy_from_slice(bytes);
    let (start, len, edge) = (*filled, bytes.len(), Edge::Datagram);
    batch.push(TrainMeta { start, len, stride: 0, origin, time_ns, edge });
    *filled = end;
    true
}
