//! Starts one child command, shows every line as it comes, and gives the lines to a reader.
//!
//! Refuses to wait longer than the limit: then the child and its descendants are killed and the
//! end says `timed_out`. Standard input is always empty, so nothing can wait for an answer.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::place;

/// How a child ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Exit code 0 within the limit.
    pub ok: bool,
    /// One phrase for the summary: `exit 101`, `killed after 600 s`.
    pub phrase: String,
}

/// A command about to run.
pub struct Job {
    command: Command,
    limit: Duration,
}

/// Whether a line given to the reader is shown to the person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// Print it.
    Yes,
    /// Keep it back.
    No,
}

/// A thread whose lines are kept.
struct Kept {
    lines: Vec<String>,
    /// Its commands take what the processors have left over.
    last: bool,
}

thread_local! {
    static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

/// Runs `work` aside: its commands take what the processors have left over, and what they would show is given back.
pub fn aside<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    kept(true, work)
}

/// Runs `work` at the same time as others of its rank: what its commands would show is given back, to be shown as one block.
pub fn abreast<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    kept(false, work)
}

fn kept<T>(last: bool, work: impl FnOnce() -> T) -> (T, Vec<String>) {
    KEPT.set(Some(Kept { lines: Vec::new(), last }));
    let result = work();
    (result, KEPT.take().map_or(Vec::new(), |kept| kept.lines))
}

/// Shows a line, or keeps it if this thread's lines are kept.
pub fn show(line: &str) {
    KEPT.with_borrow_mut(|kept| match kept {
        Some(kept) => kept.lines.push(line.to_owned()),
        // A closed standard output (`| head`) is no reason to stop testing.
        None => drop(writeln!(std::io::stdout(), "{line}")),
    });
}

impl Job {
    /// A command in the workspace root with an hour as its limit: more than a whole
    /// `cargo xtask test` may take, so only what hangs ever meets it.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program);
        command.current_dir(place::root()).stdin(Stdio::null());
        // `cargo xtask` is itself a `cargo run`: what that told us about the xtask package would
        // be taken by build scripts below for news about theirs, and rebuild them each time.
        for (key, _) in std::env::vars_os() {
            let name = key.to_string_lossy();
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&key);
            }
        }
        // What makes a second build quick costs a build from empty time and gigabytes, and in CI there is no second.
        if place::in_ci() {
            command.env("CARGO_INCREMENTAL", "0");
        }
        Self { command, limit: Duration::from_secs(3600) }
    }

    /// `cargo ARGS…` of the pinned toolchain.
    pub fn cargo(arguments: &[&str]) -> Self {
        Self::new("cargo").args(arguments)
    }

    /// `cargo ARGS…` of the nightly toolchain, for Miri, sanitizers and fuzzing.
    pub fn nightly_cargo(arguments: &[&str]) -> Self {
        let mut job = Self::new("rustup").args(["run", "nightly", "cargo"]).args(arguments);
        // Inherited from `cargo xtask`, these two would bring the pinned compiler back in.
        job.command.env_remove("RUSTUP_TOOLCHAIN").env_remove("RUSTC").env_remove("CARGO");
        job
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets an environment variable for the child.
    pub fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    /// Takes what the processors have left over.
    fn last(mut self) -> Self {
        let mut command = Command::new("nice");
        command.args(["-n", "19"]);
        self.wrap(&mut command);
        self.command = command;
        self
    }

    /// Runs in this folder instead of the workspace root.
    pub fn folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Lets a shell say at the end, by `times`, what the command and all that it waited for took of the processors;
    /// arguments may follow. The exit code is the command's; of one that a signal ended it is 128 and the signal.
    pub fn measured(mut self) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "\"$0\" \"$@\"; code=$?; times; exit $code"]);
        self.wrap(&mut command);
        self.command = command;
        self
    }

    /// Gives `outer` the command as its last arguments, with environment and folder.
    fn wrap(&self, outer: &mut Command) {
        outer.arg(self.command.get_program()).args(self.command.get_args());
        for (key, value) in self.command.get_envs() {
            match value {
                Some(value) => outer.env(key, value),
                None => outer.env_remove(key),
            };
        }
        let folder = self.command.get_current_dir().map_or_else(place::root, Path::to_path_buf);
        outer.current_dir(folder).stdin(Stdio::null());
    }

    /// Sets the longest time the child may take.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs to the end; every line is shown.
    pub fn run(self) -> End {
        self.run_reading(|_| Show::Yes)
    }

    /// Runs to the end; `read` sees every line of both outputs in the order written and says
    /// whether it is shown.
    pub fn run_reading(self, mut read: impl FnMut(&str) -> Show) -> End {
        show(&format!("$ {}", shown(&self.command)));
        self.run_silently(&mut read)
    }

    /// The same, and not even the command is shown.
    pub fn run_silently(self, mut read: impl FnMut(&str) -> Show) -> End {
        let is_last = KEPT.with_borrow(|kept| kept.as_ref().is_some_and(|kept| kept.last));
        let Self { mut command, limit } = if is_last { self.last() } else { self };
        let pipe = std::io::pipe().and_then(|(reader, writer)| {
            command.stdout(writer.try_clone()?).stderr(writer);
            Ok(reader)
        });
        let reader = match pipe {
            Ok(reader) => reader,
            Err(error) => return End { ok: false, phrase: format!("no pipe: {error}") },
        };
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return End { ok: false, phrase: format!("did not start: {error}") },
        };
        // The command still holds the writing ends; the reader would never see the end.
        drop(command);

        let pid = child.id();
        let (done, waiting) = mpsc::channel::<()>();
        let watchdog = thread::spawn(move || match waiting.recv_timeout(limit) {
            Err(RecvTimeoutError::Timeout) => {
                kill_tree(pid);
                true
            }
            _ => false,
        });
        let mut lines = BufReader::new(reader);
        let mut bytes = Vec::new();
        while matches!(lines.read_until(b'\n', &mut bytes), Ok(n) if n > 0) {
            let text = String::from_utf8_lossy(&bytes);
            let line = text.trim_end_matches(['\n', '\r']);
            if read(line) == Show::Yes {
                show(line);
            }
            bytes.clear();
        }
        let status = child.wait();
        drop(done);
        let timed_out = watchdog.join().unwrap_or(false);
        match status {
            _ if timed_out => {
                End { ok: false, phrase: format!("killed after {} s", limit.as_secs()) }
            }
            Ok(status) => End { ok: status.success(), phrase: status.to_string() },
            Err(error) => End { ok: false, phrase: error.to_string() },
        }
    }
}

