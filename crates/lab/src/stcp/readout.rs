//! `lab stcp readout`: streams of fragments into the readout unit, and the same streams into a reader that discards them.
//!
//! Senders are threads of this process that write fragments built before (only number and checksum change) over loopback, or streams of the
//! simplified TCP on a link of their own ([`senders`], [`site`]). The discarding readers read 256 KiB, 512 KiB and 1 MiB at a time, and one as much as the unit, if that is none of these; the unit reads, cuts, checks and
//! merges, and its records are dropped after a look at their flags. A last reader is the whole program as a child process ([`whole`]). Trials
//! go by turns. Refuses an event that is damaged or incomplete, a lost fragment, and a ledger that does not
//! balance. Source: `docs/fragments.md`.

mod senders;
mod site;
mod whole;

use std::io::Read;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use fullcount_core::detector::{Decoder, Setup, Threads};
use fullcount_core::ledger::Ledger;
use fullcount_core::products::{Products, Want};
use fullcount_core::quantity::size_text;
use fullcount_core::records::{EventRecords, flags};
use fullcount_core::source::Source;
use fullcount_core::time::Nanos;
use fullcount_core::url;
use fullcount_detect::detector::builtin;
use fullcount_detect::fragments::block::FRAMING;
use fullcount_io::sys::{SocketSet, allow_open_files};
use fullcount_io::tcp::{TcpSource, TcpUrl};
use senders::ReadoutSenders;
use serde_json::json;
use site::{ReadoutSite, accept};

use super::live::sender::LiveSender;
use super::live::sweep::link_name;
use super::live::tape::FrameTape;
use crate::error::LabError;
use crate::record::host::congestion_control;
use crate::record::{Figure, Record};

/// The unit is to reach so much of the fastest discarding reader, with the checksums of every [`CHECKED`]-th event. What the whole program
/// reaches is told and not judged.
pub const SHARE: f64 = 0.9;
/// Bytes of one read of the discarding readers; the first is the one that others are compared with. Which is faster depends on host and
/// congestion control.
const DISCARDED: [u64; 3] = [256 << 10, 512 << 10, 1 << 20];
/// The beginning of a trial from its first bytes on, which does not count: receive buffers grow, and memory is made. Of trials of 1 s it cost the unit a tenth of its rate.
const WARM: Duration = Duration::from_millis(500);
/// Longest time until the next sender is there, and until the first bytes of a trial.
const SILENCE: Duration = Duration::from_secs(30);
/// See [`SHARE`]; the unit's default is 1.
pub const CHECKED: u32 = 100;
/// What `streams` takes: the readout of CMS has some 600.
pub const STREAMS: std::ops::RangeInclusive<usize> = 1..=1024;
/// Files of a trial that are no stream, and then some.
const OTHER_FILES: usize = 64;

/// What is asked.
#[derive(Debug, Clone)]
pub struct ReadoutTrial {
    /// Streams; see [`STREAMS`].
    pub streams: usize,
    /// Bytes of a fragment.
    pub fragment: usize,
    /// Length of a trial.
    pub time: Duration,
    /// Trials of each reader.
    pub repeats: usize,
    /// Checksums of every such event are checked; 0: of none.
    pub every: Vec<u32>,
    /// Bytes of one read of the unit, 16 KiB to 4 MiB.
    pub read: u64,
    /// The `fullcount` binary.
    pub program: PathBuf,
    /// Who sends: Linux sockets over loopback, or the simplified TCP.
    pub sender: LiveSender,
    /// Limit of its link, bit/s; only of the simplified TCP, and not over TAP.
    pub link: Option<u64>,
    /// Longest IP packet of the simplified TCP, bytes.
    pub mtu: usize,
    /// Its send buffer of each stream, bytes.
    pub buffer: usize,
    /// Its frames go here too, up to so many bytes.
    pub frames_to: Option<(PathBuf, u64)>,
}

/// Where trials happen, and the file of their frames.
type Around<'a> = (&'a ReadoutSite, &'a Arc<FrameTape>);

