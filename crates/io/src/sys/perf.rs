//! The processor's own count of last-level cache misses of the calling thread.
//!
//! Fails if the kernel refuses: no such counter (most virtual machines), or no permission
//! (`kernel.perf_event_paranoid`). Source: `perf_event_open(2)`, `linux/perf_event.h`.

use std::fs::File;
use std::io::{self, Read};
use std::mem::size_of;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// `PERF_TYPE_HARDWARE`, `PERF_COUNT_HW_CACHE_MISSES`.
const HARDWARE: u32 = 0;
const CACHE_MISSES: u64 = 3;
/// `exclude_kernel`, `exclude_hv`: what an ordinary user may count up to paranoia 2.
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HV: u64 = 1 << 6;
/// `PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING`.
const TIMES: u64 = 0b11;

/// `struct perf_event_attr` as of its first version, 64 bytes; every later kernel takes it.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

const _: () = assert!(size_of::<Attributes>() == 64);

/// A running count.
#[derive(Debug)]
pub struct CacheMisses(File);

impl CacheMisses {
    /// Counts the cache misses of the calling thread from now on, outside the kernel.
    ///
    /// # Errors
    /// `NotFound` or `Unsupported` where the processor shows no such counter, `PermissionDenied` where
    /// `kernel.perf_event_paranoid` forbids it.
    pub fn of_this_thread() -> io::Result<CacheMisses> {
        let attributes = Attributes {
            kind: HARDWARE,
            size: size_of::<Attributes>() as u32,
            config: CACHE_MISSES,
            read_format: TIMES,
            flags: EXCLUDE_KERNEL | EXCLUDE_HV,
            ..Attributes::default()
        };
        let (this_thread, any_core, no_group) = (0, -1, -1);
        let close_on_exec: libc::c_ulong = 1 << 3;
        // SAFETY: the kernel reads `size` bytes of `attributes`, which lives across the call; the other
        // arguments are numbers.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                this_thread as libc::pid_t,
                any_core as libc::c_int,
                no_group as libc::c_int,
                close_on_exec,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
        Ok(CacheMisses(File::from(fd)))
    }

    /// Misses so far, scaled up where the counter had to be shared.
    ///
    /// # Errors
    /// The system's error; `NotFound` if the counter has not run at all.
    pub fn read(&mut self) -> io::Result<u64> {
        let mut words = [0u8; 24];
        self.0.read_exact(&mut words)?;
        let word =
            |at: usize| u64::from_ne_bytes(words[8 * at..][..8].try_into().unwrap_or_default());
        let (value, enabled, running) = (word(0), word(1), word(2));
        if running == 0 {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the counter never ran"));
        }
        Ok((u128::from(value) * u128::from(enabled) / u128::from(running)) as u64)
    }
}
