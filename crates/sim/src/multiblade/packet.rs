//! Multi-Blade packets of one length: one digitiser, one restart of its clock.
//!
//! Times within a restart never change, so a packet is repeated by changing only numbers in its header. Source:
//! `docs/formats/multiblade.md`, section 2.

use super::items::{Item, Maker, SPREAD};
use super::wiring::Wiring;
use super::{BOX_TICKS, RESTART_TICKS};
use crate::Random;
use crate::made::{Cause, Made, Overlap};
use crate::noise::{Noise, Pileup};

/// Bytes of a header.
pub(super) const HEADER: usize = 32;
/// Bytes of a readout.
pub(super) const ELEMENT: usize = 8;

/// What a turn is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub wiring: Wiring,
    pub noise: Noise,
    /// Readouts per packet.
    pub readouts: usize,
    /// Restarts of the clock in a turn.
    pub restarts: usize,
    /// Packets of each cassette in a turn.
    pub packets: usize,
}

/// Neutrons in a packet of `readouts` readouts, on average: its last readouts take what fits, so that small
/// packets hold more neutrons than the mean multiplicity says.
pub(super) fn neutrons_per_packet(wiring: Wiring, noise: Noise, readouts: usize) -> f64 {
    let packets = 50_000 / readouts + 100;
    let in_cassette = |cassette| {
        let mut maker = Maker::new(wiring, noise, Random::new(0));
        let mut items = Vec::new();
        for _ in 0..packets {
            maker.packet(cassette, readouts, &mut items);
        }
        let neutrons = items.iter().filter(|i| i.kind == Cause::Neutron).count();
        neutrons as f64 / packets as f64
    };
    // All cassettes are alike but that of the monitor, whose counts take places of neutrons.
    let Some(own) = wiring.monitor().filter(|_| noise.monitor > 0.0) else {
        return in_cassette(0);
    };
    let cassettes = f64::from(wiring.cassettes);
    (in_cassette(own) + (cassettes - 1.0) * in_cassette(own + 1)) / cassettes
}

/// An item with its time.
struct Placed {
    item: Item,
    time: u32,
    packet: usize,
    overlap: Overlap,
}

/// One turn of packets.
#[derive(Debug, Default)]
pub(super) struct Packed {
    pub bytes: Vec<u8>,
    pub rows: Vec<Made>,
    /// Restart of each packet, from 0.
    pub restart: Vec<u32>,
    /// Its last readout, ticks since that restart; 0 for a broken packet.
    pub last: Vec<u32>,
}

/// Gives the items of one restart their times, ascending. `box_start` is the time of the cassette's last item before
/// the restart: the builder keeps the start of its box over restarts (0 at first), and a neutron within that box's
/// length after it would be split.
fn place(
    items: Vec<(Item, usize)>,
    noise: &Noise,
    box_start: &mut u32,
    random: &mut Random,
) -> Vec<Placed> {
    let last = RESTART_TICKS - SPREAD;
    let alone = items.iter().filter(|(item, _)| !item.follows).count();
    let mut times: Vec<u32> = (0..alone).map(|_| random.below(last)).collect();
    times.sort_unstable();
    let mut times = times.into_iter();
    let (mut before, mut free) = (0, 0);
    let mut placed = Vec::with_capacity(items.len());
    for (item, packet) in items {
        let mut time = match item.follows {
            true => before + random.below(BOX_TICKS),
            false => times.next().unwrap_or(last).max(before),
        };
        if item.kind == Cause::Neutron && noise.pileup == Pileup::Never {
            time = time.max(free);
            free = time + SPREAD + BOX_TICKS;
        }
        if placed.is_empty() && (*box_start..*box_start + BOX_TICKS).contains(&time) {
            time = *box_start + BOX_TICKS;
            free = time + SPREAD + BOX_TICKS;
        }
        before = time;
        placed.push(Placed { item, time, packet, overlap: Overlap::None });
    }
    if before > last && noise.pileup == Pileup::Never {
        pull_back(&mut placed, last);
    }
    overlaps(&mut placed);
    *box_start = placed.last().map_or(*box_start, |p| p.time);
    placed
}

/// Moves items that were pushed beyond `last` back before it; neutrons keep their distance.
fn pull_back(placed: &mut [Placed], last: u32) {
    let (mut before, mut free) = (last, last);
    for p in placed.iter_mut().rev() {
        let neutron = p.item.kind == Cause::Neutron;
        p.time = p.time.min(if neutron { free.min(before) } else { before });
        if neutron {
            free = p.time.saturating_sub(SPREAD + BOX_TICKS);
        }
        before = p.time;
    }
}

