//! One pipeline from memory: a decoder over an [`PacketImage`], again and again, with all checks and counters on; or its first
//! step alone.
//!
//! Each pass over the memory has a decoder of its own, made and finished inside the measured time, as
//! time would run backwards between two passes otherwise; columns are reused. So each whole pass must give the events
//! of the first one, and from the second on count exactly the same (a detector may count what it meets for the first
//! time), which is checked together with the ledger's balance: a figure that does not add up is refused. The clock
//! is read once a batch (up to 1 MiB).

use std::time::{Duration, Instant};

use super::amounts::Amounts;
use anyhow::bail;
use fullcount_core::ledger::{Entries, Ledger};
use fullcount_core::products::{Products, Want};
use fullcount_detect::detector::{Detector, Threads};
use fullcount_io::host::Host;

use super::image::PacketImage;

/// The counter of events; where a detector has it, it must say what the columns say.
const EVENTS: &str = "events.count";

/// How much of a detector is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecoderPart {
    /// Packets to events.
    Whole,
    /// The first step, if there are two: what it gives to the second is dropped.
    FirstStep,
}

/// What a pipeline did.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainOutcome {
    /// Time it took.
    pub seconds: f64,
    /// Whole passes over the memory.
    pub passes: u64,
    /// Amounts.
    pub amounts: Amounts,
    /// Last-level cache misses, or why they are not known.
    pub misses: Result<u64, String>,
}

