//! What was done to numbered packets against what the ledger says: dropped, repeated, swapped, held back.
//!
//! A plan from a seed does it to the kind's sample packets, stream by stream, so that each deed has one answer in each unit: a
//! dropped packet is lost; a copy is a duplicate; what comes back within the window is reordered; behind it, late, and lost
//! unless it had come before. A statement of the decoder ([`Detector::numbering`]) that is not so, or a loss in the wrong unit,
//! fails.

use crate::batch::Batch;
use crate::ledger::{Entries, Role, Unit};
use crate::products::{Products, Want};
use crate::sequence::numbering::{Numbering, Per};

use super::{BrokenContract, Random, ensure, trains};
use crate::detector::sample::{DetectorSample, SamplePacket};
use crate::detector::{Detector, Kind};

/// Packets of a stream that share at most one deed.
const BLOCK: u64 = 8;

/// What was done, or what the ledger says, in the unit that is numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deeds {
    /// Never came, or came too late.
    pub lost: u64,
    /// Came again.
    pub duplicate: u64,
    /// Came after a later one.
    pub reordered: u64,
    /// Came behind the window.
    pub late: u64,
}

/// Drops, repeats, swaps and holds back packets of `kind` as a plan from `seed` says, and compares the ledger with it. `None`:
/// the decoder states that the format has no numbers, and its ledger has no line for them.
///
/// # Errors
/// The first thing that is wrong.
pub fn numbered(kind: &dyn Kind, seed: u64) -> Result<Option<Deeds>, BrokenContract> {
    let sample = kind.sample();
    let detector = super::configure(kind, &sample.setup())?;
    if detector.follows_numbers() {
        ensure!(
            detector.numbering().is_none(),
            "numbers are followed by other rules than are stated"
        );
        return Ok(None);
    }
    let Some(numbering) = detector.numbering() else {
        let entries = read(&*detector, &sample.packets(20), &mut Random(1))?;
        let of_numbers = |role| {
            !matches!(
                role,
                Role::In
                    | Role::Accepted
                    | Role::Rejected
                    | Role::Queued
                    | Role::Note
                    | Role::Dropped(_)
            )
        };
        // What a packet itself says is missing of its payload is known without numbers.
        let numbered = |unit| unit == Unit::Packets || Unit::NUMBERED.contains(&unit);
        let line = entries.iter().find(|e| numbered(e.info.unit) && of_numbers(e.info.role));
        let name = line.map(|e| &e.info.name);
        ensure!(name.is_none(), "numbering() is None, and there is a line {name:?}");
        return Ok(None);
    };
    statement(&numbering, &sample)?;
    let mut random = Random(seed | 1);
    let (packets, done) = plan(&sample, &numbering, &mut random);
    let entries = read(&*detector, &packets, &mut random)?;
    let told = told(&entries, &numbering)?;
    ensure!(told == done, "seed {seed}: {told:?} in the ledger, and {done:?} was done");
    ensure!(entries.anything_lost() == (done.lost > 0), "a loss does not make exit code 3");
    if let Some(streams) = entries.get("decode.streams") {
        let wanted = u64::from(sample.streams);
        ensure!(streams == wanted, "{streams} streams, and {wanted} were sent");
    }
    senders(kind, &sample, &numbering)?;
    turn(kind, &sample, &numbering)?;
    Ok(Some(done))
}

/// What can be seen of the statement without a packet being read.
fn statement(numbering: &Numbering, sample: &DetectorSample) -> Result<(), BrokenContract> {
    let unit = numbering.unit;
    let known = unit == Unit::Packets || Unit::NUMBERED.contains(&unit);
    ensure!(known, "{} are numbered, and Unit::NUMBERED does not have them", unit.name());
    ensure!(
        unit != Unit::Packets || sample.numbers == 1,
        "packets are numbered, and the sample has {} numbers in each",
        sample.numbers
    );
    ensure!(sample.streams >= 2, "a sample of numbered streams has two or more");
    let mut senders: Vec<_> =
        (0..sample.streams).map(|s| (sample.packet)(s, 0).1).map(|o| (o.ip, o.port)).collect();
    senders.sort_unstable();
    senders.dedup();
    let (alone, all) = (senders.len(), sample.streams as usize);
    match numbering.per {
        Per::Sender => ensure!(alone == all, "streams are senders: each needs one of its own"),
        Per::SenderAnd(field) => {
            ensure!(alone < all, "two streams of the sample must differ by their {field} alone");
        }
        Per::Field(_) | Per::Run => {}
    }
    Ok(())
}

/// Packets as they arrive, streams mixed, and what was done to them.
fn plan(
    sample: &DetectorSample,
    numbering: &Numbering,
    random: &mut Random,
) -> (Vec<SamplePacket>, Deeds) {
    let mut done = Deeds::default();
    let mut streams: Vec<_> = (0..sample.streams)
        .map(|stream| (stream, arrivals(sample.numbers.into(), numbering, random, &mut done)))
        .map(|(stream, arrivals)| (stream, arrivals.into_iter()))
        .collect();
    let mut packets = Vec::new();
    while !streams.is_empty() {
        let at = random.below(streams.len());
        let (stream, arrivals) = &mut streams[at];
        let before = packets.len();
        packets.extend(arrivals.take(1 + random.below(6)).map(|n| (sample.packet)(*stream, n)));
        if packets.len() == before {
            streams.swap_remove(at);
        }
    }
    (packets, done)
}

