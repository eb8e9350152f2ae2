//! The receiver against loss, disorder, copies and malice; each known weakness of spead2 that concerns it has a test here.

mod defects;
mod faults;
mod hostile;
mod numbers;

use fullcount_core::ledger::{Entries, Ledger, Sheet};

use super::*;

/// A stream may be filled in one thread, and its heaps used in another.
const _: fn() = || {
    fn moves<T: Send>() {}
    fn shared<T: Send + Sync>() {}
    moves::<HeapReceiver>();
    shared::<Heap>();
    shared::<IncompleteHeap>();
    moves::<crate::send::HeapSender>();
    moves::<crate::framing::HeapStream>();
};

/// The ledger of a stream since it began.
fn ledger<S: Store>(stream: &mut StreamReceiver<S>) -> Entries {
    let sheet = Sheet::new(SpeadCounter::catalogue());
    stream.tally().clone().flush(&sheet);
    let ledger = Ledger::default();
    ledger.register(sheet);
    ledger.read()
}

/// One count.
fn count(stream: &mut HeapReceiver, counter: SpeadCounter) -> u64 {
    stream.tally().get(counter)
}

/// Takes everything that is finished.
fn drain(stream: &mut HeapReceiver) -> Vec<Delivery> {
    std::iter::from_fn(|| stream.pop()).collect()
}

fn ours() -> ReceiverConfig {
    ReceiverConfig {
        incomplete: OnIncomplete::Give,
        ring_heaps: 1 << 16,
        ..ReceiverConfig::default()
    }
}
