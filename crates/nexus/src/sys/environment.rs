//! Removes the environment variables of the HDF5 library: only Fullcount decides on the content of files.
//!
//! The library reads variables named `HDF5_…`. `HDF5_DRIVER` writes a file that has another form, or none at all
//! (`core`); an unknown one, or an unknown `HDF5_VOL_CONNECTOR`, keeps the library from starting;
//! `HDF5_USE_FILE_LOCKING` takes the lock that this crate omits on purpose, and so locks it out of its own files;
//! `HDF5_PLUGIN_PATH` and `HDF5_PLUGIN_PRELOAD` load foreign code into the process. A shell that was set up for another
//! program must not change a measurement, so all of them are ignored. Source: HDF5 1.14.6, the callers of `getenv`.

/// Beginning of the names of all such variables.
const OURS_TO_IGNORE: &[u8] = b"HDF5_";

/// Takes the HDF5 library's variables out of this process's environment; true if none is left. To be called first of all:
/// once the process has a second thread it changes nothing.
pub fn ignore_environment() -> bool {
    use std::os::unix::ffi::OsStrExt;
    let names = std::env::vars_os().map(|(name, _)| name);
    let names: Vec<_> = names.filter(|n| n.as_bytes().starts_with(OURS_TO_IGNORE)).collect();
    if names.is_empty() {
        return true;
    }
    if !is_alone() {
        return false;
    }
    for name in &names {
        // SAFETY: nobody else can read or write the environment meanwhile: this process has one thread, which is here.
        unsafe { std::env::remove_var(name) };
    }
    true
}

/// True if this process has one thread; false if the system does not say.
fn is_alone() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_several_threads_is_not_alone() {
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || wait.recv());
            assert!(!is_alone());
            drop(go_on);
        });
    }
}
