//! Whatever the network and the peer do, the stream arrives as it was submitted, or the connection ends.

use fullcount_stcp::memory::ring_slices;
use fullcount_stcp::receiver::{ModelReceiver, ReceiverSetup};
use fullcount_stcp::sender::{Purpose, Snapshot};
use fullcount_stcp::settings::{Coalescing, PeerPolicy, Resend};
use fullcount_stcp::wire::{Inbound, TcpFlags};
use fullcount_stcp::{Outbound, StcpSettings, StcpState, Strategy as Congestion};
use proptest::prelude::*;

use crate::rig::*;

/// One step of the world.
#[derive(Debug, Clone)]
enum Step {
    Submit(u16),
    Flush,
    /// A segment on its way arrives; the number says which.
    Arrive(u8),
    Lose(u8),
    Double(u8),
    /// An ACK on its way arrives.
    Answer(u8),
    /// With a smaller window.
    Shrink(u8, u16),
    LoseAnswer(u8),
    Read(u16),
    /// Time passes, µs.
    Pass(u16),
    /// To the next timer.
    Timer,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<u16>().prop_map(Step::Submit),
        1 => Just(Step::Flush),
        6 => any::<u8>().prop_map(|n| Step::Arrive(n % 4)),
        2 => any::<u8>().prop_map(Step::Lose),
        1 => any::<u8>().prop_map(Step::Double),
        6 => any::<u8>().prop_map(|n| Step::Answer(n % 3)),
        1 => any::<(u8, u16)>().prop_map(|(n, w)| Step::Shrink(n, w)),
        1 => any::<u8>().prop_map(Step::LoseAnswer),
        2 => any::<u16>().prop_map(Step::Read),
        2 => any::<u16>().prop_map(Step::Pass),
        2 => Just(Step::Timer),
    ]
}

fn settings() -> impl Strategy<Value = StcpSettings> {
    let coalescing = prop_oneof![
        Just(Coalescing::Nagle),
        Just(Coalescing::NoDelay),
        Just(Coalescing::Within(1000))
    ];
    let resend = prop_oneof![Just(Resend::GoBackN), Just(Resend::First)];
    let strategy = prop_oneof![
        Just(Congestion::Free),
        Just(Congestion::Static { cwnd: 4000 }),
        Just(Congestion::SIMPLIFIED),
        Just(Congestion::Simplified { cwnd_max: 0, shift_max: 6, floor: 1, clean_rounds: 1 }),
        Just(Congestion::Reno),
    ];
    (coalescing, resend, strategy, 0u8..5).prop_map(
        |(coalescing, resend, strategy, dupack_threshold)| StcpSettings {
            mtu: 1500,
            coalescing,
            resend,
            strategy,
            dupack_threshold,
            give_up_us: 4_000_000_000,
            syn_give_up_us: 4_000_000_000,
            keepalive_idle_us: 0,
            persist_give_up_us: 4_000_000_000,
            ..StcpSettings::daq()
        },
    )
}

struct World {
    rig: Rig,
    peer: ModelReceiver<64>,
    there: Vec<Outbound>,
    back: Vec<Inbound>,
    /// The furthest right edge that any ACK gave.
    edge: u64,
    most: u32,
    strategy: Congestion,
    /// What was sent when the newest loss was found.
    lost_before: u64,
}

impl World {
    fn new(settings: StcpSettings, iss: u32, buffer: u32, most: u32) -> World {
        let scale = 3;
        let setup = ReceiverSetup {
            buffer,
            scale,
            mss: 1460,
            iss: IRS,
            ack_delay_ns: 200 * US,
            reads: false,
        };
        let mut rig = Rig::sized(settings, 65536);
        let strategy = settings.strategy;
        rig.iss = iss;
        rig.s.open(0, iss, true).unwrap();
        let peer = ModelReceiver::new(setup);
        World { rig, peer, there: vec![], back: vec![], edge: 0, most, strategy, lost_before: 0 }
    }

