//! Heaps from memory by spead2: `spead2_bench mem` with a memory pool, the Python package's receiver without one.
//!
//! The bench feeds 1 GiB of packets a hundred times and always has a pool; so the plain figure comes from the package, which has the
//! same receiver. What is not there is left out. Refuses output that is no rate. Source: `docs/formats/spead.md`, section 14.3.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use fullcount_child::{Asked, RunningChild};

use super::build;
use super::memory::{BLOCKS, HEAP, PASSES};
use crate::error::TrialError;

/// Longest time of one program.
const LIMIT: Duration = Duration::from_secs(900);

/// Words: packet size, heaps, heap size, passes. Says heaps of a pass, and the mean Gb/s of all but the first.
const PLAIN: &str = r#"
import sys, time
import numpy as np
import spead2, spead2.recv, spead2.send
packet, heaps, size, passes = (int(word) for word in sys.argv[1:5])
pool = spead2.ThreadPool()
out = spead2.send.BytesStream(pool, spead2.send.StreamConfig(max_packet_size=packet))
group = spead2.send.ItemGroup()
group.add_item(0x1000, "x", "", shape=(size,), dtype=np.uint8, value=np.zeros(size, np.uint8))
for n in range(heaps):
    out.send_heap(group.get_heap(descriptors="none", data="all"))
data = out.getvalue()
seconds = 0.0
for turn in range(1 + passes):
    stream = spead2.recv.Stream(pool, spead2.recv.StreamConfig(), spead2.recv.RingStreamConfig())
    begun = time.perf_counter()
    stream.add_buffer_reader(data)
    came = sum(1 for heap in stream)
    seconds += (time.perf_counter() - begun) * (turn > 0)
    if came != heaps:
        break
print(came, passes * len(data) * 8e-9 / seconds)
"#;

/// What of spead2's there is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spead2Memory {
    /// `spead2_bench`.
    pub bench: Option<PathBuf>,
    /// A Python with the package spead2.
    pub python: Option<String>,
}

impl Spead2Memory {
    /// With that bench, and the Python of `FULLCOUNT_PYTHON`, else `python3`, if it has the package.
    pub fn with(bench: Option<PathBuf>) -> Spead2Memory {
        let name = build::python();
        let mut asked = Command::new(&name);
        asked.args(["-c", "import numpy, spead2.recv, spead2.send"]);
        let there = asked.stdout(Stdio::null()).stderr(Stdio::null()).status();
        let python = there.is_ok_and(|status| status.success()).then_some(name);
        Spead2Memory { bench, python }
    }

    /// One turn: Gb/s without and with a memory pool.
    pub(super) fn rates(
        &self,
        packet: usize,
        heaps: usize,
        stop: Asked<'_>,
    ) -> Result<[Option<f64>; 2], TrialError> {
        let plain = self.python.as_ref().map(|python| {
            let mut command = Command::new(python);
            command.args(["-c", PLAIN]).args([packet, heaps, HEAP, PASSES].map(|n| n.to_string()));
            let output = said("the Python package spead2", command, stop)?;
            let mut words = output.split_whitespace();
            let all = words.next() == Some(&heaps.to_string());
            rate("the Python package spead2", words.next().filter(|_| all), &output)
        });
        let pool = self.bench.as_ref().map(|bench| {
            let mut command = Command::new(bench);
            command.args(["mem", "--quiet", "--heap-size"]).arg(HEAP.to_string());
            command.arg("--packet").arg(packet.to_string());
            for key in ["--mem-max-free", "--mem-initial"] {
                command.arg(key).arg(BLOCKS.to_string());
            }
            let output = said("spead2_bench mem", command, stop)?;
            rate("spead2_bench mem", output.split_whitespace().next(), &output)
        });
        Ok([plain.transpose()?, pool.transpose()?])
    }
}

fn rate(program: &str, word: Option<&str>, output: &str) -> Result<f64, TrialError> {
    let number = word.and_then(|word| word.parse::<f64>().ok());
    number.filter(|rate| *rate > 0.0 && rate.is_finite()).ok_or_else(|| TrialError::Result {
        program: program.to_owned(),
        reason: format!("no rate: {}", output.lines().next().unwrap_or("")),
    })
}

/// Standard output of a program that ended well.
fn said(program: &str, command: Command, stop: Asked<'_>) -> Result<String, TrialError> {
    let mut running = RunningChild::start(program, command)?;
    let ended = running.end(LIMIT, stop)?.ok_or_else(|| running.stuck(LIMIT))?;
    match ended.status.success() {
        true => Ok(ended.output),
        false => Err(ended.failed().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_rate_is_taken() {
        assert_eq!(rate("x", Some("81.25"), "81.25").unwrap(), 81.25);
        for word in [None, Some("inf"), Some("0"), Some("fast")] {
            assert!(rate("x", word, "fast").unwrap_err().to_string().contains("no rate: fast"));
        }
    }
}
