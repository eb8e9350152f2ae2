//! The thread of a link: it takes packets from the lanes' rings, so that timers, acknowledgements and ARP go on while the source
//! waits for its next packet.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

use fullcount_core::ledger::Sheet;
use fullcount_stcp::{Notice, StcpState, SubmitError};
use rtrb::Consumer;

use super::counters::{StcpSending, publish};
use super::{FrameFile, RawError, RawLink};

/// Longest sleep of a link with nothing to do: what a packet may wait for.
const NAP: Duration = Duration::from_micros(200);
/// Bytes that a lane hands over before the link has its turn.
const PORTION: usize = 256 << 10;
/// Between looks at the counters.
const PUBLISH: Duration = Duration::from_millis(20);
/// How long a finished link waits for the last acknowledgements without any progress.
const LAST: Duration = Duration::from_secs(10);

/// Between a lane, its thread, and whoever asks it to stop.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Nothing more comes: lanes that have said so.
    pub finished: AtomicUsize,
    /// End at once.
    pub hurry: AtomicBool,
    /// The thread has ended.
    pub over: AtomicBool,
    /// All streams are there.
    pub connected: AtomicBool,
    /// Why it ended, or cannot begin.
    pub failure: Mutex<Option<String>>,
}

impl Shared {
    fn fail(&self, why: String) {
        if let Ok(mut place) = self.failure.lock() {
            place.get_or_insert(why);
        }
    }

    /// Why it failed, if it did.
    pub fn failed(&self) -> Option<String> {
        self.failure.lock().ok().and_then(|why| why.clone())
    }
}

/// One lane: its packets with their lengths in front, and the streams that they go to in turn.
pub(super) struct Lane {
    pub ring: Consumer<u8>,
    pub streams: Vec<usize>,
    pub turn: usize,
    pub scratch: Vec<u8>,
}

/// Bytes in front of each packet in a ring.
pub(super) const LENGTH: usize = 4;

impl Lane {
    /// Hands packets over, up to a portion; true: the ring may hold more.
    fn hand_over(&mut self, link: &mut RawLink, sheet: &Sheet) -> Result<bool, SubmitError> {
        let mut left = PORTION;
        loop {
            let waiting = self.ring.slots();
            let Ok(head) = self.ring.read_chunk(LENGTH) else { return Ok(false) };
            let length = four(head.as_slices());
            // A packet comes with its length in one piece, or not at all.
            if waiting < LENGTH + length {
                return Ok(false);
            }
            // One that is longer than a portion leaves alone.
            if length > left && left < PORTION {
                return Ok(true);
            }
            let at = self.streams[self.turn];
            let Ok(chunk) = self.ring.read_chunk(LENGTH + length) else { return Ok(false) };
            let (first, second) = chunk.as_slices();
            let taken = match first.get(LENGTH..).filter(|_| second.is_empty()) {
                Some(whole) => link.submit(at, whole),
                None => {
                    self.scratch.clear();
                    self.scratch.extend_from_slice(first);
                    self.scratch.extend_from_slice(second);
                    link.submit(at, &self.scratch[LENGTH..])
                }
            };
            match taken {
                Ok(_) => {
                    chunk.commit_all();
                    sheet.add(StcpSending::Packets as usize, 1);
                    self.turn = (self.turn + 1) % self.streams.len();
                    left -= length.min(left);
                }
                Err(SubmitError::WouldBlock) => {
                    sheet.add(StcpSending::Waited as usize, 1);
                    return Ok(false);
                }
                Err(e) => return Err(e),
            }
        }
    }
}

fn four((first, second): (&[u8], &[u8])) -> usize {
    let mut bytes = [0; LENGTH];
    let both = first.iter().chain(second);
    bytes.iter_mut().zip(both).for_each(|(to, from)| *to = *from);
    u32::from_le_bytes(bytes) as usize
}

/// What the thread owns.
pub(super) struct Carrier {
    pub link: RawLink,
    pub lanes: Vec<Lane>,
    pub shared: Arc<Shared>,
    pub sheet: Arc<Sheet>,
}

