//! Accepts a bounded number of connections and closes silent ones.
//!
//! Refuses nothing: a connection beyond the bound waits in the kernel's queue until another closes.
//! Source: `docs/architecture.md` (viewers never harm acquisition).

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// A browser opens 6 connections: 40 viewers, of the 1024 file descriptors that a process has.
const MOST_CONNECTIONS: usize = 256;

/// Browsers keep an idle connection for 60 s or less.
const IDLE: Duration = Duration::from_secs(75);

/// A listener with a bound on open connections.
pub struct Bounded {
    listener: TcpListener,
    free: Arc<Semaphore>,
}

impl Bounded {
    /// Takes a non-blocking listener; must be called inside a runtime.
    pub fn new(listener: std::net::TcpListener) -> io::Result<Bounded> {
        let listener = TcpListener::from_std(listener)?;
        Ok(Bounded { listener, free: Arc::new(Semaphore::new(MOST_CONNECTIONS)) })
    }
}

impl axum::serve::Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let Ok(permit) = self.free.clone().acquire_owned().await else {
                // The semaphore is never closed; waiting for ever is the honest answer if it were.
                std::future::pending::<()>().await;
                continue;
            };
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    // Small answers should not wait for the peer's acknowledgement.
                    let _unsupported = stream.set_nodelay(true);
                    let idle = Box::pin(tokio::time::sleep(IDLE));
                    return (Connection { stream, idle, _permit: permit }, peer);
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
pub struct Connection {
    stream: TcpStream,
    idle: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    /// Passes on what the stream said; silence beyond [`IDLE`] is an error.
    fn watch<T>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.idle.as_mut().reset(Instant::now() + IDLE);
            return poll;
        }
        match self.idle.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.watch(cx, poll)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch(cx, poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
