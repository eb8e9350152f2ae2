//! One stream: what the application calls. [`StcpSender::poll`] gives the segments to send, one at a time; it must be called until it
//! gives none after every other call, and again at [`StcpSender::deadline`].
//!
//! Bytes that were accepted reach the peer in order and once, or the connection ends with [`Notice::Aborted`].
//! Refuses: calls in the wrong state, fragments that do not fit. Source: docs/stcp.md.

mod ack;
mod input;
mod output;
mod timers;
mod types;

pub use input::stray_reset;
pub use types::{
    Accepted, Ended, MakeError, Notice, OpenError, Outbound, Pressure, Purpose, Snapshot,
    SubmitError,
};
use types::{Control, Throttle};

use crate::congestion::{Congestion, Place};
use crate::memory::StcpMemory;
use crate::rtt::RoundTrip;
use crate::settings::StcpSettings;
use crate::state::{Reaction, StcpState, Trigger, response};
use crate::wire::{TcpFlags, WireError};

/// A time that never comes.
pub(crate) const NEVER: u64 = u64::MAX;
const US: u64 = 1000;
/// ACKs and RSTs that can wait.
const CONTROLS: usize = 4;

/// Timers, as places in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timer {
    Syn,
    HalfOpen,
    Rto,
    Persist,
    Coalesce,
    Override,
    KeepAlive,
}
const TIMERS: usize = 7;

/// What is being repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recovery {
    No,
    /// After duplicate ACKs.
    Fast,
    /// After an expiry, one segment at a time.
    Timeout,
}

/// What is to be sent as soon as possible, and small marks.
#[derive(Debug, Clone, Copy, Default)]
struct Due {
    syn: bool,
    again: bool,
    probe: bool,
    keepalive: bool,
    /// A segment that the window keeps short may leave.
    short: bool,
    /// The neighbour is known.
    neighbour: bool,
    /// A SYN has left.
    syn_left: bool,
    half_open_used: bool,
    busy: bool,
    /// The peer's SYN+ACK has a window scale. Without it neither window is scaled (RFC 7323, section 2.2).
    scaled: bool,
    /// The retransmission now due follows an ACK that repaired one hole.
    partial: bool,
}

/// Bits of notices that wait, in the order in which they are told.
mod told {
    pub const CONNECTED: u8 = 1;
    pub const SMALL_MSS: u8 = 2;
    pub const SLOW: u8 = 4;
    pub const XOFF: u8 = 8;
    pub const XON: u8 = 16;
    pub const ACKED: u8 = 32;
    pub const ABORTED: u8 = 64;
}

/// The sender of one stream.
#[derive(Debug)]
pub struct StcpSender<M> {
    settings: StcpSettings,
    memory: M,
    rtt: RoundTrip,
    congestion: Congestion,
    timers: [u64; TIMERS],
    /// Oldest byte that is not acknowledged; offsets from here on.
    una: u64,
    /// Next to be sent; goes back when all is sent again.
    nxt: u64,
    /// Behind the last ever sent.
    max: u64,
    /// Behind the last submitted.
    end: u64,
    /// Right edge of the peer's window.
    edge: u64,
    /// ACK of the last window update.
    wl2: u64,
    flush_to: u64,
    recover: u64,
    /// Behind the segment whose round trip is being measured; 0: none is.
    timed_end: u64,
    /// When that left, or the SYN; in recovery, when the last repetition did.
    timed_at: u64,
    progress_at: u64,
    heard_at: u64,
    opened_at: u64,
    busy_since: u64,
    zero_since: u64,
    capacity: u32,
    iss: u32,
    rcv_nxt: u32,
    wl1: u32,
    max_wnd: u32,
    marks_head: u32,
    marks_len: u32,
    /// Of these, with nothing unsent.
    marks_sent: u32,
    controls: [Control; CONTROLS],
    challenges: Throttle,
    resets: Throttle,
    last_window: u16,
    mss: u16,
    dupacks: u8,
    expiries: u8,
    syn_tries: u8,
    persist_count: u8,
    keepalives: u8,
    controls_len: u8,
    scale: u8,
    notices: u8,
    state: StcpState,
    recovery: Recovery,
    ended: Option<Ended>,
    due: Due,
}

