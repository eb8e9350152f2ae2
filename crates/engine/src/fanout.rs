//! From the workers to the sinks: one thread per sink, one bounded queue per sink and worker, batches by
//! reference.
//!
//! Full queue: a best-effort sink loses the batch (counted, shown as a fraction); a required sink loses
//! it too if the source is lossy (exit 3), and stops the reading if the source is lossless. Nothing
//! here ever blocks a lossy source. Products come from a pool that cannot run dry, so the steady state
//! allocates nothing. Source: `docs/contracts.md`, "Sinks and overload".

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fullcount_core::ledger::{Info, Ledger, Merge, Place, Role, Sheet, Unit};
use fullcount_core::products::{Products, Want};
use fullcount_core::sink::{Load, Report, Sink, SinkError};
use fullcount_core::trace;

use crate::pipeline::Heart;
use crate::progress::{BatchProgress, OutputProgress};

/// First and longest pause of an idle sink thread; each is twice the one before. A batch waits at most this long in an empty queue; at 200
/// wake-ups a second the idle cost is below 0.1 % of a core. While batches come, it is the first: records of a readout unit pin memory of
/// the source, at 5 GB/s 25 MB in the longest pause, which no cache holds.
const NAP: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(5));
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
    pub enum OutputCount {
        Bytes "transmit.bytes" Bytes Sum "transmit" Note
            "bytes of event columns handed to the outputs (8 per event and output)" "";
    }
}

/// Told of a sink's failure, on its thread.
type OnFailure = Arc<dyn Fn(&SinkError) + Send + Sync>;

const OFFERED: usize = 0;
const DROPPED: usize = 1;
/// Line of the sink's own sheet, behind `queued`.
const TAKEN: usize = 1;

/// One worker's way to one sink.
struct Lane {
    name: &'static str,
    required: bool,
    load: Load,
    queue: rtrb::Producer<Arc<Products>>,
    /// Written by this worker.
    sheet: Arc<Sheet>,
    /// Batches put into the queue; written by this worker.
    put: Arc<AtomicU64>,
    failed: Arc<AtomicBool>,
    progress: Arc<OutputProgress>,
}

/// One sink's thread.
struct Drain {
    view: LaneView,
    thread: JoinHandle<Result<Report, SinkError>>,
}

/// The threads of all sinks.
pub struct Drains(Vec<Drain>);

/// The sinks of a run, seen from one worker.
pub struct Fanout {
    lanes: Vec<Lane>,
    pool: Vec<Arc<Products>>,
    /// Index in `pool` of the products being filled; nobody else holds them.
    current: usize,
    want: Want,
    sheet: Arc<Sheet>,
    /// Number of this worker's pipeline.
    pipeline: u32,
    progress: Arc<BatchProgress>,
    /// Of the thread that gives.
    heart: Arc<Heart>,
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

/// How full a sink's queues are: for the status line and the page.
#[derive(Debug, Clone)]
pub struct LaneView {
    name: &'static str,
    required: bool,
    capacity: usize,
    /// One a worker.
    queues: Vec<Arc<Sheet>>,
    puts: Vec<Arc<AtomicU64>>,
    /// Written by the sink's thread.
    taken: Arc<Sheet>,
    taken_batches: Arc<AtomicU64>,
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
    /// Batches that the queues hold together.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
    /// Events, or rows, offered to the sink so far.
    pub fn offered(&self) -> u64 {
        self.queues.iter().map(|q| q.get(OFFERED)).sum()
    }
    /// Events, or rows, lost because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.queues.iter().map(|q| q.get(DROPPED)).sum()
    }
    /// Batches waiting.
    pub fn batches(&self) -> usize {
        let put: u64 = self.puts.iter().map(|p| p.load(Relaxed)).sum();
        put.saturating_sub(self.taken_batches.load(Relaxed)) as usize
    }
    /// Events, or rows, waiting.
    pub fn queued(&self) -> u64 {
        self.offered().saturating_sub(self.dropped() + self.taken.get(TAKEN))
    }
}

