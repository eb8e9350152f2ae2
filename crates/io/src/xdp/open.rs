//! Opening an AF_XDP source: interface, sockets, program, binding – in an order in which nothing is
//! half done where a step fails, and nothing is taken from the kernel before a socket can take it.
//!
//! Native mode is tried first, then generic; what each answered is kept for the error sentence.
//! Refuses: see [`XdpError`].

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use socket2::Socket;

use super::XdpError;
use super::assemble::assemble;
use super::filter::{Filter, TALLIES, program};
use super::rings::{self, Queue, QueueOptions, Segments, ZeroCopy};
use crate::endpoint::{XdpMode as Asked, XdpUrl};
use crate::quantity::size_text;
use crate::sys::bpf::{self, XdpMode};
use crate::sys::interface::{self, Interface};

/// Bytes of a chunk that the kernel keeps for itself in front of the frame.
const HEADROOM: usize = 256;
/// Ethernet header and two VLAN tags.
pub(super) const LINK_HEADERS: usize = 14 + 8;
/// Fewest chunks: one batch of the driver (64 frames) must fit.
const CHUNKS_MIN: u64 = 64;

/// A program's tie to its interface; dropping it removes the program.
pub(super) struct Link(OwnedFd);

impl Drop for Link {
    fn drop(&mut self) {
        // Older kernels do it when the descriptor is closed, right after this.
        let _ = bpf::detach(&self.0);
    }
}

/// An opened source, in parts.
pub(super) struct Parts {
    pub link: Link,
    pub queues: Vec<Queue>,
    pub tallies: OwnedFd,
    /// Holds the membership of a group.
    pub member: Option<Socket>,
    pub mode: XdpMode,
    pub interface: Interface,
    pub facts: Vec<String>,
}

/// What an answer of the system means, whatever was being done.
fn system(url: &XdpUrl, what: &'static str, cause: io::Error) -> XdpError {
    let endpoint = url.to_string();
    match cause.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => XdpError::NotAllowed { endpoint, what },
        Some(libc::EAFNOSUPPORT | libc::ENOSYS) => XdpError::Unsupported { endpoint, cause },
        _ => XdpError::System { endpoint, what, cause },
    }
}

