//! One worker's queues in small steps of time: socket buffer, ring, queue of the output, spool, brokers.
//!
//! Everything is counted in packets and their worth: what a packet becomes takes its bytes with it. In each step the
//! brokers take from the spool, the spool from the queue, the processing thread from the ring, the receiving thread
//! from the socket, and then packets arrive: what leaves a queue makes room for the next step, so that depths are
//! rather too large. As in the service, a full queue of the output loses events of a stream that cannot wait, a full
//! spool stops taking, and a full ring leaves packets in the socket. A step is as the caller says.

use super::arrivals::WorkerArrivals;
use super::plan::CapacityPlan;
use crate::advise::need::Need;
use fullcount_core::link::Wire;

/// Batches between two threads (`engine/pipeline`).
const RING: f64 = 16.0;
/// Bytes of such a batch: 1 ms of 10 Gb/s.
const BATCH_BYTES: f64 = 1.25e6;
/// Most events that are handed to an output at once, and longest time between two of these.
const HAND_OVER: (f64, f64) = (65_536.0, 20e-3);
/// Before the outage: time to see the usual depths, seconds.
const SETTLE_S: f64 = 1.0;
/// After it: longest time that is simulated; the rest is computed.
const AFTER_S: f64 = 60.0;
/// No bound.
pub const UNBOUNDED: u64 = u64::MAX;

/// The places where packets wait, in order.
pub const PLACES: [&str; 4] = ["socket buffer", "ring", "queue of the output", "spool"];

/// Sizes of the queues, as the service is told them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sizes {
    /// `source.receive_buffer`, bytes.
    pub receive_buffer: u64,
    /// `engine.queue`, batches.
    pub queue: u64,
    /// `output.kafka.spool_size`, bytes.
    pub spool: u64,
    /// Step of time, seconds.
    pub step_s: f64,
    /// Outage of the brokers, seconds.
    pub outage_s: f64,
    /// Seed of the arrivals.
    pub seed: u64,
}

/// One worker, in packets.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueSetup {
    /// Packets a second, on average.
    pub rate: f64,
    /// Pulses a second.
    pub hz: Option<f64>,
    /// Peak in units of the average.
    pub factor: f64,
    /// Packets a second of the thread that receives; with one thread, and processes.
    pub receive: f64,
    /// Packets a second of the second thread, if there is one.
    pub process: Option<f64>,
    /// Packets' worth a second that the spool takes and that brokers do; `None`: no output.
    pub output: Option<(f64, f64)>,
    /// Room at each of [`PLACES`], packets.
    pub room: [u64; 4],
    /// Bytes of a packet at each of them.
    pub bytes: [f64; 4],
    /// Step, seconds.
    pub step_s: f64,
    /// Outage, seconds.
    pub outage_s: f64,
    /// Seed.
    pub seed: u64,
}

/// What came of it. `arrived` = `out` + `lost` + `left`.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueOutcome {
    /// Packets that came.
    pub arrived: u64,
    /// That the brokers have, or that were processed where there is no output.
    pub out: u64,
    /// Lost at the socket and at the queue of the output.
    pub lost: [u64; 2],
    /// Waiting at the end.
    pub left: [u64; 4],
    /// Most that waited, at each place.
    pub deepest: [u64; 4],
    /// Most that waited before the outage.
    pub usual: [u64; 4],
    /// When the first was lost, seconds since the outage began (before it: negative).
    pub first_loss_s: Option<f64>,
    /// Time from the end of the outage until no more waits than before it, seconds; `None`: never.
    pub drained_s: Option<f64>,
    /// True if that was computed from the rates, as it takes longer than the simulation.
    pub computed: bool,
}

impl QueueSetup {
    /// One of the plan's workers, with queues of these sizes. Without measured rates of spool and brokers there is no
    /// output.
    pub fn new(
        plan: &CapacityPlan,
        sizes: &Sizes,
        spool: Option<f64>,
        produce: Option<f64>,
    ) -> QueueSetup {
        let workers = plan.workers as f64;
        let (size, events) = (plan.packet_bytes, plan.events_per_packet);
        let two = plan.wishes.threads == 2 && plan.instrument.kind.detector().is_some();
        let rate = plan.average.packets / workers;
        let topic = plan.output.as_ref().map(|o| o.topic / plan.average.events * events);
        let sent = plan.output.as_ref().map(|o| o.sent / plan.average.events * events);
        let output = match (topic, sent, spool, produce) {
            (Some(topic), Some(sent), Some(spool), Some(produce)) => {
                Some((spool / topic, produce / sent))
            }
            _ => None,
        };
        let topic = topic.unwrap_or(size);
        let batch = HAND_OVER.0.min((rate * events * HAND_OVER.1).max(1.0));
        let room = [
            socket_room(size, sizes.receive_buffer),
            if two { (RING * BATCH_BYTES / size) as u64 } else { 0 },
            ((sizes.queue as f64 * batch / events) as u64).max(1),
            ((sizes.spool as f64 / topic) as u64).max(1),
        ];
        let receive = match (two, &plan.receiver) {
            (true, Some(receiver)) => receiver.value,
            _ => plan.worker.value,
        };
        let event_bytes = super::plan::EVENT_BYTES * events;
        QueueSetup {
            rate,
            hz: plan.instrument.pulses,
            factor: plan.factor,
            receive,
            process: two.then_some(plan.worker.value),
            output,
            room,
            bytes: [size, size, event_bytes, topic],
            step_s: sizes.step_s,
            outage_s: sizes.outage_s,
            seed: sizes.seed,
        }
    }

