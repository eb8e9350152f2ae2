//! Replay records: readouts as a test bench of the published program stored them.
//!
//! 33-byte records, 272 at most, an incomplete one at the end is ignored, nothing is
//! checked. Source: `docs/formats/multigrid.md` section 8.

/// Length of a record, bytes.
pub const RECORD_BYTES: usize = 33;
/// Records of a datagram that are read: as many as 9000 bytes hold.
const MOST: usize = 9000 / RECORD_BYTES;

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MultiGridRecord {
    /// Number of its trigger.
    pub trigger: u64,
    /// An external trigger, not a readout.
    pub external: bool,
    /// Ticks; above 2⁶³−1 they stay there.
    pub time: i64,
    /// Bus.
    pub bus: u8,
    /// Channel.
    pub channel: u16,
    /// Amplitude, ADC counts.
    pub adc: u16,
    /// Time difference.
    pub time_diff: u16,
}

/// The records of a datagram.
pub fn records(packet: &[u8]) -> impl Iterator<Item = MultiGridRecord> + '_ {
    packet.as_chunks::<RECORD_BYTES>().0.iter().take(MOST).map(|r| {
        let u64_at = |at: usize| r[at..at + 8].iter().rev().fold(0, |n, &b| n << 8 | u64::from(b));
        let u16_at = |at: usize| u16::from_le_bytes([r[at], r[at + 1]]);
        MultiGridRecord {
            trigger: u64_at(0),
            external: r[8] != 0,
            time: i64::try_from(u64_at(18)).unwrap_or(i64::MAX),
            bus: r[26],
            channel: u16_at(27),
            adc: u16_at(29),
            time_diff: u16_at(31),
        }
    })
}

/// Moves the times of all records on by `ticks`, their triggers by `triggers`.
pub fn shift(packet: &mut [u8], triggers: u64, ticks: u64) {
    for record in packet.as_chunks_mut::<RECORD_BYTES>().0.iter_mut().take(MOST) {
        add(&mut record[0..8], triggers);
        let (parts, total) = record[10..26].split_at_mut(8);
        add(total, ticks);
        let time = u64::from_le_bytes(std::array::from_fn(|i| total[i]));
        // The parts are not read by anyone here; they stay those of the total.
        parts[..4].copy_from_slice(&((time >> super::words::LOW_BITS) as u32).to_le_bytes());
        parts[4..].copy_from_slice(&(time as u32 & 0x3fff_ffff).to_le_bytes());
    }
}

fn add(field: &mut [u8], n: u64) {
    if let Some(field) = field.first_chunk_mut::<8>() {
        *field = u64::from_le_bytes(*field).wrapping_add(n).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_format_says_and_272_are_read() {
        let bytes: Vec<u8> = (0..33u8).collect();
        let wanted = MultiGridRecord {
            trigger: 0x0706_0504_0302_0100,
            external: true,
            time: 0x1918_1716_1514_1312,
            bus: 26,
            channel: 0x1c1b,
            adc: 0x1e1d,
            time_diff: 0x201f,
        };
        assert_eq!(records(&bytes).collect::<Vec<_>>(), [wanted]);
        assert_eq!(records(&bytes.repeat(273)).count(), 272);
        assert_eq!(records(&bytes[..32]).count(), 0);
        assert_eq!(records(&[0xff; 33]).next().unwrap().time, i64::MAX);
    }

    #[test]
    fn a_shift_moves_trigger_and_times_only() {
        let mut bytes = vec![0; 70];
        shift(&mut bytes, 3, (5 << 30) + 7);
        let r = records(&bytes).next().unwrap();
        assert_eq!((r.trigger, r.time), (3, (5 << 30) + 7));
        assert_eq!((bytes[10], bytes[14], &bytes[66..]), (5, 7, &[0; 4][..]));
    }
}
