//! `[time]` as text to the [`TimeBase`] that detectors get.
//!
//! Refuses a tick or period of 0 or above 2³¹−1 ns, and `pulse = "data"` for detectors whose format has
//! no pulses (they say so themselves). Source: `docs/contracts.md`, "Time".

use fullcount_core::time::{Nanos, PulseGrid, TickLength};
use fullcount_detect::detector::{Clock, TimeBase, registered};

use crate::config::{ConfigError, TimeConfig, refuse};

const PULSE: &str = "none, data (the pulses that the readouts carry), grid(PERIOD) or grid(PERIOD, PHASE) with PERIOD such as 14Hz or \
                     71428571ns (1 ns to 2147483647 ns) and PHASE such as 5ms";

/// Reads `[time]`.
///
/// # Errors
/// Key, value, and what is allowed.
pub fn read(config: &TimeConfig) -> Result<TimeBase, ConfigError> {
    let epoch = epoch(&config.epoch)?;
    let tick = config.tick.as_deref().map(tick).transpose()?;
    let pulses_in_data = config.pulse.trim() == "data";
    let grid = match config.pulse.trim() {
        "none" | "data" if config.epoch == NOW => PulseGrid::live_blocks(epoch),
        "none" | "data" => PulseGrid::reference_blocks(epoch),
        text => grid(text, epoch).ok_or_else(|| refuse("time.pulse", text, PULSE))?,
    };
    Ok(TimeBase { epoch, grid, pulses_in_data, tick, now: config.epoch == NOW })
}

/// `time.epoch` of a run whose times are those of the host's clock.
pub const NOW: &str = "now";
/// `time.epoch` where nothing is chosen.
pub const AUTO: &str = "auto";

/// What `time.epoch = "auto"` is: the host's clock for a live source whose format has no absolute time, else 1970; `live`: packets
/// come in now.
///
/// # Errors
/// `now` for a recording, or for a format whose times are absolute.
pub fn choose(config: &TimeConfig, kind: &str, live: bool) -> Result<TimeConfig, ConfigError> {
    let clock = registered().clock(kind).unwrap_or(Clock::Absolute);
    let mut chosen = config.clone();
    match (&config.epoch[..], live, clock) {
        (AUTO, true, Clock::Counting | Clock::Local) => chosen.epoch = NOW.into(),
        (AUTO, ..) => chosen.epoch = BEGINNING.into(),
        (NOW, false, _) => {
            let why = "for live sources only: a recording has the clock that was captured with it, or 1970, or a time such as \
                       2026-01-31T12:00:00Z; to play one as if it came now, send it to a live run (fullcount send --source)";
            return Err(refuse("time.epoch", NOW, why));
        }
        (NOW, true, Clock::Absolute) => {
            let why =
                format!("a time, or auto: what detector.kind = {kind} sends needs no other clock");
            return Err(refuse("time.epoch", NOW, why));
        }
        _ => {}
    }
    Ok(chosen)
}

/// Where times begin that nothing else is known of.
const BEGINNING: &str = "1970-01-01T00:00:00Z";

fn grid(text: &str, epoch: Nanos) -> Option<PulseGrid> {
    let inner = text.strip_prefix("grid(")?.strip_suffix(')')?;
    let (period, phase) = match inner.split_once(',') {
        Some((period, phase)) => (period, nanos(phase.trim())?),
        None => (inner, 0),
    };
    let period = period.trim();
    let (num, den) = match period.strip_suffix("Hz") {
        // 14Hz is 10⁹/14 ns exactly: a grid made of rounded nanoseconds drifts 34 ms a day.
        Some(hertz) => (1_000_000_000, hertz.trim().parse().ok()?),
        None => (u64::try_from(nanos(period)?).ok()?, 1),
    };
    PulseGrid::new(num, den, Nanos(epoch.0.checked_add(phase)?))
}

