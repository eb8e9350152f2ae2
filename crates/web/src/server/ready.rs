//! `/readyz`: whether a run does what it was started for.
//!
//! Source: `docs/operations.md`.

use crate::Facts;

/// Why it does not; empty while it does. The page itself is no part of it, and neither is another output that is best effort.
pub fn why_not(facts: &Facts) -> Vec<String> {
    let mut reasons = Vec::new();
    if !facts.running {
        reasons.push("the run has ended".to_owned());
    }
    let best_effort = |name: &str| facts.sinks.iter().any(|s| s.name == name && !s.required);
    for state in facts.states.iter().filter(|s| !best_effort(&s.name)) {
        if let Some(failure) = &state.failure {
            reasons.push(format!("output {} has failed: {failure}", state.name));
        }
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OutputState, SinkFacts};

    #[test]
    fn a_run_that_has_ended_or_lost_a_required_output_is_not_ready() {
        let sink = |name: &str, required| SinkFacts {
            name: name.into(),
            required,
            ..SinkFacts::default()
        };
        let state = |name: &str, failure: Option<&str>| OutputState {
            name: name.into(),
            failure: failure.map(Into::into),
        };
        let sinks = vec![sink("nexus", true), sink("live", false)];
        let with = |running, nexus, live| {
            let states = vec![state("nexus", nexus), state("live", live)];
            why_not(&Facts { running, sinks: sinks.clone(), states, ..Facts::default() })
        };
        assert!(with(true, None, None).is_empty());
        assert!(with(true, None, Some("gone")).is_empty(), "best effort");
        assert_eq!(with(true, Some("no space"), None), ["output nexus has failed: no space"]);
        assert_eq!(with(false, None, None), ["the run has ended"]);
    }
}
