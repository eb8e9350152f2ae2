//! The files of a run: that no two outputs are one file, and no output a file that the run reads.
//!
//! Two outputs with one file would both report success, and the file would hold one of them. Each path is followed
//! through links and `..`, and for what exists device and inode are compared too, so that two spellings, a link and
//! its target, or two hard links are seen to be one. Refuses, before anything is opened: such pairs, a file inside
//! the folder of a spool, and a name that a capture's series may take. What comes to be there later, and other processes, meet
//! the locks of the outputs themselves. Source: `docs/contracts.md`, "Sinks and overload".

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use fullcount_core::output;
use fullcount_io::capture::is_of_series;

use crate::config::{Config, ConfigError, refuse};
use crate::open::SourcePlan;
use crate::outputs::OutputPlan;

/// As many links in a row as Linux follows.
const MOST_LINKS: usize = 40;

/// What is done with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Written,
    /// A folder with files that the run makes and removes.
    Folder,
    /// A capture's `run-00001.pcapng`, `run-00002.pcapng`, …
    Series,
}

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Spot {
    /// The name itself, in its real folder.
    name: PathBuf,
    /// What it leads to if it is a link, whether that is there or not.
    target: PathBuf,
    /// Device and inode, if it is there.
    file: Option<(u64, u64)>,
}

impl Spot {
    fn of(path: &Path) -> Spot {
        let name = settled(path);
        let mut target = name.clone();
        for _ in 0..MOST_LINKS {
            let Ok(next) = fs::read_link(&target) else { break };
            let folder = target.parent().unwrap_or(Path::new("/"));
            target = settled(&folder.join(next));
        }
        let file = fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
        Spot { name, target, file }
    }

    fn places(&self) -> [&Path; 2] {
        [&self.name, &self.target]
    }

    /// True if both lead to one file.
    fn is(&self, other: &Spot) -> bool {
        let same = self.places().iter().any(|place| other.places().contains(place));
        same || self.file.is_some_and(|file| other.file == Some(file))
    }

    /// True if it lies in the folder `other`.
    fn is_in(&self, other: &Spot) -> bool {
        self.places().iter().any(|place| place.starts_with(&other.target))
    }

    /// True if it is, or leads to, a name that the series `other` may take.
    fn is_of_series(&self, other: &Spot) -> bool {
        let taken = |place: &&Path| {
            place.parent() == other.name.parent() && is_of_series(&other.name, place)
        };
        self.places().iter().any(taken)
    }
}

/// The real folder of a path with its last name: links and `..` before it are followed, so far as folders are there.
fn settled(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut settled = PathBuf::new();
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        match part {
            Component::ParentDir => {
                settled.pop();
            }
            Component::CurDir => {}
            part => settled.push(part),
        }
        // The last name stays as it is: whoever replaces it replaces a link, not its target.
        if parts.peek().is_some()
            && let Ok(real) = settled.canonicalize()
        {
            settled = real;
        }
    }
    settled
}

/// One path and whose it is.
#[derive(Debug)]
struct Claim {
    key: &'static str,
    shown: PathBuf,
    what: Use,
    spot: Spot,
}

impl Claim {
    /// What is wrong if the run has `other` as well.
    fn clash(&self, other: &Claim) -> Option<&'static str> {
        if self.what == Use::Read && other.what == Use::Read {
            return None;
        }
        let (a, b) = (&self.spot, &other.spot);
        match (self.what, other.what) {
            (Use::Series, Use::Series) => a.is(b).then_some("the same series as"),
            (Use::Series, Use::Folder) => a.is_in(b).then_some("in the folder of"),
            (Use::Folder, Use::Series) => b.is_in(a).then_some("around the files of"),
            // Its own name stands for the series; no file has it.
            (Use::Series, _) => b.is_of_series(a).then_some("a series that may take the name of"),
            (_, Use::Series) => a.is_of_series(b).then_some("a name that may be taken by"),
            (Use::Folder, Use::Folder) => a.is(b).then_some("the same folder as"),
            (Use::Folder, _) => b.is_in(a).then_some("around the file of"),
            (_, Use::Folder) => a.is_in(b).then_some("in the folder of"),
            _ => a.is(b).then_some("the same file as"),
        }
    }
}

/// All paths of a run so far, no two of which are one file.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    all: Vec<Claim>,
}

impl Claims {
    fn add(&mut self, key: &'static str, path: &Path, what: Use) -> Result<(), ConfigError> {
        let claim = Claim { key, shown: path.to_owned(), what, spot: Spot::of(path) };
        for other in &self.all {
            if let Some(how) = claim.clash(other) {
                let (theirs, shown) = (other.key, other.shown.display());
                let why = format!("this is {how} {theirs} = {shown}; choose another name");
                return Err(refuse(key, path.display(), why));
            }
        }
        self.all.push(claim);
        Ok(())
    }

    /// A file that the run reads.
    ///
    /// # Errors
    /// An output has it.
    pub(crate) fn read(&mut self, key: &'static str, path: &Path) -> Result<(), ConfigError> {
        self.add(key, path, Use::Read)
    }

    /// What an output says of its files.
    ///
    /// # Errors
    /// Another output or an input has one of them.
    pub(crate) fn take(&mut self, claim: output::Claim) -> Result<(), ConfigError> {
        match claim {
            output::Claim::Read(key, path) => self.add(key, &path, Use::Read),
            output::Claim::Written(key, path) => self.add(key, &path, Use::Written),
            output::Claim::Folder(key, path) => self.add(key, &path, Use::Folder),
            output::Claim::Series(key, path) => self.add(key, &path, Use::Series),
            output::Claim::WrittenBeside(key, path, ending) => {
                self.add(key, &path, Use::Written)?;
                let mut name = Spot::of(&path).target.into_os_string();
                name.push(ending);
                self.add(key, Path::new(&name), Use::Written)
            }
        }
    }
}

/// Refuses a run of which two outputs, or an output and an input, are one file.
///
/// # Errors
/// Both keys with their paths.
pub(crate) fn check(
    config: &Config,
    source: &SourcePlan,
    outputs: &OutputPlan,
) -> Result<(), ConfigError> {
    let mut claims = Claims::default();
    read_files(config, source, &mut claims)?;
    outputs.claim(&mut claims)
}

/// Files that a run reads: no output may be one of them.
fn read_files(
    config: &Config,
    source: &SourcePlan,
    claims: &mut Claims,
) -> Result<(), ConfigError> {
    let detector = &config.detector;
    let mut named = vec![
        ("CONFIG", config.file.clone()),
        ("detector.geometry", detector.geometry.clone()),
        ("detector.calibration", detector.calibration.clone()),
        ("control.token_file", config.control.token_file.clone()),
    ];
    named.extend(source.files().into_iter().map(|(key, path)| (key, Some(path))));
    named
        .iter()
        .filter_map(|(key, path)| Some((*key, path.as_deref()?)))
        .try_for_each(|(key, path): (&'static str, &Path)| claims.read(key, path))
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
