//! The end of the link: a packet socket, a TAP device, or AF_XDP with a packet socket for what comes.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use super::in_memory::WireInMemory;
use super::setup::{Driver, RawError, RawSetup, SHORT_UNIT};
use super::xdp::XdpPort;
use crate::frames::{
    BATCH, FrameNotSent, FrameReceiver, FramesError, LONGEST, NOTE, PARTS, PartsSender, wrong,
};
use crate::host::unit::longest_unit;
use crate::sys;

/// Kernel buffer of what comes in: ACKs and ARP of the whole link.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Room for one frame with its note.
pub(super) const SLOT: usize = NOTE + LONGEST;

/// What the system did with frames: so many are taken, or the first is one that it never takes.
pub(super) type Taken = Result<usize, FrameNotSent>;

#[derive(Debug)]
pub(super) enum Port {
    Packet {
        receiver: FrameReceiver,
        output: PartsSender,
    },
    Tap(TapPort),
    Xdp {
        receiver: FrameReceiver,
        output: Box<XdpPort>,
    },
    /// No interface: tests hold the other end.
    InMemory(WireInMemory),
}

/// Longest packet that the interface takes. A TAP device takes any: what its far end can take is in that one's SYN.
#[cfg(target_os = "linux")]
pub(super) fn mtu(setup: &RawSetup) -> Option<usize> {
    let asked = (setup.driver != Driver::Tap).then(|| sys::interface::interface(&setup.interface));
    asked?.ok().map(|about| about.mtu)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn mtu(_: &RawSetup) -> Option<usize> {
    None
}

/// Longest unit, bytes with headers: what the setup says, and the interface takes.
pub(super) fn unit(setup: &RawSetup) -> u32 {
    let takes = match setup.driver {
        Driver::Packet if setup.offload && setup.unit > SHORT_UNIT => {
            longest_unit(&setup.interface)
        }
        _ => None,
    };
    setup.unit.min(takes.unwrap_or(SHORT_UNIT)).max(SHORT_UNIT)
}

impl Port {
    pub fn open(setup: &RawSetup) -> Result<Port, RawError> {
        let interface = &setup.interface;
        if setup.offload && !setup.driver.can_offload() {
            return Err(RawError::NoOffload(setup.driver));
        }
        let receiver = || FrameReceiver::open(interface, RECEIVE_BUFFER);
        Ok(match setup.driver {
            Driver::Packet => {
                Port::Packet { receiver: receiver()?, output: PartsSender::open(interface)? }
            }
            Driver::Tap => Port::Tap(TapPort::open(interface)?),
            Driver::Xdp => {
                let output = Box::new(XdpPort::open(interface)?);
                Port::Xdp { receiver: receiver()?, output }
            }
        })
    }

    /// Time is told, not read.
    pub fn is_in_memory(&self) -> bool {
        matches!(self, Port::InMemory(_))
    }

    /// The kernel completes checksums.
    pub fn completes(&self) -> bool {
        !matches!(self, Port::Xdp { .. })
    }

    /// Takes what came without waiting: how many frames, up to [`BATCH`].
    pub fn receive(&mut self) -> Result<usize, FramesError> {
        match self {
            Port::Packet { receiver, .. } | Port::Xdp { receiver, .. } => receiver.receive(),
            Port::Tap(tap) => tap.receive(),
            Port::InMemory(wire) => Ok(wire.receive()),
        }
    }

    /// Puts frame `i` with its note into `into`; false if it was cut.
    pub fn copy(&self, i: usize, into: &mut Vec<u8>) -> bool {
        match self {
            Port::Packet { receiver, .. } | Port::Xdp { receiver, .. } => receiver.copy(i, into),
            Port::Tap(tap) => tap.copy(i, into),
            Port::InMemory(wire) => wire.copy(i, into),
        }
    }

    /// Sends from the front, without waiting; 0: there is no room now.
    pub fn send<'a>(
        &mut self,
        frames: impl Iterator<Item = [&'a [u8]; PARTS]>,
    ) -> Result<Taken, FramesError> {
        match self {
            Port::Packet { output, .. } => output.send_some(frames),
            Port::Tap(tap) => tap.send(frames),
            Port::InMemory(wire) => Ok(wire.send(frames)),
            Port::Xdp { output, .. } => output.send(frames),
        }
    }

    /// Waits until something comes, at most `limit`.
    pub fn wait(&self, limit: Duration) -> Result<(), FramesError> {
        match self {
            Port::Packet { receiver, .. } | Port::Xdp { receiver, .. } => {
                receiver.wait(limit).map(drop)
            }
            Port::Tap(tap) => tap.wait(limit),
            Port::InMemory(_) => Ok(()),
        }
    }
}

/// A TAP device.
#[derive(Debug)]
pub(super) struct TapPort {
    interface: String,
    device: File,
    memory: Vec<u8>,
    lengths: Vec<usize>,
}

impl TapPort {
    fn open(interface: &str) -> Result<TapPort, FramesError> {
        let device = sys::open_tap(interface).map_err(|cause| match cause.kind() {
            ErrorKind::PermissionDenied => {
                FramesError::TapNotAllowed { interface: interface.to_owned() }
            }
            ErrorKind::ResourceBusy => FramesError::System {
                interface: interface.to_owned(),
                what: "open the TAP device, which another program has",
                cause,
            },
            _ => wrong(interface, "open the TAP device", cause),
        })?;
        Ok(TapPort {
            interface: interface.to_owned(),
            device,
            memory: vec![0; BATCH * SLOT],
            lengths: Vec::with_capacity(BATCH),
        })
    }

    fn receive(&mut self) -> Result<usize, FramesError> {
        self.lengths.clear();
        while self.lengths.len() < BATCH {
            let slot = &mut self.memory[self.lengths.len() * SLOT..][..SLOT];
            match self.device.read(slot) {
                Ok(n) => self.lengths.push(n),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // Down, or not up yet: nothing comes.
                Err(e) if e.raw_os_error() == Some(libc::EIO) => break,
                Err(e) => return Err(wrong(&self.interface, "receive", e)),
            }
        }
        Ok(self.lengths.len())
    }

    fn copy(&self, i: usize, into: &mut Vec<u8>) -> bool {
        into.clear();
        let Some(&length) = self.lengths.get(i) else { return false };
        into.extend_from_slice(&self.memory[i * SLOT..][..length]);
        (NOTE..SLOT).contains(&length)
    }

    fn send<'a>(
        &mut self,
        frames: impl Iterator<Item = [&'a [u8]; PARTS]>,
    ) -> Result<Taken, FramesError> {
        let mut taken = 0;
        for frame in frames {
            match sys::write_parts(self.device.as_fd(), frame) {
                Ok(_) => taken += 1,
                Err(_) if taken > 0 => break,
                Err(e) => {
                    return match (e.kind(), e.raw_os_error()) {
                        (ErrorKind::WouldBlock | ErrorKind::Interrupted, _)
                        | (_, Some(libc::ENOBUFS | libc::ENOMEM)) => Ok(Ok(0)),
                        // Down, or not up yet: the frame is gone, as on a wire that is not plugged in.
                        (_, Some(libc::EIO)) => Ok(Err(FrameNotSent::NoBuffer)),
                        (_, Some(libc::EMSGSIZE)) => Ok(Err(FrameNotSent::TooLong)),
                        (_, Some(libc::EINVAL)) => Ok(Err(FrameNotSent::Malformed)),
                        _ => Err(wrong(&self.interface, "send", e)),
                    };
                }
            }
        }
        Ok(Ok(taken))
    }

    fn wait(&self, limit: Duration) -> Result<(), FramesError> {
        sys::wait_readable(self.device.as_fd(), limit)
            .map(drop)
            .map_err(|e| wrong(&self.interface, "wait", e))
    }
}
