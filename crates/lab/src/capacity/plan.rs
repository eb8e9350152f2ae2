//! The arithmetic: from an instrument and measured costs to links, cores, hosts, partitions and disk.
//!
//! Every load is computed twice: for the average over pulses, and for the 1 ms at the peak of a pulse. Cores are those
//! of the measured host. A share of links and of measured rates is left free ([`Wishes::headroom`]). Refuses: values
//! out of range, and a detector that nothing was measured of.

use fullcount_core::link::Wire;

use super::instrument::{ESS_HZ, ESS_PULSE_S, Instrument, InstrumentKind};
use super::measured::{Measure, MeasuredDecoder, MeasuredRates};
use super::{CapacityError, out_of_range};

/// Bytes that an event takes in a message and in a file: pixel and time, 4 each.
pub const EVENT_BYTES: f64 = 8.0;
/// Bytes that a pulse takes in a file: its time and the place of its first event, 8 each.
pub const PULSE_BYTES: f64 = 16.0;
/// Speeds that links are counted in, bit/s.
pub const SPEEDS: [f64; 3] = [10e9, 25e9, 100e9];
/// What rates are computed for where an instrument's own is not known.
pub const UNIT_RATE: f64 = 1e6;
/// Length of the peak, seconds.
pub const PEAK_S: f64 = 1e-3;

/// What is asked for beside the instrument.
#[derive(Debug, Clone, PartialEq)]
pub struct Wishes {
    /// Share of links and of measured rates that may be used, 0.1 to 1.
    pub headroom: f64,
    /// Rate in the 1 ms of the peak in units of the average, where the instrument does not say.
    pub peak_factor: f64,
    /// Threads of a worker: 1 receives and decodes, 2 share that.
    pub threads: u32,
    /// Cores of a host.
    pub host_cores: u64,
    /// Of these, cores left to the system.
    pub reserve: u64,
    /// Speed of a host's port, bit/s.
    pub port: f64,
    /// Ports of a host.
    pub ports: u64,
    /// Most events of a message.
    pub message_events: u64,
    /// Bytes of a message beside its events.
    pub message_bytes: f64,
    /// Copies that brokers keep.
    pub replication: u64,
    /// Time that they keep them, seconds.
    pub retention_s: f64,
    /// Outage of the brokers that the spool bridges, seconds.
    pub outage_s: f64,
    /// Bytes a second to one partition, where it was not measured.
    pub produce: Option<f64>,
    /// Hosts are counted for the peak, not for the average.
    pub size_for_peak: bool,
}

impl Default for Wishes {
    fn default() -> Wishes {
        Wishes {
            headroom: 0.8,
            peak_factor: bound(),
            threads: 1,
            host_cores: 4,
            reserve: 1,
            port: 25e9,
            ports: 1,
            message_events: 12_400,
            message_bytes: 0.0,
            replication: 3,
            retention_s: 86_400.0,
            outage_s: 60.0,
            produce: None,
            size_for_peak: false,
        }
    }
}

/// Largest peak that a pulse can have: as if all of its neutrons came within the length of the source's pulse, 25 times
/// the average. Flight spreads them, so that an instrument's own peak is lower.
pub fn bound() -> f64 {
    1.0 / (ESS_HZ * ESS_PULSE_S)
}

impl Wishes {
    /// Every value is in its range.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), CapacityError> {
        let between = |key, value: f64, least: f64, most: f64| match (least..=most).contains(&value)
        {
            true => Ok(()),
            false => Err(out_of_range(key, value, format!("{least} to {most}"))),
        };
        between("headroom", self.headroom, 0.1, 1.0)?;
        between("peak-factor", self.peak_factor, 1.0, 1000.0)?;
        between("threads", f64::from(self.threads), 1.0, 2.0)?;
        between("host-cores", self.host_cores as f64, 1.0, 4096.0)?;
        between("reserve-cores", self.reserve as f64, 0.0, self.host_cores as f64 - 1.0)?;
        between("port", self.port, 1e6, 1e13)?;
        between("ports", self.ports as f64, 1.0, 64.0)?;
        between("message-events", self.message_events as f64, 1.0, 1e6)?;
        between("replication", self.replication as f64, 1.0, 9.0)?;
        between("retention", self.retention_s, 60.0, 366.0 * 86_400.0)?;
        between("outage", self.outage_s, 0.001, 86_400.0)?;
        between("producer-rate", self.produce.unwrap_or(1e6), 1e3, 1e12)
    }
}

