//! One direction of a link with faults on purpose: seeded loss, duplication and reordering of whole frames.

use fullcount_core::sim::{Fault, FaultError, FaultyLine, Spec};

/// Frames on their way.
#[derive(Debug)]
pub(super) struct Way {
    fault: Fault,
    line: FaultyLine<Vec<u8>>,
}

impl Way {
    /// `None` where nothing is to happen.
    pub fn new(spec: Spec, later: u64) -> Result<Option<Way>, FaultError> {
        let none = [spec.drop, spec.duplicate, spec.swap, spec.delay].iter().all(|a| a.is_none());
        let fault = Fault::new(Spec { seed: spec.seed.wrapping_add(later), ..spec })?;
        Ok((!none).then(|| Way { fault, line: FaultyLine::default() }))
    }

    /// A frame comes; what leaves now goes to `out`.
    pub fn pass(&mut self, frame: &[u8], out: &mut Vec<Vec<u8>>) {
        let copy = |frame: &Vec<u8>| frame.clone();
        self.line.push(&self.fault, frame.to_vec(), copy, |frame| out.push(frame));
    }
}
