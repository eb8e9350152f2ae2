//! As the paper did it: packets of a detector replayed over UDP on this host into `fullcount run`, whose own metrics
//! give the rates; flat out, and where that loses packets at the highest rate without loss.

use std::io::BufWriter;
use std::net::SocketAddr;
use std::time::Duration;

use super::limits::CoreProfile;
use super::service::{ServicePair, ServiceTrial, ThreadCores};
use super::{How, SpeedRow, SpeedTrial};
use crate::lossless::{self, Bench, Ceiling, OnNearCores, SearchSettings, TrialPlan};
use anyhow::Context;
use fullcount_core::frame::emit::Route;
use fullcount_core::quantity::short_text as short;
use fullcount_core::quantity::spoken;
use fullcount_io::pcap::{CaptureFormat, Writer};

use super::campaign::SpeedPlan;
use super::image::PacketImage;
use super::job::DetectorJob;
use super::progress::StepProgress;
use super::scratch::ScratchFiles;
use crate::error::LabError;

/// Packets of the capture that is replayed: more than any cache holds; the sender moves each repetition on.
const CAPTURE: usize = 64 << 20;
/// Between two packets of that capture: 1 µs, so that they make trains.
const APART_NS: i64 = 1_000;

/// How it is measured.
pub struct OverUdp<'a> {
    /// Times and cores.
    pub plan: &'a SpeedPlan,
    /// Threads of the service, one after the other.
    pub threads: &'a [u32],
    /// Its receive buffer.
    pub receive_buffer: &'a str,
    /// Each trial on two cores that share a cache at that time.
    pub near: bool,
    /// The search for the rate without loss.
    pub search: Option<SearchSettings>,
    /// One more trial flat out and one at the rate without loss, in which the cores of the service are watched.
    pub profile: bool,
    /// Ends a trial early.
    pub stop: &'a dyn Fn() -> bool,
}