/// Who reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReaderOfTrial {
    /// Drops what it reads, so many bytes at most in one call.
    Discards(u64),
    /// The unit, with the checksums of every such event; 0: of none.
    Merges(u32),
    /// `fullcount run --sink null` in a process of its own, with the checksums of every [`CHECKED`]-th event.
    Runs,
}

impl ReaderOfTrial {
    fn name(self) -> String {
        match self {
            ReaderOfTrial::Discards(read) => format!("discards, reads of {}", size_text(read)),
            ReaderOfTrial::Merges(0) => "unit, no checksums".to_owned(),
            ReaderOfTrial::Merges(1) => "unit, all checksums".to_owned(),
            ReaderOfTrial::Merges(k) => format!("unit, checksums of every {k}th event"),
            ReaderOfTrial::Runs => {
                format!("`fullcount run --sink null`, checksums of every {CHECKED}th event")
            }
        }
    }
}

/// What came of it.
#[derive(Debug)]
pub struct ReadoutFinding {
    /// For people, Markdown.
    pub table: String,
    /// Whether [`SHARE`] was reached, if [`CHECKED`] was among what was asked and no link limits the readers.
    pub held: Option<bool>,
}

impl ReadoutTrial {
    /// Measures; `tell` hears each line as it is known.
    ///
    /// # Errors
    /// A damaged or incomplete event, a lost fragment, a socket that fails.
    pub fn run(
        &self,
        record: &mut Record,
        tell: &mut dyn FnMut(&str),
        stop: &dyn Fn() -> bool,
    ) -> Result<ReadoutFinding, LabError> {
        self.may_open()?;
        ReadoutSite::allowed(self.sender)?;
        let tape = Arc::new(FrameTape::create(self.frames_to.as_ref())?);
        let site = ReadoutSite::make(self.sender, self.mtu, self.link)?;
        let readers = self.readers();
        let mut rates: Vec<Vec<f64>> = vec![Vec::new(); readers.len()];
        for turn in 0..self.repeats {
            // Who begins changes: what the host does meanwhile meets each of them.
            for n in (0..readers.len()).map(|n| (n + turn) % readers.len()) {
                rates[n].push(8e-9 * self.rate(readers[n], (&site, &tape), stop)?);
            }
        }
        for (key, value) in [
            ("streams", self.streams),
            ("fragment_bytes", self.fragment),
            ("repeats", self.repeats),
        ] {
            record.parameter(key, value);
        }
        record.parameter("seconds", self.time.as_secs_f64());
        record.parameter("read_bytes", self.read);
        record.parameter("warm_seconds", WARM.as_secs_f64());
        let sent_by = self.told_senders(record);
        let tape = Arc::into_inner(tape).context("a sender that has not ended")?;
        tape.finish(record)?;
        let mut table = String::from("| reader | Gb/s | of the discarding one |\n|:--|--:|--:|\n");
        tell(table.trim_end());
        for (&reader, own) in readers.iter().zip(&rates) {
            let turns: Vec<f64> =
                own.iter().zip(&rates[0]).map(|(own, plain)| own / plain).collect();
            let both = Figure::of(own, "Gb/s").zip(Figure::of(&turns, ""));
            let Some((figure, share)) = both else { continue };
            let (name, (low, high)) = (reader.name(), figure.interval);
            let of =
                format!("{:.3} ({:.2}–{:.2})", share.value, share.interval.0, share.interval.1);
            let line = format!("| {name} | {:.2} ({low:.2}–{high:.2}) | {of} |", figure.value);
            tell(&line);
            table += &format!("{line}\n");
            let every = match reader {
                ReaderOfTrial::Discards(_) => None,
                ReaderOfTrial::Merges(every) => Some(every),
                ReaderOfTrial::Runs => Some(CHECKED),
            };
            record.row(json!({
                "reader": name, "crc_every": every, "gbps": figure.value, "low": low, "high": high,
                "repeats": figure.repeats, "of_discarding": share.value,
            }));
        }
        let mut of_fastest = |key: &str, who: &str, own| {
            let of = ReadoutTrial::of_fastest(&readers, &rates, own)?;
            let line = format!(
                "With the checksums of every {CHECKED}th event the {who} has {of:.3} of the fastest discarding reader."
            );
            tell(&line);
            table += &format!("\n{line}\n");
            record.parameter(key, of);
            Some(of)
        };
        let unit = of_fastest("of_fastest", "unit", ReaderOfTrial::Merges(CHECKED));
        of_fastest("whole_of_fastest", "whole program", ReaderOfTrial::Runs);
        table += &format!(
            "\nMedians (least to most) of turns in which each reader has its trial; shares are those of the same turn. The first {} s of a \
             trial do not count. {sent_by}\n",
            WARM.as_secs_f64(),
        );
        // A link that limits all readers says nothing about the unit.
        let judged = unit.filter(|_| self.link.is_none());
        Ok(ReadoutFinding { table, held: judged.map(|of| of >= SHARE) })
    }

