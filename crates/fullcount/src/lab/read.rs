//! Options of campaigns that are sizes, times and rates, refused with their key and the spellings that there are.

use std::time::Duration;

use fullcount_engine::config::{ConfigError, refuse};
use fullcount_io::quantity::{self, QuantityError, Rate};

/// Reads an option `by` its grammar.
pub fn read<T>(
    key: &'static str,
    text: &str,
    by: impl Fn(&str) -> Result<T, QuantityError>,
) -> Result<T, ConfigError> {
    by(text).map_err(|e| refuse(key, text, e.to_string()))
}

/// A size, bytes.
pub fn size(key: &'static str, text: &str) -> Result<u64, ConfigError> {
    read(key, text, quantity::size)
}

/// A number of bytes within a range.
pub fn bytes(flag: &'static str, text: &str, least: u64, most: u64) -> Result<u64, ConfigError> {
    let found = size(flag, text)?;
    if (least..=most).contains(&found) {
        return Ok(found);
    }
    let (least, most) = (quantity::size_text(least), quantity::size_text(most));
    Err(refuse(flag, text, format!("{least} to {most}")))
}

/// A time.
pub fn duration(key: &'static str, text: &str) -> Result<Duration, ConfigError> {
    read(key, text, quantity::duration)
}

/// A share of 0 to 1.
pub fn share(key: &'static str, text: &str) -> Result<f64, ConfigError> {
    read(key, text, quantity::share)
}

/// Bits or packets a second.
pub fn rate(key: &'static str, text: &str) -> Result<Rate, ConfigError> {
    read(key, text, str::parse)
}

/// Bits a second.
pub fn bits(key: &'static str, text: &str) -> Result<f64, ConfigError> {
    match rate(key, text)? {
        Rate::Bits(bits) => Ok(bits),
        Rate::Packets(_) => Err(refuse(key, text, "bits per second such as 25Gbps")),
    }
}

/// Whole bits a second.
pub fn whole_bits(key: &'static str, text: &str) -> Result<u64, ConfigError> {
    match rate(key, text)? {
        Rate::Bits(bits) if bits.fract() == 0.0 => Ok(bits as u64),
        Rate::Bits(_) | Rate::Packets(_) => {
            Err(refuse(key, text, "whole bits a second such as 10Gbps"))
        }
    }
}
