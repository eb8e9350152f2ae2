//! What a simulated coincidence detector sends in addition to neutrons: `--noise dark=1%,bad=0.1%,…`.
//!
//! Shares are per neutron (`packet`: per good packet; `monitor`: per neutron of the monitor's digitiser) and may be
//! written as `1%` or `0.01`. Refuses unknown and repeated keys, and shares outside 0 to 100 %.
//! Sources: `docs/simulators.md`, and the format documents of the detectors.

use std::str::FromStr;

/// How neutrons of one module follow each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pileup {
    /// Never within the format's resolution: every neutron can be decoded.
    Never,
    /// At random, as in nature.
    Random,
    /// At random, and this share of the neutrons gets a second one within the resolution.
    Forced(f64),
}

impl Pileup {
    /// Share of neutrons with a forced second one.
    pub fn forced(self) -> f64 {
        match self {
            Pileup::Never | Pileup::Random => 0.0,
            Pileup::Forced(share) => share,
        }
    }
}

/// Shares of everything that is no clean neutron.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Dark counts, readouts of one plane only, per neutron.
    pub dark: f64,
    /// Inconsistent readouts per neutron: channels, buses and words that do not exist, overflows, glitches.
    pub bad: f64,
    /// Random coincidences per neutron: both planes at once without a neutron.
    pub coincidence: f64,
    /// Broken packets per good packet.
    pub packet: f64,
    /// Counts of the beam monitor per neutron of the cassette whose digitiser it is wired to.
    pub monitor: f64,
    /// Dead strips, of all; only some detectors have them.
    pub dead: f64,
    /// Neutrons within the resolution of each other.
    pub pileup: Pileup,
}

/// Everything that is no clean neutron, as a detector under a heavy load has it.
pub const NOISY: &str = "dark=10%,bad=1%,coincidence=1%,packet=0.1%,pileup=random";

impl Noise {
    /// Neutrons only, each on its own.
    pub const NONE: Noise = Noise {
        dark: 0.0,
        bad: 0.0,
        coincidence: 0.0,
        packet: 0.0,
        monitor: 0.0,
        dead: 0.0,
        pileup: Pileup::Never,
    };
}

impl Default for Noise {
    fn default() -> Noise {
        Noise::NONE
    }
}

/// A noise setting that is not possible: key, value and range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum NoiseError {
    /// No `=`.
    #[error("\"{0}\" is no KEY=SHARE, for example dark=1%")]
    Form(String),
    /// No such key.
    #[error(
        "\"{0}\" is no kind of noise: dark, bad, coincidence, packet, monitor, dead, pileup or none"
    )]
    Key(String),
    /// A key that is there twice.
    #[error("{0} is there twice")]
    Twice(&'static str),
    /// A share that is no number or out of range.
    #[error("{key}={value} is not possible: {allowed}")]
    Share { key: &'static str, value: String, allowed: &'static str },
}

const KEYS: [&str; 7] = ["dark", "bad", "coincidence", "packet", "monitor", "dead", "pileup"];

impl FromStr for Noise {
    type Err = NoiseError;

    fn from_str(text: &str) -> Result<Noise, NoiseError> {
        let mut noise = Noise::NONE;
        let mut seen = [false; KEYS.len()];
        if matches!(text.trim(), "none" | "off") {
            return Ok(noise);
        }
        for part in text.split(',') {
            let part = part.trim();
            let (key, value) =
                part.split_once('=').ok_or_else(|| NoiseError::Form(part.to_owned()))?;
            let at = KEYS.iter().position(|&k| k == key.trim());
            let at = at.ok_or_else(|| NoiseError::Key(key.to_owned()))?;
            let (key, value) = (KEYS[at], value.trim());
            if std::mem::replace(&mut seen[at], true) {
                return Err(NoiseError::Twice(key));
            }
            match key {
                "dark" => noise.dark = share(key, value)?,
                "bad" => noise.bad = share(key, value)?,
                "coincidence" => noise.coincidence = share(key, value)?,
                "packet" => noise.packet = share(key, value)?,
                "monitor" => noise.monitor = share(key, value)?,
                "dead" => noise.dead = share(key, value)?,
                _ if value == "random" => noise.pileup = Pileup::Random,
                _ if value == "never" => noise.pileup = Pileup::Never,
                _ => noise.pileup = Pileup::Forced(share(key, value)?),
            }
        }
        Ok(noise)
    }
}

/// 0 to 1, from `1%` or `0.01`.
fn share(key: &'static str, value: &str) -> Result<f64, NoiseError> {
    let (number, unit) = value.strip_suffix('%').map_or((value, 1.0), |n| (n.trim(), 0.01));
    let share = number.parse::<f64>().ok().map(|n| n * unit).filter(|s| (0.0..=1.0).contains(s));
    let allowed = if key == "pileup" {
        "never, random, or a share of 0 to 100% such as 1% or 0.01"
    } else {
        "a share of 0 to 100% such as 1% or 0.01"
    };
    share.ok_or_else(|| NoiseError::Share { key, value: value.to_owned(), allowed })
}

impl std::fmt::Display for Noise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = |s: f64| format!("{}%", (s * 1e8).round() / 1e6);
        let shares = [self.dark, self.bad, self.coincidence, self.packet, self.monitor, self.dead];
        let mut parts: Vec<String> = KEYS
            .iter()
            .zip(shares)
            .filter(|&(_, share)| share > 0.0)
            .map(|(key, share)| format!("{key}={}", percent(share)))
            .collect();
        match self.pileup {
            Pileup::Never => {}
            Pileup::Random => parts.push("pileup=random".to_owned()),
            Pileup::Forced(share) => parts.push(format!("pileup={}", percent(share))),
        }
        f.write_str(if parts.is_empty() { "none" } else { "" })?;
        f.write_str(&parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_and_printed_again() {
        let noise: Noise =
            "dark=1%, bad=0.001,coincidence=0.05%,packet=2%,monitor=3%,dead=4%,pileup=random"
                .parse()
                .unwrap();
        let expected = Noise {
            dark: 0.01,
            bad: 0.001,
            coincidence: 0.0005,
            packet: 0.02,
            monitor: 0.03,
            dead: 0.04,
            pileup: Pileup::Random,
        };
        assert_eq!(noise, expected);
        let text = "dark=1%,bad=0.1%,coincidence=0.05%,packet=2%,monitor=3%,dead=4%,pileup=random";
        assert_eq!(noise.to_string(), text);
        assert_eq!("none".parse(), Ok(Noise::NONE));
        assert_eq!(Noise::NONE.to_string(), "none");
        assert_eq!("pileup=3%".parse::<Noise>().unwrap().pileup, Pileup::Forced(0.03));
    }

    #[test]
    fn impossible_noise_is_named_with_key_value_and_range() {
        let said = |text: &str| text.parse::<Noise>().unwrap_err().to_string();
        assert_eq!(said("dark"), "\"dark\" is no KEY=SHARE, for example dark=1%");
        assert!(said("glow=1%").starts_with("\"glow\" is no kind of noise: dark, bad"));
        assert_eq!(said("bad=1%,bad=2%"), "bad is there twice");
        for value in ["101%", "-1%", "x", "", "NaN", "1.5", "inf"] {
            let text = said(&format!("bad={value}"));
            let wanted = format!("bad={value} is not possible: a share of 0 to 100%");
            assert!(text.starts_with(&wanted), "{text}");
        }
        assert!(said("pileup=often").contains("never, random, or a share"));
    }
}
