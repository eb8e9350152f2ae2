//! How columns are compressed: one key with the same values and the same default for NeXus files, tables and `write`.
//!
//! The default is `none` everywhere: compression takes processor time that receiving may need, and a default must not
//! lose packets. `gzip` alone is level 4. Kafka compresses messages, with a different key and values.
//!
//! Refuses other values and levels. Source: `docs/formats/nexus.md` section 3.

use std::fmt;
use std::str::FromStr;

/// Filters of the chunked datasets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// None: fastest, readable everywhere.
    #[default]
    None,
    /// Shuffle and gzip, level 1..=9: 2 to 4 times smaller, readable everywhere, and several times slower to write. In
    /// SWMR mode a chunk that is flushed before it is full leaves its old copy in the file, so rare flushes make
    /// smaller files.
    Gzip(u8),
}

/// Level of `gzip` without a number.
const LEVEL: u8 = 4;

/// A text that is no [`Compression`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not allowed: {ALLOWED}", ALLOWED = Compression::ALLOWED)]
pub struct NoCompression(String);

impl Compression {
    /// The words of the key, for messages.
    pub const ALLOWED: &'static str = "none, gzip, or gzip:1 to gzip:9";

    /// The default of the key, for sections.
    pub fn unless_chosen() -> String {
        Compression::default().to_string()
    }

    /// True if chunks go through a filter.
    pub fn is_some(self) -> bool {
        self != Compression::None
    }
}

impl FromStr for Compression {
    type Err = NoCompression;

    fn from_str(text: &str) -> Result<Compression, NoCompression> {
        let level = match text.split_once(':') {
            None if text == "none" => return Ok(Compression::None),
            None if text == "gzip" => Some(LEVEL),
            Some(("gzip", level)) if level.len() == 1 => level.parse().ok(),
            _ => None,
        };
        match level {
            Some(level @ 1..=9) => Ok(Compression::Gzip(level)),
            _ => Err(NoCompression(text.to_owned())),
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compression::None => f.write_str("none"),
            Compression::Gzip(level) => write!(f, "gzip:{level}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_read_and_said_and_nothing_else() {
        let of = |text: &str| text.parse::<Compression>();
        assert_eq!(of("none"), Ok(Compression::None));
        assert_eq!(of("gzip"), Ok(Compression::Gzip(4)));
        for level in 1..=9 {
            let one = Compression::Gzip(level);
            assert_eq!(of(&format!("gzip:{level}")), Ok(one));
            assert_eq!(of(&one.to_string()), Ok(one));
        }
        assert_eq!(of(&Compression::default().to_string()), Ok(Compression::None));
        for other in ["", "gzip:", "gzip:0", "gzip:10", "gzip:+4", "gzip:04", "zip", "lz4", "None"]
        {
            let e = of(other).unwrap_err().to_string();
            assert_eq!(e, format!("\"{other}\" is not allowed: none, gzip, or gzip:1 to gzip:9"));
        }
    }
}
