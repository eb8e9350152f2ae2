//! Senders that differ in how they repair losses and what they hold back: those of docs/stcp-congestion.md.

use fullcount_stcp::settings::{Resend, RtoMode};
use fullcount_stcp::{StcpSettings, Strategy};

/// One way to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// No control: everything again after a fixed time, nothing at duplicate ACKs.
    None,
    /// The same with fast retransmission.
    NoneFast,
    /// `none` with a retransmission time that doubles.
    Backoff,
    /// One segment again and not everything; no window.
    First,
    /// `none` with a constant window, bytes.
    Capped(u32),
    /// A constant window, bytes.
    Static(u32),
    /// The default.
    Simplified,
    /// Out and in again at once, down to one segment: looks like figure 6 of the paper.
    Figure6,
    /// RFC 5681.
    Reno,
}

impl Variant {
    /// Those that have no number.
    pub const NAMED: [Variant; 7] = [
        Variant::None,
        Variant::NoneFast,
        Variant::Backoff,
        Variant::First,
        Variant::Simplified,
        Variant::Figure6,
        Variant::Reno,
    ];

    /// As a person names it.
    pub fn name(self) -> String {
        match self {
            Variant::None => "none".into(),
            Variant::NoneFast => "none-fast".into(),
            Variant::Backoff => "backoff".into(),
            Variant::First => "first".into(),
            Variant::Capped(bytes) => format!("capped={bytes}"),
            Variant::Static(bytes) => format!("static={bytes}"),
            Variant::Simplified => "simplified".into(),
            Variant::Figure6 => "figure6".into(),
            Variant::Reno => "reno".into(),
        }
    }

    /// The variant with this name; a number follows `=`.
    pub fn named(text: &str) -> Option<Variant> {
        let bytes = |b: &str| b.parse::<u32>().ok().filter(|b| (1000..=1 << 30).contains(b));
        match text.split_once('=') {
            Some(("static", b)) => bytes(b).map(Variant::Static),
            Some(("capped", b)) => bytes(b).map(Variant::Capped),
            Some(_) => None,
            None => Self::NAMED.into_iter().find(|v| v.name() == text),
        }
    }

    /// Its settings, with `rto_us` as the least, or the fixed, retransmission time.
    pub fn settings(self, rto_us: u32) -> StcpSettings {
        let free = StcpSettings {
            strategy: Strategy::Free,
            rto: RtoMode::Rigid(rto_us),
            dupack_threshold: 0,
            ..base(rto_us)
        };
        match self {
            Variant::None => free,
            Variant::NoneFast => StcpSettings { dupack_threshold: 3, ..free },
            Variant::Backoff => StcpSettings { rto: RtoMode::Fixed(rto_us), ..free },
            Variant::First => StcpSettings { dupack_threshold: 3, resend: Resend::First, ..free },
            Variant::Capped(cwnd) => StcpSettings { strategy: Strategy::Static { cwnd }, ..free },
            Variant::Static(cwnd) => {
                StcpSettings { strategy: Strategy::Static { cwnd }, ..base(rto_us) }
            }
            Variant::Simplified => base(rto_us),
            Variant::Figure6 => StcpSettings {
                strategy: Strategy::Simplified {
                    cwnd_max: 0,
                    shift_max: 6,
                    floor: 1,
                    clean_rounds: 1,
                },
                rto: RtoMode::Fixed(rto_us),
                ..base(rto_us)
            },
            Variant::Reno => StcpSettings { strategy: Strategy::Reno, ..base(rto_us) },
        }
    }
}

/// The profile `daq` with Nagle, which is the default.
fn base(rto_us: u32) -> StcpSettings {
    StcpSettings {
        rto_min_us: rto_us,
        rto_initial_us: rto_us.max(100_000),
        coalescing: fullcount_stcp::Coalescing::Nagle,
        largest_fragment: 0,
        ..StcpSettings::daq()
    }
}
