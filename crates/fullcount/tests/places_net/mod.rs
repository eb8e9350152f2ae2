//! Two network namespaces joined by a veth, and a sender of numbered packets that can also send what no normal socket
//! does: a wrong checksum, half of a datagram. Its encoder is independent.

#![allow(dead_code)] // each scenario file uses its own part

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

/// Scenarios run one after the other: softnet's counters belong to the whole host.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(|failed| failed.into_inner())
}

/// Sends.
pub const FAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Receives.
pub const NEAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// Where fragments without a rest say they come from: with [`FAR`]'s address one in some hundred runs
/// would meet a whole datagram of the same identification, and the kernel drop both.
const NOWHERE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);
/// Port of the receiver.
pub const PORT: u16 = 9000;

fn ip(arguments: &str) -> Result<(), String> {
    let out = Command::new("ip").args(arguments.split_whitespace()).output();
    let out = out.map_err(|e| format!("ip: {e}"))?;
    match out.status.success() {
        true => Ok(()),
        false => Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&out.stderr).trim())),
    }
}

/// Both namespaces; removed with everything in them when dropped.
pub struct Net {
    pub near: String,
    pub far: String,
}

impl Net {
    /// Creates them; `None` if that is not allowed, which is printed, and fails with `CI=true`.
    pub fn new() -> Option<Net> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let net = Net { near: format!("places-{id}-n"), far: format!("places-{id}-f") };
        let made = ip(&format!("netns add {}", net.near)).and_then(|()| net.join());
        if let Err(reason) = made {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{reason}");
            eprintln!("skipped: network namespaces need root and ip: {reason}");
            return None;
        }
        net.await_carrier();
        Some(net)
    }

    /// Waits until a datagram has come through: a new veth silently drops packets before the kernel has noticed that
    /// both ends are up.
    fn await_carrier(&self) {
        let open = |space: &str, own: Ipv4Addr| {
            Net::inside(space, move || UdpSocket::bind((own, PORT)).unwrap())
        };
        let (near, far) = (open(&self.near, NEAR), open(&self.far, FAR));
        near.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let begun = Instant::now();
        loop {
            let _ = far.send_to(b"?", (NEAR, PORT));
            if near.recv(&mut [0; 8]).is_ok() {
                return;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "no datagram comes through the veth"
            );
        }
    }

    fn join(&self) -> Result<(), String> {
        let Net { near, far } = self;
        ip(&format!("netns add {far}"))?;
        ip(&format!("-n {near} link add places0 type veth peer name places1 netns {far}"))?;
        for (space, end, address) in [(near, "places0", NEAR), (far, "places1", FAR)] {
            ip(&format!("-n {space} addr add {address}/24 dev {end}"))?;
            ip(&format!("-n {space} link set lo up"))?;
            ip(&format!("-n {space} link set {end} up"))?;
        }
        Ok(())
    }

    /// A command inside a namespace.
    pub fn command(space: &str, program: &str) -> Command {
        let mut c = Command::new("ip");
        c.args(["netns", "exec", space, program]).stdin(std::process::Stdio::null());
        c
    }

    /// Writes a file as seen inside the receiver's namespace (`/proc/sys`, `/sys/class/net`).
    pub fn write(&self, path: &str, value: &str) {
        let script = format!("echo {value} > {path}");
        let out = Net::command(&self.near, "sh").args(["-c", &script]).output().unwrap();
        assert!(out.status.success(), "{script}: {}", String::from_utf8_lossy(&out.stderr));
    }

    /// Makes the sender's kernel cut trains into packets before they reach the veth.
    pub fn cut_trains(&self) {
        ip(&format!("-n {} link set places1 gso_max_segs 1", self.far)).unwrap();
    }

    /// Puts a token bucket of 8 Mbit/s with room for 20 packets of 1 kB before an interface.
    pub fn slow_queue(space: &str, interface: &str) {
        let queue = "root tbf rate 8mbit burst 10kb limit 20kb";
        let mut tc = Net::command(space, "tc");
        tc.args(["qdisc", "add", "dev", interface]).args(queue.split(' '));
        let out = tc.output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }

    /// Runs `work` on a separate thread inside a namespace.
    pub fn inside<T: Send>(space: &str, work: impl FnOnce() -> T + Send) -> T {
        let space = std::fs::File::open(format!("/run/netns/{space}")).unwrap();
        let inside = move || {
            let net = rustix::thread::LinkNameSpaceType::Network;
            rustix::thread::move_into_link_name_space(space.as_fd(), Some(net)).unwrap();
            work()
        };
        std::thread::scope(|scope| scope.spawn(inside).join().unwrap())
    }

    /// A sender in namespace `space` to `to`, from `from`.
    pub fn sender(space: &str, from: Ipv4Addr, to: Ipv4Addr) -> Sender {
        Net::inside(space, move || {
            let udp = UdpSocket::bind((from, 0)).unwrap();
            udp.connect((to, PORT)).unwrap();
            let protocol = Some(Protocol::from(255)); // IPPROTO_RAW: the header is ours
            let raw = Socket::new(Domain::IPV4, Type::RAW, protocol).unwrap();
            let port = udp.local_addr().unwrap().port();
            let (from, to) = (SocketAddrV4::new(from, port), SocketAddrV4::new(to, PORT));
            Sender { udp, raw, from, to, size: 1000, sent: 0 }
        })
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for space in [&self.near, &self.far] {
            let _ = ip(&format!("netns del {space}"));
        }
    }
}

