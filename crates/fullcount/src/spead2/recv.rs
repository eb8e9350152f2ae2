//! `fullcount spead2 recv`: spead2_recv's options.
//!
//! Each source is a stream, on a thread of its own; with --joint all are one. Lines are printed as heaps come.

mod stream;

use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::Context;
use clap::Args;
use fullcount_core::source::{SourceOpening, SourceSetup};
use fullcount_engine::config::{ConfigError, refuse};
use fullcount_engine::registered;
use fullcount_engine::stop::Stop;
use fullcount_io::spead::{SpeadIntake, carrier};
use fullcount_spead::BugCompat;

use self::stream::{Shared, stream};
use super::{group, place, shown};
use crate::exit::Failure;
use crate::{note, say};

/// Takes the options of spead2_recv and receives the same heaps
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fullcount spead2 recv --quiet --packet 9000 --mem-pool 8888
  fullcount spead2 recv --joint --concurrent-heaps 8 239.1.2.3:8888 239.1.2.4:8888
  fullcount spead2 recv --descriptors run.pcap")]
pub struct Spead2Recv {
    /// [host]:port, a port, or a capture file
    #[arg(required = true, value_name = "[HOST]:PORT|FILE")]
    from: Vec<String>,
    /// Over TCP
    #[arg(long)]
    tcp: bool,
    /// PySPEAD's form of descriptors
    #[arg(long)]
    pyspead: bool,
    /// Address to listen at; of a group: the interface's
    #[arg(long, value_name = "ADDR")]
    bind: Option<String>,
    /// Largest packet, bytes [default: 9200; TCP: 65536]
    #[arg(long, value_name = "BYTES")]
    packet: Option<u64>,
    /// Socket buffer, bytes [default: 8388608; TCP: 212992]
    #[arg(long, value_name = "BYTES")]
    buffer: Option<u64>,
    /// Heaps that are put together at once
    #[arg(long, value_name = "N", default_value_t = 4)]
    concurrent_heaps: usize,
    /// Windows: heap number modulo this
    #[arg(long, value_name = "N", default_value_t = 1)]
    substreams: usize,
    /// Accepted: heaps are taken out as they come
    #[arg(long)]
    ring: bool,
    /// Places of the ring
    #[arg(long, value_name = "N", default_value_t = 4)]
    ring_heaps: usize,
    /// Memory pool
    #[arg(long)]
    mem_pool: bool,
    /// Smallest heap that takes a block of it, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16_384)]
    mem_lower: u64,
    /// Size of its blocks, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 33_554_432)]
    mem_upper: u64,
    /// Free blocks that it keeps
    #[arg(long, value_name = "N", default_value_t = 12)]
    mem_max_free: usize,
    /// Blocks made at once
    #[arg(long, value_name = "N", default_value_t = 8)]
    mem_initial: usize,
    /// Copy payloads past the cache (non-temporal stores)
    #[arg(long)]
    memcpy_nt: bool,
    /// Only the totals
    #[arg(long)]
    quiet: bool,
    /// Print descriptors
    #[arg(long)]
    descriptors: bool,
    /// All sources are one stream
    #[arg(long)]
    joint: bool,
    /// Accepted: each stream has one thread
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: u32,
    /// Own: so many sockets share the port and each has a buffer (UDP, no group); else 1, or up to
    /// 32 where the system grants less than --buffer
    #[arg(long, value_name = "N")]
    sockets: Option<u32>,
    /// Own: once packets have come, end when none comes for so long, so that a lost stop hangs
    /// nobody; 0: never, as spead2 [default: 30s; TCP and captures: never]
    #[arg(long, value_name = "TIME")]
    stall_timeout: Option<String>,
    /// Check the values of --verify of the sender
    #[arg(long)]
    verify: bool,
}

impl Spead2Recv {
    /// The equivalent URL: every option is in it.
    fn url(&self, from: &str) -> Result<String, ConfigError> {
        let bare = !from.is_empty() && from.bytes().all(|b| b.is_ascii_digit());
        let at = if bare { from.parse().ok().map(|port| ("", port)) } else { place(from) };
        let mut keys = self.keys();
        let Some((host, port)) = at else {
            if from.contains('?') {
                let takes = "a file without `?` in its name: a URL has its keys behind it; make a link with another name";
                return Err(refuse("FILE", from, takes));
            }
            return Ok(format!("spead+pcap:{from}?flat-out&{keys}"));
        };
        let host = self.listen(host)?;
        if self.stall_timeout.is_none() && !self.tcp {
            keys += &format!("&stall_timeout={}s", carrier::STALLED.as_secs());
        }
        let scheme = if self.tcp { "spead+tcp" } else { "spead+udp" };
        let packet = self.packet.unwrap_or(if self.tcp { 65_536 } else { 9200 }).max(56);
        let buffer = self.buffer.unwrap_or(if self.tcp { 212_992 } else { 8 << 20 });
        let mut url = format!("{scheme}://{host}:{port}?{keys}&max_packet={packet}B");
        if buffer > 0 {
            url += &format!("&receive_buffer={}B", buffer.max(4096));
        }
        match &self.bind {
            Some(bind) if !self.tcp && group(&host) => Ok(url + &format!("&interface={bind}")),
            _ => Ok(url),
        }
    }

