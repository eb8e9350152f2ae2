//! Namespaces that a killed program left behind: found by name, and removed when their maker is gone.
//!
//! A name is `fullcount-PURPOSE-PID-START-NUMBER-HOST`: the maker's process number with the clock tick at
//! which it started, so that a number that was given again is not taken for the maker. Processes that still
//! run inside were its children and are ended. What is not called so is not ours.

use super::{NamespaceError, run};

/// First word of every name.
const PREFIX: &str = "fullcount-";
/// Where `ip` keeps the names.
const FOLDER: &str = "/run/netns";

/// A process that makes namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Maker {
    process: u32,
    started: u64,
}

impl Maker {
    /// This process.
    pub fn this() -> Maker {
        let process = std::process::id();
        Maker { process, started: started(process).unwrap_or(0) }
    }

    /// Name of a namespace that it makes.
    pub fn name(self, purpose: &str, number: u32, host: usize) -> String {
        let Maker { process, started } = self;
        format!("{PREFIX}{purpose}-{process}-{started}-{number}-{host}")
    }

    /// Maker of a namespace called so; `None` if it is not ours.
    pub fn of(name: &str) -> Option<Maker> {
        let words: Vec<&str> = name.strip_prefix(PREFIX)?.split('-').collect();
        let [_, process, started, _, _] = words[..] else { return None };
        Some(Maker { process: process.parse().ok()?, started: started.parse().ok()? })
    }

    /// Its process number.
    pub fn process(self) -> u32 {
        self.process
    }

    /// True while that very process runs.
    pub fn alive(self) -> bool {
        started(self.process) == Some(self.started)
    }
}

/// Clock tick since boot at which a process started; `None` if there is none that runs.
fn started(process: u32) -> Option<u64> {
    start_of(&std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// The tick in a line of `/proc/PID/stat`; `None` for a process that has ended and was not fetched by its parent,
/// which in a container without a real process 1 may be never.
fn start_of(stat: &str) -> Option<u64> {
    // The second field is the program's name in brackets, which may hold blanks and brackets; the third is the
    // state, the 22nd the tick.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let ended = matches!(state, "Z" | "X" | "x");
    if ended { None } else { fields.nth(18)?.parse().ok() }
}

/// Removes the namespaces of makers that are gone; how many.
///
/// # Errors
/// What `ip` said.
pub fn remove() -> Result<usize, NamespaceError> {
    let Ok(names) = std::fs::read_dir(FOLDER) else { return Ok(0) };
    let mut removed = 0;
    for name in names.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        if Maker::of(&name).is_none_or(Maker::alive) {
            continue;
        }
        for process in run("ip", ["netns", "pids", &name]).unwrap_or_default().split_whitespace() {
            let _ = std::process::Command::new("kill").args(["-KILL", process]).status();
        }
        match run("ip", ["netns", "delete", &name]) {
            Ok(_) => removed += 1,
            // Another program was faster.
            Err(_) if !std::path::Path::new(FOLDER).join(&name).exists() => {}
            Err(e) => return Err(e),
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_ended_is_none_even_if_nobody_fetched_it() {
        let line = |state: &str| {
            let between: String = (4..22).map(|field| format!("{field} ")).collect();
            format!("7 (a (b) Z c) {state} {between}4711 23 24\n")
        };
        assert_eq!(start_of(&line("S")), Some(4711));
        assert_eq!([start_of(&line("Z")), start_of(&line("X")), start_of("")], [None; 3]);
        // One of our own: not fetched until `wait`.
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let begun = std::time::Instant::now();
        while started(child.id()).is_some() {
            assert!(begun.elapsed().as_secs() < 60, "true does not end");
            std::thread::yield_now();
        }
        assert!(std::fs::exists(format!("/proc/{}/stat", child.id())).unwrap());
        child.wait().unwrap();
    }

    #[test]
    fn a_name_tells_its_maker_and_others_are_left_alone() {
        let this = Maker::this();
        assert!(this.alive());
        assert_eq!(Maker::of(&this.name("udp", 3, 1)), Some(this));
        let reborn = Maker { started: this.started + 1, ..this };
        assert!(!reborn.alive(), "a number that was given again");
        for other in
            ["", "fullcount-", "fullcount-udp-1-2-3", "web-udp-1-2-3-4", "fullcount-a-b-2-3-4"]
        {
            assert_eq!(Maker::of(other), None, "{other}");
        }
    }
}
