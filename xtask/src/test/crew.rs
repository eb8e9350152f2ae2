//! Runs pieces: several at a time, and then those that want the machine for themselves.
//!
//! What a piece prints is shown when it has ended, as one block. Refuses to believe a process that ended otherwise than by
//! its tests, or ran other tests than it was to run: each is a failure of its own.
//!
//! Source: docs/testing.md, "How tests run".

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::binaries::Binary;
use super::cost::{Cost, Line};
use super::pieces::Piece;
use crate::command::{End, Job, Show, spoken, timed};
use crate::tally::{Libtest, Tally};

/// Tests at the same time for each processor. Scenarios wait most of the time; with four a processor nearly all of it is
/// used, and what has a deadline still meets it.
const TESTS_A_PROCESSOR: usize = 4;

/// Longest time of one piece: the longest takes two minutes on two idle processors.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// How libtest ends when tests failed.
const TESTS_FAILED: &str = "exit status: 101";

/// Something that runs beside the pieces that do not want the machine for themselves.
pub enum Other<'a> {
    /// A cargo command with tests of its own.
    Cargo {
        /// For people.
        label: &'a str,
        /// The command.
        job: Box<Job>,
    },
    /// A step, which says itself what it came to.
    Step(Box<dyn FnOnce() + Send + 'a>),
}

/// What is still to be done, what is in use, and what came out.
struct State<'a> {
    pieces: Vec<&'a Piece>,
    others: Vec<Other<'a>>,
    used: usize,
    tally: Tally,
    costs: Vec<Line>,
}

/// Runs everything; `tell` gives each process what it finds in its environment.
pub fn run(
    binaries: &[Binary],
    pieces: &[Piece],
    others: Vec<Other<'_>>,
    tell: impl Fn(Job) -> Job + Sync,
) -> (Tally, Vec<Line>) {
    let room = TESTS_A_PROCESSOR * thread::available_parallelism().map_or(1, usize::from);
    let (alone, beside): (Vec<&Piece>, Vec<&Piece>) = pieces.iter().partition(|p| p.alone);
    let state = State {
        pieces: beside.into_iter().rev().collect(),
        others,
        used: 0,
        tally: Tally::default(),
        costs: Vec::new(),
    };
    let (state, freed) = (Mutex::new(state), Condvar::new());
    let (state, freed, tell) = (&state, &freed, &tell);
    thread::scope(|scope| {
        loop {
            let mut now = lock(state);
            if let Some(other) = now.others.pop() {
                now.used += 1;
                scope.spawn(move || match other {
                    Other::Cargo { label, job } => {
                        finish(state, freed, 1, of_cargo(label, *job, tell))
                    }
                    Other::Step(work) => {
                        // One that panics has said so, and leaves no result: its step has its turn then.
                        let _ = catch_unwind(AssertUnwindSafe(work));
                        lock(state).used -= 1;
                        freed.notify_all();
                    }
                });
                continue;
            }
            let Some(threads) = now.pieces.last().map(|piece| piece.threads()) else { break };
            if now.used > 0 && now.used + threads > room {
                drop(freed.wait(now).unwrap_or_else(PoisonError::into_inner));
                continue;
            }
            let Some(piece) = now.pieces.pop() else { break };
            now.used += threads;
            drop(now);
            scope.spawn(move || {
                let done = one(&binaries[piece.binary], piece, tell);
                finish(state, freed, threads, done);
            });
        }
    });
    for piece in alone {
        finish(state, freed, 0, one(&binaries[piece.binary], piece, tell));
    }
    let mut state = lock(state);
    (std::mem::take(&mut state.tally), std::mem::take(&mut state.costs))
}

fn lock<'a, 'b>(state: &'a Mutex<State<'b>>) -> std::sync::MutexGuard<'a, State<'b>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a process came to, and what it said.
struct Done {
    tally: Tally,
    line: Line,
    lines: Vec<String>,
}

fn finish(state: &Mutex<State<'_>>, freed: &Condvar, threads: usize, done: Done) {
    let mut state = lock(state);
    println!("\n-- {}: {} ({})", done.line.name, done.tally.line(), spoken(done.line.cost.wall));
    done.lines.iter().for_each(|line| println!("{line}"));
    state.tally += done.tally;
    state.costs.push(done.line);
    state.used -= threads;
    freed.notify_all();
}

