//! What systemd is told: ready, ending, and that the run still answers (`Type=notify-reload`, `WatchdogSec=`).
//!
//! Without `NOTIFY_SOCKET` nothing is done. Refuses nothing: a socket that is gone is no reason to end a run.
//! Sources: sd_notify(3), sd_watchdog_enabled(3); `docs/operations.md`.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The main loop beats once a second; a loop that has not for this long hangs.
const SILENT: Duration = Duration::from_secs(5);

/// What the service manager listens to, if there is one.
#[derive(Clone)]
pub struct Manager(Arc<Inner>);

struct Inner {
    socket: Option<(UnixDatagram, OsString)>,
    beat: Mutex<Instant>,
    /// The end may take as long as brokers are waited for.
    ending: AtomicBool,
}

impl Manager {
    /// The one of this process, asked for in its environment.
    pub fn of_this_process() -> Manager {
        let name = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty());
        let socket = name.and_then(|name| Some((UnixDatagram::unbound().ok()?, name)));
        let inner =
            Inner { socket, beat: Mutex::new(Instant::now()), ending: AtomicBool::new(false) };
        let manager = Manager(Arc::new(inner));
        if let Some(time) = watchdog().filter(|_| manager.0.socket.is_some()) {
            let watched = manager.clone();
            // Not fatal: systemd then ends a service that is well, and says why.
            let _ = std::thread::Builder::new()
                .name("watchdog".into())
                .spawn(move || watched.guard(time));
        }
        manager
    }

    /// Everything is open.
    pub fn ready(&self) {
        self.say("READY=1\nSTATUS=running\n");
    }

    /// The configuration is read again; [`Manager::ready`] says that this is over.
    pub fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={micros}\n"));
    }

    /// The main loop goes round.
    pub fn beat(&self) {
        *self.0.beat.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// The run ends; that may take a while.
    pub fn ending(&self) {
        self.0.ending.store(true, Relaxed);
        self.say("STOPPING=1\nSTATUS=ending: queues and spools are drained\n");
    }

    fn say(&self, text: &str) {
        // Nobody to be told: the run goes on.
        let _ = self.send(text);
    }

    fn send(&self, text: &str) -> io::Result<()> {
        let Some((socket, name)) = &self.0.socket else { return Ok(()) };
        #[cfg(target_os = "linux")]
        if let Some(name) = name.as_bytes().strip_prefix(b"@") {
            use std::os::linux::net::SocketAddrExt as _;
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
            return socket.send_to_addr(text.as_bytes(), &address).map(drop);
        }
        socket.send_to(text.as_bytes(), name).map(drop)
    }

    /// Says again and again that the run answers, as long as it does.
    fn guard(&self, time: Duration) {
        let patience = time.max(SILENT);
        // Ends with the process.
        loop {
            let last = *self.0.beat.lock().unwrap_or_else(PoisonError::into_inner);
            if self.0.ending.load(Relaxed) || last.elapsed() < patience {
                self.say("WATCHDOG=1\n");
            }
            std::thread::sleep(time / 3);
        }
    }
}

/// How often systemd wants to hear of this process.
fn watchdog() -> Option<Duration> {
    let of_us =
        std::env::var("WATCHDOG_PID").ok().is_none_or(|pid| pid == std::process::id().to_string());
    let micros: u64 = std::env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    (of_us && micros > 0).then_some(Duration::from_micros(micros))
}
