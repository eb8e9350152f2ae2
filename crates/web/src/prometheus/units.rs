//! Prometheus knows base units only: what we count in ns or ms is told in seconds.
//!
//! Refuses nothing: a name without such an end stays, with its whole number.

use std::fmt::Write as _;

/// A counter's name in base units, and how many of ours make one.
pub fn base(name: &str) -> (String, u64) {
    for (end, per_second) in [("_ns", 1_000_000_000), ("_us", 1_000_000), ("_ms", 1_000)] {
        if let Some(rest) = name.strip_suffix(end) {
            return (format!("{rest}_seconds"), per_second);
        }
    }
    (name.to_owned(), 1)
}

/// A value, exact: `1.5` for 1500 of 1000.
pub fn value(out: &mut String, value: u64, per: u64) {
    let (whole, part) = (value / per, value % per);
    let digits = per.ilog10() as usize;
    // Writing into a String cannot fail.
    let _ = match part {
        0 => write!(out, "{whole}"),
        _ => write!(out, "{}", format!("{whole}.{part:0digits$}").trim_end_matches('0')),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_in_seconds_and_values_are_exact() {
        assert_eq!(base("kafka_spool_age_ms"), ("kafka_spool_age_seconds".into(), 1000));
        assert_eq!(base("host_probe_ns"), ("host_probe_seconds".into(), 1_000_000_000));
        assert_eq!(base("cone_turns"), ("cone_turns".into(), 1));
        for (n, per, text) in [
            (0, 1, "0"),
            (u64::MAX, 1, "18446744073709551615"),
            (1500, 1000, "1.5"),
            (1, 1_000_000_000, "0.000000001"),
            (3_000_000_000, 1_000_000_000, "3"),
            (u64::MAX, 1_000_000_000, "18446744073.709551615"),
        ] {
            let mut out = String::new();
            value(&mut out, n, per);
            assert_eq!(out, text);
        }
    }
}
