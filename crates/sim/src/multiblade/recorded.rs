//! Recorded Multi-Blade readouts of the vectors as the packets that they came in.
//!
//! A new packet begins whenever the computer's time or the digitiser changes; run 0, sequence numbers from 0, version
//! 1.3, element type 1. Refuses: a line that is not five numbers within their fields, a packet of more than 65,507
//! bytes. Source: `docs/formats/multiblade.md` sections 2 and 8.

/// A table that cannot be packets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordedTableError {
    /// A line of another form.
    #[error(
        "line {line}: \"{text}\" is not global_time,digitizer,local_time,channel,adc in whole numbers"
    )]
    Line { line: usize, text: String },
    /// Too many readouts of one digitiser and time.
    #[error("line {line}: more than 8184 readouts of one digitizer and global_time")]
    TooMany { line: usize },
}

/// Readouts that fit a datagram: (65,507 − 32) / 8.
const MOST: u16 = 8184;
const NUM_ELEMENTS: std::ops::Range<usize> = 22..24;

/// The packets of a table whose first line is its head.
pub fn packets(table: &str) -> Result<Vec<Vec<u8>>, RecordedTableError> {
    let mut packets: Vec<Vec<u8>> = vec![];
    let mut last = None;
    let mut count = 0u16;
    for (at, text) in table.lines().enumerate().skip(1) {
        let line = at + 1;
        let wrong = || RecordedTableError::Line { line, text: text.to_owned() };
        let mut fields = text.split(',');
        let mut field = || fields.next().ok_or_else(wrong);
        let time: u64 = field()?.parse().map_err(|_| wrong())?;
        let digitizer: u32 = field()?.parse().map_err(|_| wrong())?;
        let local: u32 = field()?.parse().map_err(|_| wrong())?;
        let channel: u16 = field()?.parse().map_err(|_| wrong())?;
        let adc: u16 = field()?.parse().map_err(|_| wrong())?;
        if fields.next().is_some() {
            return Err(wrong());
        }
        if last != Some((time, digitizer)) {
            last = Some((time, digitizer));
            count = 0;
            packets.push(header(time, digitizer, packets.len() as u32));
        }
        if count == MOST {
            return Err(RecordedTableError::TooMany { line });
        }
        count += 1;
        if let Some(packet) = packets.last_mut() {
            packet.extend(local.to_le_bytes());
            packet.extend(channel.to_le_bytes());
            packet.extend(adc.to_le_bytes());
            packet[NUM_ELEMENTS].copy_from_slice(&count.to_le_bytes());
        }
    }
    Ok(packets)
}

fn header(time: u64, digitizer: u32, number: u32) -> Vec<u8> {
    let mut packet = vec![0; 8];
    packet.extend(time.to_le_bytes());
    packet.extend(digitizer.to_le_bytes());
    packet.extend([1, 0, 0, 0, 1, 3]);
    packet.extend(number.to_le_bytes());
    packet.extend([0, 0]);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "global_time,digitizer,local_time,channel,adc\n";

    #[test]
    fn a_change_of_time_or_digitiser_begins_a_packet() {
        let rows = "7,143,100,47,284\n7,143,200,1,65535\n7,31,5,2,3\n8,31,5,2,3\n";
        let packets = packets(&format!("{HEAD}{rows}")).unwrap();
        let lengths: Vec<usize> = packets.iter().map(Vec::len).collect();
        assert_eq!(lengths, [32 + 16, 32 + 8, 32 + 8]);
        let first = &packets[0];
        assert_eq!(first[8..16], 7u64.to_le_bytes());
        assert_eq!(first[16..26], [143, 0, 0, 0, 1, 0, 2, 0, 1, 3]);
        assert_eq!(first[26..32], [0; 6]);
        assert_eq!(first[32..40], [100, 0, 0, 0, 47, 0, 28, 1]);
        assert_eq!(first[40..48], [200, 0, 0, 0, 1, 0, 255, 255]);
        assert_eq!((packets[1][16], packets[2][26]), (31, 2), "digitiser and number");
        assert!(super::packets(HEAD).unwrap().is_empty());
    }

    #[test]
    fn damaged_lines_are_named() {
        for line in ["1,2,3,4", "1,2,3,4,5,6", "1,2,3,4,65536", "a,2,3,4,5", ""] {
            let e = packets(&format!("{HEAD}1,2,3,4,5\n{line}\n")).unwrap_err();
            assert!(e.to_string().starts_with("line 3: "), "{e}");
        }
        let many = "1,2,3,4,5\n".repeat(8185);
        let e = packets(&format!("{HEAD}{many}")).unwrap_err();
        assert_eq!(e, RecordedTableError::TooMany { line: 8186 });
    }
}
