//! The receiver: plain Linux sockets, one thread for each connection, large reads; it counts, and compares if it is told to.

use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::pattern;

/// Bytes of a read.
const READ: usize = 256 << 10;
/// A silent sender never ends a connection: nothing is waited for longer.
const SILENCE: Duration = Duration::from_secs(30);
/// How long the sleep of a slow reader is.
const NAP: Duration = Duration::from_millis(2);

/// What a reader does.
#[derive(Debug, Clone, Copy, Default)]
pub struct SinkReading {
    /// Every byte is compared with the pattern.
    pub compare: bool,
    /// Bits a second at most.
    pub limit: Option<u64>,
}

/// What the readers found.
#[derive(Debug, Default)]
pub struct SinkTally {
    /// Bytes read by all.
    pub bytes: AtomicU64,
    /// First wrong byte, or how a connection ended that should not have.
    pub wrong: Mutex<Vec<String>>,
    stop: AtomicBool,
}

/// Readers that are running.
#[derive(Debug)]
pub struct TcpSink {
    tally: Arc<SinkTally>,
    accepting: JoinHandle<Vec<JoinHandle<u64>>>,
}

impl TcpSink {
    /// Takes `streams` connections.
    pub fn start(listener: TcpListener, streams: usize, reading: SinkReading) -> TcpSink {
        let tally = Arc::new(SinkTally::default());
        let shared = tally.clone();
        let accepting = std::thread::spawn(move || {
            let mut readers = vec![];
            let _ = listener.set_nonblocking(true);
            while readers.len() < streams && !shared.stop.load(Relaxed) {
                match listener.accept() {
                    Ok((stream, from)) => {
                        let (shared, salt) = (shared.clone(), u64::from(from.port()));
                        readers
                            .push(std::thread::spawn(move || read(stream, &shared, salt, reading)));
                    }
                    Err(e) if e.kind() == ErrorKind::WouldBlock => std::thread::sleep(NAP),
                    Err(e) => {
                        shared.note(format!("accept: {e}"));
                        break;
                    }
                }
            }
            readers
        });
        TcpSink { tally, accepting }
    }

    /// What was found so far.
    pub fn tally(&self) -> &SinkTally {
        &self.tally
    }

    /// Waits until the connections have ended; bytes of each.
    pub fn finish(self) -> (Vec<u64>, Vec<String>) {
        self.tally.stop.store(true, Relaxed);
        let readers = self.accepting.join().unwrap_or_default();
        let bytes = readers.into_iter().map(|r| r.join().unwrap_or(0)).collect();
        let wrong = self.tally.wrong.lock().map(|w| w.clone()).unwrap_or_default();
        (bytes, wrong)
    }
}

impl SinkTally {
    fn note(&self, what: String) {
        if let Ok(mut wrong) = self.wrong.lock()
            && wrong.len() < 16
        {
            wrong.push(what);
        }
    }

    /// Nothing was wrong so far.
    pub fn clean(&self) -> bool {
        self.wrong.lock().is_ok_and(|w| w.is_empty())
    }
}

fn read(mut stream: TcpStream, tally: &SinkTally, salt: u64, reading: SinkReading) -> u64 {
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_read_timeout(Some(SILENCE));
    let (mut buffer, mut at, begun) = (vec![0; READ], 0u64, Instant::now());
    loop {
        if let Some(limit) = reading.limit {
            while at as f64 * 8.0 > begun.elapsed().as_secs_f64() * limit as f64 {
                std::thread::sleep(NAP);
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) => return at,
            Ok(n) => {
                if reading.compare
                    && let Some(place) = pattern::wrong(&buffer[..n], at, salt)
                {
                    tally.note(format!("stream {salt}: byte {place} is wrong"));
                    return at;
                }
                at += n as u64;
                tally.bytes.fetch_add(n as u64, Relaxed);
            }
            // An abort is how a sender ends.
            Err(e) if e.kind() == ErrorKind::ConnectionReset => return at,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => {
                tally.note(format!("stream {salt}: {e} after {at} bytes"));
                return at;
            }
        }
    }
}