    /// The same without bounds: what the queues would need.
    pub fn unbounded(&self) -> QueueSetup {
        QueueSetup { room: [UNBOUNDED; 4], ..self.clone() }
    }

    /// Packets a second that take what waits at a place away.
    pub fn drain(&self, place: usize) -> f64 {
        let output = self.output.unwrap_or((f64::INFINITY, f64::INFINITY));
        [self.receive, self.process.unwrap_or(self.receive), output.0, output.1][place]
    }
}

/// Packets of a size that a receive buffer holds, as the kernel counts them.
fn socket_room(size: f64, bytes: u64) -> u64 {
    let size = size.ceil() as usize;
    let wire = Wire::usual(false, size);
    let one = Need { pps: 1.0, bits: size as f64 * 8.0, size, wire, mtu_known: true, target: wire };
    one.buffer_seconds(bytes) as u64
}

/// Something that serves so many packets a step.
struct Server {
    each: f64,
    credit: f64,
}

impl Server {
    fn new(per_s: f64, step_s: f64) -> Server {
        Server { each: per_s * step_s, credit: 0.0 }
    }

    /// Takes up to `waiting`; time without work is not saved up.
    fn take(&mut self, waiting: u64) -> u64 {
        self.credit += self.each;
        let n = (self.credit as u64).min(waiting);
        self.credit = (self.credit - n as f64).min(1.0);
        n
    }
}

/// Runs it: 1 s, the outage, and until what waited is gone or a minute has passed.
pub fn simulate(setup: &QueueSetup) -> QueueOutcome {
    let step = setup.step_s;
    let mut arrivals = WorkerArrivals::new(setup.rate, setup.hz, setup.factor, setup.seed);
    let mut receiver = Server::new(setup.receive, step);
    let mut processor = setup.process.map(|p| Server::new(p, step));
    let mut output = setup.output.map(|(a, p)| [Server::new(a, step), Server::new(p, step)]);
    let steps = |seconds: f64| (seconds / step).round() as u64;
    let (begin, end) = (steps(SETTLE_S), steps(SETTLE_S + setup.outage_s));
    let last = end + steps(AFTER_S);
    let mut waits = [0u64; 4];
    let mut o = QueueOutcome {
        arrived: 0,
        out: 0,
        lost: [0; 2],
        left: [0; 4],
        deepest: [0; 4],
        usual: [0; 4],
        first_loss_s: None,
        drained_s: None,
        computed: false,
    };
    for k in 0..last {
        let lost_before = o.lost;
        if let Some([append, produce]) = &mut output {
            if !(begin..end).contains(&k) {
                let n = produce.take(waits[3]);
                waits[3] -= n;
                o.out += n;
            }
            let n = append.take(waits[2].min(setup.room[3] - waits[3]));
            waits[2] -= n;
            waits[3] += n;
        }
        // What was processed goes to the output, or is done.
        let hand_over = |n: u64, queue: &mut u64, o: &mut QueueOutcome| match setup.output {
            None => o.out += n,
            Some(_) => {
                let fits = n.min(setup.room[2] - *queue);
                *queue += fits;
                o.lost[1] += n - fits;
            }
        };
        if let Some(processor) = &mut processor {
            let n = processor.take(waits[1]);
            waits[1] -= n;
            hand_over(n, &mut waits[2], &mut o);
            let n = receiver.take(waits[0].min(setup.room[1] - waits[1]));
            waits[0] -= n;
            waits[1] += n;
        } else {
            let n = receiver.take(waits[0]);
            waits[0] -= n;
            hand_over(n, &mut waits[2], &mut o);
        }
        let came = arrivals.between(k as f64 * step, (k + 1) as f64 * step);
        let fits = came.min(setup.room[0] - waits[0]);
        waits[0] += fits;
        o.lost[0] += came - fits;
        o.arrived += came;
        for (most, now) in o.deepest.iter_mut().zip(waits) {
            *most = (*most).max(now);
        }
        if k + 1 == begin {
            o.usual = o.deepest;
        }
        if o.lost != lost_before && o.first_loss_s.is_none() {
            o.first_loss_s = Some((k as f64 - begin as f64) * step);
        }
        if k >= end && waits[3] <= o.usual[3].max(1) && waits[2] <= o.usual[2].max(1) {
            o.drained_s = Some((k + 1 - end) as f64 * step);
            break;
        }
    }
    o.left = waits;
    if let (None, Some((_, produce))) = (o.drained_s, setup.output) {
        let spare = produce - setup.rate;
        if spare > 0.0 {
            o.drained_s = Some(AFTER_S + (waits[2] + waits[3]) as f64 / spare);
            o.computed = true;
        }
    }
    o
}
