//! Waits until the kernel stamps packets as they come.
//!
//! The first socket of a host that asks for receive times switches stamping on, and a thread of the kernel does that a moment later. A packet
//! that comes before then gets the time at which it is read: packets of several sockets would be put in the order of the reads. So a
//! datagram goes to a socket of our own and is read a while later: a stamp from before that while is the kernel's.
//! Source: `docs/spead.md`, "Sockets that share a port".

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use crate::sys::{self, ReceiveRing};
use crate::wall::wall_ns;

/// Between sending and reading.
const WHILE: Duration = Duration::from_micros(100);
/// Datagrams at most: 20 ms. Without a loopback interface there is nothing to wait for.
const MOST: u32 = 200;

/// True once a datagram had the kernel's stamp; false if none came, or none had. Who opens a socket goes on either way: times are late
/// by a read then, and nothing is lost.
pub(super) fn are_of_the_kernel() -> bool {
    let open = || {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(socket.local_addr()?)?;
        sys::set_timestamps(socket.as_fd(), true)?;
        Ok::<_, std::io::Error>(socket)
    };
    let Ok(socket) = open() else { return false };
    let mut ring = ReceiveRing::new(1);
    for _ in 0..MOST {
        if socket.send(&[0]).is_err() {
            return false;
        }
        std::thread::sleep(WHILE);
        let now_ns = wall_ns();
        let came = ring.receive(socket.as_fd(), &mut [0; 64], (64, 64), false);
        let stamp = came.ok().and_then(|_| ring.message(0)?.time_ns);
        if stamp.is_some_and(|stamp| stamp < now_ns) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_loopback_stamps_in_the_end() {
        assert!(are_of_the_kernel());
    }
}
