//! Accepts a bounded number of connections, ends slow ones, and bounds the answers in flight. [`slots`](super::slots)
//! decides which one is ended for a new one, [`pace`](super::pace) how long each step may take. Refuses answers beyond
//! [`MOST_ANSWERS`] bytes at a time, see [`Answers`]. Source: `docs/page.md`, "Who may ask".

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

use super::pace::Step;
use super::slots::{MOST, Slot, SlotTable};

/// Bytes of answers that wait for slow readers at a time: 8 of the largest usual pictures.
const MOST_ANSWERS: usize = 64 << 20;

/// A listener with a bound on open connections.
pub struct Bounded {
    listener: TcpListener,
    table: SlotTable,
    free: Arc<Semaphore>,
    /// Zero of the clock of steps.
    start: Instant,
}

impl Bounded {
    /// Takes a non-blocking listener; must be called inside a runtime.
    pub fn new(listener: std::net::TcpListener) -> io::Result<Bounded> {
        let listener = TcpListener::from_std(listener)?;
        let free = Arc::new(Semaphore::new(MOST));
        Ok(Bounded { listener, table: SlotTable::default(), free, start: Instant::now() })
    }
}

impl axum::serve::Listener for Bounded {
    type Io = ViewerConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (ViewerConnection, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    // Small answers should not wait for the peer's acknowledgement.
                    let _unsupported = stream.set_nodelay(true);
                    let slot = self.table.enter(peer.ip(), self.start.elapsed());
                    // The one that makes room frees its descriptor when its task runs, which is next.
                    let Ok(permit) = self.free.clone().acquire_owned().await else {
                        // The semaphore is never closed; waiting for ever is the honest answer if it were.
                        std::future::pending::<()>().await;
                        continue;
                    };
                    let start = self.start;
                    let alarm = Box::pin(tokio::time::sleep(super::pace::REQUEST));
                    return (
                        ViewerConnection { stream, slot, alarm, start, _permit: permit },
                        peer,
                    );
                }
                // Out of descriptors, or the peer gave up: try again, without spinning.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One viewer's connection.
pub struct ViewerConnection {
    stream: TcpStream,
    slot: Slot,
    alarm: Pin<Box<Sleep>>,
    start: Instant,
    _permit: OwnedSemaphorePermit,
}

impl ViewerConnection {
    /// Records the progress of the stream, and ends the connection when its time is over or its place is needed.
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: Poll<io::Result<T>>,
        note: impl FnOnce(&T, &mut Step, Duration) -> bool,
    ) -> Poll<io::Result<T>> {
        let now = self.start.elapsed();
        let mut allowed = true;
        let step = self.slot.with(cx.waker(), |step| {
            if let Poll::Ready(Ok(value)) = &poll {
                allowed = note(value, step, now);
            }
        });
        let Some(step) = step else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        };
        if !allowed || now >= step.until() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        if poll.is_ready() {
            return poll;
        }
        let until = self.start + step.until();
        if self.alarm.deadline() != until {
            self.alarm.as_mut().reset(until);
        }
        match self.alarm.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for ViewerConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let poll = Pin::new(&mut self.stream).poll_read(cx, buf);
        let came = (buf.filled().len() - before) as u64;
        self.watch(cx, poll, |(), step, now| step.read(came, now))
    }
}

fn took(n: &usize, step: &mut Step, now: Duration) -> bool {
    step.wrote(*n as u64, now);
    true
}

impl AsyncWrite for ViewerConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch(cx, poll, took)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watch(cx, poll, took)
    }

    /// Without it, every answer would be copied, and the copy would escape [`Answers`].
    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(cx, poll, |(), step, now| {
            step.flushed(now);
            true
        })
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Bounds the memory of answers that are made and not yet taken: viewers who ask for pictures and do not read them
/// would otherwise fill it.
#[derive(Debug, Clone)]
pub struct Answers(Arc<Semaphore>);

/// An answer with its share of the bound.
struct Held {
    body: Vec<u8>,
    _share: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Answers {
    /// Nothing in flight.
    pub fn new() -> Answers {
        Answers(Arc::new(Semaphore::new(MOST_ANSWERS)))
    }

    /// The answer, counted until it is sent; `None` if too much is in flight. One that is larger than the bound is sent
    /// alone.
    pub fn hold(&self, body: Vec<u8>) -> Option<Bytes> {
        let share = body.len().min(MOST_ANSWERS) as u32;
        let share = self.0.clone().try_acquire_many_owned(share).ok()?;
        Some(Bytes::from_owner(Held { body, _share: share }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_under_way_are_bounded_in_bytes() {
        let answers = Answers::new();
        let half = || vec![0; MOST_ANSWERS / 2];
        let (first, second) = (answers.hold(half()).unwrap(), answers.hold(half()).unwrap());
        assert!(answers.hold(vec![0]).is_none(), "full");
        assert!(answers.hold(Vec::new()).is_some(), "an empty one needs nothing");
        drop((first, second));
        assert!(answers.hold(vec![0; MOST_ANSWERS + 1]).is_some(), "a huge one alone");
    }
}
