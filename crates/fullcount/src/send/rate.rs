//! `--rate` of `send` and `demo`: bits or packets on the link, or events.
//!
//! Refuses a number without a unit, with its spellings, and words for "as fast as possible": that is what leaving the
//! flag out means where it can be done. Source: `docs/architecture.md`, "Flags are key paths".

use fullcount_engine::config::refuse;
use fullcount_io::quantity::{self, QuantityError, Rate};

use crate::exit::Failure;

/// A rate on the link, or in events.
#[derive(Debug, Clone, Copy)]
pub enum SendRate {
    /// Bits or packets.
    Link(Rate),
    /// Events.
    Events(f64),
}

impl SendRate {
    /// Reads the flag.
    pub fn read(text: &str) -> Result<SendRate, Failure> {
        let wrong = |why: String| Failure::from(refuse("rate", text, why));
        if quantity::counts_events(text) {
            let events = quantity::events_per_second(text).map_err(|e| wrong(e.to_string()))?;
            return Ok(SendRate::Events(events));
        }
        if FASTEST.contains(&text.trim().to_ascii_lowercase().as_str()) {
            let why = "there is no such rate: without --rate sequence packets go flat out, and \
                       'pcap:FILE?flat-out' a capture";
            return Err(wrong(why.into()));
        }
        let rate = text.parse().map_err(|e| match e {
            QuantityError::Unit { value } => wrong(format!(
                "the unit is missing: {value}bps (payload bits a second; bits of frames with \
                 --wire-rate), {value}pps (packets) or {value}ev/s (events)"
            )),
            other => wrong(format!("{other}; or 1Mev/s")),
        })?;
        Ok(SendRate::Link(rate))
    }
}

/// What people write who want no limit.
const FASTEST: [&str; 7] = ["0", "max", "maximum", "unlimited", "flat-out", "none", "inf"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_a_unit_is_refused_with_the_three_spellings() {
        for (typed, words) in [
            ("1M", ["1Mbps", "1Mpps", "1Mev/s"]),
            ("1000000", ["1000000bps", "1000000pps", "1000000ev/s"]),
        ] {
            let Err(Failure::Wrong(said)) = SendRate::read(typed) else { panic!("{typed}") };
            words.iter().for_each(|w| assert!(said.contains(w), "{typed}: {said}"));
        }
        for none in ["0", "max", "Unlimited"] {
            let Err(Failure::Wrong(said)) = SendRate::read(none) else { panic!("{none}") };
            assert!(said.contains("without --rate"), "{none}: {said}");
        }
        assert!(matches!(SendRate::read("1Meps"), Ok(SendRate::Events(n)) if n == 1e6));
        assert!(matches!(SendRate::read("1Mbit/s"), Ok(SendRate::Link(Rate::Bits(n))) if n == 1e6));
        assert!(SendRate::read("0ev/s").is_err() && SendRate::read("1lightyear").is_err());
    }
}
