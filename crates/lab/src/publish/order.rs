//! The messages that start and stop a run.
//!
//! Source: `docs/formats/flatbuffers.md` section 5.

use fullcount_messages::{Message, RunStart, RunStop};

use super::now;

/// A run, as a control system orders it.
#[derive(Debug, Clone)]
pub struct RunOrder {
    /// Id of the job.
    pub job_id: String,
    /// Name of the file.
    pub file: String,
    /// Structure of the file, JSON.
    pub structure: String,
    /// Topic where the writer is controlled and reports.
    pub control: Option<String>,
}

impl RunOrder {
    /// An id that no other job has, made of the time.
    pub fn fresh_id() -> String {
        let n = now().as_nanos();
        let (high, low) = ((n >> 32) as u32, n as u32);
        // The form of a UUID, version 8: digits of one's own.
        format!(
            "{high:08x}-{:04x}-8000-8000-{low:08x}{:04x}",
            low >> 16,
            std::process::id() & 0xffff
        )
    }

    /// The message that starts it, ms since 1970.
    pub fn start(&self, start_ms: u64) -> Vec<u8> {
        Message::Pl72(RunStart {
            start_time: start_ms,
            stop_time: 0,
            run_name: Some("simulated run"),
            instrument_name: Some("simulated"),
            nexus_structure: Some(&self.structure),
            job_id: Some(&self.job_id),
            broker: None,
            service_id: None,
            filename: Some(&self.file),
            n_periods: 1,
            detector_spectrum_map: None,
            metadata: None,
            control_topic: self.control.as_deref(),
        })
        .encode()
    }

    /// The message that stops it, ms since 1970.
    pub fn stop(&self, stop_ms: u64) -> Vec<u8> {
        Message::S6s4t(RunStop {
            stop_time: stop_ms,
            run_name: Some("simulated run"),
            job_id: Some(&self.job_id),
            service_id: None,
            command_id: Some(&format!("{}-stop", self.job_id)),
        })
        .encode()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_messages::decode;

    #[test]
    fn a_start_carries_its_structure() {
        let text = "{}".to_owned();
        let run = RunOrder {
            job_id: "j".into(),
            file: "f".into(),
            structure: text.clone(),
            control: None,
        };
        let start = run.start(5);
        let Ok(Message::Pl72(start)) = decode(&start) else { panic!("pl72") };
        assert_eq!((start.start_time, start.nexus_structure), (5, Some(&text[..])));
    }
}
