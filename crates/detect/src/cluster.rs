//! Hits that belong together: neighbours in coordinate, in time, and across planes.
//!
//! What coincidence detectors share is here once; what differs (when a group ends, which rules an event
//! must meet) is data or a small type of the detector. Sources: the sections on clustering of `docs/formats/*.md`.

pub mod gap;
pub mod matching;
pub mod plane;
pub mod rules;

/// Number of runs of neighbours in ascending `coordinates`: a new one begins where the step is above `gap`.
#[inline]
pub fn runs(coordinates: impl IntoIterator<Item = u16>, gap: u16) -> usize {
    let mut last = None;
    let mut runs = 0;
    for c in coordinates {
        runs += usize::from(last.is_none_or(|last: u16| c.saturating_sub(last) > gap));
        last = Some(c);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_where_the_step_is_above_the_gap() {
        assert_eq!(runs([], 1), 0);
        assert_eq!(runs([3, 3, 4, 6, 7, 65535], 1), 3);
        assert_eq!(runs([3, 3, 4], 0), 2);
    }
}
