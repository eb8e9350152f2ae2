//! Why a measurement gave no result, told apart by whether the person asked for something that cannot be.

use fullcount_child::ChildError;
use fullcount_engine::config::ConfigError;

/// Why a trial gave no result.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum TrialError {
    #[error(transparent)]
    Child(#[from] ChildError),
    #[error("{program}: {reason}")]
    Result { program: String, reason: String },
    #[error("two cores near each other: {0}")]
    Cores(#[from] std::io::Error),
    #[error("{what}: {cause}")]
    System { what: &'static str, cause: std::io::Error },
    #[error(transparent)]
    Profile(#[from] crate::profile::ProfileError),
}

impl TrialError {
    /// What the system said when this was done.
    pub(crate) fn when(what: &'static str) -> impl Fn(std::io::Error) -> TrialError {
        move |cause| TrialError::System { what, cause }
    }
}

/// What `fullcount lab` ends with instead of a result.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A wrong option or an input file that is not there, found before anything was opened: exit code 2.
    #[error("{0}")]
    Refused(String),
    /// Failed at run time: exit code 1.
    #[error("{0:#}")]
    Failed(anyhow::Error),
}

impl From<ConfigError> for LabError {
    fn from(e: ConfigError) -> LabError {
        LabError::Refused(e.to_string())
    }
}

impl From<anyhow::Error> for LabError {
    fn from(e: anyhow::Error) -> LabError {
        LabError::Failed(e)
    }
}
