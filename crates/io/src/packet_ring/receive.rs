//! The ring of copies: opened with its filter and a socket that discards the originals, and read frame by frame.
//!
//! Trains that the kernel has joined (GRO) or not segmented (a sender on this host) come with their stride and stay
//! trains. Fails with [`InterfaceError`], whose message names the endpoint and what to do.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use fullcount_core::batch::Batch;
use fullcount_core::ledger::{Info, Sheet};
use socket2::{Domain, Socket, Type};

use super::{PacketSource, Ring, filter};
use crate::endpoint::PacketUrl;
use crate::interface::InterfaceError;
use crate::interface::intake::{Frame, Intake};
use crate::interface::open::Opening;
use crate::interface::source::{Frames, Lines, Opened, Waiting};
use crate::quantity::size_text;
use crate::sys;
use crate::sys::interface::{self, Waiter, attach_classic_filter};
use crate::sys::packet_ring::PacketRing;

/// Bytes of a block: holds the longest train (64 KiB), and a quarter of a second-level cache.
const BLOCK: usize = 256 << 10;
/// Fewest blocks: one is being filled, one read, two wait.
const BLOCKS_MIN: u64 = 4;
/// What the system asks for.
const NEEDS: &str = "packet:// needs root or CAP_NET_RAW: setcap cap_net_raw+ep on the program";

/// An interface's copies.
pub struct Copies {
    ring: PacketRing,
    /// Takes the originals, so that the kernel does not answer "port unreachable".
    _swallow: Option<Socket>,
    /// Number of the interface.
    index: u32,
}

/// A socket on the port that accepts every datagram and keeps none; an error if it cannot be opened.
fn swallow(port: u16) -> io::Result<Socket> {
    let at = |address: SocketAddr| -> io::Result<Socket> {
        let s = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
        if address.is_ipv6() {
            s.set_only_v6(false)?;
        }
        attach_classic_filter(s.as_fd(), &[(0x06, 0, 0, 0)])?;
        // Trains are dropped whole instead of being cut first.
        let _ = sys::set_gro(s.as_fd(), true);
        s.bind(&address.into())?;
        Ok(s)
    };
    match at(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))) {
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => Err(e),
        Ok(s) => Ok(s),
        // A host without IPv6.
        Err(_) => at(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))),
    }
}

impl PacketSource {
    /// Opens the ring. `buffer`: its bytes, unless the URL sets them; `timestamps`: pass on the kernel's receive time
    /// of each packet (then every datagram is a train of its own).
    ///
    /// # Errors
    /// [`InterfaceError`] with the endpoint and what to do.
    pub fn open(
        url: &PacketUrl,
        buffer: u64,
        timestamps: bool,
    ) -> Result<PacketSource, InterfaceError> {
        let opening = Opening {
            endpoint: url.to_string(),
            interface: &url.interface,
            port: url.port,
            address: url.address,
            needs: NEEDS,
        };
        let about = opening.look()?;
        opening.check_up(&about)?;
        let asked = url.receive_buffer.unwrap_or(buffer);
        let blocks = (asked / BLOCK as u64).max(BLOCKS_MIN);
        let program = filter::program(url.port, url.address);
        let ring = PacketRing::open(
            about.index,
            BLOCK,
            blocks as usize,
            url.own.block_timeout_ms,
            &program,
        )
        .map_err(|(what, cause)| opening.system(what, cause))?;
        let member = opening.join(about.index)?;
        let (swallow, fate) = match swallow(url.port) {
            Ok(socket) => (Some(socket), "the kernel's own copies: dropped at the port".to_owned()),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                let port = url.port;
                (None, format!("another program has port {port} and gets every datagram as well"))
            }
            Err(e) => {
                let note = "the kernel may answer 'port unreachable' to the sender";
                (None, format!("the port cannot be held: {e}; {note}"))
            }
        };
        let facts = vec![
            opening.place(),
            format!(
                "engine packet: AF_PACKET ring of {blocks} blocks of {}, handed over after {} ms",
                size_text(BLOCK as u64),
                url.own.block_timeout_ms
            ),
            format!(
                "receive buffer: asked {}, got {}",
                size_text(asked),
                size_text(blocks * BLOCK as u64)
            ),
            fate,
        ];
        let opened = Opened {
            endpoint: opening.endpoint,
            frames: Copies { ring, _swallow: swallow, index: about.index },
            member,
            address: url.address,
            intake: Intake {
                port: url.port,
                verify: url.verify,
                longest: usize::MAX,
                timestamps,
                destinations: false,
                most: usize::from(url.batch),
            },
            waiting: Waiting { spin: url.spin, ..Waiting::default() },
            facts,
        };
        let spinning = if url.spin { "polling without sleep" } else { "" };
        Ok(PacketSource::new(opened, "from the kernel", spinning))
    }
}

impl Frames for Copies {
    const OWN_LINES: Lines = Ring::OWN_LINES;

    fn catalogue() -> Vec<Info> {
        Ring::catalogue()
    }

    fn waiter(&self) -> Waiter {
        Waiter::new([&self.ring])
    }

    fn gather(&mut self, intake: &Intake, batch: &mut Batch, sheet: &Sheet) -> u64 {
        let mut taking = intake.begin(batch, !intake.timestamps);
        while taking.goes_on() && self.ring.look() {
            // A block that makes no sense is skipped, and shows as a gap.
            if let Some(packet) = self.ring.packet() {
                let frame = Frame {
                    head: packet.frame,
                    len: packet.len,
                    held: packet.frame.len(),
                    stride: packet.stride,
                    partial: packet.partial,
                    time_ns: if intake.timestamps { packet.time_ns } else { 0 },
                };
                let copy = |start: usize, to: &mut [u8]| {
                    to.copy_from_slice(&packet.frame[start..start + to.len()]);
                };
                if !taking.take(&frame, copy) {
                    break;
                }
            }
            self.ring.advance();
        }
        let seen = taking.seen;
        taking.end(sheet, &Self::OWN_LINES.frames);
        seen
    }

    fn sample(&mut self, sheet: &Sheet) {
        if let Ok(s) = self.ring.statistics() {
            sheet.add(Ring::KernelDrops as usize, s.drops);
            sheet.add(Ring::Freezes as usize, s.freezes);
        }
    }

    fn has_gone(&self) -> bool {
        interface::has_gone(self.ring.as_fd(), self.index)
    }
}
