//! Heaps from memory by spead2: `spead2_bench mem` with a memory pool, and its variant without one.
//!
//! The bench feeds 1 GiB of packets a hundred times and always has a pool; the build makes a variant that has none. Where that was not
//! built, the plain figure comes from the Python package's receiver. What is not there is left out. Refuses output that is no rate.
//! Source: `docs/formats/spead.md`, section 14.3.

use std::path::{Path, PathBuf};
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

/// Peers, as results name them.
const PACKAGE: &str = "the Python package spead2";
const PLAIN_TOOL: &str = "spead2_bench_plain mem";
const POOL_TOOL: &str = "spead2_bench mem";

/// What of spead2's there is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spead2Memory {
    /// `spead2_bench`.
    pub bench: Option<PathBuf>,
    /// Its variant without a memory pool.
    pub plain: Option<PathBuf>,
    /// A Python with the package spead2.
    pub python: Option<String>,
}

impl Spead2Memory {
    /// With the programs of that folder, and the Python of `FULLCOUNT_PYTHON`, else `python3`, if it has the package.
    pub fn with(folder: Option<&Path>) -> Spead2Memory {
        let name = build::python();
        let mut asked = Command::new(&name);
        asked.args(["-c", "import numpy, spead2.recv, spead2.send"]);
        let there = asked.stdout(Stdio::null()).stderr(Stdio::null()).status();
        let python = there.is_ok_and(|status| status.success()).then_some(name);
        let (bench, plain) = (folder.and_then(build::bench), folder.and_then(build::bench_plain));
        Spead2Memory { bench, plain, python }
    }

    /// Who is measured without a memory pool: the C++ tool before the Python package.
    pub fn plain_peer(&self) -> Option<&'static str> {
        match (&self.plain, &self.python) {
            (Some(_), _) => Some(PLAIN_TOOL),
            (None, Some(_)) => Some(PACKAGE),
            (None, None) => None,
        }
    }

    /// Who is measured with one.
    pub fn pool_peer(&self) -> Option<&'static str> {
        self.bench.as_ref().map(|_| POOL_TOOL)
    }

    fn package(
        python: &str,
        packet: usize,
        heaps: usize,
        stop: Asked<'_>,
    ) -> Result<f64, TrialError> {
        let mut command = Command::new(python);
        command.args(["-c", PLAIN]).args([packet, heaps, HEAP, PASSES].map(|n| n.to_string()));
        let output = said(PACKAGE, command, stop)?;
        let mut words = output.split_whitespace();
        let all = words.next() == Some(&heaps.to_string());
        rate(PACKAGE, words.next().filter(|_| all), &output)
    }

    /// One turn: Gb/s without and with a memory pool.
    pub(super) fn rates(
        &self,
        packet: usize,
        heaps: usize,
        stop: Asked<'_>,
    ) -> Result<[Option<f64>; 2], TrialError> {
        let tool = |name: &str, bench: &Path, pool: bool| {
            let output = said(name, bench_command(bench, packet, pool), stop)?;
            rate(name, output.split_whitespace().next(), &output)
        };
        let plain = match (&self.plain, &self.python) {
            (Some(bench), _) => Some(tool(PLAIN_TOOL, bench, false)?),
            (None, Some(python)) => Some(Self::package(python, packet, heaps, stop)?),
            (None, None) => None,
        };
        let pool = self.bench.as_ref().map(|bench| tool(POOL_TOOL, bench, true));
        Ok([plain, pool.transpose()?])
    }
}

/// A turn of the bench.
fn bench_command(bench: &Path, packet: usize, pool: bool) -> Command {
    let mut command = Command::new(bench);
    command.args(["mem", "--quiet", "--heap-size"]).arg(HEAP.to_string());
    command.arg("--packet").arg(packet.to_string());
    for key in ["--mem-max-free", "--mem-initial"].iter().filter(|_| pool) {
        command.arg(key).arg(BLOCKS.to_string());
    }
    command
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
    fn without_a_pool_the_tool_comes_before_the_package() {
        let package = Spead2Memory { python: Some("python3".into()), ..Spead2Memory::default() };
        assert_eq!(package.plain_peer(), Some("the Python package spead2"));
        let built = Spead2Memory { plain: Some("/p".into()), bench: Some("/b".into()), ..package };
        assert_eq!(built.plain_peer(), Some("spead2_bench_plain mem"));
        assert_eq!(built.pool_peer(), Some("spead2_bench mem"));
        let none = Spead2Memory::default();
        assert_eq!((none.plain_peer(), none.pool_peer()), (None, None));
    }

    #[test]
    fn both_variants_are_asked_for_the_same_but_the_pool_s_size() {
        let words = |pool| {
            let command = bench_command(Path::new("/b"), 1472, pool);
            let words: Vec<_> =
                command.get_args().map(|w| w.to_str().unwrap().to_owned()).collect();
            words.join(" ")
        };
        let plain = "mem --quiet --heap-size 4194304 --packet 1472";
        assert_eq!(words(false), plain);
        assert_eq!(words(true), format!("{plain} --mem-max-free 16 --mem-initial 16"));
    }

    #[test]
    fn the_rate_is_that_of_the_program_that_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for (name, rate) in [("spead2_bench", "7"), ("spead2_bench_plain", "5")] {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\necho {rate}\n")).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&path, mode).unwrap();
        }
        let found = Spead2Memory::with(Some(folder.path()));
        assert_eq!(found.rates(1472, 1, &|| false).unwrap(), [Some(5.0), Some(7.0)]);
        std::fs::remove_file(folder.path().join("spead2_bench")).unwrap();
        let found = Spead2Memory { python: None, ..Spead2Memory::with(Some(folder.path())) };
        assert_eq!(found.rates(1472, 1, &|| false).unwrap(), [Some(5.0), None]);
    }

    #[test]
    fn only_a_rate_is_taken() {
        assert_eq!(rate("x", Some("81.25"), "81.25").unwrap(), 81.25);
        for word in [None, Some("inf"), Some("0"), Some("fast")] {
            assert!(rate("x", word, "fast").unwrap_err().to_string().contains("no rate: fast"));
        }
    }
}
