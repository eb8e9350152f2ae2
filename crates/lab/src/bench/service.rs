//! A run under its operators: what clients of the control port, and servers of metrics and messages that are gone, cost it.
//!
//! A `run` of the first detector that can be shown, without outputs, gets packets at a rate, while well-behaved clients give commands, rude ones send endless lines, its
//! counters are published to a server that does not take them, and its messages go nowhere. All clients run at a low priority, as the
//! run's own service threads do. The claim is that the run loses nothing, and that it gets, answers and publishes what it should: [`claim`].
//! Source: `docs/operations.md`, `docs/lab.md`.

mod claim;

use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fullcount_child::{Asked, ChildError, RunningChild};
use fullcount_core::simulator::Simulator;
use fullcount_core::simulator::facts::Demonstration;
use serde_json::{Value, json};

use super::trial::{start, summary, words};
use crate::agent::post::port_of;
use crate::error::TrialError;
use crate::record::{Figure, Record};

pub use claim::OperatedRate;

/// Longest wait for a program to get ready, and for its end beyond its time.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest wait for one reply.
const REPLY: Duration = Duration::from_secs(10);
/// Where packets go: with room for 50 ms at 10 Gb/s, if the host allows it (`net.core.rmem_max`, or the right to go beyond).
const SOURCE: &str = "udp://127.0.0.1:0?receive_buffer=64MiB";
/// Bytes of an endless line that are sent at once.
const ENDLESS: usize = 4096;
/// What well-behaved clients say, in turn.
const SAID: [&[u8]; 4] =
    [b"STAT_GET 1", b"STAT_GET_NAME receive.packets", b"RUNTIMESTATS", b"STAT_GET_COUNT"];
/// And every so many commands the dearest ones, whose replies are objects of some 100 kB.
const DEAR_EVERY: usize = 50;
const DEAR: [&[u8]; 2] = [b"LEDGER_GET", b"CONFIG_GET"];

/// What is tried.
#[derive(Debug, Clone)]
pub struct OperatedTrial {
    /// What is asked of the sender.
    pub rate: OperatedRate,
    /// The same, as `send --rate` takes it.
    pub rate_text: String,
    /// How long packets are sent.
    pub duration: Duration,
    /// Clients that wait for each reply, and commands a second of each.
    pub clients: usize,
    /// See [`OperatedTrial::clients`].
    pub commands: u32,
    /// Clients that send endless lines and read nothing.
    pub endless: usize,
    /// Counters that are published.
    pub counters: u32,
    /// Time between two publications.
    pub period: Duration,
}

/// What clients saw.
#[derive(Debug, Default)]
struct Tally {
    answered: AtomicU64,
    wrong: AtomicU64,
    /// Milliseconds of each reply.
    waits: Mutex<Vec<f64>>,
    rude_bytes: AtomicU64,
    rude_hung_up: AtomicU64,
}

/// The clients; they end when told.
struct Clients {
    over: Arc<AtomicBool>,
    tally: Arc<Tally>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    fn start(at: SocketAddr, trial: &OperatedTrial) -> std::io::Result<Clients> {
        let (over, tally) = (Arc::new(AtomicBool::new(false)), Arc::<Tally>::default());
        let mut threads = Vec::new();
        for n in 0..trial.clients + trial.endless {
            let (over, tally) = (over.clone(), tally.clone());
            let (polite, every) = (n < trial.clients, Duration::from_secs(1) / trial.commands);
            let body = move || {
                // Not fatal: it is as good with the usual priority.
                let _ = fullcount_io::sys::be_nice();
                match polite {
                    true => ask(at, (n, every), &over, &tally),
                    false => babble(at, &over, &tally),
                }
            };
            threads.push(std::thread::Builder::new().stack_size(128 << 10).spawn(body)?);
        }
        Ok(Clients { over, tally, threads })
    }

    fn end(self) -> Arc<Tally> {
        self.over.store(true, Relaxed);
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
        self.tally
    }
}

