//! `-t0`: what is subtracted from the times of a VMM, and where a run begins.
//!
//! "run" is the first time of marker and offset that any hit of the run has, whichever FEC and VMM it comes from: one number
//! for all VMMs that are marked so, as in vmm-sdat, so that they stay as far apart as they were. Source:
//! `docs/formats/gdgem.md` sections 13 and 14.1.

use super::layout::VMMS;
use super::packet::FrameWords;
use super::reader::{Facts, State};

/// What is subtracted, by FEC and VMM.
#[derive(Debug)]
pub(super) struct Zeros {
    /// ns; `None`: the first time of the run.
    listed: Vec<(usize, usize, Option<f64>)>,
    triggered: bool,
    waits: bool,
}

impl Zeros {
    /// `triggered`: times have a relative trigger time in them.
    pub fn new(listed: Vec<(usize, usize, Option<f64>)>, triggered: bool) -> Zeros {
        let waits = listed.iter().any(|zero| zero.2.is_none());
        Zeros { listed, triggered, waits }
    }

    /// True while the first time of the run is wanted and has not been seen.
    #[inline]
    pub fn wait_for_first(&self) -> bool {
        self.waits
    }

    /// What is subtracted from the times of a FEC, ns; ∞ where that is not known yet.
    pub fn of(&self, fec: usize) -> [f64; 2 * VMMS] {
        let mut zero = [0.0; 2 * VMMS];
        for (_, vmm, at) in self.listed.iter().filter(|z| z.0 == fec) {
            zero[*vmm] = at.unwrap_or(f64::INFINITY);
        }
        zero
    }

    /// The run begins at `first`, ns: FECs and VMMs from whose times it is subtracted.
    pub fn begin(&mut self, first: f64) -> Vec<(usize, usize)> {
        self.waits = false;
        let waiting = self.listed.iter_mut().filter(|zero| zero.2.is_none());
        waiting
            .map(|(fec, vmm, at)| {
                *at = Some(first);
                (*fec, *vmm)
            })
            .collect()
    }

    /// Time of marker and offset of the first hit of a frame that has one, ns. `before`: what the frames before have left.
    pub fn look(
        &self,
        facts: &Facts,
        words: FrameWords<'_>,
        before: Option<&State>,
    ) -> Option<f64> {
        let mut base = before.map_or([f64::NEG_INFINITY; 2 * VMMS], |state| state.base);
        let mut relative = [f64::INFINITY; 2 * VMMS];
        if !self.triggered {
            relative = [0.0; 2 * VMMS];
        } else if let Some(state) = before {
            for (ns, trigger) in relative.iter_mut().zip(&state.triggers) {
                *ns = trigger.relative_ns(facts.layout.clock.period);
            }
        }
        for word in words {
            if word.is_hit() {
                let vmm = word.vmm();
                let srs = base[vmm] + facts.offsets[word.offset()] - relative[vmm];
                if vmm < VMMS && srs > f64::NEG_INFINITY {
                    return Some(srs);
                }
                continue;
            }
            let (vmm, time) = (word.marker_vmm(), word.marker_time());
            match (self.triggered, vmm.checked_sub(VMMS)) {
                (false, None) => base[vmm] = time as f64 * facts.layout.clock.marker,
                (true, None) if time <= 4095 => {
                    relative[vmm] = time as f64 * facts.layout.clock.period;
                }
                (true, Some(vmm)) if word.event_counter().is_none() => {
                    base[vmm] = time as f64 * facts.layout.clock.marker;
                }
                _ => {}
            }
        }
        None
    }
}
