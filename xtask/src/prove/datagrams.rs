//! `datagrams`: for each detector that the program has ten million datagrams that no readout system sends, into a `run` of its own.
//!
//! A third is noise of any length from 0 to 9000 B (one in ten thousand 65,507 B, the longest that
//! UDP carries), a third are golden vectors and packets of the kind's sample with some bytes changed, a third are such cut or
//! drawn out. Holds if `run` never panicked, its balance is 0 each time, and what it received and
//! what the kernel dropped before it add up to what was sent. Gaps in random sequence numbers
//! count as lost packets, so exit code 3 is no failure here. Refuses a kind with neither vectors nor a sample.

use std::fs;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Finding;
use super::campaign::Campaign;
use super::service::{self, Service};
use crate::kinds::{self, Decoder};
use crate::place;

/// Units of each detector; each is a `run` of its own, so that `--resume` loses little.
const RUNS: u32 = 10;
const EACH: u32 = 1_000_000;
/// The longest payload of UDP over IPv4.
const LONGEST: usize = 65_507;

pub fn run(campaign: &mut Campaign) -> Result<Finding, String> {
    let binary = service::build()?;
    let kinds = kinds::decoders(&binary)?;
    let count = u32::try_from(kinds.len()).map_err(|error| error.to_string())?;
    let units = campaign.units("million datagrams", RUNS * count, |unit| {
        let kind = &kinds[(unit / RUNS) as usize];
        let detector = kind.name.as_str();
        let vectors = packets(kind)?;
        let geometry = geometry(kind)?;
        let port = service::free_port()?;
        let url = format!("udp://127.0.0.1:{port}");
        let mut words = vec!["run", "--source", &url, "--detector", detector];
        words.extend(geometry.iter().flat_map(|file| ["--geometry", file.as_str()]));
        words.extend(["--sink", "null", "--web", "off", "--json"]);
        let mut receiver = Service::start(&binary, &words)?;
        receiver.until_bound(port, Duration::from_secs(30))?;
        let sent = send(port, &vectors, u64::from(unit) + 1)?;
        thread::sleep(Duration::from_secs(1));
        let dropped = kernel_drops(port);
        receiver.interrupt();
        let ended = receiver.finish(Duration::from_secs(60))?;
        Ok(json!({
            "detector": detector,
            "sent": sent,
            "received": ended.number("/packets/received"),
            "kernel_dropped": dropped,
            "accepted": ended.number("/packets/accepted"),
            "rejected": ended.summary.pointer("/packets/rejected"),
            "truncated": ended.number("/packets/truncated"),
            "events": ended.number("/events"),
            "balance": ended.summary.get("balance"),
            "exit": ended.code,
        }))
    })?;
    let good = |unit: &Value| {
        let number = |name: &str| unit[name].as_u64().unwrap_or(0);
        let ended_by_itself = unit["exit"] == 0 || unit["exit"] == 3;
        let complete = number("received") + number("kernel_dropped") == number("sent");
        ended_by_itself && complete && unit["balance"] == 0
    };
    let total = |name: &str| units.iter().filter_map(|unit| unit[name].as_u64()).sum::<u64>();
    let figures = json!({
        "sent": total("sent"),
        "received": total("received"),
        "kernel_dropped": total("kernel_dropped"),
        "accepted": total("accepted"),
        "events": total("events"),
        "runs": units,
    });
    Ok(Finding { held: units.iter().all(good), figures })
}

/// The geometry of the kind's sample as a file.
fn geometry(kind: &Decoder) -> Result<Option<String>, String> {
    let Some(text) = &kind.geometry else { return Ok(None) };
    let folder = place::target().join("prove");
    let file = folder.join(format!("datagrams-{}.geometry", kind.name));
    let said = |error: std::io::Error| format!("{}: {error}", file.display());
    fs::create_dir_all(&folder).map_err(said)?;
    fs::write(&file, text).map_err(said)?;
    Ok(Some(file.display().to_string()))
}

