//! A link of set rate, delay, jitter, queue and faults between two interfaces, in user space: for hosts
//! without netem, and where a packet's fate must be in a ledger.
//!
//! One thread a direction takes frames from one interface, puts them through a
//! [`fullcount_core::sim::Channel`] and sends them from the other ([`direction`]). [`network`] makes three
//! namespaces with the emulator in the middle. What it can carry has a limit: frames that come faster than
//! a thread takes them are counted as missed. Refuses: see [`EmulatorError`]. Needs Linux and root.

pub mod direction;
pub mod network;
pub mod watch;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Instant;

use fullcount_core::sim::{Channel, ChannelError, ChannelSetup};
use fullcount_io::frames::{FrameReceiver, FrameSender, FramesError};
use serde_json::{Value, json};

use crate::namespace::NamespaceError;
use direction::{Direction, DirectionWatch, FrameCounts};

/// Buffer of a receiving socket: 64 MiB are 50 ms at 10 Gbit/s, longer than a thread is ever taken away.
const BUFFER: usize = 64 << 20;

/// Why a link cannot be emulated.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum EmulatorError {
    #[error(transparent)]
    Channel(#[from] ChannelError),
    #[error(transparent)]
    Frames(#[from] FramesError),
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    #[error("{interface} is busy: another link emulator uses it; stop that one first")]
    Busy { interface: String },
    #[error("a link between {interface} and itself: give two interfaces")]
    Same { interface: String },
    #[error("{what}: {cause}")]
    System { what: String, cause: std::io::Error },
    #[error("the thread of one direction panicked; this is a bug")]
    Panicked,
}

/// What is emulated.
#[derive(Debug, Clone, PartialEq)]
pub struct EmulatorPlan {
    /// Interfaces, A and B.
    pub interfaces: [String; 2],
    /// From A to B, and from B to A.
    pub setups: [ChannelSetup; 2],
    /// Cores of the two threads.
    pub cores: [Option<usize>; 2],
    /// Never sleep: exact to microseconds, costs two cores.
    pub busy_poll: bool,
}

/// An emulated link that is up; ends when dropped.
#[derive(Debug)]
pub struct Emulator {
    interfaces: [String; 2],
    stop: Arc<AtomicBool>,
    watches: [Arc<DirectionWatch>; 2],
    threads: Vec<JoinHandle<Result<(), FramesError>>>,
    /// Held as long as the interfaces are used.
    _claims: Vec<Claim>,
}

/// What went through so far.
#[derive(Debug, Clone, PartialEq)]
pub struct EmulatorReport {
    /// Interfaces, A and B.
    pub interfaces: [String; 2],
    /// From A to B, and from B to A.
    pub counts: [FrameCounts; 2],
}

impl Emulator {
    /// Opens both interfaces in the calling thread's namespace and starts to hand frames on.
    ///
    /// # Errors
    /// See [`EmulatorError`]; nothing is left open.
    pub fn start(plan: &EmulatorPlan) -> Result<Emulator, EmulatorError> {
        let [a, b] = &plan.interfaces;
        if a == b {
            return Err(EmulatorError::Same { interface: a.clone() });
        }
        let claims = vec![Claim::take(a)?, Claim::take(b)?];
        let stop = Arc::new(AtomicBool::new(false));
        let began = Instant::now();
        let mut directions = Vec::new();
        for (n, (from, to)) in [(a, b), (b, a)].into_iter().enumerate() {
            let channel = Channel::new(plan.setups[n])?;
            let from = FrameReceiver::open(from, BUFFER)?;
            let to = FrameSender::open(to)?;
            let (core, busy) = (plan.cores[n], plan.busy_poll);
            directions.push(Direction { from, to, channel, began, core, busy });
        }
        let watches = [Arc::new(DirectionWatch::default()), Arc::new(DirectionWatch::default())];
        let mut emulator = Emulator {
            interfaces: plan.interfaces.clone(),
            stop: stop.clone(),
            watches,
            threads: Vec::new(),
            _claims: claims,
        };
        for (n, direction) in directions.into_iter().enumerate() {
            let (stop, watch) = (stop.clone(), emulator.watches[n].clone());
            let name = if n == 0 { "link a>b" } else { "link b>a" };
            let thread = std::thread::Builder::new()
                .name(name.into())
                .spawn(move || direction.run(&stop, &watch))
                .map_err(|cause| EmulatorError::System { what: "start a thread".into(), cause })?;
            emulator.threads.push(thread);
        }
        Ok(emulator)
    }

    /// What went through so far, at most 0.1 s old.
    pub fn report(&self) -> EmulatorReport {
        let counts = [self.watches[0].counts(), self.watches[1].counts()];
        EmulatorReport { interfaces: self.interfaces.clone(), counts }
    }

    /// True while both threads run; one that found its interface gone has ended.
    pub fn running(&self) -> bool {
        self.threads.iter().all(|t| !t.is_finished())
    }

    /// Stops, and gives the last word: what is inside then counts as inside.
    ///
    /// # Errors
    /// What ended a thread before.
    pub fn end(mut self) -> Result<EmulatorReport, EmulatorError> {
        self.stop.store(true, Relaxed);
        for thread in std::mem::take(&mut self.threads) {
            thread.join().map_err(|_| EmulatorError::Panicked)??;
        }
        Ok(self.report())
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
    }
}

impl EmulatorReport {
    /// Frames that are in no place or in two, both directions; 0 unless the emulator is wrong.
    pub fn balance(&self) -> i128 {
        self.counts.iter().map(|c| c.balance).sum()
    }

    /// True if every frame that came was handed on or is inside: nothing was dropped, lost, missed or refused.
    pub fn lossless(&self) -> bool {
        self.counts.iter().all(|c| c.gone() == 0)
    }

    /// True if everything that is gone was asked for by queue and faults.
    pub fn faithful(&self) -> bool {
        self.balance() == 0 && self.counts.iter().all(|c| c.failed() == 0)
    }

    /// For a summary.
    pub fn json(&self) -> Value {
        let [a, b] = &self.interfaces;
        json!({
            "directions": [
                {"from": a, "to": b, "frames": self.counts[0].json()},
                {"from": b, "to": a, "frames": self.counts[1].json()},
            ],
            "balance": self.balance() as i64,
        })
    }

    /// For people.
    pub fn lines(&self) -> String {
        let [a, b] = &self.interfaces;
        let mut text = String::new();
        for ((from, to), c) in [(a, b), (b, a)].into_iter().zip(&self.counts) {
            text += &format!("{from} -> {to}\n{}", c.lines());
        }
        text + &format!("balance                {:>16}\n", self.balance())
    }
}

/// The right to an interface: one emulator at a time in a namespace. Goes with the process.
#[derive(Debug)]
struct Claim {
    #[cfg(target_os = "linux")]
    _socket: std::os::unix::net::UnixDatagram,
}

/// An interface that is claimed is asked for so often, so far apart: starting a child takes 1 ms.
const CLAIMS: u32 = 20;
const BETWEEN_CLAIMS: std::time::Duration = std::time::Duration::from_millis(5);

impl Claim {
    #[cfg(target_os = "linux")]
    fn take(interface: &str) -> Result<Claim, EmulatorError> {
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::net::{SocketAddr, UnixDatagram};
        // Abstract names live in the network namespace, as interfaces do, and end with the process.
        let name = format!("fullcount-link-emulator-{interface}");
        let claim =
            || SocketAddr::from_abstract_name(&name).and_then(|a| UnixDatagram::bind_addr(&a));
        // A child that another thread is starting holds a copy of every descriptor until it runs its own program,
        // a claim that was just given up among them.
        let in_use = |e: &std::io::Error| e.kind() == std::io::ErrorKind::AddrInUse;
        let mut taken = claim();
        for _ in 0..CLAIMS {
            if !taken.as_ref().is_err_and(in_use) {
                break;
            }
            std::thread::sleep(BETWEEN_CLAIMS);
            taken = claim();
        }
        match taken {
            Ok(_socket) => Ok(Claim { _socket }),
            Err(e) if in_use(&e) => Err(EmulatorError::Busy { interface: interface.to_owned() }),
            Err(cause) => Err(EmulatorError::System { what: format!("claim {interface}"), cause }),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn take(interface: &str) -> Result<Claim, EmulatorError> {
        let cause = std::io::ErrorKind::Unsupported.into();
        Err(EmulatorError::System { what: format!("frames of {interface}"), cause })
    }
}

/// Offloads by which an interface gives out trains instead of frames; off while we read from it.
const MERGING: [&str; 4] = ["rx-gro", "rx-gro-hw", "rx-lro", "rx-udp-gro-forwarding"];

/// Offloads that were switched off, switched on again when dropped.
#[derive(Debug, Default)]
pub struct Unmerged(Vec<(String, &'static str)>);

impl Unmerged {
    /// Switches off what merges frames at `interfaces` of the calling thread's namespace. What an interface
    /// does not have or does not let change stays as it is: trains are then counted.
    pub fn at(interfaces: &[String]) -> Unmerged {
        let mut off = Unmerged::default();
        for interface in interfaces {
            let now = fullcount_io::sys::features(interface).unwrap_or_default();
            for feature in MERGING {
                let on = now.iter().any(|(name, on)| name == feature && *on);
                if on && fullcount_io::sys::set_feature(interface, feature, false).is_ok() {
                    off.0.push((interface.clone(), feature));
                }
            }
        }
        off
    }
}

impl Drop for Unmerged {
    fn drop(&mut self) {
        for (interface, feature) in &self.0 {
            let _ = fullcount_io::sys::set_feature(interface, feature, true);
        }
    }
}

/// MTU of an interface of this process's namespace, bytes.
pub fn mtu(interface: &str) -> Option<usize> {
    let path = Path::new("/sys/class/net").join(interface).join("mtu");
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
#[path = "emulator_tests.rs"]
mod tests;
