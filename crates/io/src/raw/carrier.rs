//! The thread of a link: it takes packets from the lanes' rings, so that timers, acknowledgements and ARP go on while the source
//! waits for its next packet. How long a receiver may hold, and when it is dead, is the senders' affair: there is no limit here.
//! A stream that ends ends alone, as long as others are left.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

use fullcount_core::destination::{DestinationPart, PacketNumbers};
use fullcount_core::ledger::Sheet;
use fullcount_stcp::{Notice, StcpState};

use super::counters::{StcpSending, publish};
use super::delays::SignalDelays;
use super::lane::Lane;
use super::measured::{part, unacknowledged, undelivered};
use super::{FrameFile, RawError, RawLink};

/// Longest sleep of a link with nothing to do: what a packet may wait for.
const NAP: Duration = Duration::from_micros(200);
/// Most streams of which a failure at the end names what they had not delivered.
const NAMED: usize = 16;
/// Between looks at the counters, and for RSTs that the interface does not take at once.
const PUBLISH: Duration = Duration::from_millis(20);
/// How long a link answers after streams were aborted with bytes in flight: section 16.1's `linger_closed`.
const LINGER: Duration = Duration::from_secs(1);

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
    /// Its streams, once it has ended.
    pub parts: Mutex<Vec<DestinationPart>>,
    /// How soon the sources of all lanes saw that they had to hold. Locked once in a hold.
    pub delays: Mutex<SignalDelays>,
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

/// What the thread owns.
pub(super) struct Carrier {
    pub link: RawLink,
    pub lanes: Vec<Lane>,
    pub shared: Arc<Shared>,
    pub sheet: Arc<Sheet>,
    /// Where it goes, for people.
    pub label: String,
    /// Of each stream: why it has ended.
    pub ended: Vec<Option<String>>,
    /// Of the packets of each stream, where a lane has one stream.
    pub numbers: Option<PacketNumbers>,
}

impl Carrier {
    /// Runs until all lanes are finished and everything is acknowledged, or nothing can be sent any more.
    pub fn run(mut self) {
        if let Err(e) = self.carry() {
            self.shared.fail(e);
        }
        self.account();
        self.close();
        if let Some(Err(e)) = self.link.take_file().map(FrameFile::finish) {
            self.shared.fail(e.to_string());
        }
        publish(&self.sheet, &self.link);
        self.shared.over.store(true, Release);
        // Nobody holds any more: a source that waits is told why it ended.
        let now = self.link.clock;
        self.lanes.iter_mut().for_each(|lane| lane.release(now, &self.sheet));
        // What was put into the rings in the meantime is as lost as what was there.
        let left: u64 = self.lanes.iter_mut().map(Lane::discard).sum();
        self.sheet.add(StcpSending::Lost as usize, left);
    }

    /// Aborts all streams. What the interface does not take at once is tried for a moment. If bytes were in flight, the peer may not have
    /// got an RST that it accepts: its next segment is answered with one, as long as the link lingers.
    fn close(&mut self) {
        let open = |s: &super::RawStream| {
            s.sender().state() == StcpState::Established && s.sender().used() > 0
        };
        let linger = self.link.streams().iter().any(open);
        (0..self.link.streams().len()).for_each(|at| self.link.abort(at));
        let begun = Instant::now();
        let limit = if linger { LINGER } else { PUBLISH };
        while begun.elapsed() < limit {
            match self.link.turn() {
                Ok(true) => {}
                Ok(false) if linger && self.link.wait(NAP).is_ok() => {}
                _ => break,
            }
        }
    }

    /// What was not acknowledged, and what was measured, before the last streams are closed.
    fn account(&mut self) {
        let (mut all, mut live) = (0, 0);
        let mut named = vec![];
        let mut parts = vec![];
        for (stream, ended) in self.link.streams().iter().zip(&self.ended) {
            let counted = stream.sender().memory().counted();
            let bytes = counted.fragment_bytes.saturating_sub(counted.acked_bytes);
            all += bytes;
            if ended.is_none() {
                live += bytes;
                if bytes > 0 {
                    let port = stream.ends().local_port;
                    named.push(format!("port {port}: {}", undelivered(stream, self.numbers)));
                }
                let packets = unacknowledged(stream);
                self.sheet.add(StcpSending::UnacknowledgedPackets as usize, packets);
            }
            parts.push(part(stream, ended.as_ref()));
        }
        self.sheet.set(StcpSending::Unacknowledged as usize, all);
        if live > 0 {
            let more = named.len().saturating_sub(NAMED);
            named.truncate(NAMED);
            if more > 0 {
                named.push(format!("and {more} ports more"));
            }
            let named = named.join("; ");
            self.shared.fail(format!("{live} bytes were not acknowledged at the end: {named}"));
        }
        if let Ok(mut place) = self.shared.parts.lock() {
            *place = parts;
        }
    }

    fn carry(&mut self) -> Result<(), String> {
        let mut published = Instant::now();
        while !self.shared.hurry.load(Acquire) {
            let finished = self.shared.finished.load(Acquire) >= self.lanes.len();
            let mut more = false;
            for lane in &mut self.lanes {
                let handed = lane.hand_over(&mut self.link, &self.sheet);
                more |= handed.map_err(|e| e.to_string())?;
            }
            let empty = self.lanes.iter().all(Lane::is_empty);
            if finished && empty {
                (0..self.link.streams().len()).for_each(|at| self.link.flush(at));
                if self.link.streams().iter().all(|s| s.sender().used() == 0) {
                    // An end that nobody has read is one of those that leave nothing in a buffer.
                    return self.notices();
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
                        let soft = self.link.stream(at).sender().memory().counted().icmp_soft > 0;
                        let why = words(why, soft).to_owned() + &taken.unwrap_or_default();
                        self.end(at, &why)?;
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

impl Carrier {
    /// A stream has ended: what it had not delivered is lost, and the others go on.
    ///
    /// # Errors
    /// There are no others, or not all were connected yet.
    fn end(&mut self, at: usize, why: &str) -> Result<(), String> {
        let stream = self.link.stream(at);
        let lost = unacknowledged(stream);
        let (port, left) = (stream.ends().local_port, undelivered(stream, self.numbers));
        let why = format!("the connection from port {port} ended: {why}; {left}");
        self.sheet.add(StcpSending::UnacknowledgedPackets as usize, lost);
        self.ended[at] = Some(why.clone());
        if self.ended.iter().all(Option::is_some) || !self.shared.connected.load(Acquire) {
            return Err(why);
        }
        eprintln!("fullcount: {}: {why}; the other connections go on", self.label);
        Ok(())
    }
}

/// Why a connection ended, for people. `soft`: ICMP came that ends nothing by itself.
fn words(why: fullcount_stcp::Ended, soft: bool) -> &'static str {
    use fullcount_stcp::Ended;
    match why {
        Ended::ConnectTimeout if soft => {
            "nobody answers; by ICMP, a router cannot reach the network or the host"
        }
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

#[cfg(test)]
mod tests {
    use fullcount_stcp::Ended;

    use super::words;

    #[test]
    fn what_icmp_said_is_told_when_the_syn_is_given_up() {
        assert!(words(Ended::ConnectTimeout, true).contains("ICMP"));
        assert!(words(Ended::ConnectTimeout, false).contains("firewall"));
        assert_eq!(words(Ended::Refused, true), words(Ended::Refused, false));
    }
}
