//! Quantities as people type them: sizes (`64KiB`), durations (`8s`), rates (`10Gbps`,
//! `14.88Mpps`), shares (`1%`) and plain numbers with a prefix (`1M`, `1e6`); as people read them: `*_text`.
//!
//! Each has one grammar, used by flags, URLs and the configuration file alike. A rate in bit/s counts UDP
//! payload bits unless the caller says wire bits; `pps` counts packets. Refuses: signs, empty text, unknown
//! units, a duration or a rate without a unit, anything that is not a finite number, and values outside the
//! range that the message names. Source: `docs/architecture.md`, "Flags are key paths".

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::link::Wire;

mod text;

pub use text::{
    bits_text, decimal_size_text, exact_size_text, grouped, period_text, short_text, size_text,
    spoken, time_text,
};

/// Why a quantity was refused; the message gives the value and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum QuantityError {
    /// The text is not of the expected form.
    #[error("'{value}' is not a {what}: write {form}")]
    Form { what: &'static str, value: String, form: &'static str },
    /// The number is outside the range.
    #[error("'{value}' is outside the range of a {what}: {range}")]
    Range { what: &'static str, value: String, range: &'static str },
    /// A rate without its unit: bits and packets are far apart, so neither is guessed.
    #[error("'{value}' has no unit: {value}bps counts bits a second, {value}pps packets")]
    Unit { value: String },
}

const SIZE: &str =
    "bytes or a number with B, kB, KiB, MB, MiB, GB or GiB, for example 1472 or 64KiB";
const DURATION: &str = "a number with ns, us, ms, s, min or h, for example 500ms or 8s";
const RATE: &str =
    "a number with bps, kbps, Mbps, Gbps or pps, kpps, Mpps, for example 10Gbps or 14.88Mpps";
const EVENTS: &str = "a number with ev/s, kev/s, Mev/s or Gev/s, for example 1Mev/s";
const SHARE: &str = "a share such as 1% or 0.01";
const HERTZ: &str = "a number with Hz, kHz or MHz, for example 10kHz";
const NUMBER: &str = "a number, with k, M or G if you like, for example 250k or 1e6";

/// Splits `1.5e3GiB` into the number and the unit. An `e` belongs to the number only if digits follow.
fn split(text: &str) -> Option<(f64, &str)> {
    let b = text.as_bytes();
    let digits = |mut i: usize| {
        while b.get(i).is_some_and(|c| c.is_ascii_digit() || *c == b'.') {
            i += 1;
        }
        i
    };
    let mut end = digits(0);
    if end > 0 && matches!(b.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(b.get(end + 1), Some(b'+' | b'-')));
        let exponent = end + 1 + sign;
        if b.get(exponent).is_some_and(u8::is_ascii_digit) {
            end = exponent;
            while b.get(end).is_some_and(u8::is_ascii_digit) {
                end += 1;
            }
        }
    }
    let value: f64 = text.get(..end)?.parse().ok()?;
    value.is_finite().then_some((value, text[end..].trim_start()))
}

/// A number of bytes: `1472`, `64KiB`, `1.5MB`. 0..=2⁵³ so that every value is exact.
///
/// # Errors
/// Text of another form, a fraction of a byte, or a value above 2⁵³.
pub fn size(text: &str) -> Result<u64, QuantityError> {
    let form = || QuantityError::Form { what: "size", value: text.into(), form: SIZE };
    let (value, unit) = split(text.trim()).ok_or_else(form)?;
    let factor: u64 = match unit {
        "" | "B" => 1,
        "kB" | "KB" | "k" | "K" => 1000,
        "MB" | "M" => 1_000_000,
        "GB" | "G" => 1_000_000_000,
        "KiB" | "kiB" | "Ki" => 1 << 10,
        "MiB" | "Mi" => 1 << 20,
        "GiB" | "Gi" => 1 << 30,
        _ => return Err(form()),
    };
    let bytes = value * factor as f64;
    if bytes.fract() != 0.0 || bytes > (1u64 << 53) as f64 {
        let range = "whole bytes up to 8192 TiB";
        return Err(QuantityError::Range { what: "size", value: text.into(), range });
    }
    Ok(bytes as u64)
}

