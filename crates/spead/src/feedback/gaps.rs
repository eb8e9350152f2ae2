//! When a receiver asks for missing packets, and how often.
//!
//! A live heap with gaps is asked for when no packet came for it a while: in a running stream that is when the next heap is
//! on its way. Asked again if nothing comes, a few times. The window must be long enough for a round trip: heaps of 10 ms and
//! 100 ms of round trip need `max_heaps` above 10. Bounded: no more heaps are remembered than are live.

use std::collections::BTreeMap;

use super::message::ResendRequest;
use crate::receive::{Store, StreamReceiver};

/// Settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GapConfig {
    /// Without a packet for so long, a heap is asked for, ns.
    pub quiet_ns: u64,
    /// Asked again after this, ns: above a round trip.
    pub again_ns: u64,
    /// How often a heap is asked for.
    pub times: u32,
}

impl Default for GapConfig {
    fn default() -> GapConfig {
        GapConfig { quiet_ns: 2_000_000, again_ns: 50_000_000, times: 5 }
    }
}

/// Says what to ask for.
#[derive(Debug, Clone, Default)]
pub struct GapWatch {
    config: GapConfig,
    asked: BTreeMap<u64, (u64, u32)>,
}

impl GapWatch {
    /// Nothing was asked for.
    pub fn new(config: GapConfig) -> GapWatch {
        GapWatch { config, asked: BTreeMap::new() }
    }

    /// Requests that are due. To be called every few ms.
    pub fn requests<S: Store>(
        &mut self,
        stream: &StreamReceiver<S>,
        now_ns: u64,
    ) -> Vec<ResendRequest> {
        let mut requests = Vec::new();
        let mut still = BTreeMap::new();
        let config = self.config;
        for (cnt, length, present) in stream.missing(now_ns) {
            let before = self.asked.get(&cnt).copied();
            still.extend(before.map(|before| (cnt, before)));
            let (last_ns, times) = before.unwrap_or((0, 0));
            let due = match before {
                None => true,
                Some(_) => now_ns.saturating_sub(last_ns) >= config.again_ns,
            };
            if !due
                || times >= config.times
                || !stream.is_quiet(cnt, now_ns.saturating_sub(config.quiet_ns))
            {
                continue;
            }
            requests.extend(ResendRequest::of(cnt, present.gaps(length)));
            still.insert(cnt, (now_ns, times + 1));
        }
        self.asked = still;
        requests
    }
}

#[cfg(test)]
mod tests {
    use fullcount_core::sim::{Amount, Channel, ChannelSetup, Spec};

    use super::*;
    use crate::receive::{HeapReceiver, ReceiverConfig};
    use crate::send::{
        CutRules, HeapSender, NextPacket, OutHeap, PaceSettings, PayloadSize, SendHow, SenderConfig,
    };
    use crate::testing::pattern;

    /// Heaps of 300 packets over a link that loses 1 %: of ten heaps, half a heap would come whole.
    fn whole(keep_bytes: u64) -> (u64, u64, u64) {
        const MS: u64 = 1_000_000;
        let pace = PaceSettings { rate: 1e8, burst_size: 10_000, ..Default::default() };
        let cut = CutRules { max_packet_size: 1472, payload: PayloadSize::Fill };
        let config = SenderConfig { pace, cut, keep_bytes, max_heaps: 100, ..Default::default() };
        let mut sender = HeapSender::new(config).unwrap();
        for n in 0..30 {
            let mut heap = OutHeap::default();
            heap.add_item(0x1000, pattern(430_000, n), false);
            sender.send(heap, SendHow::default()).unwrap();
        }
        let fault = Spec { drop: Amount::Share(0.01), seed: 3, ..Spec::default() };
        let mut link =
            Channel::new(ChannelSetup { delay_ns: 5 * MS, fault, ..ChannelSetup::default() })
                .unwrap();
        let mut stream =
            HeapReceiver::new(ReceiverConfig { max_heaps: 32, ..ReceiverConfig::default() })
                .unwrap();
        let mut gaps = GapWatch::new(GapConfig { again_ns: 15 * MS, ..GapConfig::default() });
        let mut back: Vec<(u64, ResendRequest)> = vec![];
        let mut whole = 0;
        for now in (0..800 * MS).step_by(100_000) {
            let mut out = vec![];
            while let NextPacket::Packet { bytes, .. } = sender.next_packet(now, &mut out) {
                link.push(now, std::mem::take(&mut out), bytes as u32, 0, Vec::clone);
            }
            while let Some(packet) = link.pop(now) {
                stream.push(now, &packet);
            }
            while let Some(heap) = stream.pop() {
                let heap = heap.heap().unwrap();
                assert_eq!(heap.payload(), pattern(430_000, heap.cnt - 1));
                whole += 1;
            }
            if keep_bytes > 0 && now % MS == 0 {
                let asked = gaps.requests(&stream, now);
                back.extend(asked.into_iter().map(|request| (now + 5 * MS, request)));
            }
            while back.first().is_some_and(|r| r.0 <= now) {
                let (_, request) = back.remove(0);
                sender.resend(request.cnt, &request.ranges).unwrap();
            }
        }
        (whole, sender.counts().resent_packets, sender.counts().packets)
    }

    #[test]
    fn every_heap_comes_whole_over_a_link_that_loses_packets() {
        let (without, again, _) = whole(0);
        assert!(without < 10 && again == 0, "{without}");
        let (with, again, all) = whole(100 << 20);
        assert_eq!(with, 30);
        // About what was lost, and not much more.
        assert!(again < all / 50, "{again} of {all}");
    }
}