/// What must be carried at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityLoad {
    /// Events a second; 0 where packets are only received.
    pub events: f64,
    /// Payload bytes a second.
    pub bytes: f64,
    /// Packets a second.
    pub packets: f64,
    /// Bits a second on the wire, frames whole.
    pub wire_bits: f64,
    /// Links of [`SPEEDS`].
    pub links: [u64; 3],
    /// Cores' worth of receiving; `None`: not measured.
    pub receive: Option<f64>,
    /// Cores' worth of making events.
    pub process: f64,
    /// Cores' worth of making messages; `None`: not measured.
    pub encode: Option<f64>,
    /// Workers, by what one carries without loss over UDP; `None`: not measured.
    pub workers: Option<u64>,
    /// Cores in all.
    pub cores: u64,
    /// Hosts, by cores and by ports.
    pub hosts: [u64; 2],
}

impl CapacityLoad {
    /// Hosts that do for both cores and ports.
    pub fn all_hosts(&self) -> u64 {
        self.hosts[0].max(self.hosts[1])
    }
}

/// What goes out.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityOutput {
    /// Messages a second.
    pub messages: f64,
    /// Bytes a second on the topic, before compression.
    pub topic: f64,
    /// Bytes a second on the topic, compressed.
    pub sent: f64,
    /// Partitions; `None`: what one takes was not measured.
    pub partitions: Option<u64>,
    /// Bytes on the brokers' disks an hour, all copies.
    pub hour: f64,
    /// The same for as long as they are kept.
    pub kept: f64,
    /// Bytes that wait after the outage, in all spools.
    pub spool: f64,
    /// Bytes a second of the file, before compression.
    pub file: f64,
    /// Share of the measured disk that the file takes.
    pub disk: Option<f64>,
}

/// The result for one instrument.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityPlan {
    /// The instrument.
    pub instrument: Instrument,
    /// The wishes.
    pub wishes: Wishes,
    /// True where the rate is not known: all is for [`UNIT_RATE`].
    pub unit: bool,
    /// Peak in units of the average.
    pub factor: f64,
    /// Bytes of a packet.
    pub packet_bytes: f64,
    /// Events of a packet at this instrument's bytes an event; 1 where packets are only received.
    pub events_per_packet: f64,
    /// Payload bytes an event by the plan and by the format; the larger one counts.
    pub event_bytes: [Option<f64>; 2],
    /// Over pulses.
    pub average: CapacityLoad,
    /// In the peak.
    pub peak: CapacityLoad,
    /// Instances of one worker, each with a producer and a spool: by what a worker carries, and by what a producer does.
    pub workers: u64,
    /// What goes out; `None`: no events.
    pub output: Option<CapacityOutput>,
    /// Packets a second that one worker carries, and where that is from.
    pub worker: Measure,
    /// Packets a second that one core receives; `None`: not measured.
    pub receiver: Option<Measure>,
    /// What could not be computed, and why.
    pub missing: Vec<String>,
}

/// The decoder's costs at an instrument's number of events a packet.
struct Costs<'a> {
    decoder: Option<&'a MeasuredDecoder>,
    receiver: Option<Measure>,
    worker: Option<Measure>,
    encode: Option<f64>,
}

