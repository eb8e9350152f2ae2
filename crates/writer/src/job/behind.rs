//! What a job has written behind a stop that came late. See [`Behind`].

use super::Job;
use crate::behind::Behind;
use fullcount_nexus::NexusError;

impl Job {
    /// What is in the file behind `at`, ns since 1970, up to the last flush.
    pub(crate) fn behind(&self, at: i64) -> Result<Behind, NexusError> {
        let streams = self.streams.iter().enumerate();
        // Of most it is known that nothing is: the stop is later than all that came.
        let later = streams.filter(|(_, s)| s.latest.is_none_or(|latest| latest > at));
        later
            .map(|(i, _)| self.file.behind(i, at))
            .try_fold(Behind::default(), |sum, found| Ok(sum.and(found?)))
    }
}
