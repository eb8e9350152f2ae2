//! `TCP_INFO`: what the kernel itself counts of a connection. Source: `tcp(7)`, `linux/tcp.h`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// What has left on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpCounts {
    /// Segments, those sent again and pure acknowledgements included.
    pub segments: u64,
    /// Payload bytes, those sent again included.
    pub bytes: u64,
    /// Payload bytes sent again.
    pub bytes_again: u64,
    /// Payload bytes that the other side has acknowledged.
    pub acknowledged: u64,
    /// Round trip, µs.
    pub round_trip_us: u32,
}

/// Bytes of `struct tcp_info` that are asked for: as far as `tcpi_bytes_retrans`, which Linux has since 4.19.
const LENGTH: usize = 224;

/// Asks the kernel for them.
///
/// # Errors
/// The system's answer; `Unsupported` where it does not count bytes.
pub fn tcp_counts(fd: BorrowedFd<'_>) -> io::Result<TcpCounts> {
    let mut info = [0u64; LENGTH / 8];
    let mut length = LENGTH as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into our own array, and says how many; any bytes are valid u64s.
    let answer = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    if (length as usize) < LENGTH - 8 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let half = |byte: usize| {
        let bytes = info[byte / 8].to_ne_bytes();
        let at = byte % 8;
        u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    };
    Ok(TcpCounts {
        round_trip_us: half(68),
        acknowledged: info[120 / 8],
        segments: u64::from(half(136)),
        bytes: info[200 / 8],
        bytes_again: info[208 / 8],
    })
}
