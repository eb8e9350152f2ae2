//! `bpf(2)`: maps, loading and attaching a packet program, running it on a test frame.
//!
//! Returns the system's errors; for a program that the verifier refuses, with its message. Sources: `bpf(2)`,
//! `linux/bpf.h` (numbers and layouts, unchanged since they appeared).

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP_ELEM: libc::c_long = 1;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
const PROG_TEST_RUN: libc::c_long = 10;
const LINK_CREATE: libc::c_long = 28;
const LINK_DETACH: libc::c_long = 34;

const MAP_TYPE_ARRAY: u32 = 2;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
/// Attach type `BPF_XDP`.
const XDP: u32 = 37;
/// Most numbers in a map of [`create_tallies`].
const ROOM: usize = 16;
/// The program can take frames in several pieces (Linux 5.18).
const XDP_HAS_FRAGS: u32 = 1 << 5;

/// Where in the kernel a packet program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpAttachMode {
    /// In the driver, before the kernel allocates a packet for the frame.
    Native,
    /// In the network stack: every driver, slower.
    Generic,
}

impl XdpAttachMode {
    fn flags(self) -> u32 {
        match self {
            XdpAttachMode::Generic => 1 << 1,
            XdpAttachMode::Native => 1 << 2,
        }
    }

    /// Name in URLs and messages.
    pub fn name(self) -> &'static str {
        match self {
            XdpAttachMode::Native => "native",
            XdpAttachMode::Generic => "generic",
        }
    }
}

/// A program that the kernel did not take.
#[derive(Debug)]
pub struct LoadError {
    /// The system's error.
    pub cause: io::Error,
    /// Last words of the verifier, if it said any.
    pub log: String,
}

/// The longest command structure used here: 80 bytes.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Command([u8; 128]);

impl Command {
    fn new() -> Command {
        Command([0; 128])
    }

