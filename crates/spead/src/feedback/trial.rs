//! What a trial of a rate showed: what was sent, what came and what is missing between two reports of a receiver.
//!
//! Lost heaps count at the mean length of the others. Source: `docs/formats/spead.md`, section 20.

use super::message::ReceiverReport;
use super::tuner::SentSoFar;

/// Where a trial began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Base {
    pub report: ReceiverReport,
    pub sent: SentSoFar,
    /// By the sender's clock.
    pub at_ns: u64,
}

/// What a trial showed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    pub loss: f64,
    /// Payload bytes that the heaps of the trial should have had.
    pub expected: f64,
    pub delivered: f64,
    pub sent: f64,
    pub seconds: f64,
    /// How much further behind the pace the sender is, as a share of the trial.
    pub behind: f64,
}

/// What came since `base`; `None`: no time has passed.
pub(super) fn shown(
    base: &Base,
    report: &ReceiverReport,
    now_ns: u64,
    sent: SentSoFar,
) -> Option<Shown> {
    let receiver_ns = report.time_ns.saturating_sub(base.report.time_ns);
    let sender_ns = now_ns.saturating_sub(base.at_ns);
    if receiver_ns == 0 || sender_ns == 0 {
        return None;
    }
    let per_second = |bytes: u64, ns: u64| bytes as f64 * 1e9 / ns as f64;
    let came = report.packet_bytes.saturating_sub(base.report.packet_bytes);
    let (loss, expected) = loss(&base.report, report);
    Some(Shown {
        loss,
        expected,
        delivered: per_second(came, receiver_ns),
        sent: per_second(sent.bytes.saturating_sub(base.sent.bytes), sender_ns),
        seconds: receiver_ns as f64 / 1e9,
        behind: sent.behind_ns.saturating_sub(base.sent.behind_ns) as f64 / sender_ns as f64,
    })
}

/// Share of payload that is missing between two reports, lost heaps at the mean length of the others, and the bytes that it is a share of.
fn loss(from: &ReceiverReport, to: &ReceiverReport) -> (f64, f64) {
    let less = |to: u64, from: u64| to.saturating_sub(from) as f64;
    let lost = to.lost_heaps.unwrap_or(0).saturating_sub(from.lost_heaps.unwrap_or(0)) as f64;
    let expected = less(to.expected_bytes, from.expected_bytes);
    let mean =
        if to.ended_heaps > 0 { to.expected_bytes as f64 / to.ended_heaps as f64 } else { 1.0 };
    let missing = less(to.missing_bytes, from.missing_bytes) + lost * mean;
    let all = (expected + lost * mean).max(missing).max(1.0);
    (missing / all, all)
}
