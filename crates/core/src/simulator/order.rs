//! The order for a simulated detector, and why it can be refused.
//!
//! Values of options come as text, in the option's unit without its name: a front end turns `1KiB` into `1024` and `14Hz`
//! into `14`. Refuses what is no number, with key, value and range.

use std::collections::BTreeMap;
use std::fmt::Display;

/// Unit of an option's value, in which front ends accept prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionUnit {
    /// A word, or a number without a unit.
    None,
    /// Bytes; several with commas.
    Bytes,
    /// Hertz.
    Hertz,
}

impl OptionUnit {
    /// For documents.
    pub fn name(self) -> &'static str {
        match self {
            OptionUnit::None => "",
            OptionUnit::Bytes => "B",
            OptionUnit::Hertz => "Hz",
        }
    }
}

/// Something that can be set of a simulated detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimulatorOption {
    /// Name, lower case with hyphens, as on the command line.
    pub key: &'static str,
    /// Word for the value in help texts, upper case.
    pub value: &'static str,
    /// What it sets.
    pub about: &'static str,
    /// Which values are possible.
    pub range: &'static str,
    /// The value unless it is given, with its unit; empty: none.
    pub default: &'static str,
    /// Unit of the value.
    pub unit: OptionUnit,
}

impl SimulatorOption {
    /// One whose value has no unit.
    pub const fn new(
        key: &'static str,
        value: &'static str,
        about: &'static str,
        range: &'static str,
        default: &'static str,
    ) -> SimulatorOption {
        SimulatorOption { key, value, about, range, default, unit: OptionUnit::None }
    }
}

/// Options that were given: key and value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrafficOptions(BTreeMap<String, String>);

impl TrafficOptions {
    /// Those of a declaration.
    pub fn of(given: &[(&str, &str)]) -> TrafficOptions {
        TrafficOptions(given.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect())
    }

    /// Sets one; the latest value counts.
    pub fn set(&mut self, key: &str, value: impl Display) {
        self.0.insert(key.to_owned(), value.to_string());
    }

    /// Value of one that was given.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// All that were given, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// A whole number that was given.
    ///
    /// # Errors
    /// Something else was given.
    pub fn whole(&self, key: &'static str, allowed: &str) -> Result<Option<usize>, TrafficError> {
        self.number(key, allowed)
    }

    /// A number that was given.
    ///
    /// # Errors
    /// Something else was given.
    pub fn number<N: std::str::FromStr>(
        &self,
        key: &'static str,
        allowed: &str,
    ) -> Result<Option<N>, TrafficError> {
        let read = |text: &str| text.parse().map_err(|_| TrafficError::value(key, text, allowed));
        self.get(key).map(read).transpose()
    }
}

/// How fast a simulated detector is to be.
#[derive(Clone, Copy)]
pub enum SimulatorPace<'a> {
    /// As it usually is.
    Usual,
    /// Events (neutrons) a second.
    Events(f64),
    /// What a link takes: packets a second for a mean payload in bytes.
    Link(&'a dyn Fn(f64) -> f64),
}

/// What a simulator is asked for.
#[derive(Clone, Copy)]
pub struct TrafficOrder<'a> {
    /// Options of its own.
    pub options: &'a TrafficOptions,
    /// How fast.
    pub pace: SimulatorPace<'a>,
    /// Decides everything random.
    pub seed: u64,
    /// The first source port, for detectors that need certain ones; `None`: the real device's.
    pub first_port: Option<u16>,
    /// Approximate size of the prepared packets that repeat, bytes; `None`: the default.
    pub prepared_bytes: Option<usize>,
}

impl<'a> TrafficOrder<'a> {
    /// The usual with these options.
    pub fn of(options: &'a TrafficOptions, seed: u64) -> TrafficOrder<'a> {
        let pace = SimulatorPace::Usual;
        TrafficOrder { options, pace, seed, first_port: None, prepared_bytes: None }
    }
}

/// Traffic that cannot be made as asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum TrafficError {
    /// A value that the detector cannot have.
    #[error("{key}: {value} is not possible: {allowed}")]
    Value { key: &'static str, value: String, allowed: String },
    /// A rate at which a module's packets come too seldom for 32-bit times.
    #[error(
        "rate: {rate} events/s is too low for {entries} readouts per packet on this panel: its \
         dimmest module would go silent for longer than the 2.1 s after which 32-bit times are \
         ambiguous; give at least {lowest:.0} events/s{fewer}"
    )]
    Slow { rate: f64, entries: usize, lowest: f64, fewer: String },
}

impl TrafficError {
    /// A value that the detector does not allow, and what is possible.
    pub fn value(
        key: &'static str,
        value: impl Display,
        allowed: impl Into<String>,
    ) -> TrafficError {
        TrafficError::Value { key, value: value.to_string(), allowed: allowed.into() }
    }

    /// An event rate outside `1` to `1e11`.
    pub fn rate(events_per_s: f64) -> TrafficError {
        TrafficError::value("rate", format!("{events_per_s} events/s"), "1 to 1e11")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_numbers_where_numbers_are_wanted() {
        let mut options = TrafficOptions::of(&[("entries", "12"), ("mode", "d6")]);
        assert_eq!(options.whole("entries", "1 to 255"), Ok(Some(12)));
        assert_eq!(options.whole("hits", "1 to 20"), Ok(None));
        options.set("entries", "many");
        let said = options.whole("entries", "1 to 255").unwrap_err().to_string();
        assert_eq!(said, "entries: many is not possible: 1 to 255");
        assert_eq!(options.iter().count(), 2);
        assert_eq!(
            TrafficError::rate(0.5).to_string(),
            "rate: 0.5 events/s is not possible: 1 to 1e11"
        );
    }
}
