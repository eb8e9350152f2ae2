//! `fullcount lab capacity`: links, cores, hosts, partitions and disk for an instrument, from measured costs, and a small
//! simulation of one worker's queues and spool through pulses and an outage of the brokers.
//!
//! Refuses, before anything is computed: unknown instruments (with the names that there are), values out of range, and
//! files without measured costs.

mod flags;

use anyhow::Context;
use fullcount_engine::config::{ConfigError, refuse};
use fullcount_engine::stop::Stop;
use fullcount_io::input_file;
use fullcount_io::quantity::{self, Rate};
use fullcount_lab::bench::costs;
use fullcount_lab::capacity::instrument::{Instrument, InstrumentKind};
use fullcount_lab::capacity::measured::MeasuredRates;
use fullcount_lab::capacity::plan::{Wishes, bound};
use fullcount_lab::capacity::queues::Sizes;
use fullcount_lab::capacity::{CapacityError, compute};

pub use self::flags::LabCapacityFlags;
use super::read::{bits, rate, read};
use crate::exit::Failure;
use crate::{say, tell};

/// Usual name of the results.
const NAME: &str = "capacity";

fn wrong(e: CapacityError) -> Failure {
    Failure::Wrong(e.to_string())
}

/// What the instrument sends a second: events of its detector, or bare packets.
fn per_second(key: &'static str, text: &str, kind: &InstrumentKind) -> Result<f64, ConfigError> {
    if kind.detector().is_some() {
        return read(key, text, quantity::events_per_second);
    }
    match rate(key, text)? {
        Rate::Packets(packets) => Ok(packets),
        Rate::Bits(_) => Err(refuse(key, text, "packets a second such as 5Mpps")),
    }
}

impl LabCapacityFlags {
    fn instruments(&self) -> Result<Vec<Instrument>, Failure> {
        let mut all = vec![];
        for name in &self.instrument {
            all.extend(compute::instruments(name)?);
        }
        let s = &self.stream;
        let own = [("rate", &s.rate), ("peak", &s.peak)];
        if let (Some((key, Some(value))), 2..) = (own.iter().find(|(_, v)| v.is_some()), all.len())
        {
            return Err(refuse(key, value, "only with one --instrument").into());
        }
        for i in &mut all {
            if let Some(text) = &s.rate {
                i.rate = Some(per_second("rate", text, &i.kind)?);
                i.source += "; rate as given by --rate";
            }
            if let Some(text) = &s.peak {
                i.peak = Some(per_second("peak", text, &i.kind)?);
            }
            if i.kind != InstrumentKind::Packets {
                i.bytes_per_event = s.bytes_per_event.or(i.bytes_per_event);
            }
            i.compress_factor = s.compress_factor.unwrap_or(i.compress_factor);
            i.check().map_err(wrong)?;
            if i.peak.is_some() && i.rate.is_none() {
                let why = "together with --rate, as the instrument's is not known";
                return Err(refuse("peak", s.peak.as_deref().unwrap_or("given"), why).into());
            }
        }
        Ok(all)
    }

    fn facts(&self) -> Result<MeasuredRates, Failure> {
        let mut facts = match self.no_committed {
            true => MeasuredRates::default(),
            false => compute::committed().map_err(wrong)?,
        };
        for path in &self.measured {
            let name = path.display().to_string();
            let text = input_file::text(path, input_file::LARGEST_INPUT)
                .map_err(|e| refuse("measured", &name, format!("a file that can be read ({e})")))?;
            // The folder says nothing about the number.
            let short = path.file_name().map_or(name.clone(), |n| n.to_string_lossy().into_owned());
            facts.read(&short, &text).map_err(wrong)?;
        }
        Ok(facts)
    }

    fn wishes(&self, facts: &MeasuredRates) -> Result<Wishes, Failure> {
        let (s, h) = (&self.stream, &self.hosts);
        let host_cores = h.host_cores.or(facts.cpus).unwrap_or(1);
        let produce = match &self.producer_rate {
            Some(text) => Some(bits("producer-rate", text)? / 8.0),
            None => None,
        };
        let size_for_peak = match h.size_for.as_str() {
            "average" => false,
            "peak" => true,
            other => return Err(refuse("size-for", other, "average or peak").into()),
        };
        let wishes = Wishes {
            headroom: h.headroom,
            peak_factor: s.peak_factor.unwrap_or(bound()),
            threads: h.threads,
            host_cores,
            reserve: h.reserve_cores.unwrap_or(u64::from(host_cores > 1)),
            port: bits("port", &h.port)?,
            ports: h.ports,
            message_events: s.message_events,
            message_bytes: 0.0,
            replication: s.replication,
            retention_s: read("retention", &s.retention, quantity::duration)?.as_secs_f64(),
            outage_s: read("outage", &self.queues.outage, quantity::duration)?.as_secs_f64(),
            produce,
            size_for_peak,
        };
        wishes.check().map_err(wrong)?;
        let message_bytes = compute::message_bytes(wishes.message_events)?;
        Ok(Wishes { message_bytes, ..wishes })
    }

    fn sizes(&self, wishes: &Wishes) -> Result<Sizes, Failure> {
        let q = &self.queues;
        let size = |key, text: &String, least: u64| {
            let bytes = read(key, text, quantity::size)?;
            match bytes >= least {
                true => Ok(bytes),
                false => Err(refuse(key, text, format!("{} and more", quantity::size_text(least)))),
            }
        };
        if !(1..=4096).contains(&q.queue) {
            return Err(refuse("queue", q.queue, "1 to 4096 batches").into());
        }
        let step_s = read("step", &q.step, quantity::duration)?.as_secs_f64();
        if !(10e-6..=1e-3).contains(&step_s) {
            return Err(refuse("step", &q.step, "10us to 1ms").into());
        }
        // 72 million steps of a few ns.
        if wishes.outage_s > 3600.0 {
            return Err(refuse("outage", &q.outage, "at most 1h, as it is simulated").into());
        }
        Ok(Sizes {
            receive_buffer: size("receive-buffer", &q.receive_buffer, 4096)?,
            queue: q.queue,
            spool: size("spool-size", &q.spool_size, 16 << 20)?,
            step_s,
            outage_s: wishes.outage_s,
            seed: q.seed,
        })
    }
}

/// Computes and prints.
pub fn capacity(flags: LabCapacityFlags) -> Result<u8, Failure> {
    if flags.list {
        tell!("{}", compute::list());
        return Ok(0);
    }
    let instruments = flags.instruments()?;
    let mut facts = flags.facts()?;
    let wishes = flags.wishes(&facts)?;
    let sizes = flags.sizes(&wishes)?;
    let parts = flags.measure.parts()?;
    let results = flags.result.results();
    let mut record = results.begin(NAME)?;
    if let Some(parts) = parts {
        let stop = Stop::on_signals().context("installing the signal handlers")?;
        let (folder, overwrite) = (&results.folder, results.overwrite);
        let measured = costs::measure(&parts, folder, overwrite, &stop, say::line)?;
        facts.read("capacity-measured.json (now)", &measured.to_string()).map_err(wrong)?;
    }
    let text = compute::compute(&instruments, &facts, &wishes, sizes, &mut record)?;
    flags.result.computed(&record, "What an instrument needs", &text)?;
    Ok(0)
}