    /// Where it listens: at a place with this host, or at --bind, which is an address of this host unless that one is a group.
    fn listen(&self, host: &str) -> Result<String, ConfigError> {
        let Some(bind) = self.bind.as_deref().filter(|_| self.tcp || !group(host)) else {
            return Ok(if host.is_empty() { "0.0.0.0" } else { host }.to_owned());
        };
        let bare = bind.trim_start_matches('[').trim_end_matches(']');
        let address: IpAddr = bare.parse().map_err(|_| {
            refuse("bind", bind, "an address of this host, 192.0.2.7 or 2001:db8::7")
        })?;
        let own = match address {
            IpAddr::V4(v4) => v4.to_string(),
            IpAddr::V6(v6) => format!("[{v6}]"),
        };
        let given = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
        match host {
            "" => Ok(own),
            _ if self.tcp => {
                Err(refuse("bind", bind, "with --tcp and HOST:PORT: HOST says where it listens"))
            }
            // As with spead2: 0.0.0.0 is what a bare port means.
            "0.0.0.0" => Ok(own),
            _ if given == Some(address) => Ok(own),
            _ => {
                let takes = format!("with {host}: that address; or the port alone, or a group");
                Err(refuse("bind", bind, takes))
            }
        }
    }

    /// Keys of every transport.
    fn keys(&self) -> String {
        let mut keys = format!(
            "compat=spead2&max_heaps={}&substreams={}&ring_heaps={}&incomplete",
            self.concurrent_heaps, self.substreams, self.ring_heaps
        );
        keys += &match self.mem_pool {
            // spead2 keeps the first blocks even if there are more than it keeps later.
            true => format!(
                "&pool={}&pool_lower={}B&pool_upper={}B&pool_initial={}",
                self.mem_max_free.max(self.mem_initial),
                self.mem_lower.max(1),
                self.mem_upper,
                self.mem_initial
            ),
            false => "&pool=0".to_owned(),
        };
        if self.memcpy_nt {
            keys += "&streaming=1";
        }
        if let Some(sockets) = self.sockets {
            keys += &format!("&sockets={sockets}");
        }
        if let Some(time) = &self.stall_timeout {
            keys += &format!("&stall_timeout={time}");
        }
        keys + if self.pyspead { "&pyspead" } else { "" }
    }

    fn compat(&self) -> BugCompat {
        if self.pyspead { BugCompat::PYSPEAD } else { BugCompat::default() }
    }
}

/// Receives until all streams have stopped.
pub fn recv(flags: &Spead2Recv) -> Result<u8, Failure> {
    let mut texts = flags.from.iter().map(|from| flags.url(from)).collect::<Result<Vec<_>, _>>()?;
    if flags.joint {
        // The first stop or end of any reader ends the stream, as spead2 has it.
        texts.iter_mut().skip(1).for_each(|text| text.push_str("&senders=0"));
    }
    let setup = SourceSetup::plain(registered::sources());
    let together = if flags.joint { texts.len() } else { 1 };
    let planned = texts.chunks(together.max(1)).map(|texts| carrier::plan_stream(texts, &setup));
    let streams = planned.collect::<Result<Vec<_>, _>>().map_err(ConfigError::from)?;
    for (text, (_, inner)) in texts.iter().zip(streams.iter().flatten()) {
        let there = inner.as_ref().map_or(Ok(()), |inner| inner.is_there());
        there.map_err(|cause| Failure::Wrong(format!("{text}: {cause}")))?;
    }
    for texts in texts.chunks(together.max(1)) {
        let mut same = vec!["fullcount".to_owned(), "receive".into()];
        same.extend(texts.iter().cloned());
        same.extend(flags.verify.then(|| "--verify".to_owned()));
        note!("{}", shown(&same));
    }
    for (given, why) in [
        (flags.ring, "--ring has no effect: heaps are taken out as they come"),
        (flags.threads != 1, "--threads has no effect: each stream has one thread"),
    ] {
        if given {
            note!("{why}");
        }
    }
    // Before the signals: a named pipe without a writer keeps this waiting, and an interrupt must end it.
    let opened = streams.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let shared = Shared::new(flags, stop);
    opened.iter().flat_map(SpeadIntake::describe).for_each(|fact| note!("{fact}"));
    let outcomes: Vec<Result<bool, Failure>> = std::thread::scope(|scope| {
        let all: Vec<_> =
            opened.into_iter().map(|intake| scope.spawn(|| stream(intake, &shared))).collect();
        let panicked = |_| Err(anyhow::anyhow!("a stream panicked").into());
        all.into_iter().map(|one| one.join().unwrap_or_else(panicked)).collect()
    });
    let right = outcomes.into_iter().collect::<Result<Vec<bool>, _>>()?;
    if right.contains(&false) {
        return Ok(1);
    }
    let (heaps, statistics) = shared.totals.into_inner().unwrap_or_default();
    say!("Received {heaps} heaps");
    // spead2 has no chunks here, so its list ends before them.
    for (name, _, value) in statistics.entries().take(9) {
        say!("{name}: {value}");
    }
    // As `receive` has it: something that was sent is not there.
    Ok(if shared.stalled.load(Relaxed) { 3 } else { 0 })
}

fn open(planned: Vec<carrier::PlannedSpead>) -> Result<SpeadIntake, Failure> {
    let (urls, inner): (Vec<_>, Vec<_>) = planned.into_iter().unzip();
    Ok(SpeadIntake::open(&urls, &inner, &SourceOpening::PLAIN).map_err(anyhow::Error::from)?)
}