impl OverUdp<'_> {
    /// Usual time of a detector with one number of threads.
    pub fn usual(&self) -> Duration {
        let trial = self.plan.time + Duration::from_secs(1);
        let watched = 1 + u32::from(self.search.is_some());
        let trials = self.plan.repeats as u32 + u32::from(self.profile) * watched;
        trial * trials + self.search.map_or(Duration::ZERO, |s| s.usual())
    }

    /// One detector: a row or two for each number of threads.
    pub fn run(
        &self,
        job: &DetectorJob,
        scratch: &ScratchFiles,
        progress: &mut StepProgress,
    ) -> Result<Vec<SpeedRow>, LabError> {
        let title = job.input.title();
        (self.plan.tell)(&format!("{title}: writing a capture for the sender"));
        let image = job.input.image(&*job.detector, CAPTURE.min(self.plan.memory))?;
        let capture = scratch.path(&format!("{}-{}.pcap", job.input.detector, job.input.name))?;
        write(&image, &capture)?;
        let mut rows = vec![];
        for &threads in self.threads {
            let mut service = ServicePair {
                program: std::env::current_exe().context("finding this program")?,
                detector: job.input.detector.clone(),
                geometry: job.geometry.clone(),
                settings: job.settings.clone(),
                capture: capture.clone(),
                shift: job.detector.shifter().is_some(),
                threads,
                cores: self.cores(threads),
                receive_buffer: self.receive_buffer.to_owned(),
                stop: self.stop,
                samples: vec![],
                watched: false,
                profile: vec![],
            };
            let more = self.measure(job, &image, &mut service, progress)?;
            let rates = more.last().and_then(|r| r.figure("", |run| Some(run.rates.packets)));
            let rate = rates.map_or("–".to_owned(), |f| short(f.value));
            progress.done(&format!("{title}, {}: {rate} packets/s", more_how(&more)));
            rows.extend(more);
        }
        // The next detector's capture needs the room.
        let _ = std::fs::remove_file(&capture);
        Ok(rows)
    }

    /// The service's threads first, the sender last; unpinned where there are too few cores for all.
    fn cores(&self, threads: u32) -> ThreadCores {
        let needed = threads as usize + 1;
        if self.plan.cores.len() < needed {
            (self.plan.tell)(&format!(
                "{} cores for {needed} threads: measured without pinning",
                self.plan.cores.len()
            ));
            return ThreadCores::default();
        }
        let process = (threads == 2).then(|| self.plan.core(1)).flatten();
        ThreadCores { receive: self.plan.core(0), process, send: self.plan.core(threads as usize) }
    }

    /// Where trials are made.
    fn bench<'b>(&self, service: &'b mut ServicePair<'_>) -> Box<dyn Bench + 'b> {
        if self.near { Box::new(OnNearCores::new(service)) } else { Box::new(service) }
    }

    /// What the cores of the service do in a trial at a rate, or flat out; it counts for nothing else.
    fn watched(
        &self,
        job: &DetectorJob,
        service: &mut ServicePair<'_>,
        packets_per_s: Option<f64>,
    ) -> Result<Vec<CoreProfile>, LabError> {
        service.watched = true;
        let length = self.plan.time;
        let plan = TrialPlan { contender: "", size: 0, packets_per_s, length };
        let trial = self.bench(service).trial(&plan);
        trial.map_err(|e| anyhow::anyhow!("{}: {e}", job.input.title()))?;
        service.watched = false;
        service.samples.clear();
        Ok(std::mem::take(&mut service.profile))
    }

    fn measure(
        &self,
        job: &DetectorJob,
        image: &PacketImage,
        service: &mut ServicePair<'_>,
        progress: &StepProgress,
    ) -> Result<Vec<SpeedRow>, LabError> {
        let (threads, size) = (service.threads, image.packet_bytes().round() as usize);
        let what = format!("{} {}, threads {threads}", progress.place(), job.input.title());
        let row = |how, samples: &[ServiceTrial]| SpeedRow {
            detector: job.input.detector.clone(),
            input: job.input.name.to_owned(),
            about: job.input.about.clone(),
            how,
            packet_bytes: image.packet_bytes(),
            runs: samples.iter().filter_map(|s| run(s, image.packet_bytes())).collect(),
            search: None,
            profile: vec![],
        };
        let mut flat_out: Vec<ServiceTrial> = vec![];
        for trial in 1..=self.plan.repeats {
            let plan =
                TrialPlan { contender: "", size, packets_per_s: None, length: self.plan.time };
            let shown = self
                .bench(service)
                .trial(&plan)
                .map_err(|e| anyhow::anyhow!("{}: {e}", job.input.title()))?;
            // A trial whose cores were moved was made again: the last one counts.
            flat_out.extend(service.samples.pop());
            service.samples.clear();
            (self.plan.tell)(&format!(
                "{what}: flat out {trial} of {}: {} packets/s sent, {:.2} % lost, {} left",
                self.plan.repeats,
                short(shown.sent_per_s),
                100.0 * shown.lost() as f64 / shown.sent.max(1) as f64,
                spoken(progress.left().saturating_sub(self.plan.time * trial as u32))
            ));
        }
        let mut rows = vec![row(How::FlatOut(threads), &flat_out)];
        if rows[0].runs.is_empty() {
            let why = "a trial was too short for two readings of the metrics: raise --duration";
            return Err(anyhow::anyhow!("{}: {why}", job.input.title()).into());
        }
        if self.profile {
            rows[0].profile = self.watched(job, service, None)?;
            (self.plan.tell)(&format!("{what}: what its cores do flat out is known"));
        }
        let lossless = flat_out.iter().all(|s| s.trial.lost() == 0);
        let Some(search) = self.search.filter(|_| !lossless) else { return Ok(rows) };
        let fastest = flat_out.iter().map(|s| s.trial.sent_per_s).fold(0.0, f64::max);
        let ceiling = search.ceiling.or(Some(Ceiling::Packets(fastest)));
        let settings = SearchSettings { ceiling, ..search };
        let mut tell = |step: &str, left: Duration| {
            (self.plan.tell)(&format!("{what}: {step}, {} left", spoken(progress.after() + left)));
        };
        let contender = format!("{} with {threads} threads", job.input.detector);
        let mut bench = self.bench(service);
        let outcome = lossless::find(bench.as_mut(), &contender, size, &settings, &mut tell)
            .map_err(anyhow::Error::from)?;
        drop(bench);
        // The confirmations are the last at that rate; a sender that fell behind was asked for more than it sent.
        let asked = outcome.found.map(|found| found.asked);
        let at = |s: &&ServiceTrial| asked.is_some() && s.asked == asked && s.trial.lost() == 0;
        let mut confirmed: Vec<ServiceTrial> = service.samples.iter().filter(at).copied().collect();
        confirmed.drain(..confirmed.len().saturating_sub(settings.confirmations as usize));
        let search = Some(outcome.json());
        let mut found = SpeedRow { search, ..row(How::Lossless(threads), &confirmed) };
        if self.profile && asked.is_some() {
            service.samples.clear();
            found.profile = self.watched(job, service, asked)?;
            (self.plan.tell)(&format!("{what}: what its cores do without loss is known"));
        }
        rows.push(found);
        Ok(rows)
    }
}

fn more_how(rows: &[SpeedRow]) -> String {
    rows.last().map_or(String::new(), |r| r.how.text())
}

/// A trial of the table; the bytes are those of the packets that were decoded.
fn run(sample: &ServiceTrial, packet_bytes: f64) -> Option<SpeedTrial> {
    let mut rates = sample.rates?;
    rates.bytes = rates.packets * packet_bytes;
    let lost = sample.trial.lost() as f64 / sample.trial.sent.max(1) as f64;
    Some(SpeedTrial { rates, cores: sample.trial.receive_cores, lost: Some(lost) })
}

fn write(image: &PacketImage, path: &std::path::Path) -> anyhow::Result<()> {
    let doing = || format!("writing {}", path.display());
    let file = std::fs::File::create(path).with_context(doing)?;
    let mut writer =
        Writer::new(BufWriter::new(file), CaptureFormat::Pcap, None).with_context(doing)?;
    let destination = SocketAddr::from(([127, 0, 0, 1], 9000));
    for (at, (packet, origin)) in image.packets().enumerate() {
        let source = SocketAddr::from(([127, 0, 0, 1], origin.port.max(1)));
        let route = Route { source, destination, vlan: None };
        writer.udp(at as i64 * APART_NS, &route, packet).with_context(doing)?;
    }
    let file = writer.finish().with_context(doing)?;
    file.into_inner().map_err(std::io::IntoInnerError::into_error).with_context(doing)?;
    Ok(())
}
