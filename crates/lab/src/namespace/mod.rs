//! Hosts in one host: network namespaces joined by veth pairs, with addresses, MTU, offloads and, where
//! wanted, a token-bucket queue; made and removed by us.
//!
//! [`NamespaceNetwork::build`] makes what a [`Layout`] says with the programs `ip` and `tc` of iproute2, offloads by
//! ioctl. Neighbours are entered for good, so that no first packet waits for an address, and both ends are
//! awaited until they carry. Everything goes when the [`NamespaceNetwork`] is dropped; a program that is killed
//! leaves its namespaces behind, and the next [`NamespaceNetwork::build`] on the host removes them ([`leftover`]).
//! Programs started inside end before: drop them first. Refuses: see [`NamespaceError`]. Needs Linux, root.

pub mod leftover;

use std::ffi::OsStr;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Largest MTU of a veth, bytes.
pub const MTU_MAX: usize = 65_535;
/// Smallest MTU that IPv4 allows; IPv6 needs 1280 and is left out below.
pub const MTU_MIN: usize = 68;
/// From this MTU on a link has IPv6 addresses too.
const MTU_IPV6: usize = 1280;
/// Namespaces and links that a layout may have.
const MOST: usize = 64;
/// How long both ends of a link may take to carry; a veth takes some ms, up to seconds where many links come and
/// go, as the kernel tells of them once a second.
const CARRIES: Duration = Duration::from_secs(30);

/// Why a network could not be made.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum NamespaceError {
    #[error(
        "network namespaces need root (CAP_SYS_ADMIN and CAP_NET_ADMIN): run it with sudo, or measure on loopback"
    )]
    NotRoot,
    #[error("the program {program} is missing ({cause}): install iproute2")]
    NoProgram { program: &'static str, cause: std::io::Error },
    #[error("{command}: {said}")]
    Refused { command: String, said: String },
    #[error("network layout: {key} {value} is not allowed: {allowed}")]
    Layout { key: &'static str, value: String, allowed: &'static str },
    #[error("{interface}: offload {offload}: {cause}; 'ethtool -k' lists what can be switched")]
    Offload { interface: String, offload: String, cause: std::io::Error },
    #[error(
        "{interface} in {namespace} does not carry after {seconds} s; is the veth module there?"
    )]
    Down { namespace: String, interface: String, seconds: u64 },
}

/// A token-bucket queue on the first end of a link: what it cannot send at `bits_per_s` waits, and what
/// waits above `limit` is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBucket {
    /// Rate of frames without preamble and gap, bit/s.
    pub bits_per_s: u64,
    /// Bytes that may go at once.
    pub burst: u64,
    /// Bytes that may wait.
    pub limit: u64,
}

/// A veth pair between two namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VethPair {
    /// Namespaces that it joins, by number: the first end is the sender's by convention.
    pub hosts: (usize, usize),
    /// Bytes of the largest IP packet, 68 to 65535; IPv6 addresses from 1280.
    pub mtu: usize,
    /// Offloads to switch at both ends, by the names of `ethtool -k`, e.g. `("tx-udp-segmentation", false)`.
    pub offloads: Vec<(String, bool)>,
    /// Queue at the first end.
    pub shaped: Option<TokenBucket>,
    /// Each flow is received on one processor at the second end, as a card with one queue a flow does it.
    pub in_order: bool,
}

impl VethPair {
    /// A link between namespaces `a` and `b` with the kernel's own offloads and no queue.
    pub fn between(a: usize, b: usize, mtu: usize) -> VethPair {
        VethPair { hosts: (a, b), mtu, offloads: Vec::new(), shaped: None, in_order: false }
    }

    /// The same with trains of datagrams (UDP GSO) cut at the first end, so that each packet crosses
    /// by itself, as on a wire.
    pub fn segments_cut(mut self) -> VethPair {
        self.offloads.push(("tx-udp-segmentation".to_owned(), false));
        self
    }

    /// The same with receive packet steering at the second end. A veth gives a packet to the backlog of the processor that sends it. A
    /// queue is emptied by several processors, so packets of a flow overtake each other, which they do not on a wire.
    pub fn in_order(mut self) -> VethPair {
        self.in_order = true;
        self
    }
}

