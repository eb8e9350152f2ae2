//! `fullcount spead2 send`: spead2_send's options.

use anyhow::Context;
use clap::Args;
use fullcount_engine::config::{ConfigError, refuse};
use fullcount_engine::stop::Stop;
use fullcount_io::spead::{HeapsJob, SpeadOutlet, carry};
use fullcount_spead::{BugCompat, Flavour};

use super::{group, place, shown};
use crate::exit::Failure;
use crate::{note, say};

/// Takes the options of spead2_send and sends the same heaps
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fullcount spead2 send --heaps 1000 --rate 5 --packet 8972 127.0.0.1:8888
  fullcount spead2 send --tcp --heap-size 8388608 192.0.2.1:8888")]
pub struct Spead2Send {
    /// host:port; heap i goes to number i mod their count
    #[arg(required = true, value_name = "HOST:PORT")]
    to: Vec<String>,
    /// Payload of a heap, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 4_194_304)]
    heap_size: u64,
    /// Items of a heap
    #[arg(long, value_name = "N", default_value_t = 1)]
    items: usize,
    /// Data heaps; -1: endless
    #[arg(long, value_name = "N", default_value_t = -1, allow_negative_numbers = true)]
    heaps: i64,
    /// Fill with values that can be checked
    #[arg(long)]
    verify: bool,
    /// Over TCP
    #[arg(long)]
    tcp: bool,
    /// PySPEAD's form of descriptors
    #[arg(long)]
    pyspead: bool,
    /// Bits of an address
    #[arg(long, value_name = "N", default_value_t = 40)]
    addr_bits: u32,
    /// Largest packet, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1472)]
    packet: u64,
    /// Local address; to a group: the interface's
    #[arg(long, value_name = "ADDR")]
    bind: Option<String>,
    /// Socket buffer, bytes [default: 524288; TCP: 212992]
    #[arg(long, value_name = "BYTES")]
    buffer: Option<u64>,
    /// Bytes of a burst
    #[arg(long, value_name = "BYTES", default_value_t = 65_536)]
    burst: u64,
    /// How much faster than the rate it may catch up
    #[arg(long, value_name = "X", default_value_t = 1.05)]
    burst_rate_ratio: f64,
    /// Heaps in flight
    #[arg(long, value_name = "N", default_value_t = 4)]
    max_heaps: usize,
    /// SW, HW or AUTO, in any case; here the rate is always kept in software
    #[arg(long, value_name = "METHOD", default_value = "AUTO")]
    rate_method: String,
    /// Gb/s of SPEAD bytes; 0: no limit
    #[arg(long, value_name = "GBPS", default_value_t = 0.0)]
    rate: f64,
    /// TTL of multicast
    #[arg(long, value_name = "N", default_value_t = 1)]
    ttl: u8,
}

impl Spead2Send {
    fn url(&self, to: &str) -> Result<String, ConfigError> {
        let (host, port) = place(to)
            .filter(|(host, _)| !host.is_empty())
            .ok_or_else(|| refuse("destination", to, "HOST:PORT"))?;
        let scheme = if self.tcp { "spead+tcp" } else { "spead+udp" };
        let buffer = self.buffer.unwrap_or(if self.tcp { 212_992 } else { 524_288 });
        let mut url = format!("{scheme}://{host}:{port}?packet={}B", self.packet);
        url += &format!(
            "&flavour={}&burst={}B&burst_ratio={}&max_heaps={}",
            self.addr_bits,
            self.burst.max(1),
            self.burst_rate_ratio,
            self.max_heaps
        );
        if buffer > 0 {
            url += &format!("&send_buffer={}B", buffer.max(4096));
        }
        if self.pyspead {
            url += "&pyspead";
        }
        let group = !self.tcp && group(host);
        if group {
            url += &format!("&ttl={}", self.ttl);
        }
        if let Some(bind) = &self.bind {
            // To a group it is the way out; else it is where packets come from.
            url += &format!("&{}={bind}", if group { "interface" } else { "bind" });
        }
        Ok(url)
    }

    fn job(&self) -> Result<HeapsJob, ConfigError> {
        if self.heaps < -1 {
            return Err(refuse("heaps", self.heaps, "a number, or -1: endless"));
        }
        // Far above what is allowed it is refused below, not multiplied.
        let whole = 4 * self.items.clamp(1, 1 << 20) as u64;
        let heap_size = self.heap_size / whole * whole;
        if heap_size != self.heap_size {
            note!(
                "Heap size is not an exact multiple: using {heap_size} instead of {}",
                self.heap_size
            );
        }
        let compat = if self.pyspead { BugCompat::PYSPEAD } else { BugCompat::default() };
        let flavour = Flavour::new(self.addr_bits)
            .map_err(|e| refuse("addr-bits", self.addr_bits, e.to_string()))?;
        let job = HeapsJob {
            heap_size,
            items: self.items,
            heaps: u64::try_from(self.heaps).ok(),
            verify: self.verify,
            flavour,
            compat,
            ..HeapsJob::default()
        };
        job.check()?;
        Ok(job)
    }
}

/// Sends.
pub fn send(flags: &Spead2Send) -> Result<u8, Failure> {
    let method = flags.rate_method.to_ascii_uppercase();
    if !["SW", "HW", "AUTO"].contains(&method.as_str()) {
        return Err(refuse("rate-method", &flags.rate_method, "SW, HW or AUTO").into());
    }
    if !(flags.rate >= 0.0 && flags.rate <= 1e5) {
        return Err(refuse("rate", flags.rate, "0 (no limit) to 100000 Gb/s").into());
    }
    if flags.tcp && flags.to.len() > 1 {
        return Err(
            refuse("destination", flags.to.join(" "), "one: TCP has a single destination").into()
        );
    }
    if method != "AUTO" {
        note!("--rate-method has no effect: the rate is kept in software");
    }
    let job = flags.job()?;
    let texts = flags.to.iter().map(|to| flags.url(to)).collect::<Result<Vec<_>, _>>()?;
    let urls = texts.iter().map(|text| carry::plan(text)).collect::<Result<Vec<_>, _>>();
    let urls = urls.map_err(ConfigError::from)?;
    let mut same: Vec<String> =
        ["fullcount", "send", "--source", "heaps"].map(str::to_owned).into();
    texts.into_iter().for_each(|text| same.extend(["--to".to_owned(), text]));
    same.extend([
        "--heap-size".to_owned(),
        format!("{}B", job.heap_size),
        "--items".into(),
        job.items.to_string(),
    ]);
    if let Some(heaps) = job.heaps {
        same.extend(["--heaps".to_owned(), heaps.to_string()]);
    }
    if flags.rate > 0.0 {
        same.extend(["--rate".to_owned(), format!("{}Gbps", flags.rate)]);
    }
    same.extend(job.verify.then(|| "--verify".to_owned()));
    note!("{}", shown(&same));
    let mut outlet =
        SpeadOutlet::open(&urls, flags.rate * 1e9 / 8.0).map_err(anyhow::Error::from)?;
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let sent = job.run(&mut outlet, &|| stop.requested(), &|_| {}).map_err(anyhow::Error::from)?;
    say!(
        "Sent {} bytes in {:.6} seconds, {:.6} Gb/s",
        sent.counts.packet_bytes,
        sent.seconds,
        sent.gbps()
    );
    Ok(if sent.counts.failed_packets > 0 { 1 } else { 0 })
}
