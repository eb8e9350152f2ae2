//! Why an order is not obeyed: one variant, one counter, one answer.
//!
//! Source: `docs/formats/flatbuffers.md` section 5: 400 for a bad request, 500 for a failure of ours.

use std::path::PathBuf;

use super::counter::WriteCounter;
use super::structure::StructureError;
use fullcount_nexus::NexusError;

/// A start or a stop that is answered with a failure.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum OrderRefusal {
    /// A field is missing or cannot be.
    #[error("{field}: {why}")]
    Field { field: &'static str, why: String },
    /// The structure cannot be written.
    #[error(transparent)]
    Structure(#[from] StructureError),
    /// There is no structure for this instrument.
    #[error("nexus_structure is empty, and instrument_name \"{instrument}\" {why}")]
    Template { instrument: String, why: String },
    /// The file may not be there.
    #[error("filename \"{name}\": {why}")]
    Path { name: String, why: String },
    /// The file exists.
    #[error("filename: {} exists already; choose another name", .0.display())]
    Exists(PathBuf),
    /// The job is there.
    #[error("job_id \"{job}\": {state}; every run needs an id of its own")]
    Twice { job: String, state: &'static str },
    /// The run would end before it begins.
    #[error("stop_time {stop} is not after start_time {start} (ms since 1970)")]
    Times { start: u64, stop: u64 },
    /// A stop that is over.
    #[error("stop_time {stop} is {ago} ms in the past; send 0 to stop at once")]
    Past { stop: u64, ago: u64 },
    /// A later stop for a run that has passed its own.
    #[error("the run has passed its stop_time {stop} (ms since 1970) already; start another run")]
    Over { stop: u64 },
    /// Nobody here writes that.
    #[error("job_id \"{0}\": no such job in this writer")]
    Unknown(String),
    /// Nobody would hear of the run, or could stop it.
    #[error("control_topic: \"{topic}\" {why}")]
    Unheard { topic: String, why: String, broker: bool },
    /// A topic cannot be read.
    #[error("topic \"{topic}\": {why}")]
    Topic { topic: String, why: String, broker: bool },
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

impl OrderRefusal {
    /// As in HTTP: 400 for the one who asked, 500 for us.
    pub fn status(&self) -> i32 {
        match self {
            OrderRefusal::File(_)
            | OrderRefusal::Journal(_)
            | OrderRefusal::Unheard { broker: true, .. }
            | OrderRefusal::Topic { broker: true, .. } => 500,
            _ => 400,
        }
    }

    /// Its counter.
    pub fn counter(&self) -> WriteCounter {
        match self {
            OrderRefusal::Field { .. } => WriteCounter::OrderField,
            OrderRefusal::Structure(_) => WriteCounter::OrderStructure,
            OrderRefusal::Template { .. } => WriteCounter::OrderTemplate,
            OrderRefusal::Path { .. } => WriteCounter::OrderPath,
            OrderRefusal::Exists(_) => WriteCounter::OrderExists,
            OrderRefusal::Twice { .. } => WriteCounter::OrderTwice,
            OrderRefusal::Times { .. } => WriteCounter::OrderTimes,
            OrderRefusal::Past { .. } => WriteCounter::OrderPast,
            OrderRefusal::Over { .. } => WriteCounter::OrderOver,
            OrderRefusal::Unknown(_) => WriteCounter::OrderUnknown,
            OrderRefusal::Topic { .. } | OrderRefusal::Unheard { .. } => WriteCounter::OrderTopic,
            OrderRefusal::Full(_) => WriteCounter::OrderFull,
            OrderRefusal::Suspect => WriteCounter::OrderSuspect,
            OrderRefusal::File(_) | OrderRefusal::Journal(_) => WriteCounter::OrderFile,
        }
    }
}
