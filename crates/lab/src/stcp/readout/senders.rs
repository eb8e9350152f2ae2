//! Who sends in a trial of the readout unit: threads that write fragments built before to Linux sockets, or one thread that drives streams
//! of the simplified TCP on a link of their own.
//!
//! All streams end with the same event. Refuses a connection that is not made, and a stream of the simplified TCP that ends otherwise than by
//! its reader. Source: `docs/fragments.md`.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, anyhow};
use fullcount_core::simulator::Traffic;
use fullcount_io::raw::RawLink;
use fullcount_sim::fragments::{FragmentTraffic, FragmentsSetup};
use fullcount_stcp::{Ended, StcpSettings, StcpState, Strategy, SubmitError};

use super::ReadoutTrial;
use super::site::ReadoutSite;
use crate::error::LabError;
use crate::stcp::live::sender::{LiveSender, abort, connect, step};
use crate::stcp::live::tape::FrameTape;
use crate::stcp::live::trial::settings;

/// Threads that write to sockets; each serves its share of the streams in turn.
const THREADS: usize = 4;
/// Bytes that are sent of one source before the next one's turn: they must fit into the buffers on the way, since the unit pauses a source
/// that is ahead.
const ROW_BYTES: usize = 64 << 10;
/// Fragments of such a row to a Linux socket at most. The simplified TCP has as many as the traffic makes: up to 32.
const IN_A_ROW: usize = 8;

/// How far any thread has begun to send, so that all can end with the same event.
#[derive(Debug, Default)]
struct CommonEnd {
    stop: bool,
    /// Somebody sends event `begun - 1`.
    begun: u64,
}

/// Threads that send until they are told to stop.
pub struct ReadoutSenders {
    end: Arc<Mutex<CommonEnd>>,
    threads: Vec<JoinHandle<Result<(), LabError>>>,
}

impl ReadoutSenders {
    /// Starts them towards the reader at `to`; frames of the simplified TCP go to the tape.
    ///
    /// # Errors
    /// The interface.
    pub fn start(
        to: SocketAddr,
        trial: &ReadoutTrial,
        (site, tape): (&ReadoutSite, &Arc<FrameTape>),
    ) -> Result<ReadoutSenders, LabError> {
        let end = Arc::<Mutex<CommonEnd>>::default();
        let (streams, size) = (trial.streams as u16, trial.fragment);
        let threads = match (site, trial.sender) {
            (ReadoutSite::Link(place), LiveSender::Simplified { driver, .. }) => {
                let link = place.link(driver, |setup| trial.sender.set_up(setup))?;
                let traffic = traffic((0..streams).collect(), size);
                let settings = settings(trial.mtu, traffic.largest_packet(), Strategy::SIMPLIFIED);
                let lanes = SimplifiedLanes { link, to, settings, buffer: trial.buffer };
                let (tape, end) = (tape.clone(), end.clone());
                vec![std::thread::spawn(move || lanes.send(traffic, &tape, &end))]
            }
            _ => {
                let count = THREADS.min(trial.streams);
                let ready = Arc::new(Barrier::new(count));
                let share = |n: usize| {
                    let own = |s: &u16| usize::from(*s) % THREADS == n;
                    let sources: Vec<u16> = (0..streams).filter(own).collect();
                    let (end, ready) = (end.clone(), ready.clone());
                    std::thread::spawn(move || write(to, traffic(sources, size), (&ready, &end)))
                };
                (0..count).map(share).collect()
            }
        };
        Ok(ReadoutSenders { end, threads })
    }

    /// Tells them to end, all with the same event.
    pub fn stop(&self) {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).stop = true;
    }

    /// Whether one has ended by itself while the reader is there.
    pub fn failed(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Ends them; the reader is gone, so that none of them waits. What it came to, unless a sender failed or somebody wanted the end.
    ///
    /// # Errors
    /// A sender's, before the reader's.
    pub fn end_after<T>(
        self,
        read: Result<T, LabError>,
        stop: &dyn Fn() -> bool,
    ) -> Result<T, LabError> {
        self.stop();
        for thread in self.threads {
            thread.join().map_err(|_| anyhow!("a sender panicked"))??;
        }
        if stop() {
            return Err(anyhow!("interrupted").into());
        }
        read
    }
}

fn traffic(sources: Vec<u16>, size: usize) -> FragmentTraffic {
    let setup = FragmentsSetup { sources, size, first: 0, wrong_crc: 0, throttling: 8, seed: 1 };
    FragmentTraffic::new(&setup)
}

/// Whether the next event, number `next`, is not to be sent any more. Asked once all lanes of a thread have the events before it: rows are
/// as long in all threads.
fn is_over(end: &Mutex<CommonEnd>, next: u64) -> bool {
    let mut end = end.lock().unwrap_or_else(PoisonError::into_inner);
    if end.stop && next >= end.begun {
        return true;
    }
    end.begun = end.begun.max(next + 1);
    false
}

