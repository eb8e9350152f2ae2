//! Carries out orders on this host, or in one of its namespaces: `fullcount receive` and `fullcount send` as
//! child processes.
//!
//! A receiver is ready when it says that it listens; its port may be the system's choice. Children are bounded in
//! time by their own options and killed when their [`ChildWork`] is dropped. Refuses: children that fail, say
//! nothing or print no summary.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use fullcount_io::host::Host;
use serde_json::Value;

use super::engine::free_port;
use super::order::{Order, ReceiveOrder};
use super::sample::{self, Interval, Sampling};
use super::{ChildReport, ChildWork, Post, PostError};
use crate::namespace::NamespaceNetwork;
use fullcount_child::{ChildEnd, ChildError, RunningChild};

/// How long the receiver may take to open its port: some ms, seconds on a host with more to do than cores.
const READY: Duration = Duration::from_secs(30);
/// What lines begin with that say how a socket was opened.
const FACTS: [&str; 8] = [
    "listening on",
    "sending to",
    "engine ",
    "receive buffer",
    "packet memory",
    "send buffer",
    "UDP G",
    "waiting:",
];

/// This host, or a namespace on it.
#[derive(Debug, Clone)]
pub struct LocalPost {
    /// The `fullcount` binary.
    pub program: PathBuf,
    /// Namespace that its children run in, by number.
    pub inside: Option<(Arc<NamespaceNetwork>, usize)>,
    /// Address that the other end reaches it under.
    pub address: IpAddr,
}

impl LocalPost {
    /// Loopback of this host.
    pub fn loopback(program: PathBuf) -> LocalPost {
        LocalPost { program, inside: None, address: std::net::Ipv4Addr::LOCALHOST.into() }
    }

    /// Starts a child.
    pub fn begin(&self, order: &Order) -> Result<LocalWork, PostError> {
        order.check()?;
        let options = self.settled(order)?.options(self.buffers());
        let mut command = match &self.inside {
            None => Command::new(&self.program),
            Some((network, host)) => network.command(*host, &self.program),
        };
        command.args(&options);
        let receives = matches!(order, Order::Receive(_)).then_some(READY);
        LocalWork::start(order.verb(), order.core(), command, receives)
    }
}

impl LocalPost {
    /// The order with interface and port named, where its engine takes packets from an interface.
    fn settled(&self, order: &Order) -> Result<Order, PostError> {
        let Order::Receive(r) = order else { return Ok(order.clone()) };
        if !r.engine.takes_interface() {
            return Ok(order.clone());
        }
        let inside = self.inside.as_ref().map(|(network, host)| (&**network, *host));
        let name = match &r.interface {
            Some(name) => Some(name.clone()),
            None => interface_with(inside, r.bind),
        };
        let (engine, address) = (r.engine.name(), r.bind);
        let whose = if inside.is_some() { "the namespace" } else { "this host" };
        let name = name.ok_or(PostError::Interface { engine, whose, address })?;
        let port = match r.port {
            0 => free_port(inside, r.bind).map_err(|cause| PostError::Port { address, cause })?,
            given => given,
        };
        Ok(Order::Receive(ReceiveOrder { interface: Some(name), port, ..r.clone() }))
    }
}

/// Interface that has an address, in a namespace if one is given.
fn interface_with(inside: Option<(&NamespaceNetwork, usize)>, address: IpAddr) -> Option<String> {
    let look = || Host::at("/").interface_with(address);
    match inside {
        None => look(),
        Some((network, host)) => network.inside(host, look).ok()?,
    }
}

impl Post for LocalPost {
    fn start(&self, order: &Order) -> Result<Box<dyn ChildWork + '_>, PostError> {
        Ok(Box::new(self.begin(order)?))
    }

    fn address(&self) -> IpAddr {
        self.address
    }

    fn host(&self) -> Value {
        crate::record::host::snapshot(Path::new("/"))
    }

    fn buffers(&self) -> (Option<u64>, Option<u64>) {
        buffers()
    }
}

/// A setting of this host's network by its name below `net.core`.
pub fn net_core(name: &str) -> Option<u64> {
    std::fs::read_to_string(format!("/proc/sys/net/core/{name}")).ok()?.trim().parse().ok()
}

