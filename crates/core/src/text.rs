//! What text of others may not do to a line of ours: begin a new one, or steer the terminal that shows it.
//!
//! Names and titles with such characters are refused; in messages they are replaced or escaped. Source: Unicode 16,
//! categories Cc, Zl and Zp, and the formatting characters of UAX #9.

/// True for what begins a new line, steers a terminal, or turns the direction of text around.
#[inline]
pub fn is_control(c: char) -> bool {
    // Line and paragraph separator; embeddings, overrides and isolates of direction.
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_lines_escapes_separators_and_turns_are_control_characters() {
        let bad = "\0\t\n\r\u{1b}\u{7f}\u{85}\u{9b}\u{2028}\u{2029}\
                   \u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}";
        assert!(bad.chars().all(is_control));
        // The neighbours of each range, and what names have: also a joiner, which some scripts need.
        let good = " aZ0-_./Åéß中🦀\u{a0}\u{200d}\u{2027}\u{202f}\u{2065}\u{206a}";
        assert_eq!(good.chars().find(|&c| is_control(c)), None);
    }
}
