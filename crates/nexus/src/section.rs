//! `[output.nexus]`, with the default of each key. Source: `docs/configuration.md`. Ranges are checked where the file is made.

use std::path::PathBuf;

use fullcount_io::compression::Compression;
use fullcount_io::section;
use serde::{Deserialize, Serialize};

use super::about::{Sample, User};

/// `[output.nexus]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NexusSection {
    /// File to write.
    pub path: PathBuf,
    /// Replace an existing file.
    #[serde(default)]
    pub overwrite: bool,
    /// Title of the entry.
    #[serde(default = "default_title")]
    pub title: String,
    /// Instrument name.
    #[serde(default = "default_instrument")]
    pub instrument: String,
    /// `none` or `gzip` (level 1 to 9: `gzip:4`), with shuffle.
    #[serde(default = "Compression::unless_chosen")]
    pub compression: String,
    /// Longest time that a reader of the growing file lags behind.
    #[serde(default = "default_flush", deserialize_with = "section::text")]
    pub flush: String,
    /// Attribute with the epoch of event_time_zero: `offset` or `start`.
    #[serde(default = "default_epoch_attribute")]
    pub epoch_attribute: String,
    /// Type of event_id: `int32` or `uint32`.
    #[serde(default = "default_event_id")]
    pub event_id: String,
    /// Entries per chunk of the event columns.
    #[serde(default = "default_chunk")]
    pub chunk: u64,
    /// From the source to the sample, metres.
    pub source_distance_m: Option<f64>,
    /// Who compresses: `direct` (own threads) or `hdf5` (the library).
    #[serde(default = "default_compress")]
    pub compress: String,
    /// Threads that compress with `direct`, 1 to 16; without it half of the host's cores, at most 4.
    pub compress_threads: Option<usize>,
    /// Number of the run, 0 to 2147483647.
    pub run_number: Option<u32>,
    /// Proposal.
    #[serde(default, deserialize_with = "section::some")]
    pub proposal: Option<String>,
    /// Sample.
    #[serde(default, skip_serializing_if = "Sample::is_empty")]
    pub sample: Sample,
    /// Users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<User>,
}

fn default_compress() -> String {
    "direct".into()
}
fn default_title() -> String {
    "Fullcount run".into()
}
fn default_instrument() -> String {
    "fullcount".into()
}
fn default_flush() -> String {
    "2s".into()
}
fn default_epoch_attribute() -> String {
    "offset".into()
}
fn default_event_id() -> String {
    "int32".into()
}
fn default_chunk() -> u64 {
    1 << 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_said_is_not_shown_and_users_and_sample_are_read_as_they_are_written() {
        let read = |text: &str| section::read::<NexusSection>("output.nexus", text).unwrap();
        let shown = section::shown(&read("path = \"a.nxs\"")).unwrap();
        assert!(shown.contains("title = \"Fullcount run\""), "{shown}");
        assert!(!shown.contains("proposal") && !shown.contains("sample"), "{shown}");
        let text = "path = \"a.nxs\"\nusers = [{ name = \"A\", facility_user_id = 7 }]\nsample.type = \"can\"";
        let again = read(&section::shown(&read(text)).unwrap());
        assert_eq!(again.users[0].facility_user_id.as_deref(), Some("7"));
        assert_eq!(again.sample.kind.as_deref(), Some("can"));
        assert!(section::read::<NexusSection>("", "path = \"a\"\nsample.colour = 1").is_err());
    }
}