    /// What the specification asks of the window of `simplified` (section 15.4) from one event to the next.
    fn look_at_window(&mut self, before: &Snapshot) {
        let now = self.rig.s.snapshot();
        let Congestion::Simplified { floor, shift_max, .. } = self.strategy else { return };
        if before.state != StcpState::Established || now.state != StcpState::Established {
            return;
        }
        assert!(now.shift.abs_diff(before.shift) <= 1 && now.shift <= shift_max, "{now:?}");
        let floor = u32::from(floor) * u32::from(now.mss);
        assert!((floor..=floor.max(65_535 << 3)).contains(&now.cwnd), "{now:?}");
        if now.shift > before.shift {
            assert!(now.cwnd <= before.cwnd, "{before:?} to {now:?}");
            self.lost_before = before.max;
        } else if now.una < self.lost_before {
            // It opens again only when all that was sent before the loss has come.
            assert!(now.shift == before.shift, "{before:?} to {now:?}");
        }
    }

    fn send(&mut self) {
        let t = self.rig.t;
        loop {
            let before = self.rig.s.snapshot();
            let next = self.rig.s.poll(t, self.most);
            self.look_at_window(&before);
            let Some(o) = next else { return };
            let end = o.offset + u64::from(o.length);
            let s = self.rig.s.snapshot();
            match o.purpose {
                Purpose::Data => {
                    assert!(end <= s.una + s.window && end <= self.edge, "{o:?} beyond {s:?}");
                    assert!(end <= s.end);
                }
                // One byte beyond an edge that went back to here.
                Purpose::Probe => {
                    assert!(o.length == 1 && end <= self.edge.max(s.una + s.window) + 1)
                }
                _ => {}
            }
            self.there.push(o);
        }
    }

    fn arrive(&mut self, at: usize) {
        let o = self.there.remove(at);
        // A unit of several segments arrives as these.
        let mut from = 0;
        loop {
            let length = (o.length - from).min(u32::from(o.mss));
            let offset = o.offset + u64::from(from);
            let part = Outbound { seq: o.seq.wrapping_add(from), offset, length, ..o };
            // A stale copy's bytes may have left the ring; what the receiver still takes has not.
            let answer = match offset >= self.rig.s.snapshot().una
                && self.rig.s.state() != StcpState::Closed
            {
                true => deliver(&self.rig, &mut self.peer, &part),
                false => self.peer.receive(self.rig.t, &part),
            };
            self.back.extend(answer);
            from += length;
            if from >= o.length {
                return;
            }
        }
    }

    fn answer(&mut self, mut s: Inbound) {
        if s.flags.has(TcpFlags::RST) {
            return;
        }
        let scale = if s.flags.has(TcpFlags::SYN) { 0 } else { 3 };
        let una = self.rig.s.snapshot().una;
        let ack =
            una.saturating_add_signed(i64::from(s.ack.wrapping_sub(self.rig.seq(una)) as i32));
        self.edge = self.edge.max(ack + (u64::from(s.window) << scale));
        s.length = 0;
        let before = self.rig.s.snapshot();
        self.rig.give(s);
        self.look_at_window(&before);
    }

    fn step(&mut self, step: &Step) {
        let pick = |n: u8, len: usize| (len > 0).then(|| usize::from(n) % len);
        match *step {
            Step::Submit(n) => {
                let n = u64::from(n) % 9000;
                if n <= self.rig.s.room() && self.rig.s.state() != StcpState::Closed {
                    self.rig.submit(n);
                }
            }
            Step::Flush => self.rig.s.flush(),
            Step::Arrive(n) => {
                if let Some(at) = pick(n, self.there.len()) {
                    self.arrive(at);
                }
            }
            Step::Lose(n) => {
                if let Some(at) = pick(n, self.there.len()) {
                    self.there.remove(at);
                }
            }
            Step::Double(n) => {
                if let Some(at) = pick(n, self.there.len()) {
                    self.there.push(self.there[at]);
                }
            }
            Step::Answer(n) => {
                if let Some(at) = pick(n, self.back.len()) {
                    let s = self.back.remove(at);
                    self.answer(s);
                }
            }
            Step::Shrink(n, window) => {
                if let Some(at) = pick(n, self.back.len()) {
                    let mut s = self.back.remove(at);
                    s.window = s.window.min(window % 64);
                    self.answer(s);
                }
            }
            Step::LoseAnswer(n) => {
                if let Some(at) = pick(n, self.back.len()) {
                    self.back.remove(at);
                }
            }
            Step::Read(n) => self.back.extend(self.peer.read(u64::from(n))),
            Step::Pass(us) => self.rig.t += u64::from(us) * US / 10,
            Step::Timer => {
                if let Some(at) = self.rig.s.deadline() {
                    self.rig.t = self.rig.t.max(at);
                }
            }
        }
        self.back.extend(self.peer.tick(self.rig.t));
        self.send();
    }

