//! From the pipeline to the sinks: one bounded queue and one thread per sink, batches by reference.
//!
//! Full queue: a best-effort sink loses the batch (counted, shown as a fraction); a required sink loses
//! it too if the source is lossy (exit 3), and stops the reading if the source is lossless. Nothing
//! here ever blocks a lossy source. Products come from a pool that cannot run dry, so the steady state
//! allocates nothing. Source: `docs/architecture.md`, contract "Sinks and overload".

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fullcount_core::ledger::{Info, Ledger, Merge, Place, Role, Sheet, Unit};
use fullcount_core::products::{Products, Want};
use fullcount_out::sink::{Report, Sink, SinkError};

/// Longest pause of an idle sink thread. A batch waits at most this long in an empty queue; at 200
/// wake-ups a second the idle cost is below 0.1 % of a core.
const NAP: Duration = Duration::from_millis(5);
/// Flush timers are looked at this often.
const TICK: Duration = Duration::from_millis(100);

/// Why the run cannot go on.
#[derive(Debug, thiserror::Error)]
#[error("{sink} failed and the source is lossless, so the run ends here rather than lose events")]
pub struct RequiredSinkFailed {
    /// Name of the sink.
    pub sink: &'static str,
}

fullcount_core::counters! {
    /// What leaves the pipeline, all outputs together.
    pub enum Transmit {
        Bytes "transmit.bytes" Bytes Sum "transmit" Note
            "bytes of event columns handed to the outputs (8 per event and output)" "";
    }
}

const OFFERED: usize = 0;
const DROPPED: usize = 1;
const QUEUED: usize = 2;
const TAKEN: usize = 0;

/// Batches put into a queue and taken out of it; one writer each.
#[derive(Debug, Default)]
struct Depth {
    put: AtomicU64,
    taken: AtomicU64,
}

struct Lane {
    name: &'static str,
    required: bool,
    queue: rtrb::Producer<Arc<Products>>,
    capacity: usize,
    /// Written by the pipeline's thread.
    sheet: Arc<Sheet>,
    /// Written by the sink's thread.
    taken: Arc<Sheet>,
    depth: Arc<Depth>,
    failed: Arc<AtomicBool>,
    thread: JoinHandle<Result<Report, SinkError>>,
}

/// The sinks of a run, seen from the pipeline.
pub struct Fanout {
    lanes: Vec<Lane>,
    pool: Vec<Arc<Products>>,
    /// Index in `pool` of the products being filled; nobody else holds them.
    current: usize,
    want: Want,
    sheet: Arc<Sheet>,
}

/// What became of one sink.
pub struct LaneEnd {
    /// Name.
    pub name: &'static str,
    /// True if its losses are losses of the run.
    pub required: bool,
    /// Report, or why there is none.
    pub outcome: Result<Report, SinkError>,
}

/// How full a queue is: for the status line and the page.
#[derive(Debug, Clone)]
pub struct LaneView {
    name: &'static str,
    required: bool,
    capacity: usize,
    queue: Arc<Sheet>,
    taken: Arc<Sheet>,
    depth: Arc<Depth>,
    failed: Arc<AtomicBool>,
}

impl LaneView {
    /// True once the sink has failed for good.
    pub fn failed(&self) -> bool {
        self.failed.load(Relaxed)
    }
    /// Name of the sink.
    pub fn name(&self) -> &'static str {
        self.name
    }
    /// True if its losses are losses of the run.
    pub fn required(&self) -> bool {
        self.required
    }
    /// Batches that the queue holds.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
    /// Events offered to the sink so far.
    pub fn offered(&self) -> u64 {
        self.queue.get(OFFERED)
    }
    /// Events lost because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.queue.get(DROPPED)
    }
    /// Batches waiting.
    pub fn batches(&self) -> usize {
        let put = self.depth.put.load(Relaxed);
        put.saturating_sub(self.depth.taken.load(Relaxed)) as usize
    }
    /// Events waiting.
    pub fn queued(&self) -> u64 {
        self.offered().saturating_sub(self.dropped() + self.taken.get(TAKEN))
    }
}

