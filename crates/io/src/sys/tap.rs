//! TAP devices (`/dev/net/tun`): an interface of the kernel whose far end of the wire is a descriptor of ours.
//!
//! Refuses names longer than 15 bytes or with a NUL (`InvalidInput`). Sources: kernel
//! `Documentation/networking/tuntap.rst`, `linux/if_tun.h` (numbers unchanged since they appeared).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const IFF_TAP: libc::c_short = 0x0002;
const IFF_NO_PI: libc::c_short = 0x1000;
/// Before each frame are 10 bytes of `virtio_net_hdr`.
const IFF_VNET_HDR: libc::c_short = 0x4000;

/// Opens the device `name`, and makes it if it is not there; it goes with the descriptor then.
///
/// # Errors
/// `PermissionDenied` where neither the device belongs to this user nor it may make one; `ResourceBusy` if somebody else
/// has it; `NotFound` without the module `tun`.
pub fn open_tap(name: &str) -> io::Result<File> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() >= libc::IFNAMSIZ || bytes.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")?;
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
    // SAFETY: `request` is an ifreq that lives across the call, which is what TUNSETIFF reads and writes.
    let rc = unsafe { libc::ioctl(device.as_raw_fd(), TUNSETIFF as _, &raw mut request) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(device) }
}