/// The packets of one stream in order of arrival. The first and the last come as they were sent: what a sender numbered before
/// and behind them nobody knows.
fn arrivals(
    numbers: u64,
    numbering: &Numbering,
    random: &mut Random,
    done: &mut Deeds,
) -> Vec<u64> {
    // So many packets further on, one is behind the window whole.
    let far = u64::from(numbering.window.get()).div_ceil(numbers) + 2;
    let blocks = 2 * far / BLOCK + 64;
    let mut all = Vec::new();
    // Packets that come back, and behind which one.
    let mut held: Vec<(u64, u64)> = Vec::new();
    let mut block = 0;
    while block < blocks || !held.is_empty() {
        let first = block * BLOCK;
        let mut part: Vec<u64> = (first..first + BLOCK).collect();
        // A stream of which all of a window has come knows what is behind it.
        let deed = if (1..blocks).contains(&block) { random.below(9) } else { 9 };
        let one = first + 3;
        match deed {
            0 => {
                let count = 1 + random.below(3);
                part.drain(2..2 + count);
                done.lost += count as u64 * numbers;
            }
            1 => {
                part.insert(4 + random.below(4), one);
                done.duplicate += numbers;
            }
            2 => {
                part.swap(3, 4);
                done.reordered += numbers;
            }
            3 => {
                part.remove(3);
                held.push((one + far, one));
                done.lost += numbers;
                done.late += numbers;
            }
            4 => {
                held.push((one + far, one));
                done.late += numbers;
            }
            5 if far > 4 * BLOCK => {
                part.remove(3);
                held.push((one + far / 2, one));
                done.reordered += numbers;
            }
            _ => {}
        }
        all.extend(part);
        // At most one in each block: two in a row would be a sender that begins anew.
        let last = first + BLOCK - 1;
        if let Some(at) = held.iter().position(|&(behind, _)| behind <= last) {
            all.push(held.remove(at).1);
        }
        block += 1;
    }
    all.extend(block * BLOCK..(block + 1) * BLOCK);
    all
}

/// The ledger once a fresh decoder has read `packets` to the end.
fn read(
    detector: &dyn Detector,
    packets: &[SamplePacket],
    random: &mut Random,
) -> Result<Entries, BrokenContract> {
    let mut decoder = super::decoder(detector, Want::default(), 1)?;
    let ledger = super::ledger_of(&*decoder);
    let mut rest = packets;
    while !rest.is_empty() {
        let (part, behind) = rest.split_at((1 + random.below(300)).min(rest.len()));
        let batch = match random.below(2) {
            0 => trains(part),
            _ => Batch::from_datagrams(part.iter().map(|(bytes, origin)| (&bytes[..], *origin))),
        };
        decoder.decode(Some(&batch), None, &mut Products::default());
        rest = behind;
    }
    decoder.finish(&mut Products::default());
    let entries = ledger.read();
    let refused = entries
        .iter()
        .find(|e| e.info.unit == Unit::Packets && e.info.role == Role::Rejected && e.value > 0);
    ensure!(
        refused.is_none(),
        "a packet of the sample is refused: {:?}",
        refused.map(|e| &e.info.name)
    );
    Ok(entries)
}

/// What the ledger says in the unit that is numbered.
fn told(entries: &Entries, numbering: &Numbering) -> Result<Deeds, BrokenContract> {
    let (unit, mut deeds, mut restarts) = (numbering.unit, Deeds::default(), 0);
    for entry in entries.iter() {
        let sum = match entry.info.role {
            Role::Missing(_) => &mut deeds.lost,
            Role::Duplicate => &mut deeds.duplicate,
            Role::Reordered => &mut deeds.reordered,
            Role::Late => &mut deeds.late,
            Role::Restarts => {
                restarts += entry.value;
                continue;
            }
            _ => continue,
        };
        let (name, of) = (&entry.info.name, entry.info.unit);
        ensure!(of == unit, "{name} counts {}, and {} are numbered", of.name(), unit.name());
        *sum = sum.wrapping_add(entry.value);
    }
    ensure!(restarts == 0, "{restarts} streams are said to have begun anew");
    let open = format!("{}.missing", unit.key());
    ensure!(entries.get(&open) == Some(0), "{open} is not there, or not 0 at the end");
    Ok(deeds)
}

/// One stream whose packets come from two ports by turns is two where the sender belongs to a stream, and one where it does not.
fn senders(
    kind: &dyn Kind,
    sample: &DetectorSample,
    numbering: &Numbering,
) -> Result<(), BrokenContract> {
    let packet = |n: u64| {
        let (bytes, mut origin) = (sample.packet)(0, n);
        origin.port = origin.port.wrapping_add((n % 2) as u16);
        (bytes, origin)
    };
    let packets: Vec<_> = (0..64).map(packet).collect();
    let detector = super::configure(kind, &sample.setup())?;
    let lost = told(&read(&*detector, &packets, &mut Random(1))?, numbering)?.lost;
    let apart = numbering.per.tells_senders();
    ensure!(
        (lost > 0) == apart,
        "{:?} is stated, and two ports by turns lose {lost}",
        numbering.per
    );
    Ok(())
}

/// A gap of a whole turn cannot be seen, and one of half a turn is no usual number: the width is what is stated.
fn turn(
    kind: &dyn Kind,
    sample: &DetectorSample,
    numbering: &Numbering,
) -> Result<(), BrokenContract> {
    if numbering.bits > 48 {
        return Ok(());
    }
    let turn = (1 << numbering.bits) / u64::from(sample.numbers);
    for (gap, seen) in [(turn, false), (turn / 2, true)] {
        let packets: Vec<_> =
            (0..20).chain(20 + gap..21 + gap).map(|n| (sample.packet)(0, n)).collect();
        let detector = super::configure(kind, &sample.setup())?;
        let told = told(&read(&*detector, &packets, &mut Random(1))?, numbering)?;
        let bits = numbering.bits;
        ensure!(
            (told != Deeds::default()) == seen,
            "{bits} bits are stated, and a gap of {gap} packets is {told:?}"
        );
    }
    Ok(())
}
