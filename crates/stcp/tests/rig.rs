//! A sender with memory of its own and a clock that is moved by hand; the peer is what the test says.

use fullcount_stcp::memory::{ring_room, ring_slices};
use fullcount_stcp::receiver::ModelReceiver;
use fullcount_stcp::sender::Purpose;
use fullcount_stcp::wire::{Inbound, TcpFlags};
use fullcount_stcp::{
    FragmentMark, Notice, Outbound, StcpCounters, StcpHistograms, StcpMemory, StcpSender,
    StcpSettings, StcpState,
};

/// Initial number of the sender and of the peer.
pub const ISS: u32 = 0x0102_0304;
pub const IRS: u32 = 0xa0b0_c0d0;
/// Times in ns.
pub const US: u64 = 1000;
pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;
/// One frame at a time.
pub const ONE: u32 = 0;

/// Memory on the heap.
#[derive(Debug)]
pub struct Owned {
    pub ring: Vec<u8>,
    marks: Vec<FragmentMark>,
    pub counters: StcpCounters,
    pub histograms: StcpHistograms,
}

impl Owned {
    pub fn new(bytes: usize) -> Owned {
        Owned {
            ring: vec![0; bytes],
            marks: vec![FragmentMark::default(); 256],
            counters: StcpCounters::default(),
            histograms: StcpHistograms::default(),
        }
    }
}

impl StcpMemory for Owned {
    fn capacity(&self) -> u32 {
        self.ring.len() as u32
    }
    fn room(&mut self, offset: u64, length: u32) -> (&mut [u8], &mut [u8]) {
        ring_room(&mut self.ring, offset, length)
    }
    fn marks(&mut self) -> &mut [FragmentMark] {
        &mut self.marks
    }
    fn counters(&mut self) -> &mut StcpCounters {
        &mut self.counters
    }
    fn histograms(&mut self) -> Option<&mut StcpHistograms> {
        Some(&mut self.histograms)
    }
}

/// Byte of the stream at `offset`.
pub fn byte(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// A sender under test.
pub struct Rig {
    pub s: StcpSender<Owned>,
    pub t: u64,
    pub iss: u32,
}

impl Rig {
    /// Closed, with a send buffer of 1 MiB.
    pub fn closed(settings: StcpSettings) -> Rig {
        Rig::sized(settings, 1 << 20)
    }

    pub fn sized(settings: StcpSettings, bytes: usize) -> Rig {
        Rig { s: StcpSender::new(settings, Owned::new(bytes)).unwrap(), t: 0, iss: ISS }
    }

    /// The SYN has left.
    pub fn opening(settings: StcpSettings) -> Rig {
        let mut rig = Rig::closed(settings);
        rig.s.open(0, ISS, true).unwrap();
        assert_eq!(rig.all().len(), 1);
        rig
    }

    /// Connected after 100 µs to a peer with MSS 8960, window scale 10 and this window in bytes (multiple of 1024 above 65535).
    pub fn connected(settings: StcpSettings, window: u32) -> Rig {
        Rig::with(settings, window, ISS, 1 << 20)
    }

    pub fn with(settings: StcpSettings, window: u32, iss: u32, bytes: usize) -> Rig {
        let mut rig = Rig::sized(settings, bytes);
        rig.iss = iss;
        rig.s.open(0, iss, true).unwrap();
        rig.all();
        rig.t = 100 * US;
        // Scale 0 keeps small windows exact.
        let scale = if window > 65535 { 10 } else { 0 };
        rig.give(syn_ack(iss, window.min(65535) as u16, Some(8960), Some(scale)));
        let acks = rig.all();
        assert_eq!((acks.len(), acks[0].flags), (1, TcpFlags::ACK));
        assert_eq!(rig.notices(), [Notice::Connected]);
        if window > 65535 {
            rig.give(rig.ack(0, window >> 10));
            assert!(rig.all().is_empty());
        }
        rig
    }

    pub fn give(&mut self, segment: Inbound) {
        self.s.receive(self.t, &segment);
    }

    /// An ACK of offset `una` with this window field.
    pub fn ack(&self, una: u64, window: u32) -> Inbound {
        Inbound {
            seq: IRS + 1,
            ack: self.seq(una),
            flags: TcpFlags::ACK,
            window: u16::try_from(window).unwrap(),
            ..Inbound::default()
        }
    }

    pub fn seq(&self, offset: u64) -> u32 {
        self.iss.wrapping_add(1).wrapping_add(offset as u32)
    }

    /// Everything that leaves now, one frame each.
    pub fn all(&mut self) -> Vec<Outbound> {
        let t = self.t;
        std::iter::from_fn(|| self.s.poll(t, ONE)).collect()
    }

    /// Payload sizes of what leaves now.
    pub fn sizes(&mut self) -> Vec<u32> {
        self.all().iter().map(|o| o.length).collect()
    }

    /// Submits so many bytes of the pattern.
    pub fn submit(&mut self, bytes: u64) {
        let end = self.s.snapshot().end;
        let fragment: Vec<u8> = (end..end + bytes).map(byte).collect();
        self.s.submit(self.t, &fragment).unwrap();
    }

    /// Time goes to the next deadline.
    pub fn wait(&mut self) -> u64 {
        self.t = self.s.deadline().expect("a timer runs").max(self.t);
        self.t
    }

    /// Goes from deadline to deadline until something leaves.
    pub fn until_sent(&mut self) -> (u64, Vec<Outbound>) {
        for _ in 0..100 {
            self.wait();
            let out = self.all();
            if !out.is_empty() || self.s.state() == StcpState::Closed {
                return (self.t, out);
            }
        }
        panic!("nothing leaves");
    }

    pub fn notices(&mut self) -> Vec<Notice> {
        std::iter::from_fn(|| self.s.notice()).collect()
    }

    pub fn counters(&self) -> StcpCounters {
        self.s.memory().counters
    }

    pub fn payload(&self, o: &Outbound) -> Vec<u8> {
        let (a, b) = ring_slices(&self.s.memory().ring, o.offset, o.length);
        [a, b].concat()
    }
}

/// A SYN+ACK to a SYN with number `iss`.
pub fn syn_ack(iss: u32, window: u16, mss: Option<u16>, scale: Option<u8>) -> Inbound {
    Inbound {
        seq: IRS,
        ack: iss.wrapping_add(1),
        flags: TcpFlags::SYN.and(TcpFlags::ACK),
        window,
        length: 0,
        mss,
        scale,
    }
}

/// What a segment carries must be the pattern; it goes to the receiver.
pub fn deliver<const N: usize>(
    rig: &Rig,
    to: &mut ModelReceiver<N>,
    o: &Outbound,
) -> Option<Inbound> {
    if matches!(o.purpose, Purpose::Data | Purpose::Probe) {
        for (at, got) in (o.offset..).zip(rig.payload(o)) {
            assert_eq!(got, byte(at), "byte {at}");
        }
        assert_eq!(o.seq, rig.seq(o.offset));
    }
    to.receive(rig.t, o)
}