/// Runs one piece. A shell around it says what it and all that it started took of the processors.
fn one(binary: &Binary, piece: &Piece, tell: &(impl Fn(Job) -> Job + Sync)) -> Done {
    let job = binary.job().measured();
    let threads = format!("--test-threads={}", piece.threads());
    let job = tell(job.args(["--show-output", threads.as_str(), "--exact"]).args(&piece.tests));
    let (mut done, end) = read(&piece.label, job.limit(LIMIT));
    let Done { tally, line, .. } = &mut done;
    let ran = tally.passed as usize + tally.failed.len() + tally.skipped();
    if !end.ok && (tally.failed.is_empty() || end.phrase != TESTS_FAILED) {
        tally.failed.push(format!("its process: {}", end.phrase));
    } else if ran != piece.tests.len() {
        tally.failed.push(format!("{ran} of {} tests ran", piece.tests.len()));
    }
    let name = |test: &str| format!("{}: {test}", line.name);
    tally.failed.iter_mut().for_each(|test| *test = name(test));
    done
}

/// A cargo command: it reads libtest's lines as well.
fn of_cargo(label: &str, job: Job, tell: &(impl Fn(Job) -> Job + Sync)) -> Done {
    let (mut done, end) = read(label, tell(job.measured()).limit(LIMIT));
    if !end.ok && done.tally.failed.is_empty() {
        done.tally.failed.push(format!("{label}: {}", end.phrase));
    }
    done
}

fn read(label: &str, job: Job) -> (Done, End) {
    let (mut reader, mut lines, mut processor) = (Libtest::default(), Vec::new(), Duration::ZERO);
    let (end, wall) = timed(|| {
        job.run_silently(|line| {
            if let Some(times) = processor_time(line) {
                // The shell's own first, then its children's.
                processor = times;
            } else if reader.read(line) == Show::Yes && !is_chatter(line) {
                lines.push(line.to_owned());
            }
            Show::No
        })
    });
    let line = Line { name: label.to_owned(), cost: Cost { wall, processor } };
    (Done { tally: reader.tally(), line, lines }, end)
}

/// Blank lines and counts of a process stand in its heading.
fn is_chatter(line: &str) -> bool {
    line.is_empty() || line.starts_with("running ") || line.starts_with("test result: ok")
}

/// A line of the shell's `times`: user and system, `1m2.5s 0m3.25s`.
fn processor_time(line: &str) -> Option<Duration> {
    let one = |word: &str| {
        let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
        let (minutes, seconds): (u32, f64) = (minutes.parse().ok()?, seconds.parse().ok()?);
        Duration::try_from_secs_f64(f64::from(minutes) * 60.0 + seconds).ok()
    };
    let (user, system) = line.split_once(' ')?;
    Some(one(user)? + one(system)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program in place of a test binary, and its only test.
    fn only(program: &str, test: &str) -> (Binary, Piece) {
        let tests = vec![test.to_owned()];
        let binary = Binary {
            folder: std::env::temp_dir(),
            kind: "test".to_owned(),
            name: program.to_owned(),
            executable: program.into(),
            tests: tests.clone(),
        };
        let (label, file) = (program.to_owned(), "sh".to_owned());
        (binary, Piece { binary: 0, label, file, tests, alone: false })
    }

    #[test]
    fn a_process_that_runs_none_of_its_tests_is_a_failure() {
        // A shell does not know the options of libtest.
        let (binary, piece) = only("/bin/sh", "a");
        let (tally, costs) = run(&[binary], &[piece], Vec::new(), |job| job);
        assert_eq!((tally.passed, tally.failed.len(), costs.len()), (0, 1, 1), "{tally:?}");
        assert!(tally.failed[0].starts_with("/bin/sh: its process: exit status: "), "{tally:?}");
    }

    #[test]
    fn a_test_that_says_unavailable_has_run() {
        // What echo prints is the name of its only test, and lines as libtest has them.
        let lines = "a\nsuccesses:\n\n---- a stdout ----\nunavailable: no builder\n\n\
                     test result: ok. 1 passed; 0 failed; 0 ignored";
        let (binary, piece) = only("/bin/echo", lines);
        let (tally, _) = run(&[binary], &[piece], Vec::new(), |job| job);
        assert_eq!((tally.passed, tally.unavailable.len()), (0, 1), "{tally:?}");
        assert!(tally.failed.is_empty(), "{tally:?}");
    }

    #[test]
    fn others_count_their_tests_as_well() {
        let lines = "test a ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored";
        let job = Job::new("printf").args(["%b", &lines.replace('\n', "\\n"), ""]);
        let docs = Other::Cargo { label: "docs", job: job.into() };
        let mut done = false;
        let step = Other::Step(Box::new(|| done = true));
        let (tally, costs) = run(&[], &[], vec![docs, step], |job| job);
        assert_eq!((tally.passed, costs[0].name.as_str()), (1, "docs"), "{tally:?}");
        assert!(done && costs.len() == 1);
    }

    #[test]
    fn times_of_the_shell_are_read() {
        assert_eq!(processor_time("1m2.50s 0m0.250s"), Some(Duration::from_millis(62_750)));
        for line in ["test a ... ok", "1m2s", "xm2s 0m1s", ""] {
            assert_eq!(processor_time(line), None, "{line}");
        }
    }
}