/// Works it out.
///
/// # Errors
/// Values out of range, and a detector that nothing was measured of.
pub fn plan(
    instrument: &Instrument,
    facts: &MeasuredRates,
    wishes: &Wishes,
) -> Result<CapacityPlan, CapacityError> {
    instrument.check()?;
    wishes.check()?;
    let factor = factor(instrument, wishes)?;
    let decoder = instrument.kind.costs().map(|name| facts.of(name)).transpose()?;
    let mut missing: Vec<String> = instrument.kind.assumption().into_iter().collect();
    let unit = instrument.rate.is_none();
    if unit {
        missing.push(format!("rate: {}", super::instrument::NOT_GIVEN));
    }
    let rate = instrument.rate.unwrap_or(UNIT_RATE);
    // The instrument's own packet size, else that of the measured ones.
    let measured = decoder.map_or(0.0, |d| d.packet_bytes);
    let packet_bytes = instrument.packet_bytes.unwrap_or(measured);
    // What another detector's format takes says nothing about this one's.
    let own = decoder.filter(|_| !matches!(instrument.kind, InstrumentKind::Assumed { .. }));
    let format = own.map(|d| d.packet_bytes / d.events_per_packet);
    let event_bytes = [instrument.bytes_per_event, format];
    let each = event_bytes.into_iter().flatten().fold(0.0, f64::max);
    let events_per_packet = packet_bytes / each;
    let receiver = facts.receive_of(packet_bytes);
    let worker = decoder
        .and(instrument.kind.costs())
        .and_then(|name| facts.workers.get(&(name.to_owned(), wishes.threads)).cloned());
    if receiver.is_none() {
        missing.push("receive cores: no measured rate without loss ('lab lossless')".to_owned());
    }
    if decoder.is_none() {
        let what = "processing: nothing is made of these packets here; cores are those of receiving datagrams alone";
        missing.push(what.to_owned());
    } else if worker.is_none() {
        missing.push(
            "workers: no measured rate of the whole chain ('lab detectors --over udp')".to_owned(),
        );
    }
    let costs = Costs { decoder, receiver, worker, encode: facts.encode.as_ref().map(|e| e.value) };
    let load = |times: f64| {
        load(rate * times, each, events_per_packet, packet_bytes, &costs, instrument, wishes)
    };
    let (average, peak) = (load(1.0), load(factor));
    let sized = if wishes.size_for_peak { &peak } else { &average };
    // Each worker is an instance with a producer of its own, which fills a partition.
    let produce =
        wishes.produce.or(facts.produce.as_ref().map(|p| p.value)).filter(|_| decoder.is_some());
    let producers = produce.map_or(1, |p| {
        whole(rate * EVENT_BYTES / instrument.compress_factor / (p * wishes.headroom))
    });
    let workers = sized.workers.unwrap_or(sized.cores).max(producers);
    let output = decoder.map(|_| output(rate, workers, instrument, produce, facts, wishes));
    if let Some(CapacityOutput { partitions: None, .. }) = &output {
        let why = "partitions: what brokers take from one producer was not measured: give --producer-rate, or measure \
                   it ('lab capacity --measure --kafka')";
        missing.push(why.to_owned());
    }
    let one_worker = one_worker(&costs, events_per_packet, wishes);
    let Some(worker) = one_worker else {
        let why = "has no rate without loss of this size".to_owned();
        return Err(CapacityError::Results { file: "what was measured".to_owned(), why });
    };
    Ok(CapacityPlan {
        instrument: instrument.clone(),
        wishes: wishes.clone(),
        unit,
        factor,
        packet_bytes,
        events_per_packet,
        event_bytes,
        average,
        peak,
        workers,
        output,
        worker,
        receiver: costs.receiver.clone(),
        missing,
    })
}

/// Peak in units of the average. All neutrons of a pulse cannot come within less than its peak.
fn factor(instrument: &Instrument, wishes: &Wishes) -> Result<f64, CapacityError> {
    let Some(hz) = instrument.pulses else { return Ok(1.0) };
    let most = (1.0 / (hz * PEAK_S)).max(1.0);
    let factor = match (instrument.rate, instrument.peak) {
        (Some(rate), Some(peak)) => peak / rate,
        _ => wishes.peak_factor.min(most),
    };
    if factor > most {
        let why = format!(
            "at most {most:.1} times the average: more than a whole pulse does not come within 1 ms"
        );
        return Err(out_of_range("peak", format!("{factor:.1} times the average"), why));
    }
    Ok(factor)
}

/// Packets a second that one core makes into events, at this number of events a packet: by its events, or by its
/// packets where these hold fewer events than the measured ones.
fn processed(decoder: &MeasuredDecoder, events_per_packet: f64) -> f64 {
    (decoder.events.value / events_per_packet).min(decoder.packets.value)
}

