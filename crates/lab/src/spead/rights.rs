//! What programs of a trial may do: none of them may exceed the system's limits of socket buffers, so that all get the same.
//!
//! As root (`CAP_NET_ADMIN`) our tools set buffers beyond `net.core.rmem_max` and `wmem_max`; spead2's never do. So `setpriv`
//! starts every program without that right. Refuses nothing: where the right cannot be given up, and where the system grants less than
//! is asked for, [`note`] says so. Sources: `socket(7)`, `capabilities(7)`, `setpriv(1)`.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use fullcount_io::host::Host;

/// Starts a program without `CAP_NET_ADMIN`.
const WITHOUT: [&str; 3] = ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"];

/// Whether programs of a trial have `CAP_NET_ADMIN`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialRights {
    /// As they are started: `fullcount` itself has no such right, or it does not matter to the program.
    Plain,
    /// They are started without it.
    GivenUp,
    /// They have it: `setpriv` is not there, or not allowed.
    Kept,
}

impl TrialRights {
    /// What holds on this host; found out once.
    pub fn here() -> TrialRights {
        static HERE: OnceLock<TrialRights> = OnceLock::new();
        *HERE.get_or_init(|| {
            if Host::default().bounds().net_admin == Some(false) {
                return TrialRights::Plain;
            }
            let mut tried = Command::new(WITHOUT[0]);
            tried.args(&WITHOUT[1..]).arg("true").stdin(Stdio::null());
            let status = tried.stdout(Stdio::null()).stderr(Stdio::null()).status();
            match status.is_ok_and(|status| status.success()) {
                true => TrialRights::GivenUp,
                false => TrialRights::Kept,
            }
        })
    }

    /// As in results files.
    pub fn name(self) -> &'static str {
        match self {
            TrialRights::Plain => "plain",
            TrialRights::GivenUp => "given up",
            TrialRights::Kept => "kept",
        }
    }

    /// Words that start `program`: by `setpriv` if a right is given up, by `taskset` if it has a core of its own.
    pub(super) fn words(self, program: &Path, core: Option<usize>) -> Vec<OsString> {
        let mut words = Vec::new();
        if self == TrialRights::GivenUp {
            words.extend(WITHOUT.map(OsString::from));
        }
        if let Some(core) = core {
            words.extend(["taskset", "-c", &core.to_string()].map(OsString::from));
        }
        words.push(program.into());
        words
    }
}

/// What a process without rights gets at most at a socket, bytes: `rmem_max` or `wmem_max`, the smaller. `None`: not known.
pub(super) fn granted() -> Option<u64> {
    let host = Host::default().snapshot();
    [host.rmem_max, host.wmem_max].into_iter().flatten().min()
}

/// What a program of a trial gets of a buffer that it asks for, bytes.
pub(super) fn allowed(asked: u64) -> u64 {
    match (TrialRights::here(), granted()) {
        (TrialRights::Plain | TrialRights::GivenUp, Some(most)) => asked.min(most),
        _ => asked,
    }
}

/// What is to be said where `asked` bytes at both ends are not what all programs got.
pub(super) fn note(asked: u64, granted: Option<u64>, rights: TrialRights) -> Option<String> {
    let most = granted.filter(|most| *most < asked)?;
    let had = match rights {
        TrialRights::Plain | TrialRights::GivenUp => "all programs had that at most",
        TrialRights::Kept => {
            "spead2's had that at most, ours what it asked for, as setpriv (util-linux) does not work here"
        }
    };
    Some(format!(
        "not granted: socket buffers of {asked} B. net.core.rmem_max or wmem_max of this system is {most} B: {had}. \
         Raise both: sysctl -w net.core.rmem_max={asked} net.core.wmem_max={asked}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_started_without_the_right_and_on_its_core() {
        let words = |rights: TrialRights, core| {
            let words = rights.words(Path::new("x"), core);
            words.iter().map(|w| w.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        let without = "setpriv --bounding-set=-net_admin --inh-caps=-net_admin";
        assert_eq!(words(TrialRights::GivenUp, Some(2)), format!("{without} taskset -c 2 x"));
        assert_eq!(words(TrialRights::GivenUp, None), format!("{without} x"));
        assert_eq!(words(TrialRights::Kept, Some(5)), "taskset -c 5 x");
        assert_eq!(words(TrialRights::Plain, None), "x");
    }

    #[test]
    fn what_is_not_granted_is_said_with_how_to_raise_it() {
        let said = note(16 << 20, Some(4 << 20), TrialRights::GivenUp).unwrap();
        for words in ["16777216 B", "is 4194304 B: all programs", "net.core.wmem_max=16777216"] {
            assert!(said.contains(words), "{words}: {said}");
        }
        let kept = note(16 << 20, Some(4 << 20), TrialRights::Kept).unwrap();
        assert!(kept.contains("ours what it asked for"), "{kept}");
        assert_eq!(note(4 << 20, Some(4 << 20), TrialRights::GivenUp), None);
        assert_eq!(note(4 << 20, None, TrialRights::GivenUp), None);
    }

    #[test]
    fn without_the_right_no_socket_exceeds_the_limit() {
        if TrialRights::here() != TrialRights::GivenUp {
            assert!(std::env::var_os("CI").is_none(), "CI must have setpriv (util-linux) and root");
            println!("skipped: nothing to give up, or no setpriv");
            return;
        }
        let words = TrialRights::GivenUp.words(Path::new("grep"), Some(0));
        let mut command = Command::new(&words[0]);
        let output = command.args(&words[1..]).args(["CapEff", "/proc/self/status"]).output();
        let output = String::from_utf8(output.unwrap().stdout).unwrap();
        let rights = u64::from_str_radix(output.split_whitespace().nth(1).unwrap(), 16).unwrap();
        assert_eq!(rights >> 12 & 1, 0, "CAP_NET_ADMIN: {output}");
    }
}
