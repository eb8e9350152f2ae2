//! Any bytes as streams of frames: lengths are bounded, blocks become fragments and events, and every block is accounted for.
//!
//! The first byte chooses the rule and how the stream is cut into pieces; the rest is the stream.
#![no_main]

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::detector::{Setup, Threads};
use fullcount_core::ledger::Ledger;
use fullcount_core::products::{Products, Want};
use fullcount_core::progress::Flush;
use fullcount_core::source::FrameRule;
use fullcount_core::time::Nanos;
use fullcount_detect::detector::builtin;
use fullcount_detect::fragments::block::FRAMING;
use libfuzzer_sys::fuzz_target;

const MOST: usize = 1 << 16;

/// Whole frames, and what follows them.
fn frames<'a>(mut bytes: &'a [u8], rule: &FrameRule) -> Vec<&'a [u8]> {
    let mut all = Vec::new();
    while let Ok(Some(whole)) = rule.whole(bytes, MOST) {
        assert!(whole > 0 && whole <= MOST);
        let Some((frame, rest)) = bytes.split_at_checked(whole) else { break };
        all.push(&frame[rule.skip..]);
        bytes = rest;
    }
    all
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, stream)) = bytes.split_first() else { return };
    let rules = FrameRule::PREFIXES;
    let rule = if choice & 4 == 0 { FRAMING } else { rules[usize::from(choice & 3)] };
    let packets = frames(stream, &rule);
    let kinds = builtin();
    let Some(kind) = kinds.find("fragments") else { return };
    let timeout = if choice & 8 == 0 { "off" } else { "10ms" };
    let options = format!("sources = 3\nmemory = \"1MiB\"\nevent_timeout = \"{timeout}\"");
    let Ok(unit) = kind.configure(&Setup { options, ..Setup::default() }) else { return };
    let Ok(mut decoder) = unit.decoder(Want::ALL, &Threads::of(1)) else { return };
    let ledger = Ledger::default();
    decoder.sheets().into_iter().for_each(|sheet| ledger.register(sheet));
    let mut products = Products { want: Want::ALL, ..Products::default() };
    let each = 1 + usize::from(choice >> 4);
    for (n, part) in packets.chunks(each).enumerate() {
        let batch = Batch::from_datagrams(part.iter().map(|packet| (*packet, Origin::NONE)));
        let now = Nanos(n as i64 * 4_000_000);
        decoder.decode(Some(&batch), Some(now), &mut products);
        assert_eq!(ledger.read().balance(), 0);
    }
    decoder.flush(Flush::End, &mut products);
    assert_eq!(ledger.read().balance(), 0);
    assert!(products.records.number.is_sorted_by(|a, b| a < b));
    for event in 0..products.records.len() {
        let mut record = Vec::new();
        products.records.write(event, &mut record);
        assert_eq!(record.len(), products.records.size(event));
    }
});
