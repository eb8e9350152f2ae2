//! Opening an AF_XDP source: interface, sockets, program, binding – in an order in which a failing step leaves nothing
//! half done, and no packet is taken from the kernel before a socket can receive it.
//!
//! Native mode is tried first, then generic; the answer of each is kept for the error message.
//! Refuses: see [`XdpError`].

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use socket2::Socket;

use super::XdpError;
use super::assemble::assemble;
use super::filter::{Filter, TALLIES, program};
use super::rings::{self, Queue, QueueOptions, Segments, ZeroCopy};
use crate::endpoint::{XdpMode as Asked, XdpUrl};
use crate::interface::open::Opening;
use crate::quantity::size_text;
use crate::sys::bpf::{self, XdpAttachMode};
use crate::sys::interface::{self, SystemInterface};

/// Bytes of a chunk that the kernel keeps for itself in front of the frame.
const HEADROOM: usize = 256;
/// Ethernet header and two VLAN tags.
pub(super) const LINK_HEADERS: usize = 14 + 8;
/// Fewest chunks: one batch of the driver (64 frames) must fit.
const CHUNKS_MIN: u64 = 64;

/// What the system asks for.
const NEEDS: &str = "xdp:// needs root, or CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF: setcap \
    cap_net_raw,cap_net_admin,cap_bpf+ep on the program";

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
    pub mode: XdpAttachMode,
    pub interface: SystemInterface,
    pub facts: Vec<String>,
}

/// How frames are placed in packet memory.
struct Memory {
    /// Bytes of a chunk, and chunks a queue.
    chunk: usize,
    chunks: u32,
    /// Frames need several chunks.
    segments: bool,
}

impl Memory {
    fn of(buffer: u64, mtu: usize) -> Memory {
        // Frames that fit a chunk need no pieces, and small chunks keep small frames close together.
        let frame = mtu + LINK_HEADERS + HEADROOM;
        let chunk = if frame <= 2048 { 2048 } else { 4096 };
        let chunks = (buffer / chunk as u64).max(CHUNKS_MIN);
        Memory { chunk, chunks: 1 << chunks.ilog2().min(20), segments: frame > chunk }
    }

    fn bytes(&self) -> u64 {
        self.chunk as u64 * u64::from(self.chunks)
    }
}

/// What an answer of the system means, whatever was being done.
fn system(opening: &Opening<'_>, what: &'static str, cause: io::Error) -> XdpError {
    match cause.raw_os_error() {
        Some(libc::EAFNOSUPPORT | libc::ENOSYS) => {
            XdpError::Unsupported { endpoint: opening.endpoint.clone(), cause }
        }
        _ => opening.system(what, cause).into(),
    }
}

pub(super) fn open(url: &XdpUrl, buffer: u64) -> Result<Parts, XdpError> {
    let opening = Opening {
        endpoint: url.to_string(),
        interface: &url.interface,
        port: url.port,
        address: url.address,
        needs: NEEDS,
    };
    let failed = |what| {
        let opening = &opening;
        move |e| system(opening, what, e)
    };
    let about = opening.look()?;
    if about.loopback {
        let (endpoint, interface) = (opening.endpoint.clone(), url.interface.clone());
        return Err(XdpError::Loopback { endpoint, interface });
    }
    opening.check_up(&about)?;
    let count = about.queues.unwrap_or(1).max(1);
    let numbers = queue_numbers(url, count)?;
    let memory = Memory::of(buffer, about.mtu);

    let sockets = numbers.iter().map(|_| rings::socket()).collect::<io::Result<Vec<_>>>();
    let sockets = sockets.map_err(failed("open an AF_XDP socket"))?;
    let member = opening.join(about.index)?;
    let map = bpf::create_socket_map(numbers.last().map_or(1, |n| n + 1))
        .map_err(failed("make a map of sockets"))?;
    let tallies = bpf::create_tallies(TALLIES).map_err(failed("make a map of counters"))?;
    let loaded = load(url, &opening, (&map, &tallies), memory.segments)?;
    let (link, mode, notes) = attach(url, &opening, &loaded, about.index)?;

    let mut queues = Vec::with_capacity(numbers.len());
    for (socket, &queue) in sockets.into_iter().zip(&numbers) {
        let opened = open_queue(url, &opening, socket, (queue, mode), &memory, &about)?;
        if url.own.busy_poll {
            interface::prefer_busy_poll(opened.as_fd(), BUSY_POLL_MICROS, BUSY_POLL_BUDGET)
                .map_err(failed("ask for busy polling (Linux 5.11)"))?;
        }
        bpf::set_socket(&map, queue, &opened).map_err(failed("give the filter its socket"))?;
        queues.push(opened);
    }
    let mut facts = vec![
        opening.place(),
        engine_fact(url, &queues, count, mode, &about),
        format!(
            "packet memory: asked {}, got {} a queue, {} chunks of {}{}",
            size_text(buffer),
            size_text(memory.bytes()),
            memory.chunks,
            size_text(memory.chunk as u64),
            match memory.segments {
                true => format!(", frames of MTU {} in several", about.mtu),
                false => String::new(),
            }
        ),
    ];
    facts.extend(notes);
    if mode == XdpAttachMode::Generic {
        facts.push(
            "generic mode: trains from a sender on this host come uncut; switch them off there: \
             ethtool -K PEER tx-udp-segmentation off"
                .into(),
        );
    }
    Ok(Parts { link, queues, tallies, member, mode, interface: about, facts })
}