/// What to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Word in the names, 1 to 12 of `a-z0-9`.
    pub purpose: String,
    /// Number of namespaces, 1 to 64.
    pub hosts: usize,
    /// Links, at most 64; link `n` is called `link<n>` in both its namespaces.
    pub links: Vec<VethPair>,
}

impl Layout {
    /// Two namespaces, 0 and 1, and one link.
    pub fn pair(purpose: &str, link: VethPair) -> Layout {
        Layout { purpose: purpose.to_owned(), hosts: 2, links: vec![link] }
    }

    fn check(&self) -> Result<(), NamespaceError> {
        let refuse = |key, value: String, allowed| NamespaceError::Layout { key, value, allowed };
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        if !(1..=12).contains(&self.purpose.len()) || !self.purpose.chars().all(word) {
            return Err(refuse("purpose", self.purpose.clone(), "1 to 12 of a-z and 0-9"));
        }
        if !(1..=MOST).contains(&self.hosts) {
            return Err(refuse("hosts", self.hosts.to_string(), "1 to 64"));
        }
        if self.links.len() > MOST {
            return Err(refuse("links", self.links.len().to_string(), "0 to 64"));
        }
        for link in &self.links {
            let (a, b) = link.hosts;
            if a >= self.hosts || b >= self.hosts || a == b {
                let why = "two different namespaces of the layout, counted from 0";
                return Err(refuse("link", format!("{a}-{b}"), why));
            }
            if !(MTU_MIN..=MTU_MAX).contains(&link.mtu) {
                return Err(refuse("mtu", link.mtu.to_string(), "68 to 65535 bytes"));
            }
            if link.shaped.is_some_and(|s| s.bits_per_s < 8 || s.burst == 0 || s.limit == 0) {
                let why = "a rate of 8 bit/s or more, a burst and a limit above 0";
                return Err(refuse("shaped", format!("{:?}", link.shaped), why));
            }
        }
        Ok(())
    }
}

/// Namespaces and links that are up; removed when dropped.
#[derive(Debug)]
pub struct NamespaceNetwork {
    names: Vec<String>,
    layout: Layout,
}

/// Networks of this process so far, for names.
static MADE: AtomicU32 = AtomicU32::new(0);

impl NamespaceNetwork {
    /// Removes what killed programs left, then makes the namespaces and links of `layout`.
    ///
    /// # Errors
    /// [`NamespaceError`]; what was made until then is removed.
    pub fn build(layout: &Layout) -> Result<NamespaceNetwork, NamespaceError> {
        layout.check()?;
        if !allowed() {
            return Err(NamespaceError::NotRoot);
        }
        leftover::remove()?;
        let maker = leftover::Maker::this();
        let number = MADE.fetch_add(1, Relaxed);
        // Named one by one as they are made, so that a failure half-way removes just these.
        let mut network = NamespaceNetwork { names: Vec::new(), layout: layout.clone() };
        for host in 0..layout.hosts {
            let name = maker.name(&layout.purpose, number, host);
            run("ip", ["netns", "add", &name])?;
            network.names.push(name);
            network.ip(host, ["link", "set", "lo", "up"])?;
        }
        for index in 0..layout.links.len() {
            network.join(index)?;
        }
        for index in 0..layout.links.len() {
            network.await_carrier(index)?;
        }
        Ok(network)
    }