fn line(sink: &str, what: &str, role: Role, meaning: &str, todo: &str) -> Info {
    Info {
        name: format!("queue.{sink}.{what}").into(),
        unit: Unit::Events,
        merge: Merge::Sum,
        hop: format!("queue.{sink}").into(),
        role,
        meaning: meaning.to_owned().into(),
        todo: todo.to_owned().into(),
    }
}

/// Lines of one output's queue: three written by the pipeline, the last by the sink's thread.
pub fn queue_lines(sink: &str, required: bool) -> Vec<Info> {
    let (dropped, todo) = if required {
        let todo = "the output failed (its message says why), or is slower than the detector: faster \
                    disk or broker, fewer outputs, or a longer engine.queue for short peaks";
        (Role::Dropped(Place::Queue), todo)
    } else {
        (Role::Rejected, "")
    };
    vec![
        line(sink, "offered", Role::In, "events offered to this output", ""),
        line(
            sink,
            "dropped",
            dropped,
            "events not given to it: its queue was full, or it had failed",
            todo,
        ),
        line(sink, "queued", Role::Queued, "events waiting in its queue", ""),
        line(sink, "taken", Role::Accepted, "events it took", ""),
    ]
}

impl Fanout {
    /// Starts a thread per sink. `on_failure` is called at once, on that thread, when a sink fails.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn start(
        sinks: Vec<Box<dyn Sink>>,
        capacity: usize,
        ledger: &Ledger,
        on_failure: fn(&SinkError),
    ) -> std::io::Result<Fanout> {
        let mut want = Want::default();
        let mut lanes = Vec::with_capacity(sinks.len());
        for mut sink in sinks {
            let (name, required) = (sink.name(), sink.required());
            want.hits |= sink.want().hits;
            let mut lines = queue_lines(name, required);
            let taken = Sheet::new(lines.split_off(QUEUED + 1));
            let sheet = Sheet::new(lines);
            ledger.register(sheet.clone());
            ledger.register(taken.clone());
            ledger.register(sink.sheet());
            let (queue, mut batches) = rtrb::RingBuffer::<Arc<Products>>::new(capacity);
            let failed = Arc::new(AtomicBool::new(false));
            let depth = Arc::new(Depth::default());
            let (flag, count, level) = (failed.clone(), taken.clone(), depth.clone());
            let thread = thread::Builder::new().name(format!("sink-{name}")).spawn(move || {
                let end = serve(&mut *sink, &mut batches, &count, &level);
                if let Err(e) = &end {
                    flag.store(true, Relaxed);
                    on_failure(e);
                }
                end
            })?;
            lanes.push(Lane {
                name,
                required,
                queue,
                capacity,
                sheet,
                taken,
                depth,
                failed,
                thread,
            });
        }
        // Every queue full, one batch in the hands of each sink, one being filled, one spare.
        let size = lanes.len() * (capacity + 1) + 2;
        let fresh = || Arc::new(Products { want, ..Products::default() });
        let pool = (0..size).map(|_| fresh()).collect();
        let sheet = Sheet::new(Transmit::catalogue());
        ledger.register(sheet.clone());
        Ok(Fanout { lanes, pool, current: 0, want, sheet })
    }

    /// The products being filled.
    pub fn products(&mut self) -> &mut Products {
        if Arc::get_mut(&mut self.pool[self.current]).is_none() {
            // Cannot happen by the pool's size; a fresh one keeps the promise anyway.
            self.pool[self.current] = Arc::new(Products { want: self.want, ..Products::default() });
        }
        Arc::get_mut(&mut self.pool[self.current]).expect("just made unique")
    }

    /// Gives the current products to every sink and begins new ones.
    ///
    /// # Errors
    /// A required sink has failed and `lossless` says that waiting or ending loses less.
    pub fn hand_over(&mut self, lossless: bool) -> Result<(), RequiredSinkFailed> {
        let products = &self.pool[self.current];
        if products.is_empty() {
            return Ok(());
        }
        let events = products.events.len() as u64;
        for lane in &mut self.lanes {
            lane.sheet.add(OFFERED, events);
            let mut batch = products.clone();
            let wait = lossless && lane.required;
            loop {
                if lane.failed.load(Relaxed) {
                    lane.sheet.add(DROPPED, events);
                    if wait {
                        return Err(RequiredSinkFailed { sink: lane.name });
                    }
                    break;
                }
                match lane.queue.push(batch) {
                    Ok(()) => {
                        self.sheet.add(Transmit::Bytes as usize, 8 * events);
                        let put = &lane.depth.put;
                        put.store(put.load(Relaxed) + 1, Relaxed);
                        break;
                    }
                    Err(rtrb::PushError::Full(back)) if wait => {
                        batch = back;
                        thread::sleep(Duration::from_micros(100));
                    }
                    Err(rtrb::PushError::Full(_)) => {
                        lane.sheet.add(DROPPED, events);
                        break;
                    }
                }
            }
            lane.update_queued();
        }
        self.next();
        Ok(())
    }

    /// Moves on to products that nobody holds any more: the first of the pool, so that as few as possible
    /// are ever used and grown (round robin let a soak grow by 1 MiB a minute until all of them had met
    /// their largest batch).
    fn next(&mut self) {
        let free = self.pool.iter().position(|p| Arc::strong_count(p) == 1);
        self.current = free.unwrap_or(self.current);
        self.products().clear();
    }

    /// For those who watch.
    pub fn views(&self) -> Vec<LaneView> {
        let view = |l: &Lane| LaneView {
            name: l.name,
            required: l.required,
            capacity: l.capacity,
            queue: l.sheet.clone(),
            taken: l.taken.clone(),
            depth: l.depth.clone(),
            failed: l.failed.clone(),
        };
        self.lanes.iter().map(view).collect()
    }

    /// No more batches: lets every sink finish and collects what it says.
    pub fn finish(self) -> Vec<LaneEnd> {
        let Fanout { lanes, pool, .. } = self;
        drop(pool);
        let end = |lane: Lane| {
            let Lane { name, required, queue, sheet, taken, thread, .. } = lane;
            drop(queue);
            let crashed =
                |_| Err(SinkError { sink: name, message: "its thread panicked".to_owned() });
            let outcome = thread.join().unwrap_or_else(crashed);
            // What a failed sink left in its queue is lost, not waiting.
            let rest = sheet.get(OFFERED) - sheet.get(DROPPED) - taken.get(TAKEN);
            sheet.add(DROPPED, rest);
            sheet.set(QUEUED, 0);
            LaneEnd { name, required, outcome }
        };
        lanes.into_iter().map(end).collect()
    }
}

