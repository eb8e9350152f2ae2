//! Any bytes, cut into frames and mended to look like SRS frames: no panic, and every hop balances.
#![no_main]

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::Ledger;
use fullcount_core::products::Products;
use fullcount_detect::detector::{Registry, Setup};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let options = ["", "df = 'TRG'", "offsets = '0..31'\nmax_waiting = 1000\nmax_run_hits = 16"];
    let Some((&choice, data)) = data.split_first() else { return };
    let options = options[usize::from(choice) % options.len()].to_owned();
    let setup = Setup { options, ..Setup::default() };
    let Ok(detector) = Registry::builtin().configure("gdgem", &setup) else { return };
    let (mut reader, mut builder) = (detector.reader(), detector.builder());
    let ledger = Ledger::default();
    ledger.register(reader.sheet());
    builder.sheet().into_iter().for_each(|sheet| ledger.register(sheet));
    let mut products = Products::default();
    for (n, part) in data.chunks(16 + 6 * 40).enumerate() {
        let mut frame = part.to_vec();
        // Three of four look like frames.
        if n % 4 < 3 && frame.len() > 7 {
            frame[4..7].copy_from_slice(b"VM3");
            frame[7] |= 0x10;
        }
        let batch = Batch::from_datagrams([(&frame[..], Origin::NONE)]);
        reader.read(&batch, &mut products);
        builder.build(&mut products, None);
        let _ = detector.inspector().inspect(&frame, Origin::NONE);
    }
    reader.finish(&mut products);
    builder.finish(&mut products);
    assert_eq!(ledger.read().balance(), 0);
});
