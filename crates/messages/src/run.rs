//! pl72, 6s4t, answ and wrdn: start and stop of a run, and what a file writer answers. Times here are milliseconds
//! since 1970 UTC, unlike everywhere else.
//!
//! Source: `docs/formats/flatbuffers.md` section 5.

use std::borrow::Cow;

use super::field::{enumeration, table};

table! {
    /// Which detector belongs to which spectrum (df12).
    pub struct SpectraDetectorMapping<'a>: pl72 SpectraDetectorMapping SpectraDetectorMappingArgs {
        /// Spectrum numbers.
        pub spectrum: Option<Cow<'a, [i32]>>,
        /// Detector of each.
        pub detector_id: Option<Cow<'a, [i32]>>,
        /// How many spectra there are.
        pub n_spectra: i32,
    }
}

table! {
    /// A run starts (pl72).
    pub struct RunStart<'a>: pl72 RunStart RunStartArgs {
        /// ms since 1970; 0 is now.
        pub start_time: u64,
        /// ms since 1970; 0 is when told.
        pub stop_time: u64,
        /// Name of the run.
        pub run_name: Option<&'a str>,
        /// Name of the instrument.
        pub instrument_name: Option<&'a str>,
        /// What the file looks like, JSON.
        pub nexus_structure: Option<&'a str>,
        /// UUID of the job.
        pub job_id: Option<&'a str>,
        /// Obsolete.
        pub broker: Option<&'a str>,
        /// Which writer is meant.
        pub service_id: Option<&'a str>,
        /// Relative to the writer's folder.
        pub filename: Option<&'a str>,
        /// Periods of the run.
        pub n_periods: u32,
        /// Spectra, if the facility has them.
        pub detector_spectrum_map: Option<SpectraDetectorMapping<'a>>,
        /// More, JSON.
        pub metadata: Option<&'a str>,
        /// Where the writer then listens and reports.
        pub control_topic: Option<&'a str>,
    }
}

table! {
    /// A run stops (6s4t).
    pub struct RunStop<'a>: s6s4t RunStop RunStopArgs {
        /// ms since 1970; 0 is at once.
        pub stop_time: u64,
        /// Name of the run.
        pub run_name: Option<&'a str>,
        /// UUID of the job.
        pub job_id: Option<&'a str>,
        /// Which writer is meant.
        pub service_id: Option<&'a str>,
        /// UUID of this order.
        pub command_id: Option<&'a str>,
    }
}

enumeration! {
    /// What was asked for.
    pub enum Action: answ ActionType Answ "action" {
        /// A job was to start.
        StartJob = StartJob "StartJob",
        /// A stop time was to be set.
        SetStopTime = SetStopTime "SetStopTime",
    }
}

enumeration! {
    /// What came of it.
    pub enum AnswerOutcome: answ ActionOutcome Answ "outcome" {
        /// Done.
        Success = Success "Success",
        /// Not done; the message says why.
        Failure = Failure "Failure",
    }
}

table! {
    /// A file writer's answer to an order (answ).
    pub struct ActionResponse<'a>: answ ActionResponse ActionResponseArgs {
        /// Who answers.
        pub service_id: &'a str,
        /// UUID of the job.
        pub job_id: &'a str,
        /// What was asked for.
        pub action: Action,
        /// What came of it.
        pub outcome: AnswerOutcome,
        /// 201 done, 400 bad request, 500 failed.
        pub status_code: i32,
        /// ms since 1970.
        pub stop_time: u64,
        /// Words; needed with a failure.
        pub message: Option<&'a str>,
        /// UUID of the order; for a start that of the job.
        pub command_id: Option<&'a str>,
    }
}

table! {
    /// A file is written (wrdn).
    pub struct FinishedWriting<'a>: wrdn FinishedWriting FinishedWritingArgs {
        /// Who wrote it.
        pub service_id: &'a str,
        /// UUID of the job.
        pub job_id: &'a str,
        /// True if it is not whole.
        pub error_encountered: bool,
        /// The file.
        pub file_name: &'a str,
        /// More, JSON.
        pub metadata: Option<&'a str>,
        /// Words.
        pub message: Option<&'a str>,
    }
}