/// Writes fragments to a socket for each lane, from when all threads are ready until somebody says stop or hangs up.
fn write(
    to: SocketAddr,
    mut traffic: FragmentTraffic,
    (ready, end): (&Barrier, &Mutex<CommonEnd>),
) -> Result<(), LabError> {
    let connected: Result<Vec<TcpStream>, _> =
        (0..traffic.lanes()).map(|_| TcpStream::connect(to)).collect();
    ready.wait();
    let mut lanes = connected.context("connecting to the reader")?;
    let packets = lanes.len() * (ROW_BYTES / traffic.largest_packet()).clamp(1, IN_A_ROW);
    loop {
        let sent = traffic.totals();
        if sent.packets == sent.events * lanes.len() as u64 && is_over(end, sent.events) {
            return Ok(());
        }
        let Some(train) = traffic.next_train(packets, 0) else { return Ok(()) };
        if lanes[train.lane].write_all(train.bytes).is_err() {
            return Ok(());
        }
    }
}

/// Streams of the simplified TCP that are still to be opened.
struct SimplifiedLanes {
    link: RawLink,
    to: SocketAddr,
    settings: StcpSettings,
    /// Send buffer of each, bytes.
    buffer: usize,
}

impl SimplifiedLanes {
    /// Sends on a stream for each lane until somebody says stop or hangs up, and ends each stream with its RST.
    fn send(
        mut self,
        mut traffic: FragmentTraffic,
        tape: &FrameTape,
        end: &Mutex<CommonEnd>,
    ) -> Result<(), LabError> {
        tape.lend(&mut self.link);
        let sent = self.send_all(&mut traffic, end);
        tape.take_back(&mut self.link);
        sent
    }

    fn send_all(
        &mut self,
        traffic: &mut FragmentTraffic,
        end: &Mutex<CommonEnd>,
    ) -> Result<(), LabError> {
        let SocketAddr::V4(to) = self.to else { return Err(anyhow!("an IPv4 address").into()) };
        let (peer, link) = ((to.ip().octets(), to.port()), &mut self.link);
        let lanes = connect(link, peer, traffic.lanes(), self.settings, self.buffer)?;
        submit(link, &lanes, traffic, end)?;
        // What was taken is delivered first; a reader that is gone takes none of it.
        lanes.iter().for_each(|&at| link.flush(at));
        let waits = |link: &RawLink, at: usize| {
            let sender = link.stream(at).sender();
            sender.state() == StcpState::Established && sender.used() > 0
        };
        while lanes.iter().any(|&at| waits(link, at)) {
            step(link, false)?;
        }
        abort(link, &lanes)
    }
}

/// Submits fragments until somebody says stop, or a stream has ended.
fn submit(
    link: &mut RawLink,
    lanes: &[usize],
    traffic: &mut FragmentTraffic,
    end: &Mutex<CommonEnd>,
) -> Result<(), LabError> {
    let packets = lanes.len() * (ROW_BYTES / traffic.largest_packet()).max(1);
    loop {
        let sent = traffic.totals();
        if sent.packets == sent.events * lanes.len() as u64 {
            if is_over(end, sent.events) {
                return Ok(());
            }
            step(link, true)?;
        }
        let Some(train) = traffic.next_train(packets, 0) else { return Ok(()) };
        for fragment in train.bytes.chunks_exact(train.stride) {
            loop {
                match link.submit(lanes[train.lane], fragment) {
                    Ok(_) => break,
                    Err(SubmitError::WouldBlock) => step(link, false)?,
                    Err(_) => return hung_up(link, lanes[train.lane]),
                }
            }
        }
    }
}

/// A stream that takes no more has ended: by its reader, or there is something wrong.
fn hung_up(link: &mut RawLink, at: usize) -> Result<(), LabError> {
    match link.ended(at) {
        Some(Ended::PeerClosed | Ended::ResetByPeer) => Ok(()),
        why => Err(anyhow!("stream {at} of the simplified TCP ended: {why:?}").into()),
    }
}

#[cfg(test)]
mod tests {
    use fullcount_io::raw::{Driver, RawSetup};

    use super::*;

    /// Over a link in memory, to nobody.
    #[test]
    fn a_stream_that_its_reader_did_not_end_is_an_error() {
        let setup = RawSetup::new("none", Driver::Packet, [10, 0, 0, 9]);
        let mut link = RawLink::in_memory(setup).unwrap();
        let settings = settings(9000, 100, Strategy::SIMPLIFIED);
        let at = link.add(([10, 0, 0, 2], 5000), 10, settings, 1 << 17).unwrap();
        link.abort(at);
        let end = Mutex::new(CommonEnd::default());
        let said = submit(&mut link, &[at], &mut traffic(vec![0], 64), &end).unwrap_err();
        assert!(said.to_string().contains("LocalAbort"), "{said}");
    }

    #[test]
    fn a_sender_that_fails_is_told_before_what_the_reader_says() {
        let senders = |what: Result<(), LabError>| ReadoutSenders {
            end: Arc::default(),
            threads: vec![std::thread::spawn(|| what)],
        };
        let read = || Err::<(), LabError>(anyhow!("nothing came").into());
        let gone = || Err(anyhow!("no interface").into());
        let said = |of: Result<(), LabError>| of.unwrap_err().to_string();
        assert_eq!(said(senders(gone()).end_after(read(), &|| true)), "no interface");
        assert_eq!(said(senders(Ok(())).end_after(read(), &|| true)), "interrupted");
        assert_eq!(said(senders(Ok(())).end_after(read(), &|| false)), "nothing came");
    }
}
