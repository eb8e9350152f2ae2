//! Which orders were dealt with, over restarts: an order that comes again is known, and a job id is used once.
//!
//! One line of JSON an order in the file `orders` beside the journals, appended once its answer is kept. A kill in the
//! middle of a line leaves one that is passed over. The newest [`REMEMBERED`] are read at the start, and the file is
//! made anew when it has more than twice as many. Source: `docs/decisions`, write journal.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use fullcount_io::newfile;
use serde::{Deserialize, Serialize};

use super::journal::{JournalError, MessageSpot, io_error};

/// Orders that are remembered: some 3 MB of text.
const REMEMBERED: usize = 16_384;

/// An order that was dealt with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Where it stood.
    pub(super) spot: MessageSpot,
    /// Its job.
    pub(super) job_id: String,
    /// Its own id: of stops only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) command: Option<String>,
    /// True for a start, false for a stop.
    pub(super) start: bool,
    /// True if it was obeyed.
    pub(super) obeyed: bool,
    /// True if the job's file was given up: its id is free again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) given_up: bool,
}

/// The memory of one writer.
#[derive(Debug)]
pub(super) struct Dealt {
    path: PathBuf,
    file: File,
    entries: VecDeque<Entry>,
}

impl Dealt {
    /// Reads what an earlier writer left in `folder`.
    pub(super) fn open(folder: &Path) -> Result<Dealt, JournalError> {
        let path = folder.join("orders");
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(io_error(&path, "read the file")(e)),
        };
        let lines = text.split(|&b| b == b'\n');
        let mut entries: VecDeque<Entry> =
            lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        let many = entries.len() > 2 * REMEMBERED;
        entries.drain(..entries.len().saturating_sub(REMEMBERED));
        if many {
            let text: Vec<u8> = entries.iter().flat_map(line).collect();
            newfile::replace_with(&path, &text).map_err(io_error(&path, "write the file"))?;
        }
        let file = newfile::open_own(&path);
        let mut file = file.map_err(io_error(&path, "open the file"))?;
        if !many && text.last().is_some_and(|&b| b != b'\n') {
            // A kill in the middle of a line: the next one must not be joined to it.
            file.write_all(b"\n").map_err(io_error(&path, "write the file"))?;
        }
        Ok(Dealt { path, file, entries })
    }

    /// Remembers an order, also over a restart.
    pub(super) fn add(&mut self, entry: Entry) -> Result<(), JournalError> {
        let text = line(&entry);
        if self.entries.len() == REMEMBERED {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
        self.file.write_all(&text).map_err(io_error(&self.path, "write the file"))
    }

    /// True if just this order was dealt with: the same place alone may be one of a topic that was made anew.
    pub(super) fn again(&self, spot: &MessageSpot, job_id: &str, command: Option<&str>) -> bool {
        self.entries
            .iter()
            .rev()
            .any(|e| e.spot == *spot && e.job_id == job_id && e.command.as_deref() == command)
    }

    /// True if a job of this id was taken, and its file not given up since.
    pub(super) fn ran(&self, job_id: &str) -> bool {
        let mut obeyed = self.entries.iter().rev().filter(|e| e.start && e.obeyed);
        obeyed.find(|e| e.job_id == job_id).is_some_and(|e| !e.given_up)
    }

    /// Where the start of this id stood that was obeyed last.
    pub(super) fn taken(&self, job_id: &str) -> Option<&MessageSpot> {
        let mut obeyed = self.entries.iter().rev().filter(|e| e.start && e.obeyed);
        obeyed.find(|e| e.job_id == job_id).map(|e| &e.spot)
    }

    /// True if the stop of this id was obeyed by the job.
    pub(super) fn stopped(&self, job_id: &str, command: &str) -> bool {
        let same = |e: &&Entry| e.job_id == job_id && e.command.as_deref() == Some(command);
        self.entries.iter().rev().filter(same).any(|e| !e.start && e.obeyed)
    }
}

fn line(entry: &Entry) -> Vec<u8> {
    // Text and numbers only: nothing that JSON cannot hold.
    let mut text = serde_json::to_vec(entry).unwrap_or_default();
    text.push(b'\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: i64) -> Entry {
        Entry {
            spot: MessageSpot { topic: "pool".into(), partition: 0, offset: n },
            job_id: format!("job-{n}"),
            command: (n % 2 == 1).then(|| format!("c{n}")),
            start: n % 2 == 0,
            obeyed: n % 4 < 2,
            given_up: false,
        }
    }

    #[test]
    fn orders_are_known_after_a_restart_also_behind_a_line_that_a_kill_cut() {
        let dir = tempfile::tempdir().unwrap();
        let mut dealt = Dealt::open(dir.path()).unwrap();
        (0..4).for_each(|n| dealt.add(entry(n)).unwrap());
        drop(dealt);
        let path = dir.path().join("orders");
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 5]).unwrap();
        let mut dealt = Dealt::open(dir.path()).unwrap();
        dealt.add(entry(4)).unwrap();
        drop(dealt);
        let dealt = Dealt::open(dir.path()).unwrap();
        let known =
            |n: i64| dealt.again(&entry(n).spot, &entry(n).job_id, entry(n).command.as_deref());
        assert_eq!([0, 1, 2, 3, 4].map(known), [true, true, true, false, true]);
        assert!(!dealt.again(&entry(0).spot, "another", None), "a topic that was made anew");
        assert!(dealt.ran("job-0") && !dealt.ran("job-1") && !dealt.ran("job-2"));
        assert!(dealt.stopped("job-1", "c1") && !dealt.stopped("job-0", "c1"));
    }

    #[test]
    fn the_id_of_a_job_that_was_given_up_is_free_until_it_is_taken_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut dealt = Dealt::open(dir.path()).unwrap();
        let again = Entry { job_id: "job-0".into(), ..entry(4) };
        let steps =
            [(entry(0), true), (Entry { given_up: true, ..entry(0) }, false), (again, true)];
        for (step, taken) in steps {
            dealt.add(step).unwrap();
            drop(dealt);
            dealt = Dealt::open(dir.path()).unwrap();
            assert_eq!(dealt.ran("job-0"), taken);
            assert!(dealt.again(&entry(0).spot, "job-0", None));
        }
    }

    #[test]
    fn the_file_does_not_grow_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("orders");
        let many = 2 * REMEMBERED as i64 + 1;
        fs::write(&path, (0..many).flat_map(|n| line(&entry(n))).collect::<Vec<_>>()).unwrap();
        let mut dealt = Dealt::open(dir.path()).unwrap();
        dealt.add(entry(many)).unwrap();
        assert_eq!(dealt.entries.len(), REMEMBERED);
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert_eq!(lines, REMEMBERED + 1);
    }
}
