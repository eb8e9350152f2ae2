//! Counts of passed, failed and skipped, read from the lines of a test runner.
//!
//! Refuses to take a skipped test for a passed one: a Rust test that lacks something on this host
//! prints `skipped: reason` and returns, and libtest calls that `ok`; it is moved over here. So is one that prints
//! `unavailable: reason`, for what is never a failure.
//!
//! Source: the plain output of libtest (`-- --show-output`).

use std::collections::VecDeque;
use std::ops::AddAssign;

use crate::command::{Show, show};

/// What a step, or all of them, came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tests and checks that held.
    pub passed: u64,
    /// Names or reasons of those that did not hold.
    pub failed: Vec<String>,
    /// Those that lacked something a host can have (root, Java, a browser): failures in CI.
    pub missing: Vec<String>,
    /// Those that lacked an optional tool of the toolchain: never a failure, always said.
    pub unavailable: Vec<String>,
    /// What failed tests printed, to be said again at the very end of a long log.
    pub said: Vec<Said>,
}

/// What one failed test printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    pub test: String,
    /// Its last lines, up to [`LINES_SAID`].
    pub lines: VecDeque<String>,
}

/// So many lines hold a panic, its values and the end of what a service beside it printed.
pub const LINES_SAID: usize = 40;

impl Tally {
    /// One check that held.
    pub fn pass() -> Self {
        Self { passed: 1, ..Self::default() }
    }

    /// One check that did not hold, and why.
    pub fn fail(reason: impl Into<String>) -> Self {
        Self { failed: vec![reason.into()], ..Self::default() }
    }

    /// One check that could not be made for want of an optional tool.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        show(&format!("skipped: {reason}"));
        Self { unavailable: vec![reason], ..Self::default() }
    }

    /// One check that could not be made because this host lacks something.
    pub fn missing(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        show(&format!("skipped: {reason}"));
        Self { missing: vec![reason], ..Self::default() }
    }

    /// With `strict` (CI), what the host lacks is a failure.
    pub fn judged(mut self, strict: bool) -> Self {
        if strict {
            let turned = self.missing.drain(..);
            self.failed.extend(turned.map(|reason| format!("{reason} (CI=true allows no skip)")));
        }
        self
    }

    /// The number skipped for whatever reason.
    pub fn skipped(&self) -> usize {
        self.missing.len() + self.unavailable.len()
    }

    /// Prints what was skipped, what failed and what that said: at the end of a long log, where people look.
    pub fn tell_failures(&self) {
        for reason in self.missing.iter().chain(&self.unavailable) {
            println!("skipped: {reason}");
        }
        for said in &self.said {
            println!("{} said:", said.test);
            said.lines.iter().for_each(|line| println!("    {line}"));
        }
        for name in &self.failed {
            println!("failed: {name}");
        }
    }

    /// The last line of `cargo xtask test`.
    pub fn line(&self) -> String {
        let (failed, skipped) = (self.failed.len(), self.skipped());
        format!("{} passed, {failed} failed, {skipped} skipped", self.passed)
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.missing.extend(other.missing);
        self.unavailable.extend(other.unavailable);
        self.said.extend(other.said);
    }
}

/// Reads libtest's output, of as many test binaries as come one after the other.
#[derive(Debug, Default)]
pub struct Libtest {
    tally: Tally,
    in_successes: bool,
    in_failures: bool,
    test: String,
    said: bool,
    /// Skipped ones of this binary, which it is going to count as passed.
    skips: u64,
}

impl Libtest {
    /// Takes one line; what passing tests printed is kept back, save their `skipped:` lines.
    pub fn read(&mut self, line: &str) -> Show {
        if let Some(counts) = line.strip_prefix("test result: ") {
            (self.in_successes, self.in_failures) = (false, false);
            self.count(counts);
        } else if line == "successes:" {
            self.in_successes = true;
        } else if line == "failures:" {
            // The first is followed by what they printed, the second by their names.
            (self.in_successes, self.in_failures) = (false, !self.in_failures);
        } else if self.in_successes {
            return self.read_success(line);
        } else {
            if self.in_failures {
                self.read_failure(line);
            }
            self.read_plain(line);
        }
        if self.in_successes { Show::No } else { Show::Yes }
    }

    /// The counts so far.
    pub fn tally(self) -> Tally {
        self.tally
    }

    /// The counts so far, given how the runner ended: an end that no failed test explains
    /// (it did not compile, it was killed) is a failure of its own.
    pub fn finish(mut self, end: &crate::command::End, what: &str) -> Tally {
        if !end.ok && self.tally.failed.is_empty() {
            self.tally.failed.push(format!("{what}: {}", end.phrase));
        }
        self.tally
    }

    fn read_success(&mut self, line: &str) -> Show {
        if let Some(name) =
            line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"))
        {
            name.clone_into(&mut self.test);
            self.said = false;
            return Show::No;
        }
        let line = line.trim_start();
        // What no setting of this host gives, as a network of images, is unavailable.
        let told = match line.strip_prefix("skipped:") {
            Some(reason) => Some((reason, &mut self.tally.missing)),
            None => line.strip_prefix("unavailable:").map(|why| (why, &mut self.tally.unavailable)),
        };
        if let Some((reason, list)) = told
            && !self.said
        {
            // One per test, however often it says so.
            self.said = true;
            println!("test {} skipped: {}", self.test, reason.trim());
            list.push(format!("{}: {}", self.test, reason.trim()));
            self.skips += 1;
        }
        Show::No
    }

    fn read_plain(&mut self, line: &str) {
        if let Some(how) = line.trim_start().strip_prefix("process didn't exit successfully: ") {
            // Cargo says this of a test binary only if it died otherwise than by failed tests.
            self.tally.failed.push(how.to_owned());
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            self.tally.failed.push(name.to_owned());
        }
    }

