//! Common parts of the fault scenarios: how often and how long, the sender with its list, the service, and the
//! comparison of the list with the result.

use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use serde_json::{Value, json};

use crate::broker::{
    BrokerCluster, Checker, EVENTS, PATIENCE, arguments, counter, packet, wait_for_counter,
    wait_until_empty,
};
use crate::service::{Said, Service};

/// What this run is asked to do.
pub struct Plan {
    pub fault: Option<String>,
    pub rounds: u32,
    /// Least length of a fault.
    pub length: Duration,
}

impl Plan {
    pub fn read() -> Plan {
        let number = |name: &str, usual: f64| match std::env::var(name) {
            Ok(text) => text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")),
            Err(_) => usual,
        };
        Plan {
            fault: std::env::var("FULLCOUNT_FAULT").ok(),
            rounds: number("FULLCOUNT_FAULT_ROUNDS", 3.0) as u32,
            length: Duration::from_secs_f64(number("FULLCOUNT_FAULT_SECONDS", 0.5)),
        }
    }

    pub fn asks_for(&self, fault: &str) -> bool {
        self.fault.as_deref().is_none_or(|asked| asked == fault)
    }
}

/// For the campaign.
pub fn tell(fault: &str, figures: &Value) {
    println!("figures: {}", json!({ "fault": fault, "figures": figures }));
}

/// The sender, and its list: events 0 to [`Self::events`].
pub struct Sender {
    socket: UdpSocket,
    pub port: u16,
    pub next: u32,
}

impl Sender {
    pub fn new() -> Sender {
        Sender { socket: UdpSocket::bind("127.0.0.1:0").expect("a socket"), port: 0, next: 0 }
    }

    pub fn send(&mut self, count: u32) {
        for k in self.next..self.next + count {
            self.socket.send_to(&packet(k), ("127.0.0.1", self.port)).expect("sent");
        }
        self.next += count;
    }

    /// Events in the list.
    pub fn events(&self) -> u64 {
        u64::from(self.next) * u64::from(EVENTS)
    }

    /// Sends this many events a second until `stop`; returns their number.
    pub fn paced(&mut self, rate: f64, stop: &AtomicBool) -> f64 {
        let (begun, first) = (Instant::now(), self.next);
        while !stop.load(Relaxed) {
            let due = (begun.elapsed().as_secs_f64() * rate / f64::from(EVENTS)) as u32;
            let sent = self.next - first;
            if due > sent {
                // Not more at once than a receiver that was put aside for a moment can find room for.
                self.send((due - sent).min(10_000));
            }
            thread::sleep(Duration::from_micros(500));
        }
        f64::from(self.next - first) * f64::from(EVENTS) / begun.elapsed().as_secs_f64()
    }
}

/// The service, with a live page to look at its counters.
pub struct Running {
    pub service: Service,
    pub page: String,
}

impl Running {
    pub fn start(arguments: Vec<String>) -> Running {
        let mut words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        words.extend(["--web", "127.0.0.1:0"]);
        let mut service = Service::start(&words);
        let page = service.page();
        Running { service, page }
    }

    /// A run that receives what `sender` sends from now on.
    pub fn udp(
        sender: &mut Sender,
        url: &str,
        spool: &Path,
        events: u32,
        more: &[&str],
    ) -> Running {
        let mut all = arguments("udp://127.0.0.1:0", url, &spool.display().to_string(), events);
        all.extend(more.iter().map(|word| (*word).to_owned()));
        let mut running = Running::start(all);
        sender.port = running.service.udp_port();
        running
    }

    pub fn counter(&self, name: &str) -> u64 {
        counter(&self.page, name)
    }

    pub fn wait_for(&self, name: &str, least: u64) {
        wait_for_counter(&self.page, name, least);
    }