    /// The network is cut: the sender must notice, whatever it was doing, and how long that took comes back.
    fn cut(&mut self) -> u64 {
        let begin = self.rig.t;
        for _ in 0..20_000 {
            self.there.clear();
            self.back.clear();
            if self.rig.s.state() == StcpState::Closed {
                return self.rig.t - begin;
            }
            let next = self.rig.s.deadline();
            self.rig.t =
                self.rig.t.max(next.unwrap_or_else(|| panic!("deadlock: {:?}", self.rig.s)));
            self.send();
        }
        panic!("no end after {} s: {:?}", (self.rig.t - begin) / S, self.rig.s);
    }

    fn done(&self) -> bool {
        let s = self.rig.s.snapshot();
        s.una == s.end && s.state == StcpState::Established
    }

    /// A kind network, and a reader that reads: everything must arrive in a bounded number of rounds.
    fn finish(&mut self) {
        for round in 0..20_000 {
            if self.done() || self.rig.s.state() == StcpState::Closed {
                return;
            }
            while !self.there.is_empty() {
                self.arrive(0);
            }
            self.back.extend(self.peer.read(u64::MAX / 2));
            for s in std::mem::take(&mut self.back) {
                self.answer(s);
            }
            self.send();
            if self.there.is_empty() && !self.done() {
                let next = [self.rig.s.deadline(), self.peer.deadline()];
                let next = next.into_iter().flatten().min();
                self.rig.t =
                    self.rig.t.max(next.unwrap_or_else(|| panic!("deadlock in round {round}")));
                self.back.extend(self.peer.tick(self.rig.t));
                self.send();
            }
        }
        panic!("no end: {:?}", self.rig.s);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn s48_the_stream_arrives_or_the_connection_ends(
        settings in settings(),
        iss in any::<u32>(),
        buffer in 1000u32..60_000,
        most in prop_oneof![Just(0u32), Just(20_000)],
        steps in proptest::collection::vec(step(), 1..400),
    ) {
        let mut world = World::new(settings, iss, buffer, most);
        world.send();
        for step in &steps {
            world.step(step);
            let s = world.rig.s.snapshot();
            prop_assert!(s.una <= world.peer.in_order() && world.peer.in_order() <= s.max.max(world.edge + 1));
        }
        world.finish();
        prop_assert_eq!(world.rig.s.state(), StcpState::Established);
        let s = world.rig.s.snapshot();
        prop_assert_eq!(world.peer.in_order(), s.end);
        let c = world.rig.counters();
        prop_assert_eq!((c.fragment_bytes, c.acked_bytes), (s.end, s.end));
    }

    /// With the limits of `daq`, and in half of the cases a network that is cut: it arrives, or the connection ends, within the limits, and
    /// the peer has a beginning of it.
    #[test]
    fn s48_a_connection_that_ends_leaves_a_beginning(
        settings in settings(),
        iss in any::<u32>(),
        buffer in 1000u32..60_000,
        most in prop_oneof![Just(0u32), Just(20_000)],
        steps in proptest::collection::vec(step(), 1..400),
        cut in any::<bool>(),
    ) {
        let daq = StcpSettings::daq();
        let settings = StcpSettings {
            give_up_us: daq.give_up_us,
            syn_give_up_us: daq.syn_give_up_us,
            keepalive_idle_us: daq.keepalive_idle_us,
            persist_give_up_us: daq.persist_give_up_us,
            ..settings
        };
        let mut world = World::new(settings, iss, buffer, most);
        world.send();
        for step in &steps {
            if world.rig.s.state() == StcpState::Closed {
                break;
            }
            world.step(step);
        }
        if cut {
            // 7 s without progress, 10 s without anything to send and 9 probes, and what was left of a window's 7 s before.
            let took = world.cut();
            prop_assert!(took < 30 * S, "{} ms", took / MS);
        } else {
            world.finish();
        }
        let c = world.rig.counters();
        let arrived = world.peer.in_order();
        prop_assert!(c.acked_bytes <= arrived && arrived <= c.fragment_bytes, "{arrived}: {c:?}");
        if world.rig.s.state() == StcpState::Established {
            prop_assert_eq!((c.acked_bytes, arrived), (c.fragment_bytes, c.fragment_bytes));
        }
    }

    /// Statement 46: segments of anybody, between honest ones.
    #[test]
    fn s46_hostile_segments_free_nothing_and_cost_little(
        tolerate in any::<bool>(),
        hostile in proptest::collection::vec(
            (any::<u8>(), -3i64..3, any::<u8>(), any::<u16>(), 0u32..3, any::<Option<u16>>(), 0u32..10_000), 1..300),
    ) {
        let policy = if tolerate { PeerPolicy::Tolerate } else { PeerPolicy::Abort };
        let settings = StcpSettings { on_fin: policy, on_data: policy, ..StcpSettings::daq() };
        let mut rig = Rig::connected(settings, 1 << 16);
        rig.submit(100_000);
        rig.all();
        let mut answers = 0;
        for (seq, ack, flags, window, length, mss, us) in hostile {
            let before = rig.s.snapshot();
            let near = [0u32, 1, 2, 0x7fff_ffff, 0x8000_0000, 65_535, 0u32.wrapping_sub(1), 70_000];
            let ack = [before.una, before.max, before.max + 1][(ack.unsigned_abs() % 3) as usize].saturating_add_signed(ack * 9999);
            rig.t += u64::from(us) * US;
            rig.give(Inbound {
                seq: IRS.wrapping_add(near[usize::from(seq % 8)]),
                ack: rig.seq(ack),
                flags: TcpFlags(flags),
                window, length, mss,
                scale: Some(seq),
            });
            let after = rig.s.snapshot();
            prop_assert!(after.una <= before.max);
            for o in rig.all() {
                let s = rig.s.snapshot();
                answers += u64::from(o.length == 0);
                prop_assert!(o.purpose != Purpose::Data || o.offset + u64::from(o.length) <= s.una + s.window);
                prop_assert!(!o.flags.has(TcpFlags::FIN));
            }
        }
        // Challenges and RSTs have their limits a second; a FIN that is tolerated draws one ACK each.
        let seconds = rig.t / S + 1;
        prop_assert!(answers <= seconds * 110 + rig.counters().peer_fins + 3, "{answers} in {seconds} s");
    }
}

proptest! {
    /// A fragment that is made where it leaves from is the same bytes of the stream, also where it goes round the end of the buffer; one that is
    /// refused is not made.
    #[test]
    fn fragments_made_in_place_are_the_stream(lengths in prop::collection::vec(0..1500usize, 1..40)) {
        let mut rig = Rig::with(StcpSettings::daq(), 60_000, ISS, 1024);
        let (mut sent, mut taken_all) = (0, 0);
        for length in lengths {
            let end = rig.s.snapshot().end;
            let mut made = 0;
            let taken = rig.s.submit_in_place(rig.t, length, |first, second| {
                made = first.len() + second.len();
                for (at, place) in (end..).zip(first.iter_mut().chain(second)) {
                    *place = byte(at);
                }
            });
            prop_assert!(length <= 1024 || taken.is_err());
            taken_all += if taken.is_ok() { length as u64 } else { 0 };
            prop_assert_eq!(made, if taken.is_ok() { length } else { 0 });
            rig.s.flush();
            for segment in rig.all() {
                let (first, second) = ring_slices(&rig.s.memory().ring, segment.offset, segment.length);
                let right = (segment.offset..).zip(first.iter().chain(second)).all(|(at, b)| *b == byte(at));
                prop_assert!(right, "{segment:?}");
                sent = segment.offset + u64::from(segment.length);
            }
            rig.give(rig.ack(sent, 60_000));
        }
        prop_assert_eq!((sent, rig.s.snapshot().end), (taken_all, taken_all));
    }
}