/// `rmem_default` and `wmem_default` of this host, bytes as Linux counts them.
pub fn buffers() -> (Option<u64>, Option<u64>) {
    (net_core("rmem_default"), net_core("wmem_default"))
}

#[derive(Debug)]
struct Sampler {
    end: Option<Sender<()>>,
    thread: JoinHandle<Vec<Interval>>,
}

/// A child on this host; killed when dropped.
#[derive(Debug)]
pub struct LocalWork {
    verb: &'static str,
    core: Option<usize>,
    child: RunningChild,
    port: Option<u16>,
    sampler: Option<Sampler>,
}

impl LocalWork {
    /// Starts `command`, which runs a verb of the binary. With `receives` it has to open its port within that time.
    pub fn start(
        verb: &'static str,
        core: Option<usize>,
        command: Command,
        receives: Option<Duration>,
    ) -> Result<LocalWork, PostError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let told = |e| failed(verb, e);
        let mut child = RunningChild::start(&program, command).map_err(told)?;
        let port = receives.map(|limit| child.wait_for_line(limit, &|| false, port_of));
        let port = port.transpose().map_err(told)?;
        Ok(LocalWork { verb, core, child, port, sampler: None })
    }

    fn report(&mut self, ended: ChildEnd) -> Result<ChildReport, PostError> {
        if !matches!(ended.status.code(), Some(0 | 3)) {
            return Err(failed(self.verb, ended.failed()));
        }
        let summary = last_summary(&ended.output)
            .map_err(|reason| PostError::Summary { verb: self.verb, reason })?;
        let intervals = self.sampler.take().map(|mut s| {
            drop(s.end.take());
            s.thread.join().unwrap_or_default()
        });
        let is_fact = |line: &String| FACTS.iter().any(|begin| line.starts_with(begin));
        let facts = ended.lines.into_iter().filter(is_fact).collect();
        Ok(ChildReport { summary, facts, intervals: intervals.unwrap_or_default() })
    }
}

/// What became of a child, in the words of its verb.
fn failed(verb: &'static str, e: ChildError) -> PostError {
    let whose = String::new();
    match e {
        ChildError::Start { program, cause } => PostError::Start { program, cause },
        ChildError::NotReady { seconds, said, .. } => PostError::NotReady { seconds, said },
        ChildError::Failed { status, said, .. } => PostError::Failed { verb, whose, status, said },
        other => PostError::Failed { verb, whose, status: other.to_string(), said: String::new() },
    }
}

impl ChildWork for LocalWork {
    fn port(&self) -> Option<u16> {
        self.port
    }

    fn poll(&mut self) -> Result<Option<ChildReport>, PostError> {
        let ended = self.child.poll().map_err(|e| failed(self.verb, e))?;
        ended.map(|ended| self.report(ended)).transpose()
    }

    fn sample(&mut self, sampling: Sampling) -> Result<(), PostError> {
        let (end, ended) = mpsc::channel();
        let (process, core) = (self.child.id(), self.core);
        let thread = std::thread::spawn(move || sample::take(process, core, sampling, &ended));
        self.sampler = Some(Sampler { end: Some(end), thread });
        Ok(())
    }

    /// SIGINT, as from a terminal; a failure shows as a child that does not end.
    fn interrupt(&mut self) -> Result<(), PostError> {
        self.child.interrupt();
        Ok(())
    }
}

/// Port in `listening on ADDRESS:PORT` or `listening on INTERFACE for UDP port PORT, ADDRESS`.
pub fn port_of(line: &str) -> Option<u16> {
    let place = line.strip_prefix("listening on ")?;
    match place.split_once(" for UDP port ") {
        Some((_, rest)) => rest.split(',').next()?.parse().ok(),
        None => place.rsplit(':').next()?.parse().ok(),
    }
}

