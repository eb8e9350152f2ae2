//! The kernel's information about one interface, in the caller's network namespace (`/sys` may show another one's).
//!
//! Refuses: names of 16 bytes and more, which no interface has. Sources: `netdevice(7)`,
//! `linux/ethtool.h`, `linux/filter.h`, `poll(2)`.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// One interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemInterface {
    /// Its number.
    pub index: u32,
    /// Longest packet in bytes, IP header included.
    pub mtu: usize,
    /// It is switched on.
    pub up: bool,
    /// It is the host's own loopback.
    pub loopback: bool,
    /// Receive queues in use, if the driver reports them.
    pub queues: Option<u32>,
    /// Driver, if reported.
    pub driver: Option<String>,
}

/// One request about the interface; `data` is what its last word points to.
fn request<T>(
    socket: &Socket,
    name: &str,
    number: libc::c_ulong,
    data: Option<&mut T>,
) -> io::Result<libc::ifreq> {
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { zeroed() };
    if name.len() >= request.ifr_name.len() || name.is_empty() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    if let Some(data) = data {
        request.ifr_ifru.ifru_data = (&raw mut *data).cast();
    }
    // SAFETY: the request is a whole ifreq; where the number asks for data, `data` is the structure
    // that belongs to it, borrowed exclusively across the call.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), number as _, &raw mut request) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(request) }
}

/// The interface called `name`.
///
/// # Errors
/// The system's error; `ENODEV` if there is none.
pub fn interface(name: &str) -> io::Result<SystemInterface> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    let none = None::<&mut u32>;
    let index = request(&socket, name, libc::SIOCGIFINDEX as _, none)?;
    // SAFETY: this request fills the number.
    let index = unsafe { index.ifr_ifru.ifru_ifindex };
    let mtu = request(&socket, name, libc::SIOCGIFMTU as _, None::<&mut u32>)?;
    // SAFETY: this request fills the MTU.
    let mtu = unsafe { mtu.ifr_ifru.ifru_mtu };
    let flags = request(&socket, name, libc::SIOCGIFFLAGS as _, None::<&mut u32>)?;
    // SAFETY: this request fills the flags.
    let flags = i32::from(unsafe { flags.ifr_ifru.ifru_flags });
    // Command, four maxima, then receive, send, other and combined queues.
    let mut channels = [0u32; 9];
    channels[0] = ETHTOOL_GCHANNELS;
    let asked = request(&socket, name, libc::SIOCETHTOOL as _, Some(&mut channels));
    let queues = asked.ok().map(|_| channels[5] + channels[8]).filter(|n| *n > 0);
    // Command, then texts of 32 bytes: driver, version, …; 196 bytes in all.
    let mut about = [0u32; 49];
    about[0] = ETHTOOL_GDRVINFO;
    let asked = request(&socket, name, libc::SIOCETHTOOL as _, Some(&mut about));
    let driver = asked.ok().map(|_| {
        let bytes: Vec<u8> = about[1..9].iter().flat_map(|w| w.to_ne_bytes()).collect();
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    });
    Ok(SystemInterface {
        index: index as u32,
        mtu: usize::try_from(mtu).unwrap_or(0),
        up: flags & libc::IFF_UP != 0,
        loopback: flags & libc::IFF_LOOPBACK != 0,
        queues,
        driver: driver.filter(|d| !d.is_empty()),
    })
}

/// The IPv4 address of the interface called `name`.
///
/// # Errors
/// The system's error; it has none, or there is no such interface.
pub fn ipv4_address(name: &str) -> io::Result<Ipv4Addr> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    let found = request(&socket, name, libc::SIOCGIFADDR as _, None::<&mut u32>)?;
    // SAFETY: this request fills the address.
    let address = unsafe { found.ifr_ifru.ifru_addr };
    // Behind the port: an address of this family, as the socket is of it.
    let [a, b, c, d] = [2, 3, 4, 5].map(|at| address.sa_data[at] as u8);
    Ok(Ipv4Addr::new(a, b, c, d))
}

/// Whether the interface that a socket was bound to has gone: asked in the socket's own network
/// namespace, and only where the socket holds an error, which this clears. An interface that is only
/// down is none: it may come back.
pub fn has_gone(socket: BorrowedFd<'_>, index: u32) -> bool {
    if !matches!(SockRef::from(&socket).take_error(), Ok(Some(_))) {
        return false;
    }
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { zeroed() };
    request.ifr_ifru.ifru_ifindex = index as i32;
    // SAFETY: the request is a whole ifreq, alive across the call; the kernel writes a name into it.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFNAME as _, &raw mut request) };
    rc < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENODEV)
}

