//! A detector as the paper measured it: recorded packets replayed over UDP on this host into the service, whose
//! own `/metrics` say how many packets, readouts and events a second it made.
//!
//! One trial is `fullcount run --sink null` and `fullcount send` with a capture, each on cores of its own. The
//! metrics are read from the first packets on to three quarters of the trial, so that start and end of the sender
//! do not count; losses are what was sent minus what reached the decoder. As a
//! [`Bench`] it takes part in the search for the rate without loss. Refuses: children that fail, hang or print no
//! summary, and a service that does not answer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::amounts::{AmountRates, Amounts};
use super::limits::{CoreProfile, Watched};
use crate::agent::post::port_of;
use crate::error::TrialError;
use crate::lossless::pair::{READY, summary};
use crate::lossless::{Bench, LosslessTrial, OnCores, TrialPlan};
use fullcount_child::{Asked, ChildError, RunningChild};

/// How long a child may take to end after the sending time. A sender has first to read its capture, and a thread tied to
/// a core that others keep busy got its first time there after more than 10 s.
const GRACE: Duration = Duration::from_secs(30);
/// The service is told to end when nothing came for so long: 64 MiB drain in less than 0.1 s.
const SILENCE: Duration = Duration::from_millis(100);
/// Part of the trial between the two readings.
const WINDOW: f64 = 0.75;
/// Between two looks at the metrics while the first packets are awaited.
const LOOK: Duration = Duration::from_millis(5);
/// Readings in a trial, and the longest time between two of them: the sender's end is seen that late.
const READINGS: u32 = 16;
const LONGEST_LOOK: Duration = Duration::from_millis(500);
/// Longest answer of the metrics.
const ANSWER: Duration = Duration::from_secs(5);

/// Cores of the three threads; `None`: wherever the system puts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadCores {
    /// Receiving (and with one thread everything behind it).
    pub receive: Option<usize>,
    /// Processing, with two threads.
    pub process: Option<usize>,
    /// Sending.
    pub send: Option<usize>,
}

impl ThreadCores {
    /// Those of the service, and what it does there; without those that are not pinned.
    fn of_service(self, threads: u32) -> Vec<(&'static str, usize)> {
        let (first, second) = match threads {
            2 => ("receive", self.process),
            _ => ("receive and process", None),
        };
        let receive = self.receive.map(|core| (first, core));
        receive.into_iter().chain(second.map(|core| ("process", core))).collect()
    }
}

/// How service and sender are started.
pub struct ServicePair<'a> {
    /// The `fullcount` binary.
    pub program: PathBuf,
    /// Detector.
    pub detector: String,
    /// Its geometry file.
    pub geometry: Option<PathBuf>,
    /// Its settings: `detector.KEY=VALUE`.
    pub settings: Vec<String>,
    /// What is replayed, over and over.
    pub capture: PathBuf,
    /// Counters and times are moved on with each repetition.
    pub shift: bool,
    /// Threads of the service, 1 or 2.
    pub threads: u32,
    /// Cores.
    pub cores: ThreadCores,
    /// Receive buffer as the option takes it.
    pub receive_buffer: String,
    /// Ends a trial early.
    pub stop: Asked<'a>,
    /// What each trial showed, in order.
    pub samples: Vec<ServiceTrial>,
    /// The cores of the service are watched in the trials to come.
    pub watched: bool,
    /// What they did in the last trial that was.
    pub profile: Vec<CoreProfile>,
}

/// One trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServiceTrial {
    /// Packets/s that were asked for; flat out if `None`.
    pub asked: Option<f64>,
    /// From the service's metrics; `None` if the trial was too short for two readings.
    pub rates: Option<AmountRates>,
    /// Packets, and cores, by the two summaries.
    pub trial: LosslessTrial,
}