    /// Notes who sends; a sentence about it.
    fn told_senders(&self, record: &mut Record) -> String {
        record.parameter("sender", self.sender.name());
        match self.sender {
            LiveSender::Linux { .. } => {
                let congestion = congestion_control();
                record.parameter("tcp_congestion_control", congestion.as_deref());
                let name = congestion.as_deref().unwrap_or("unknown");
                format!("The streams have the system's congestion control, {name}.")
            }
            LiveSender::Simplified { .. } => {
                record.parameter("mtu", self.mtu).parameter("send_buffer", self.buffer);
                record.parameter("link", link_name(self.link));
                let (name, buffer) = (self.sender.name(), size_text(self.buffer as u64));
                format!(
                    "The streams are of the simplified TCP on one link ({name}, {}, MTU {} bytes, send buffers of {buffer}).",
                    link_name(self.link),
                    self.mtu
                )
            }
        }
    }

    /// Raises the limit of open files as far as it is needed: both ends of each stream are in this process, and are files where they are sockets.
    fn may_open(&self) -> Result<(), LabError> {
        let ends = 1 + usize::from(matches!(self.sender, LiveSender::Linux { .. }));
        let (streams, needed) = (self.streams, (ends * self.streams + OTHER_FILES) as u64);
        let files = allow_open_files(needed).context("the limit of open files")?;
        if files >= needed {
            return Ok(());
        }
        Err(LabError::Refused(format!(
            "--streams {streams}: needs {needed} open files, and the hard limit is {files} (ulimit -Hn)"
        )))
    }

    /// What one reader has of the discarding reader whose median is highest; the median of turns.
    fn of_fastest(
        readers: &[ReaderOfTrial],
        rates: &[Vec<f64>],
        own: ReaderOfTrial,
    ) -> Option<f64> {
        let both = || readers.iter().zip(rates);
        let (_, own) = both().find(|(of, _)| **of == own)?;
        let discards = both().filter(|(of, _)| matches!(of, ReaderOfTrial::Discards(_)));
        let median = |rates: &[f64]| Figure::of(rates, "Gb/s").map(|figure| figure.value);
        let fastest = discards.map(|(_, rates)| rates);
        let fastest =
            fastest.max_by(|a, b| median(a).unwrap_or(0.0).total_cmp(&median(b).unwrap_or(0.0)))?;
        let turns: Vec<f64> = own.iter().zip(fastest).map(|(own, other)| own / other).collect();
        median(&turns)
    }

    /// The first is the one that others are compared with.
    fn readers(&self) -> Vec<ReaderOfTrial> {
        let as_unit = (!DISCARDED.contains(&self.read)).then_some(self.read);
        let plain = DISCARDED.into_iter().chain(as_unit).map(ReaderOfTrial::Discards);
        let units = self.every.iter().map(|every| ReaderOfTrial::Merges(*every));
        plain.chain(units).chain([ReaderOfTrial::Runs]).collect()
    }