/// A whole number of `ns`, `us`, `ms` or `s`.
fn nanos(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(|c: char| c.is_alphabetic() || c == 'µ');
    let factor = match &text[digits.len()..] {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    digits.trim().parse::<i64>().ok()?.checked_mul(factor)
}

fn tick(text: &str) -> Result<TickLength, ConfigError> {
    let read = || {
        let number = text.strip_suffix("ns")?.trim();
        let (num, den) = number.split_once('/').unwrap_or((number, "1"));
        TickLength::new(num.trim().parse().ok()?, den.trim().parse().ok()?)
    };
    let why = "a length such as 1ns or 125/2ns, both numbers 1 to 2147483647";
    read().ok_or_else(|| refuse("time.tick", text, why))
}

fn epoch(text: &str) -> Result<Nanos, ConfigError> {
    if [NOW, AUTO].contains(&text) {
        // The detector's own clock; the host's is joined to it later.
        return Ok(Nanos(0));
    }
    if let Ok(ns) = text.parse::<i64>() {
        return Ok(Nanos(ns));
    }
    let why = "a time such as 2026-01-31T12:00:00Z (years 1677 to 2262), ns since 1970, now (the host's clock), or auto";
    let refused = || refuse("time.epoch", text, why);
    let stamp: jiff::Timestamp = text.parse().map_err(|_| refused())?;
    i64::try_from(stamp.as_nanosecond()).map(Nanos).map_err(|_| refused())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_core::time::PulseTime;

    fn with(pulse: &str, epoch: &str, tick: Option<&str>) -> Result<TimeBase, ConfigError> {
        read(&TimeConfig { pulse: pulse.into(), epoch: epoch.into(), tick: tick.map(Into::into) })
    }

    #[test]
    fn pulses_count_from_epoch_and_phase() {
        let t = with("grid(14Hz, 5ms)", "1970-01-01T00:00:01Z", None).unwrap();
        assert_eq!(t.epoch, Nanos(1_000_000_000));
        let (first, next) = t.grid.around(Nanos(1_005_000_000));
        assert_eq!((first, next), (PulseTime(1_005_000_000), PulseTime(1_076_428_571)));
        assert_eq!(with("none", "12", None).unwrap().epoch, Nanos(12));
    }

    #[test]
    fn live_formats_without_absolute_times_get_the_hosts() {
        let chosen = |epoch: &str, kind: &str, live| {
            let config = TimeConfig { epoch: epoch.into(), ..TimeConfig::default() };
            choose(&config, kind, live).map(|time| time.epoch).map_err(|e| e.to_string())
        };
        for kind in ["sonde", "multigrid", "multiblade", "gdgem"] {
            assert_eq!(chosen("auto", kind, true).unwrap(), "now", "{kind}");
            assert_eq!(chosen("auto", kind, false).unwrap(), BEGINNING, "{kind}");
            assert_eq!(chosen("5", kind, true).unwrap(), "5", "{kind}");
        }
        assert_eq!(chosen("auto", "sequence", true).unwrap(), BEGINNING);
        for (kind, live) in [("sonde", false), ("sequence", true)] {
            let said = chosen("now", kind, live).unwrap_err();
            assert!(said.starts_with("time.epoch = now: "), "{said}");
        }
        let time = with("grid(14Hz)", "now", None).unwrap();
        assert!(time.now && time.epoch == Nanos(0));
    }

    #[test]
    fn ticks_are_fractions() {
        let t = with("none", "0", Some("125/2 ns")).unwrap();
        assert_eq!(t.tick.unwrap().fraction(), (125, 2));
    }

    #[test]
    fn nonsense_is_refused_with_the_key() {
        for (p, e, t, key) in [
            ("grid(0Hz)", "0", None, "time.pulse"),
            ("grid(3s)", "0", None, "time.pulse"),
            ("sometimes", "0", None, "time.pulse"),
            ("none", "yesterday", None, "time.epoch"),
            ("none", "0", Some("0ns"), "time.tick"),
            ("none", "0", Some("1"), "time.tick"),
        ] {
            let said = with(p, e, t).unwrap_err().to_string();
            assert!(said.starts_with(key), "{said}");
        }
    }
}
