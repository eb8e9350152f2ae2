//! `fullcount send --source heaps`: SPEAD heaps of test values.
//!
//! Several destinations are those of one stream: heap i goes to number i mod their count. Refuses sizes and rates that cannot be.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};

use anyhow::Context;
use clap::Args;
use fullcount_engine::config::{ConfigError, refuse};
use fullcount_engine::open::check_core;
use fullcount_engine::stop::Stop;
use fullcount_engine::summary::grouped;
use fullcount_io::quantity::{self, Rate};
use fullcount_io::spead::{HeapsJob, HeapsSent, SpeadOutlet, carry};
use fullcount_lab::send::SendProgress;
use fullcount_spead::feedback::TunerDecision;
use serde_json::json;

use super::rate::SendRate;
use super::{SendFlags, report};
use crate::exit::Failure;
use crate::{note, say};

/// What heaps are sent.
#[derive(Debug, Clone, Args)]
pub struct HeapFlags {
    /// Source heaps: payload of a heap
    #[arg(long, value_name = "SIZE", default_value = "4MiB", help_heading = "Heaps (SPEAD)")]
    heap_size: String,
    /// Source heaps: items of a heap, of 32-bit numbers, ids 0x1000 and up
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Heaps (SPEAD)")]
    items: usize,
    /// Source heaps: end after this many heaps, e.g. 50k
    #[arg(long, value_name = "N", help_heading = "Heaps (SPEAD)")]
    heaps: Option<String>,
    /// Source heaps: values that `receive --verify` and spead2_recv --verify check
    #[arg(long, help_heading = "Heaps (SPEAD)")]
    verify: bool,
    /// Source heaps: number of the first heap
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Heaps (SPEAD)")]
    first_heap: u64,
    /// Source heaps: from one heap's number to the next one's; several senders of one stream take their count
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Heaps (SPEAD)")]
    heap_step: u64,
    /// Source heaps, with `feedback`: before the stop heap, wait at most so long until the receiver has all heaps, and
    /// send again what it asks for [default: 500ms]
    #[arg(long, value_name = "TIME", help_heading = "Heaps (SPEAD)")]
    linger: Option<String>,
}

/// Its name as a source.
pub const SOURCE: &str = "heaps";

/// A rate of SPEAD bytes per second; 0: no limit.
fn rate(text: Option<&str>, wire: bool) -> Result<f64, Failure> {
    let Some(text) = text else { return Ok(0.0) };
    match SendRate::read(text)? {
        SendRate::Link(Rate::Bits(bits)) if !wire => Ok(bits / 8.0),
        _ => {
            let why = "heaps have a rate in bits of SPEAD packets, e.g. 10Gbps";
            Err(refuse("rate", text, why).into())
        }
    }
}

impl SendFlags {
    fn heaps_job(&self) -> Result<HeapsJob, Failure> {
        let own = &self.heaps;
        let size = quantity::size(&own.heap_size);
        let heaps = own
            .heaps
            .as_ref()
            .map(|n| quantity::count(n).map_err(|e| refuse("heaps", n, e.to_string())));
        let time = |key, text: Option<&String>| {
            let read =
                |t: &String| quantity::duration(t).map_err(|e| refuse(key, t, e.to_string()));
            text.map(read).transpose()
        };
        if own.heap_step == 0 {
            return Err(refuse("heap-step", 0, "at least 1").into());
        }
        let job = HeapsJob {
            heap_size: size.map_err(|e| refuse("heap-size", &own.heap_size, e.to_string()))?,
            items: own.items,
            heaps: heaps.transpose()?,
            verify: own.verify,
            duration: time("duration", self.what.duration.as_ref())?,
            linger: time("linger", own.linger.as_ref())?.unwrap_or(HeapsJob::default().linger),
            numbers: (own.first_heap, own.heap_step),
            ..HeapsJob::default()
        };
        job.check().map_err(ConfigError::from)?;
        Ok(job)
    }
}

