//! Datagrams that no readout system sends, made of a seed.
//!
//! A third is noise of any length from 0 to 9000 B (one in ten thousand 65,507 B, the longest that UDP carries), a third are
//! golden vectors and packets of the kind's simulator with some bytes changed, a third are such cut or drawn out. Refuses a
//! kind with neither vectors nor a simulator.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fullcount_child::{Asked, ChildError};
use fullcount_core::simulator::taste::SimulatedTaste;
use fullcount_io::newfile::Scratch;
use fullcount_sim::Random;

use crate::error::TrialError;

/// The longest payload of UDP over IPv4.
const LONGEST: usize = 65_507;
/// Sent between two looks at the clock: 100,000 a second, at which a receiver on a shared core keeps up and ten million take 100 s.
const BURST: u32 = 1000;
const EACH_BURST: Duration = Duration::from_millis(10);

/// What is sent.
#[derive(Debug, Clone)]
pub struct BenchDatagrams {
    /// How many.
    pub count: u32,
    /// Decides what they are.
    pub seed: u64,
    /// Folder with golden vectors, a folder for each detector and `.bin` files in it.
    pub vectors: Option<PathBuf>,
}

/// What they are made of.
pub(super) struct DatagramMaterial {
    pub packets: Vec<Vec<u8>>,
    /// Holds the geometry file, if the kind needs one.
    folder: Option<Scratch>,
}

impl DatagramMaterial {
    /// The geometry file that fits the packets.
    pub fn geometry(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| geometry_in(folder.path()))
    }
}

fn geometry_in(folder: &Path) -> PathBuf {
    folder.join("geometry")
}

/// Golden vectors in the order of their names; none where there is no such folder.
fn vectors(folder: &Path) -> std::io::Result<Vec<Vec<u8>>> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(vec![]) };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "bin"));
    // The order of a folder is the file system's; that of a trial is not.
    files.sort();
    files.into_iter().map(fs::read).collect()
}

impl BenchDatagrams {
    /// Packets of this detector.
    pub(super) fn material(&self, detector: &str) -> Result<DatagramMaterial, TrialError> {
        let wrong = |reason: String| TrialError::Result { program: detector.to_owned(), reason };
        let mut packets = match &self.vectors {
            Some(folder) => vectors(&folder.join(detector)).map_err(TrialError::when("vectors"))?,
            None => vec![],
        };
        let mut folder = None;
        if let Some(kind) = fullcount_sim::registered().find(detector) {
            let taste = SimulatedTaste::of(kind).map_err(|error| wrong(error.to_string()))?;
            packets.extend(taste.packets);
            if let Some(text) = taste.geometry {
                let own = Scratch::make(&std::env::temp_dir(), "fullcount-datagrams");
                let own =
                    own.and_then(|own| fs::write(geometry_in(own.path()), text).map(|()| own));
                folder = Some(own.map_err(TrialError::when("geometry"))?);
            }
        }
        match packets.is_empty() {
            true => Err(wrong("neither vectors nor a simulator".to_owned())),
            false => Ok(DatagramMaterial { packets, folder }),
        }
    }

    /// Sends all; how many.
    pub(super) fn send(
        &self,
        to: SocketAddr,
        packets: &[Vec<u8>],
        stop: Asked<'_>,
    ) -> Result<u32, TrialError> {
        let sending = TrialError::when("sending datagrams");
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(&sending)?;
        socket.connect(to).map_err(&sending)?;
        let mut random = Random::new(self.seed);
        let mut datagram = Vec::with_capacity(LONGEST);
        let begun = Instant::now();
        for number in 0..self.count {
            make(&mut random, packets, &mut datagram);
            socket.send(&datagram).map_err(&sending)?;
            if number % BURST == BURST - 1 {
                let due = begun + EACH_BURST * (number / BURST);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                if stop() {
                    return Err(ChildError::Interrupted.into());
                }
            }
        }
        Ok(self.count)
    }
}

fn below(random: &mut Random, limit: usize) -> usize {
    random.below(limit as u32) as usize
}

fn make(random: &mut Random, packets: &[Vec<u8>], datagram: &mut Vec<u8>) {
    datagram.clear();
    let packet = &packets[below(random, packets.len())];
    match below(random, 3) {
        0 => {
            let length = if below(random, 10_000) == 0 { LONGEST } else { below(random, 9_001) };
            noise(random, length, datagram);
        }
        1 => {
            datagram.extend_from_slice(packet);
            for _ in 0..=below(random, 8) {
                if !datagram.is_empty() {
                    let at = below(random, datagram.len());
                    datagram[at] = random.bits().to_le_bytes()[0];
                }
            }
        }
        _ => {
            datagram.extend_from_slice(packet);
            let length = below(random, datagram.len() + 1);
            match below(random, 2) {
                0 => datagram.truncate(length),
                _ => noise(random, length, datagram),
            }
        }
    }
    datagram.truncate(LONGEST);
}

/// Appends `length` random bytes.
fn noise(random: &mut Random, length: usize, datagram: &mut Vec<u8>) {
    let end = datagram.len() + length;
    while datagram.len() < end {
        datagram.extend_from_slice(&random.bits().to_le_bytes());
    }
    datagram.truncate(end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_all_three_kinds_and_never_too_long() {
        let packets = vec![vec![7; 40], Vec::new(), vec![9; LONGEST]];
        let mut random = Random::new(1);
        let mut datagram = Vec::new();
        let (mut empty, mut longest) = (0, 0);
        for _ in 0..20_000 {
            make(&mut random, &packets, &mut datagram);
            assert!(datagram.len() <= LONGEST);
            empty += u32::from(datagram.is_empty());
            longest += u32::from(datagram.len() == LONGEST);
        }
        assert!(empty > 0 && longest > 0, "{empty} {longest}");
    }

    #[test]
    fn packets_are_golden_vectors_by_name_and_those_of_the_simulator() {
        let folder = tempfile::tempdir().unwrap();
        let usual = fullcount_detect::detector::registered().usual();
        let own = folder.path().join(usual);
        fs::create_dir(&own).unwrap();
        for (name, byte) in [("b.bin", 2), ("a.bin", 1), ("a.json", 3)] {
            fs::write(own.join(name), [byte]).unwrap();
        }
        let vectors = Some(folder.path().to_owned());
        let order = BenchDatagrams { count: 1, seed: 1, vectors };
        let packets = order.material(usual).unwrap().packets;
        assert_eq!(packets[..2], [vec![1], vec![2]]);
        assert!(packets.len() >= 4, "{}", packets.len());
        let error = order.material("teapot").err().unwrap().to_string();
        assert_eq!(error, "teapot: neither vectors nor a simulator");
    }

    #[test]
    fn as_many_are_sent_as_were_ordered_and_the_seed_decides_which() {
        let sent = |seed: u64| {
            let to = UdpSocket::bind("127.0.0.1:0").unwrap();
            let order = BenchDatagrams { count: 5, seed, vectors: None };
            let packets = [vec![7; 40]];
            assert_eq!(order.send(to.local_addr().unwrap(), &packets, &|| false).unwrap(), 5);
            let mut buffer = vec![0; LONGEST];
            let mut all = vec![];
            for _ in 0..5 {
                let n = to.recv(&mut buffer).unwrap();
                all.push(buffer[..n].to_vec());
            }
            all
        };
        assert_eq!(sent(1), sent(1));
        assert_ne!(sent(1), sent(2));
    }
}
