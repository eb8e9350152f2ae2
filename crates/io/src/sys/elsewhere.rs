//! The same functions on systems without batches and offloads: all answer "unsupported", and the
//! callers fall back to one call per datagram.

use std::io;
use std::os::fd::BorrowedFd;

use super::{CpuTime, ReceivedTrain, SocketMemory};
use crate::udp::shard::ClassicInstruction;

fn unsupported<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "only on Linux"))
}

/// Stands for the batch receiver, which this system does not have.
#[derive(Debug)]
pub struct ReceiveRing {}

impl ReceiveRing {
    /// A ring that only answers "unsupported".
    pub fn new(_slots: usize) -> ReceiveRing {
        ReceiveRing {}
    }

    /// Not here.
    ///
    /// # Errors
    /// Always `Unsupported`.
    pub fn receive(
        &mut self,
        _socket: BorrowedFd<'_>,
        _memory: &mut [u8],
        _pitch_and_slot: (usize, usize),
        _wait: bool,
    ) -> io::Result<usize> {
        unsupported()
    }

    /// Nothing was received.
    pub fn message(&self, _i: usize) -> Option<ReceivedTrain> {
        None
    }
}

/// Stands for the count of cache misses, which this system does not have.
#[derive(Debug)]
pub struct CacheMisses {}

impl CacheMisses {
    /// Not here.
    ///
    /// # Errors
    /// Always `Unsupported`.
    pub fn of_this_thread() -> io::Result<CacheMisses> {
        unsupported()
    }

    /// Not here.
    ///
    /// # Errors
    /// Always `Unsupported`.
    pub fn read(&mut self) -> io::Result<u64> {
        unsupported()
    }
}

/// Stands for the io_uring receiver, which this system does not have.
#[derive(Debug)]
pub struct UringRing {
    /// Always 0.
    pub exhausted: u64,
    /// Always 0.
    pub completions_lost: u64,
    /// Always 0.
    pub calls: u64,
}

impl UringRing {
    /// Not here.
    ///
    /// # Errors
    /// Always `Unsupported`.
    pub fn new(_slots: usize) -> io::Result<UringRing> {
        unsupported()
    }

    /// Not here.
    ///
    /// # Errors
    /// Always `Unsupported`.
    pub fn receive(
        &mut self,
        _socket: BorrowedFd<'_>,
        _memory: &mut [u8],
        _pitch_and_slot: (usize, usize),
        _wait: std::time::Duration,
    ) -> io::Result<usize> {
        unsupported()
    }

    /// Nothing was received.
    pub fn message(&self, _i: usize) -> Option<(usize, ReceivedTrain)> {
        None
    }
}

/// Parts of one message.
pub const PARTS: usize = 3;

/// Stands for the sender of messages in parts, which this system does not have.
#[derive(Debug)]
pub struct GatherRing {}

impl GatherRing {
    /// A ring that only answers "unsupported".
    pub fn new(_slots: usize) -> GatherRing {
        GatherRing {}
    }

    /// Not here.
    ///
    /// # Errors
    /// Always `Unsupported`.
    pub fn send<'a>(
        &mut self,
        _socket: BorrowedFd<'_>,
        _messages: impl Iterator<Item = [&'a [u8]; PARTS]>,
    ) -> io::Result<usize> {
        unsupported()
    }
}

/// Stands for the batch sender, which this system does not have.
#[derive(Debug)]
pub struct SendRing {}

impl SendRing {
    /// A ring that only answers "unsupported".
    pub fn new(_slots: usize) -> SendRing {
        SendRing {}
    }

    /// Not here.
    ///
    /// # Errors
    /// Always `Unsupported`.
    pub fn send<'a>(
        &mut self,
        _socket: BorrowedFd<'_>,
        _messages: impl Iterator<Item = (&'a [u8], Option<u16>)>,
    ) -> io::Result<usize> {
        unsupported()
    }
}

/// Pieces of one message.
pub const MOST_PIECES: usize = 1;