/// Lines of one output's queue: two written by each worker, then two of the sink's thread. What is queued is
/// worked out when it is read (see [`LaneView::queued`]).
pub fn queue_lines(sink: &str, required: bool, unit: Unit) -> Vec<Info> {
    let line = |what: &str, role: Role, meaning: &str, todo: &str| Info {
        name: format!("queue.{sink}.{what}").into(),
        unit,
        merge: Merge::Sum,
        hop: format!("queue.{sink}").into(),
        role,
        meaning: format!("{} {meaning}", unit.name()).into(),
        todo: todo.to_owned().into(),
    };
    let (dropped, todo) = if required {
        let todo = "the output failed (its message says why), or is slower than the detector: faster \
                    disk or broker, fewer outputs, or a longer engine.queue for short peaks";
        (Role::Dropped(Place::Queue), todo)
    } else {
        (Role::Rejected, "")
    };
    vec![
        line("offered", Role::In, "offered to this output", ""),
        line("dropped", dropped, "not given to it: its queue was full, or it had failed", todo),
        line("queued", Role::Queued, "waiting in its queue", ""),
        line("taken", Role::Accepted, "it took", ""),
    ]
}

impl Lane {
    /// Puts products into the queue; `wait`s for room in it. False if the sink does not get them.
    #[inline]
    fn give(&mut self, mut products: Arc<Products>, wait: bool, heart: &Heart) -> bool {
        trace!(Output, Debug, "{} events for {}", products.events.len(), self.name);
        while !self.failed.load(Relaxed) {
            match self.queue.push(products) {
                Ok(()) => {
                    self.put.store(self.put.load(Relaxed) + 1, Relaxed);
                    return true;
                }
                Err(rtrb::PushError::Full(back)) if wait => {
                    products = back;
                    heart.beat();
                    thread::sleep(Duration::from_micros(100));
                }
                Err(rtrb::PushError::Full(_)) => return false,
            }
        }
        false
    }
}

