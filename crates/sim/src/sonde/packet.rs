//! SoNDe packets, written field by field, whose number and times are shifted in place.
//!
//! Refuses: entry counts outside 1..=255. Source: `docs/formats/sonde.md`, sections 2 and 3.

use crate::panel::{MODULE_PIXELS, SimulatedPanel};
use crate::{Random, TrafficError};

/// Data mode of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceMode {
    /// 0xD6: time and channel of each hit; the operation mode.
    TriggerTime,
    /// 0xD5: one trigger, one charge sample of each of the 64 channels.
    SingleEvent,
    /// 0xD4: several triggers with one charge sample each.
    MultiEvent,
}

/// Layout of all packets of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    mode: DeviceMode,
    hits: usize,
}

/// One hit before it is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit {
    /// Time, ticks, 32 bits of it.
    pub time: u32,
    /// Pixel of the module, 0..64.
    pub pixel: u8,
}

/// Header of every type.
const HEADER: usize = 10;

/// A number of readouts that the format cannot carry.
pub(super) fn entries_refused(entries: usize) -> TrafficError {
    TrafficError::value("entries", format!("{entries} per packet"), "1 to 255")
}

impl Shape {
    pub(super) fn new(mode: DeviceMode, entries: usize) -> Result<Shape, TrafficError> {
        if !(1..=255).contains(&entries) {
            return Err(entries_refused(entries));
        }
        Ok(Shape { mode, hits: if mode == DeviceMode::SingleEvent { 1 } else { entries } })
    }

    /// Hits (triggers) in a packet.
    pub(super) fn hits(&self) -> usize {
        self.hits
    }

    /// Events that a decoder makes of a packet.
    pub(super) fn events(&self) -> usize {
        if self.mode == DeviceMode::SingleEvent { MODULE_PIXELS } else { self.hits }
    }

    /// Payload bytes of a packet.
    pub(super) fn bytes(&self) -> usize {
        match self.mode {
            DeviceMode::TriggerTime => HEADER + 1 + 5 * self.hits,
            DeviceMode::SingleEvent => HEADER + 7 + 2 * MODULE_PIXELS,
            DeviceMode::MultiEvent => HEADER + 3 + 9 * self.hits,
        }
    }

    /// Writes everything that no hit changes.
    pub(super) fn blank(&self, system: u8, packet: &mut [u8]) {
        packet.fill(0);
        packet[0] = system & 31; // version 0 in the upper three bits
        packet[1] = match self.mode {
            DeviceMode::TriggerTime => 0xd6,
            DeviceMode::SingleEvent => 0xd5,
            DeviceMode::MultiEvent => 0xd4,
        };
        packet[8..10].copy_from_slice(&((self.bytes() - HEADER) as u16).to_be_bytes());
        match self.mode {
            DeviceMode::TriggerTime => packet[10] = self.hits as u8,
            // Trigger type 6 and hold delay as in the recordings' expert modes; 64 samples.
            DeviceMode::SingleEvent => {
                packet[11] = 6;
                packet[15..17].copy_from_slice(&64u16.to_be_bytes());
            }
            DeviceMode::MultiEvent => {
                packet[10] = self.hits as u8;
                packet[11..13].copy_from_slice(&1u16.to_be_bytes());
            }
        }
    }

    /// Writes hit `i`; the first one also gives the packet its time.
    #[inline]
    pub(super) fn put(
        &self,
        packet: &mut [u8],
        i: usize,
        hit: Hit,
        bytes: &[u8; MODULE_PIXELS],
        random: &mut Random,
    ) {
        let time = hit.time.to_be_bytes();
        if i == 0 {
            packet[4..8].copy_from_slice(&time);
        }
        let byte = bytes[usize::from(hit.pixel) & 63];
        match self.mode {
            DeviceMode::TriggerTime => {
                let entry = &mut packet[11 + 5 * i..16 + 5 * i];
                entry[..4].copy_from_slice(&time);
                entry[4] = byte;
            }
            DeviceMode::SingleEvent => {
                packet[10] = byte >> 6;
                packet[12] = byte & 63;
                let triggered = usize::from(byte >> 6) * 16 + usize::from(byte & 63);
                for s in 0..MODULE_PIXELS {
                    let adc = if s == triggered { pulse_height(random) } else { pedestal(random) };
                    packet[17 + 2 * s..19 + 2 * s].copy_from_slice(&adc.to_be_bytes());
                }
            }
            DeviceMode::MultiEvent => {
                let event = &mut packet[13 + 9 * i..22 + 9 * i];
                event[..4].copy_from_slice(&time);
                event[4] = 6;
                event[5] = byte >> 6;
                event[6] = byte & 63;
                event[7..9].copy_from_slice(&pulse_height(random).to_be_bytes());
            }
        }
    }

    /// Writes the 14-bit packet count, flag "stand-alone".
    #[inline]
    pub(super) fn number(packet: &mut [u8], count: u16) {
        packet[2..4].copy_from_slice(&(count & 0x3fff).to_be_bytes());
    }

    /// Adds `by` ticks to every time in the packet, wrapping at 32 bits.
    #[inline]
    pub(super) fn shift(&self, packet: &mut [u8], by: u32) {
        move_on(&mut packet[4..8], by);
        match self.mode {
            DeviceMode::TriggerTime => {
                packet[11..].chunks_exact_mut(5).for_each(|e| move_on(&mut e[..4], by));
            }
            DeviceMode::SingleEvent => {}
            DeviceMode::MultiEvent => {
                packet[13..].chunks_exact_mut(9).for_each(|e| move_on(&mut e[..4], by));
            }
        }
    }

    /// Adds `times` for each event of the packet to its module's 64 counts.
    pub(super) fn count(
        &self,
        packet: &[u8],
        pixel_of_byte: &[Option<u8>; 256],
        times: u64,
        counts: &mut [u64],
    ) {
        let mut add = |byte: u8| {
            if let Some(pixel) = pixel_of_byte[usize::from(byte)] {
                counts[usize::from(pixel)] += times;
            }
        };
        match self.mode {
            DeviceMode::TriggerTime => packet[11..].chunks_exact(5).for_each(|e| add(e[4])),
            DeviceMode::SingleEvent => SimulatedPanel::bytes().into_iter().for_each(add),
            DeviceMode::MultiEvent => {
                packet[13..].chunks_exact(9).for_each(|e| add(e[5] << 6 | e[6]));
            }
        }
    }
}

#[inline]
fn move_on(field: &mut [u8], by: u32) {
    if let Ok(time) = <[u8; 4]>::try_from(&*field) {
        field.copy_from_slice(&u32::from_be_bytes(time).wrapping_add(by).to_be_bytes());
    }
}

/// A neutron's charge: a broad peak around 1,400 ADC counts (mean of four uniforms).
fn pulse_height(random: &mut Random) -> u16 {
    let r = random.bits();
    let sum: u64 = (0..4).map(|i| r >> (16 * i) & 0xffff).sum();
    (600 + sum * 1600 / (4 * 65_535)) as u16
}

/// A channel without a hit: a pedestal of 100 to 131 ADC counts.
fn pedestal(random: &mut Random) -> u16 {
    (100 + (random.bits() >> 59)) as u16
}