impl ServicePair<'_> {
    fn run(&self, length: Duration) -> Vec<String> {
        // Its own end, in case this program is killed and can no longer end it.
        let most = format!("{}s", (length + 6 * READY).as_secs());
        let threads = self.threads.to_string();
        let mut options = words(&["run", "--source", "udp://127.0.0.1:0", "--sink", "null"]);
        options.extend(words(&["--detector", &self.detector, "--web", "127.0.0.1:0", "--json"]));
        options.extend(words(&["--threads", &threads, "--receive-buffer", &self.receive_buffer]));
        options.extend(words(&["--duration", &most]));
        let core = |flag: &str, core: Option<usize>| {
            core.map(|c| [flag.to_owned(), c.to_string()]).into_iter().flatten()
        };
        options.extend(core("--core", self.cores.receive));
        if self.threads == 2 {
            options.extend(core("--process-core", self.cores.process));
        }
        if let Some(geometry) = &self.geometry {
            options.extend(words(&["--geometry", &geometry.display().to_string()]));
        }
        self.set(&mut options);
        options
    }

    fn send(&self, port: u16, packets_per_s: Option<f64>, length: Duration) -> Vec<String> {
        let to = format!("udp://127.0.0.1:{port}");
        let duration = format!("{}ms", length.as_millis());
        let shift = if self.shift { "&shift" } else { "" };
        let capture = self.capture.display();
        let source = format!("pcap:{capture}?preload&flat-out&repeat=forever{shift}");
        let mut options = words(&["send", "--to", &to, "--source", &source]);
        options.extend(words(&["--duration", &duration, "--json"]));
        options.extend(packets_per_s.iter().flat_map(|r| ["--rate".into(), format!("{r}pps")]));
        options.extend(self.cores.send.iter().flat_map(|c| ["--core".into(), c.to_string()]));
        if self.shift {
            options.extend(words(&["--detector", &self.detector]));
            if let Some(geometry) = &self.geometry {
                let setting = format!("detector.geometry={}", geometry.display());
                options.extend(words(&["--set", &setting]));
            }
            self.set(&mut options);
        }
        options
    }

    fn set(&self, options: &mut Vec<String>) {
        options.extend(self.settings.iter().flat_map(|s| ["--set".to_owned(), s.clone()]));
    }

    fn start(&self, options: &[String]) -> Result<RunningChild, ChildError> {
        let mut command = std::process::Command::new(&self.program);
        command.args(options);
        RunningChild::start(&format!("fullcount {}", options[0]), command)
    }

    /// Readings of the metrics while the sender runs: rates from the first with packets to the last; `None` if
    /// there was but one.
    fn watch(
        &mut self,
        page: SocketAddr,
        send: &mut RunningChild,
        length: Duration,
    ) -> Result<Option<AmountRates>, TrialError> {
        let begun = Instant::now();
        let first = loop {
            let now = reading(page)?;
            if now.1.packets > 0 {
                break now;
            }
            if begun.elapsed() > length + GRACE || send.ended(LOOK)? {
                return Ok(None);
            }
            if (self.stop)() {
                return Err(ChildError::Interrupted.into());
            }
        };
        let cores = if self.watched { self.cores.of_service(self.threads) } else { vec![] };
        let watched = Watched::begin(&cores)?;
        let until = first.0 + length.mul_f64(WINDOW);
        let mut last = None;
        // A sender that ends before its time, or a slow answer, must not put idle time into the rate: what was read
        // before counts.
        while Instant::now() < until && !send.ended((length / READINGS).min(LONGEST_LOOK))? {
            if (self.stop)() {
                return Err(ChildError::Interrupted.into());
            }
            let now = reading(page)?;
            if send.ended(Duration::ZERO)? {
                break;
            }
            last = Some(now);
        }
        if self.watched {
            self.profile = watched.end()?;
        }
        Ok(last.map(|last| {
            let seconds = last.0.duration_since(first.0).as_secs_f64();
            last.1.since(&first.1).over(seconds)
        }))
    }

    /// Waits until the decoder gets nothing any more.
    fn drain(&self, page: SocketAddr, run: &mut RunningChild) -> Result<(), TrialError> {
        let begun = Instant::now();
        let mut before = None;
        while begun.elapsed() < GRACE && !run.ended(Duration::ZERO)? {
            let now = reading(page)?.1.packets;
            if before.replace(now) == Some(now) {
                break;
            }
            if (self.stop)() {
                return Err(ChildError::Interrupted.into());
            }
            std::thread::sleep(SILENCE);
        }
        Ok(())
    }
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|w| (*w).to_owned()).collect()
}

impl Bench for ServicePair<'_> {
    fn trial(&mut self, plan: &TrialPlan<'_>) -> Result<LosslessTrial, TrialError> {
        let &TrialPlan { size, packets_per_s, length, .. } = plan;
        let mut run = self.start(&self.run(length))?;
        let port = run.wait_for_line(READY, self.stop, port_of)?;
        let page = run.wait_for_line(READY, self.stop, |line| {
            line.strip_prefix("live page http://")?.trim_end_matches('/').parse().ok()
        })?;
        let mut send = self.start(&self.send(port, packets_per_s, length))?;
        let rates = self.watch(page, &mut send, length)?;
        let sent = send.end(length + GRACE, self.stop)?;
        let sent = summary(sent.ok_or_else(|| send.stuck(GRACE))?)?;
        self.drain(page, &mut run)?;
        run.interrupt();
        let received = run.end(GRACE, self.stop)?;
        let received = summary(received.ok_or_else(|| run.stuck(GRACE))?)?;
        // A counter's dots are part of its name.
        let delivered = "/counters/decode.packets";
        let trial = LosslessTrial::of_summaries(size, &sent, ("run", &received), delivered)?;
        self.samples.push(ServiceTrial { asked: packets_per_s, rates, trial });
        Ok(trial)
    }
}