/// The kind's golden vectors, if it has some, and the packets of its sample.
fn packets(kind: &Decoder) -> Result<Vec<Vec<u8>>, String> {
    let folder = place::root().join("vectors").join(&kind.name);
    let mut files: Vec<_> = match fs::read_dir(&folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(_) => Vec::new(),
    };
    files.retain(|file| file.extension().is_some_and(|extension| extension == "bin"));
    // The order of a folder is the file system's; the proof's is not.
    files.sort();
    let read = |file| fs::read(file).map_err(|error| error.to_string());
    let mut all = files.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    all.extend(kind.packets.iter().cloned());
    match all.is_empty() {
        true => Err(format!("{}: neither vectors nor a sample", kind.name)),
        false => Ok(all),
    }
}

/// Sends one unit's datagrams; how many.
fn send(port: u16, vectors: &[Vec<u8>], seed: u64) -> Result<u32, String> {
    let said = |error: std::io::Error| format!("sending to port {port}: {error}");
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(said)?;
    socket.connect(("127.0.0.1", port)).map_err(said)?;
    let mut random = Random(seed);
    let mut datagram = Vec::with_capacity(LONGEST);
    let start = Instant::now();
    for number in 0..EACH {
        make(&mut random, vectors, &mut datagram);
        socket.send(&datagram).map_err(said)?;
        // 100,000 a second: a receiver on a shared core keeps up, and ten million take 100 s.
        if number % 1_000 == 999 {
            let due = start + Duration::from_millis(u64::from(number / 1_000) * 10);
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }
    Ok(EACH)
}

fn make(random: &mut Random, vectors: &[Vec<u8>], datagram: &mut Vec<u8>) {
    datagram.clear();
    let vector = &vectors[random.below(vectors.len())];
    match random.below(3) {
        0 => {
            let length = if random.below(10_000) == 0 { LONGEST } else { random.below(9_001) };
            noise(random, length, datagram);
        }
        1 => {
            datagram.extend_from_slice(vector);
            for _ in 0..=random.below(8) {
                if !datagram.is_empty() {
                    let at = random.below(datagram.len());
                    datagram[at] = random.next().to_le_bytes()[0];
                }
            }
        }
        _ => {
            datagram.extend_from_slice(vector);
            let length = random.below(datagram.len() + 1);
            if random.below(2) == 0 {
                datagram.truncate(length);
            } else {
                noise(random, length, datagram);
            }
        }
    }
    datagram.truncate(LONGEST);
}

/// Appends `length` random bytes.
fn noise(random: &mut Random, length: usize, datagram: &mut Vec<u8>) {
    let end = datagram.len() + length;
    while datagram.len() < end {
        datagram.extend_from_slice(&random.next().to_le_bytes());
    }
    datagram.truncate(end);
}

/// What the kernel dropped at the socket bound to `port`: the last column of `/proc/net/udp`.
fn kernel_drops(port: u16) -> u64 {
    let table = fs::read_to_string("/proc/net/udp").unwrap_or_default();
    service::socket_line(&table, port)
        .and_then(|line| line.split_whitespace().next_back()?.parse().ok())
        .unwrap_or(0)
}

/// SplitMix64: every seed is a good one, and eight bytes come in a nanosecond.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..limit`; 0 for a limit of 0. The bias of 2⁻⁴⁰ does not matter here.
    fn below(&mut self, limit: usize) -> usize {
        let wide = u128::from(self.next()) * limit as u128;
        usize::try_from(wide >> 64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        // First outputs of SplitMix64 for seed 1234567, as published with Vigna's code.
        let mut random = Random(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn datagrams_are_all_three_kinds_and_never_too_long() {
        let vectors = vec![vec![7; 40], Vec::new(), vec![9; LONGEST]];
        let mut random = Random(1);
        let mut datagram = Vec::new();
        let (mut empty, mut longest) = (0, 0);
        for _ in 0..20_000 {
            make(&mut random, &vectors, &mut datagram);
            assert!(datagram.len() <= LONGEST);
            empty += u32::from(datagram.is_empty());
            longest += u32::from(datagram.len() == LONGEST);
        }
        assert!(empty > 0 && longest > 0, "{empty} {longest}");
    }
}
