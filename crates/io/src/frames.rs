//! Whole Ethernet frames in and out of an interface, many a call: used by the link emulator.
//!
//! Before each frame is the kernel's note ([`NOTE`] bytes): a checksum that is still to be completed, or that the frame
//! is a train of segments. It is passed on with the frame, and the sending interface acts on it, so nothing is computed
//! here and no checksum is wrong. VLAN tags that the kernel removed are restored. Needs Linux and `CAP_NET_RAW`.
//! Refuses: see [`FramesError`]. Sources: `packet(7)`, `linux/virtio_net.h`.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::Socket;

pub use crate::sys::PARTS;
use crate::sys::{self, GatherRing, ReceiveRing, SendRing};

/// Bytes in front of each frame (`struct virtio_net_hdr`).
pub const NOTE: usize = 10;
/// Longest frame: a train of 64 KiB with its headers.
pub const LONGEST: usize = 65_536 + 64;
/// Frames a call.
pub const BATCH: usize = 64;
/// Kernel buffer of what goes out.
const SEND_BUFFER: usize = 16 << 20;
/// Room for one frame, its note, and a tag that is put back.
const SLOT: usize = NOTE + LONGEST;

/// Why an interface cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum FramesError {
    #[error("there is no interface {interface}; 'ip -br link' lists them")]
    Absent { interface: String },
    #[error("{interface}: reading and writing frames needs root (CAP_NET_RAW): run it with sudo")]
    NotAllowed { interface: String },
    /// A TAP device of somebody else, or none may be made.
    #[error(
        "{interface}: this user may not open the TAP device: 'ip tuntap add dev {interface} mode tap user NAME' \
         by root gives it one, and /dev/net/tun must be readable and writable"
    )]
    TapNotAllowed { interface: String },
    #[error("{interface} is down: 'ip link set {interface} up'")]
    Down { interface: String },
    #[error("{interface}: {what}: {cause}")]
    System { interface: String, what: &'static str, cause: io::Error },
}

pub(crate) fn wrong(interface: &str, what: &'static str, cause: io::Error) -> FramesError {
    let interface = interface.to_owned();
    match (cause.kind(), cause.raw_os_error()) {
        (io::ErrorKind::PermissionDenied, _) => FramesError::NotAllowed { interface },
        (_, Some(libc::ENODEV | libc::ENXIO)) => FramesError::Absent { interface },
        (_, Some(libc::ENETDOWN)) => FramesError::Down { interface },
        _ => FramesError::System { interface, what, cause },
    }
}

/// What the kernel says about a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameCuts {
    /// Headers that each segment gets, bytes.
    pub header: usize,
    /// Bytes of data in each segment.
    pub segment: usize,
}

/// Reads the note before a frame: `None` for a plain frame.
pub fn train(noted: &[u8]) -> Option<FrameCuts> {
    // virtio_net_hdr: flags, gso_type, hdr_len, gso_size, csum_start, csum_offset; the host's order.
    let word =
        |at: usize| Some(usize::from(u16::from_ne_bytes([*noted.get(at)?, *noted.get(at + 1)?])));
    let (header, segment) = (word(2)?, word(4)?);
    (*noted.get(1)? != 0 && segment > 0).then_some(FrameCuts { header, segment })
}

/// Restores a tag after the addresses, and shifts the offsets in the note.
fn put_tag(noted: &mut Vec<u8>, (kind, content): (u16, u16)) {
    const BEHIND: usize = NOTE + 12;
    if noted.len() < BEHIND {
        return;
    }
    let ([a, b], [c, d]) = (kind.to_be_bytes(), content.to_be_bytes());
    noted.splice(BEHIND..BEHIND, [a, b, c, d]);
    for at in [2, 6] {
        let place = u16::from_ne_bytes([noted[at], noted[at + 1]]);
        // 0 says nothing, and stays that.
        if place > 0 {
            noted[at..at + 2].copy_from_slice(&(place + 4).to_ne_bytes());
        }
    }
}

/// Frames that come in at an interface.
#[derive(Debug)]
pub struct FrameReceiver {
    interface: String,
    socket: Socket,
    ring: ReceiveRing,
    memory: Vec<u8>,
    missed: u64,
}

