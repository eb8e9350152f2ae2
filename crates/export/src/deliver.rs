//! Hands pieces of a backlog on to a peer over TCP, and finds it again when it is gone.
//!
//! The last piece before a break is sent again where the peer takes no harm from that. Refuses nothing.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use fullcount_core::ledger::Sheet;
use fullcount_io::sys;
use fullcount_log::{notice, warning};

use std::sync::mpsc::{self, Receiver, Sender};

use crate::backlog::{Backlog, Piece};
use crate::peer::Peer;
use crate::retry::{LONGEST, Retry};

/// Where its counters are in the sheet.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    /// Pieces handed on.
    pub sent: usize,
    /// Connections made.
    pub connections: usize,
    /// Connections that failed or broke.
    pub errors: usize,
}

/// What is counted and said of attempts to hand something on.
#[derive(Clone)]
pub struct Attempts {
    /// Name in what is said.
    pub name: &'static str,
    /// To whom, for people.
    pub to: String,
    /// Counters.
    pub sheet: Arc<Sheet>,
    /// Where in it.
    pub counts: Counts,
}

impl Attempts {
    /// Hands on what waits until the backlog is closed, or nobody is there at the end. `false`: that piece can never be sent; `lost`
    /// is its counter.
    pub fn each(
        &self,
        backlog: &Backlog,
        lost: usize,
        mut hand_on: impl FnMut(&Piece) -> io::Result<bool>,
    ) {
        let mut retry = Retry::default();
        while let Some(piece) = backlog.oldest(None) {
            match hand_on(&piece) {
                Ok(sent) => {
                    backlog.done(piece.0);
                    self.worked(&mut retry);
                    self.sheet.add(if sent { self.counts.sent } else { lost }, 1);
                }
                Err(e) if !self.failed(&mut retry, &e, backlog) => return,
                Err(_) => {}
            }
        }
    }

    /// Says that it works again, if it was said that it does not.
    fn worked(&self, retry: &mut Retry) {
        if retry.succeeded() {
            notice!("{} {}: connected again", self.name, self.to);
        }
    }

    /// Counts and says a failure, and waits for the next attempt; false: it is over, and nobody is there.
    fn failed(&self, retry: &mut Retry, e: &io::Error, backlog: &Backlog) -> bool {
        self.sheet.add(self.counts.errors, 1);
        let pause = retry.failed();
        if retry.is_news() {
            let (name, to, at_least) = (self.name, &self.to, LONGEST.as_secs());
            warning!(
                "{name} {to}: {e}; the run goes on, it is tried again, at least every {at_least} s"
            );
        }
        pause.is_zero() || !backlog.over_before(Instant::now() + pause)
    }
}

/// What is done for one peer over TCP.
#[derive(Clone)]
pub struct PeerDelivery {
    /// What is counted and said.
    pub attempts: Attempts,
    /// To whom.
    pub peer: Peer,
    /// The last piece before a break is sent again.
    pub again: bool,
}

impl PeerDelivery {
    /// Sends what waits until the backlog is closed, or nobody is there at the end. `sent` is told of each piece.
    pub fn run(&self, backlog: &Backlog, sent: impl Fn(&[u8])) {
        let (mut stream, mut last) = (None, None::<Piece>);
        // All pieces can be sent.
        let never = self.attempts.counts.sent;
        self.attempts.each(backlog, never, |piece| {
            match self.hand_on(&mut stream, &mut last, piece) {
                Ok(()) => {
                    sent(&piece.1);
                    last = Some(piece.clone()).filter(|_| self.again);
                    Ok(true)
                }
                Err(e) => {
                    stream = None;
                    Err(e)
                }
            }
        });
    }

    /// Sends one piece over a connection that is made if there is none.
    fn hand_on(
        &self,
        stream: &mut Option<TcpStream>,
        last: &mut Option<Piece>,
        piece: &Piece,
    ) -> io::Result<()> {
        if stream.as_mut().is_some_and(is_closed) {
            *stream = None;
        }
        let open = match stream {
            Some(open) => open,
            None => {
                let open = stream.insert(self.peer.connect()?);
                let Attempts { sheet, counts, .. } = &self.attempts;
                sheet.add(counts.connections, 1);
                if let Some((_, again)) = last.take() {
                    open.write_all(&again)?;
                }
                open
            }
        };
        open.write_all(&piece.1)
    }
}

/// True if the peer has hung up: what is written then would be lost without an error. Peers here never say anything.
fn is_closed(stream: &mut TcpStream) -> bool {
    let looked = stream.set_nonblocking(true).and_then(|()| stream.read(&mut [0; 64]));
    let back = stream.set_nonblocking(false);
    match looked {
        Ok(0) => true,
        Ok(_) => back.is_err(),
        Err(e) => e.kind() != io::ErrorKind::WouldBlock || back.is_err(),
    }
}

/// A thread of low priority; what it gives hangs up at its end.
///
/// # Errors
/// The system refuses a thread.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<Receiver<()>> {
    let (hang_up, ended) = mpsc::channel();
    let body = move || {
        let _hang_up: Sender<()> = hang_up;
        // Not fatal: it is as good with the usual priority.
        let _ = sys::be_nice();
        work();
    };
    std::thread::Builder::new().name(name.into()).spawn(body)?;
    Ok(ended)
}