    /// Waits until each packet since `first` was received or found missing. If the last ones are missing, only a later
    /// packet shows it, so later ones are sent.
    pub fn wait_for_all(&self, sender: &mut Sender, first: u32) {
        let known =
            || ["receive.packets", "packets.lost", "packets.missing"].map(|n| self.counter(n));
        let (mut last, mut still) = (known(), 0);
        let end = Instant::now() + PATIENCE;
        loop {
            let now = known();
            if now.iter().sum::<u64>() >= u64::from(sender.next - first) {
                return;
            }
            still = if now == last { still + 1 } else { 0 };
            if still > 20 {
                sender.send(1);
                still = 0;
            }
            last = now;
            assert!(Instant::now() < end, "{now:?} of {} packets", sender.next - first);
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn interrupt(self) -> Said {
        self.service.interrupt();
        self.service.end()
    }
}

/// What became of the sender's list.
pub struct Account {
    pub on_topic: u64,
    pub packets_lost: u64,
    pub dropped: u64,
}

impl Account {
    /// Ends the run when its spool is empty, and reads the topic to its end: sent events are there, or were counted.
    pub fn close(running: Running, checker: &mut Checker, sender: &mut Sender) -> Account {
        running.wait_for_all(sender, 0);
        wait_until_empty(&running.page);
        let said = running.interrupt();
        let summary = said.summary();
        assert_eq!(summary["balance"], 0, "{}", said.err);
        assert_eq!(said.counter("kafka.spool.messages"), 0);
        checker.read_all();
        let lost = summary["packets"]["lost"].as_object().expect("places");
        let account = Account {
            on_topic: checker.row().events,
            packets_lost: lost.values().filter_map(Value::as_u64).sum(),
            dropped: summary["events_lost"]["kafka"].as_u64().expect("a number"),
        };
        let counted = account.packets_lost * u64::from(EVENTS) + account.dropped;
        let (sent, on_topic) = (sender.events(), account.on_topic);
        assert_eq!(
            sent - on_topic,
            counted,
            "of {sent} events {on_topic} are on the topic: what is not was counted ({} packets lost)",
            account.packets_lost
        );
        assert_eq!(said.code, if counted == 0 { 0 } else { 3 }, "{}", said.err);
        assert!(u64::from(checker.row().next) <= sent, "events that were never sent");
        account
    }

    /// Nothing is missing.
    pub fn assert_whole(&self) {
        assert_eq!((self.packets_lost, self.dropped), (0, 0), "packets lost, events dropped");
    }

    pub fn figures(&self) -> Value {
        json!({
            "events_on_topic": self.on_topic,
            "packets_lost": self.packets_lost,
            "events_dropped": self.dropped,
        })
    }
}

/// Address of a topic.
pub fn url(cluster: &BrokerCluster, topic: &str) -> String {
    format!("kafka://{}/{topic}", cluster.bootstrap())
}

/// A small disk, removed with its content.
pub struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    /// `None` if nothing may be mounted, which is printed, and fails with CI=true.
    pub fn mount(at: &'a Path, size: &str) -> Option<SmallDisk<'a>> {
        std::fs::create_dir(at).expect("a folder");
        let disk = SmallDisk(at);
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o"]).arg(format!("size={size}"));
        let made = mount.arg("fullcount-test").arg(at).output();
        let reason = match made {
            Ok(out) if out.status.success() => return Some(disk),
            Ok(out) => String::from_utf8_lossy(&out.stderr).trim().to_owned(),
            Err(e) => e.to_string(),
        };
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{reason}");
        println!("skipped: a full disk needs root and mount: {reason}");
        std::mem::forget(disk);
        None
    }

    pub fn resize(&self, size: &str) {
        let option = format!("remount,size={size}");
        let done = Command::new("mount").args(["-o", &option]).arg(self.0).status();
        assert!(done.is_ok_and(|status| status.success()), "mount -o {option}");
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

/// The broker that leads a partition, from 0.
pub fn leader(brokers: &str, topic: &str, partition: usize) -> Option<usize> {
    let client: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", brokers).create().expect("settings");
    let metadata = client.fetch_metadata(Some(topic), Duration::from_secs(5)).ok()?;
    let leader = metadata.topics().first()?.partitions().get(partition)?.leader();
    usize::try_from(leader - 1).ok()
}
