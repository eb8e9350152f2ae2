//! A decoder's time at which it gives something by itself ([`Decoder::due`]): a call at that time gives something or moves it on.
//!
//! Otherwise the engine would call it again and again. Time goes on by hand, from one such time to the next.

use crate::products::{Products, Want};
use crate::progress::Flush;
use crate::time::Nanos;

use super::{BrokenContract, SamplePacket, Split, batches, configure, decoder};
use crate::detector::{Decoder, Kind, Setup};

/// Between two batches.
const STEP: i64 = 1_000_000;

/// The check, with batches of a few packets.
pub(super) fn check(
    kind: &dyn Kind,
    setup: &Setup,
    packets: &[SamplePacket],
) -> Result<(), BrokenContract> {
    let detector = configure(kind, setup)?;
    let [mut replay, mut live] =
        [decoder(&*detector, Want::ALL, 1)?, decoder(&*detector, Want::ALL, 1)?];
    let mut products = Products { want: Want::ALL, ..Products::default() };
    let mut now = 0;
    for batch in batches(packets, Split::Singles(packets.len().div_ceil(64))) {
        replay.decode(Some(&batch), None, &mut products);
        ensure!(replay.due().is_none(), "due() has a time in a replay, where no clock decides");
        now += STEP;
        live.decode(Some(&batch), Some(Nanos(now)), &mut products);
        products.clear();
        on_time(&mut *live, now, &mut products)?;
    }
    // Nothing comes any more. Every packet is let to wait for a time of its own.
    let most = packets.len() + 1000;
    let mut looks = 0;
    while let Some(due) = live.due() {
        now = now.max(due.0);
        on_time(&mut *live, now, &mut products)?;
        looks += 1;
        ensure!(looks < most, "due() has another time after each of {most} calls at its time");
    }
    live.flush(Flush::End, &mut products);
    ensure!(live.due().is_none(), "due() has a time after flush(End)");
    Ok(())
}

/// Calls the decoder until its time is behind `now`.
fn on_time(
    decoder: &mut dyn Decoder,
    now: i64,
    products: &mut Products,
) -> Result<(), BrokenContract> {
    while let Some(due) = decoder.due().filter(|due| due.0 <= now) {
        decoder.decode(None, Some(Nanos(now)), products);
        let gave = !products.is_empty();
        products.clear();
        let stays = decoder.due().is_some_and(|next| next.0 <= now);
        ensure!(
            gave || !stays,
            "due() stays at {} ns after a call at {now} ns that gave nothing",
            due.0
        );
    }
    Ok(())
}