/// A duration with its unit: `8s`, `500ms`, `2min`; 0 to 10 years, exact to 1 ns.
///
/// # Errors
/// Text of another form (a unit is required) or a value above 10 years.
pub fn duration(text: &str) -> Result<Duration, QuantityError> {
    let form = || QuantityError::Form { what: "duration", value: text.into(), form: DURATION };
    let (value, unit) = split(text.trim()).ok_or_else(form)?;
    let nanos = match unit {
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" | "m" => 60e9,
        "h" => 3600e9,
        _ => return Err(form()),
    };
    // 10 years of 366 days: far below 2⁶⁴ ns, far above any run.
    if value * nanos > 10.0 * 366.0 * 86_400e9 {
        let range = "0 to 10 years";
        return Err(QuantityError::Range { what: "duration", value: text.into(), range });
    }
    Ok(Duration::from_nanos((value * nanos).round() as u64))
}

/// A plain number with an optional prefix: `1e6`, `250k`, `1M`. Finite and at least 0.
///
/// # Errors
/// Text of another form.
pub fn number(text: &str) -> Result<f64, QuantityError> {
    let form = || QuantityError::Form { what: "number", value: text.into(), form: NUMBER };
    let (value, unit) = split(text.trim()).ok_or_else(form)?;
    Ok(value * prefix(unit).ok_or_else(form)?)
}

/// A whole number with an optional prefix: `1000000`, `1e6`, `1M`; up to 2⁵³.
///
/// # Errors
/// Text of another form, a fraction, or a value above 2⁵³.
pub fn count(text: &str) -> Result<u64, QuantityError> {
    let value = number(text)?;
    if value.fract() != 0.0 || value > (1u64 << 53) as f64 {
        let range = "whole numbers up to 2^53";
        return Err(QuantityError::Range { what: "count", value: text.into(), range });
    }
    Ok(value as u64)
}

fn prefix(text: &str) -> Option<f64> {
    Some(match text {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return None,
    })
}

/// A share of 0 to 1: `1%` or `0.01`.
///
/// # Errors
/// Text of another form, or a value outside of 0 to 100 %.
pub fn share(text: &str) -> Result<f64, QuantityError> {
    let form = || QuantityError::Form { what: "share", value: text.into(), form: SHARE };
    let (value, unit) = split(text.trim()).ok_or_else(form)?;
    let value = match unit {
        "" => value,
        "%" => value / 100.0,
        _ => return Err(form()),
    };
    let range = "0% to 100%";
    let ok = (0.0..=1.0).contains(&value);
    ok.then_some(value).ok_or(QuantityError::Range { what: "share", value: text.into(), range })
}

/// A frequency in Hz: `14Hz`, `10kHz`, `5MHz`.
///
/// # Errors
/// Text of another form (the unit is required).
pub fn hertz(text: &str) -> Result<f64, QuantityError> {
    let form = || QuantityError::Form { what: "frequency", value: text.into(), form: HERTZ };
    let hertz = text.trim().strip_suffix("Hz").ok_or_else(form)?;
    number(hertz).map_err(|_| form())
}

/// True if `text` ends in a unit of events a second.
pub fn counts_events(text: &str) -> bool {
    events(text).is_some()
}

/// The number of `1Mev/s`, `1Meps` or `1Mevents/s`, with its prefix.
fn events(text: &str) -> Option<&str> {
    ["ev/s", "eps", "events/s"].iter().find_map(|unit| text.trim().strip_suffix(unit))
}

/// Events a second, 1..=1e11: `1Mev/s`, `1Meps`, `1Mevents/s`.
///
/// # Errors
/// Text of another form (a unit is required) or a value outside the range.
pub fn events_per_second(text: &str) -> Result<f64, QuantityError> {
    let form = || QuantityError::Form { what: "rate", value: text.into(), form: EVENTS };
    let number = number(events(text).ok_or_else(form)?).map_err(|_| form())?;
    let range = "1ev/s to 100Gev/s";
    let ok = (1.0..=1e11).contains(&number);
    ok.then_some(number).ok_or(QuantityError::Range { what: "rate", value: text.into(), range })
}

