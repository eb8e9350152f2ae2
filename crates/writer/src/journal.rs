//! What a job needs to go on after a kill, beside its file: the order once, and its place after every flush.
//!
//! Two files a job below `.fullcount-write/<service id>`: `<job id>.job` and `<job id>.progress`. Each is written under
//! another name and moved into place, so it is whole or the one before. The order is there before the file is made,
//! and goes when the file is complete and its end is kept: what is said is in `<number>.reply` until the broker has
//! confirmed it. A journal that cannot be read is put aside, and costs no other. The folder is locked: two writers with one service id would both go on with the
//! same jobs. Refuses folders that another writer has, and texts that are no journal.
//!
//! Source: `docs/decisions`, write journal.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use fullcount_io::newfile;
use serde::{Deserialize, Serialize};

use super::file::RowCounts;
use super::job::Astray;
use super::name::OWN_FOLDER;

/// A journal that cannot be kept or read.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum JournalError {
    /// The system refused.
    #[error("{}: cannot {doing}: {source}", path.display())]
    Io { path: PathBuf, doing: &'static str, source: io::Error },
    /// Another process has the folder.
    #[error(
        "{}: another writer with this service id uses the folder; give this one another --service-id",
        .0.display()
    )]
    InUse(PathBuf),
    /// No journal.
    #[error("{}: not a journal of this program: {message}; its job is given up, and the order put aside as .failed", path.display())]
    Unreadable { path: PathBuf, message: String },
}

pub(super) fn io_error<'a>(
    path: &'a Path,
    doing: &'static str,
) -> impl FnOnce(io::Error) -> JournalError + 'a {
    move |source| JournalError::Io { path: path.to_owned(), doing, source }
}

/// Where a message was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageSpot {
    /// Topic.
    pub topic: String,
    /// Partition.
    pub partition: i32,
    /// Offset.
    pub offset: i64,
}

/// The order of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) format: u32,
    pub(super) job_id: String,
    /// Made of the folder and the name: the folder may have been moved.
    #[serde(skip)]
    pub(super) path: PathBuf,
    pub(super) filename: String,
    pub(super) start_ms: u64,
    pub(super) stop_ms: Option<u64>,
    pub(super) control_topic: String,
    /// The one that is written, from the order or a template: a template may change before a restart.
    pub(super) structure: String,
    /// File of the template that the structure is from.
    #[serde(default)]
    pub(super) template: Option<PathBuf>,
    pub(super) metadata: Option<String>,
    pub(super) run_name: Option<String>,
    pub(super) instrument_name: Option<String>,
    pub(super) spot: Option<MessageSpot>,
    /// True if its file has what is written beside streams without being listed: those of earlier versions have not.
    #[serde(default)]
    pub(super) beside: bool,
}

/// Where a job is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Progress {
    pub(super) stop_ms: Option<u64>,
    /// Ids of the stops that were obeyed: any of them may come again after a restart.
    #[serde(default)]
    pub(super) commands: Vec<String>,
    /// When control topics were last listened to, ms since 1970.
    pub(super) heard_ms: u64,
    /// Next message of each partition that was begun.
    pub(super) next: Vec<MessageSpot>,
    /// Latest Kafka time of what was read of each partition, ms since 1970.
    #[serde(default)]
    pub(super) seen: Vec<(String, i32, u64)>,
    /// Topics that were deleted and made anew.
    #[serde(default)]
    pub(super) anew: Vec<String>,
    /// Rows of each column.
    pub(super) rows: RowCounts,
    /// Streams that have had a message within the run.
    pub(super) begun: Vec<usize>,
    /// Streams that have had one after it.
    pub(super) ended: Vec<usize>,
    /// Last values from before the start, by stream, as hexadecimal digits.
    pub(super) carried: BTreeMap<usize, String>,
    /// Time of the last message of streams whose repeats are left out, ns since 1970.
    #[serde(default)]
    pub(super) last: BTreeMap<usize, i64>,
    /// What came during the run of streams that have nothing in it, by stream.
    #[serde(default)]
    pub(super) astray: BTreeMap<usize, Astray>,
    /// Messages refused so far.
    pub(super) refused: u64,
    /// Messages that the broker had deleted before they were read.
    #[serde(default)]
    pub(super) gone: u64,
}

/// What is to be said, until the broker has it.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    topic: String,
    /// As hexadecimal digits.
    value: String,
}

/// What an earlier writer left.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Jobs, by id.
    pub(super) jobs: Vec<(Order, Option<Progress>)>,
    /// What was put aside, and why.
    pub(super) unreadable: Vec<JournalError>,
}

/// The version of these two.
pub(super) const FORMAT: u32 = 1;

