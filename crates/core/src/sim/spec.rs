//! The text of a fault: `drop=100,duplicate=100,swap=100,of=1000000,seed=7` or `loss=1e-4,seed=7`.
//!
//! | key | means |
//! |---|---|
//! | `drop` (or `loss`) | packets left out |
//! | `duplicate` | packets sent twice in a row |
//! | `swap` (or `reorder`) | packets that change places with the next one; pairs are disjoint |
//! | `delay` | packets held back until `by` later ones have gone |
//! | `by` | that number, 1..=65,536, 8 unless given |
//! | `of` | length of the sequence; needed for counts, and keeps its last packet safe |
//! | `seed` | 0..2⁶⁴, 1 unless given |
//!
//! A whole number is a count; with a point, an exponent or `%` it is a share of the packets, so
//! that `drop=1` is one packet and `drop=1.0` all of them.
//! Refuses: unknown and repeated keys, shares outside 0..=1, counts without `of`.

use std::fmt;
use std::str::FromStr;

/// How many packets a fault meets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// Exactly this many of `of`.
    Count(u64),
    /// Each packet with this probability, 0..=1.
    Share(f64),
}

impl Amount {
    /// No packet at all.
    pub const NONE: Amount = Amount::Count(0);

    /// True if no packet can be met.
    pub fn is_none(self) -> bool {
        matches!(self, Amount::Count(0)) || self == Amount::Share(0.0)
    }
}

/// What shall be done to a packet sequence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spec {
    /// Left out.
    pub drop: Amount,
    /// Sent twice.
    pub duplicate: Amount,
    /// Exchanged with the next one.
    pub swap: Amount,
    /// Held back until [`Spec::by`] later ones have gone.
    pub delay: Amount,
    /// Packets that overtake a delayed one, 1..=65,536.
    pub by: u32,
    /// Packets in the sequence, if known.
    pub of: Option<u64>,
    /// Picks which packets are met.
    pub seed: u64,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            drop: Amount::NONE,
            duplicate: Amount::NONE,
            swap: Amount::NONE,
            delay: Amount::NONE,
            by: 8,
            of: None,
            seed: 1,
        }
    }
}

/// What is wrong with the text of a fault.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum SpecError {
    /// No such key, or no `=`.
    #[error(
        "fault: '{part}' is not one of drop=, duplicate=, swap=, delay=, by=, of=, seed= (loss= and \
         reorder= are other words for drop= and swap=)"
    )]
    Key { part: String },
    /// The same key twice.
    #[error("fault: '{key}' is given twice")]
    Twice { key: &'static str },
    /// Not a number of the wanted kind and range.
    #[error("fault: {key}={value} is not {wanted}")]
    Value { key: &'static str, value: String, wanted: &'static str },
}

const AMOUNT: &str = "a count (100, which needs of=) or a share from 0.0 to 1.0 (0.01, 1e-4, 1%)";

fn amount(key: &'static str, text: &str) -> Result<Amount, SpecError> {
    let bad = || SpecError::Value { key, value: text.into(), wanted: AMOUNT };
    if let Some(percent) = text.strip_suffix('%') {
        let p: f64 = percent.trim_end().parse().map_err(|_| bad())?;
        return share(p / 100.0).ok_or_else(bad);
    }
    if text.contains(['.', 'e', 'E']) {
        return text.parse().ok().and_then(share).ok_or_else(bad);
    }
    text.parse().map(Amount::Count).map_err(|_| bad())
}

fn share(p: f64) -> Option<Amount> {
    (0.0..=1.0).contains(&p).then_some(Amount::Share(p))
}

fn whole<T: FromStr>(key: &'static str, text: &str, wanted: &'static str) -> Result<T, SpecError> {
    text.parse().map_err(|_| SpecError::Value { key, value: text.into(), wanted })
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Spec, SpecError> {
        let mut spec = Spec::default();
        let mut seen: Vec<&'static str> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (key, value) = part
                .split_once('=')
                .map(|(k, v)| (k.trim(), v.trim()))
                .ok_or_else(|| SpecError::Key { part: part.into() })?;
            let key = match key {
                "drop" | "loss" => "drop",
                "duplicate" => "duplicate",
                "swap" | "reorder" => "swap",
                "delay" => "delay",
                "by" => "by",
                "of" => "of",
                "seed" => "seed",
                _ => return Err(SpecError::Key { part: part.into() }),
            };
            if seen.contains(&key) {
                return Err(SpecError::Twice { key });
            }
            seen.push(key);
            match key {
                "drop" => spec.drop = amount(key, value)?,
                "duplicate" => spec.duplicate = amount(key, value)?,
                "swap" => spec.swap = amount(key, value)?,
                "delay" => spec.delay = amount(key, value)?,
                "by" => {
                    let wanted = "a number of packets from 1 to 65536";
                    spec.by = whole(key, value, wanted)?;
                    if !(1..=65_536).contains(&spec.by) {
                        return Err(SpecError::Value { key, value: value.into(), wanted });
                    }
                }
                "of" => spec.of = Some(whole(key, value, "a number of packets")?),
                _ => spec.seed = whole(key, value, "a number from 0 to 18446744073709551615")?,
            }
        }
        Ok(spec)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Count(n) => write!(f, "{n}"),
            // Debug keeps the point or exponent that makes it a share.
            Amount::Share(p) => write!(f, "{p:?}"),
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amounts = [
            ("drop", self.drop),
            ("duplicate", self.duplicate),
            ("swap", self.swap),
            ("delay", self.delay),
        ];
        for (key, amount) in amounts.iter().filter(|(_, a)| *a != Amount::NONE) {
            write!(f, "{key}={amount},")?;
        }
        if self.by != Spec::default().by {
            write!(f, "by={},", self.by)?;
        }
        if let Some(of) = self.of {
            write!(f, "of={of},")?;
        }
        write!(f, "seed={}", self.seed)
    }
}
