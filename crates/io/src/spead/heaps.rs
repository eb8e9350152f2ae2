//! A sender of test heaps, as spead2_send is: heaps of some items with big-endian 32-bit numbers, to one or several destinations.
//!
//! Heap i goes to destination i mod their number; the first one to each has the descriptors, and each gets a stop heap at the end. The
//! checkable values are spead2's: x ← 48271·x mod (2³¹ − 1), one sequence over all heaps and items. Source: `docs/formats/spead.md`,
//! section 14.1.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fullcount_core::refusal::{Refusal, refuse};
use fullcount_spead::describe::NumpyHeader;
use fullcount_spead::receive::Heap;
use fullcount_spead::send::{EntryBytes, OutHeap, SendCounts, SendHow};
use fullcount_spead::wire::id;
use fullcount_spead::{BugCompat, Descriptor, Flavour};

use super::outlet::{OutletError, SpeadOutlet, TransportCount};

/// Values whose sequence a receiver can check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestValues(u64);

/// 2³¹ − 1.
const MODULUS: u64 = 0x7FFF_FFFF;
const FACTOR: u64 = 48_271;

impl TestValues {
    /// The sequence from its number `at`, from 0.
    pub fn from(at: u64) -> TestValues {
        let (mut power, mut base, mut left) = (1, FACTOR, at);
        while left > 0 {
            if left & 1 == 1 {
                power = power * base % MODULUS;
            }
            base = base * base % MODULUS;
            left >>= 1;
        }
        TestValues(power)
    }

    /// The next one.
    pub fn next_value(&mut self) -> u32 {
        self.0 = FACTOR * self.0 % MODULUS;
        self.0 as u32
    }

    /// The next ones fill `bytes`, four bytes each.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for four in bytes.as_chunks_mut::<4>().0 {
            *four = self.next_value().to_be_bytes();
        }
    }

    /// Where a heap of whatever job differs from them: its items are those from 0x1000 on, all as long as the first.
    pub fn wrong_in(heap: &Heap) -> Option<(usize, usize)> {
        let items = heap.items().filter(|item| item.id >= id::FIRST_CHOSEN).count();
        let first =
            heap.item(id::FIRST_CHOSEN).and_then(|item| item.bytes()).map_or(4, <[u8]>::len);
        let heap_size = (first * items) as u64;
        TestValues::mismatch(heap, &HeapsJob { heap_size, items, ..HeapsJob::default() })
    }

    /// Where a heap of the job differs from them: item and element.
    ///
    /// `heap_bytes` are those of the job, rounded down; of several destinations heap numbers run over all.
    pub fn mismatch(heap: &Heap, job: &HeapsJob) -> Option<(usize, usize)> {
        if job.items == 0 {
            return None;
        }
        let elements = job.elements();
        let first = heap.cnt.wrapping_sub(1).wrapping_mul((job.items * elements) as u64);
        let mut values = TestValues::from(first);
        for item in 0..job.items {
            let of = heap.item(id::FIRST_CHOSEN + item as u64);
            // One of 4 B came in its pointer.
            let immediate =
                of.and_then(|i| i.immediate()).map(|value| (value as u32).to_be_bytes());
            let bytes = match &immediate {
                Some(bytes) => &bytes[..],
                None => of.and_then(|i| i.bytes()).unwrap_or_default(),
            };
            let (fours, _) = bytes.as_chunks::<4>();
            for element in 0..elements {
                let wanted = values.next_value();
                if fours.get(element).map(|four| u32::from_be_bytes(*four)) != Some(wanted) {
                    return Some((item, element));
                }
            }
        }
        None
    }
}

/// See [`HeapsJob::linger`]: five requests of a receiver, 50 ms apart, and twice that for a round trip of a long link.
pub(super) const LINGER: Duration = Duration::from_millis(500);

