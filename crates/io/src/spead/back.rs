//! The back-channel over UDP: a receiver reports and asks for packets again, a sender tunes its rate and says in the end what it sent.
//!
//! The receiver sends its messages to the address that the sender listens at; the sender answers to where reports came from. A lost
//! message costs nothing but time: reports are totals. Messages that are none are counted. It trusts whoever can reach the sender's
//! address: bind it to a network that you trust. Source: `docs/formats/spead.md`, section 20.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::mpsc;

use fullcount_core::refusal::Refusal;
use fullcount_spead::HeapReceiver;
use fullcount_spead::feedback::{
    FeedbackMessage, GapConfig, GapWatch, RateTuner, SentSoFar, TunerConfig, TunerDecision,
};
use fullcount_spead::send::HeapSender;

/// Between two reports, ns.
const REPORT_NS: u64 = 50_000_000;
/// Between two looks for messages at the sender, ns.
const LISTEN_NS: u64 = 2_000_000;
/// Longest message.
const LONGEST: usize = 2048;

/// The back-channel could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("feedback {address}: {what}: {cause}")]
pub struct BackError {
    /// Of the sender.
    pub address: SocketAddr,
    /// What was being done.
    pub what: &'static str,
    /// The system's answer.
    pub cause: io::Error,
}

/// The receiver's end.
#[derive(Debug)]
pub struct BackChannel {
    socket: UdpSocket,
    to: SocketAddr,
    gaps: Option<GapWatch>,
    /// Other readers may bring other senders.
    beside_others: bool,
    reported_ns: Option<u64>,
    reports: u64,
    requests: u64,
    error: Option<BackError>,
}

impl BackChannel {
    /// Reports to a sender that listens there; with `resend` missing packets are asked for.
    ///
    /// # Errors
    /// The system's answer.
    pub fn to(to: SocketAddr, resend: bool) -> Result<BackChannel, BackError> {
        let failed = |what| move |cause| BackError { address: to, what, cause };
        let any: SocketAddr = match to.is_ipv6() {
            true => (Ipv6Addr::UNSPECIFIED, 0).into(),
            false => (Ipv4Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any).map_err(failed("opening a socket"))?;
        socket.connect(to).map_err(failed("no way there"))?;
        socket.set_nonblocking(true).map_err(failed("opening a socket"))?;
        let gaps = resend.then(|| GapWatch::new(GapConfig::default()));
        Ok(BackChannel {
            socket,
            to,
            gaps,
            beside_others: false,
            reported_ns: None,
            reports: 0,
            requests: 0,
            error: None,
        })
    }

    /// Of a stream with several readers: the totals of one sender say nothing about what is lost.
    pub(super) fn beside_others(self) -> BackChannel {
        BackChannel { beside_others: true, ..self }
    }

    /// Reports and requests that are due; totals that came.
    pub(super) fn tell(&mut self, stream: &mut HeapReceiver, now_ns: u64) {
        self.listen(stream);
        if self.reported_ns.is_none_or(|last| now_ns.saturating_sub(last) >= REPORT_NS) {
            self.reported_ns = Some(now_ns);
            self.reports += 1;
            let report = FeedbackMessage::Report(stream.report(now_ns));
            self.put(&report);
        }
        if let Some(mut gaps) = self.gaps.take() {
            for request in gaps.requests(stream, now_ns) {
                self.requests += 1;
                self.put(&FeedbackMessage::Resend(request));
            }
            self.gaps = Some(gaps);
        }
    }

    fn put(&mut self, message: &FeedbackMessage) {
        if let Err(cause) = self.socket.send(&message.emit()) {
            // Nobody listens yet, or any more: the next report says more than this one.
            self.error = Some(BackError { address: self.to, what: "sending", cause });
        }
    }

    /// Totals of the sender, if they have come. With several senders, those of one say nothing about what is lost.
    pub(super) fn listen(&mut self, stream: &mut HeapReceiver) {
        let senders = stream.config().stops.max(stream.config().readers);
        let alone = senders <= 1 && !self.beside_others;
        let mut slot = [0; LONGEST];
        // Bounded: what comes faster than this is no sender of ours.
        for _ in 0..64 {
            let Ok(many) = self.socket.recv(&mut slot) else { return };
            if let Ok(FeedbackMessage::Totals(totals)) = FeedbackMessage::parse(&slot[..many])
                && alone
            {
                stream.sender_said(totals);
            }
        }
    }

    /// Reports and requests so far.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.reports, self.requests)
    }

    /// What went wrong last.
    pub fn error(&self) -> Option<&BackError> {
        self.error.as_ref()
    }

    /// For people.
    pub fn describe(&self) -> Vec<String> {
        let asks = if self.gaps.is_some() { ", and asks for missing packets" } else { "" };
        vec![format!("reports to {} every 50 ms{asks}", self.to)]
    }
}

/// What came over a sender's back-channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackCounts {
    /// Reports.
    pub reports: u64,
    /// Requests.
    pub requests: u64,
    /// Packets that will be sent again.
    pub packets_again: u64,
    /// Requests that could not be answered: the heap is not kept any more.
    pub refused: u64,
    /// Datagrams that are no message.
    pub foreign: u64,
}