/// Not here.
///
/// # Errors
/// Always `Unsupported`.
pub fn send_pieces(
    _socket: BorrowedFd<'_>,
    _pieces: &[io::IoSlice<'_>],
    _segment: Option<u16>,
) -> io::Result<()> {
    unsupported()
}

macro_rules! unsupported {
    ($($(#[$doc:meta])* $name:ident ($($arg:ident: $ty:ty),*) -> $out:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// Always `Unsupported`.
        pub fn $name($($arg: $ty),*) -> io::Result<$out> {
            $(let _ = $arg;)*
            unsupported()
        }
    )*};
}

unsupported! {
    /// No UDP GRO here.
    set_gro(fd: BorrowedFd<'_>, on: bool) -> ();
    /// No low mark here.
    set_low_water(fd: BorrowedFd<'_>, bytes: usize) -> ();
    /// No choice of a congestion control here.
    set_congestion(fd: BorrowedFd<'_>, name: &str) -> ();
    /// No kernel timestamps here.
    set_timestamps(fd: BorrowedFd<'_>, on: bool) -> ();
    /// No destination addresses here.
    set_destinations(fd: BorrowedFd<'_>, ipv6: bool, on: bool) -> ();
    /// No writing back by pieces here.
    begin_writing(file: BorrowedFd<'_>, at: u64, len: u64) -> ();
    /// No drop counts here.
    set_drop_reports(fd: BorrowedFd<'_>, on: bool) -> ();
    /// No error queue here.
    set_error_reports(fd: BorrowedFd<'_>, ipv6: bool, on: bool) -> ();
    /// Not needed here.
    set_only_own_groups(fd: BorrowedFd<'_>) -> ();
    /// IPv4 multicast interfaces are chosen by address here.
    set_multicast_interface_v4(fd: BorrowedFd<'_>, index: u32) -> ();
    /// No forced buffers here.
    force_receive_buffer(fd: BorrowedFd<'_>, bytes: usize) -> ();
    /// No forced buffers here.
    force_send_buffer(fd: BorrowedFd<'_>, bytes: usize) -> ();
    /// Not known here.
    socket_memory(fd: BorrowedFd<'_>) -> SocketMemory;
    /// No pinning here.
    pin_thread(core: usize) -> ();
    /// No niceness of one thread here.
    be_nice() -> ();
    /// Not known here.
    thread_cpu_time() -> CpuTime;
    /// Not known here.
    process_cpu_time() -> CpuTime;
    /// Not known here.
    children_cpu_time() -> CpuTime;
    /// Not needed here.
    precise_sleep() -> ();
    /// Not known here.
    path_mtu(fd: BorrowedFd<'_>, ipv6: bool) -> usize;
    /// No frames here.
    frame_receiver(interface: &str) -> socket2::Socket;
    /// No frames here.
    frame_sender(interface: &str, bypass: bool) -> socket2::Socket;
    /// No such devices here.
    open_tap(name: &str) -> std::fs::File;
    /// No frames here.
    write_parts(device: BorrowedFd<'_>, message: [&[u8]; PARTS]) -> usize;
    /// No frames here.
    frames_missed(fd: BorrowedFd<'_>) -> u64;
    /// Not needed here.
    wait_readable(fd: BorrowedFd<'_>, limit: std::time::Duration) -> bool;
    /// No features by name here.
    features(interface: &str) -> Vec<(String, bool)>;
    /// No features by name here.
    set_feature(interface: &str, feature: &str, on: bool) -> ();
}

/// There are no network namespaces here.
///
/// # Errors
/// Always `Unsupported`.
pub fn in_namespace<T: Send>(
    _path: &std::path::Path,
    _work: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    unsupported()
}

/// There is no error queue.
pub fn drain_errors(_fd: BorrowedFd<'_>) -> u64 {
    0
}

/// Clock ticks a second in `/proc/stat`, which this system does not have.
pub fn clock_ticks() -> u64 {
    100
}

/// Nothing to wait for: the system writes back when it likes.
///
/// # Errors
/// None.
pub fn finish_writing(_file: BorrowedFd<'_>, _at: u64, _len: u64) -> io::Result<()> {
    Ok(())
}

/// No hint to give.
pub fn prefer_large_pages(_memory: &mut [u8]) {}

/// Not here.
///
/// # Errors
/// Always `Unsupported`.
pub fn set_steering(_fd: BorrowedFd<'_>, _program: &[ClassicInstruction]) -> io::Result<()> {
    unsupported()
}

/// What came; never here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SocketNews {
    /// Something can be read.
    pub readable: bool,
    /// It can be written to.
    pub writable: bool,
    /// The peer sends no more.
    pub hung_up: bool,
}

/// Stands for a set of sockets, which this system does not have.
#[derive(Debug)]
pub struct SocketSet {}

impl SocketSet {
    /// Not here.
    ///
    /// # Errors
    /// Always `Unsupported`.
    pub fn new(_most: usize) -> io::Result<SocketSet> {
        unsupported()
    }

    /// Not here.
    ///
    /// # Errors
    /// Always `Unsupported`.
    pub fn add(&self, _socket: BorrowedFd<'_>, _number: u64, _writing: bool) -> io::Result<()> {
        unsupported()
    }

    /// Not here.
    ///
    /// # Errors
    /// Always `Unsupported`.
    pub fn wait(
        &mut self,
        _wait: std::time::Duration,
        _tell: impl FnMut(u64, SocketNews),
    ) -> io::Result<()> {
        unsupported()
    }
}