/// What is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct HeapsJob {
    /// Payload of a heap, bytes; rounded down to whole items of 32-bit numbers.
    pub heap_size: u64,
    /// Items of a heap.
    pub items: usize,
    /// Heaps; `None`: until it is stopped.
    pub heaps: Option<u64>,
    /// The values can be checked.
    pub verify: bool,
    /// Widths of pointers.
    pub flavour: Flavour,
    /// Heaps from one descriptor to the next; 0: once.
    pub descriptors: u64,
    /// Ends after this.
    pub duration: Option<Duration>,
    /// With a back-channel: the longest wait, behind the last heap, for the receiver to say that all heaps have ended there.
    pub linger: Duration,
    /// Number of the first heap, and the step to the next: for several senders of one stream.
    pub numbers: (u64, u64),
    /// Ends with stop heaps.
    pub stop: bool,
    /// How descriptors are written.
    pub compat: BugCompat,
}

impl Default for HeapsJob {
    fn default() -> HeapsJob {
        HeapsJob {
            heap_size: 4 << 20,
            items: 1,
            heaps: None,
            verify: false,
            flavour: Flavour::default(),
            descriptors: 0,
            duration: None,
            linger: LINGER,
            numbers: (1, 1),
            stop: true,
            compat: BugCompat::default(),
        }
    }
}

/// What was sent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HeapsSent {
    /// What the stream counted.
    pub counts: SendCounts,
    /// What the system took.
    pub transport: TransportCount,
    /// Until the last packet was given to the system.
    pub seconds: f64,
    /// Data heaps.
    pub heaps: u64,
    /// SPEAD bytes that were sent again behind the last heap, which `seconds` leaves out.
    pub settled_bytes: u64,
}

impl HeapsSent {
    /// Gb/s of SPEAD bytes.
    pub fn gbps(&self) -> f64 {
        let bytes = self.counts.packet_bytes - self.settled_bytes;
        bytes as f64 * 8e-9 / self.seconds.max(1e-9)
    }
}

impl HeapsJob {
    /// Looks at sizes; `max_heaps` heaps will be in memory.
    ///
    /// # Errors
    /// Key, value and range.
    pub fn check(&self) -> Result<(), Refusal> {
        if !(1..=65_536).contains(&self.items) {
            return Err(refuse("items", self.items, "1 to 65536"));
        }
        let least = 4 * self.items as u64;
        if !(least..=1 << 36).contains(&self.heap_size) {
            return Err(refuse(
                "heap_size",
                self.heap_size,
                format!("{least} B (4 for each item) to 64 GiB"),
            ));
        }
        let most = self.flavour.largest_value();
        if self.heap_size > most {
            let bits = self.flavour.address_bits();
            let allowed = format!("at most {most} B with addresses of {bits} bits");
            return Err(refuse("heap_size", self.heap_size, allowed));
        }
        Ok(())
    }

    /// Numbers of an item.
    pub fn elements(&self) -> usize {
        (self.heap_size / (4 * self.items as u64)) as usize
    }

    /// The descriptors.
    fn described(&self) -> Vec<Descriptor> {
        let text =
            format!("{{'shape': ({},), 'fortran_order': False, 'descr': '>u4'}}", self.elements());
        let Ok(header) = NumpyHeader::parse(&text) else { return vec![] };
        let one = |n: usize| {
            let (id, name) = (id::FIRST_CHOSEN + n as u64, format!("Test item {n}"));
            Descriptor::numpy(id, &name, "A test item with arbitrary value", &header)
        };
        (0..self.items).map(one).collect()
    }