/// The folder with the journals of one writer.
#[derive(Debug)]
pub(super) struct Journals {
    folder: PathBuf,
    /// Held for as long as the writer lives.
    _lock: File,
}

impl Journals {
    /// Makes and locks the folder.
    pub(super) fn open(data: &Path, service_id: &str) -> Result<Journals, JournalError> {
        let folder = data.join(OWN_FOLDER).join(service_id);
        fs::create_dir_all(&folder).map_err(io_error(&folder, "make the folder"))?;
        let path = folder.join("lock");
        let lock = newfile::open_own(&path);
        let lock = lock.map_err(io_error(&path, "make the file"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(JournalError::InUse(folder)),
            // A file system without locks: nothing keeps two writers apart.
            Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(e)) => return Err(io_error(&path, "lock the file")(e)),
        }
        Ok(Journals { folder, _lock: lock })
    }

    /// Where the journals are.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Keeps what is to be said until [`Journals::forget`].
    pub(super) fn keep(&self, number: u64, topic: &str, value: &[u8]) -> Result<(), JournalError> {
        let kept = Kept { topic: topic.to_owned(), value: to_hex(value) };
        self.put(&number.to_string(), "reply", &kept)
    }

    /// The broker has it.
    pub(super) fn forget(&self, number: u64) -> Result<(), JournalError> {
        self.remove(&number.to_string(), "reply")
    }

    /// What is still to be said: number, topic, message; oldest first. What cannot be read is not: it was never whole.
    pub(super) fn kept(&self) -> Result<Vec<(u64, String, Vec<u8>)>, JournalError> {
        let mut all = Vec::new();
        for path in self.with_ending("reply")? {
            let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
            let kept = read::<Kept>(&path).ok();
            let Some((number, kept)) = number.zip(kept) else { continue };
            let Some(value) = from_hex(&kept.value) else { continue };
            all.push((number, kept.topic, value));
        }
        all.sort_by_key(|kept| kept.0);
        Ok(all)
    }

    fn with_ending(&self, ending: &str) -> Result<Vec<PathBuf>, JournalError> {
        let read = || io_error(&self.folder, "read the folder");
        let paths = fs::read_dir(&self.folder).map_err(read())?;
        let paths = paths.map(|entry| entry.map(|e| e.path()).map_err(read()));
        let mut paths = paths.collect::<Result<Vec<_>, _>>()?;
        paths.retain(|path| path.extension().is_some_and(|found| found == ending));
        Ok(paths)
    }

    fn path(&self, job: &str, ending: &str) -> PathBuf {
        self.folder.join(format!("{job}.{ending}"))
    }

    fn put<T: Serialize>(&self, job: &str, ending: &str, value: &T) -> Result<(), JournalError> {
        let path = self.path(job, ending);
        let text = serde_json::to_vec(value)
            .map_err(|e| JournalError::Unreadable { path: path.clone(), message: e.to_string() })?;
        newfile::replace_with(&path, &text).map_err(io_error(&path, "write the file"))
    }

    /// Writes down a new job.
    pub(super) fn begin(&self, order: &Order) -> Result<(), JournalError> {
        // Of a job of the same id that was given up: this one has not got anywhere yet.
        self.remove(&order.job_id, "progress")?;
        self.put(&order.job_id, "job", order)
    }

    /// Writes down where a job is.
    pub(super) fn advance(&self, job: &str, progress: &Progress) -> Result<(), JournalError> {
        self.put(job, "progress", progress)
    }

    /// Forgets a job. What is not there is forgotten already.
    pub(super) fn end(&self, job: &str) -> Result<(), JournalError> {
        // The order last: without it the rest means nothing.
        ["progress", "job"].into_iter().try_for_each(|ending| self.remove(job, ending))
    }

    fn remove(&self, job: &str, ending: &str) -> Result<(), JournalError> {
        let path = self.path(job, ending);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(io_error(&path, "remove the file")(e))
            }
            _ => Ok(()),
        }
    }

    /// Puts a job aside that cannot go on, for a person to look at.
    pub(super) fn put_aside(&self, job: &str) -> Result<(), JournalError> {
        let (path, aside) = (self.path(job, "job"), self.path(job, "failed"));
        fs::rename(&path, &aside).map_err(io_error(&path, "move the file aside"))
    }

    /// The jobs that were not ended. A journal that cannot be read is put aside.
    pub(super) fn unfinished(&self) -> Result<Left, JournalError> {
        let mut left = Left::default();
        for path in self.with_ending("job")? {
            match whole(&path) {
                Ok(job) => left.jobs.push(job),
                Err(error) => {
                    let aside = path.with_extension("failed");
                    fs::rename(&path, &aside).map_err(io_error(&path, "move the file aside"))?;
                    left.unreadable.push(error);
                }
            }
        }
        left.jobs.sort_by(|a, b| a.0.job_id.cmp(&b.0.job_id));
        Ok(left)
    }
}

