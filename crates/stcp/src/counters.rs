//! What a sender counts, and its histograms; both lie in the caller's memory. All only grow, but for the gauges of
//! [`crate::sender::Snapshot`].

use crate::wire::WireError;

macro_rules! counters {
    ($($name:ident $unit:literal $text:literal)*) => {
        /// Counters of one stream.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct StcpCounters {
            $(#[doc = $text] pub $name: u64,)*
            /// Frames that were refused, by [`WireError`].
            pub refused: [u64; WireError::COUNT],
        }

        impl StcpCounters {
            /// Calls `each` with name, unit, meaning and value of every counter.
            pub fn each(&self, mut each: impl FnMut(&'static str, &'static str, &'static str, u64)) {
                $(each(stringify!($name), $unit, $text, self.$name);)*
                for error in WireError::ALL {
                    each(error.name(), "frames", error.text(), self.refused[error as usize]);
                }
            }
        }
    };
}

counters! {
    fragments "fragments" "accepted into the send buffer"
    fragment_bytes "bytes" "of these"
    would_block "calls" "fragments that the full buffer refused; the caller keeps them"
    marks_merged "fragments" "whose end shares a mark with the one before: the marks were full; their latency is not exact"
    xoff "times" "busy was raised"
    busy_ns "ns" "with busy raised"
    segments "segments" "with payload, sent"
    full_segments "segments" "of these, of full size"
    bytes "bytes" "of payload sent, repeated ones included"
    again_rto "segments" "sent again after the retransmission timer"
    again_fast "segments" "sent again after duplicate ACKs"
    again_partial "segments" "sent again after an ACK that repaired one hole and showed the next"
    again_bytes "bytes" "sent more than once"
    acked_bytes "bytes" "acknowledged: the useful throughput"
    acked_fragments "fragments" "acknowledged to their last byte; where fragments share a mark with the last of them"
    rto_expired "times" "the retransmission timer expired"
    probes "segments" "probes of a closed window"
    keepalives "segments" "probes of an idle connection"
    acks "segments" "with an ACK in range"
    duplicate_acks "segments" "that acknowledge the same once more, with the same window"
    window_updates "segments" "that acknowledge the same once more, with another window"
    probe_answers "segments" "that answer a probe of a closed window"
    old_acks "segments" "with an ACK below what is acknowledged"
    acks_out_of_range "segments" "with an ACK of what was never sent, or of long ago: challenged"
    outside "segments" "outside the receive window: challenged"
    bare "segments" "without ACK, or without SYN while connecting: dropped"
    syns_challenged "segments" "SYNs in a connection: challenged"
    simultaneous "segments" "SYNs without ACK while connecting: dropped"
    challenges "segments" "challenge ACKs sent"
    challenges_spared "segments" "challenge ACKs that the limit a second kept back"
    resets_out "segments" "RSTs sent"
    resets_spared "segments" "RSTs that the limit a second kept back"
    resets_ignored "segments" "RSTs that fit no connection of ours: dropped"
    resets_in "segments" "RSTs that ended the connection"
    dropped_controls "segments" "ACKs and RSTs that were not sent, because four others waited"
    peer_data_bytes "bytes" "from the peer, refused or ignored"
    peer_fins "segments" "FINs from the peer"
    syns "segments" "SYNs sent"
    half_open "times" "the peer still held an old connection"
    scale_above_14 "times" "the peer's window scale was above 14: 14 is used"
    small_mss "times" "the peer's MSS was below 536 bytes"
    no_neighbour "times" "the neighbour could not be reached"
    icmp_soft "messages" "of ICMP that change nothing"
    icmp_hard "messages" "of ICMP that quote nothing in flight"
    mss_lowered "times" "ICMP asked for smaller packets, and got them"
    zero_windows "times" "the peer closed its window"
    zero_window_ns "ns" "with the window closed"
    slow "times" "the same bytes were sent again for the third time"
}

/// Buckets of a latency histogram: bucket k counts [2^k, 2^(k+1)) ns; the last also what is longer.
pub const LATENCY_BUCKETS: usize = 40;
/// Buckets of payload sizes, 1/16 of the MSS each; the last one is full segments.
pub const SIZE_BUCKETS: usize = 17;

/// The least and the greatest of some values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StcpRange {
    least: u64,
    most: u64,
}

impl Default for StcpRange {
    fn default() -> StcpRange {
        StcpRange { least: u64::MAX, most: 0 }
    }
}

impl StcpRange {
    /// One value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }

    /// The least, 0 without any.
    pub fn least(&self) -> u64 {
        self.least.min(self.most)
    }

    /// The greatest, 0 without any.
    pub fn most(&self) -> u64 {
        self.most
    }
}

/// Histograms of one stream, and the extremes of what it measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StcpHistograms {
    /// From submit to ACK, of each mark.
    pub latency: [u64; LATENCY_BUCKETS],
    /// Payload of each segment.
    pub size: [u64; SIZE_BUCKETS],
    /// The greatest latency, ns.
    pub latency_most: u64,
    /// Valid samples of the round trip, ns.
    pub rtt: StcpRange,
    /// The peer's window after each update once connected, bytes.
    pub window: StcpRange,
    /// Most bytes in the send buffer when an ACK made room in it.
    pub used_most: u64,
    /// Most halvings of `simplified` when an ACK advanced.
    pub shift_most: u8,
}

impl Default for StcpHistograms {
    fn default() -> StcpHistograms {
        StcpHistograms {
            latency: [0; LATENCY_BUCKETS],
            size: [0; SIZE_BUCKETS],
            latency_most: 0,
            rtt: StcpRange::default(),
            window: StcpRange::default(),
            used_most: 0,
            shift_most: 0,
        }
    }
}

impl StcpHistograms {
    /// A latency that `percent` of the marks did not exceed, ns: the upper end of its bucket, and at most the greatest; 0 without any.
    pub fn latency_share(&self, percent: u64) -> u64 {
        let all: u64 = self.latency.iter().sum();
        let wanted = (all.saturating_mul(percent)).div_ceil(100);
        let mut below = 0;
        for (k, count) in self.latency.iter().enumerate() {
            below += count;
            if below >= wanted && all > 0 {
                return (2u64 << k).min(self.latency_most);
            }
        }
        0
    }

    /// One latency, ns.
    #[inline]
    pub fn latency(&mut self, ns: u64) {
        self.latency_most = self.latency_most.max(ns);
        let bucket = (63 - ns.max(1).leading_zeros()) as usize;
        self.latency[bucket.min(LATENCY_BUCKETS - 1)] += 1;
    }

    /// One segment of `length` bytes.
    #[inline]
    pub fn size(&mut self, length: u32, mss: u16) {
        let bucket = (u64::from(length) * 16 / u64::from(mss.max(1))) as usize;
        self.size[bucket.min(SIZE_BUCKETS - 1)] += 1;
    }
}
