//! What a sender may be told, with three profiles: default, `rfc` and `daq`. Times are in µs, sizes in bytes.
//!
//! Refuses: see [`SettingsError`]. Source: docs/stcp.md, "Settings".

use crate::congestion::Strategy;

/// When a short segment at the end of what was submitted may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coalescing {
    /// When everything before it is acknowledged.
    Nagle,
    /// At once.
    NoDelay,
    /// As with Nagle, and at most so many µs after its oldest byte was submitted.
    Within(u32),
}

/// What is sent again when the retransmission timer expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resend {
    /// Everything that is not acknowledged, inside the windows.
    GoBackN,
    /// One segment, then one for each ACK that advances.
    First,
}

/// Where the retransmission time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RtoMode {
    /// Measured round trips (RFC 6298), doubled on expiry.
    Adaptive,
    /// So many µs, doubled on expiry, the same again after any progress.
    Fixed(u32),
    /// So many µs, always. For experiments: the network may collapse.
    Rigid(u32),
}

/// What is done with data or a FIN of a peer that should send neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerPolicy {
    /// RST, and the connection ends.
    Abort,
    /// Data is counted, a FIN acknowledged; sending goes on.
    Tolerate,
}

/// Settings of one sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StcpSettings {
    /// Longest IP packet, bytes: 576 to 9000.
    pub mtu: u16,
    /// Window field of every segment but a RST; the peer sends nothing, so its size does not matter, but 0 would keep its FIN back.
    pub rcv_wnd: u16,
    /// Window scale that the SYN offers: 0 to 14.
    pub ws_local: u8,
    /// Duplicate ACKs that start a fast retransmission; 0: never.
    pub dupack_threshold: u8,
    /// Share of the buffer where busy is raised, in 1/256.
    pub high_mark: u8,
    /// Share of the buffer where ready comes back, in 1/256.
    pub low_mark: u8,
    /// Longest fragment that will be submitted, bytes: busy is raised when it would not fit any more; 0: not known.
    pub largest_fragment: u32,
    /// Short segments.
    pub coalescing: Coalescing,
    /// Retransmission time.
    pub rto: RtoMode,
    /// Least retransmission time, µs.
    pub rto_min_us: u32,
    /// Greatest, µs.
    pub rto_max_us: u32,
    /// Before the first measurement, µs.
    pub rto_initial_us: u32,
    /// What the timer sends again.
    pub resend: Resend,
    /// Congestion control.
    pub strategy: Strategy,
    /// First interval of probes of a closed window, µs; 0: the retransmission time.
    pub persist_min_us: u32,
    /// Greatest, µs.
    pub persist_max_us: u32,
    /// Without any answer for so long the peer is dead, µs.
    pub persist_give_up_us: u32,
    /// A segment that the window keeps short leaves after so long, µs.
    pub sws_override_us: u32,
    /// First interval of SYNs, µs.
    pub syn_initial_us: u32,
    /// Without connection for so long: ConnectTimeout, µs.
    pub syn_give_up_us: u32,
    /// SYN again after the RST to a half-open peer, µs.
    pub half_open_retry_us: u32,
    /// Without progress for so long: SendTimeout, µs (RFC 1122: R2).
    pub give_up_us: u32,
    /// Retransmissions of the same bytes before [`crate::Notice::Slow`] (RFC 1122: R1).
    pub warn_after: u8,
    /// Keep-alive after so much idle time, µs; 0: never.
    pub keepalive_idle_us: u32,
    /// Interval of keep-alive probes, µs.
    pub keepalive_interval_us: u32,
    /// Probes without answer until the peer is dead.
    pub keepalive_probes: u8,
    /// Challenge ACKs a second, and ten times as many RSTs in CLOSED.
    pub challenge_rate: u8,
    /// A FIN from the peer.
    pub on_fin: PeerPolicy,
    /// Data from the peer.
    pub on_data: PeerPolicy,
}