fn whole(path: &Path) -> Result<(Order, Option<Progress>), JournalError> {
    let order: Order = read(path)?;
    if order.format != FORMAT {
        let message = format!("format {} instead of {FORMAT}", order.format);
        return Err(JournalError::Unreadable { path: path.to_owned(), message });
    }
    let progress = path.with_extension("progress");
    let progress = if progress.exists() { Some(read(&progress)?) } else { None };
    Ok((order, progress))
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, JournalError> {
    let text = fs::read(path).map_err(io_error(path, "read the file"))?;
    serde_json::from_slice(&text)
        .map_err(|e| JournalError::Unreadable { path: path.to_owned(), message: e.to_string() })
}

/// Bytes as hexadecimal digits.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    let digit = |n: u8| char::from_digit(n.into(), 16).expect("below 16");
    bytes.iter().flat_map(|&b| [digit(b >> 4), digit(b & 15)]).collect()
}

/// The bytes again; `None` if they are no digits.
pub(super) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(job_id: &str) -> Order {
        Order {
            format: FORMAT,
            job_id: job_id.into(),
            path: PathBuf::new(),
            filename: "a.nxs".into(),
            start_ms: 1,
            stop_ms: None,
            control_topic: "control".into(),
            structure: "{}".into(),
            template: None,
            metadata: None,
            run_name: None,
            instrument_name: None,
            spot: Some(MessageSpot { topic: "pool".into(), partition: 0, offset: 7 }),
            beside: true,
        }
    }

    #[test]
    fn a_journal_reads_back_until_the_job_ends_and_belongs_to_one_writer() {
        let dir = tempfile::tempdir().unwrap();
        let journals = Journals::open(dir.path(), "w").unwrap();
        assert!(matches!(Journals::open(dir.path(), "w"), Err(JournalError::InUse(_))));
        assert!(Journals::open(dir.path(), "other").is_ok());
        journals.begin(&order("b")).unwrap();
        journals.begin(&order("a")).unwrap();
        let progress = Progress { stop_ms: Some(5), refused: 3, ..Progress::default() };
        journals.advance("a", &progress).unwrap();
        // What a kill in the middle of writing leaves.
        fs::write(journals.path("a", "progress.new"), b"{\"stop").unwrap();
        let found = journals.unfinished().unwrap();
        assert_eq!(found.jobs, [(order("a"), Some(progress)), (order("b"), None)]);
        journals.end("a").unwrap();
        journals.end("a").unwrap();
        journals.put_aside("b").unwrap();
        assert_eq!(journals.unfinished().unwrap().jobs, []);
    }

    #[test]
    fn a_journal_that_cannot_be_read_is_put_aside_and_costs_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let journals = Journals::open(dir.path(), "w").unwrap();
        fs::write(journals.path("c", "job"), b"no").unwrap();
        journals.begin(&order("d")).unwrap();
        journals.begin(&order("e")).unwrap();
        fs::write(journals.path("e", "progress"), b"").unwrap();
        journals.begin(&Order { format: FORMAT + 1, ..order("f") }).unwrap();
        let found = journals.unfinished().unwrap();
        assert_eq!(found.jobs, [(order("d"), None)]);
        let mut told: Vec<String> = found.unreadable.iter().map(ToString::to_string).collect();
        told.sort();
        let names = ["c.job", "e.progress", "f.job"];
        assert!(
            told.len() == 3 && told.iter().zip(names).all(|(t, name)| t.contains(name)),
            "{told:?}"
        );
        assert!(["c", "e", "f"].iter().all(|job| journals.path(job, "failed").exists()));
        assert!(journals.unfinished().unwrap().unreadable.is_empty());
    }

    #[test]
    fn what_is_to_be_said_is_kept_in_order_until_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let journals = Journals::open(dir.path(), "w").unwrap();
        for number in [2, 10, 9] {
            journals.keep(number, "control", &[number as u8]).unwrap();
        }
        fs::write(journals.path("11", "reply"), b"{").unwrap();
        journals.forget(9).unwrap();
        journals.forget(9).unwrap();
        let of = |n: u64| (n, "control".to_owned(), vec![n as u8]);
        assert_eq!(journals.kept().unwrap(), [of(2), of(10)]);
    }

    #[test]
    fn hexadecimal_digits_lead_back() {
        assert_eq!(to_hex(&[0, 0xab, 0xff]), "00abff");
        assert_eq!(from_hex("00abff"), Some(vec![0, 0xab, 0xff]));
        assert_eq!((from_hex("0"), from_hex("0g"), from_hex("é")), (None, None, None));
    }
}
