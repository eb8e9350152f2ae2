//! Packets side by side in one piece of memory larger than any cache, in batches as a socket gives them.
//!
//! A recorded capture is repeated until the memory is full, each repetition moved on by the detector's own rule
//! before anything is measured, so that the decoder sees one long run. Equal packets of one sender stand as trains,
//! as the kernel's UDP GRO glues them together; a batch holds at most 16 trains, as one receive call gives. Refuses: no
//! packet at all, and a capture to be repeated without a rule.

use std::sync::Arc;

use anyhow::bail;
use fullcount_core::batch::{Batch, Edge, Origin, TrainMeta};
use fullcount_core::detector::sample::SamplePacket;
use fullcount_detect::detector::Shifter;
use fullcount_sim::Traffic;

/// Packets in a train at most (UDP_GRO_CNT_MAX), and its bytes.
const MOST_PACKETS: usize = 64;
const MOST_BYTES: usize = 65_535;
/// Trains in a batch, as one receive call gives.
const TRAINS: usize = 16;

/// The sentence for a source without packets.
const EMPTY: &str = "no UDP payload in it";
/// The sentence for a capture that cannot be repeated.
const NO_RULE: &str =
    "the detector has no rule to move its counters and times on, so it cannot be repeated";

/// Batches that share one memory.
#[derive(Debug)]
pub struct PacketImage {
    /// In order.
    pub batches: Vec<Batch>,
    /// Packets in them.
    pub packets: u64,
    /// Bytes of these.
    pub bytes: u64,
}

impl PacketImage {
    /// `packets` over and over, until there are at least `bytes`; whole repetitions only.
    ///
    /// # Errors
    /// No packet, or no rule where one pass is not enough.
    pub fn of_packets(
        packets: &[SamplePacket],
        shifter: Option<Box<dyn Shifter>>,
        bytes: usize,
    ) -> anyhow::Result<PacketImage> {
        let pass: usize = packets.iter().map(|(p, _)| p.len()).sum();
        if pass == 0 {
            bail!(EMPTY);
        }
        let repetitions = bytes.div_ceil(pass).max(1) as u64;
        let mut making = Making::new(repetitions as usize * pass);
        let mut shifter = match (shifter, repetitions) {
            (Some(shifter), _) => Some(shifter),
            (None, 1) => None,
            (None, _) => bail!(NO_RULE),
        };
        if let Some(shifter) = &mut shifter {
            packets.iter().for_each(|(p, origin)| shifter.learn(p, *origin));
        }
        for repetition in 0..repetitions {
            for (packet, origin) in packets {
                let place = making.add(packet, *origin);
                if let Some(shifter) = shifter.as_mut().filter(|_| repetition > 0) {
                    shifter.shift(place, *origin, repetition);
                }
            }
        }
        Ok(making.finish())
    }

    /// Simulated packets, at least `bytes` of them, from `ports` by lane.
    ///
    /// # Errors
    /// The traffic gives nothing.
    pub fn of_traffic(
        traffic: &mut dyn Traffic,
        ports: &[u16],
        bytes: usize,
    ) -> anyhow::Result<PacketImage> {
        let most = MOST_PACKETS.min(MOST_BYTES / traffic.largest_packet().max(1)).max(1);
        let mut making = Making::new(bytes + most * traffic.largest_packet());
        // 1 GHz of packets a second of sender time at most: formats that carry the sender's clock go forward.
        let mut now_ns = 0;
        while making.memory.len() < bytes {
            let Some(train) = traffic.next_train(most, now_ns) else { break };
            now_ns += train.packets as u64;
            let port = ports.get(train.lane).or(ports.first()).copied().unwrap_or(0);
            let origin = Origin::from(std::net::SocketAddr::from(([127, 0, 0, 1], port)));
            for packet in train.each() {
                making.add(packet, origin);
            }
        }
        if making.memory.is_empty() {
            bail!(EMPTY);
        }
        Ok(making.finish())
    }

    /// All packets in order.
    pub fn packets(&self) -> impl Iterator<Item = (&[u8], Origin)> {
        let trains = self.batches.iter().flat_map(Batch::trains);
        trains.flat_map(|t| t.chunks().map(move |chunk| (chunk, t.origin)))
    }

    /// Mean bytes of a packet.
    pub fn packet_bytes(&self) -> f64 {
        self.bytes as f64 / self.packets.max(1) as f64
    }
}

/// An image that grows.
struct Making {
    memory: Vec<u8>,
    trains: Vec<TrainMeta>,
    packets: u64,
    /// The newest train takes more.
    open: bool,
}