    fn join(&self, index: usize) -> Result<(), NamespaceError> {
        let link = &self.layout.links[index];
        let (a, b) = link.hosts;
        let (name, mtu) = (self.interface(index), link.mtu.to_string());
        let far = &self.names[b];
        let pair = ["link", "add", &name, "mtu", &mtu, "type", "veth", "peer", "name", &name];
        self.ip(a, pair.into_iter().chain(["mtu", &mtu, "netns", far]))?;
        for (host, end) in [(a, 0), (b, 1)] {
            for (offload, on) in &link.offloads {
                let set = || fullcount_io::sys::set_feature(&name, offload, *on);
                let done = self.inside(host, set).and_then(|done| done);
                done.map_err(|cause| NamespaceError::Offload {
                    interface: name.clone(),
                    offload: offload.clone(),
                    cause,
                })?;
            }
            let v4 = format!("{}/24", self.address(index, end));
            self.ip(host, ["address", "add", &v4, "dev", &name])?;
            if link.mtu >= MTU_IPV6 {
                // Without the check for doubles, which would keep the address unusable for 1 to 2 s.
                let v6 = format!("{}/64", self.address_v6(index, end));
                self.ip(host, ["-6", "address", "add", &v6, "dev", &name, "nodad"])?;
            }
            self.ip(host, ["link", "set", &name, "up"])?;
        }
        for (host, far_host, far_end) in [(a, b, 1), (b, a, 0)] {
            let mac = self.hardware_address(far_host, &name)?;
            let mut addresses = vec![self.address(index, far_end).to_string()];
            if link.mtu >= MTU_IPV6 {
                addresses.push(self.address_v6(index, far_end).to_string());
            }
            for address in &addresses {
                let words = ["neighbour", "replace", address, "lladdr", &mac, "dev", &name];
                self.ip(host, words.into_iter().chain(["nud", "permanent"]))?;
            }
        }
        if let Some(TokenBucket { bits_per_s, burst, limit }) = link.shaped {
            let (rate, burst) = (format!("{bits_per_s}bit"), format!("{burst}b"));
            let limit = format!("{limit}b");
            let words = ["qdisc", "add", "dev", &name, "root", "tbf", "rate", &rate];
            self.tc(a, words.into_iter().chain(["burst", &burst, "limit", &limit]))?;
        }
        if link.in_order {
            self.steer(b, &name)?;
        }
        Ok(())
    }

    /// Lets the kernel choose by its hash of the flow on which processor it receives a packet.
    fn steer(&self, host: usize, interface: &str) -> Result<(), NamespaceError> {
        let file = format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus");
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let script = format!("echo {} > {file}", processor_mask(cores));
        // `ip netns exec` mounts the namespace's own /sys; this process has that of the host.
        run("ip", ["netns", "exec", &self.names[host], "sh", "-c", &script]).map(drop)
    }

    fn show(&self, host: usize, interface: &str) -> Result<Value, NamespaceError> {
        let words = ["-j", "-n", &self.names[host], "link", "show", "dev", interface];
        let text = run("ip", words)?;
        serde_json::from_str(&text).map_err(|e| NamespaceError::Refused {
            command: format!("ip -j link show dev {interface}"),
            said: format!("no JSON: {e}"),
        })
    }

    /// MAC address of an interface, as `ip` writes it.
    ///
    /// # Errors
    /// No such interface.
    pub fn hardware_address(&self, host: usize, interface: &str) -> Result<String, NamespaceError> {
        let shown = self.show(host, interface)?;
        let mac = shown.pointer("/0/address").and_then(Value::as_str);
        mac.map(str::to_owned).ok_or_else(|| NamespaceError::Refused {
            command: format!("ip -j link show dev {interface}"),
            said: "no address".to_owned(),
        })
    }

    fn await_carrier(&self, index: usize) -> Result<(), NamespaceError> {
        let (a, b) = self.layout.links[index].hosts;
        let interface = self.interface(index);
        let begun = Instant::now();
        for host in [a, b] {
            while self.show(host, &interface)?.pointer("/0/operstate") != Some(&"UP".into()) {
                if begun.elapsed() >= CARRIES {
                    let (namespace, seconds) = (self.names[host].clone(), CARRIES.as_secs());
                    return Err(NamespaceError::Down { namespace, interface, seconds });
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(())
    }

    /// Name of a namespace, as `ip netns` lists it.
    pub fn name(&self, host: usize) -> &str {
        &self.names[host]
    }

    /// The file that stands for a namespace.
    pub fn path(&self, host: usize) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.names[host])
    }

    /// What was made.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Name of link `index` in both its namespaces.
    pub fn interface(&self, index: usize) -> String {
        format!("link{index}")
    }

    /// IPv4 address of an end (0 or 1) of link `index`: `10.201.<index>.1` or `.2`.
    pub fn address(&self, index: usize, end: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 201, index as u8, 1 + end as u8)
    }

