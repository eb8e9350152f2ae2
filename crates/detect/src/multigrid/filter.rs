//! Thresholds and rescaling of amplitudes, per wire and per grid.
//!
//! Refuses a minimum above its maximum, and factors that are negative or not finite. Coordinates that
//! no rule names pass as they are. Source: `docs/formats/multigrid.md` section 4.2.

use serde::Deserialize;

/// `wire_filters` or `grid_filters`, as written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FiltersText {
    blanket: Option<Blanket>,
    exceptions: Vec<Exception>,
}

/// The same rule for the first `count` coordinates, as written.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct BlanketText {
    count: u32,
    #[serde(default)]
    min: u16,
    #[serde(default = "top")]
    max: u16,
    #[serde(default = "one")]
    rescale: f64,
}

/// The rule of one coordinate, as written. It replaces that of the blanket whole.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExceptionText {
    idx: u16,
    #[serde(default)]
    min: u16,
    #[serde(default = "top")]
    max: u16,
    #[serde(default = "one")]
    rescale: f64,
}

fn top() -> u16 {
    u16::MAX
}

fn one() -> f64 {
    1.0
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "BlanketText")]
struct Blanket {
    count: usize,
    rule: Rule,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "ExceptionText")]
struct Exception {
    at: usize,
    rule: Rule,
}

impl TryFrom<BlanketText> for Blanket {
    type Error = String;

    fn try_from(t: BlanketText) -> Result<Blanket, String> {
        if t.count > 1 << 16 {
            return Err(format!("count: {} is not allowed: 0..=65536", t.count));
        }
        Ok(Blanket { count: t.count as usize, rule: Rule::new(t.min, t.max, t.rescale)? })
    }
}

impl TryFrom<ExceptionText> for Exception {
    type Error = String;

    fn try_from(t: ExceptionText) -> Result<Exception, String> {
        Ok(Exception { at: usize::from(t.idx), rule: Rule::new(t.min, t.max, t.rescale)? })
    }
}

/// What one coordinate lets through.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rule {
    factor: f64,
    min: u16,
    max: u16,
}

impl Rule {
    /// Passes everything as it is.
    const NONE: Rule = Rule { factor: 1.0, min: 0, max: u16::MAX };

    fn new(min: u16, max: u16, factor: f64) -> Result<Rule, String> {
        if min > max {
            return Err(format!("min: {min} is not allowed: 0..={max}, which is max"));
        }
        if !(factor >= 0.0 && factor.is_finite()) {
            return Err(format!("rescale: {factor} is not allowed: a factor from 0 on"));
        }
        Ok(Rule { factor, min, max })
    }
}

/// The rules of a plane, by coordinate.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filters {
    rules: Vec<Rule>,
}

impl From<FiltersText> for Filters {
    fn from(text: FiltersText) -> Filters {
        let mut rules = text.blanket.map_or_else(Vec::new, |b| vec![b.rule; b.count]);
        for Exception { at, rule } in text.exceptions {
            rules.resize(rules.len().max(at + 1), Rule::NONE);
            rules[at] = rule;
        }
        Filters { rules }
    }
}

impl Filters {
    /// True if everything passes as it is.
    pub fn is_none(&self) -> bool {
        self.rules.iter().all(|&rule| rule == Rule::NONE)
    }

    /// The smallest amplitude of all of so many coordinates, whatever it was.
    pub fn set_least(&mut self, coordinates: usize, least: u16) {
        self.rules.resize(self.rules.len().max(coordinates), Rule::NONE);
        self.rules.iter_mut().for_each(|rule| rule.min = least);
    }

    /// The amplitude after rescaling, or `None` if it is outside of its coordinate's range.
    #[inline]
    pub fn apply(&self, coordinate: u16, adc: u16) -> Option<u16> {
        let Some(rule) = self.rules.get(usize::from(coordinate)) else { return Some(adc) };
        // `round` goes away from zero at halves, `as` stops at 65535.
        let weight = (f64::from(adc) * rule.factor).round() as u16;
        (rule.min..=rule.max).contains(&weight).then_some(weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Filters, String> {
        let text: Result<FiltersText, _> = toml::from_str(text);
        text.map(Filters::from).map_err(|e| e.message().to_owned())
    }

    #[test]
    fn an_exception_replaces_the_blanket_whole_and_the_set_grows_up_to_it() {
        let f = read(
            "blanket = {count = 3, min = 100, max = 200, rescale = 2.0}
             exceptions = [{idx = 1, rescale = 0.5}, {idx = 4, min = 7}]",
        );
        let f = f.unwrap();
        assert_eq!(
            [(0, 49), (0, 50), (0, 100), (0, 101)].map(|(c, a)| f.apply(c, a)),
            [None, Some(100), Some(200), None]
        );
        assert_eq!(
            [1, 3, 4095].map(|a| f.apply(1, a)),
            [Some(1), Some(2), Some(2048)],
            "halves away from zero"
        );
        assert_eq!(
            [f.apply(3, 0), f.apply(4, 6), f.apply(4, 7), f.apply(5, 0)],
            [Some(0), None, Some(7), Some(0)]
        );
        assert!(!f.is_none() && read("").unwrap().is_none());
    }

    #[test]
    fn weights_stop_at_16_bits() {
        let f = read("blanket = {count = 1, rescale = 20.0}").unwrap();
        assert_eq!(f.apply(0, 4000), Some(65535));
        let f = read("blanket = {count = 1, rescale = 20.0, max = 65534}").unwrap();
        assert_eq!(f.apply(0, 4000), None);
    }

    #[test]
    fn refusals_name_key_value_and_what_is_allowed() {
        for (text, wanted) in [
            ("blanket = {min = 3}", "missing field `count`"),
            ("blanket = {count = 70000}", "count: 70000 is not allowed: 0..=65536"),
            ("blanket = {count = 1, min = 3, max = 2}", "min: 3 is not allowed: 0..=2"),
            ("exceptions = [{idx = 1, rescale = -0.5}]", "rescale: -0.5 is not allowed"),
            ("exceptions = [{idx = 1, rescale = inf}]", "rescale: inf is not allowed"),
            ("exceptions = [{idx = 1, rescale = nan}]", "rescale: NaN is not allowed"),
            ("exceptions = [{idx = 70000}]", "invalid value: integer `70000`"),
            ("exceptions = [{min = 1}]", "missing field `idx`"),
            ("blankets = 1", "unknown field `blankets`"),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains(wanted), "{text}\n  says: {said}\n  wanted: {wanted}");
        }
    }
}