pub(super) fn open(url: &XdpUrl, buffer: u64) -> Result<Parts, XdpError> {
    let endpoint = url.to_string();
    let name = url.interface.clone();
    let about = interface::interface(&name).map_err(|e| match e.raw_os_error() {
        Some(libc::ENODEV) => {
            XdpError::NoInterface { endpoint: endpoint.clone(), interface: name.clone() }
        }
        _ => system(url, "look at the interface", e),
    })?;
    if about.loopback {
        return Err(XdpError::Loopback { endpoint, interface: name });
    }
    if !about.up {
        return Err(XdpError::Down { endpoint, interface: name });
    }
    let count = about.queues.unwrap_or(1).max(1);
    let numbers: Vec<u32> = match url.queue {
        Some(queue) if queue >= count => {
            return Err(XdpError::NoQueue { endpoint, queue, interface: name, last: count - 1 });
        }
        Some(queue) => vec![queue],
        None => (0..count).collect(),
    };
    // Frames that fit a chunk need no pieces, and small chunks keep small frames close together.
    let frame = about.mtu + LINK_HEADERS;
    let chunk = if frame + HEADROOM <= 2048 { 2048 } else { 4096 };
    let segments = frame + HEADROOM > chunk;
    let chunks = (buffer / chunk as u64).max(CHUNKS_MIN);
    let chunks = 1u32 << chunks.ilog2().min(20);

    let sockets = numbers.iter().map(|_| rings::socket()).collect::<io::Result<Vec<_>>>();
    let sockets = sockets.map_err(|e| system(url, "open an AF_XDP socket", e))?;
    let member = join(url, about.index)?;
    let map = bpf::create_socket_map(numbers.last().map_or(1, |n| n + 1))
        .map_err(|e| system(url, "make a map of sockets", e))?;
    let tallies =
        bpf::create_tallies(TALLIES).map_err(|e| system(url, "make a map of counters", e))?;
    let filter = Filter { port: url.port, address: url.address };
    let words = assemble(&program(&filter, map.as_raw_fd(), tallies.as_raw_fd()))
        .map_err(|e| system(url, "assemble the filter", io::Error::other(e)))?;
    // The filter looks at headers only, so it can take frames in pieces; kernels before 5.18 do not
    // know that there are such programs.
    let loaded = bpf::load_xdp(&words, true).or_else(|e| match segments {
        true => Err(e),
        false => bpf::load_xdp(&words, false),
    });
    let loaded = loaded.map_err(|e| match e.cause.raw_os_error() {
        Some(libc::EPERM) => system(url, "load the packet filter", e.cause),
        _ => XdpError::Refused { endpoint: endpoint.clone(), cause: e.cause, log: e.log },
    })?;
    let (link, mode, notes) = attach(url, &loaded, about.index)?;

    let wanted = match (segments, mode) {
        (true, _) => Segments::Always,
        // Trains that come uncut are longer than any frame should be: to count them, not to lose them.
        (false, XdpMode::Generic) => Segments::IfPossible,
        (false, XdpMode::Native) => Segments::Never,
    };
    let mut queues = Vec::with_capacity(numbers.len());
    for (socket, &queue) in sockets.into_iter().zip(&numbers) {
        let zero_copy = match (mode, url.zero_copy) {
            (_, Some(true)) => ZeroCopy::Always,
            // Frames come from the stack, not from the driver.
            (XdpMode::Generic, _) | (_, Some(false)) => ZeroCopy::Never,
            (XdpMode::Native, None) => ZeroCopy::Auto,
        };
        let interface = about.index;
        let options = QueueOptions { interface, queue, chunk, chunks, zero_copy, segments: wanted };
        let opened = Queue::open(socket, options).map_err(|(what, cause)| {
            let endpoint = endpoint.clone();
            match cause.raw_os_error() {
                Some(libc::EBUSY) => XdpError::QueueTaken { endpoint, queue },
                Some(libc::ENOBUFS | libc::ENOMEM) => {
                    let size = size_text(chunk as u64 * u64::from(chunks));
                    XdpError::Memory { endpoint, size, cause }
                }
                Some(libc::EOPNOTSUPP | libc::EINVAL) if url.zero_copy == Some(true) => {
                    XdpError::NoZeroCopy { endpoint, cause }
                }
                Some(libc::EOPNOTSUPP | libc::EINVAL) if segments => {
                    XdpError::Mtu { endpoint, interface: name.clone(), mtu: about.mtu, cause }
                }
                _ => system(url, what, cause),
            }
        })?;
        if url.busy_poll {
            crate::sys::interface::prefer_busy_poll(
                std::os::fd::AsFd::as_fd(&opened),
                BUSY_POLL_MICROS,
                BUSY_POLL_BUDGET,
            )
            .map_err(|e| system(url, "ask for busy polling (Linux 5.11)", e))?;
        }
        bpf::set_socket(&map, queue, &opened)
            .map_err(|e| system(url, "give the filter its socket", e))?;
        queues.push(opened);
    }
    let zero_copy = queues.iter().filter(|q| q.zero_copy()).count();
    let copies = match zero_copy {
        0 => "copied by the kernel".to_owned(),
        n if n == queues.len() => "zero copy".to_owned(),
        n => format!("zero copy on {n} of {} queues", queues.len()),
    };
    let place = url.address.map_or("any address".to_owned(), |a| a.to_string());
    let driver = about.driver.as_deref().unwrap_or("unknown driver");
    let mut facts = vec![
        format!("listening on {name} for UDP port {}, {place}", url.port),
        format!(
            "engine xdp: {} mode, {copies}, {} ({driver})",
            mode.name(),
            match (url.queue, queues.len()) {
                (Some(queue), _) => format!("receive queue {queue} of {count}"),
                (None, 1) => "1 receive queue".to_owned(),
                (None, n) => format!("{n} receive queues"),
            }
        ),
        format!(
            "packet memory: asked {}, got {} a queue, {chunks} chunks of {}{}",
            size_text(buffer),
            size_text(chunk as u64 * u64::from(chunks)),
            size_text(chunk as u64),
            if segments {
                format!(", frames of MTU {} in several", about.mtu)
            } else {
                String::new()
            }
        ),
    ];
    facts.extend(notes);
    if mode == XdpMode::Generic {
        facts.push(
            "generic mode: trains from a sender on this host come uncut; switch them off there: \
             ethtool -K PEER tx-udp-segmentation off"
                .into(),
        );
    }
    Ok(Parts { link, queues, tallies, member, mode, interface: about, facts })
}

/// One busy poll lasts this long at most and takes so many frames: the kernel's documented values.
const BUSY_POLL_MICROS: u32 = 20;
const BUSY_POLL_BUDGET: u32 = 64;

fn attach(
    url: &XdpUrl,
    program: &OwnedFd,
    index: u32,
) -> Result<(Link, XdpMode, Vec<String>), XdpError> {
    let (endpoint, interface) = (url.to_string(), url.interface.clone());
    let modes: &[XdpMode] = match url.mode {
        Asked::Auto => &[XdpMode::Native, XdpMode::Generic],
        Asked::Native => &[XdpMode::Native],
        Asked::Generic => &[XdpMode::Generic],
    };
    let mut tried = Vec::new();
    for &mode in modes {
        match bpf::attach_xdp(program, index, mode) {
            Ok(link) => return Ok((Link(link), mode, tried)),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) => {
                return Err(XdpError::Taken { endpoint, interface });
            }
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => {
                return Err(system(url, "attach the packet filter", e));
            }
            Err(e) => tried.push(format!("{} mode: {e}", mode.name())),
        }
    }
    Err(XdpError::NoProgram { endpoint, interface, tried: tried.join("; ") })
}

/// Joins the group, so that switches and the card let it through; the socket itself receives nothing.
fn join(url: &XdpUrl, index: u32) -> Result<Option<Socket>, XdpError> {
    let Some(group) = url.address.filter(IpAddr::is_multicast) else { return Ok(None) };
    crate::dissect::member(group, index).map(Some).map_err(|cause| XdpError::Join {
        endpoint: url.to_string(),
        group,
        cause,
    })
}
