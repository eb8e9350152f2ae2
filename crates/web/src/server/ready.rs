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
    for state in facts.states.iter().filter(|state| state.required) {
        if let Some(failure) = &state.failure {
            reasons.push(format!("output {} has failed: {failure}", state.name));
        }
    }
    for thread in &facts.stood_still {
        reasons.push(format!("thread {thread} stands still"));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OutputState;

    #[test]
    fn a_run_that_has_ended_or_lost_a_required_output_is_not_ready() {
        let state = |name: &str, required, failure: Option<&str>| OutputState {
            name: name.into(),
            required,
            failure: failure.map(Into::into),
        };
        let with = |running, nexus, live| {
            let states = vec![state("nexus", true, nexus), state("live", false, live)];
            why_not(&Facts { running, states, ..Facts::default() })
        };
        assert!(with(true, None, None).is_empty());
        assert!(with(true, None, Some("gone")).is_empty(), "best effort");
        assert_eq!(with(true, Some("no space"), None), ["output nexus has failed: no space"]);
        assert_eq!(with(false, None, None), ["the run has ended"]);
        let stood_still = vec!["process-2".to_owned()];
        let hangs = Facts { running: true, stood_still, ..Facts::default() };
        assert_eq!(why_not(&hangs), ["thread process-2 stands still"]);
    }
}