/// The receive queues that get a socket, of `count`.
fn queue_numbers(url: &XdpUrl, count: u32) -> Result<Vec<u32>, XdpError> {
    match url.own.queue {
        Some(queue) if queue >= count => {
            let (endpoint, interface) = (url.to_string(), url.interface.clone());
            Err(XdpError::NoQueue { endpoint, queue, interface, last: count - 1 })
        }
        Some(queue) => Ok(vec![queue]),
        None => Ok((0..count).collect()),
    }
}

/// Loads the filter, which hands frames to the sockets of one map and counts in the other.
fn load(
    url: &XdpUrl,
    opening: &Opening<'_>,
    (map, tallies): (&OwnedFd, &OwnedFd),
    segments: bool,
) -> Result<OwnedFd, XdpError> {
    let filter = Filter { port: url.port, address: url.address };
    let words = assemble(&program(&filter, map.as_raw_fd(), tallies.as_raw_fd()))
        .map_err(|e| system(opening, "assemble the filter", io::Error::other(e)))?;
    // The filter looks at headers only, so it can take frames in pieces; kernels before 5.18 do not
    // know that there are such programs.
    let loaded = bpf::load_xdp(&words, true).or_else(|e| match segments {
        true => Err(e),
        false => bpf::load_xdp(&words, false),
    });
    loaded.map_err(|e| match e.cause.raw_os_error() {
        Some(libc::EPERM) => system(opening, "load the packet filter", e.cause),
        _ => {
            let endpoint = opening.endpoint.clone();
            XdpError::Refused { endpoint, cause: e.cause, log: e.log }
        }
    })
}

/// Binds a socket to a queue, with its packet memory.
fn open_queue(
    url: &XdpUrl,
    opening: &Opening<'_>,
    socket: OwnedFd,
    (queue, mode): (u32, XdpAttachMode),
    memory: &Memory,
    about: &SystemInterface,
) -> Result<Queue, XdpError> {
    let segments = match (memory.segments, mode) {
        (true, _) => Segments::Always,
        // Trains that come uncut are longer than any frame should be: to count them, not to lose them.
        (false, XdpAttachMode::Generic) => Segments::IfPossible,
        (false, XdpAttachMode::Native) => Segments::Never,
    };
    let zero_copy = match (mode, url.own.zero_copy) {
        (_, Some(true)) => ZeroCopy::Always,
        // Frames come from the stack, not from the driver.
        (XdpAttachMode::Generic, _) | (_, Some(false)) => ZeroCopy::Never,
        (XdpAttachMode::Native, None) => ZeroCopy::Auto,
    };
    let (interface, &Memory { chunk, chunks, .. }) = (about.index, memory);
    let options = QueueOptions { interface, queue, chunk, chunks, zero_copy, segments };
    Queue::open(socket, options).map_err(|(what, cause)| {
        let endpoint = opening.endpoint.clone();
        match cause.raw_os_error() {
            Some(libc::EBUSY) => XdpError::QueueTaken { endpoint, queue },
            Some(libc::ENOBUFS | libc::ENOMEM) => {
                XdpError::Memory { endpoint, size: size_text(memory.bytes()), cause }
            }
            Some(libc::EOPNOTSUPP | libc::EINVAL) if url.own.zero_copy == Some(true) => {
                XdpError::NoZeroCopy { endpoint, cause }
            }
            Some(libc::EOPNOTSUPP | libc::EINVAL) if memory.segments => {
                let interface = url.interface.clone();
                XdpError::Mtu { endpoint, interface, mtu: about.mtu, cause }
            }
            _ => system(opening, what, cause),
        }
    })
}

/// Which mode, copies and queues it became.
fn engine_fact(
    url: &XdpUrl,
    queues: &[Queue],
    count: u32,
    mode: XdpAttachMode,
    about: &SystemInterface,
) -> String {
    let copies = match queues.iter().filter(|q| q.zero_copy()).count() {
        0 => "copied by the kernel".to_owned(),
        n if n == queues.len() => "zero copy".to_owned(),
        n => format!("zero copy on {n} of {} queues", queues.len()),
    };
    let read = match (url.own.queue, queues.len()) {
        (Some(queue), _) => format!("receive queue {queue} of {count}"),
        (None, 1) => "1 receive queue".to_owned(),
        (None, n) => format!("{n} receive queues"),
    };
    let driver = about.driver.as_deref().unwrap_or("unknown driver");
    format!("engine xdp: {} mode, {copies}, {read} ({driver})", mode.name())
}

/// One busy poll lasts this long at most and takes so many frames: the kernel's documented values.
const BUSY_POLL_MICROS: u32 = 20;
const BUSY_POLL_BUDGET: u32 = 64;

fn attach(
    url: &XdpUrl,
    opening: &Opening<'_>,
    program: &OwnedFd,
    index: u32,
) -> Result<(Link, XdpAttachMode, Vec<String>), XdpError> {
    let (endpoint, interface) = (opening.endpoint.clone(), url.interface.clone());
    let modes: &[XdpAttachMode] = match url.own.mode {
        Asked::Auto => &[XdpAttachMode::Native, XdpAttachMode::Generic],
        Asked::Native => &[XdpAttachMode::Native],
        Asked::Generic => &[XdpAttachMode::Generic],
    };
    let mut tried = Vec::new();
    for &mode in modes {
        match bpf::attach_xdp(program, index, mode) {
            Ok(link) => return Ok((Link(link), mode, tried)),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) => {
                return Err(XdpError::Taken { endpoint, interface });
            }
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => {
                return Err(system(opening, "attach the packet filter", e));
            }
            Err(e) => tried.push(format!("{} mode: {e}", mode.name())),
        }
    }
    Err(XdpError::NoProgram { endpoint, interface, tried: tried.join("; ") })
}