    /// Bytes a second.
    fn rate(
        &self,
        reader: ReaderOfTrial,
        around: Around<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<f64, LabError> {
        match reader {
            ReaderOfTrial::Discards(read) => self.discarded(read, around, stop),
            ReaderOfTrial::Merges(every) => self.merged(every, around, stop),
            ReaderOfTrial::Runs => self.whole(around, stop),
        }
    }

    /// Where the unit listens.
    fn address(&self, site: &ReadoutSite) -> String {
        format!("tcp://{}:0?read={}", site.reader(), self.read)
    }

    /// Bytes a second into a reader that drops them, `read` at most in one call.
    fn discarded(
        &self,
        read: u64,
        around: Around<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<f64, LabError> {
        let listener = around.0.listen()?;
        let to = listener.local_addr().context("the port")?;
        let senders = ReadoutSenders::start(to, self, around)?;
        let rate = self.read_and_drop(listener, read, &|| !stop() && !senders.failed());
        senders.end_after(rate, stop)
    }

    fn read_and_drop(
        &self,
        listener: TcpListener,
        read: u64,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<f64, LabError> {
        let mut set = SocketSet::new(self.streams.max(1)).context("epoll")?;
        let mut sockets = Vec::with_capacity(self.streams);
        for n in 0..self.streams {
            let socket = accept(&listener, goes_on)?;
            socket.set_nonblocking(true).context("a socket")?;
            set.add(socket.as_fd(), n as u64, false).context("epoll")?;
            sockets.push(socket);
        }
        let (mut buffer, mut bytes) = (vec![0; read as usize], 0u64);
        let mut clock = SteadyClock::new(self.time);
        let mut ready: Vec<usize> = (0..self.streams).collect();
        let mut is_ready = vec![true; self.streams];
        while clock.runs(bytes) && goes_on() {
            ready.retain(|&n| {
                let got = sockets[n].read(&mut buffer).unwrap_or(0);
                bytes += got as u64;
                is_ready[n] = got == buffer.len();
                is_ready[n]
            });
            let wait = Duration::from_millis(u64::from(ready.is_empty()));
            let tell = |n: u64, _| {
                if !std::mem::replace(&mut is_ready[n as usize], true) {
                    ready.push(n as usize);
                }
            };
            set.wait(wait, tell).context("epoll")?;
        }
        match bytes {
            0 => Err(anyhow!("nothing came").into()),
            _ => Ok(clock.rate()),
        }
    }

    /// The same into the unit, with the checksums of every `every`-th event.
    fn merged(
        &self,
        every: u32,
        around: Around<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<f64, LabError> {
        let address: TcpUrl = url::read(&self.address(around.0)).map_err(anyhow::Error::from)?;
        let opened = around.0.beside_reader(|| TcpSource::open(&address, FRAMING))?;
        let source = opened.map_err(anyhow::Error::from)?;
        let options = format!("sources = {}\ncrc_every = {every}", self.streams);
        let setup = Setup { options, ..Setup::default() };
        let kinds = builtin();
        let unit = kinds.find("fragments").context("the readout unit is registered")?;
        let unit = unit.configure(&setup).map_err(anyhow::Error::from)?;
        let want = Want { records: true, ..Want::default() };
        let mut decoder = unit.decoder(want, &Threads::of(1)).map_err(anyhow::Error::from)?;
        decoder.govern(source.streams().context("a source with streams")?);
        let to = source.local_addr().context("the port")?;
        let senders = ReadoutSenders::start(to, self, around)?;
        let goes_on = || !stop() && !senders.failed();
        let products = Products { want, ..Products::default() };
        let rate = self.read_and_merge(source, &mut *decoder, products, &goes_on);
        senders.end_after(rate, stop)
    }

    fn read_and_merge(
        &self,
        mut source: TcpSource,
        decoder: &mut dyn Decoder,
        mut products: Products,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<f64, LabError> {
        let mut batch = source.batch();
        let (mut clock, mut bytes, mut events) = (SteadyClock::new(self.time), 0u64, 0u64);
        // On a busy host the first of many streams may take as long as a short trial.
        let waits = |events: u64, records: &EventRecords, began: Instant| {
            events == 0 && records.number.is_empty() && began.elapsed() < SILENCE
        };
        while (clock.runs(bytes) || waits(events, &products.records, clock.began)) && goes_on() {
            source
                .recv(&mut batch, Duration::from_millis(1))
                .map_err(anyhow::Error::from)
                .context("receiving")?;
            let now = Nanos(clock.began.elapsed().as_nanos() as i64);
            decoder.decode((!batch.is_empty()).then_some(&batch), Some(now), &mut products);
            bytes += batch.bytes();
            // As the engine hands them over.
            if products.table_bytes() > 1 << 20 {
                looked(&products.records, &mut events)?;
                products.clear();
            }
        }
        looked(&products.records, &mut events)?;
        drop((batch, source));
        let ledger = Ledger::default();
        decoder.sheets().into_iter().for_each(|sheet| ledger.register(sheet));
        let entries = ledger.read();
        let balanced = || {
            ensure!(entries.balance() == 0, "the balance is {}", entries.balance());
            ensure!(entries.get("fragments.lost") == Some(0), "fragments are lost");
            ensure!(events > 0, "no event came");
            Ok(())
        };
        balanced()?;
        Ok(clock.rate())
    }
}

/// Bytes a second once streams and buffers have grown: [`WARM`] of a trial does not count.
struct SteadyClock {
    began: Instant,
    /// When the first bytes came: many streams and long fragments take their time to be made.
    came: Option<Instant>,
    time: Duration,
    /// When counting began, and the bytes by then.
    first: Option<(Instant, u64)>,
    /// The same of the last look.
    last: (Instant, u64),
}

impl SteadyClock {
    fn new(time: Duration) -> SteadyClock {
        let began = Instant::now();
        SteadyClock { began, came: None, time, first: None, last: (began, 0) }
    }

    /// So many bytes came; false: the trial is over.
    fn runs(&mut self, bytes: u64) -> bool {
        let now = Instant::now();
        self.last = (now, bytes);
        if bytes == 0 && now - self.began < SILENCE {
            return true;
        }
        let came = *self.came.get_or_insert(now);
        match self.first {
            None if now - came < WARM => true,
            None => {
                self.first = Some((now, bytes));
                true
            }
            Some((first, _)) => now - first < self.time,
        }
    }

    fn rate(&self) -> f64 {
        let (first, before) = self.first.unwrap_or((self.began, 0));
        let (last, bytes) = self.last;
        (bytes - before) as f64 / (last - first).as_secs_f64()
    }
}

/// Every event is complete, whole, and the one after the event before; `events`: those that were looked at.
fn looked(records: &EventRecords, events: &mut u64) -> Result<(), LabError> {
    // Checksums that were not looked at are what was asked for.
    if records.flags.iter().any(|of| of & !flags::UNCHECKED != 0) {
        return Err(anyhow!("a damaged or incomplete event").into());
    }
    for &number in &records.number {
        if number != *events {
            return Err(anyhow!("event {number} came where {events} is next").into());
        }
        *events += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second discarding reader is the faster one by its median, though not in every turn; shares are those of the same turn.
    #[test]
    fn unit_and_program_are_compared_with_the_fastest_reader_turn_by_turn() {
        let readers = [
            ReaderOfTrial::Discards(DISCARDED[0]),
            ReaderOfTrial::Discards(DISCARDED[1]),
            ReaderOfTrial::Merges(0),
            ReaderOfTrial::Merges(CHECKED),
            ReaderOfTrial::Runs,
        ];
        let rates = [
            vec![90.0, 90.0, 90.0],
            vec![100.0, 50.0, 200.0],
            vec![1.0, 1.0, 1.0],
            vec![95.0, 45.0, 150.0],
            vec![80.0, 45.0, 100.0],
        ];
        let of = |own| ReadoutTrial::of_fastest(&readers, &rates, own);
        assert_eq!(of(ReaderOfTrial::Merges(CHECKED)), Some(0.9));
        assert_eq!(of(ReaderOfTrial::Runs), Some(0.8));
        assert_eq!(of(ReaderOfTrial::Merges(1)), None);
    }
}