/// The sender's end.
#[derive(Debug)]
pub struct SenderSide {
    socket: UdpSocket,
    tuner: Option<RateTuner>,
    peer: Option<SocketAddr>,
    /// By the first report: heaps that the receiver had of earlier senders, at least. By the last one: all that have ended there.
    ended_heaps: Option<(u64, u64)>,
    listened_ns: u64,
    counts: BackCounts,
    log: VecDeque<TunerDecision>,
    forgotten: u64,
    teller: Option<mpsc::Sender<TunerDecision>>,
}

/// Decisions that the log keeps.
const MOST_LOG: usize = 10_000;

impl SenderSide {
    /// Listens there; with `tune` the rate follows the reports.
    ///
    /// # Errors
    /// The system's answer, or a setting outside its range.
    pub fn listen(
        at: SocketAddr,
        tune: Option<TunerConfig>,
    ) -> Result<SenderSide, SenderSideError> {
        let failed = |what| move |cause| BackError { address: at, what, cause };
        let socket = UdpSocket::bind(at).map_err(failed("listening"))?;
        socket.set_nonblocking(true).map_err(failed("listening"))?;
        let tuner = tune.map(|config| RateTuner::new(config, 0)).transpose()?;
        let counts = BackCounts::default();
        Ok(SenderSide {
            socket,
            tuner,
            peer: None,
            ended_heaps: None,
            listened_ns: 0,
            counts,
            log: VecDeque::new(),
            forgotten: 0,
            teller: None,
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system's answer.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Messages that came, and what follows from them.
    pub(super) fn poll(&mut self, sender: &mut HeapSender, now_ns: u64) {
        if now_ns.saturating_sub(self.listened_ns) < LISTEN_NS {
            return;
        }
        self.listened_ns = now_ns;
        let mut slot = [0; LONGEST];
        for _ in 0..256 {
            let Ok((many, from)) = self.socket.recv_from(&mut slot) else { break };
            match FeedbackMessage::parse(&slot[..many]) {
                Ok(FeedbackMessage::Report(report)) => {
                    self.counts.reports += 1;
                    self.peer = Some(from);
                    let (ended, sent) = (report.ended_heaps, sender.totals().heaps);
                    let (before, last) =
                        self.ended_heaps.unwrap_or((ended.saturating_sub(sent), 0));
                    // Reports may overtake each other.
                    self.ended_heaps = Some((before, last.max(ended)));
                    if let Some(tuner) = &mut self.tuner {
                        let bytes = sender.counts().packet_bytes;
                        let sent = SentSoFar { bytes, behind_ns: sender.behind_ns(now_ns) };
                        tuner.report(now_ns, report, sent);
                    }
                }
                Ok(FeedbackMessage::Resend(request)) => {
                    self.counts.requests += 1;
                    match sender.resend(request.cnt, &request.ranges) {
                        Ok(packets) => self.counts.packets_again += packets as u64,
                        Err(_) => self.counts.refused += 1,
                    }
                }
                Ok(FeedbackMessage::Totals(_)) | Err(_) => self.counts.foreign += 1,
            }
        }
        if let Some(tuner) = &mut self.tuner {
            tuner.tick(now_ns);
            sender.set_pace(tuner.rate(), tuner.burst_size());
            while let Some(decision) = tuner.pop_decision() {
                if self.log.len() == MOST_LOG {
                    self.log.pop_front();
                    self.forgotten += 1;
                }
                self.log.push_back(decision);
                // Whoever was told may have gone.
                self.teller = self.teller.take().filter(|teller| teller.send(decision).is_ok());
            }
        }
    }

    /// Says what was sent.
    pub(super) fn say_totals(&self, sender: &HeapSender) {
        if let Some(peer) = self.peer {
            // If it is lost, the receiver says "unknown".
            let _ = self.socket.send_to(&FeedbackMessage::Totals(sender.totals()).emit(), peer);
        }
    }

    /// The receiver has said that so many heaps of this sender have ended there.
    pub(super) fn has_ended(&self, heaps: u64) -> bool {
        self.ended_heaps.is_some_and(|(before, ended)| ended - before.min(ended) >= heaps)
    }

    /// What came.
    pub fn counts(&self) -> BackCounts {
        self.counts
    }

    /// Rate that the tuner holds, SPEAD bytes/s.
    pub fn rate(&self) -> Option<f64> {
        self.tuner.as_ref().map(RateTuner::rate)
    }

    /// The newest 10,000 decisions of the tuner with their reasons, oldest first.
    pub fn log(&self) -> impl ExactSizeIterator<Item = &TunerDecision> {
        self.log.iter()
    }

    /// Older decisions, which the log does not keep.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Each decision from here on goes there when it is made: a few a second at most.
    pub fn tell_decisions(&mut self, teller: mpsc::Sender<TunerDecision>) {
        self.teller = Some(teller);
    }
}

/// Why a sender's back-channel could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum SenderSideError {
    /// The system's answer.
    #[error(transparent)]
    Open(#[from] BackError),
    /// A setting.
    #[error(transparent)]
    Refused(#[from] Refusal),
}