impl FrameReceiver {
    /// Opens it with a buffer of about `buffer` bytes.
    pub fn open(interface: &str, buffer: usize) -> Result<FrameReceiver, FramesError> {
        let socket = sys::frame_receiver(interface).map_err(|e| wrong(interface, "open", e))?;
        // Above the host's limit if allowed; otherwise as much as the system grants.
        if sys::force_receive_buffer(socket.as_fd(), buffer).is_err() {
            let _ = socket.set_recv_buffer_size(buffer);
        }
        Ok(FrameReceiver {
            interface: interface.to_owned(),
            socket,
            ring: ReceiveRing::new(BATCH),
            memory: vec![0; BATCH * SLOT],
            missed: 0,
        })
    }

    /// Takes available frames without waiting: their number, up to [`BATCH`]. A truncated frame is not returned.
    ///
    /// # Errors
    /// The interface went down or away.
    pub fn receive(&mut self) -> Result<usize, FramesError> {
        match self.ring.receive(self.socket.as_fd(), &mut self.memory, (SLOT, SLOT), false) {
            Ok(n) => Ok(n),
            Err(e)
                if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
            {
                Ok(0)
            }
            Err(e) => Err(wrong(&self.interface, "receive", e)),
        }
    }

    /// Puts frame `i` of the last call, with its note, into `into`; false if it was cut or has none.
    pub fn copy(&self, i: usize, into: &mut Vec<u8>) -> bool {
        into.clear();
        let Some(message) = self.ring.message(i) else { return false };
        if message.truncated || message.len < NOTE {
            return false;
        }
        into.extend_from_slice(&self.memory[i * SLOT..i * SLOT + message.len]);
        if let Some(tag) = message.vlan {
            put_tag(into, tag);
        }
        true
    }

    /// Waits until something comes, at most `limit`.
    pub fn wait(&self, limit: Duration) -> Result<bool, FramesError> {
        sys::wait_readable(self.socket.as_fd(), limit)
            .map_err(|e| wrong(&self.interface, "wait", e))
    }

    /// Frames that found the buffer full, since the beginning.
    pub fn missed(&mut self) -> u64 {
        self.missed += sys::frames_missed(self.socket.as_fd()).unwrap_or(0);
        self.missed
    }
}

/// Why the system did not take a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameNotSent {
    /// Longer than the interface's MTU allows.
    TooLong,
    /// No memory or no room in the card's queue.
    NoBuffer,
    /// Shorter than a header, or a note that makes no sense to the kernel.
    Malformed,
}

/// What the system's answer to a frame means; an error that is about the interface is one.
fn why(interface: &str, e: io::Error) -> Result<FrameNotSent, FramesError> {
    match (e.kind(), e.raw_os_error()) {
        (io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory, _) | (_, Some(libc::ENOBUFS)) => {
            Ok(FrameNotSent::NoBuffer)
        }
        (_, Some(libc::EMSGSIZE)) => Ok(FrameNotSent::TooLong),
        (_, Some(libc::EINVAL)) => Ok(FrameNotSent::Malformed),
        _ => Err(wrong(interface, "send", e)),
    }
}

/// Frames in parts that go out at an interface, through its queueing discipline: notes and headers from one place,
/// payload from another.
#[derive(Debug)]
pub struct PartsSender {
    interface: String,
    socket: Socket,
    ring: GatherRing,
}

impl PartsSender {
    /// Opens it.
    ///
    /// # Errors
    /// See [`FramesError`].
    pub fn open(interface: &str) -> Result<PartsSender, FramesError> {
        let socket =
            sys::frame_sender(interface, false).map_err(|e| wrong(interface, "open", e))?;
        let _ = sys::force_send_buffer(socket.as_fd(), SEND_BUFFER);
        let ring = GatherRing::new(BATCH);
        Ok(PartsSender { interface: interface.to_owned(), socket, ring })
    }