impl Fanout {
    /// Starts a thread per sink, and gives each of `workers` its own way to all of them. `on_failure` is
    /// called at once, on the sink's thread, when it fails.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn start(
        sinks: Vec<Box<dyn Sink>>,
        (workers, capacity): (usize, usize),
        ledger: &Ledger,
        on_failure: impl Fn(&SinkError) + Send + Sync + 'static,
    ) -> std::io::Result<(Vec<Fanout>, Drains)> {
        let on_failure: OnFailure = Arc::new(on_failure);
        let want = sinks.iter().fold(Want::default(), |want, sink| want.or(sink.want()));
        let mut ways: Vec<Vec<Lane>> = (0..workers).map(|_| Vec::new()).collect();
        let mut drains = Vec::with_capacity(sinks.len());
        for mut sink in sinks {
            let (name, required, load) = (sink.name(), sink.required(), sink.load());
            let lines = || queue_lines(name, required, load.unit);
            let taken = Sheet::new(lines().split_off(DROPPED + 1));
            let (taken_batches, failed) = (Arc::default(), Arc::new(AtomicBool::new(false)));
            let mut view = LaneView {
                name,
                required,
                capacity: workers * capacity,
                queues: Vec::new(),
                puts: Vec::new(),
                taken: taken.clone(),
                taken_batches,
                failed: failed.clone(),
            };
            let mut queues = Vec::with_capacity(workers);
            let each = (0..workers).map(|_| Arc::new(OutputProgress::new(required)));
            let progress: Vec<_> = each.collect();
            for (way, progress) in ways.iter_mut().zip(progress.iter().cloned()) {
                let (queue, batches) = rtrb::RingBuffer::<Arc<Products>>::new(capacity);
                let mut offered = lines();
                offered.truncate(DROPPED + 1);
                let (sheet, put) = (Sheet::new(offered), Arc::<AtomicU64>::default());
                ledger.register(sheet.clone());
                view.queues.push(sheet.clone());
                view.puts.push(put.clone());
                queues.push(batches);
                let failed = failed.clone();
                way.push(Lane { name, required, load, queue, sheet, put, failed, progress });
            }
            ledger.register(taken.clone());
            ledger.register(sink.sheet());
            let level = view.taken_batches.clone();
            let mut crash = Crash { name, failed, on_failure: on_failure.clone() };
            let thread = thread::Builder::new().name(format!("sink-{name}")).spawn(move || {
                let end = serve(&mut *sink, &mut queues, (&taken, load), (&level, &progress));
                if let Err(e) = &end {
                    crash.failed(e);
                }
                end
            })?;
            drains.push(Drain { view, thread });
        }
        let fanout = |(pipeline, lanes): (u32, Vec<Lane>)| {
            // Every queue full, one batch in the hands of each sink, one being filled, one spare.
            let size = lanes.len() * (capacity + 1) + 2;
            let fresh = || Arc::new(Products { want, ..Products::default() });
            let pool = (0..size).map(|_| fresh()).collect();
            let sheet = Sheet::new(OutputCount::catalogue());
            ledger.register(sheet.clone());
            let outputs = lanes.iter().map(|lane| lane.progress.clone()).collect();
            let progress = Arc::new(BatchProgress::new(outputs));
            let heart = Arc::default();
            Fanout { lanes, pool, current: 0, want, sheet, pipeline, progress, heart }
        };
        Ok(((0..).zip(ways).map(fanout).collect(), Drains(drains)))
    }

    /// The products being filled.
    pub fn products(&mut self) -> &mut Products {
        if Arc::get_mut(&mut self.pool[self.current]).is_none() {
            // Cannot happen by the pool's size; a fresh one keeps the promise anyway.
            self.pool[self.current] = Arc::new(Products { want: self.want, ..Products::default() });
        }
        Arc::get_mut(&mut self.pool[self.current]).expect("just made unique")
    }

    /// It is given from a thread with this mark, which goes round while it waits for an output.
    pub fn beats(&mut self, heart: Arc<Heart>) {
        self.heart = heart;
    }

    /// Number of this worker's pipeline.
    pub fn pipeline(&self) -> u32 {
        self.pipeline
    }

    /// How far this worker's batches are.
    pub fn progress(&self) -> &Arc<BatchProgress> {
        &self.progress
    }

    /// True if no output's queue is more than half full: they keep up, and may be given little at a time.
    pub fn has_room(&self) -> bool {
        self.lanes.iter().all(|lane| {
            let capacity = lane.queue.buffer().capacity();
            2 * lane.queue.slots() >= capacity || lane.failed.load(Relaxed)
        })
    }

    /// Gives the current products to every sink and begins new ones. Where there is nothing to write, the number of the newest
    /// complete batch still goes, if it is another.
    ///
    /// # Errors
    /// A required sink has failed and `lossless` says that waiting or ending loses less.
    pub fn hand_over(&mut self, lossless: bool) -> Result<(), RequiredSinkFailed> {
        let products = &self.pool[self.current];
        let (complete, before) = (products.complete.batch, self.progress.complete());
        let empty = products.is_empty();
        if empty && complete <= before && products.flush.is_none() {
            return Ok(());
        }
        // All are offered before one ends the run: what it keeps from the others is lost to them.
        for lane in &self.lanes {
            lane.sheet.add(OFFERED, (lane.load.of)(products));
        }
        for lane in &mut self.lanes {
            let n = (lane.load.of)(products);
            let wait = lossless && lane.required;
            if lane.give(products.clone(), wait, &self.heart) {
                let bytes = if lane.load.unit == Unit::Events { 8 * n } else { 0 };
                self.sheet.add(OutputCount::Bytes as usize, bytes);
                continue;
            }
            lane.sheet.add(DROPPED, n);
            if !empty {
                lane.progress.dropped_behind(before);
            }
            if !empty && wait {
                return Err(RequiredSinkFailed { sink: lane.name });
            }
        }
        self.progress.complete_is(complete.max(before));
        self.next();
        Ok(())
    }

    /// Moves on to products that nobody holds any more: the first of the pool, so that as few as possible
    /// are ever used and grown (round robin let a soak grow by 1 MiB a minute until all of them had met
    /// their largest batch).
    fn next(&mut self) {
        if self.want.heaps || self.want.records {
            // Their memory goes back as soon as the last output has them, not when these products are used again.
            for products in self.pool.iter_mut().filter_map(Arc::get_mut) {
                products.heaps.clear();
                products.records.clear();
            }
        }
        let free = self.pool.iter().position(|p| Arc::strong_count(p) == 1);
        self.current = free.unwrap_or(self.current);
        self.products().clear();
    }
}

