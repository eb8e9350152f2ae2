//! Dates as NeXus writes them: ISO 8601 in UTC with microseconds, `2018-06-01T12:00:00.000000Z`.
//!
//! Every 64-bit number of nanoseconds is a date between 1677 and 2262.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// `ns` since 1970 as text, microseconds rounded down.
pub fn iso8601(ns: i64) -> String {
    let us = ns.div_euclid(1000);
    let time = Timestamp::from_microsecond(us).expect("jiff's years -9999 to 9999 hold i64 ns");
    format!("{time:.6}")
}

/// A system time as ns since 1970; before 1970 it is 0.
pub fn nanos(t: SystemTime) -> i64 {
    let since = t.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    i64::try_from(since).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        assert_eq!(iso8601(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(iso8601(-1), "1969-12-31T23:59:59.999999Z");
        assert_eq!(iso8601(1_527_854_400_000_000_000), "2018-06-01T12:00:00.000000Z");
        assert_eq!(iso8601(951_782_400_123_456_789), "2000-02-29T00:00:00.123456Z");
        assert_eq!(iso8601(4_107_542_399_999_999_999), "2100-02-28T23:59:59.999999Z");
        assert_eq!(iso8601(i64::MAX), "2262-04-11T23:47:16.854775Z");
        assert_eq!(iso8601(i64::MIN), "1677-09-21T00:12:43.145224Z");
    }
}
