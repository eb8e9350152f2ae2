//! Two network namespaces joined by a veth pair, for the length of a test.

use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// IPv4 and IPv6 addresses of the sender's and the receiver's end.
pub const SENDER: &str = "10.77.0.1";
pub const RECEIVER: &str = "10.77.0.2";
pub const RECEIVER_V6: &str = "fd77::2";
/// Name of the interface at either end.
pub const NAME: &str = "v0";

/// Longest wait until a new link works: seconds if many links are created and removed.
const CARRIER: Duration = Duration::from_secs(60);

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Removed when dropped.
pub struct Veth {
    sender: String,
    receiver: String,
}

fn ip(words: &str) -> Result<(), String> {
    let out = Command::new("ip").args(words.split_whitespace()).output();
    match out {
        Ok(out) if out.status.success() => Ok(()),
        Ok(out) => Err(format!("ip {words}: {}", String::from_utf8_lossy(&out.stderr).trim())),
        Err(e) => Err(format!("ip: {e}")),
    }
}

impl Veth {
    /// `None` after printing why, if namespaces cannot be created; fails in CI.
    pub fn new(mtu: u32, queues: u32) -> Option<Veth> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = |end| format!("fc-xdp-{end}-{}-{number}", std::process::id());
        let veth = Veth { sender: name("s"), receiver: name("r") };
        match veth.make(mtu, queues) {
            Ok(()) => {
                veth.await_carrier();
                Some(veth)
            }
            Err(e) => {
                assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CI needs namespaces: {e}");
                println!("skipped: network namespaces need root and iproute2: {e}");
                None
            }
        }
    }

    fn make(&self, mtu: u32, queues: u32) -> Result<(), String> {
        let (s, r) = (&self.sender, &self.receiver);
        ip(&format!("netns add {s}"))?;
        ip(&format!("netns add {r}"))?;
        ip(&format!(
            "link add {NAME} mtu {mtu} netns {s} numtxqueues {queues} numrxqueues {queues} \
             type veth peer name {NAME} mtu {mtu} netns {r} numtxqueues {queues} numrxqueues {queues}"
        ))?;
        for (ns, v4, v6) in [(s, SENDER, "fd77::1"), (r, RECEIVER, RECEIVER_V6)] {
            ip(&format!("-n {ns} link set lo up"))?;
            ip(&format!("-n {ns} address add {v4}/24 dev {NAME}"))?;
            ip(&format!("-n {ns} address add {v6}/64 dev {NAME} nodad"))?;
            ip(&format!("-n {ns} link set {NAME} up"))?;
        }
        Ok(())
    }

    /// Waits until a datagram comes through: the kernel enables a link's queues after a while, and silently drops
    /// packets until then.
    pub fn await_carrier(&self) {
        let far = self.receiving(|| UdpSocket::bind((RECEIVER, 9)).unwrap());
        far.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let (near, end) = (self.socket(RECEIVER, 9), Instant::now() + CARRIER);
        loop {
            drop(near.send(b"?"));
            if far.recv(&mut [0; 8]).is_ok() {
                return;
            }
            assert!(Instant::now() < end, "no datagram came through the veth for {CARRIER:?}");
        }
    }

    /// Runs `ip` in the receiver's namespace.
    pub fn ip(&self, words: &str) {
        ip(&format!("-n {} {words}", self.receiver)).unwrap();
    }

    /// Output of a program in the receiver's namespace (`sending`: the sender's).
    pub fn run(&self, sending: bool, words: &[&str]) -> String {
        let ns = if sending { &self.sender } else { &self.receiver };
        let mut program = Command::new("ip");
        program.args(["netns", "exec", ns]).args(words).stdin(Stdio::null());
        let out = program.output().unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
    }

    /// Does something in the receiver's namespace; what it opens may be used from any thread.
    pub fn receiving<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        inside(&self.receiver, act)
    }

    /// Does something in the sender's namespace.
    pub fn sending<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        inside(&self.sender, act)
    }

    /// A plain UDP socket in the sender's namespace, connected to the receiver.
    pub fn socket(&self, to: &str, port: u16) -> UdpSocket {
        self.sending(|| {
            let any = if to.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
            let socket = UdpSocket::bind(any).unwrap();
            socket.connect((to, port)).unwrap();
            socket
        })
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        for name in [&self.sender, &self.receiver] {
            drop(ip(&format!("netns delete {name}")));
        }
    }
}

fn inside<T: Send>(name: &str, act: impl FnOnce() -> T + Send) -> T {
    let there = File::open(format!("/run/netns/{name}")).unwrap();
    std::thread::scope(|scope| {
        let enter = || {
            move_into_link_name_space(there.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            act()
        };
        scope.spawn(enter).join().unwrap()
    })
}