    fn u32(mut self, at: usize, value: u32) -> Command {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn u64(mut self, at: usize, value: u64) -> Command {
        self.0[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn fd(self, at: usize, fd: impl AsFd) -> Command {
        self.u32(at, fd.as_fd().as_raw_fd() as u32)
    }

    /// Address of something that lives across the call.
    fn pointer<T: ?Sized>(self, at: usize, value: &T) -> Command {
        self.u64(at, (&raw const *value).cast::<u8>() as u64)
    }

    fn pointer_mut<T: ?Sized>(self, at: usize, value: &mut T) -> Command {
        self.u64(at, (&raw mut *value).cast::<u8>() as u64)
    }

    fn name(mut self, at: usize, name: &str) -> Command {
        let bytes = name.as_bytes();
        let n = bytes.len().min(15);
        self.0[at..at + n].copy_from_slice(&bytes[..n]);
        self
    }

    /// # Safety
    /// Every address in the first `size` bytes must be what the command expects there: memory that
    /// is alive across the call and large enough for what the kernel reads or writes.
    unsafe fn call(&mut self, command: libc::c_long, size: usize) -> io::Result<i32> {
        debug_assert!(size <= size_of::<Command>());
        // SAFETY: the kernel reads (and for test runs writes) `size` bytes of this structure, and
        // the caller vouches for the addresses in it.
        let rc = unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_mut_ptr(), size) };
        if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc as i32) }
    }

    /// As [`Command::call`], for commands that answer with a new descriptor.
    ///
    /// # Safety
    /// As there, and the command must answer with a descriptor that nobody else owns.
    unsafe fn open(&mut self, command: libc::c_long, size: usize) -> io::Result<OwnedFd> {
        // SAFETY: handed on to the caller.
        let fd = unsafe { self.call(command, size)? };
        // SAFETY: the kernel made this descriptor for us in this very call.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// `map_type`, `key_size`, `value_size`, `max_entries`, `map_flags`, `inner_map_fd`, `numa_node`,
/// `map_name`.
fn create_map(kind: u32, value: u32, entries: u32, name: &str) -> io::Result<OwnedFd> {
    let command = Command::new().u32(0, kind).u32(4, 4).u32(8, value).u32(12, entries);
    // SAFETY: the structure holds no address; MAP_CREATE answers with a new descriptor.
    unsafe { command.name(28, name).open(MAP_CREATE, 44) }
}

/// A map from receive queue to AF_XDP socket.
///
/// # Errors
/// The system's error; `PermissionDenied` without `CAP_BPF` and `CAP_NET_ADMIN`.
pub fn create_socket_map(queues: u32) -> io::Result<OwnedFd> {
    create_map(MAP_TYPE_XSKMAP, 4, queues.max(1), "fullcount_xsk")
}

/// A map whose one value is `count` 64-bit numbers, at most 16, all 0.
pub fn create_tallies(count: usize) -> io::Result<OwnedFd> {
    create_map(MAP_TYPE_ARRAY, (count.min(ROOM) * 8) as u32, 1, "fullcount_count")
}

/// Puts a socket into the map.
pub fn set_socket(map: &OwnedFd, queue: u32, socket: &impl AsFd) -> io::Result<()> {
    let value = socket.as_fd().as_raw_fd() as u32;
    let mut command = Command::new().fd(0, map).pointer(8, &queue).pointer(16, &value);
    // SAFETY: key and value are 4 bytes each, as this map was made with, alive across the call.
    unsafe { command.call(MAP_UPDATE_ELEM, 32) }.map(drop)
}

/// Present counts of a map of [`create_tallies`] with the same number of counters.
pub fn read_tallies<const N: usize>(map: &OwnedFd) -> io::Result<[u64; N]> {
    // The kernel writes as much as the map was made with: room for the largest that we make.

    const { assert!(N <= ROOM) };
    let (key, mut value) = (0u32, [0u64; ROOM]);
    let mut command = Command::new().fd(0, map).pointer(8, &key).pointer_mut(16, &mut value);
    // SAFETY: the key is 4 bytes; the value has room for the most that `create_tallies` makes; both
    // live across the call.
    unsafe { command.call(MAP_LOOKUP_ELEM, 32)? };
    Ok(std::array::from_fn(|i| value[i]))
}

/// Loads a packet program; `frags`: it may meet frames in several pieces.
///
/// # Errors
/// The system's error with the verifier's words.
pub fn load_xdp(words: &[u64], frags: bool) -> Result<OwnedFd, LoadError> {
    let license = c"BSD";
    // prog_type, insn_cnt, insns, license, log_level, log_size, log_buf, kern_version, prog_flags,
    // prog_name, prog_ifindex, expected_attach_type
    let command = Command::new()
        .u32(0, PROG_TYPE_XDP)
        .u32(4, words.len() as u32)
        .pointer(8, words)
        .u64(16, license.as_ptr() as u64)
        .u32(44, if frags { XDP_HAS_FRAGS } else { 0 })
        .name(48, "fullcount")
        .u32(68, XDP);
    let mut quiet = command;
    // SAFETY: instructions and licence live across the call, with the lengths given; no log.
    let cause = match unsafe { quiet.open(PROG_LOAD, 72) } {
        Ok(program) => return Ok(program),
        Err(cause) => cause,
    };
    let mut log = vec![0u8; 64 << 10];
    let size = log.len() as u32;
    let mut loud = command.u32(24, 1).u32(28, size).pointer_mut(32, &mut log[..]);
    // SAFETY: as above, and the log has the room that is announced.
    match unsafe { loud.open(PROG_LOAD, 72) } {
        Ok(program) => Ok(program),
        Err(_) => {
            let end = log.iter().position(|b| *b == 0).unwrap_or(log.len());
            let text = String::from_utf8_lossy(&log[..end]);
            let mut last: Vec<&str> = text.lines().rev().take(4).collect();
            last.reverse();
            Err(LoadError { cause, log: last.join(" / ") })
        }
    }
}

/// Ties a program to an interface until the answer is dropped, or the process dies.
///
/// # Errors
/// The system's error; `ResourceBusy` or `AlreadyExists` if the interface has a program.
pub fn attach_xdp(program: &OwnedFd, interface: u32, mode: XdpAttachMode) -> io::Result<OwnedFd> {
    let command = Command::new().fd(0, program).u32(4, interface).u32(8, XDP);
    // SAFETY: the structure holds no address; LINK_CREATE answers with a new descriptor.
    unsafe { command.u32(12, mode.flags()).open(LINK_CREATE, 48) }
}

/// Takes a program off its interface at once, also where another process still holds the link for a
/// moment (a child between fork and exec).
///
/// # Errors
/// The system's error (Linux before 5.10 has no such call: closing the link does it there).
pub fn detach(link: &OwnedFd) -> io::Result<()> {
    // SAFETY: the structure holds no address.
    unsafe { Command::new().fd(0, link).call(LINK_DETACH, 4) }.map(drop)
}

/// Runs a program on a frame of at least 14 bytes without a network; its verdict.
pub fn run_xdp(program: &OwnedFd, frame: &[u8]) -> io::Result<u32> {
    // prog_fd, retval, data_size_in, data_size_out, data_in, data_out, repeat, …
    let mut command =
        Command::new().fd(0, program).u32(8, frame.len() as u32).pointer(16, frame).u32(32, 1);
    // SAFETY: the frame lives across the call with the length given; no output is asked for.
    unsafe { command.call(PROG_TEST_RUN, 80)? };
    let b = &command.0;
    Ok(u32::from_ne_bytes([b[4], b[5], b[6], b[7]]))
}