impl Lane {
    fn update_queued(&self) {
        let gone = self.sheet.get(DROPPED) + self.taken.get(TAKEN);
        self.sheet.set(QUEUED, self.sheet.get(OFFERED).saturating_sub(gone));
    }
}

/// The sink's thread: takes batches until the pipeline has gone and the queue is empty.
fn serve(
    sink: &mut dyn Sink,
    batches: &mut rtrb::Consumer<Arc<Products>>,
    taken: &Sheet,
    depth: &Depth,
) -> Result<Report, SinkError> {
    let start = Instant::now();
    let mut ticked = Duration::ZERO;
    loop {
        match batches.pop() {
            Ok(products) => {
                depth.taken.store(depth.taken.load(Relaxed) + 1, Relaxed);
                // Taken first: what a failing sink had begun is in its own counters, not in the queue's.
                taken.add(TAKEN, products.events.len() as u64);
                sink.push(&products)?;
            }
            Err(_) if batches.is_abandoned() && batches.is_empty() => return sink.finish(),
            Err(_) => thread::sleep(NAP),
        }
        let now = start.elapsed();
        if now - ticked >= TICK {
            ticked = now;
            sink.tick(now)?;
        }
    }
}

#[cfg(test)]
#[path = "fanout_tests.rs"]
mod tests;
