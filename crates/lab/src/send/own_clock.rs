//! Sends the packets of a simulated detector when its own clock says that they are complete.
//!
//! A real detector's clock does not wait for anybody. So a packet leaves when its last readout has been made, give or take
//! [`LOOK`], and what a stall of the sender withheld leaves behind it within some ms, in pieces that a receiver's buffer takes:
//! simulated time is real time at any rate of packets, however they bunch within a pulse. A host that is too slow for the rate falls behind; how far is in
//! [`Sent::behind`].

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{
    FLAT_OUT, JobError, Limits, STOP_LATENCY, SendProgress, Sender, Sent, finish, hand_out,
};
use fullcount_sim::Traffic;

/// Shortest rest between two looks: trains grow with the rate instead of the number of calls.
const LOOK: Duration = Duration::from_micros(100);
/// Simulated time that is made up for in one look, at least; and the part of what is missing.
const PIECE: Duration = Duration::from_millis(1);
const PART: u32 = 16;

/// Sends until a limit, or `stop` says so. The detector's clock begins now.
pub(super) fn run(
    traffic: &mut dyn Traffic,
    out: &mut Sender,
    mut limits: Limits,
    stop: &dyn Fn() -> bool,
    progress: &SendProgress,
) -> Result<Sent, JobError> {
    // Only makes sleeps end earlier.
    let _ = fullcount_io::sys::precise_sleep();
    let begun = Instant::now();
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Everything that was complete by then has been sent.
    let mut reached = Duration::ZERO;
    while limits.left > 0 && !stop() {
        let now = begun.elapsed();
        if limits.end.is_some_and(|end| now >= end) {
            break;
        }
        let piece = PIECE.max(now.saturating_sub(reached) / PART);
        let at = now.min(reached + piece);
        let at_ns = at.as_nanos() as u64;
        let most = usize::try_from(limits.left).unwrap_or(usize::MAX).min(FLAT_OUT);
        let Some(ready) = traffic.ready(at_ns, most) else { break };
        if ready.packets > 0 {
            let clock = (unix + now).as_nanos() as u64;
            hand_out(traffic, out, ready.packets, clock, &mut limits, progress)?;
        }
        if ready.next_ns > at_ns {
            reached = at;
        }
        match (ready.packets, at < now) {
            // Nothing was due in this piece of what is missing: on to the next.
            (0, true) => {}
            (0, false) => {
                let rest = Duration::from_nanos(ready.next_ns.saturating_sub(at_ns));
                std::thread::sleep(rest.clamp(LOOK, STOP_LATENCY));
            }
            (_, true) => std::thread::sleep(LOOK),
            (_, false) => {}
        }
    }
    let sent = finish(traffic, out, begun)?;
    Ok(Sent { behind: Some(sent.active.saturating_sub(reached)), ..sent })
}
