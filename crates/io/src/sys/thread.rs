//! Settings of a thread: pinning, CPU time, precise sleeping, large pages.
//!
//! Refuses: a core number above 1023, the size of the fixed CPU set.

use std::io;
use std::mem::{size_of, zeroed};

use super::CpuTime;

/// Ties the calling thread to one core, counted from 0.
///
/// # Errors
/// `InvalidInput` for a core that the host or the process's CPU set does not have.
pub fn pin_thread(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "core numbers end at 1023"));
    }
    // SAFETY: an all-zero cpu_set_t is the empty set; CPU_SET stays inside it for core < 1024;
    // sched_setaffinity reads it across the call only.
    let rc = unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets the calling thread yield to all others: for what serves people beside a run.
///
/// # Errors
/// The system's error.
pub fn be_nice() -> io::Result<()> {
    // SAFETY: no pointer; on Linux "process 0" of setpriority is the calling thread.
    let rc = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// CPU time of the calling thread since it began.
pub fn thread_cpu_time() -> io::Result<CpuTime> {
    cpu_time(libc::RUSAGE_THREAD)
}

/// CPU time of all threads of this process since it began.
pub fn process_cpu_time() -> io::Result<CpuTime> {
    cpu_time(libc::RUSAGE_SELF)
}

/// CPU time of the children of this process that have ended and were waited for, and of theirs.
pub fn children_cpu_time() -> io::Result<CpuTime> {
    cpu_time(libc::RUSAGE_CHILDREN)
}

fn cpu_time(whose: libc::c_int) -> io::Result<CpuTime> {
    // SAFETY: all-zero is a valid rusage.
    let mut usage: libc::rusage = unsafe { zeroed() };
    // SAFETY: the kernel writes one rusage through a valid, exclusive pointer.
    if unsafe { libc::getrusage(whose, &mut usage) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    Ok(CpuTime {
        user_ns: ns(usage.ru_utime),
        system_ns: ns(usage.ru_stime),
        preempted: usage.ru_nivcsw as u64,
    })
}

/// Lets the calling thread's sleeps end on time: slack 1 ns instead of the usual 50 µs.
pub fn precise_sleep() -> io::Result<()> {
    // SAFETY: PR_SET_TIMERSLACK takes one number and no pointer.
    let rc = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Clock ticks a second in `/proc/stat`.
pub fn clock_ticks() -> u64 {
    // SAFETY: sysconf takes a number and touches no memory.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100).max(1)
}

/// Requests large pages for `memory`: a hint, ignored if there are none.
pub fn prefer_large_pages(memory: &mut [u8]) {
    let page = 4096;
    let start = memory.as_ptr().align_offset(page);
    let Some(rest) = memory.get_mut(start..) else { return };
    let len = rest.len() & !(page - 1);
    // SAFETY: the range lies in `rest`, borrowed mutably; the advice changes no content.
    unsafe { libc::madvise(rest.as_mut_ptr().cast(), len, libc::MADV_HUGEPAGE) };
}