impl Default for StcpSettings {
    fn default() -> StcpSettings {
        StcpSettings {
            mtu: 9000,
            rcv_wnd: 65535,
            ws_local: 0,
            dupack_threshold: 3,
            high_mark: 224,
            low_mark: 128,
            largest_fragment: 0,
            coalescing: Coalescing::Nagle,
            rto: RtoMode::Adaptive,
            rto_min_us: 200_000,
            rto_max_us: 60_000_000,
            rto_initial_us: 1_000_000,
            resend: Resend::GoBackN,
            strategy: Strategy::SIMPLIFIED,
            persist_min_us: 0,
            persist_max_us: 60_000_000,
            persist_give_up_us: 100_000_000,
            sws_override_us: 200_000,
            syn_initial_us: 1_000_000,
            syn_give_up_us: 180_000_000,
            half_open_retry_us: 10_000,
            give_up_us: 100_000_000,
            warn_after: 3,
            keepalive_idle_us: 0,
            keepalive_interval_us: 75_000_000,
            keepalive_probes: 9,
            challenge_rate: 10,
            on_fin: PeerPolicy::Abort,
            on_data: PeerPolicy::Abort,
        }
    }
}

/// Why settings cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingsError {
    /// Which.
    pub key: &'static str,
    /// Its value.
    pub value: u64,
    /// What it may be.
    pub allowed: &'static str,
}

impl core::fmt::Display for SettingsError {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(to, "{} = {} is not {}", self.key, self.value, self.allowed)
    }
}

impl core::error::Error for SettingsError {}

impl StcpSettings {
    /// For a quick and quiet network of its own: short times throughout.
    pub fn daq() -> StcpSettings {
        StcpSettings {
            ws_local: 1,
            coalescing: Coalescing::Within(1000),
            rto_min_us: 5000,
            rto_max_us: 1_000_000,
            rto_initial_us: 100_000,
            persist_min_us: 5000,
            persist_max_us: 100_000,
            persist_give_up_us: 7_000_000,
            sws_override_us: 10_000,
            syn_initial_us: 2_000_000,
            syn_give_up_us: 7_000_000,
            give_up_us: 7_000_000,
            keepalive_idle_us: 10_000_000,
            keepalive_interval_us: 1_000_000,
            ..StcpSettings::default()
        }
    }

    /// With RFC 6298's least retransmission time of 1 s.
    pub fn rfc() -> StcpSettings {
        StcpSettings { rto_min_us: 1_000_000, ..StcpSettings::default() }
    }

    /// Greatest payload of a segment that the SYN announces, bytes.
    pub const fn mss(&self) -> u16 {
        self.mtu - 40
    }

    /// All values are possible.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), SettingsError> {
        let us = [
            ("rto_min", self.rto_min_us),
            ("rto_max", self.rto_max_us),
            ("rto_initial", self.rto_initial_us),
            ("persist_max", self.persist_max_us),
            ("persist_give_up", self.persist_give_up_us),
            ("sws_override", self.sws_override_us),
            ("syn_initial", self.syn_initial_us),
            ("syn_give_up", self.syn_give_up_us),
            ("half_open_retry", self.half_open_retry_us),
            ("give_up", self.give_up_us),
            ("keepalive_interval", self.keepalive_interval_us),
        ];
        let wrong = |key, value: u64, allowed| Err(SettingsError { key, value, allowed });
        for (key, value) in us {
            if value < 100 {
                return wrong(key, u64::from(value), "at least 100 µs");
            }
        }
        if let RtoMode::Fixed(us) | RtoMode::Rigid(us) = self.rto
            && us < 100
        {
            return wrong("rto", u64::from(us), "at least 100 µs");
        }
        if !(576..=9000).contains(&self.mtu) {
            return wrong("mtu", u64::from(self.mtu), "576 to 9000 bytes");
        }
        if self.ws_local > 14 {
            return wrong("ws_local", u64::from(self.ws_local), "0 to 14");
        }
        if self.rcv_wnd == 0 {
            return wrong("rcv_wnd", 0, "1 to 65535 bytes: with 0 the peer's FIN never comes");
        }
        if self.low_mark >= self.high_mark {
            return wrong("low_mark", u64::from(self.low_mark), "below high_mark");
        }
        if self.rto_min_us > self.rto_max_us {
            return wrong("rto_min", u64::from(self.rto_min_us), "at most rto_max");
        }
        self.strategy.check()
    }
}