/// Gives commands at a pace, each behind the reply to the one before.
fn ask(at: SocketAddr, (n, every): (usize, Duration), over: &AtomicBool, tally: &Tally) {
    let wrong = || {
        tally.wrong.fetch_add(1, Relaxed);
    };
    let Ok(mut stream) = TcpStream::connect(at) else { return wrong() };
    let _ = (stream.set_read_timeout(Some(REPLY)), stream.set_nodelay(true));
    // Not all at the same moment.
    let mut due = Instant::now() + every * (n % 50) as u32 / 50;
    let (mut waits, mut buffer) = (Vec::new(), vec![0; 9000]);
    for count in n.. {
        let dear = count % DEAR_EVERY == 0;
        let said: &[u8] = match dear {
            true => DEAR[count / DEAR_EVERY % DEAR.len()],
            false => SAID[count % SAID.len()],
        };
        if over.load(Relaxed) {
            break;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let asked = Instant::now();
        // A client that is behind does not catch up: it would ask faster than it was told to.
        due = (due + every).max(asked);
        let answered = stream.write_all(said).and_then(|()| match dear {
            true => object(&mut stream, &mut buffer, said.len()),
            false => stream.read(&mut buffer),
        });
        let command = said.split(|b| *b == b' ').next().unwrap_or_default();
        match answered {
            Ok(n) if buffer[..n].starts_with(command) => {
                tally.answered.fetch_add(1, Relaxed);
                waits.push(asked.elapsed().as_secs_f64() * 1e3);
            }
            _ => {
                wrong();
                break;
            }
        }
    }
    tally.waits.lock().unwrap_or_else(PoisonError::into_inner).append(&mut waits);
}

/// Reads a reply that is a name of so many bytes and an object.
fn object(stream: &mut TcpStream, buffer: &mut Vec<u8>, name: usize) -> std::io::Result<usize> {
    let mut n = 0;
    loop {
        if n == buffer.len() {
            buffer.resize(2 * n, 0);
        }
        match stream.read(&mut buffer[n..])? {
            0 => return Ok(0),
            more => n += more,
        }
        let ends = buffer[..n].ends_with(b"}");
        if ends && serde_json::from_slice::<Value>(&buffer[name.min(n)..n]).is_ok() {
            return Ok(n);
        }
    }
}

/// Sends a line that has no end, and reads nothing.
fn babble(at: SocketAddr, over: &AtomicBool, tally: &Tally) {
    while !over.load(Relaxed) {
        let Ok(mut stream) = TcpStream::connect(at) else { return };
        let _ = stream.set_write_timeout(Some(Duration::from_millis(200)));
        while !over.load(Relaxed) {
            match stream.write(&[b'x'; ENDLESS]) {
                Ok(n) => {
                    tally.rude_bytes.fetch_add(n as u64, Relaxed);
                }
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => {
                    tally.rude_hung_up.fetch_add(1, Relaxed);
                    break;
                }
            }
        }
    }
}

/// The run and where its packets and commands go.
struct Service {
    run: RunningChild,
    /// Takes a connection, and then nothing.
    _deaf: Option<TcpListener>,
    packets: SocketAddr,
    control: SocketAddr,
}

fn service(program: &Path, trial: &OperatedTrial, stop: Asked<'_>) -> Result<Service, ChildError> {
    // One server that never reads, and one that is gone.
    let deaf = TcpListener::bind("127.0.0.1:0").ok();
    let at = |listener: Option<&TcpListener>| {
        let address = listener.and_then(|listener| listener.local_addr().ok());
        address.map_or_else(|| "127.0.0.1:9".to_owned(), |address| address.to_string())
    };
    let gelf = at(TcpListener::bind("127.0.0.1:0").ok().as_ref());
    let graphite = at(deaf.as_ref());
    let (name, shown) = detector();
    let mut all = words(&["run", "--source", SOURCE, "--detector", name]);
    if let Some(tick) = shown.and_then(|shown| shown.tick) {
        all.extend(words(&["--tick", tick]));
    }
    all.extend(words(&["--sink", "null", "--web", "off", "--control", "127.0.0.1:0"]));
    all.extend(words(&["--graphite", &graphite]));
    for set in [
        format!("log.gelf={gelf}"),
        format!("metrics.pad={}", trial.counters),
        format!("metrics.period={}ms", trial.period.as_millis()),
    ] {
        all.extend(words(&["--set", &set]));
    }
    let mut run = start(program, &all)?;
    let port = run.wait_for_line(PATIENCE, stop, port_of)?;
    let packets = SocketAddr::from(([127, 0, 0, 1], port));
    let control =
        run.wait_for_line(PATIENCE, stop, |line| line.strip_prefix("commands at ")?.parse().ok())?;
    Ok(Service { run, _deaf: deaf, packets, control })
}

/// The detector whose packets are sent: the first that can be shown. It gives events, and its run does not end by itself.
fn detector() -> (&'static str, Option<Demonstration>) {
    let all = fullcount_sim::registered();
    let shown = |kind: &dyn Simulator| kind.declared().demonstration;
    let first = all.kinds().find(|kind| shown(*kind).is_some());
    first.map_or(("sequence", None), |kind| (kind.name(), shown(kind)))
}

fn send(program: &Path, to: SocketAddr, trial: &OperatedTrial) -> Result<RunningChild, ChildError> {
    let (to, seconds) = (format!("udp://{to}"), format!("{}ms", trial.duration.as_millis()));
    let send = ["send", "--to", &to, "--source", detector().0, "--rate", &trial.rate_text];
    start(program, &words(&[&send[..], &["--duration", &seconds]].concat()))
}

/// What a trial found.
#[derive(Debug)]
pub struct OperatedFinding {
    /// The table.
    pub table: String,
    /// True if `missed` is empty.
    pub held: bool,
    /// What of the claim did not hold, each with its number.
    pub missed: Vec<String>,
}

/// Runs the trial with this program, and notes what it found.
///
/// # Errors
/// A program did not do its part, or somebody asked to stop.
pub fn measure(
    program: &Path,
    trial: &OperatedTrial,
    record: &mut Record,
    stop: Asked<'_>,
) -> Result<OperatedFinding, TrialError> {
    let Service { mut run, _deaf, packets, control } = service(program, trial, stop)?;
    let cause = |cause| ChildError::Start { program: "clients".into(), cause };
    let clients = Clients::start(control, trial).map_err(cause)?;
    let mut sender = send(program, packets, trial)?;
    let begun = Instant::now();
    let sent = summary(&mut sender, trial.duration + PATIENCE, stop);
    let tally = clients.end();
    let (sent, _) = sent?;
    let seconds = begun.elapsed().as_secs_f64();
    // What is in the socket is read within a moment.
    std::thread::sleep(Duration::from_millis(500));
    run.interrupt();
    let (got, code) = summary(&mut run, PATIENCE, stop)?;
    let number = |v: &Value, path: &str| v.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    let sent_packets = number(&sent, "/packets/sent");
    let received = number(&got, "/packets/received");
    let lost = sent_packets.saturating_sub(received);
    let counter = |name: &str| got["counters"][name].as_u64().unwrap_or(0);
    let mut waits = tally.waits.lock().unwrap_or_else(PoisonError::into_inner).clone();
    waits.sort_by(f64::total_cmp);
    let part = |per_mille: usize| {
        let at = waits.len().saturating_sub(1) * per_mille / 1000;
        waits.get(at).copied().unwrap_or(f64::NAN)
    };
    let (answered, wrong) = (tally.answered.load(Relaxed), tally.wrong.load(Relaxed));
    let shares = claim::shares(trial, &got, answered);
    let exact = [
        ("exit code", code.into()),
        ("lost packets", lost as i64),
        ("commands failed", wrong as i64),
    ];
    let exact =
        exact.iter().filter(|(_, n)| *n != 0).map(|(what, n)| format!("{what}: {n}, not 0"));
    let missed = shares.iter().filter(|share| !share.held()).map(ToString::to_string);
    let missed: Vec<String> = exact.chain(missed).collect();
    let held = missed.is_empty();
    let counters = got["counters"].as_object().map_or(0, serde_json::Map::len);
    let mut row = json!({
        "exit": code, "sent_packets": sent_packets, "received_packets": received, "lost_packets": lost,
        "gbps": got["rates"]["gbps"], "events": got["events"], "balance": got["balance"],
        "counters": counters, "commands_answered": answered, "commands_failed": wrong,
        "commands_per_s": answered as f64 / seconds, "reply_ms_median": part(500), "reply_ms_p99": part(990),
        "reply_ms_most": part(1000), "endless_bytes": tally.rude_bytes.load(Relaxed),
        "endless_hung_up": tally.rude_hung_up.load(Relaxed), "graphite_errors": counter("graphite.errors"),
        "graphite_snapshots": counter("graphite.snapshots"), "graphite_dropped": counter("graphite.dropped"),
        "log_dropped": counter("log.dropped"), "held": held,
    });
    shares.iter().for_each(|share| row[share.key] = json!(share.reached));
    for (key, value) in [
        ("rate", json!(trial.rate_text)),
        ("seconds", json!(trial.duration.as_secs_f64())),
        ("clients", json!(trial.clients)),
        ("commands_per_s_of_each", json!(trial.commands)),
        ("endless_clients", json!(trial.endless)),
        ("counters", json!(trial.counters)),
        ("period_ms", json!(trial.period.as_millis() as u64)),
    ] {
        record.parameter(key, value);
    }
    let mut table = String::from("| what | value |\n|:--|--:|\n");
    for (key, value) in row.as_object().into_iter().flatten() {
        table += &format!("| {} | {value} |\n", key.replace('_', " "));
    }
    if !held {
        table += &format!("\nDid not hold: {}.\n", missed.join("; "));
    }
    row["missed"] = json!(missed);
    if let Some(figure) = Figure::of(&[lost as f64], "packets") {
        record.figure("lost", &figure);
    }
    record.row(row);
    Ok(OperatedFinding { table, held, missed })
}