    fn read_failure(&mut self, line: &str) {
        if let Some(test) =
            line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"))
        {
            self.tally.said.push(Said { test: test.to_owned(), lines: VecDeque::new() });
        } else if let Some(said) = self.tally.said.last_mut() {
            if said.lines.len() == LINES_SAID {
                said.lines.pop_front();
            }
            said.lines.push_back(line.to_owned());
        }
    }

    /// `ok. 12 passed; 0 failed; 1 ignored; …`
    fn count(&mut self, counts: &str) {
        for part in counts.split([';', '.']) {
            let mut words = part.split_whitespace();
            let Some(number) = words.next().and_then(|word| word.parse::<u64>().ok()) else {
                continue;
            };
            match words.next() {
                Some("passed") => {
                    self.tally.passed += number.saturating_sub(std::mem::take(&mut self.skips));
                }
                Some("ignored") => {
                    for _ in 0..number {
                        self.tally.missing.push("a test marked #[ignore]".to_owned());
                    }
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::End;

    fn ended(ok: bool) -> End {
        End { ok, phrase: "exit status: 101".to_owned() }
    }

    const TWO_BINARIES: &str = "\
running 3 tests
test a ... ok
test needs_root ... ok
test c ... FAILED

successes:

---- needs_root stdout ----
skipped: not root
skipped: not root

successes:
    a
    needs_root

failures:

---- c stdout ----
skipped: is not said by a test that failed

failures:
    c

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

running 4 tests
test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.25s";

    #[test]
    fn what_is_not_to_be_had_is_told_and_no_failure() {
        let text = "\
successes:

---- image stdout ----
unavailable: nothing builds images here
unavailable: twice

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        let mut reader = Libtest::default();
        let shown = text.lines().filter(|line| reader.read(line) == Show::Yes);
        assert_eq!(shown.count(), 1, "the result");
        let tally = reader.finish(&ended(true), "cargo test");
        assert_eq!(tally.unavailable, ["image: nothing builds images here"]);
        assert_eq!((tally.passed, tally.failed.len(), tally.missing.len()), (1, 0, 0));
    }

    #[test]
    fn libtest_is_counted_and_a_skip_is_no_pass() {
        let mut reader = Libtest::default();
        let shown: Vec<&str> =
            TWO_BINARIES.lines().filter(|line| reader.read(line) == Show::Yes).collect();
        assert!(shown.contains(&"test c ... FAILED") && !shown.contains(&"    needs_root"));
        assert!(shown.contains(&"skipped: is not said by a test that failed"));
        let tally = reader.finish(&ended(false), "cargo test");
        assert_eq!(tally.passed, 5);
        assert_eq!(tally.failed, ["c"]);
        let [said] = &tally.said[..] else { panic!("{:?}", tally.said) };
        assert_eq!(said.test, "c");
        assert_eq!(said.lines, ["skipped: is not said by a test that failed", ""]);
        assert_eq!(tally.missing, ["needs_root: not root", "a test marked #[ignore]"]);
        assert_eq!(tally.line(), "5 passed, 1 failed, 2 skipped");
    }

    #[test]
    fn of_a_failed_test_the_last_lines_are_kept() {
        let mut reader = Libtest::default();
        let mut read = |line: &str| reader.read(line);
        for line in ["failures:", "", "---- a stdout ----"] {
            read(line);
        }
        for n in 0..2 * LINES_SAID {
            assert!(read(&format!("line {n}")) == Show::Yes);
        }
        for line in ["---- b stdout ----", "left: 1", "failures:", "    a"] {
            read(line);
        }
        let said = reader.finish(&ended(false), "cargo test").said;
        assert_eq!((said[0].lines.len(), &said[0].lines[0][..]), (LINES_SAID, "line 40"));
        assert_eq!(said[1].lines, ["left: 1"]);
    }

    #[test]
    fn a_runner_that_died_is_a_failure() {
        let tally = Libtest::default().finish(&ended(false), "cargo test");
        assert_eq!(tally.failed, ["cargo test: exit status: 101"]);
    }

    #[test]
    fn a_binary_that_died_beside_a_failed_test_is_named() {
        let mut reader = Libtest::default();
        reader.read("test a ... FAILED");
        reader.read("  process didn't exit successfully: `deps/io-1f` (signal: 6, SIGABRT)");
        let tally = reader.finish(&ended(false), "cargo test");
        assert_eq!(tally.failed, ["a", "`deps/io-1f` (signal: 6, SIGABRT)"]);
    }

    #[test]
    fn a_binary_that_died_while_it_told_its_failures_hides_none_of_the_next() {
        let mut reader = Libtest::default();
        for line in ["test a ... FAILED", "failures:", "---- a stdout ----", "left: 1"] {
            reader.read(line);
        }
        reader.read("  process didn't exit successfully: `deps/io-1f` (signal: 6, SIGABRT)");
        reader.read("test b ... FAILED");
        let tally = reader.finish(&ended(false), "cargo test");
        assert_eq!(tally.failed, ["a", "`deps/io-1f` (signal: 6, SIGABRT)", "b"]);
    }

    #[test]
    fn in_ci_a_skip_for_want_of_something_is_a_failure() {
        let mut tally = Tally::default();
        tally.missing.push("no browser".to_owned());
        tally.unavailable.push("no cargo-deny".to_owned());
        assert_eq!(tally.clone().judged(false).line(), "0 passed, 0 failed, 2 skipped");
        assert_eq!(tally.judged(true).line(), "0 passed, 1 failed, 1 skipped");
    }
}
