//! Campaigns by the names that they had before: each says what is called instead (exit code 2).

use clap::Args;
use fullcount_detect::detector::registered;

use crate::exit::Failure;

/// Whatever was given to the old name.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct LabMovedFlags {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<String>,
}

/// Refuses `fullcount lab OLD`, with the command for `new`.
pub fn moved(old: &str, new: &str, flags: &LabMovedFlags) -> Result<u8, Failure> {
    let words: Vec<&str> =
        std::iter::once(new).chain(flags.words.iter().map(String::as_str)).collect();
    let command = words.join(" ");
    Err(Failure::Wrong(format!("lab {old} is now called: fullcount lab {command}")))
}

/// The same for `lab decode`, whose flags have other names too.
pub fn decode(flags: &LabMovedFlags) -> Result<u8, Failure> {
    let mut words: Vec<String> = vec!["detectors".into(), "--input".into(), "simulated".into()];
    let named =
        |flag: &str| flags.words.iter().any(|w| w == flag || w.starts_with(&format!("{flag}=")));
    if !named("--detector") {
        words.extend(["--detector".into(), registered().usual().into()]);
    }
    words.extend(flags.words.iter().map(|w| match w.split_once('=') {
        Some(("--core", cpu)) => format!("--cores={cpu}"),
        _ if w == "--core" => "--cores".to_owned(),
        _ => w.clone(),
    }));
    let command = words.join(" ");
    Err(Failure::Wrong(format!("lab decode is part of lab detectors now: fullcount lab {command}")))
}
