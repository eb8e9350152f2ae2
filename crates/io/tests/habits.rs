//! The habits of the Linux TCP receiver that the simplified TCP relies on. Each is checked against the real kernel, over a veth
//! pair; the tests make every segment of the sender themselves.
//!
//! A test's number is that of the habit: `h04` checks section 22, item 4. No test depends on the host's speed. An answer comes
//! "at once" if it comes before that to the next segment, and no answer comes if that one is the first. What comes later has a
//! least time; all else may take a minute. A test without root prints `skipped: reason`, and fails with CI=true.
//! Source: docs/formats/simplified-tcp.md sections 9.1 and 22. docs/stcp.md names the numbers that have no test.

use std::fs;
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use fullcount_testing::veth::{RECEIVER, Veth};
use socket2::SockRef;

use segment::{ACK, PSH, RST, SYN, Segment};
use wire::{PATIENCE, Wire};

mod acknowledging;
mod ending;
mod opening;
mod segment;
mod window;
mod wire;

const PORT: u16 = 5000;
/// Of our end, with packets of 9000 bytes.
const MSS: usize = 8960;
/// Options of a SYN: the MSS, and with it the window scale 0.
const WITH_MSS: [u8; 4] = [2, 4, 0x23, 0];
const WITH_SCALE: [u8; 8] = [2, 4, 0x23, 0, 1, 3, 3, 0];
/// The system's own default: least, usual and greatest receive buffer. The habits are of these.
const BUFFERS: &str = "4096 131072 33554432";
/// A try that the host's scheduler interrupted is repeated.
const TRIES: usize = 50;

/// A Linux that listens, and the wire to it.
struct Stage {
    wire: Wire,
    listener: TcpListener,
    veth: Veth,
}

impl Stage {
    /// `None` after saying why, without root; fails in CI.
    fn new() -> Option<Stage> {
        let veth = Veth::new(9000, 1)?;
        let listener = veth.receiving(|| {
            fs::write("/proc/sys/net/ipv4/tcp_rmem", BUFFERS).unwrap();
            TcpListener::bind((RECEIVER, PORT)).unwrap()
        });
        // For accept, and for each connection's read.
        SockRef::from(&listener).set_read_timeout(Some(PATIENCE)).unwrap();
        Some(Stage { wire: Wire::open(&veth), listener, veth })
    }

    /// A connection from `port` that is still to be opened.
    fn call(&self, port: u16) -> Call<'_> {
        let seq = (u32::from(port) << 24) + 0x0002_0304;
        Call { stage: self, port, seq, ack: 0, window: 65535, scale: 0 }
    }

    /// A connection from `port`, and the peer's end of it.
    fn connected(&self, port: u16) -> (Call<'_>, TcpStream) {
        let mut call = self.call(port);
        let peer = call.connect(&WITH_SCALE);
        (call, peer)
    }
}

/// The sender's end of one connection.
#[derive(Clone)]
struct Call<'s> {
    stage: &'s Stage,
    port: u16,
    /// Next number to send, next number from the peer, and the window field.
    seq: u32,
    ack: u32,
    window: u16,
    /// Of the peer's window fields.
    scale: u8,
}

