//! Why an order is not obeyed: one variant, one counter, one answer.
//!
//! Source: `docs/formats/flatbuffers.md` section 5: 400 for a bad request, 500 for a failure of ours.

use std::path::PathBuf;

use super::counter::WriteCounter;
use super::structure::StructureError;
use crate::nexus::NexusError;

/// A start or a stop that is answered with a failure.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// A field is missing or cannot be.
    #[error("{field}: {why}")]
    Field {
        /// Its name in the schema.
        field: &'static str,
        /// What is wrong and what would be accepted.
        why: String,
    },
    /// The structure cannot be written.
    #[error(transparent)]
    Structure(#[from] StructureError),
    /// There is no structure for this instrument.
    #[error("nexus_structure is empty, and instrument_name \"{instrument}\" {why}")]
    Template {
        /// As given.
        instrument: String,
        /// What is wrong with its template.
        why: String,
    },
    /// The file may not be there.
    #[error("filename \"{name}\": {why}")]
    Path {
        /// As given.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// The file exists.
    #[error("filename: {} exists already; choose another name", .0.display())]
    Exists(PathBuf),
    /// The job is there.
    #[error("job_id \"{job}\": {state}; every run needs an id of its own")]
    Twice {
        /// Its id.
        job: String,
        /// Whether it runs or ran.
        state: &'static str,
    },
    /// The run would end before it begins.
    #[error("stop_time {stop} is not after start_time {start} (ms since 1970)")]
    Times {
        /// Start, ms.
        start: u64,
        /// Stop, ms.
        stop: u64,
    },
    /// A stop that is over.
    #[error("stop_time {stop} is {ago} ms in the past; send 0 to stop at once")]
    Past {
        /// Stop, ms.
        stop: u64,
        /// How long ago.
        ago: u64,
    },
    /// A later stop for a run that has passed its own.
    #[error("the run has passed its stop_time {stop} (ms since 1970) already; start another run")]
    Over {
        /// The stop that it had.
        stop: u64,
    },
    /// Nobody here writes that.
    #[error("job_id \"{0}\": no such job in this writer")]
    Unknown(String),
    /// A topic cannot be read.
    #[error("topic \"{topic}\": {why}")]
    Topic {
        /// Its name.
        topic: String,
        /// What is wrong.
        why: String,
        /// True if the broker could not be asked.
        broker: bool,
    },
    /// Enough jobs.
    #[error("{0} jobs run already, as many as this writer may have (--jobs)")]
    Full(usize),
    /// It ended the writer before.
    #[error(
        "reading this order ended the writer twice: it is not read again; look at its nexus_structure, and at the memory of the writer's host"
    )]
    Suspect,
    /// The file cannot be made.
    #[error(transparent)]
    File(#[from] NexusError),
    /// The job cannot be written down.
    #[error(transparent)]
    Journal(#[from] super::journal::JournalError),
}

impl Refusal {
    /// As in HTTP: 400 for the one who asked, 500 for us.
    pub fn status(&self) -> i32 {
        match self {
            Refusal::File(_) | Refusal::Journal(_) | Refusal::Topic { broker: true, .. } => 500,
            _ => 400,
        }
    }

    /// Its counter.
    pub fn counter(&self) -> WriteCounter {
        match self {
            Refusal::Field { .. } => WriteCounter::OrderField,
            Refusal::Structure(_) => WriteCounter::OrderStructure,
            Refusal::Template { .. } => WriteCounter::OrderTemplate,
            Refusal::Path { .. } => WriteCounter::OrderPath,
            Refusal::Exists(_) => WriteCounter::OrderExists,
            Refusal::Twice { .. } => WriteCounter::OrderTwice,
            Refusal::Times { .. } => WriteCounter::OrderTimes,
            Refusal::Past { .. } => WriteCounter::OrderPast,
            Refusal::Over { .. } => WriteCounter::OrderOver,
            Refusal::Unknown(_) => WriteCounter::OrderUnknown,
            Refusal::Topic { .. } => WriteCounter::OrderTopic,
            Refusal::Full(_) => WriteCounter::OrderFull,
            Refusal::Suspect => WriteCounter::OrderSuspect,
            Refusal::File(_) | Refusal::Journal(_) => WriteCounter::OrderFile,
        }
    }
}
