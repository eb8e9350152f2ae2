//! Senders that are compared: the simplified TCP with each driver, and plain Linux sockets with one write for each fragment.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use fullcount_io::raw::{Driver, RawError, RawLink, RawSetup};
use fullcount_stcp::{Notice, StcpSettings, StcpState, SubmitError};

use super::pattern;
use crate::error::LabError;

/// A receiver that has heard of the end is silent at once. The queue of a link of 500 Mb/s takes 64 ms to run empty.
const SILENT: Duration = Duration::from_millis(100);
/// Longest wait for that.
const LONGEST_END: Duration = Duration::from_secs(5);

/// What a link saves time by, and can be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saving {
    /// Units of more than 64 KiB, where the interface takes them.
    LongUnits,
    /// Send buffers on large pages.
    LargePages,
}

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveSender {
    /// The simplified TCP; `offload`: units of up to 64 KiB, which the kernel cuts.
    Simplified {
        /// How frames leave.
        driver: Driver,
        /// Segmentation offload.
        offload: bool,
        /// What is switched off.
        without: Option<Saving>,
    },
    /// A socket of this kernel.
    Linux {
        /// `TCP_NODELAY`.
        no_delay: bool,
    },
}

/// Names, as a person writes them.
const NAMES: [(&str, LiveSender); 9] = [
    ("offload", LiveSender::usual(Driver::Packet, true)),
    ("short-units", LiveSender::without(Saving::LongUnits)),
    ("small-pages", LiveSender::without(Saving::LargePages)),
    ("frames", LiveSender::usual(Driver::Packet, false)),
    ("xdp", LiveSender::usual(Driver::Xdp, false)),
    ("tap", LiveSender::usual(Driver::Tap, true)),
    ("tap-frames", LiveSender::usual(Driver::Tap, false)),
    ("linux", LiveSender::Linux { no_delay: false }),
    ("linux-nodelay", LiveSender::Linux { no_delay: true }),
];

impl LiveSender {
    /// The simplified TCP with this driver.
    pub const fn usual(driver: Driver, offload: bool) -> LiveSender {
        LiveSender::Simplified { driver, offload, without: None }
    }

    /// The usual one with offload, without one of its savings: what that brings is measured by turns.
    const fn without(saving: Saving) -> LiveSender {
        let without = Some(saving);
        LiveSender::Simplified { driver: Driver::Packet, offload: true, without }
    }

    /// Tells a link to be; sockets have none.
    pub fn set_up(self, setup: &mut RawSetup) {
        let LiveSender::Simplified { offload, without, .. } = self else { return };
        setup.offload = offload;
        match without {
            None => {}
            Some(Saving::LongUnits) => setup.unit = 1 << 16,
            Some(Saving::LargePages) => setup.large_pages = false,
        }
    }

    /// By its name.
    pub fn named(name: &str) -> Option<LiveSender> {
        NAMES.iter().find(|(n, _)| *n == name).map(|(_, kind)| *kind)
    }

    /// As a person writes it.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, kind)| *kind == self).map_or("sender", |(name, _)| name)
    }

    /// All names, for messages.
    pub fn known() -> String {
        NAMES.map(|(name, _)| name).join(", ")
    }

    /// A limit of the link is one for it: a TAP device has none here, and AF_XDP leaves past the interface's queue.
    pub fn feels_limit(self) -> bool {
        match self {
            LiveSender::Simplified { driver, .. } => driver == Driver::Packet,
            LiveSender::Linux { .. } => true,
        }
    }

    /// It needs a TAP device.
    pub fn on_tap(self) -> bool {
        matches!(self, LiveSender::Simplified { driver: Driver::Tap, .. })
    }
}

/// Bytes that are submitted to a stream before the link gets its turn: a batch of it.
const PORTION: usize = 128 << 10;
/// Longest sleep of a link that has nothing to do.
const NAP: Duration = Duration::from_millis(1);

/// Bytes of fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LivePayload {
    /// They follow [`pattern`], so that a receiver can tell each from all others.
    Marked,
    /// All the same, as those of the fragment that [`write`] writes again and again. They are made during the first laps of a send buffer of so many
    /// bytes; from then on they lie there. Made again for each fragment, they took the sender a copy's time more than the socket.
    Same {
        /// Of the send buffer.
        buffer: usize,
    },
}

/// A source as fast as it is let.
#[derive(Debug)]
pub struct LiveSource {
    /// Bytes of a fragment.
    size: usize,
    /// Bytes of each stream that are accepted; with its salt if they can be told apart.
    streams: Vec<(usize, u64, Option<u64>)>,
    /// Bytes of each stream that are made; those behind lie in the buffer.
    made: u64,
    /// Bytes of each stream, at most.
    pub most: u64,
}

impl LiveSource {
    /// Fragments of `size` bytes for `streams` of the link.
    pub fn new(link: &RawLink, streams: &[usize], size: usize, payload: LivePayload) -> LiveSource {
        let salt = |at: usize| u64::from(link.stream(at).ends().local_port);
        let marked = payload == LivePayload::Marked;
        let streams = streams.iter().map(|&at| (at, 0, marked.then(|| salt(at)))).collect();
        let made = match payload {
            LivePayload::Marked => u64::MAX,
            // Two laps, should the buffer be larger than was asked for.
            LivePayload::Same { buffer } => 2 * buffer as u64,
        };
        LiveSource { size, streams, made, most: u64::MAX }
    }

