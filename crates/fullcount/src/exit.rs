//! Failures and their exit codes.

use crate::say::write_failure;
use std::process::ExitCode;

use fullcount_engine::config::ConfigError;
use fullcount_engine::run::RunError;
use fullcount_lab::error::LabError;

/// Why a verb did not do its work.
#[derive(Debug)]
pub enum Failure {
    /// Wrong option or configuration, found before anything was opened: 2.
    Wrong(String),
    /// Failed at run time: 1.
    Failed(anyhow::Error),
    /// One of both with its exit code, told already: who found it told the receivers of messages as well.
    Told(u8),
}

impl Failure {
    /// Of a run that did not start.
    pub fn of_start(e: &RunError) -> Failure {
        Failure::Told(if e.refused() { 2 } else { 1 })
    }
}

impl From<ConfigError> for Failure {
    fn from(e: ConfigError) -> Failure {
        Failure::Wrong(e.to_string())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(e: anyhow::Error) -> Failure {
        Failure::Failed(e)
    }
}

impl From<LabError> for Failure {
    fn from(e: LabError) -> Failure {
        match e {
            LabError::Refused(sentence) => Failure::Wrong(sentence),
            LabError::Failed(e) => Failure::Failed(e),
        }
    }
}

/// Prints the failure and turns the outcome into the process's exit code.
pub fn code(outcome: Result<u8, Failure>) -> ExitCode {
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(Failure::Wrong(sentence)) => {
            write_failure(format_args!("fullcount: {sentence}\n"));
            ExitCode::from(2)
        }
        Err(Failure::Failed(e)) => {
            write_failure(format_args!("fullcount: {e:#}\n"));
            ExitCode::from(1)
        }
        Err(Failure::Told(code)) => ExitCode::from(code),
    }
}