/// The command as a person would type it.
fn shown(command: &Command) -> String {
    let mut words = Vec::new();
    for (key, value) in command.get_envs() {
        if let Some(value) = value {
            words.push(format!("{}={:?}", key.to_string_lossy(), value.to_string_lossy()));
        }
    }
    words.push(command.get_program().to_string_lossy().into_owned());
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Kills `pid` and all its descendants. The children share our process group, so that Ctrl-C
/// reaches them; that is why the tree is walked rather than a group killed.
pub fn kill_tree(pid: u32) {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(found) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Ok(stat) = fs::read_to_string(entry.path().join("stat"))
            && let Some(parent) = parent_of(&stat)
        {
            children.entry(parent).or_default().push(found);
        }
    }
    let mut doomed = vec![pid];
    let mut next = 0;
    while let Some(parent) = doomed.get(next).copied() {
        doomed.extend(children.remove(&parent).unwrap_or_default());
        next += 1;
    }
    let _ = Command::new("kill").arg("-KILL").args(doomed.iter().map(u32::to_string)).status();
}

/// The parent in the text of `/proc/PID/stat`; the name before it may hold spaces and brackets.
fn parent_of(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

/// `12 s`, `3 min 05 s`, `2 h 10 min`.
pub fn spoken(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{:.1} s", duration.as_secs_f64()),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Runs `work` and says how long it took.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_outputs_reach_the_reader_in_order() {
        let mut seen = Vec::new();
        let end = Job::new("sh").args(["-c", "echo one; echo two >&2; printf three; exit 3"]);
        let end = end.run_reading(|line| {
            seen.push(line.to_owned());
            Show::No
        });
        assert_eq!(seen, ["one", "two", "three"]);
        assert_eq!(end, End { ok: false, phrase: "exit status: 3".to_owned() });
    }

    #[test]
    fn what_runs_aside_is_nice_and_its_lines_are_given_back() {
        let (end, lines) = aside(|| Job::new("sh").args(["-c", "nice; nice >&2"]).run());
        assert!(end.ok && lines[0].starts_with("$ "), "{lines:?}");
        assert_eq!(lines[1..], ["19", "19"]);
    }

    #[test]
    fn what_runs_abreast_keeps_its_rank_and_its_lines_are_given_back() {
        let mut own = String::new();
        Job::new("nice").run_silently(|line| {
            own = line.to_owned();
            Show::No
        });
        let (end, lines) = abreast(|| Job::new("sh").args(["-c", "nice; nice >&2"]).run());
        assert!(end.ok && lines[0].starts_with("$ "), "{lines:?}");
        assert_eq!(lines[1..], [own.clone(), own]);
    }

    #[test]
    fn a_measured_command_keeps_its_arguments_folder_and_end() {
        let mut seen = Vec::new();
        let job = Job::new("sh").args(["-c", "pwd; echo \"$0 $1\"; exit 7"]).folder(Path::new("/"));
        let end = job.measured().args(["a", "b c"]).run_silently(|line| {
            seen.push(line.to_owned());
            Show::No
        });
        assert_eq!((&seen[..2], seen.len()), (&["/".to_owned(), "a b c".to_owned()][..], 4));
        assert_eq!(end.phrase, "exit status: 7");
    }

    #[test]
    fn what_hangs_is_killed_with_its_descendants() {
        // The grandchild holds the pipe: without the walk down the tree this would wait an hour.
        let job = Job::new("sh").args(["-c", "sleep 3600 & wait"]);
        let end = job.limit(Duration::from_secs(1)).run_reading(|_| Show::No);
        assert_eq!(end, End { ok: false, phrase: "killed after 1 s".to_owned() });
    }

    #[test]
    fn a_program_that_is_not_there_is_a_phrase() {
        let end = Job::new("/nonexistent/program").run();
        assert!(!end.ok && end.phrase.starts_with("did not start: "), "{}", end.phrase);
    }

    #[test]
    fn the_parent_is_read_past_an_awkward_name() {
        assert_eq!(parent_of("17 (a) b (c) S 4 17 17 0 -1"), Some(4));
        assert_eq!(parent_of("17"), None);
    }

    #[test]
    fn times_are_said_in_the_unit_that_fits() {
        assert_eq!(spoken(Duration::from_millis(2_340)), "2.3 s");
        assert_eq!(spoken(Duration::from_secs(185)), "3 min 05 s");
        assert_eq!(spoken(Duration::from_secs(7_800)), "2 h 10 min");
    }
}
