//! A decoder's answer to "which is the oldest batch of which something still waits in you?" catches up and is never early.
//!
//! Once the answer is behind batch n, what is still made at the end must follow from the batches behind n alone: a second decoder
//! has all before them taken away ([`Flush::Taken`]), and makes those events too.

use crate::batch::Batch;
use crate::products::{Products, Want};
use crate::progress::{BatchNumber, Flush};

use super::{BrokenContract, SamplePacket, Split, batches, configure, decoder};
use crate::detector::{Decoder, Detector, Kind, Setup};

/// Batches behind which a decoder is ended; each costs two runs.
const CUTS: usize = 6;

fn feed(decoder: &mut dyn Decoder, batch: &Batch, number: usize, products: &mut Products) {
    products.batch = BatchNumber { pipeline: 0, batch: number as u64 };
    decoder.decode(Some(batch), None, products);
}

/// Events that the decoder makes at the end, sorted.
fn rest(mut decoder: Box<dyn Decoder>) -> Vec<(i64, u32)> {
    let mut products = Products::default();
    decoder.flush(Flush::End, &mut products);
    let mut events: Vec<_> = products.events.absolute().collect();
    events.sort_unstable();
    events
}

/// The check, with batches of a few packets.
pub(super) fn check(
    kind: &dyn Kind,
    setup: &Setup,
    packets: &[SamplePacket],
) -> Result<(), BrokenContract> {
    let split = Split::Singles(packets.len().div_ceil(64));
    let batches = batches(packets, split);
    for reason in [Flush::Taken, Flush::End] {
        catches_up(&*configure(kind, setup)?, &batches, reason)?;
    }
    for cut in (1..=CUTS).map(|n| n * batches.len() / (CUTS + 1)).filter(|&cut| cut > 0) {
        never_early(kind, setup, &batches, cut)?;
    }
    Ok(())
}

fn catches_up(
    detector: &dyn Detector,
    batches: &[Batch],
    reason: Flush,
) -> Result<(), BrokenContract> {
    let mut decoder = decoder(detector, Want::default(), 1)?;
    let mut products = Products::default();
    let mut last = 0;
    for (batch, number) in batches.iter().zip(1..) {
        feed(&mut *decoder, batch, number, &mut products);
        let newest = number as u64;
        let oldest = decoder.oldest().map_or(newest + 1, |oldest| oldest.batch);
        ensure!(oldest > 0 && oldest <= newest + 1, "oldest batch {oldest} of {newest}");
        ensure!(oldest >= last, "the oldest batch goes back from {last} to {oldest}");
        last = oldest;
    }
    decoder.flush(reason, &mut products);
    let oldest = decoder.oldest();
    ensure!(oldest.is_none(), "after flush({reason:?}) something waits: {oldest:?}");
    Ok(())
}

fn never_early(
    kind: &dyn Kind,
    setup: &Setup,
    batches: &[Batch],
    cut: usize,
) -> Result<(), BrokenContract> {
    let mut first = decoder(&*configure(kind, setup)?, Want::default(), 1)?;
    let mut products = Products::default();
    let mut read = 0;
    let mut answer = 0;
    while read < batches.len() && (read < cut || answer <= cut as u64) {
        read += 1;
        feed(&mut *first, &batches[read - 1], read, &mut products);
        products.clear();
        answer = first.oldest().map_or(read as u64 + 1, |oldest| oldest.batch);
    }
    if answer <= cut as u64 {
        // It waits to the end.
        return Ok(());
    }
    let mut second = decoder(&*configure(kind, setup)?, Want::default(), 1)?;
    let mut made = Products::default();
    for (batch, number) in batches[..read].iter().zip(1..) {
        feed(&mut *second, batch, number, &mut made);
        if number == cut {
            second.flush(Flush::Taken, &mut made);
            made.clear();
        }
    }
    second.flush(Flush::End, &mut made);
    let mut possible: Vec<_> = made.events.absolute().collect();
    possible.sort_unstable();
    let mut possible = possible.iter();
    let early = rest(first).into_iter().find(|event| !possible.any(|found| found == event));
    ensure!(
        early.is_none(),
        "batches up to {cut} are said to have left, and at batch {read} an event of them waits: {early:?}"
    );
    Ok(())
}