    /// Submits a portion to each stream; true if at least one could take more.
    pub fn portion(&mut self, link: &mut RawLink) -> Result<bool, LabError> {
        let (size, made) = (self.size, self.made);
        let mut more = false;
        for (at, sent, salt) in &mut self.streams {
            let mut left = PORTION.max(size);
            while left >= size && *sent < self.most {
                let make = |first: &mut [u8], second: &mut [u8]| match *salt {
                    Some(salt) => {
                        pattern::fill(first, *sent, salt);
                        pattern::fill(second, *sent + first.len() as u64, salt);
                    }
                    None if *sent < made => {
                        [first, second].into_iter().for_each(|part| part.fill(0x5a));
                    }
                    None => {}
                };
                match link.submit_in_place(*at, size, make) {
                    Ok(_) => (left, *sent) = (left - size, *sent + size as u64),
                    Err(SubmitError::WouldBlock) => break,
                    Err(e) => return Err(ended(link, *at, &e.to_string())),
                }
            }
            more |= left < size;
        }
        Ok(more)
    }

    /// All that was to be sent has been accepted.
    pub fn exhausted(&self) -> bool {
        self.streams.iter().all(|(_, sent, _)| *sent >= self.most)
    }

    /// Bytes accepted.
    pub fn accepted(&self) -> u64 {
        self.streams.iter().map(|(_, sent, _)| sent).sum()
    }
}

fn ended(link: &mut RawLink, at: usize, what: &str) -> LabError {
    let why = link.ended(at).map(|why| format!(": {why:?}")).unwrap_or_default();
    LabError::Failed(anyhow::anyhow!("stream {at}: {what}{why}; {}", undelivered(link, at)))
}

/// Which fragments of a stream that has ended the receiver may not have, counted from 0: ACKs cover all before them.
fn undelivered(link: &RawLink, at: usize) -> String {
    let counted = link.stream(at).sender().memory().counted();
    let (acked, taken) = (counted.acked_fragments, counted.fragments);
    match taken.checked_sub(1).filter(|_| acked < taken) {
        Some(last) => format!("fragments {acked} to {last} were not acknowledged"),
        None => format!("all {taken} fragments were acknowledged"),
    }
}

/// Turns, and sleeps if there is nothing to do and nothing to submit.
pub fn step(link: &mut RawLink, more: bool) -> Result<(), LabError> {
    let failed = |e: RawError| LabError::Failed(e.into());
    if !link.turn().map_err(failed)? && !more {
        link.wait(NAP).map_err(failed)?;
    }
    Ok(())
}

/// Opens streams to `peer` from port 10 on and waits until all are there.
pub fn connect(
    link: &mut RawLink,
    peer: ([u8; 4], u16),
    count: usize,
    settings: StcpSettings,
    buffer: usize,
) -> Result<Vec<usize>, LabError> {
    let add = |i: usize| {
        let port = 10 + i as u16;
        link.add(peer, port, settings, buffer).map_err(|e| LabError::Failed(e.into()))
    };
    let streams = (0..count).map(add).collect::<Result<Vec<usize>, LabError>>()?;
    loop {
        let state = |at: &usize| link.stream(*at).sender().state();
        if streams.iter().all(|at| state(at) == StcpState::Established) {
            return Ok(streams);
        }
        if let Some(&at) = streams.iter().find(|at| state(at) == StcpState::Closed) {
            return Err(ended(link, at, "no connection"));
        }
        step(link, false)?;
    }
}

/// Ends all streams with a RST each. A full queue on the way may drop it: what the receiver says to the data before it is answered
/// with another one, until the receiver is silent.
pub fn abort(link: &mut RawLink, streams: &[usize]) -> Result<(), LabError> {
    streams.iter().for_each(|&at| link.abort(at));
    let failed = |e: RawError| LabError::Failed(e.into());
    let begun = Instant::now();
    let mut last = begun;
    while last.elapsed() < SILENT && begun.elapsed() < LONGEST_END {
        if link.turn().map_err(failed)? {
            last = Instant::now();
        } else {
            link.wait(SILENT / 10).map_err(failed)?;
        }
    }
    Ok(())
}

/// Reads the notices of all streams; the first that ended, if one did.
pub fn notices(link: &mut RawLink, streams: &[usize]) -> Result<(), LabError> {
    for &at in streams {
        while let Some(notice) = link.notice(at) {
            if let Notice::Aborted(why) = notice {
                let left = undelivered(link, at);
                return Err(LabError::Failed(anyhow::anyhow!(
                    "stream {at} ended: {why:?}; {left}"
                )));
            }
        }
    }
    Ok(())
}

/// Writes fragments to a socket until `done`.
pub fn write(mut stream: TcpStream, size: usize, done: impl Fn() -> bool) -> Result<(), LabError> {
    let fragment = vec![0x5a; size];
    let failed = |e: std::io::Error| LabError::Failed(anyhow::anyhow!("sending: {e}"));
    while !done() {
        // The clock of `done` is looked at now and then only.
        for _ in 0..(65_536 / size).max(1) {
            stream.write_all(&fragment).map_err(failed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fullcount_io::raw::RawSetup;

    use super::*;

    /// Over a link in memory, to nobody: what was taken is named when the stream ends.
    #[test]
    fn what_a_stream_that_ended_had_not_delivered_is_named() {
        let setup = RawSetup::new("none", Driver::Packet, [10, 0, 0, 9]);
        let mut link = RawLink::in_memory(setup).unwrap();
        let at = link.add(([10, 0, 0, 2], 5000), 10, StcpSettings::daq(), 1 << 16).unwrap();
        for _ in 0..3 {
            link.submit(at, &[0; 100]).unwrap();
        }
        notices(&mut link, &[at]).unwrap();
        link.abort(at);
        let said = notices(&mut link, &[at]).unwrap_err().to_string();
        assert!(said.ends_with("LocalAbort; fragments 0 to 2 were not acknowledged"), "{said}");
        let said = ended(&mut link, at, "refused").to_string();
        assert!(said.contains("refused; fragments 0 to 2"), "{said}");
    }
}
