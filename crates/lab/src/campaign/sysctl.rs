//! Settings of the whole host that a parameter set changes, put back however the campaign ends.
//!
//! `net.core.netdev_max_backlog` and `netdev_budget` belong to no namespace. Former values are journalled in a file
//! before anything is changed and restored on drop; what a killed campaign left is restored by the next one. While
//! one campaign has changed them another leaves them alone and says so. What the host
//! does not let be changed stays as it is, and is said.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use fullcount_io::newfile;

use crate::namespace::leftover::Maker;

/// Where journals lie: gone after a restart of the host, as the settings are.
const FOLDER: &str = "/run/fullcount";

/// Changed settings; put back when dropped.
#[derive(Debug)]
pub struct Sysctls {
    root: PathBuf,
    journal: Option<PathBuf>,
    former: Vec<(String, String)>,
}

fn file(root: &Path, name: &str) -> PathBuf {
    root.join("proc/sys").join(name.replace('.', "/"))
}

fn read(root: &Path, name: &str) -> Option<String> {
    Some(std::fs::read_to_string(file(root, name)).ok()?.trim().to_owned())
}

impl Sysctls {
    /// Restores what killed campaigns left, then sets `wanted` (name with dots, value). `tell` hears what could not be
    /// done.
    pub fn set(wanted: &[(&str, u64)], tell: &mut dyn FnMut(&str)) -> Sysctls {
        Sysctls::set_below(Path::new("/"), Path::new(FOLDER), wanted, tell)
    }

    fn set_below(
        root: &Path,
        folder: &Path,
        wanted: &[(&str, u64)],
        tell: &mut dyn FnMut(&str),
    ) -> Sysctls {
        let mut sysctls = Sysctls { root: root.to_owned(), journal: None, former: Vec::new() };
        // One at a time from the look for another's journal to our own: two campaigns that start together would
        // both find none, and the later one would take the earlier one's values for the host's.
        let _turn = std::fs::create_dir_all(folder).and_then(|()| {
            let turn = std::fs::File::open(folder)?;
            turn.lock().map(|()| turn)
        });
        if let Some(process) = restore_leftovers(root, folder) {
            tell(&format!(
                "the campaign of process {process} has changed the host's settings: left"
            ));
            return sysctls;
        }
        let changes: Vec<(&str, u64, String)> = wanted
            .iter()
            .filter_map(|&(name, value)| {
                let former = read(root, name)?;
                (former != value.to_string()).then_some((name, value, former))
            })
            .collect();
        if changes.is_empty() {
            return sysctls;
        }
        // The journal first: a kill between the two lines restores what was not changed yet.
        let journal = folder.join(Maker::this().name("sysctl", 0, 0));
        let text: String = changes.iter().map(|(n, _, f)| format!("{n} {f}\n")).collect();
        let written =
            newfile::create(&journal).and_then(|mut file| file.write_all(text.as_bytes()));
        if let Err(e) = written {
            tell(&format!("{}: {e}: the host's settings stay as they are", journal.display()));
            return sysctls;
        }
        sysctls.journal = Some(journal);
        for (name, value, former) in changes {
            match std::fs::write(file(root, name), value.to_string()) {
                Ok(()) => sysctls.former.push((name.to_owned(), former)),
                Err(e) => tell(&format!("sysctl {name}={value}: {e}: it stays at {former}")),
            }
        }
        sysctls
    }
}

impl Drop for Sysctls {
    fn drop(&mut self) {
        for (name, value) in self.former.iter().rev() {
            let _ = std::fs::write(file(&self.root, name), value);
        }
        if let Some(journal) = &self.journal {
            let _ = std::fs::remove_file(journal);
        }
    }
}

/// Restores what killed campaigns changed; the process of one that is still running, if there is one.
fn restore_leftovers(root: &Path, folder: &Path) -> Option<u32> {
    let mut running = None;
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let Some(maker) = entry.file_name().to_str().and_then(Maker::of) else { continue };
        if maker.alive() {
            running = Some(maker.process());
            continue;
        }
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        for (name, value) in text.lines().filter_map(|l| l.split_once(' ')) {
            // Only what a campaign changes, whatever stands in the file.
            if name.starts_with("net.core.netdev_") && value.bytes().all(|b| b.is_ascii_digit()) {
                let _ = std::fs::write(file(root, name), value);
            }
        }
        let _ = std::fs::remove_file(entry.path());
    }
    running
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKLOG: &str = "net.core.netdev_max_backlog";

    fn host() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = file(dir.path(), BACKLOG);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "1000\n").unwrap();
        (dir, path)
    }

    #[test]
    fn settings_are_put_back_on_drop() {
        let (dir, path) = host();
        let folder = dir.path().join("run");
        let mut told = Vec::new();
        let wanted = [(BACKLOG, 5000), ("net.core.absent", 1)];
        let set =
            Sysctls::set_below(dir.path(), &folder, &wanted, &mut |t| told.push(t.to_owned()));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "5000");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "journalled");
        // A second campaign leaves them.
        let second = Sysctls::set_below(dir.path(), &folder, &[(BACKLOG, 7)], &mut |t| {
            told.push(t.to_owned());
        });
        drop(second);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "5000");
        assert!(told.len() == 1 && told[0].contains("has changed"), "{told:?}");
        drop(set);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1000");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn of_campaigns_that_start_together_one_has_the_settings() {
        let (dir, path) = host();
        let (root, folder) = (dir.path(), dir.path().join("run"));
        let start = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            let set = || {
                start.wait();
                let set = Sysctls::set_below(root, &folder, &[(BACKLOG, 5000)], &mut |_| ());
                // All have set, or left it, before the first puts anything back.
                start.wait();
                usize::from(set.journal.is_some())
            };
            let all: Vec<_> = (0..8).map(|_| scope.spawn(set)).collect();
            assert_eq!(all.into_iter().map(|t| t.join().unwrap()).sum::<usize>(), 1);
        });
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1000");
    }

    #[test]
    fn what_a_killed_campaign_left_is_put_back_by_the_next() {
        let (dir, path) = host();
        let folder = dir.path().join("run");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(&path, "250000").unwrap();
        let journal = folder.join("fullcount-sysctl-1-18446744073709551615-0-0");
        std::fs::write(&journal, format!("{BACKLOG} 1000\nkernel.panic 9\n{BACKLOG}x x\n"))
            .unwrap();
        drop(Sysctls::set_below(dir.path(), &folder, &[], &mut |_| ()));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1000");
        assert!(!journal.exists() && !file(dir.path(), "kernel.panic").exists());
    }

    #[test]
    fn a_host_that_does_not_let_go_is_said() {
        let dir = tempfile::tempdir().unwrap();
        // A directory in place of the setting: it can be neither read nor written.
        std::fs::create_dir_all(file(dir.path(), BACKLOG)).unwrap();
        let mut told = 0;
        let run = dir.path().join("run");
        drop(Sysctls::set_below(dir.path(), &run, &[(BACKLOG, 5000)], &mut |_| told += 1));
        assert_eq!(told, 0, "what cannot be read is not there");
        std::fs::remove_dir(file(dir.path(), BACKLOG)).unwrap();
        std::fs::write(file(dir.path(), BACKLOG), "1").unwrap();
        let run = dir.path().join("file");
        std::fs::write(&run, "a file where the journals belong").unwrap();
        drop(Sysctls::set_below(dir.path(), &run, &[(BACKLOG, 5000)], &mut |_| told += 1));
        assert_eq!(told, 1);
        assert_eq!(std::fs::read_to_string(file(dir.path(), BACKLOG)).unwrap(), "1");
    }
}