    /// Sends until all heaps are sent, the time is over or `stop` says so. `progress` is told what was sent so far.
    ///
    /// # Errors
    /// Sending failed for good.
    pub fn run(
        &self,
        outlet: &mut SpeadOutlet,
        stop: &dyn Fn() -> bool,
        progress: &dyn Fn(&SendCounts),
    ) -> Result<HeapsSent, OutletError> {
        self.check()?;
        let substreams = outlet.sender().config().substreams as u64;
        let queue = outlet.sender().config().max_heaps as u64;
        let elements = self.elements();
        // Each heap of the queue has memory of its own, as a program's heaps have. Made before the clock runs: four heaps of 4 MiB take 10 ms.
        let slots = self.heaps.map_or(queue, |heaps| heaps.min(queue));
        let zeros = || -> Arc<[u8]> { std::iter::repeat_n(0, 4 * elements).collect() };
        let mut memory: Vec<Vec<Arc<[u8]>>> =
            (0..slots).map(|_| (0..self.items).map(|_| zeros()).collect()).collect();
        let described = self.described();
        let begun = Instant::now();
        let mut sent = 0u64;
        let over = || stop() || self.duration.is_some_and(|time| begun.elapsed() >= time);
        while self.heaps.is_none_or(|heaps| sent < heaps) && !over() {
            if outlet.sender().space() == 0 {
                // One heap leaves, or 20 ms pass: then it is looked at `stop` again.
                pump_one(outlet)?;
                continue;
            }
            let number = self.number(sent);
            let slot = (sent % queue) as usize;
            if self.verify {
                let mut values = TestValues::from(
                    number.wrapping_sub(1).wrapping_mul((self.items * elements) as u64),
                );
                for item in &mut memory[slot] {
                    let mut bytes = vec![0; 4 * elements];
                    values.fill(&mut bytes);
                    *item = bytes.into();
                }
            }
            let first = sent < substreams;
            let again = self.descriptors > 0 && sent % (self.descriptors * substreams) < substreams;
            let heap = self.heap(&memory[slot], if first || again { &described } else { &[] })?;
            let how = SendHow {
                cnt: Some(number),
                substream: (sent % substreams) as usize,
                ..SendHow::default()
            };
            outlet.sender().send(heap, how).map_err(|e| OutletError::Unfit(e.to_string()))?;
            sent += 1;
            progress(&outlet.sender().counts());
        }
        if stop() {
            outlet.sender().cancel_all();
        }
        let (mut waited, mut settled_bytes) = (Duration::ZERO, 0);
        if self.stop && outlet.back().is_some() {
            // The stop ends the stream: what is missing is asked for before it.
            outlet.drain()?;
            let (full, before) = (Instant::now(), outlet.sender().counts().packet_bytes);
            outlet.settle(self.linger, stop)?;
            waited = full.elapsed();
            settled_bytes = outlet.sender().counts().packet_bytes - before;
        }
        self.end(outlet, sent, substreams)?;
        outlet.finish()?;
        let seconds = (begun.elapsed() - waited).as_secs_f64();
        outlet.departed();
        while outlet.sender().pop_completion().is_some() {}
        let counts = outlet.sender().counts();
        Ok(HeapsSent {
            counts,
            transport: outlet.transport(),
            seconds,
            heaps: counts.heaps - counts.stop_heaps,
            settled_bytes,
        })
    }

    fn heap(&self, items: &[Arc<[u8]>], described: &[Descriptor]) -> Result<OutHeap, OutletError> {
        let mut heap = OutHeap::new(self.flavour);
        for descriptor in described {
            let added = heap.add_descriptor(descriptor, self.compat);
            added.map_err(|e| OutletError::Unfit(e.to_string()))?;
        }
        for (n, bytes) in items.iter().enumerate() {
            heap.add_item(id::FIRST_CHOSEN + n as u64, EntryBytes::from(bytes.clone()), true);
        }
        Ok(heap)
    }

    /// Of the heap behind `sent` others: numbers begin anew where the flavour's addresses end.
    fn number(&self, sent: u64) -> u64 {
        let number = self.numbers.0.wrapping_add(sent.wrapping_mul(self.numbers.1));
        number & self.flavour.largest_value()
    }

    /// A stop heap to each destination.
    fn end(&self, outlet: &mut SpeadOutlet, sent: u64, substreams: u64) -> Result<(), OutletError> {
        for n in 0..if self.stop { substreams } else { 0 } {
            while outlet.sender().space() == 0 {
                pump_one(outlet)?;
            }
            let cnt = Some(self.number(sent + n));
            let how = SendHow { cnt, substream: n as usize, ..SendHow::default() };
            let heap = OutHeap::stop(self.flavour);
            outlet.sender().send(heap, how).map_err(|e| OutletError::Unfit(e.to_string()))?;
        }
        Ok(())
    }
}

/// Sends until a heap has left the queue, at most 20 ms.
fn pump_one(outlet: &mut SpeadOutlet) -> Result<(), OutletError> {
    outlet.pump(Duration::from_millis(20))?;
    while outlet.sender().pop_completion().is_some() {}
    Ok(())
}