impl Making {
    fn new(room: usize) -> Making {
        Making { memory: Vec::with_capacity(room), trains: vec![], packets: 0, open: false }
    }

    /// Adds a packet; gives its place, to be moved on.
    fn add(&mut self, packet: &[u8], origin: Origin) -> &mut [u8] {
        let (start, len) = (self.memory.len(), packet.len());
        self.memory.extend_from_slice(packet);
        self.packets += 1;
        let open = self.open;
        let fits = |t: &&mut TrainMeta| {
            let stride = if t.stride == 0 { t.len } else { t.stride };
            let room = t.len + len <= MOST_BYTES && t.len / stride.max(1) < MOST_PACKETS;
            open && t.origin == origin && (1..=stride).contains(&len) && room
        };
        match self.trains.last_mut().filter(fits) {
            Some(train) => {
                train.stride = if train.stride == 0 { train.len } else { train.stride };
                train.len += len;
                // A shorter one is the last.
                self.open = len == train.stride;
            }
            None => {
                let time_ns = 0;
                let edge = Edge::Datagram;
                self.trains.push(TrainMeta { start, len, stride: 0, origin, time_ns, edge });
                self.open = len > 0;
            }
        }
        &mut self.memory[start..]
    }

    fn finish(self) -> PacketImage {
        let bytes = self.memory.len() as u64;
        let memory: Arc<[u8]> = self.memory.into();
        let batch = |some: &[TrainMeta]| {
            let mut batch = Batch::with_slots(0, 0);
            batch.share(&memory);
            some.iter().for_each(|&t| batch.push(t));
            batch
        };
        let batches = self.trains.chunks(TRAINS).map(batch).collect();
        PacketImage { batches, packets: self.packets, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds the repetition to the first byte of each packet.
    struct Add(usize);

    impl Shifter for Add {
        fn learn(&mut self, _: &[u8], _: Origin) {
            self.0 += 1;
        }
        fn shift(&mut self, payload: &mut [u8], _: Origin, repetition: u64) {
            assert_eq!(self.0, 3, "all packets were learnt");
            payload[0] += repetition as u8;
        }
    }

    fn packets() -> Vec<SamplePacket> {
        let other = Origin { port: 7, ..Origin::NONE };
        vec![(vec![1; 10], Origin::NONE), (vec![2; 10], Origin::NONE), (vec![3; 4], other)]
    }

    #[test]
    fn a_capture_is_repeated_and_moved_on() {
        let image = PacketImage::of_packets(&packets(), Some(Box::new(Add(0))), 49).unwrap();
        assert_eq!((image.packets, image.bytes, image.packet_bytes()), (9, 72, 8.0));
        let firsts: Vec<u8> = image.packets().map(|(p, _)| p[0]).collect();
        assert_eq!(firsts, [1, 2, 3, 2, 3, 4, 3, 4, 5]);
        let trains: Vec<(usize, usize)> =
            image.batches[0].trains().map(|t| (t.count(), t.bytes.len())).collect();
        assert_eq!(trains, [(2, 20), (1, 4), (2, 20), (1, 4), (2, 20), (1, 4)]);
    }

    #[test]
    fn trains_end_as_the_kernel_ends_them() {
        let same: Vec<SamplePacket> = (0..200).map(|_| (vec![0; 1000], Origin::NONE)).collect();
        let image = PacketImage::of_packets(&same, None, 1).unwrap();
        let counts: Vec<usize> = image.batches[0].trains().map(|t| t.count()).collect();
        assert_eq!(counts, [64, 64, 64, 8]);
        let long: Vec<SamplePacket> = (0..20).map(|_| (vec![0; 8000], Origin::NONE)).collect();
        let image = PacketImage::of_packets(&long, None, 1).unwrap();
        assert_eq!(image.batches[0].trains().next().unwrap().count(), 8);
        let sizes = [5usize, 3, 3, 0, 0, 3];
        let odd: Vec<SamplePacket> = sizes.iter().map(|&n| (vec![0; n], Origin::NONE)).collect();
        let image = PacketImage::of_packets(&odd, None, 1).unwrap();
        let seen: Vec<usize> = image.packets().map(|(p, _)| p.len()).collect();
        assert_eq!((seen.as_slice(), image.packets), (sizes.as_slice(), 6));
    }

    #[test]
    fn nothing_and_no_rule_are_refused() {
        let why = |packets: &[SamplePacket], bytes| {
            PacketImage::of_packets(packets, None, bytes).unwrap_err().to_string()
        };
        assert_eq!(why(&[], 1), EMPTY);
        assert_eq!(why(&packets(), 1000), NO_RULE);
    }
}