impl OnCores for ServicePair<'_> {
    fn put_on(&mut self, receiver: usize, sender: usize) {
        let taken = |core: usize| core == receiver || core == sender;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let free = self.cores.process.filter(|&c| !taken(c));
        self.cores.process = free.or_else(|| (0..cores).rev().find(|&c| !taken(c)));
        (self.cores.receive, self.cores.send) = (Some(receiver), Some(sender));
    }
}

/// The metrics and when they came.
fn reading(page: SocketAddr) -> Result<(Instant, Amounts), TrialError> {
    let wrong = |reason: String| TrialError::Result { program: "fullcount run".into(), reason };
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&page, ANSWER)?;
        stream.set_read_timeout(Some(ANSWER))?;
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {page}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    let text = ask().map_err(|e| wrong(format!("http://{page}/metrics: {e}")))?;
    let now = Instant::now();
    if !text.starts_with("HTTP/1.1 200") {
        let said = text.lines().next().unwrap_or("nothing");
        return Err(wrong(format!("http://{page}/metrics answered {said}")));
    }
    Ok((now, Amounts::read(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> ServicePair<'static> {
        ServicePair {
            program: "fullcount".into(),
            detector: "sonde".into(),
            geometry: Some("g.toml".into()),
            settings: vec!["detector.max_streams=64".into()],
            capture: "x.pcapng".into(),
            shift: true,
            threads: 2,
            cores: ThreadCores { receive: Some(1), process: Some(2), send: Some(3) },
            receive_buffer: "64MiB".into(),
            stop: &|| false,
            samples: vec![],
            watched: false,
            profile: vec![],
        }
    }

    #[test]
    fn options_are_those_of_the_verbs() {
        let (mut s, second) = (service(), Duration::from_secs(1));
        assert_eq!(
            s.run(second).join(" "),
            "run --source udp://127.0.0.1:0 --sink null --detector sonde --web 127.0.0.1:0 --json \
             --threads 2 --receive-buffer 64MiB --duration 61s --core 1 --process-core 2 \
             --geometry g.toml --set detector.max_streams=64"
        );
        assert_eq!(
            s.send(4711, Some(1e5), second).join(" "),
            "send --to udp://127.0.0.1:4711 --source \
             pcap:x.pcapng?preload&flat-out&repeat=forever&shift --duration 1000ms --json \
             --rate 100000pps --core 3 --detector sonde --set detector.geometry=g.toml --set \
             detector.max_streams=64"
        );
        (s.threads, s.shift, s.geometry) = (1, false, None);
        s.cores = ThreadCores::default();
        let run = s.run(second).join(" ");
        assert!(!run.contains("core") && run.contains("--threads 1"), "{run}");
        let send = s.send(1, None, second).join(" ");
        assert!(!send.contains("shift") && !send.contains("--set") && !send.contains("rate"));
    }

    #[test]
    fn the_cores_that_are_watched_are_those_of_the_service() {
        let cores = ThreadCores { receive: Some(1), process: Some(2), send: Some(3) };
        assert_eq!(cores.of_service(2), [("receive", 1), ("process", 2)]);
        assert_eq!(cores.of_service(1), [("receive and process", 1)]);
        assert_eq!(ThreadCores::default().of_service(2), []);
    }

    #[test]
    fn the_second_thread_gets_a_core_of_its_own_where_there_is_one() {
        let mut s = service();
        s.put_on(3, 1);
        assert_eq!(s.cores, ThreadCores { receive: Some(3), process: Some(2), send: Some(1) });
        s.put_on(2, 0);
        assert!(s.cores.process.is_none_or(|c| c != 2 && c != 0), "{:?}", s.cores);
    }

    #[test]
    fn a_program_that_is_no_fullcount_and_a_page_that_is_not_there_are_told() {
        let mut s = ServicePair { program: "false".into(), ..service() };
        let (contender, length) = ("", Duration::from_millis(1));
        let plan = TrialPlan { contender, size: 64, packets_per_s: None, length };
        let e = s.trial(&plan).unwrap_err();
        assert!(matches!(&e, TrialError::Child(ChildError::Failed { .. })), "{e}");
        assert!(s.samples.is_empty());
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let e = reading(nobody).unwrap_err().to_string();
        assert!(e.contains("/metrics"), "{e}");
    }
}