impl<M: StcpMemory> StcpSender<M> {
    /// A closed one.
    ///
    /// # Errors
    /// A setting out of range, or memory that is too small or no power of two.
    pub fn new(settings: StcpSettings, mut memory: M) -> Result<StcpSender<M>, MakeError> {
        settings.check().map_err(MakeError::Settings)?;
        let capacity = memory.capacity();
        if !capacity.is_power_of_two() || !(1024..=1 << 30).contains(&capacity) {
            return Err(MakeError::Memory(
                "the send buffer is not a power of two of 1024 to 2³⁰ bytes",
            ));
        }
        if memory.marks().is_empty() || memory.marks().len() > 1 << 30 {
            return Err(MakeError::Memory("marks of fragments: 1 to 2³⁰ are needed"));
        }
        Ok(StcpSender {
            congestion: Congestion::new(settings.strategy),
            settings,
            memory,
            rtt: RoundTrip::default(),
            timers: [NEVER; TIMERS],
            una: 0,
            nxt: 0,
            max: 0,
            end: 0,
            edge: 0,
            wl2: 0,
            flush_to: 0,
            recover: 0,
            timed_end: 0,
            timed_at: 0,
            progress_at: 0,
            heard_at: 0,
            opened_at: 0,
            busy_since: NEVER,
            zero_since: NEVER,
            capacity,
            iss: 0,
            rcv_nxt: 0,
            wl1: 0,
            max_wnd: 0,
            marks_head: 0,
            marks_len: 0,
            marks_sent: 0,
            controls: [Control::default(); CONTROLS],
            challenges: Throttle::default(),
            resets: Throttle::default(),
            last_window: 0,
            mss: settings.mss(),
            dupacks: 0,
            expiries: 0,
            syn_tries: 0,
            persist_count: 0,
            keepalives: 0,
            controls_len: 0,
            scale: 0,
            notices: 0,
            state: StcpState::Closed,
            recovery: Recovery::No,
            ended: None,
            due: Due::default(),
        })
    }

    /// Opens the connection with initial sequence number `iss`, which should come from [`initial_number`]. The SYN leaves once
    /// the neighbour is known: now, or with [`StcpSender::neighbour`].
    ///
    /// # Errors
    /// Already open.
    pub fn open(&mut self, now_ns: u64, iss: u32, neighbour_known: bool) -> Result<(), OpenError> {
        if response(self.state, Trigger::Open).reaction != Reaction::Begin {
            return Err(OpenError::AlreadyOpen);
        }
        self.una = 0;
        (self.nxt, self.max, self.end) = (0, 0, 0);
        (self.edge, self.wl2, self.flush_to, self.recover, self.timed_end) = (0, 0, 0, 0, 0);
        (self.max_wnd, self.scale, self.mss) = (0, 0, self.settings.mss());
        (self.dupacks, self.expiries, self.syn_tries, self.keepalives) = (0, 0, 0, 0);
        (self.marks_head, self.marks_len, self.marks_sent) = (0, 0, 0);
        (self.controls_len, self.notices, self.ended) = (0, 0, None);
        self.rtt = RoundTrip::default();
        self.congestion = Congestion::new(self.settings.strategy);
        self.recovery = Recovery::No;
        self.due = Due::default();
        (self.busy_since, self.zero_since) = (NEVER, NEVER);
        self.iss = iss;
        self.opened_at = now_ns;
        self.state = StcpState::SynSent;
        if neighbour_known {
            self.neighbour(now_ns, true);
        }
        Ok(())
    }

    /// The neighbour's address is known now, or nobody answers.
    pub fn neighbour(&mut self, now_ns: u64, reachable: bool) {
        if reachable {
            if self.state == StcpState::SynSent && !self.due.neighbour {
                self.due.neighbour = true;
                self.opened_at = now_ns;
                self.timers[Timer::Syn as usize] = now_ns;
            }
            return;
        }
        match response(self.state, Trigger::NeighbourLost).reaction {
            Reaction::Unreachable => self.end(now_ns, Ended::HostUnreachable),
            Reaction::KeepTrying => self.memory.counters().no_neighbour += 1,
            _ => {}
        }
    }

    /// Takes a whole fragment, or none of it. Busy is raised before this returns.
    ///
    /// # Errors
    /// See [`SubmitError`]; nothing was taken.
    pub fn submit(&mut self, now_ns: u64, fragment: &[u8]) -> Result<Accepted, SubmitError> {
        self.submit_in_place(now_ns, fragment.len(), |first, second| {
            let (begin, rest) = fragment.split_at(first.len().min(fragment.len()));
            first[..begin.len()].copy_from_slice(begin);
            let most = rest.len().min(second.len());
            second[..most].copy_from_slice(&rest[..most]);
        })
    }

