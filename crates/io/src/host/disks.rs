//! Disks of a host: bytes and time, from `/proc/diskstats`. Source: proc(5), kernel `Documentation/admin-guide/iostats.rst`.

use super::Host;

/// Bytes of a sector there, whatever the disk has.
const SECTOR: u64 = 512;

/// One disk since the host started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskCounters {
    /// Name, such as `nvme0n1`; partitions have their own.
    pub name: String,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time in which it had something to do, ms.
    pub busy_ms: u64,
}

fn disk(line: &str) -> Option<DiskCounters> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let name = words.get(2)?;
    if name.starts_with("loop") || name.starts_with("ram") {
        return None;
    }
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    Some(DiskCounters {
        name: (*name).to_owned(),
        read_bytes: number(5)?.saturating_mul(SECTOR),
        written_bytes: number(9)?.saturating_mul(SECTOR),
        busy_ms: number(12)?,
    })
}

/// Disks of a text as `/proc/diskstats` has it.
pub fn parse(text: &str) -> Vec<DiskCounters> {
    text.lines().filter_map(disk).collect()
}

impl Host {
    /// All disks, without loops and memory.
    pub fn disks(&self) -> Vec<DiskCounters> {
        parse(&std::fs::read_to_string(self.root().join("proc/diskstats")).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_are_bytes_and_loops_are_no_disks() {
        let text = " 259 0 nvme0n1 10 0 8 4 20 0 16 5 0 1500 9\n 7 0 loop0 1 1 1 1 1 1 1 1 1 1 1\nrubbish\n";
        let name = "nvme0n1".to_owned();
        let want = DiskCounters { name, read_bytes: 4096, written_bytes: 8192, busy_ms: 1500 };
        assert_eq!(parse(text), [want]);
    }
}
