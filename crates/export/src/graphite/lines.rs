//! Graphite's plaintext: `NAME VALUE SECONDS`, a line each.
//!
//! Refuses nothing: what a name may not hold becomes `_`. Source: `control-and-monitoring.md` section 4.2.

use std::io::Write as _;

/// Name of a counter behind a prefix; a `.` parts folders, anything that Graphite may read as more than a name is `_`.
fn write_name(out: &mut Vec<u8>, prefix: &str, name: &str) {
    out.extend_from_slice(prefix.as_bytes());
    let clean = |c: u8| match c {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => c,
        _ => b'_',
    };
    out.extend(name.bytes().map(clean));
}

/// All counters of one moment in one buffer, and how many lines that are.
pub fn lines<'a>(
    prefix: &str,
    counters: impl Iterator<Item = (&'a str, i64)>,
    seconds: u64,
) -> (Vec<u8>, u64) {
    let (mut out, mut n) = (Vec::with_capacity(8 << 10), 0);
    for (name, value) in counters {
        write_name(&mut out, prefix, name);
        // Writing into a vector cannot fail.
        let _ = writeln!(out, " {value} {seconds}");
        n += 1;
    }
    (out, n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_has_name_whole_value_and_whole_seconds() {
        let counters = [("receive.packets", 7), ("a b\n;c", i64::MAX)];
        let (text, n) = lines("efu.x.0.", counters.into_iter(), 1_500_000_000);
        let want = "efu.x.0.receive.packets 7 1500000000\n\
                    efu.x.0.a_b__c 9223372036854775807 1500000000\n";
        assert_eq!((String::from_utf8(text).unwrap().as_str(), n), (want, 2));
    }

    proptest! {
        #[test]
        fn any_name_is_one_line_of_three_words(name in ".*", value: i64, at: u32) {
            let (text, n) = lines("p", [(name.as_str(), value)].into_iter(), at.into());
            let text = String::from_utf8(text).unwrap();
            prop_assert_eq!((n, text.lines().count()), (1, 1));
            let words: Vec<&str> = text.trim_end().split(' ').collect();
            prop_assert_eq!(words.len(), 3);
            prop_assert_eq!(words[1].parse::<i64>().unwrap(), value);
        }
    }
}