    /// The same for a source that makes its `length` bytes where they leave from: `make` writes them, in two parts where they go round the end of the
    /// buffer. It is called if the fragment is taken; the parts hold bytes of earlier fragments.
    ///
    /// # Errors
    /// See [`SubmitError`]; nothing was taken.
    pub fn submit_in_place(
        &mut self,
        now_ns: u64,
        length: usize,
        make: impl FnOnce(&mut [u8], &mut [u8]),
    ) -> Result<Accepted, SubmitError> {
        if response(self.state, Trigger::Submit).reaction != Reaction::Take {
            return Err(SubmitError::NotConnected);
        }
        let length = length as u64;
        if length > u64::from(self.capacity) {
            return Err(SubmitError::TooLong);
        }
        if self.used() + length > u64::from(self.capacity) {
            self.memory.counters().would_block += 1;
            self.raise_busy(now_ns);
            return Err(SubmitError::WouldBlock);
        }
        if length > 0 {
            let (first, second) = self.memory.room(self.end, length as u32);
            make(first, second);
            self.end += length;
            self.mark(now_ns);
            let counters = self.memory.counters();
            counters.fragments += 1;
            counters.fragment_bytes += length;
        }
        if self.used() >= self.high() || !self.next_fits() {
            self.raise_busy(now_ns);
        }
        Ok(Accepted { end: self.end, pressure: self.pressure() })
    }

    /// What was submitted so far leaves without waiting for more.
    pub fn flush(&mut self) {
        match response(self.state, Trigger::Flush).reaction {
            Reaction::Remember | Reaction::PushTail => self.flush_to = self.end,
            _ => {}
        }
    }

    /// Ends the connection; what is not acknowledged is dropped.
    pub fn abort(&mut self, now_ns: u64) {
        match response(self.state, Trigger::Abort).reaction {
            Reaction::Leave => self.end(now_ns, Ended::LocalAbort),
            Reaction::LocalAbort => self.abort_for(now_ns, Ended::LocalAbort),
            _ => {}
        }
    }

    /// Level of the buffer.
    pub fn pressure(&self) -> Pressure {
        if self.state == StcpState::Closed {
            Pressure::Error
        } else if self.due.busy {
            Pressure::Busy
        } else if self.used() > u64::from(self.capacity) / 4 * 3 {
            Pressure::Warning
        } else {
            Pressure::Ready
        }
    }

    /// The next notice.
    pub fn notice(&mut self) -> Option<Notice> {
        let bit = 1u8.checked_shl(self.notices.trailing_zeros())?;
        self.notices &= !bit;
        Some(match bit {
            told::CONNECTED => Notice::Connected,
            told::SMALL_MSS => Notice::SmallMss,
            told::SLOW => Notice::Slow,
            told::XOFF => Notice::Xoff,
            told::XON => Notice::Xon,
            told::ACKED => Notice::Acked(self.una),
            _ => Notice::Aborted(self.ended?),
        })
    }

    /// When [`StcpSender::poll`] must be called again at the latest, ns.
    pub fn deadline(&self) -> Option<u64> {
        self.timers.iter().copied().min().filter(|&at| at != NEVER)
    }

    /// State.
    pub fn state(&self) -> StcpState {
        self.state
    }

    /// Settings.
    pub fn settings(&self) -> &StcpSettings {
        &self.settings
    }

    /// Memory, with the counters.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Memory, with the counters.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// A frame for this stream was refused.
    pub fn refused(&mut self, error: WireError) {
        self.memory.counters().refused[error as usize] += 1;
    }

    /// Bytes in the send buffer.
    pub fn used(&self) -> u64 {
        self.end - self.una
    }

    /// Bytes that one more fragment may have now.
    pub fn room(&self) -> u64 {
        u64::from(self.capacity) - self.used()
    }

