//! Defaults for receiving if the URL does not set them, and the choice of the engine.

use std::io;
use std::os::fd::AsFd;

use socket2::Socket;

use super::open::{Opening, UdpError};
use super::shard::Steer;
use crate::endpoint::{Engine, UdpUrl};
use crate::sys::{self, ReceiveRing, UringRing};

/// How to receive, where the URL does not say.
#[derive(Debug, Clone)]
pub struct ReceiveOptions {
    /// Receive buffer in bytes, 4 KiB..=1 GiB. Default 64 MiB: 50 ms at 10 Gb/s.
    pub receive_buffer: u64,
    /// Ask for the kernel's receive time; costs the kernel a clock read per packet. Default off.
    pub timestamps: bool,
    /// Share the port among this many sockets of this process, and what keeps packets together on one of
    /// them. Default: alone.
    pub shared: Option<(u32, Steer)>,
    /// Most trains a call, 1..=1024. Default by engine, see [`ReceiveOptions::slots_for`].
    pub slots: Option<usize>,
    /// Bytes a slot, 1..=65536. Default 65,536: the largest train is 65,535 B with its headers.
    pub slot_bytes: usize,
}

impl Default for ReceiveOptions {
    fn default() -> Self {
        ReceiveOptions {
            receive_buffer: 64 << 20,
            timestamps: false,
            shared: None,
            slots: None,
            slot_bytes: 65_536,
        }
    }
}

impl ReceiveOptions {
    /// Most trains a call for an engine. Measured flat out on loopback at 64 B and 8972 B (Linux
    /// 6.18, EPYC 9004 guest): with GRO 4, 16 and 64 slots are equal within 2 % (6.5 Gb/s on a busy
    /// host), as a call brings 2 to 6 trains; 16 slots of 64 KiB are the core's level 2 cache. One
    /// datagram a slot: 4, 16, 64 and 256 slots gave 227, 227, 235 and 244 thousand packets/s.
    pub fn slots_for(&self, engine: Engine) -> usize {
        let default = match engine {
            Engine::Plain | Engine::Mmsg | Engine::Auto => 64,
            Engine::Gro | Engine::Uring => 16,
        };
        self.slots.unwrap_or(default).clamp(1, 1024)
    }
}

/// How trains are taken from the socket.
pub(super) enum Way {
    Ring(ReceiveRing),
    Uring(Box<UringRing>),
    OneByOne,
}

/// Finds the engine, before the socket is bound so that the probe cannot take a packet.
pub(super) fn choose(
    opening: &Opening<'_>,
    socket: &Socket,
    url: &UdpUrl,
    options: &ReceiveOptions,
) -> Result<(Engine, Way, Option<String>), UdpError> {
    let asked = url.engine;
    if asked == Engine::Plain {
        return Ok((Engine::Plain, Way::OneByOne, None));
    }
    if asked == Engine::Uring {
        let ring = UringRing::new(options.slots_for(asked));
        let ring = ring.map_err(|e| opening.engine("uring", e))?;
        let gro = sys::set_gro(socket.as_fd(), true);
        let note = gro.err().map(|cause| format!("UDP GRO is not available: {cause}"));
        return Ok((Engine::Uring, Way::Uring(Box::new(ring)), note));
    }
    let mut probe = ReceiveRing::new(1);
    let batches = match probe.receive(socket.as_fd(), &mut [0; 64], (64, 64), false) {
        // Unbound: a system that has the call says that there is nothing.
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(e) => Err(e),
    };
    if let Err(cause) = batches {
        return match asked {
            Engine::Auto => {
                let note = format!("recvmmsg is not available: {cause}");
                Ok((Engine::Plain, Way::OneByOne, Some(note)))
            }
            _ => Err(opening.engine(asked.name(), cause)),
        };
    }
    let ring = |engine| Way::Ring(ReceiveRing::new(options.slots_for(engine)));
    if asked == Engine::Mmsg {
        return Ok((Engine::Mmsg, ring(Engine::Mmsg), None));
    }
    match sys::set_gro(socket.as_fd(), true) {
        Ok(()) => Ok((Engine::Gro, ring(Engine::Gro), None)),
        Err(cause) if asked == Engine::Gro => Err(opening.engine("gro", cause)),
        Err(cause) => {
            let note = format!("UDP GRO is not available: {cause}");
            Ok((Engine::Mmsg, ring(Engine::Mmsg), Some(note)))
        }
    }
}
