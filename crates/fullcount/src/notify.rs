//! What systemd is told: ready, ending, and that the run still answers (`Type=notify-reload`, `WatchdogSec=`).
//!
//! The thread that says so only passes on what it sees: the main loop leaves a mark each time that it goes round, and with an old mark
//! nothing is said. Without `NOTIFY_SOCKET` nothing is done. Refuses nothing: a socket that is gone is no reason to end a run.
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
        let manager = Manager::at(name);
        if let Some(time) = watchdog().filter(|_| manager.0.socket.is_some()) {
            let watched = manager.clone();
            // Not fatal: systemd then ends a service that is well, and says why.
            let _ = std::thread::Builder::new()
                .name("watchdog".into())
                .spawn(move || watched.guard(time));
        }
        manager
    }

    /// The one that listens at that path.
    fn at(name: Option<OsString>) -> Manager {
        let socket = name.and_then(|name| Some((UnixDatagram::unbound().ok()?, name)));
        let (beat, ending) = (Mutex::new(Instant::now()), AtomicBool::new(false));
        Manager(Arc::new(Inner { socket, beat, ending }))
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
        // Ends with the process.
        loop {
            self.pass_on(time, Instant::now());
            std::thread::sleep(time / 3);
        }
    }

    /// Says that the run answers, if its main loop went round lately or it ends.
    fn pass_on(&self, time: Duration, now: Instant) {
        let last = *self.0.beat.lock().unwrap_or_else(PoisonError::into_inner);
        let silence = now.saturating_duration_since(last);
        if self.0.ending.load(Relaxed) || silence < time.max(SILENT) {
            self.say("WATCHDOG=1\n");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_main_loop_that_hangs_is_no_longer_reported_and_one_that_goes_on_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let systemd = UnixDatagram::bind(&path).unwrap();
        systemd.set_nonblocking(true).unwrap();
        let said = || {
            let mut buffer = [0; 100];
            let mut all = Vec::new();
            while let Ok(n) = systemd.recv(&mut buffer) {
                all.push(String::from_utf8(buffer[..n].to_vec()).unwrap());
            }
            all
        };
        let manager = Manager::at(Some(path.into()));
        let asked = Duration::from_secs(1);
        let after = |seconds: f64| {
            manager.pass_on(asked, Instant::now() + Duration::from_secs_f64(seconds));
            said()
        };
        let answers = ["WATCHDOG=1\n".to_owned()];
        manager.beat();
        assert_eq!(after(0.0), answers);
        assert_eq!(after(4.5), answers, "a slow round is no hang");
        assert!(after(5.5).is_empty() && after(60.0).is_empty(), "it hangs");
        manager.beat();
        assert_eq!(after(0.0), answers, "it goes on");
        // A longer interval is asked for: so long a round may take.
        manager.pass_on(Duration::from_secs(30), Instant::now() + Duration::from_secs(20));
        assert_eq!(said(), answers);
        manager.ending();
        assert_eq!(said().len(), 1);
        assert_eq!(after(600.0), answers, "brokers may be waited for");
    }

    #[test]
    fn the_thread_says_nothing_for_a_main_loop_that_never_comes_round() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let systemd = UnixDatagram::bind(&path).unwrap();
        systemd.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let manager = Manager::at(Some(path.into()));
        // The last mark is older than any patience.
        let Some(old) = Instant::now().checked_sub(2 * SILENT) else { return };
        *manager.0.beat.lock().unwrap() = old;
        let watched = manager.clone();
        std::thread::spawn(move || watched.guard(Duration::from_millis(3)));
        // A hundred rounds of the thread.
        std::thread::sleep(Duration::from_millis(100));
        manager.say("MARK=1\n");
        let mut buffer = [0; 100];
        let mut hear = || {
            let n = systemd.recv(&mut buffer).unwrap();
            String::from_utf8(buffer[..n].to_vec()).unwrap()
        };
        assert_eq!(hear(), "MARK=1\n", "nothing before it");
        manager.beat();
        assert_eq!(hear(), "WATCHDOG=1\n");
    }
}
