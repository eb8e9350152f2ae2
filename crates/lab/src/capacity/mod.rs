//! How much machine an instrument needs: links, cores, hosts, partitions and disk from *measured* costs.
//!
//! [`instrument`] is the table of instruments and reads others' files, [`measured`] takes costs out of results files,
//! [`plan`] is the arithmetic, [`arrivals`] and [`queues`] are a small simulation of one worker's queues and its spool
//! through pulses and an outage of the brokers, [`advice`] says what to change, [`report`] writes all of it down, and
//! [`compute`] goes through all of it.
//!
//! No figure is made up here. An instrument without a rate is computed for each million events a second; a cost that no
//! file has is named as missing, and one that is assumed is named as that. Refuses: see [`CapacityError`]. Source:
//! `docs/capacity.md`.

pub mod advice;
pub mod arrivals;
pub mod compute;
pub mod instrument;
pub mod measured;
pub mod plan;
pub mod queues;
pub mod report;

#[cfg(test)]
#[path = "example_tests.rs"]
mod example;
#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod queues_tests;
#[cfg(test)]
mod report_tests;

/// What cannot be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum CapacityError {
    #[error("instrument: '{asked}' is not known: all, a file.toml, or one of {known}")]
    Unknown { asked: String, known: String },
    #[error("{key}: {value} is not allowed: {allowed}")]
    Range { key: &'static str, value: String, allowed: String },
    #[error(
        "measured: {file} {why}: give the JSON of 'fullcount lab detectors', 'lab lossless' or 'lab capacity --measure'"
    )]
    Results { file: String, why: String },
    #[error(
        "measured: no file has detector '{detector}' from memory: measure it with 'fullcount lab detectors --detector \
         {detector}' and give the JSON by --measured"
    )]
    NotMeasured { detector: String },
}

/// A value outside its range.
pub(crate) fn out_of_range(
    key: &'static str,
    value: impl ToString,
    allowed: impl Into<String>,
) -> CapacityError {
    CapacityError::Range { key, value: value.to_string(), allowed: allowed.into() }
}