impl Call<'_> {
    /// A segment with the numbers as they are.
    fn made(&self, flags: u8, payload: &[u8]) -> Segment {
        let ack = if flags & ACK != 0 { self.ack } else { 0 };
        Segment {
            from: self.port,
            to: PORT,
            seq: self.seq,
            ack,
            flags,
            window: self.window,
            options: vec![],
            payload: payload.to_vec(),
        }
    }

    fn send(&self, segment: &Segment) {
        self.stage.wire.send(segment);
    }

    fn send_syn(&self, options: &[u8]) {
        self.send(&Segment { options: options.to_vec(), ..self.made(SYN, &[]) });
    }

    fn send_ack(&self) {
        self.send(&self.made(ACK, &[]));
    }

    /// New data.
    fn send_data(&mut self, flags: u8, payload: &[u8]) {
        self.send(&self.made(flags | ACK, payload));
        self.seq = self.seq.wrapping_add(payload.len() as u32);
    }

    /// What Linux answered at once to all that was sent.
    fn drawn(&self) -> Vec<Segment> {
        let mut all = self.stage.wire.drawn();
        all.retain(|segment| segment.to == self.port);
        all
    }

    /// The one segment that Linux answered at once.
    fn one(&self) -> Segment {
        let mut all = self.drawn();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    /// The same of a segment that a timer repeats: on a slow host it may have done so by now.
    fn one_repeated(&self) -> Segment {
        let mut all = self.drawn();
        all.dedup();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    /// What Linux answered at once, without what a timer repeats.
    fn drawn_besides(&self, repeated: &Segment) -> Vec<Segment> {
        let mut all = self.drawn();
        all.retain(|segment| segment != repeated);
        all
    }

    /// The next segment within `limit`.
    fn next_within(&self, limit: Duration) -> Option<Segment> {
        let end = Instant::now() + limit;
        loop {
            let next = self.stage.wire.next(end.saturating_duration_since(Instant::now()))?;
            if next.to == self.port {
                return Some(next);
            }
        }
    }

    /// The next segment, whenever it comes.
    fn next(&self, what: &str) -> Segment {
        self.next_within(PATIENCE).unwrap_or_else(|| panic!("{what}: nothing comes"))
    }

    /// The next segment with the number that is expected: timers may repeat earlier ones.
    fn next_new(&self, what: &str) -> Segment {
        loop {
            let next = self.next(what);
            if next.seq == self.ack {
                return next;
            }
        }
    }

    /// Takes a SYN+ACK's numbers.
    fn take(&mut self, answer: &Segment) {
        assert_eq!(answer.flags, SYN | ACK, "{answer:?}");
        self.seq = self.seq.wrapping_add(1);
        assert_eq!(answer.ack, self.seq);
        self.ack = answer.seq.wrapping_add(1);
        let at = answer.options.windows(2).position(|two| two == [3, 3]);
        self.scale = at.map_or(0, |at| answer.options[at + 2]);
    }

    /// The handshake: the peer's end.
    fn connect(&mut self, options: &[u8]) -> TcpStream {
        self.send_syn(options);
        let answer = self.one_repeated();
        self.take(&answer);
        self.send_ack();
        assert_eq!(self.drawn_besides(&answer), []);
        self.accepted()
    }

    fn accepted(&self) -> TcpStream {
        let (peer, from) = self.stage.listener.accept().unwrap();
        assert_eq!(from.port(), self.port);
        peer
    }

    /// Whether a segment is an ACK without payload of all that was sent.
    fn is_ack(&self, segment: &Segment) -> bool {
        (segment.flags, segment.seq, segment.ack, segment.payload.len())
            == (ACK, self.ack, self.seq, 0)
    }

    fn assert_ack(&self, segment: &Segment) {
        assert!(self.is_ack(segment), "{segment:?} for seq {} ack {}", self.seq, self.ack);
    }

    /// The connection is there: a byte is acknowledged and read.
    fn assert_alive(&mut self, peer: &mut TcpStream) {
        self.send_data(PSH, b"!");
        let mut byte = [0];
        peer.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"!");
        self.assert_ack(&self.next("a byte that was read"));
    }

    /// The peer's program is told that the connection was reset.
    fn assert_reset(&self, peer: &mut TcpStream) {
        let said = peer.read(&mut [0]).map_err(|e| e.kind());
        assert_eq!(said, Err(ErrorKind::ConnectionReset), "port {}", self.port);
    }

    /// Ends it without a trace, whatever its state is, as long as nothing of it is on its way.
    fn abort(&self) {
        self.send(&self.made(RST | ACK, &[]));
    }
}

/// Limit of Linux on answers to empty segments outside the window (`tcp_invalid_ratelimit`), 10 % less for its clock.
const SELDOM: Duration = Duration::from_millis(450);

/// A segment that is answered with an ACK, and then not again before 500 ms are over.
fn assert_answered_seldom(call: &Call, segment: &Segment) {
    let begin = Instant::now();
    call.send(segment);
    call.assert_ack(&call.one());
    loop {
        call.send(segment);
        match &call.drawn()[..] {
            // A pause, unless something comes.
            [] => assert_eq!(call.next_within(Duration::from_millis(10)), None),
            [answer] => {
                call.assert_ack(answer);
                assert!(begin.elapsed() > SELDOM, "{:?}", begin.elapsed());
                return;
            }
            more => panic!("{more:?}"),
        }
        assert!(begin.elapsed() < PATIENCE, "it is never answered again");
    }
}
