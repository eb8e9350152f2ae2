//! SPEAD (Streaming Protocol for Exchanging Astronomical Data) without I/O: packets, heaps, items, descriptors, a sender and
//! a receiver that are wire-compatible with [spead2](https://github.com/ska-sa/spead2). No socket, file, clock or `unsafe`:
//! bytes go in, heaps come out, time is an argument, so the same code runs over UDP, TCP, captures, AF_XDP and in a browser.
//!
//! # Receiving
//!
//! A [`HeapReceiver`] takes datagrams and puts heaps together; an [`ItemGroup`] knows what their items mean.
//!
//! ```
//! use fullcount_spead::describe::{BugCompat, Elements, ItemArray, NumpyHeader};
//! use fullcount_spead::send::{HeapGenerator, HeapSender, NextPacket, OutHeap, SendHow, SenderConfig, What};
//! use fullcount_spead::{Descriptor, Flavour, HeapReceiver, ItemGroup, ReceiverConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A sender with one item: four 16-bit numbers.
//! let mut items = ItemGroup::new(BugCompat::default());
//! let header = NumpyHeader::parse("{'descr': '<u2', 'fortran_order': False, 'shape': (4,)}")?;
//! let id = items.add(Descriptor::numpy(0, "samples", "raw samples", &header)).ok_or("full")?;
//! items.set(id, ItemArray::vector(Elements::U16(vec![1, 2, 3, 4])))?;
//! let mut generator = HeapGenerator::new(items, Flavour::default(), None);
//! let mut sender = HeapSender::new(SenderConfig::default())?;
//! sender.send(generator.heap(What::Stale, What::Stale)?, SendHow::default())?;
//! sender.send(OutHeap::stop(Flavour::default()), SendHow::default())?;
//!
//! // A receiver; `now` is the time in ns from any origin.
//! let mut receiver = HeapReceiver::new(ReceiverConfig::default())?;
//! let mut known = ItemGroup::new(BugCompat::default());
//! let (now, mut datagram) = (0, Vec::new());
//! while let NextPacket::Packet { .. } = sender.next_packet(now, &mut datagram) {
//!     receiver.push(now, &datagram);
//!     datagram.clear();
//!     while let Some(heap) = receiver.pop().and_then(|delivery| delivery.heap()) {
//!         known.update(&heap);
//!     }
//! }
//! let samples = known.named("samples").and_then(|item| item.value.as_ref()).ok_or("no value")?;
//! assert_eq!(samples.elements, Elements::U16(vec![1, 2, 3, 4]));
//! assert!(receiver.ended().is_some());
//! # Ok(())
//! # }
//! ```
//!
//! # What is where
//!
//! | module | what it holds |
//! |---|---|
//! | [`wire`] | flavours, item pointers, one packet taken apart |
//! | [`receive`] | the window of live heaps, heaps, incomplete heaps with their presence map, memory pools, statistics, losses |
//! | [`describe`] | descriptors, NumPy headers, SPEAD formats, typed arrays, item groups, PySPEAD compatibility |
//! | [`send`] | heaps to be sent, the cut into packets, rate and bursts, queue, groups, substreams, completions |
//! | [`chunk`] | payloads of many heaps straight into large buffers; groups of streams that fill them together |
//! | [`framing`] | byte streams: packets back to back as spead2 sends them, and whole heaps |
//! | [`feedback`] | a back-channel: reports, re-requests, and the tuner that finds the highest loss-free rate |
//!
//! # Where it differs from spead2
//!
//! [`ReceiverConfig::spead2`] gives every heap as spead2 does, and its counts of heaps and packets. The default differs, and counts each:
//!
//! | what happens | spead2 | here by default | counted as |
//! |---|---|---|---|
//! | packets of a heap out of order | the rest of the heap is thrown away | taken | `spead.reordered` |
//! | a late packet of a finished heap | starts a phantom heap, which pushes a good one out | refused | `spead.refused.late`, `spead.refused.duplicate_heap` |
//! | a heap of one packet comes twice | delivered twice | delivered once | `spead.refused.duplicate_heap` |
//! | several packets in one datagram (captures on a sending host) | refused | taken apart | `spead.merged_datagrams` |
//! | a heap whose end never comes | waits until newer heaps push it out | given up after 5 s | `spead.heaps.timed_out` |
//! | a stream whose stop was lost | waits for ever | [`ReceiverConfig::stall_timeout_ns`] | `spead.stalls` |
//! | the first stop, the first reader's end | ends the stream | [`ReceiverConfig::stops`], [`ReceiverConfig::readers`] | `spead.heaps.stop` |
//! | a heap length of 2^47 B in one packet | the stream hangs | refused, as is all above [`ReceiverConfig::max_heap_bytes`] | `spead.refused.heap_too_large` |
//! | bytes of an incomplete heap | out of reach | [`receive::IncompleteHeap::pieces`] | `spead.lost.bytes` |
//! | refused packets | not counted | one counter for each reason | [`receive::SpeadCounter`] |
//! | padding of heaps with many pointers | before the payload, so that small items are zeros | behind it, as the document says | – (how a heap is cut: nothing is refused or lost) |
//! | a full send queue | drops the heap | gives it back, or lets it wait | `SendCounts::refused_heaps` |
//! | cancelling, fixed payload per packet | not there | [`send::HeapSender::cancel`], [`send::PayloadSize::Fixed`] | `SendCounts::unfinished_heaps`; – (a cut) |
//!
//! Memory is bounded by the settings whatever comes: the window, bytes of live heaps, items and pieces of a heap, heaps and
//! chunks that wait for their consumer, finished numbers that are remembered, items of a group. On a byte stream a length alone
//! costs at most 32 MiB or a block of the pool.
//!
//! The wire format, and what spead2 does with it: `docs/formats/spead.md` of the repository.
#![forbid(unsafe_code)]

pub mod chunk;
pub mod describe;
pub mod feedback;
pub mod framing;
pub mod receive;
pub mod send;
pub mod wire;

pub use describe::{BugCompat, Descriptor, ItemArray, ItemGroup};
pub use receive::{Heap, HeapReceiver, ReceiverConfig};
pub use wire::{Flavour, SpeadPacket};

#[cfg(test)]
mod testing;
