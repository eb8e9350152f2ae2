//! One stream of `fullcount spead2 recv`: its heaps as lines, and what it shares with the others.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fullcount_engine::stop::Stop;
use fullcount_io::spead::{IntakeStep, SpeadIntake, TestValues};
use fullcount_spead::receive::{Delivery, StreamEnd, StreamStatistics};

use super::super::lines::print;
use super::Spead2Recv;
use crate::exit::Failure;
use crate::{note, tell};

/// What all streams share.
pub(super) struct Shared<'a> {
    flags: &'a Spead2Recv,
    begun: Instant,
    stop: Stop,
    /// A stream has failed, or a value of it is wrong: the others end as well.
    failed: AtomicBool,
    /// A stream ended by --stall-timeout: its stop is lost, or its sender has died.
    pub stalled: AtomicBool,
    pub totals: Mutex<(u64, StreamStatistics)>,
}

impl Shared<'_> {
    /// Nothing has come.
    pub fn new(flags: &Spead2Recv, stop: Stop) -> Shared<'_> {
        Shared {
            flags,
            begun: Instant::now(),
            stop,
            failed: AtomicBool::new(false),
            stalled: AtomicBool::new(false),
            totals: Mutex::default(),
        }
    }
}

/// Reads one stream to its end, or until another one has failed; false: a value is wrong.
pub(super) fn stream(intake: SpeadIntake, shared: &Shared<'_>) -> Result<bool, Failure> {
    let outcome = read(intake, shared);
    if !matches!(outcome, Ok(true)) {
        shared.failed.store(true, Relaxed);
    }
    outcome
}

fn read(mut intake: SpeadIntake, shared: &Shared<'_>) -> Result<bool, Failure> {
    let (mut heaps, mut right, mut text) = (0u64, true, String::new());
    loop {
        let mut deliver = |delivery: Delivery, _| {
            let seconds = shared.begun.elapsed().as_secs_f64();
            let heap = match delivery {
                Delivery::Incomplete(heap) => {
                    if !shared.flags.quiet {
                        let _ = writeln!(text, "Discarding incomplete heap {}", heap.cnt);
                    }
                    return;
                }
                Delivery::Heap(heap) => heap,
            };
            heaps += 1;
            if !shared.flags.quiet {
                let described = shared.flags.descriptors.then(|| shared.flags.compat());
                print(&mut text, &heap, seconds, described);
            }
            if shared.flags.verify
                && right
                && let Some((item, element)) = TestValues::wrong_in(&heap)
            {
                right = false;
                note!("Verification mismatch in heap {}: item {item}, element {element}", heap.cnt);
            }
        };
        let step =
            intake.step(Duration::from_millis(20), &mut deliver).map_err(anyhow::Error::from)?;
        if !text.is_empty() {
            tell!("{text}");
            text.clear();
        }
        if step == IntakeStep::Ended(StreamEnd::Stalled) {
            note!("no packet came for --stall-timeout: a stop is lost, or a sender has died");
            shared.stalled.store(true, Relaxed);
        }
        if matches!(step, IntakeStep::Ended(_)) || !right || shared.failed.load(Relaxed) {
            break;
        }
        if shared.stop.requested() {
            intake.stop();
        }
    }
    let mut totals = shared.totals.lock().unwrap_or_else(PoisonError::into_inner);
    totals.0 += heaps;
    totals.1.merge(&intake.stream().statistics());
    Ok(right)
}
