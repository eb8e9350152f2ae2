//! Commands that read and set a decoder's thresholds while data flow: `THRESHOLD_GET`, `THRESHOLD_SET NAME VALUE`.
//!
//! A change takes effect at a batch's border and lasts until the run ends; the file is as it was. Refuses names that the detector
//! does not have, and values above 65,535 ADC counts. Source: `docs/operations.md`.

use fullcount_core::detector::{CommandError, CommandInfo};

/// What is asked of a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threshold<'a> {
    /// All of them.
    Get,
    /// This one is to be that many ADC counts.
    Set(&'a str, u16),
}

/// The commands of a decoder with these thresholds, named as `NAME|NAME`.
pub fn commands(names: &str) -> Vec<CommandInfo> {
    let (get, set) =
        ("the thresholds as they are", "sets a threshold, in ADC counts, for what comes");
    vec![
        CommandInfo {
            name: "THRESHOLD_GET".into(),
            arguments: String::new(),
            help: get.into(),
            count: 0..=0,
            changes: false,
        },
        CommandInfo {
            name: "THRESHOLD_SET".into(),
            arguments: format!("{names} VALUE"),
            help: set.into(),
            count: 2..=2,
            changes: true,
        },
    ]
}

/// Reads a command.
///
/// # Errors
/// It is none of these, or the value is none.
pub fn read<'a>(name: &str, arguments: &[&'a str]) -> Result<Threshold<'a>, CommandError> {
    match (name, arguments) {
        ("THRESHOLD_GET", []) => Ok(Threshold::Get),
        ("THRESHOLD_SET", [of, value]) => match value.parse() {
            Ok(value) => Ok(Threshold::Set(of, value)),
            Err(_) => Err(CommandError::Arguments(format!("{value}: 0 to 65535 ADC counts"))),
        },
        _ => Err(CommandError::Unknown(name.to_owned())),
    }
}

/// There is no threshold of this name.
pub fn unknown(name: &str, allowed: &str) -> CommandError {
    CommandError::Arguments(format!("{name}: {allowed}"))
}

/// The reply to `THRESHOLD_GET`: a threshold that nothing was set for, or that differs by channel, is told as `as-configured`.
pub fn told(name: &str, value: Option<u16>) -> String {
    value.map_or_else(|| format!("{name} as-configured"), |value| format!("{name} {value}"))
}