    /// Sends frames, from the front, without waiting: see [`FrameSender::send_some`].
    ///
    /// # Errors
    /// The interface went down or away.
    pub fn send_some<'a>(
        &mut self,
        frames: impl Iterator<Item = [&'a [u8]; PARTS]>,
    ) -> Result<Result<usize, FrameNotSent>, FramesError> {
        match self.ring.send(self.socket.as_fd(), frames) {
            Ok(n) => Ok(Ok(n)),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(Ok(0)),
            Err(e) => match why(&self.interface, e)? {
                FrameNotSent::NoBuffer => Ok(Ok(0)),
                other => Ok(Err(other)),
            },
        }
    }
}

/// Frames that go out at an interface.
#[derive(Debug)]
pub struct FrameSender {
    interface: String,
    socket: Socket,
    ring: SendRing,
}

impl FrameSender {
    /// Opens it.
    pub fn open(interface: &str) -> Result<FrameSender, FramesError> {
        let socket = sys::frame_sender(interface, true).map_err(|e| wrong(interface, "open", e))?;
        let _ = sys::force_send_buffer(socket.as_fd(), SEND_BUFFER);
        let ring = SendRing::new(BATCH);
        Ok(FrameSender { interface: interface.to_owned(), socket, ring })
    }

    /// Sends frames with their notes, from the front; how many the system took: 0 if it has no room now, and they
    /// are to be kept. Inside: the first frame is one that it will never take.
    ///
    /// # Errors
    /// The interface went down or away.
    pub fn send_some(
        &mut self,
        frames: &[Vec<u8>],
    ) -> Result<Result<usize, FrameNotSent>, FramesError> {
        loop {
            let rest = frames.iter().map(|f| (f.as_slice(), None));
            match self.ring.send(self.socket.as_fd(), rest) {
                Ok(n) => return Ok(Ok(n)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    return match self.why(e)? {
                        FrameNotSent::NoBuffer => Ok(Ok(0)),
                        other => Ok(Err(other)),
                    };
                }
            }
        }
    }

    fn why(&self, e: io::Error) -> Result<FrameNotSent, FramesError> {
        why(&self.interface, e)
    }

    /// Sends frames with their notes, all of them; `refused` is told of each that the system did not take.
    ///
    /// # Errors
    /// The interface went down or away.
    pub fn send(
        &mut self,
        frames: &[Vec<u8>],
        mut refused: impl FnMut(FrameNotSent),
    ) -> Result<(), FramesError> {
        let mut at = 0;
        while at < frames.len() {
            let rest = frames[at..].iter().map(|f| (f.as_slice(), None));
            match self.ring.send(self.socket.as_fd(), rest) {
                Ok(n) => at += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    let why = self.why(e)?;
                    refused(why);
                    at += 1;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u8, header: u16, segment: u16, start: u16) -> Vec<u8> {
        let words = [header, segment, start, 6].map(u16::to_ne_bytes).concat();
        [vec![1, kind], words].concat()
    }

    #[test]
    fn notes_tell_trains_from_frames() {
        assert_eq!(train(&note(0, 0, 0, 34)), None);
        assert_eq!(train(&note(5, 42, 1472, 34)), Some(FrameCuts { header: 42, segment: 1472 }));
        assert_eq!(train(&note(5, 42, 0, 34)), None);
        assert_eq!(train(&[]), None);
    }

    #[test]
    fn a_tag_is_put_back_and_the_note_moves_with_it() {
        let mut frame = note(0, 0, 0, 34);
        frame.extend((0..14).collect::<Vec<u8>>());
        put_tag(&mut frame, (0x8100, 0x2005));
        assert_eq!(frame[NOTE + 10..], [10, 11, 0x81, 0, 0x20, 5, 12, 13]);
        assert_eq!(u16::from_ne_bytes([frame[6], frame[7]]), 38, "the checksum begins later");
        assert_eq!(frame[2..4], [0, 0], "no headers' length stays none");
        let mut short = vec![0; 5];
        put_tag(&mut short, (0x8100, 1));
        assert_eq!(short.len(), 5);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn an_interface_that_is_not_there_is_named() {
        let e = FrameReceiver::open("fc-no-such0", 1 << 20).unwrap_err().to_string();
        assert!(e.contains("fc-no-such0"), "{e}");
        let e = FrameSender::open("").unwrap_err();
        assert!(matches!(e, FramesError::Absent { .. }), "{e}");
    }
}
