//! Network namespaces, offloads of an interface and the MTU of a path: what measurements on emulated links need besides
//! the programs `ip` and `tc`.
//!
//! Refuses: names longer than an interface may have, features that the interface does not know or
//! does not let change. Sources: `setns(2)`, `netdevice(7)`, `linux/ethtool.h`, `ip(7)`.

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

/// `SIOCETHTOOL` (`linux/sockios.h`).
const SIOCETHTOOL: u64 = 0x8946;
/// Commands and the string set of features (`linux/ethtool.h`).
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETH_SS_FEATURES: u32 = 4;
/// Bytes of one name (`ETH_GSTRING_LEN`).
const NAME: usize = 32;
/// More features than any kernel has (71 in Linux 6.18): guards the allocation.
const MOST_FEATURES: u32 = 1024;

/// Runs `work` on a separate thread inside the network namespace at `path`, such as
/// `/run/netns/NAME`, and gives its result. Sockets opened there stay in that namespace.
///
/// # Errors
/// The system's error: no such namespace, or not root (`CAP_SYS_ADMIN`).
pub fn in_namespace<T: Send>(path: &Path, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let namespace = File::open(path)?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            // SAFETY: setns takes a descriptor, alive across the call, and moves this thread only,
            // which ends with `work`.
            let rc = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
            if rc != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(work())
        });
        match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Path MTU that the system knows for a connected UDP socket, bytes of an IP packet.
///
/// # Errors
/// The system's error, as for a socket that is not connected.
pub fn path_mtu(fd: BorrowedFd<'_>, ipv6: bool) -> io::Result<usize> {
    let (level, name) = match ipv6 {
        true => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
        false => (libc::IPPROTO_IP, libc::IP_MTU),
    };
    let mut mtu: libc::c_int = 0;
    let mut size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: pointer and length describe `mtu`, alive and exclusive across the call.
    let rc =
        unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut mtu).cast(), &mut size) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    usize::try_from(mtu).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// One `SIOCETHTOOL` call on the calling thread's namespace; `request` begins with the command and
/// is as long as the command's answer.
fn ethtool(interface: &str, request: &mut [u32]) -> io::Result<()> {
    if interface.is_empty() || interface.len() >= libc::IFNAMSIZ || interface.contains('\0') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no interface is called that"));
    }
    let domain = socket2::Domain::IPV4;
    let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, None)?;
    // SAFETY: all-zero is a valid ifreq.
    let mut call: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in call.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    call.ifr_ifru.ifru_data = request.as_mut_ptr().cast();
    // SAFETY: the ifreq lives across the call and points to `request`, borrowed mutably; the callers
    // size it for what the command writes, which its own length words state to the kernel.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut call) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Names of all features in the order of their bits.
fn feature_names(interface: &str) -> io::Result<Vec<String>> {
    // cmd, reserved, 64 bits of mask (low word first on little-endian, so both words are set by
    // value through a u64), one answer.
    let mask = (1u64 << ETH_SS_FEATURES).to_ne_bytes();
    let word = |b: &[u8]| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]);
    let mut info = [ETHTOOL_GSSET_INFO, 0, word(&mask[..4]), word(&mask[4..]), 0];
    ethtool(interface, &mut info)?;
    let count = info[4].min(MOST_FEATURES);
    let mut answer = vec![0u32; 3 + count as usize * NAME / size_of::<u32>()];
    answer[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count]);
    ethtool(interface, &mut answer)?;
    let bytes: Vec<u8> = answer[3..].iter().flat_map(|w| w.to_ne_bytes()).collect();
    let name = |b: &[u8]| String::from_utf8_lossy(b.split(|c| *c == 0).next().unwrap_or(b)).into();
    Ok(bytes.chunks_exact(NAME).map(name).collect())
}

/// Features (offloads) of an interface in the calling thread's namespace, with whether each is in
/// force, by the names that `ethtool -k` prints.
///
/// # Errors
/// The system's error: no such interface.
pub fn features(interface: &str) -> io::Result<Vec<(String, bool)>> {
    let names = feature_names(interface)?;
    let blocks = names.len().div_ceil(32);
    // Each block: available, requested, active, never changed.
    let mut answer = vec![0u32; 2 + 4 * blocks];
    answer[..2].copy_from_slice(&[ETHTOOL_GFEATURES, blocks as u32]);
    ethtool(interface, &mut answer)?;
    let active = |bit: usize| {
        answer.get(2 + 4 * (bit / 32) + 2).is_some_and(|word| word & (1 << (bit % 32)) != 0)
    };
    Ok(names.into_iter().enumerate().map(|(bit, name)| (name, active(bit))).collect())
}

/// Switches a feature of an interface in the calling thread's namespace and checks that it holds.
///
/// # Errors
/// `NotFound` for a feature that this kernel does not know, `Unsupported` where the interface does
/// not let it change, `PermissionDenied` without `CAP_NET_ADMIN`, or the system's.
pub fn set_feature(interface: &str, feature: &str, on: bool) -> io::Result<()> {
    let names = feature_names(interface)?;
    let bit = names.iter().position(|name| name == feature).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("there is no feature {feature}"))
    })?;
    let blocks = names.len().div_ceil(32);
    // Each block: bits that are meant, their values.
    let mut request = vec![0u32; 2 + 2 * blocks];
    request[..2].copy_from_slice(&[ETHTOOL_SFEATURES, blocks as u32]);
    request[2 + 2 * (bit / 32)] = 1 << (bit % 32);
    request[3 + 2 * (bit / 32)] = u32::from(on) << (bit % 32);
    ethtool(interface, &mut request)?;
    let now = features(interface)?;
    if now.get(bit).is_some_and(|(_, active)| *active == on) {
        return Ok(());
    }
    let state = if on { "off" } else { "on" };
    let text = format!("{interface} keeps {feature} {state}");
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn loopback_has_features_by_name_and_nonsense_is_refused() {
        let all = features("lo").unwrap();
        assert!(all.iter().any(|(name, _)| name == "tx-udp-segmentation"), "{all:?}");
        assert!(all.iter().any(|(name, on)| name == "loopback" && *on), "{all:?}");
        for bad in ["", "a name that is too long", "a\0b"] {
            assert_eq!(features(bad).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{bad}");
        }
        assert!(features("fc-no-such0").is_err());
        let e = set_feature("lo", "no-such-feature", true).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_path_mtu_is_that_of_the_route() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(path_mtu(socket.as_fd(), false).is_err(), "not connected");
        socket.connect("127.0.0.1:9").unwrap();
        assert!(path_mtu(socket.as_fd(), false).unwrap() >= 1500);
    }

    #[test]
    fn a_namespace_that_is_not_there_is_an_error() {
        let e = in_namespace(Path::new("/run/netns/no-such-namespace"), || ()).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::NotFound);
    }
}