/// Sends until the heaps or the duration end, or Ctrl-C.
pub fn send(flags: &SendFlags) -> Result<u8, Failure> {
    let urls = carry::plan_all(&flags.to).map_err(ConfigError::from)?;
    let mut job = flags.heaps_job()?;
    if let Some(first) = urls.first() {
        (job.flavour, job.descriptors) = (first.told.flavour, first.told.descriptors);
        job.compat = first.told.compat;
    }
    if flags.heaps.linger.is_some() && urls.iter().all(|url| url.told.feedback.is_none()) {
        note!("--linger has no effect without feedback= in the URL: nobody says what is missing");
    }
    let rate = rate(flags.what.rate.as_deref(), flags.what.wire_rate)?;
    check_core("core", flags.what.core)?;
    let mut outlet = SpeadOutlet::open(&urls, rate).map_err(anyhow::Error::from)?;
    outlet.describe().iter().for_each(|fact| note!("{fact}"));
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let progress = Arc::new(SendProgress::default());
    let (teller, decisions) = mpsc::channel();
    if let Some(back) = outlet.back_mut() {
        back.tell_decisions(teller);
    }
    let (told, ending, core) = (progress.clone(), stop.clone(), flags.what.core);
    let sender = std::thread::Builder::new().name("send".into()).spawn(move || {
        if let Some(core) = core
            && let Err(e) = fullcount_io::sys::pin_thread(core)
        {
            note!("fullcount: cannot pin to CPU {core}: {e}");
        }
        let sent = job.run(&mut outlet, &|| ending.requested(), &|counts| {
            told.packets.store(counts.packets, Relaxed);
            told.bytes.store(counts.packet_bytes, Relaxed);
        });
        (sent, outlet)
    });
    let sender = sender.context("starting the sender")?;
    // Looked at before the decisions, so that the last one is told.
    let finished = || {
        let finished = sender.is_finished();
        decisions.try_iter().for_each(|decision| tell_decision(&decision));
        finished
    };
    report::watch(&progress, finished);
    let (sent, outlet) = sender.join().map_err(|_| anyhow::anyhow!("the sender panicked"))?;
    let sent = sent.map_err(anyhow::Error::from)?;
    tell(flags, &sent, &outlet);
    Ok(if sent.counts.failed_packets > 0 { 3 } else { 0 })
}

/// A line of the tuner's log, when it is decided.
fn tell_decision(decision: &TunerDecision) {
    let TunerDecision { time_ns, from, to, why, loss, .. } = decision;
    let (from, to) = (from * 8e-9, to * 8e-9);
    let at = *time_ns as f64 / 1e9;
    note!("{at:>8.3} s  {from:.3} -> {to:.3} Gbit/s  {why:?}  loss {loss:.2e}");
}

fn tell(flags: &SendFlags, sent: &HeapsSent, outlet: &SpeadOutlet) {
    let (counts, transport) = (sent.counts, sent.transport);
    let text = format!(
        "sent {} heaps: {} bytes of payload, {} of SPEAD in {} packets, {} taken by the system in {:.3} s: {:.3} Gbit/s",
        grouped(sent.heaps),
        grouped(counts.payload_bytes),
        grouped(counts.packet_bytes),
        grouped(counts.packets),
        grouped(transport.bytes),
        sent.seconds,
        sent.gbps(),
    );
    if !flags.json {
        say!("{text}");
        return;
    }
    note!("{text}");
    let back = outlet.back().map(|back| {
        let counts = back.counts();
        json!({
            "reports": counts.reports, "requests": counts.requests, "refused": counts.refused, "foreign": counts.foreign,
            "rate_gbps": back.rate().map(|rate| rate * 8e-9),
            "decisions": back.log().map(|d| json!({
                "seconds": d.time_ns as f64 / 1e9, "from_gbps": d.from * 8e-9, "to_gbps": d.to * 8e-9,
                "why": format!("{:?}", d.why).to_ascii_lowercase(), "loss": d.loss,
            })).collect::<Vec<_>>(),
            "decisions_left_out": back.forgotten(),
        })
    });
    let mut summary = json!({
        "schema": "fullcount/summary/1", "verb": "send", "seconds": sent.seconds,
        "heaps": {"sent": sent.heaps, "unfinished": counts.unfinished_heaps},
        "packets": {"sent": counts.packets, "again": counts.resent_packets, "failed": counts.failed_packets},
        "bytes": {
            "payload": counts.payload_bytes, "spead": counts.packet_bytes, "transport": transport.bytes,
            // null: the link is not known, as on TCP, where `segments` is the kernel's own count.
            "frames": counts.frame_bytes, "link": counts.link_bytes,
        },
        "rates": {"gbps": sent.gbps(), "heaps_per_s": sent.heaps as f64 / sent.seconds.max(1e-9)},
        "counters": {"send.datagrams": transport.packets, "send.calls": transport.calls},
    });
    if let (Some(bytes), Some(again)) = (transport.sent_bytes, transport.again_bytes) {
        summary["bytes"]["segments"] = json!(bytes);
        summary["bytes"]["segments_again"] = json!(again);
    }
    if let Some(back) = back {
        summary["feedback"] = back;
    }
    say!("{summary}");
}
