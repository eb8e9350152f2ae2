//! Frames through AF_XDP: what leaves only.

use std::time::Duration;

use super::port::Taken;
use super::setup::RawError;
use crate::frames::{FrameNotSent, FramesError, NOTE, PARTS, wrong};
use crate::sys;
use crate::xdp::rings::{SendQueue, socket};

/// Bytes of a chunk: a page, the most that the kernel takes.
const CHUNK: usize = 4096;
/// Chunks: 4 MiB, 341 frames of 9000 bytes.
const CHUNKS: u32 = 1024;
/// How long a queue of an interface is waited for: the kernel frees one some time after it was closed.
const TRIES: u32 = 100;
const NAP: Duration = Duration::from_millis(10);

/// The first queue of an interface.
#[derive(Debug)]
pub(super) struct XdpPort {
    interface: String,
    queue: SendQueue,
}

impl XdpPort {
    pub fn open(interface: &str) -> Result<XdpPort, RawError> {
        let failed = |(what, cause): (&'static str, std::io::Error)| RawError::Xdp {
            interface: interface.to_owned(),
            what,
            cause,
        };
        let index = sys::interface_index(interface).map_err(|e| wrong(interface, "open", e))?;
        let mut tries = TRIES;
        let queue = loop {
            let socket = socket().map_err(|e| failed(("open a socket", e)))?;
            match SendQueue::open(socket, (index, 0), (CHUNK, CHUNKS)) {
                Err((_, e)) if e.raw_os_error() == Some(libc::EBUSY) && tries > 0 => {
                    tries -= 1;
                    std::thread::sleep(NAP);
                }
                opened => break opened.map_err(failed)?,
            }
        };
        Ok(XdpPort { interface: interface.to_owned(), queue })
    }

    pub fn send<'a>(
        &mut self,
        frames: impl Iterator<Item = [&'a [u8]; PARTS]>,
    ) -> Result<Taken, FramesError> {
        let mut taken = 0;
        for [head, first, second] in frames {
            // The note is the packet socket's.
            if !self.queue.put(&[&head[NOTE.min(head.len())..], first, second]) {
                break;
            }
            taken += 1;
        }
        match self.queue.kick() {
            Ok(()) => Ok(Ok(taken)),
            Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => Ok(Err(FrameNotSent::TooLong)),
            Err(e) => Err(wrong(&self.interface, "send", e)),
        }
    }
}