/// Classic packet filter instruction: code, jump if true, jump if false, number.
pub type ClassicWord = (u16, u8, u8, u32);

/// Lets a socket take only what `program` says; at most 4096 instructions.
pub fn attach_classic_filter(fd: BorrowedFd<'_>, program: &[ClassicWord]) -> io::Result<()> {
    let word = |&(code, jt, jf, k): &ClassicWord| libc::sock_filter { code, jt, jf, k };
    let mut words: Vec<libc::sock_filter> = program.iter().map(word).collect();
    let len = u16::try_from(words.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let filter = libc::sock_fprog { len, filter: words.as_mut_ptr() };
    // SAFETY: the pointer and length describe `filter`, whose own pointer and length describe
    // `words`; both live across the call, and the kernel copies them.
    let rc = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What a [`Waiter`] saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awake {
    /// At least one socket can be read.
    Readable,
    /// The time is over, or a signal came.
    Nothing,
    /// A socket holds an error: its interface went down or has gone.
    Broken,
}

/// Waits for any of several descriptors; allocates once.
pub struct Waiter {
    polls: Vec<libc::pollfd>,
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiter").field("descriptors", &self.polls.len()).finish()
    }
}

impl Waiter {
    /// Waits for these; they must stay open as long as the waiter is used (a closed one is reported
    /// as broken).
    pub fn new<'a, F: AsFd + 'a>(all: impl IntoIterator<Item = &'a F>) -> Waiter {
        let poll =
            |fd: &F| libc::pollfd { fd: fd.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        Waiter { polls: all.into_iter().map(poll).collect() }
    }

    /// Waits at most `wait`, rounded up to milliseconds.
    pub fn wait(&mut self, wait: Duration) -> io::Result<Awake> {
        let ms = libc::c_int::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(libc::c_int::MAX);
        let count = self.polls.len() as libc::nfds_t;
        // SAFETY: pointer and length describe our own vector.
        let n = unsafe { libc::poll(self.polls.as_mut_ptr(), count, ms) };
        if n < 0 {
            let e = io::Error::last_os_error();
            return if e.kind() == io::ErrorKind::Interrupted {
                Ok(Awake::Nothing)
            } else {
                Err(e)
            };
        }
        let any = |bits: i16| self.polls.iter().any(|p| p.revents & bits != 0);
        Ok(match n {
            0 => Awake::Nothing,
            // What is there is read first.
            _ if any(libc::POLLIN) => Awake::Readable,
            _ if any(libc::POLLERR | libc::POLLNVAL | libc::POLLHUP) => Awake::Broken,
            _ => Awake::Nothing,
        })
    }
}

/// Lets a socket's reads drive the card's own work (`SO_PREFER_BUSY_POLL`, Linux 5.11), `micros` a
/// time and `budget` packets at once.
pub fn prefer_busy_poll(fd: BorrowedFd<'_>, micros: u32, budget: u32) -> io::Result<()> {
    const SO_PREFER_BUSY_POLL: libc::c_int = 69;
    const SO_BUSY_POLL_BUDGET: libc::c_int = 70;
    let options =
        [(SO_PREFER_BUSY_POLL, 1), (libc::SO_BUSY_POLL, micros), (SO_BUSY_POLL_BUDGET, budget)];
    for (name, value) in options {
        super::option::set_number(fd, libc::SOL_SOCKET, name, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_and_what_is_not_there_is_said() {
        let lo = interface("lo").unwrap();
        assert!(lo.loopback && lo.index > 0 && lo.mtu > 0, "{lo:?}");
        assert!(ipv4_address("lo").unwrap().is_loopback());
        assert!(ipv4_address("nosuch0").is_err());
        for absent in ["", "nosuch0", "a name that is far too long"] {
            let told = interface(absent).unwrap_err();
            assert_eq!(told.raw_os_error(), Some(libc::ENODEV), "{absent}: {told}");
        }
    }

    #[test]
    fn a_waiter_tells_data_from_time() {
        let a = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let b = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut waiter = Waiter::new([&a, &b]);
        assert_eq!(waiter.wait(Duration::ZERO).unwrap(), Awake::Nothing);
        a.send_to(b"x", b.local_addr().unwrap()).unwrap();
        assert_eq!(waiter.wait(Duration::from_secs(5)).unwrap(), Awake::Readable);
    }
}
