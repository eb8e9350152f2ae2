//! Where a trial of the readout unit happens: on the host's loopback, or on a link of its own between two namespaces, where the simplified
//! TCP has an interface to send on.
//!
//! Refuses what [`LivePlace`] refuses.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use socket2::{Domain, Socket, Type};

use super::{SILENCE, STREAMS};
use crate::error::LabError;
use crate::namespace;
use crate::stcp::live::place::{LivePlace, limited};
use crate::stcp::live::sender::LiveSender;

/// Between two looks for a sender.
const NAP: Duration = Duration::from_millis(1);

/// The place.
#[derive(Debug)]
pub enum ReadoutSite {
    /// Linux sockets at both ends.
    Loopback,
    /// The sender at one end of a link, the reader at the other.
    Link(LivePlace),
}

impl ReadoutSite {
    /// Whether namespaces can be made, if this sender needs them.
    ///
    /// # Errors
    /// Not root, or no `ip`.
    pub fn allowed(sender: LiveSender) -> Result<(), LabError> {
        match (sender, namespace::lacking()) {
            (LiveSender::Simplified { .. }, Some(why)) => Err(anyhow::Error::from(why).into()),
            _ => Ok(()),
        }
    }

    /// Makes what this sender needs; `link`: a limit, bit/s.
    ///
    /// # Errors
    /// Not root, or the system's words.
    pub fn make(
        sender: LiveSender,
        mtu: usize,
        link: Option<u64>,
    ) -> Result<ReadoutSite, LabError> {
        Ok(match sender {
            LiveSender::Linux { .. } => ReadoutSite::Loopback,
            LiveSender::Simplified { .. } => {
                ReadoutSite::Link(LivePlace::make(sender.on_tap(), mtu, link.map(limited))?)
            }
        })
    }

    /// Address of the reader.
    pub fn reader(&self) -> Ipv4Addr {
        match self {
            ReadoutSite::Loopback => Ipv4Addr::LOCALHOST,
            ReadoutSite::Link(place) => place.peer(),
        }
    }

    /// Does `work` where the reader is; sockets opened there stay there.
    ///
    /// # Errors
    /// The namespace.
    pub fn beside_reader<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        match self {
            ReadoutSite::Loopback => Ok(work()),
            ReadoutSite::Link(place) => place.at_receiver(work),
        }
    }

    /// A command that runs `program` where the reader is.
    pub fn command(&self, program: &Path) -> Command {
        match self {
            ReadoutSite::Loopback => Command::new(program),
            ReadoutSite::Link(place) => place.receiver_command(program),
        }
    }

    /// Listens on a free port.
    ///
    /// # Errors
    /// The system's words.
    pub fn listen(&self) -> Result<TcpListener, LabError> {
        let made = self.beside_reader(|| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.bind(&SocketAddrV4::new(self.reader(), 0).into())?;
            // All streams may come at once.
            socket.listen(*STREAMS.end() as i32)?;
            Ok::<TcpListener, std::io::Error>(socket.into())
        })?;
        Ok(made.context("a port to listen on")?)
    }
}

/// The next connection, while `goes_on`; nobody comes for [`SILENCE`]: an error.
pub fn accept(listener: &TcpListener, goes_on: &dyn Fn() -> bool) -> Result<TcpStream, LabError> {
    listener.set_nonblocking(true).context("a listening socket")?;
    let begun = Instant::now();
    while goes_on() && begun.elapsed() < SILENCE {
        match listener.accept() {
            Ok((socket, _)) => return Ok(socket),
            Err(e) if e.kind() != ErrorKind::WouldBlock => {
                return Err(anyhow!("accepting a sender: {e}").into());
            }
            Err(_) => std::thread::sleep(NAP),
        }
    }
    Err(anyhow!("no sender connected within {} s", SILENCE.as_secs()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_waited_for_once_the_trial_is_to_end() {
        let listener = ReadoutSite::Loopback.listen().unwrap();
        let begun = Instant::now();
        assert!(accept(&listener, &|| false).is_err() && begun.elapsed() < SILENCE);
        let _sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(accept(&listener, &|| true).is_ok());
    }
}
