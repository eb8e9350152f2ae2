//! `--log`, `--log-format`, `--quiet`: what is told on standard error, of all verbs.
//!
//! Refuses levels that are none. Source: `docs/operations.md`, "Messages".

use clap::{Args, ValueEnum};
use fullcount_log::{LogFilter, LogForm};

/// What is told on standard error.
#[derive(Debug, Args)]
pub struct LogFlags {
    /// What is told: error, warning, notice, info, debug, or of one part: info,kafka=debug [default: info]
    #[arg(long, global = true, value_name = "LEVEL", help_heading = "Messages", value_parser = level)]
    log: Option<LogFilter>,
    /// Messages on standard error: lines for people, the same with time and place, or an object a line
    #[arg(
        long,
        global = true,
        value_name = "FORM",
        help_heading = "Messages",
        default_value = "text"
    )]
    log_format: Form,
    /// Warnings and worse only: no facts at the start, no line of progress
    #[arg(long, global = true, help_heading = "Messages")]
    quiet: bool,
}

// No texts of the values: with them `--help` of all verbs would take two lines more for each flag.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Form {
    Text,
    Long,
    Json,
}

fn level(text: &str) -> Result<LogFilter, String> {
    LogFilter::read(text).ok_or_else(|| format!("allowed: {}", LogFilter::ALLOWED))
}

impl LogFlags {
    /// Begins to take messages.
    pub fn begin(self) {
        let form = match self.log_format {
            Form::Text => LogForm::Text,
            Form::Long => LogForm::Long,
            Form::Json => LogForm::Json,
        };
        fullcount_log::install(form, self.quiet, self.log);
    }
}
