//! Outputs that have failed, with their reasons, for those who watch.
//!
//! A failure is said at once, on standard error and to all receivers of messages, and stands on the page, in the metrics and in the summary from then on:
//! a run that goes on without its file must look like one.

use std::sync::Mutex;

use fullcount_log::error;

/// Failed outputs of a run.
#[derive(Debug, Default)]
pub struct Failures(Mutex<Vec<(String, String)>>);

impl Failures {
    /// Takes note of a failure and says it; the first of each output counts. `said`: the sentence for people.
    pub fn note(&self, output: &str, reason: &str, said: &str) {
        {
            let mut all = self.0.lock().expect("no holder panics");
            if all.iter().any(|(name, _)| name == output) {
                return;
            }
            all.push((output.to_owned(), reason.to_owned()));
        }
        error!(output, "output {said}");
    }

    /// Why an output has failed; `None` if it has not.
    pub fn reason(&self, output: &str) -> Option<String> {
        let all = self.0.lock().expect("no holder panics");
        all.iter().find(|(name, _)| name == output).map(|(_, reason)| reason.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_of_each_output_stays() {
        let failures = Failures::default();
        assert_eq!(failures.reason("nexus"), None);
        failures.note("nexus", "no space", "nexus: no space");
        failures.note("nexus", "closed badly", "nexus: closed badly");
        failures.note("capture", "gone", "capture: gone");
        assert_eq!(failures.reason("nexus").as_deref(), Some("no space"));
        assert_eq!(failures.reason("capture").as_deref(), Some("gone"));
    }
}