/// How fast to send.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// Bits a second, 1..=1e15: payload bits, or wire bits where the caller says so.
    Bits(f64),
    /// Packets a second, 0.001..=1e9.
    Packets(f64),
}

impl Rate {
    /// Packets a second for packets of `payload` bytes. With `wire`, a rate in bits counts frames,
    /// preamble and gap on that link; without, UDP payload bits. A payload of 0 B has no payload
    /// bits: it then counts as one byte, so that the answer stays finite.
    pub fn packets_per_second(self, payload: usize, wire: Option<Wire>) -> f64 {
        match self {
            Rate::Packets(pps) => pps,
            Rate::Bits(bits) => match wire {
                Some(wire) => bits / wire.bits(payload) as f64,
                None => bits / (payload.max(1) * 8) as f64,
            },
        }
    }
}

impl FromStr for Rate {
    type Err = QuantityError;

    /// `10Gbps`, `10Gbit/s`, `10Gb/s`, `14.88Mpps`. A bare number is refused: people mean packets or
    /// events by it as often as bits.
    fn from_str(text: &str) -> Result<Rate, QuantityError> {
        let form = || QuantityError::Form { what: "rate", value: text.into(), form: RATE };
        let out = |range| QuantityError::Range { what: "rate", value: text.into(), range };
        let (value, unit) = split(text.trim()).ok_or_else(form)?;
        if let Some(p) = unit.strip_suffix("pps") {
            let pps = value * prefix(p).ok_or_else(form)?;
            let ok = (1e-3..=1e9).contains(&pps);
            return ok.then_some(Rate::Packets(pps)).ok_or_else(|| out("0.001pps to 1Gpps"));
        }
        let ends = ["bps", "bit/s", "b/s"];
        let Some(p) = ends.iter().find_map(|e| unit.strip_suffix(e)) else {
            let value = text.trim().to_owned();
            return Err(prefix(unit).map_or_else(form, |_| QuantityError::Unit { value }));
        };
        let bits = value * prefix(p).ok_or_else(form)?;
        let ok = (1.0..=1e15).contains(&bits);
        ok.then_some(Rate::Bits(bits)).ok_or_else(|| out("1bps to 1000000Gbps"))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self {
            Rate::Bits(b) => (*b, "bit/s"),
            Rate::Packets(p) => (*p, "packets/s"),
        };
        let (scaled, prefix) = text::decimal(value);
        write!(f, "{} {prefix}{unit}", text::trimmed(scaled, 3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_with_binary_and_decimal_units() {
        assert_eq!(size("1472"), Ok(1472));
        assert_eq!(size("64KiB"), Ok(65_536));
        assert_eq!(size(" 64 MiB "), Ok(64 << 20));
        assert_eq!(size("1.5kB"), Ok(1500));
        assert_eq!(size("1GiB"), Ok(1 << 30));
        assert_eq!(size("0"), Ok(0));
        for bad in ["", "KiB", "-1", "+1", "64 Kib", "64KiBs", "nan", "inf", "1..2", "e3", "0x10"] {
            assert!(matches!(size(bad), Err(QuantityError::Form { .. })), "{bad}");
        }
        assert!(matches!(size("1.5"), Err(QuantityError::Range { .. })));
        assert!(matches!(size("1e300GiB"), Err(QuantityError::Range { .. })));
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("8s"), Ok(Duration::from_secs(8)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5us"), Ok(Duration::from_nanos(1500)));
        assert_eq!(duration("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("1e3ns"), Ok(Duration::from_micros(1)));
        let e = duration("8").unwrap_err().to_string();
        assert!(e.contains("'8'") && e.contains("8s"), "{e}");
        assert!(matches!(duration("99999999h"), Err(QuantityError::Range { .. })));
    }

    #[test]
    fn rates_count_bits_or_packets() {
        assert_eq!("10Gbps".parse(), Ok(Rate::Bits(10e9)));
        assert_eq!("10Gbit/s".parse(), Ok(Rate::Bits(10e9)));
        assert_eq!("2.5Gb/s".parse(), Ok(Rate::Bits(2.5e9)));
        assert_eq!("14.88Mpps".parse(), Ok(Rate::Packets(14.88e6)));
        assert_eq!("1e6bps".parse(), Ok(Rate::Bits(1e6)));
        assert_eq!("1e6pps".parse(), Ok(Rate::Packets(1e6)));
        for bad in ["", "fast", "10Gbyte", "10 G pps", "-1pps"] {
            assert!(matches!(bad.parse::<Rate>(), Err(QuantityError::Form { .. })), "{bad}");
        }
        for bad in ["0bps", "0pps", "2Gpps", "1e16bps"] {
            assert!(matches!(bad.parse::<Rate>(), Err(QuantityError::Range { .. })), "{bad}");
        }
        assert_eq!(Rate::Bits(10e9).to_string(), "10 Gbit/s");
        assert_eq!(Rate::Packets(14.88e6).to_string(), "14.88 Mpackets/s");
    }

    #[test]
    fn a_rate_without_a_unit_is_refused_with_the_spellings() {
        for bare in ["1M", "1e6", "0", " 2.5 G", "1"] {
            let e = bare.parse::<Rate>().unwrap_err();
            let typed = bare.trim();
            assert_eq!(e, QuantityError::Unit { value: typed.into() });
            let text = e.to_string();
            assert!(text.contains(&format!("{typed}bps")), "{text}");
            assert!(text.contains(&format!("{typed}pps")), "{text}");
        }
        assert_eq!(events_per_second("2.5Mev/s"), Ok(2.5e6));
        assert_eq!(events_per_second("1keps"), Ok(1000.0));
        assert_eq!(events_per_second("7events/s"), Ok(7.0));
        for bad in ["1M", "1Mpps", "ev/s", "0ev/s", "200Gev/s"] {
            assert!(events_per_second(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_rate_becomes_packets_by_payload_or_by_frame() {
        let pps = Rate::Bits(10e9).packets_per_second(1250, None);
        assert!((pps - 1e6).abs() < 1e-6);
        let wire = Wire { ipv6: false, mtu: 1500 };
        // The classic line rate of 10 GbE at the smallest frame: 14.88 Mpps.
        let pps = Rate::Bits(10e9).packets_per_second(18, Some(wire));
        assert!((pps - 14_880_952.38).abs() < 1.0, "{pps}");
        assert_eq!(Rate::Packets(7.0).packets_per_second(0, Some(wire)), 7.0);
        assert!(Rate::Bits(8.0).packets_per_second(0, None).is_finite());
    }

    #[test]
    fn shares_and_frequencies_are_read_with_their_units() {
        assert_eq!((share("1%"), share(" 0.01 "), share("100 %")), (Ok(0.01), Ok(0.01), Ok(1.0)));
        assert!(matches!(share("1.01"), Err(QuantityError::Range { .. })));
        assert!(matches!(share("1pct"), Err(QuantityError::Form { .. })));
        assert_eq!((hertz("14Hz"), hertz("10kHz"), hertz("1e3 Hz")), (Ok(14.0), Ok(1e4), Ok(1e3)));
        for bad in ["14", "Hz", "-1Hz", "1ksHz"] {
            assert!(hertz(bad).unwrap_err().to_string().contains("10kHz"), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,24}") {
            let _ = (size(&text), duration(&text), number(&text), count(&text), text.parse::<Rate>());
            let _ = (events_per_second(&text), counts_events(&text), share(&text), hertz(&text));
        }

        #[test]
        fn whole_sizes_round_trip(n in 0u64..1 << 40) {
            prop_assert_eq!(size(&n.to_string()), Ok(n));
            prop_assert_eq!(count(&n.to_string()), Ok(n));
        }
    }
}