impl Drains {
    /// For those who watch.
    pub fn views(&self) -> Vec<LaneView> {
        self.0.iter().map(|d| d.view.clone()).collect()
    }

    /// No more batches: lets every sink finish and collects what it says. `workers`: all of them, so that
    /// nobody can still put anything.
    pub fn finish(self, workers: Vec<Fanout>) -> Vec<LaneEnd> {
        drop(workers);
        let end = |Drain { view, thread }: Drain| {
            let LaneView { name, required, .. } = view;
            let outcome = thread.join().unwrap_or_else(|_| Err(panicked(name)));
            // What a failed sink left in its queues is lost, not waiting.
            if let Some(first) = view.queues.first() {
                first.add(DROPPED, view.queued());
            }
            LaneEnd { name, required, outcome }
        };
        self.0.into_iter().map(end).collect()
    }
}

/// Tells of a sink's failure, also if its thread panics.
struct Crash {
    name: &'static str,
    failed: Arc<AtomicBool>,
    on_failure: OnFailure,
}

impl Crash {
    fn failed(&mut self, e: &SinkError) {
        self.failed.store(true, Relaxed);
        (self.on_failure)(e);
    }
}

impl Drop for Crash {
    fn drop(&mut self) {
        if thread::panicking() {
            self.failed(&panicked(self.name));
        }
    }
}

fn panicked(sink: &'static str) -> SinkError {
    SinkError { sink, message: "its thread panicked".to_owned() }
}

/// Tells how far all is safe with the sink.
fn tell(sink: &dyn Sink, progress: &[Arc<OutputProgress>]) {
    (0..).zip(progress).for_each(|(pipeline, progress)| progress.safe_is(sink.safe(pipeline)));
}

/// The sink's thread: takes batches until all workers have gone and their queues are empty.
fn serve(
    sink: &mut dyn Sink,
    queues: &mut [rtrb::Consumer<Arc<Products>>],
    (taken, load): (&Sheet, Load),
    (batches, progress): (&AtomicU64, &[Arc<OutputProgress>]),
) -> Result<Report, SinkError> {
    let start = Instant::now();
    let (mut ticked, mut nap) = (Duration::ZERO, NAP.0);
    loop {
        // Looked at before the queues: a worker puts nothing after it has gone.
        let over = queues.iter().all(|q| q.is_abandoned());
        let mut idle = true;
        for queue in &mut *queues {
            let Ok(products) = queue.pop() else { continue };
            idle = false;
            batches.store(batches.load(Relaxed) + 1, Relaxed);
            // Taken first: what a failing sink had begun is in its own counters, not in the queue's.
            taken.add(TAKEN, (load.of)(&products));
            sink.push(&products)?;
            tell(sink, progress);
        }
        if idle && over {
            let end = sink.finish();
            tell(sink, progress);
            return end;
        }
        if idle {
            thread::sleep(nap);
        }
        nap = if idle { (2 * nap).min(NAP.1) } else { NAP.0 };
        let now = start.elapsed();
        if now - ticked >= TICK {
            ticked = now;
            sink.tick(now)?;
            tell(sink, progress);
        }
    }
}

#[cfg(test)]
#[path = "fanout_tests.rs"]
mod tests;
