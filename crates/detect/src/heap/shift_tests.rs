//! Captures played several times as one run: no heap is a copy or missing at the seams.

use fullcount_core::batch::Batch;
use fullcount_core::ledger::Ledger;
use fullcount_core::products::{Products, Want};
use fullcount_core::progress::Flush;

use super::*;
use crate::detector::{Kind, Setup, Threads};
use crate::heap::{SpeadHeap, sample};

/// Numbers of the heaps of three passes, and how many packets were refused.
fn play(options: &str, capture: &[Vec<u8>]) -> (Vec<u64>, u64) {
    let setup = Setup { options: options.into(), ..Setup::default() };
    let detector = SpeadHeap.configure(&setup).unwrap();
    let mut decoder = detector.decoder(Want::ALL, &Threads::of(1)).unwrap();
    let mut shifter = detector.shifter().unwrap();
    let ledger = Ledger::default();
    decoder.sheets().into_iter().for_each(|sheet| ledger.register(sheet));
    capture.iter().for_each(|packet| shifter.learn(packet, Origin::NONE));
    let mut products = Products { want: Want::ALL, ..Products::default() };
    for pass in 0..3 {
        let mut packets = capture.to_vec();
        if pass > 0 {
            packets.iter_mut().for_each(|packet| shifter.shift(packet, Origin::NONE, pass));
        }
        let batch = Batch::from_datagrams(packets.iter().map(|p| (&p[..], Origin::NONE)));
        decoder.decode(Some(&batch), None, &mut products);
    }
    decoder.flush(Flush::End, &mut products);
    let entries = ledger.read();
    let refused = entries.get("decode.packets").unwrap() - entries.get("decode.accepted").unwrap();
    (products.heaps.iter().map(|heap| heap.number).collect(), refused)
}

#[test]
fn numbers_go_on_behind_those_of_the_pass_before() {
    let capture: Vec<_> = sample::SAMPLE.packets(12).into_iter().map(|(bytes, _)| bytes).collect();
    let (numbers, refused) = play("", &capture);
    assert_eq!((numbers, refused), ((1..=12).collect(), 0));
    // Every third number, as one of three senders has them.
    let mut sparse = capture;
    for packet in &mut sparse {
        let cnt = SpeadPacket::parse(packet).unwrap().heap_cnt;
        packet[11..16].copy_from_slice(&(3 * cnt).to_be_bytes()[3..]);
    }
    let (numbers, refused) = play("", &sparse);
    assert_eq!((numbers, refused), ((1..=12).map(|n| 3 * n).collect(), 0));
}

#[test]
fn what_is_no_packet_stays_and_the_last_of_several_numbers_counts() {
    let mut moving = Moving::default();
    let capture: Vec<_> = sample::SAMPLE.packets(3).into_iter().map(|(bytes, _)| bytes).collect();
    for packet in &capture {
        moving.learn(packet, Origin::NONE);
    }
    let mut other = capture[0].clone();
    other[0] = 0;
    let before = other.clone();
    moving.shift(&mut other, Origin::NONE, 1);
    assert_eq!(other, before);
    let mut twice = capture[0].clone();
    // The second pointer too says the number.
    let number: [u8; 8] = twice[8..16].try_into().unwrap();
    twice.splice(8..8, number);
    twice[7] += 1;
    moving.shift(&mut twice, Origin::NONE, 1);
    let packet = SpeadPacket::parse(&twice).unwrap();
    assert_eq!((&twice[8..16], packet.heap_cnt), (&number[..], 2));
}