/// Sends numbered packets of one stream.
pub struct Sender {
    udp: UdpSocket,
    raw: Socket,
    from: SocketAddrV4,
    to: SocketAddrV4,
    /// Payload bytes of each packet, from 24.
    pub size: usize,
    /// Packets sent, delivered or not.
    pub sent: u64,
}

/// How a packet is sent that does not arrive.
pub enum Spoilt {
    /// With a wrong UDP checksum.
    Checksum,
    /// Only the first of two fragments.
    FirstFragment,
}

impl Sender {
    fn payload(number: u64, time: u64, size: usize) -> Vec<u8> {
        let mut p = b"FCSQ".to_vec();
        p.extend(7u32.to_le_bytes());
        p.extend(number.to_le_bytes());
        p.extend(time.to_le_bytes());
        let first = p.len();
        p.extend((first..size).map(|i| (32 * number as usize + i) as u8));
        p
    }

    fn next(&mut self) -> Vec<u8> {
        self.sent += 1;
        Sender::payload(self.sent - 1, 0, self.size)
    }

    /// Sends `n` packets as fast as one call each goes.
    pub fn burst(&mut self, n: u64) {
        for _ in 0..n {
            let p = self.next();
            // A refusal (no receiver any more) is for an earlier packet; this one is still sent.
            if self.udp.send(&p).is_err() {
                let _ = self.udp.send(&p);
            }
        }
    }

    /// Sends one end mark.
    pub fn end_mark(&self) {
        let _ = self.udp.send(&Sender::payload(u64::MAX, self.sent, 24));
    }

    /// Sends one packet that cannot arrive.
    pub fn spoil(&mut self, how: Spoilt) {
        let payload = self.next();
        let from = match how {
            Spoilt::Checksum => *self.from.ip(),
            Spoilt::FirstFragment => NOWHERE,
        };
        let mut udp = self.from.port().to_be_bytes().to_vec();
        udp.extend(self.to.port().to_be_bytes());
        udp.extend((8 + payload.len() as u16).to_be_bytes());
        udp.extend([0, 0]);
        udp.extend(&payload);
        let mut pseudo = [from.octets(), self.to.ip().octets()].concat();
        pseudo.extend([0, 17]);
        pseudo.extend((udp.len() as u16).to_be_bytes());
        pseudo.extend(&udp);
        let right = match sum(&pseudo) {
            0 => 0xffff,
            n => n,
        };
        // Neither right nor 0, which would say "not computed".
        let wrong = if right == 0x1234 { 0x4321 } else { 0x1234u16 };
        let (checksum, more, len) = match how {
            Spoilt::Checksum => (wrong, 0, udp.len()),
            Spoilt::FirstFragment => (right, 0x2000u16, 1480),
        };
        udp[6..8].copy_from_slice(&checksum.to_be_bytes());
        udp.truncate(len);
        let mut packet = vec![0x45, 0];
        packet.extend((20 + udp.len() as u16).to_be_bytes());
        packet.extend((self.sent as u16).to_be_bytes());
        packet.extend(more.to_be_bytes());
        packet.extend([64, 17, 0, 0]);
        packet.extend(from.octets());
        packet.extend(self.to.ip().octets());
        let header = sum(&packet);
        packet[10..12].copy_from_slice(&header.to_be_bytes());
        packet.extend(udp);
        let n = self.raw.send_to(&packet, &self.to.into()).unwrap();
        assert_eq!(n, packet.len());
    }
}

/// Internet checksum (RFC 1071).
fn sum(bytes: &[u8]) -> u16 {
    let pairs = bytes.chunks(2).map(|c| u64::from(c[0]) << 8 | u64::from(*c.get(1).unwrap_or(&0)));
    let mut all: u64 = pairs.sum();
    while all > 0xffff {
        all = (all & 0xffff) + (all >> 16);
    }
    !(all as u16)
}

/// A counter of `/proc/PID/net/snmp`, in the process's own namespace.
pub fn snmp(pid: u32, group: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/net/snmp")).unwrap();
    let mut of_group = text.lines().filter_map(|l| l.strip_prefix(&format!("{group}: ")));
    let (names, values) = (of_group.next().unwrap(), of_group.next().unwrap());
    let at = names.split(' ').position(|n| n == name).unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}
