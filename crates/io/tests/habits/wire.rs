//! The wire to the Linux receiver of the tests of its habits: packet sockets on the sender's end of the veth pair.
//!
//! Answers the peer's ARP for an address that no kernel has. Needs root for network namespaces. Sources:
//! docs/formats/simplified-tcp.md sections 21.2 and 22; `packet(7)`.

use std::cell::{Cell, RefCell};
use std::io::{ErrorKind, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use fullcount_io::sys;
use fullcount_testing::veth::{NAME, Veth};
use socket2::Socket;

use super::segment::{ACK, Checksum, RST, SYN, Segment, arp, read_arp};

/// Bound on what should take a second: only a hang meets it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The kernel's note in front of each frame (`PACKET_VNET_HDR`); zeros: nothing is left to it.
const NOTE: [u8; 10] = [0; 10];
/// Receive buffer of the packet socket: what comes while the test does not look.
const ROOM: usize = 8 << 20;
/// Nobody listens on this port, and no test uses it.
const NOBODY: u16 = 1;

pub struct Wire {
    receiver: Socket,
    sender: Socket,
    peer: Cell<[u8; 6]>,
    buffer: RefCell<Vec<u8>>,
    marks: Cell<u32>,
}

/// Ties the test to one processor: then what it sends, and what Linux answers at once, keeps its order.
fn pin() {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let cores = available_parallelism().map_or(1, |n| n.get());
    let first = NEXT.fetch_add(1, Ordering::Relaxed) % cores;
    let tied = (first..1024).chain(0..first).any(|core| sys::pin_thread(core).is_ok());
    assert!(tied, "the test can be tied to no processor");
}

impl Wire {
    pub fn open(veth: &Veth) -> Wire {
        let open = || (sys::frame_receiver(NAME).unwrap(), sys::frame_sender(NAME, false).unwrap());
        let (receiver, sender) = veth.sending(open);
        receiver.set_recv_buffer_size(ROOM).unwrap();
        pin();
        let buffer = RefCell::new(vec![0; 1 << 17]);
        let wire =
            Wire { receiver, sender, peer: Cell::default(), buffer, marks: Cell::new(1 << 20) };
        let end = Instant::now() + PATIENCE;
        while wire.peer.get() == [0; 6] {
            assert!(Instant::now() < end, "the peer answers no ARP");
            wire.transmit(&NOTE, &arp(1, [0; 6]));
            wire.look(Duration::from_millis(200));
        }
        wire
    }

    fn transmit(&self, note: &[u8; 10], frame: &[u8]) {
        let noted = [&note[..], frame].concat();
        assert_eq!(self.sender.send(&noted).unwrap(), noted.len());
    }

    pub fn send(&self, segment: &Segment) {
        self.transmit(&NOTE, &segment.frame(self.peer.get(), Checksum::Right));
    }

    pub fn send_spoilt(&self, segment: &Segment) {
        self.transmit(&NOTE, &segment.frame(self.peer.get(), Checksum::Wrong));
    }

    /// Several segments of `size` bytes as one unit, which a card would cut. A veth pair hands it over whole.
    pub fn send_unit(&self, segment: &Segment, size: u16) {
        let [low, high] = size.to_le_bytes();
        // The checksum is to be completed, TCP over IPv4, headers of 54 bytes; where the sum begins, and its place.
        let note = [1, 1, 54, 0, low, high, 34, 0, 16, 0];
        self.transmit(&note, &segment.frame(self.peer.get(), Checksum::Left));
    }

    /// The next segment that comes within `limit`, or earlier nothing if it was ARP that came.
    fn look(&self, limit: Duration) -> Option<Segment> {
        self.receiver.set_read_timeout(Some(limit.max(Duration::from_micros(1)))).unwrap();
        let mut buffer = self.buffer.borrow_mut();
        let n = match (&self.receiver).read(&mut buffer) {
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return None,
            Err(e) if e.kind() == ErrorKind::Interrupted => return None,
            Err(e) => panic!("{e}"),
        };
        let frame = buffer.get(NOTE.len()..n)?;
        if let Some((operation, peer)) = read_arp(frame) {
            self.peer.set(peer);
            if operation == 1 {
                self.transmit(&NOTE, &arp(2, peer));
            }
        }
        Segment::read(frame)
    }

    /// The next segment for our address that comes within `limit`.
    pub fn next(&self, limit: Duration) -> Option<Segment> {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.look(left) {
                None if left.is_zero() => return None,
                None => {}
                segment => return segment,
            }
        }
    }

    /// Waits until Linux has handled all that was sent, and gives what it answered at once. A SYN to a port without
    /// listener marks the end: its answer comes after all others. That answer is habit 11.
    pub fn drawn(&self) -> Vec<Segment> {
        let mark = self.marks.get();
        self.marks.set(mark.wrapping_add(1 << 20));
        let syn = Segment {
            from: NOBODY,
            to: NOBODY,
            seq: mark,
            ack: 0,
            flags: SYN,
            window: 1000,
            options: vec![],
            payload: vec![],
        };
        self.send(&syn);
        let mut before = vec![];
        loop {
            let next = self.next(PATIENCE).expect("a SYN to a port without listener has no answer");
            if next.to != NOBODY {
                before.push(next);
                continue;
            }
            let end = (next.flags, next.seq, next.ack, next.payload.len());
            assert_eq!(end, (RST | ACK, 0, mark.wrapping_add(1), 0));
            return before;
        }
    }
}