/// What one worker carries: the whole chain without loss, else by the costs of its parts.
fn one_worker(costs: &Costs<'_>, events_per_packet: f64, wishes: &Wishes) -> Option<Measure> {
    let Some(decoder) = costs.decoder else { return costs.receiver.clone() };
    let processing = processed(decoder, events_per_packet);
    if let Some(chain) = &costs.worker {
        // Larger events in the same packets do not make them slower than their parts are.
        return Some(Measure { value: chain.value.min(processing), ..chain.clone() });
    }
    let receiver = costs.receiver.as_ref()?;
    let value = match wishes.threads {
        1 => 1.0 / (1.0 / receiver.value + 1.0 / processing),
        _ => receiver.value.min(processing),
    };
    let from = format!("{}; {}", receiver.from, decoder.events.from);
    Some(Measure { value, unit: "packets/s".to_owned(), from })
}

fn load(
    rate: f64,
    each: f64,
    events_per_packet: f64,
    packet_bytes: f64,
    costs: &Costs<'_>,
    instrument: &Instrument,
    wishes: &Wishes,
) -> CapacityLoad {
    let free = wishes.headroom;
    let bytes = rate * each;
    let packets = bytes / packet_bytes;
    // IPv4; MTU 1500 where the packet fits, else 9000.
    let size = packet_bytes.ceil() as usize;
    let wire_bits = packets * Wire::usual(false, size).bits(size) as f64;
    let links = SPEEDS.map(|speed| whole(wire_bits / (speed * free)));
    let events = costs.decoder.map_or(0.0, |_| rate);
    let receive = costs.receiver.as_ref().map(|r| packets / (r.value * free));
    let process = costs.decoder.map_or(0.0, |d| packets / (processed(d, events_per_packet) * free));
    let encode = costs.encode.filter(|_| costs.decoder.is_some()).map(|e| events / (e * free));
    let workers = costs
        .worker
        .as_ref()
        .zip(costs.decoder)
        .map(|(w, d)| whole(packets / (w.value.min(processed(d, events_per_packet)) * free)));
    // The whole chain was measured with all that it takes; the parts by themselves are the least.
    let parts = receive.unwrap_or(0.0) + process;
    let chain = workers.map_or(0.0, |w| (w * u64::from(wishes.threads)) as f64);
    let cores = whole(parts.max(chain) + encode.unwrap_or(0.0));
    let usable = wishes.host_cores - wishes.reserve;
    // Links of the sources end in switches, which merge them.
    let port = instrument.links.map_or(wishes.port, |l| l.speed.max(wishes.port));
    let ports = whole(wire_bits / (port * free));
    let hosts = [cores.div_ceil(usable), ports.div_ceil(wishes.ports)];
    CapacityLoad {
        events,
        bytes,
        packets,
        wire_bits,
        links,
        receive,
        process,
        encode,
        workers,
        cores,
        hosts,
    }
}

/// At least one. A whole number that came out of divisions as a hair more stays what it is.
fn whole(value: f64) -> u64 {
    ((value - 1e-9).ceil() as u64).max(1)
}

fn output(
    rate: f64,
    workers: u64,
    instrument: &Instrument,
    produce: Option<f64>,
    facts: &MeasuredRates,
    wishes: &Wishes,
) -> CapacityOutput {
    // Each worker cuts its messages at pulses and at their largest size; without pulses at the size alone.
    let per_pulse = instrument.pulses.map(|hz| rate / hz / workers as f64);
    let messages = match (per_pulse, instrument.pulses) {
        (Some(events), Some(hz)) => {
            (events / wishes.message_events as f64).ceil().max(1.0) * hz * workers as f64
        }
        _ => (rate / wishes.message_events as f64).max(workers as f64),
    };
    let topic = rate * EVENT_BYTES + messages * wishes.message_bytes;
    let sent = topic / instrument.compress_factor;
    let partitions = produce.map(|p| whole(sent / (p * wishes.headroom)).max(workers));
    let kept = |seconds: f64| sent * wishes.replication as f64 * seconds;
    let file = rate * EVENT_BYTES + instrument.pulses.unwrap_or(0.0) * PULSE_BYTES;
    let written = file / instrument.compress_factor;
    CapacityOutput {
        messages,
        topic,
        sent,
        partitions,
        hour: kept(3600.0),
        kept: kept(wishes.retention_s),
        spool: topic * wishes.outage_s,
        file,
        disk: facts.disk.as_ref().map(|d| written / d.value),
    }
}
