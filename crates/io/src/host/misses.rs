//! Whether this host lets a thread count its cache misses, and if not, why and what would help.
//!
//! Sources: `perf_event_open(2)`, kernel `Documentation/admin-guide/sysctl/kernel.rst`.

use std::io;

use super::Host;
use crate::sys::CacheMisses;

impl Host {
    /// A count of the calling thread's last-level cache misses, running from now on.
    ///
    /// # Errors
    /// Why there is none, for users.
    pub fn cache_misses(&self) -> Result<CacheMisses, String> {
        CacheMisses::of_this_thread().map_err(|e| self.why_no_misses(&e))
    }

    /// The sentence for an answer of the system.
    pub fn why_no_misses(&self, cause: &io::Error) -> String {
        let paranoid = self.line("proc/sys/kernel/perf_event_paranoid");
        match (cause.kind(), paranoid) {
            (io::ErrorKind::PermissionDenied, Some(level)) => format!(
                "not allowed: kernel.perf_event_paranoid is {level}; 2 or less lets everybody count, root may always"
            ),
            (io::ErrorKind::PermissionDenied, None) => format!("not allowed: {cause}"),
            (io::ErrorKind::NotFound | io::ErrorKind::Unsupported, _) => {
                "the processor shows no such counter; virtual machines mostly hide it".to_owned()
            }
            _ => format!("perf_event_open: {cause}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_would_help() {
        let dir = tempfile::tempdir().unwrap();
        let kernel = dir.path().join("proc/sys/kernel");
        std::fs::create_dir_all(&kernel).unwrap();
        std::fs::write(kernel.join("perf_event_paranoid"), "4\n").unwrap();
        let host = Host::at(dir.path());
        let why = |kind: io::ErrorKind| host.why_no_misses(&io::Error::from(kind));
        assert!(why(io::ErrorKind::PermissionDenied).contains("perf_event_paranoid is 4;"));
        assert!(why(io::ErrorKind::NotFound).contains("virtual machines"));
        assert!(why(io::ErrorKind::Unsupported).contains("no such counter"));
        assert!(why(io::ErrorKind::InvalidInput).contains("perf_event_open"));
        let bare = Host::at(dir.path().join("nothing"));
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        assert!(bare.why_no_misses(&denied).starts_with("not allowed: "));
    }

    #[test]
    fn this_host_counts_or_says_why_not() {
        match Host::default().cache_misses() {
            Err(why) => assert!(!why.is_empty()),
            Ok(mut count) => {
                // More than any cache holds; the stride is a page and a line, so that nothing is fetched ahead.
                let memory = vec![1u8; 64 << 20];
                let sum: u64 = (0..memory.len()).step_by(4160).map(|i| u64::from(memory[i])).sum();
                assert!(std::hint::black_box(sum) > 0);
                assert!(count.read().is_ok(), "a counter that was given can be read");
            }
        }
    }
}
