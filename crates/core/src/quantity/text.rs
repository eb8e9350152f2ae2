//! Quantities as people read them, each with its unit.

use std::time::Duration;

/// A value below 1000 with its decimal prefix.
pub(super) fn decimal(value: f64) -> (f64, &'static str) {
    match value {
        v if v >= 1e12 => (v / 1e12, "T"),
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e3 => (v / 1e3, "k"),
        v => (v, ""),
    }
}

/// Three digits: `1.18`, `11.8`, `118`.
fn three_digits(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// At most `digits` decimals, without zeros at the end.
pub(super) fn trimmed(value: f64, digits: usize) -> String {
    trim(format!("{value:.digits$}"))
}

fn trim(text: String) -> String {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A size as people read it: `64 MiB`, `1472 B`, `4.2 MiB`.
pub fn size_text(bytes: u64) -> String {
    let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (unit, name) in units {
        if bytes >= unit {
            return match bytes.is_multiple_of(unit) {
                true => format!("{} {name}", bytes / unit),
                false => format!("{:.1} {name}", bytes as f64 / unit as f64),
            };
        }
    }
    format!("{bytes} B")
}

/// A size that a setting takes: whole MiB and GiB as such, other sizes above 1 GiB with one digit, and anything else as
/// the number itself: `64 MiB`, `212992 B`.
pub fn exact_size_text(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 30 || b >= 1 << 20 && b.is_multiple_of(1 << 20) => size_text(b),
        b => format!("{b} B"),
    }
}

/// A size with a decimal prefix and three digits: `1.18 GB`.
pub fn decimal_size_text(bytes: f64) -> String {
    let (value, prefix) = decimal(bytes);
    format!("{} {prefix}B", three_digits(value))
}

/// Bits a second with three digits: `10 Gbit/s`, `9.87 Gbit/s`.
pub fn bits_text(bits: f64) -> String {
    let (value, prefix) = decimal(bits);
    format!("{} {prefix}bit/s", trim(three_digits(value)))
}

/// A number with three digits and its decimal prefix, from ten thousand on: `23.5 M`, `9500`, `4.25`.
pub fn short_text(value: f64) -> String {
    let (sign, size) = (if value < 0.0 { "-" } else { "" }, value.abs());
    match size {
        s if s < 1e4 => format!("{sign}{}", three_digits(s)),
        s => {
            let (scaled, prefix) = decimal(s);
            format!("{sign}{} {prefix}", three_digits(scaled))
        }
    }
}

/// A short time with two or three digits: `0.17 ms`, `54 ms`, `7.2 µs`.
pub fn time_text(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-4 => (s * 1e3, "ms"),
        s if s >= 1e-7 => (s * 1e6, "µs"),
        s => (s * 1e9, "ns"),
    };
    match value {
        v if v >= 9.95 => format!("{v:.0} {unit}"),
        v if v >= 0.995 => format!("{v:.1} {unit}"),
        v => format!("{v:.2} {unit}"),
    }
}

/// A time of any length in one unit: `1.50 ms`, `90.0 s`, `2.5 h`, `3.0 days`.
pub fn period_text(seconds: f64) -> String {
    match seconds {
        s if s >= 172_800.0 => format!("{:.1} days", s / 86_400.0),
        s if s >= 7200.0 => format!("{:.1} h", s / 3600.0),
        s if s >= 120.0 => format!("{:.1} min", s / 60.0),
        s if s >= 1.0 => format!("{s:.1} s"),
        s => format!("{:.2} ms", s * 1e3),
    }
}

/// How long something takes, as people say it: `45 s`, `2 min 05 s`, `3 h 05 min`.
pub fn spoken(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A whole number with commas: `12,345,678`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_their_units() {
        assert_eq!(size_text(64 << 20), "64 MiB");
        assert_eq!(size_text(1472), "1.4 KiB");
        assert_eq!(size_text(212_992), "208 KiB");
        assert_eq!(size_text(64), "64 B");
        assert_eq!(exact_size_text(212_992), "212992 B");
        assert_eq!(exact_size_text(64 << 20), "64 MiB");
        assert_eq!(exact_size_text((1 << 30) + 1), "1.0 GiB");
        assert_eq!(decimal_size_text(1.18e9), "1.18 GB");
        assert_eq!(decimal_size_text(999.0), "999 B");
    }

    #[test]
    fn rates_and_counts_are_readable() {
        let short = [23.46e6, 1.184e9, 9500.0, -12_300.0, 4.25, 0.0, 2e12].map(short_text);
        assert_eq!(short, ["23.5 M", "1.18 G", "9500", "-12.3 k", "4.25", "0.00", "2.00 T"]);
        assert_eq!((bits_text(10e9), bits_text(100e9)), ("10 Gbit/s".into(), "100 Gbit/s".into()));
        assert_eq!((bits_text(9.87e6), bits_text(2e12)), ("9.87 Mbit/s".into(), "2 Tbit/s".into()));
        assert_eq!(
            (grouped(139_322), grouped(999), grouped(0)),
            ("139,322".into(), "999".into(), "0".into())
        );
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn times_say_what_their_length_allows() {
        assert_eq!((time_text(7.18e-6), time_text(2e-9)), ("7.2 µs".into(), "2.0 ns".into()));
        assert_eq!((time_text(0.00017), time_text(0.0537)), ("0.17 ms".into(), "54 ms".into()));
        assert_eq!(
            (period_text(0.0015), period_text(259_200.0)),
            ("1.50 ms".into(), "3.0 days".into())
        );
        assert_eq!((period_text(119.0), period_text(7200.0)), ("119.0 s".into(), "2.0 h".into()));
        for (ms, said) in [
            (11_200, "12 s"),
            (44_100, "45 s"),
            (125_000, "2 min 05 s"),
            (11_100_000, "3 h 05 min"),
        ] {
            assert_eq!(spoken(Duration::from_millis(ms)), said);
        }
    }
}
