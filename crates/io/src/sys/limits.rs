//! How many files this process may have open. Source: `getrlimit(2)`.

use std::io;

/// Asks for so many open files at a time, as far as the hard limit goes; never for fewer than now. How many may be open then.
///
/// # Errors
/// The system's error.
pub fn allow_open_files(most: u64) -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit writes to `limit` in this call only.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let wanted = most.min(limit.rlim_max);
    if wanted > limit.rlim_cur {
        limit.rlim_cur = wanted;
        // SAFETY: setrlimit reads `limit` in this call only.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_and_never_lowered() {
        let before = allow_open_files(0).unwrap();
        assert!(before > 0);
        assert_eq!(allow_open_files(before).unwrap(), before);
        // The hard limit may be the one that holds.
        let more = allow_open_files(before + 1).unwrap();
        assert!((before..=before + 1).contains(&more));
        assert_eq!(allow_open_files(1).unwrap(), more);
    }
}