/// Marks items with other readouts within a box's length, before or after.
fn overlaps(placed: &mut [Placed]) {
    let counts = |kind: Cause| match kind {
        Cause::Neutron => Overlap::Neutron,
        Cause::Dark | Cause::Coincidence => Overlap::Noise,
        // Dropped before anything is built.
        Cause::Bad | Cause::Packet | Cause::Pulse | Cause::Monitor => Overlap::None,
    };
    for i in 0..placed.len() {
        let (mine, end) = (placed[i].item.kind, placed[i].time + placed[i].item.spread());
        for j in i + 1..placed.len() {
            if placed[j].time >= end + BOX_TICKS {
                break;
            }
            let theirs = placed[j].item.kind;
            if counts(mine) != Overlap::None {
                placed[j].overlap = placed[j].overlap.max(counts(mine));
            }
            placed[i].overlap = placed[i].overlap.max(counts(theirs));
        }
    }
}

fn header(packet: &mut [u8], digitiser: u32, readouts: usize) {
    packet[16..20].copy_from_slice(&digitiser.to_le_bytes());
    packet[20..22].copy_from_slice(&1u16.to_le_bytes());
    packet[22..24].copy_from_slice(&(readouts as u16).to_le_bytes());
    packet[24..26].copy_from_slice(&[1, 3]);
}

/// Writes the numbers that change from turn to turn.
#[inline]
pub(super) fn number(packet: &mut [u8], sequence: u32, milliseconds: u64) {
    packet[8..16].copy_from_slice(&milliseconds.to_le_bytes());
    packet[26..30].copy_from_slice(&sequence.to_le_bytes());
}

/// A packet that is refused completely, or whose digitiser is unknown.
fn broken(way: usize, plan: &Plan, out: &mut Packed, restart: u32) {
    let size = HEADER + ELEMENT * plan.readouts;
    let start = out.bytes.len();
    out.bytes.resize(start + size, 0);
    let packet = &mut out.bytes[start..];
    let none = plan.wiring.no_digitiser();
    header(packet, if way == 3 { none } else { plan.wiring.digitiser(0) }, plan.readouts);
    match way {
        0 => packet[25] = 2,
        1 => packet[20] = 2,
        2 => packet[22..24].copy_from_slice(&(plan.readouts as u16 + 1).to_le_bytes()),
        _ => {}
    }
    let packet = (start / size) as u64;
    let (kind, overlap) = (Cause::Packet, Overlap::None);
    out.rows.push(Made { packet, module: 0, time: 0, pixel: 0, kind, overlap, spot: None });
    out.restart.push(restart);
    out.last.push(0);
}

/// Lays out one turn.
pub(super) fn pack(plan: &Plan, seed: u64) -> Packed {
    let size = HEADER + ELEMENT * plan.readouts;
    let mut out = Packed::default();
    let mut maker = Maker::new(plan.wiring, plan.noise, Random::new(seed));
    let mut breaking = Random::new(seed ^ 0xb4d);
    let mut broken_ones = 0;
    let mut box_starts = vec![0; usize::from(plan.wiring.cassettes)];
    for restart in 0..plan.restarts {
        // Whole packets, evenly spread over the restarts.
        let upto = |r: usize| r * plan.packets / plan.restarts;
        let packets = upto(restart + 1) - upto(restart);
        // (packet within the restart, cassette, its items)
        let mut cassettes = Vec::with_capacity(usize::from(plan.wiring.cassettes));
        for cassette in 0..plan.wiring.cassettes {
            let mut items = Vec::new();
            for packet in 0..packets {
                let mut own = Vec::new();
                maker.packet(cassette, plan.readouts, &mut own);
                items.extend(own.into_iter().map(|item| (item, packet)));
            }
            let start = &mut box_starts[usize::from(cassette)];
            cassettes.push(place(items, &plan.noise, start, maker.random()));
        }
        // The readout computer fetches from one digitiser after the other.
        for packet in 0..packets {
            for (cassette, placed) in cassettes.iter().enumerate() {
                if breaking.unit() < plan.noise.packet {
                    broken(broken_ones % 4, plan, &mut out, restart as u32);
                    broken_ones += 1;
                }
                let cassette = cassette as u16;
                let start = out.bytes.len();
                out.bytes.resize(start + HEADER, 0);
                header(&mut out.bytes[start..], plan.wiring.digitiser(cassette), plan.readouts);
                let mut last = 0;
                let from = placed.partition_point(|p| p.packet < packet);
                for p in placed[from..].iter().take_while(|p| p.packet == packet) {
                    last = last.max(p.time + p.item.spread());
                    for r in p.item.readouts() {
                        out.bytes.extend_from_slice(&(p.time + u32::from(r.later)).to_le_bytes());
                        out.bytes.extend_from_slice(&r.channel.to_le_bytes());
                        out.bytes.extend_from_slice(&r.adc.to_le_bytes());
                    }
                    out.rows.push(Made {
                        packet: (start / size) as u64,
                        module: cassette,
                        time: i64::from(p.time),
                        pixel: p.item.pixel,
                        kind: p.item.kind,
                        overlap: p.overlap,
                        spot: None,
                    });
                }
                out.restart.push(restart as u32);
                out.last.push(last);
            }
        }
    }
    out
}