/// Runs `part` of a detector, on so many threads, over `image` from this thread for `time` or until `stop`, to the end of a batch.
///
/// # Errors
/// Counters that do not add up; the system refuses a thread.
pub fn drive(
    (detector, threads): (&dyn Detector, &Threads),
    part: DecoderPart,
    image: &PacketImage,
    time: Duration,
    stop: &dyn Fn() -> bool,
) -> anyhow::Result<ChainOutcome> {
    let mut products = Products::default();
    let mut misses = Host::default().cache_misses();
    let before = count(&mut misses);
    let (mut total, mut passes) = (Amounts::default(), 0);
    let mut earlier = Earlier::default();
    let begun = Instant::now();
    let over = || begun.elapsed() >= time || stop();
    loop {
        let pass = one_pass((detector, threads), part, image, &mut products, over)?;
        total.more(&pass.amounts);
        if pass.cut {
            break;
        }
        passes += 1;
        earlier.compare(detector.name(), pass)?;
        if over() {
            break;
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let misses = before.and_then(|before| Ok(count(&mut misses)?.saturating_sub(before)));
    Ok(ChainOutcome { seconds, passes, amounts: total, misses })
}

fn count(misses: &mut Result<fullcount_io::sys::CacheMisses, String>) -> Result<u64, String> {
    match misses {
        Ok(count) => count.read().map_err(|e| Host::default().why_no_misses(&e)),
        Err(why) => Err(why.clone()),
    }
}

struct Pass {
    amounts: Amounts,
    entries: Entries,
    /// Ended before the end of the memory.
    cut: bool,
}

fn one_pass(
    (detector, threads): (&dyn Detector, &Threads),
    part: DecoderPart,
    image: &PacketImage,
    products: &mut Products,
    over: impl Fn() -> bool,
) -> anyhow::Result<Pass> {
    let first = (part == DecoderPart::FirstStep).then(|| detector.first_step()).flatten();
    let mut decoder = match first {
        Some(first) => first,
        None => detector.decoder(Want::default(), threads)?,
    };
    let (mut packets, mut bytes, mut events) = (0, 0, 0);
    let mut cut = false;
    for (at, batch) in image.batches.iter().enumerate() {
        products.clear();
        decoder.decode(Some(batch), None, products);
        events += products.events.len() as u64;
        packets += batch.count();
        bytes += batch.bytes();
        cut = at + 1 < image.batches.len() && over();
        if cut {
            break;
        }
    }
    products.clear();
    decoder.finish(products);
    events += products.events.len() as u64;
    let ledger = Ledger::default();
    decoder.sheets().into_iter().for_each(|sheet| ledger.register(sheet));
    let entries = ledger.read();
    check(detector.name(), &entries, packets, events)?;
    let amounts = Amounts { bytes, events, ..Amounts::of(&entries) };
    Ok(Pass { amounts, entries, cut })
}

fn check(detector: &str, entries: &Entries, packets: u64, events: u64) -> anyhow::Result<()> {
    if entries.balance() != 0 {
        bail!("{detector}: the ledger does not balance: {:?}", entries.hops());
    }
    for (counter, were) in [("decode.packets", packets), (EVENTS, events)] {
        if let Some(said) = entries.get(counter).filter(|said| *said != were) {
            bail!("{detector}: {counter} says {said}, there were {were}");
        }
    }
    Ok(())
}

/// What whole passes counted.
#[derive(Default)]
struct Earlier {
    /// Events of the first.
    events: Option<u64>,
    /// Counters of the second.
    entries: Option<Entries>,
}

impl Earlier {
    /// Refuses a pass that says something else.
    fn compare(&mut self, detector: &str, pass: Pass) -> anyhow::Result<()> {
        let events = pass.amounts.events;
        let Some(before) = self.events else {
            self.events = Some(events);
            return Ok(());
        };
        if before != events {
            bail!("{detector}: the same packets gave {before} events, then {events}");
        }
        let Some(entries) = &self.entries else {
            self.entries = Some(pass.entries);
            return Ok(());
        };
        let mut pairs = entries.iter().zip(pass.entries.iter());
        if let Some((was, is)) = pairs.find(|(a, b)| a != b) {
            let name = &was.info.name;
            bail!("{detector}: the same packets made {name} {}, then {}", was.value, is.value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use fullcount_core::batch::{Batch, Origin};
    use fullcount_core::ledger::Sheet;
    use fullcount_core::products::Products;
    use fullcount_core::time::Nanos;
    use fullcount_core::time::{PulseTime, TickLength};
    use fullcount_core::view::{PixelMap, Plot};
    use fullcount_detect::detector::{Decoder, Inspector, Sharding};

    use super::*;

    fullcount_core::counters! {
        /// A detector of one event a packet.
        enum Count {
            Packets "decode.packets" Packets Sum "decode" In "" "";
            Accepted "decode.accepted" Packets Sum "decode" Accepted "" "";
            Readouts "readouts" Readouts Sum "geometry" In "" "";
            Events "events.count" Readouts Sum "geometry" Accepted "" "";
        }
    }

    /// Which promise is broken, and at the how-manieth decoder.
    #[derive(Clone, Copy, PartialEq)]
    enum Fault {
        None,
        Balance,
        Events,
        Later(u64),
    }

    struct Fake {
        fault: Fault,
        decoders: AtomicU64,
    }

    struct FakeDecoder {
        fault: Fault,
        number: u64,
        sheet: Arc<Sheet>,
    }

    impl Decoder for FakeDecoder {
        fn decode(&mut self, batch: Option<&Batch>, _: Option<Nanos>, products: &mut Products) {
            let n = batch.map_or(0, Batch::count);
            products.events.open_pulse(PulseTime(0));
            (0..n).for_each(|_| products.events.push(0, 1));
            let wrong = |fault| u64::from(self.fault == fault);
            let more = n + wrong(Fault::Events) + wrong(Fault::Later(self.number));
            self.sheet.add(Count::Packets as usize, n);
            self.sheet.add(Count::Accepted as usize, n - wrong(Fault::Balance));
            self.sheet.add(Count::Readouts as usize, more);
            self.sheet.add(Count::Events as usize, more - wrong(Fault::Later(self.number)));
            // A hop that balances all the same.
            if self.fault == Fault::Later(self.number) {
                products.events.push(0, 1);
                self.sheet.add(Count::Events as usize, 1);
            }
        }
        fn flush(&mut self, _: fullcount_core::progress::Flush, _: &mut Products) {}
        fn sheets(&self) -> Vec<Arc<Sheet>> {
            vec![self.sheet.clone()]
        }
    }

    impl Detector for Fake {
        fn name(&self) -> &str {
            "fake"
        }
        fn decoder(&self, _: Want, _: &Threads) -> std::io::Result<Box<dyn Decoder>> {
            let (number, sheet) =
                (self.decoders.fetch_add(1, Relaxed), Sheet::new(Count::catalogue()));
            Ok(Box::new(FakeDecoder { fault: self.fault, number, sheet }))
        }
        fn sharding(&self) -> Sharding {
            Sharding::Serial
        }
        fn numbering(&self) -> Option<fullcount_core::sequence::numbering::Numbering> {
            None
        }
        fn tick(&self) -> (TickLength, bool) {
            (TickLength::new(1, 1).unwrap(), true)
        }
        fn pixels(&self) -> PixelMap {
            PixelMap::default()
        }
        fn plots(&self) -> Vec<Plot> {
            vec![]
        }
        fn inspector(&self) -> Box<dyn Inspector> {
            unreachable!("nobody inspects here")
        }
    }

    fn driven(fault: Fault) -> anyhow::Result<ChainOutcome> {
        let packets: Vec<_> = (0..100).map(|_| (vec![0; 100], Origin::NONE)).collect();
        let image = PacketImage::of_packets(&packets, None, 1).unwrap();
        let detector = Fake { fault, decoders: AtomicU64::new(0) };
        let alone = &Threads::of(1);
        drive((&detector, alone), DecoderPart::Whole, &image, Duration::from_millis(20), &|| false)
    }

    #[test]
    fn amounts_are_those_of_all_passes() {
        let o = driven(Fault::None).unwrap();
        assert!(o.passes >= 1 && o.seconds >= 0.02, "{o:?}");
        // One batch a pass: no pass is cut.
        let expected = Amounts {
            packets: 100 * o.passes,
            bytes: 10_000 * o.passes,
            readouts: Some(100 * o.passes),
            hits: None,
            triggers: None,
            events: 100 * o.passes,
        };
        assert_eq!(o.amounts, expected);
    }

    #[test]
    fn a_stop_ends_it_after_a_batch() {
        let packets: Vec<_> = (0..2000).map(|_| (vec![0; 1000], Origin::NONE)).collect();
        let image = PacketImage::of_packets(&packets, None, 1).unwrap();
        assert!(image.batches.len() > 1);
        let detector = Fake { fault: Fault::None, decoders: AtomicU64::new(0) };
        let alone = (&detector as &dyn Detector, &Threads::of(1));
        let o =
            drive(alone, DecoderPart::Whole, &image, Duration::from_secs(1000), &|| true).unwrap();
        assert_eq!((o.passes, o.amounts.packets), (0, image.batches[0].count()));
    }

    #[test]
    fn what_does_not_add_up_is_refused() {
        for (fault, words) in [
            (Fault::Balance, "does not balance"),
            (Fault::Events, "events.count says 101, there were 100"),
            (Fault::Later(1), "gave 100 events, then 101"),
        ] {
            let e = driven(fault).unwrap_err().to_string();
            assert!(e.contains(words), "{e}");
        }
    }
}