/// The summary: one JSON object, alone on the last line.
pub(crate) fn last_summary(output: &str) -> Result<Value, String> {
    let line = output.trim_end().lines().last().ok_or("standard output is empty")?;
    let summary: Value =
        serde_json::from_str(line).map_err(|e| format!("the last line is no JSON ({e})"))?;
    match summary.pointer("/schema").and_then(Value::as_str) {
        Some("fullcount/summary/1") => Ok(summary),
        Some(other) => Err(format!("schema {other} is not fullcount/summary/1")),
        None => Err("the last line has no schema".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::order::{BufferSize, EndEngine, Extent, ReceiveOrder, Send};

    fn receive() -> Order {
        Order::Receive(ReceiveOrder {
            bind: std::net::Ipv4Addr::LOCALHOST.into(),
            port: 0,
            buffer: BufferSize::Kernel,
            engine: EndEngine::Gro,
            interface: None,
            core: None,
            timestamps: false,
            busy_poll: false,
            at_most_ms: 1000,
        })
    }

    #[test]
    fn the_summary_is_the_last_line_and_must_say_so() {
        let ok = "hello\n{\"schema\": \"fullcount/summary/1\", \"verb\": \"send\"}\n";
        assert_eq!(last_summary(ok).unwrap()["verb"], "send");
        assert!(last_summary("").unwrap_err().contains("empty"));
        assert!(last_summary("{}").unwrap_err().contains("no schema"));
        assert!(last_summary("done").unwrap_err().contains("no JSON"));
        let other = "{\"schema\": \"fullcount/summary/2\"}";
        assert!(last_summary(other).unwrap_err().contains("summary/2"));
    }

    #[test]
    fn a_receiver_tells_its_port() {
        assert_eq!(port_of("listening on 127.0.0.1:4711"), Some(4711));
        assert_eq!(port_of("listening on [::]:9"), Some(9));
        assert_eq!(port_of("listening on eth0 for UDP port 9, any address"), Some(9));
        assert_eq!(port_of("listening on eth0 for UDP port 9, fd00::7"), Some(9));
        assert_eq!((port_of("sending to 1.2.3.4:5"), port_of("")), (None, None));
    }

    #[test]
    fn an_interface_is_found_by_its_address() {
        let Order::Receive(r) = receive() else { unreachable!() };
        let here = LocalPost::loopback("fullcount".into());
        let ring = ReceiveOrder { engine: EndEngine::Packet, ..r };
        let Order::Receive(settled) = here.settled(&Order::Receive(ring.clone())).unwrap() else {
            unreachable!()
        };
        assert!(settled.port > 0, "a port of its own");
        assert_eq!(settled.interface.as_deref(), Some("lo"));
        // TEST-NET-1 is nobody's address.
        let elsewhere = ReceiveOrder { bind: "192.0.2.1".parse().unwrap(), ..ring };
        let e = here.settled(&Order::Receive(elsewhere)).unwrap_err().to_string();
        assert!(e.contains("packet") && e.contains("192.0.2.1") && e.contains("--data"), "{e}");
    }

    #[test]
    fn children_that_cannot_start_or_fail_say_why() {
        let missing = LocalPost::loopback("/nonexistent/fullcount".into());
        let e = missing.begin(&receive()).unwrap_err();
        assert!(matches!(&e, PostError::Start { .. }), "{e}");
        // `false` takes any options and ends with 1: a receiver that failed at once.
        let e = LocalPost::loopback("false".into()).begin(&receive()).unwrap_err();
        assert!(matches!(&e, PostError::Failed { verb: "receive", .. }), "{e}");
        // `true` ends well and prints nothing.
        let send = Order::Send(Send {
            to: "127.0.0.1:9".parse().unwrap(),
            size: 64,
            bits_per_s: None,
            extent: Extent::Packets(1),
            buffer: BufferSize::Kernel,
            engine: EndEngine::Plain,
            core: None,
        });
        let mut work = LocalPost::loopback("true".into()).begin(&send).unwrap();
        let e = loop {
            match work.poll() {
                Ok(None) => std::thread::yield_now(),
                Ok(Some(report)) => panic!("{report:?}"),
                Err(e) => break e,
            }
        };
        assert!(e.to_string().contains("send: no summary: standard output is empty"), "{e}");
        let bad = Order::Receive(ReceiveOrder {
            at_most_ms: 0,
            ..match receive() {
                Order::Receive(r) => r,
                Order::Send(_) => unreachable!(),
            }
        });
        assert!(matches!(missing.begin(&bad).unwrap_err(), PostError::Order(_)), "before starting");
    }
}