impl Carrier {
    /// Runs until all lanes are finished and everything is acknowledged, or nothing can be sent any more.
    pub fn run(mut self) {
        if let Err(e) = self.carry() {
            self.shared.fail(e);
        }
        let counted = self.link.streams().iter().map(|s| *s.sender().memory().counted());
        let unacknowledged: u64 =
            counted.map(|c| c.fragment_bytes.saturating_sub(c.acked_bytes)).sum();
        self.sheet.set(StcpSending::Unacknowledged as usize, unacknowledged);
        if unacknowledged > 0 {
            self.shared.fail(format!("{unacknowledged} bytes were not acknowledged at the end"));
        }
        for at in 0..self.link.streams().len() {
            self.link.abort(at);
        }
        // The RSTs leave; what the interface does not take at once is tried for a moment.
        let begun = Instant::now();
        while self.link.turn().unwrap_or(false) && begun.elapsed() < PUBLISH {}
        if let Some(Err(e)) = self.link.take_file().map(FrameFile::finish) {
            self.shared.fail(e.to_string());
        }
        publish(&self.sheet, &self.link);
        self.shared.over.store(true, Release);
    }

    fn carry(&mut self) -> Result<(), String> {
        let mut published = Instant::now();
        let mut progress = (Instant::now(), 0);
        while !self.shared.hurry.load(Acquire) {
            let finished = self.shared.finished.load(Acquire) >= self.lanes.len();
            let mut more = false;
            for lane in &mut self.lanes {
                match lane.hand_over(&mut self.link, &self.sheet) {
                    Ok(m) => more |= m,
                    Err(e) => {
                        self.notices()?;
                        return Err(e.to_string());
                    }
                }
            }
            let empty = self.lanes.iter().all(|lane| lane.ring.is_empty());
            if finished && empty {
                (0..self.link.streams().len()).for_each(|at| self.link.flush(at));
                let waiting: u64 = self.link.streams().iter().map(|s| s.sender().used()).sum();
                if waiting == 0 {
                    return Ok(());
                }
                if waiting != progress.1 {
                    progress = (Instant::now(), waiting);
                } else if progress.0.elapsed() > LAST {
                    return Err(format!("{waiting} bytes were not acknowledged within {LAST:?}"));
                }
            }
            let turned = |e: RawError| e.to_string();
            if !self.link.turn().map_err(turned)? && !more {
                self.link.wait(NAP).map_err(turned)?;
            }
            self.notices()?;
            if published.elapsed() >= PUBLISH {
                published = Instant::now();
                publish(&self.sheet, &self.link);
            }
        }
        Ok(())
    }

    fn notices(&mut self) -> Result<(), String> {
        for at in 0..self.link.streams().len() {
            while let Some(notice) = self.link.notice(at) {
                match notice {
                    Notice::Connected => {
                        self.sheet.add(StcpSending::Connections as usize, 1);
                        let there =
                            |s: &super::RawStream| s.sender().state() == StcpState::Established;
                        if self.link.streams().iter().all(there) {
                            self.shared.connected.store(true, Release);
                        }
                    }
                    Notice::Aborted(why) => {
                        self.sheet.add(StcpSending::Ended as usize, 1);
                        let taken = self.link.duplicate().map(|mac| {
                            format!(
                                ": {} has the own address",
                                mac.map(|b| format!("{b:02x}")).join(":")
                            )
                        });
                        return Err(format!(
                            "the connection from port {} ended: {}{}",
                            self.link.stream(at).ends().local_port,
                            words(why),
                            taken.unwrap_or_default()
                        ));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// Why a connection ended, for people.
fn words(why: fullcount_stcp::Ended) -> &'static str {
    use fullcount_stcp::Ended;
    match why {
        Ended::LocalAbort => "ended here",
        Ended::HostUnreachable => "nobody answers ARP; is the address right, and the host up?",
        Ended::ConnectTimeout => "nobody answers; does a firewall drop it?",
        Ended::Refused => "nobody listens at the port",
        Ended::ResetByPeer => "the receiver reset it",
        Ended::SendTimeout => "nothing was acknowledged any more",
        Ended::PeerDead => "the receiver answers no more",
        Ended::PeerClosed => "the receiver closed",
        Ended::PeerSentData => "the receiver sent data, which it must not",
        Ended::PeerNonsense => "the receiver's options make no sense",
        Ended::IcmpError => "ICMP: no such port or protocol",
        Ended::Internal => "a contradiction in the sender: please report it",
    }
}