    /// What it is like now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            state: self.state,
            una: self.una,
            nxt: self.nxt,
            max: self.max,
            end: self.end,
            window: self.edge.saturating_sub(self.una),
            max_wnd: self.max_wnd,
            cwnd: self.congestion.window(self.max_wnd, self.mss),
            shift: self.congestion.shift(),
            mss: self.mss,
            rtt: self.rtt,
            rto_ns: self.rtt.rto_ns(&self.settings),
        }
    }

    fn high(&self) -> u64 {
        u64::from(self.capacity) * u64::from(self.settings.high_mark) / 256
    }

    fn next_fits(&self) -> bool {
        u64::from(self.settings.largest_fragment) <= self.room()
    }

    fn raise_busy(&mut self, now_ns: u64) {
        if self.due.busy {
            return;
        }
        self.due.busy = true;
        self.busy_since = now_ns;
        self.memory.counters().xoff += 1;
        // An Xon that nobody has read is overtaken by this.
        match self.notices & told::XON {
            0 => self.notices |= told::XOFF,
            _ => self.notices &= !told::XON,
        }
    }

    /// Room may have been made.
    fn relax(&mut self, now_ns: u64) {
        let low = u64::from(self.capacity) * u64::from(self.settings.low_mark) / 256;
        if self.due.busy && self.used() <= low && self.next_fits() {
            self.due.busy = false;
            self.notices |= told::XON;
            self.memory.counters().busy_ns += now_ns.saturating_sub(self.busy_since);
        }
    }

    fn mark(&mut self, now_ns: u64) {
        let (head, end) = (self.marks_head, self.end);
        let marks = self.memory.marks();
        let all = marks.len() as u32;
        // Both are below `all`, so that no division is needed.
        let round = |at: u32| if at >= all { at - all } else { at };
        if self.marks_len < all {
            let at = round(head + self.marks_len);
            marks[at as usize] = crate::FragmentMark { end, at_ns: now_ns, fragments: 1 };
            self.marks_len += 1;
        } else {
            let last = round(head + self.marks_len - 1);
            let shared = &mut marks[last as usize];
            shared.end = end;
            shared.fragments = shared.fragments.saturating_add(1);
            self.marks_sent = self.marks_sent.min(self.marks_len - 1);
            self.memory.counters().marks_merged += 1;
        }
    }

    fn place(&self) -> Place {
        Place { una: self.una, max: self.max, mss: self.mss }
    }

    fn number(&self, offset: u64) -> u32 {
        self.iss.wrapping_add(1).wrapping_add(offset as u32)
    }

    fn control(&mut self, seq: u32, ack: u32, flags: TcpFlags) {
        match self.controls.get_mut(usize::from(self.controls_len)) {
            Some(place) => {
                *place = Control { seq, ack, flags };
                self.controls_len += 1;
            }
            None => self.memory.counters().dropped_controls += 1,
        }
    }

    /// RST at the last byte sent and, with anything in flight, at the first: the peer expects one of the two unless a
    /// hole lies between, and then its next segment draws the right one.
    fn abort_for(&mut self, now_ns: u64, why: Ended) {
        self.controls_len = 0;
        let flags = TcpFlags::RST.and(TcpFlags::ACK);
        self.control(self.number(self.max), self.rcv_nxt, flags);
        self.memory.counters().resets_out += 1;
        if self.una != self.max {
            self.control(self.number(self.una), self.rcv_nxt, flags);
            self.memory.counters().resets_out += 1;
        }
        self.end(now_ns, why);
    }

    fn end(&mut self, now_ns: u64, why: Ended) {
        if self.due.busy {
            self.memory.counters().busy_ns += now_ns.saturating_sub(self.busy_since);
        }
        if self.zero_since != NEVER {
            self.memory.counters().zero_window_ns += now_ns.saturating_sub(self.zero_since);
        }
        self.state = StcpState::Closed;
        self.timers = [NEVER; TIMERS];
        self.due = Due::default();
        (self.nxt, self.max, self.end, self.marks_len, self.marks_sent) =
            (self.una, self.una, self.una, 0, 0);
        self.ended = Some(why);
        self.notices |= told::ABORTED;
    }
}

/// Initial sequence number: a clock of 4 µs and a keyed hash of the two ends (RFC 6528). `key` is a secret of this host.
pub fn initial_number(now_ns: u64, ends: &crate::wire::Addresses, key: [u64; 2]) -> u32 {
    let from = |a: [u8; 4], p: u16| u64::from(u32::from_be_bytes(a)) << 16 | u64::from(p);
    let words = [from(ends.local, ends.local_port), from(ends.remote, ends.remote_port)];
    (siphash(key, words) as u32).wrapping_add((now_ns / 4000) as u32)
}

/// SipHash-2-4 of two words (J.-P. Aumasson and D. J. Bernstein, 2012).
fn siphash(key: [u64; 2], words: [u64; 2]) -> u64 {
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    fn round(v: &mut [u64; 4]) {
        v[0] = v[0].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(13) ^ v[0];
        v[0] = v[0].rotate_left(32);
        v[2] = v[2].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(16) ^ v[2];
        v[0] = v[0].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(21) ^ v[0];
        v[2] = v[2].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(17) ^ v[2];
        v[2] = v[2].rotate_left(32);
    }
    for word in [words[0], words[1], 16 << 56] {
        v[3] ^= word;
        round(&mut v);
        round(&mut v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    for _ in 0..4 {
        round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}