    /// IPv6 address of an end (0 or 1) of link `index`: `fdfc:201:0:<index>::1` or `::2`.
    pub fn address_v6(&self, index: usize, end: usize) -> Ipv6Addr {
        Ipv6Addr::new(0xfdfc, 0x201, 0, index as u16, 0, 0, 0, 1 + end as u16)
    }

    /// A command that runs `program` inside; its process is that of the program itself.
    pub fn command(&self, host: usize, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[host]]).arg(program);
        command
    }

    /// Runs `work` on a thread inside; sockets opened there stay there, and so do settings below
    /// `/proc/sys/net`.
    pub fn inside<T: Send>(
        &self,
        host: usize,
        work: impl FnOnce() -> T + Send,
    ) -> std::io::Result<T> {
        fullcount_io::sys::in_namespace(&self.path(host), work)
    }

    /// Runs `ip -n NAMESPACE words…`; its standard output.
    ///
    /// # Errors
    /// What `ip` said.
    pub fn ip<'a>(
        &self,
        host: usize,
        words: impl IntoIterator<Item = &'a str>,
    ) -> Result<String, NamespaceError> {
        let mut all = vec!["-n", &self.names[host]];
        for word in words {
            all.push(word);
        }
        run("ip", all)
    }

    /// Runs `tc -n NAMESPACE words…`; its standard output.
    ///
    /// # Errors
    /// What `tc` said.
    pub fn tc<'a>(
        &self,
        host: usize,
        words: impl IntoIterator<Item = &'a str>,
    ) -> Result<String, NamespaceError> {
        let mut all = vec!["-n", &self.names[host]];
        for word in words {
            all.push(word);
        }
        run("tc", all)
    }
}

impl Drop for NamespaceNetwork {
    fn drop(&mut self) {
        for name in &self.names {
            // The veth pairs and queues inside go with the namespaces.
            let _ = run("ip", ["netns", "delete", name]);
        }
    }
}

/// Why no namespaces can be made here, if they cannot: not root, or no `ip`.
pub fn lacking() -> Option<NamespaceError> {
    if !allowed() {
        return Some(NamespaceError::NotRoot);
    }
    run("ip", ["-V"]).err()
}

/// True if this process may make namespaces.
pub fn allowed() -> bool {
    const NET_ADMIN: u32 = 12;
    const SYS_ADMIN: u32 = 21;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let bits = line.and_then(|l| u64::from_str_radix(l.trim(), 16).ok()).unwrap_or(0);
    [NET_ADMIN, SYS_ADMIN].iter().all(|bit| bits & (1 << bit) != 0)
}

/// The first `cores` processors as a mask of sysfs: hexadecimal words of 32 bits, the highest first.
fn processor_mask(cores: usize) -> String {
    let words = cores.max(1).div_ceil(32);
    let of = |word: usize| {
        let bits = cores.max(1) - word * 32;
        format!("{:x}", if bits >= 32 { u32::MAX } else { (1 << bits) - 1 })
    };
    (0..words).rev().map(of).collect::<Vec<_>>().join(",")
}

/// Runs a program of iproute2; its standard output.
fn run<'a>(
    program: &'static str,
    words: impl IntoIterator<Item = &'a str>,
) -> Result<String, NamespaceError> {
    let words: Vec<&str> = words.into_iter().collect();
    let mut command = Command::new(program);
    command.args(&words).stdin(Stdio::null());
    let output = command.output().map_err(|cause| NamespaceError::NoProgram { program, cause })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if !output.status.success() {
        let said = match text(&output.stderr) {
            empty if empty.is_empty() => output.status.to_string(),
            said => said,
        };
        return Err(NamespaceError::Refused {
            command: format!("{program} {}", words.join(" ")),
            said,
        });
    }
    Ok(text(&output.stdout))
}

#[cfg(test)]
#[path = "namespace_tests.rs"]
mod tests;
