//! Apache Kafka in KRaft mode, started from a folder of jars: one broker or several, which can be killed and restarted.
//!
//! Each broker is a Java process, controller and broker in one, with its own folder, which is kept after a kill; on
//! loopback, or at an address of another network namespace. Standard library only: `cargo xtask kafka` uses this file,
//! and so do the tests, by its path.
//!
//! Fails if the cluster has not started within a minute per broker, with the errors and the last lines of its log.
#![forbid(unsafe_code)]

pub mod ports;

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Any text of 22 characters of base64: only brokers of one cluster use it.
const CLUSTER_ID: &str = "RnVsbGNvdW50LXRlc3RzMA";
/// Text in the log when a broker accepts connections.
const READY: &str = "Kafka Server started";
/// Memory of one broker, for the suite runs several at a time; and only the quick compiler and collector, with which a
/// broker starts in two thirds of the time.
const JAVA: [&str; 3] = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"];
/// File beside the folder of the jars: Java's archive of the classes that a broker loads, with which it starts in three fifths of the
/// time and of the processor's (1.8 s in place of 2.9 s, 1.2 s in place of 2.0 s).
pub const CLASSES: &str = "classes.jsa";
/// Longest start of one broker, on a machine that compiles at the same time.
const PATIENCE: Duration = Duration::from_secs(60);
/// Text of Java's exception for a port that somebody else has.
const TAKEN: &str = "Address already in use";
/// Starts on other ports, if somebody takes one between its choice and the broker's bind.
const ATTEMPTS: usize = 3;

/// A cluster of brokers.
pub struct BrokerCluster {
    libs: PathBuf,
    place: Place,
    /// Java's option for the archive of classes.
    archive: Option<String>,
    brokers: Vec<Broker>,
}

/// A listener with access control, in addition to the open one.
#[derive(Debug, Clone)]
pub struct Guard {
    /// Kafka's name for it: `SASL_PLAINTEXT`, `SSL` or `SASL_SSL`; one of each at most.
    pub protocol: &'static str,
    /// Its lines of `server.properties`, without the `listener.name.…` that they begin with.
    pub properties: Vec<String>,
}

/// Where brokers listen.
#[derive(Clone, Default)]
struct Place {
    address: String,
    /// Network namespace that they run in, if not ours.
    space: Option<String>,
    guards: Vec<Guard>,
    /// More arguments of StorageTool.
    format: Vec<String>,
}

/// One of them.
struct Broker {
    folder: PathBuf,
    port: u16,
    /// One for each guard.
    guarded: Vec<u16>,
    running: Option<Running>,
}

/// A broker's process, and a shell that ends it at any end of ours: the shell waits for the end of its input.
struct Running {
    child: Child,
    keeper: Child,
}

impl Running {
    fn start(mut java: Command) -> Result<Running, String> {
        let mut child = java.spawn().map_err(|e| format!("java: {e}"))?;
        // Ctrl-C reaches it as well, and it must survive us.
        let script = "trap '' INT TERM HUP; read -r _; kill -KILL \"$0\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, &child.id().to_string()]).stdin(Stdio::piped());
        shell.stdout(Stdio::null()).stderr(Stdio::null());
        match shell.spawn() {
            Ok(keeper) => Ok(Running { child, keeper }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(format!("sh: {error}"))
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The shell first: after the broker's end its process number may belong to another process.
        for child in [&mut self.keeper, &mut self.child] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl BrokerCluster {
    /// Formats and starts `count` brokers in folders below `folder`. `first_port`: broker n listens at this port plus
    /// 2n, its controller one above; `None`: any free ports.
    ///
    /// # Errors
    /// What did not start, with the end of its log.
    pub fn start(
        libs: &Path,
        folder: &Path,
        count: usize,
        first_port: Option<u16>,
    ) -> Result<BrokerCluster, String> {
        let place = Place { address: "127.0.0.1".to_owned(), ..Place::default() };
        BrokerCluster::start_at(place, libs, folder, count, first_port)
    }

    /// One broker on free ports of loopback, with further listeners; `format`: more arguments of StorageTool.
    ///
    /// # Errors
    /// What did not start, with the end of its log.
    #[allow(dead_code, reason = "not every user of this file has passwords")]
    pub fn start_guarded(
        libs: &Path,
        folder: &Path,
        guards: Vec<Guard>,
        format: Vec<String>,
    ) -> Result<BrokerCluster, String> {
        let place = Place { address: "127.0.0.1".to_owned(), guards, format, space: None };
        BrokerCluster::start_at(place, libs, folder, 1, None)
    }

    /// `host:port` of the first broker's listener of this protocol.
    ///
    /// # Panics
    /// There is none.
    #[allow(dead_code, reason = "not every user of this file has passwords")]
    pub fn guarded(&self, protocol: &str) -> String {
        let mut guards = self.place.guards.iter();
        let at = guards.position(|g| g.protocol == protocol).expect("a listener of this protocol");
        format!("{}:{}", self.place.address, self.brokers[0].guarded[at])
    }

    /// As [`Self::start`], on free ports of an address of the network namespace `space`.
    ///
    /// # Errors
    /// What did not start, with the end of its log.
    #[allow(dead_code, reason = "not every user of this file has namespaces")]
    pub fn start_within(
        space: &str,
        address: &str,
        libs: &Path,
        folder: &Path,
        count: usize,
    ) -> Result<BrokerCluster, String> {
        let place = Place {
            address: address.to_owned(),
            space: Some(space.to_owned()),
            ..Place::default()
        };
        BrokerCluster::start_at(place, libs, folder, count, None)
    }

    fn start_at(
        place: Place,
        libs: &Path,
        folder: &Path,
        count: usize,
        first_port: Option<u16>,
    ) -> Result<BrokerCluster, String> {
        let mut attempt = 1;
        loop {
            // Data of an attempt before stays: brokers find each other by the configuration, which is written again.
            let mut cluster =
                BrokerCluster::lay_out(place.clone(), libs, folder, count, first_port)?;
            match cluster.start_all() {
                Err(reason)
                    if first_port.is_none() && attempt < ATTEMPTS && reason.contains(TAKEN) =>
                {
                    attempt += 1;
                }
                other => return other.map(|()| cluster),
            }
        }
    }

    /// Ports, folders and configuration of `count` brokers, none of them started.
    fn lay_out(
        place: Place,
        libs: &Path,
        folder: &Path,
        count: usize,
        first_port: Option<u16>,
    ) -> Result<BrokerCluster, String> {
        let (mut ports, mut guarded) = (Vec::new(), Vec::new());
        // Held until all are known, so that all differ.
        let mut held = Vec::new();
        for n in 0..count {
            ports.push(match first_port {
                Some(first) => (first + 2 * n as u16, first + 2 * n as u16 + 1),
                None => (claim(&mut held)?, claim(&mut held)?),
            });
            let guards = place.guards.iter().map(|_| claim(&mut held));
            guarded.push(guards.collect::<Result<Vec<u16>, String>>()?);
        }
        drop(held);
        let voters: Vec<String> = (1..)
            .zip(&ports)
            .map(|(id, (_, controller))| format!("{id}@{}:{controller}", place.address))
            .collect();
        let voters = voters.join(",");
        let classes = libs.with_file_name(CLASSES);
        let archive =
            classes.exists().then(|| format!("-XX:SharedArchiveFile={}", classes.display()));
        let (libs, brokers) = (libs.to_path_buf(), Vec::new());
        let mut cluster = BrokerCluster { libs, place, archive, brokers };
        for (id, ((port, controller), guarded)) in (1..).zip(ports.into_iter().zip(guarded)) {
            let folder = folder.join(format!("broker-{id}"));
            let put = |name: &str, text: String| {
                let path = folder.join(name);
                fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
            };
            fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
            let address = cluster.place.address.as_str();
            let guards: Vec<_> = cluster.place.guards.iter().zip(guarded.iter().copied()).collect();
            let text = listeners(address, (port, controller), &guards)
                + &properties(id, count, &voters, &folder);
            put("server.properties", text)?;
            put("log4j.properties", log4j(&folder))?;
            if !folder.join("data").exists() {
                cluster.format(&folder)?;
            }
            cluster.brokers.push(Broker { folder, port, guarded, running: None });
        }
        Ok(cluster)
    }

    fn start_all(&mut self) -> Result<(), String> {
        let count = self.brokers.len();
        // Start all first: a single one of several has no majority.
        for n in 0..count {
            self.spawn(n)?;
        }
        for n in 0..count {
            self.wait(n)?;
        }
        Ok(())
    }

    /// Makes the archive of classes beside `libs` if there is none: a broker starts in `folder`, which is deleted in any case, and ends. Java takes no
    /// archive that another Java or other jars have made, and starts without.
    ///
    /// # Errors
    /// What did not start, or Java made no archive.
    pub fn archive_classes(libs: &Path, folder: &Path) -> Result<(), String> {
        let archive = libs.with_file_name(CLASSES);
        if archive.exists() {
            return Ok(());
        }
        let made = folder.join(CLASSES);
        let done = BrokerCluster::run_once(libs, folder, &made).and_then(|()| {
            fs::rename(&made, &archive).map_err(|e| format!("{}: {e}", made.display()))
        });
        let _ = fs::remove_dir_all(folder);
        done
    }

    /// Starts a broker that writes the classes which it has loaded to `made`, and ends it.
    fn run_once(libs: &Path, folder: &Path, made: &Path) -> Result<(), String> {
        let place = Place { address: "127.0.0.1".to_owned(), ..Place::default() };
        let mut cluster = BrokerCluster::lay_out(place, libs, folder, 1, None)?;
        cluster.archive = Some(format!("-XX:ArchiveClassesAtExit={}", made.display()));
        cluster.start_all()?;
        // Java writes them when it ends by itself.
        cluster.signal(0, "-TERM")?;
        let start = Instant::now();
        while cluster.ended().is_none() {
            if start.elapsed() >= PATIENCE {
                return Err(format!("Java does not end within {} s", PATIENCE.as_secs()));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// `host:port` of all brokers, with commas between them.
    pub fn bootstrap(&self) -> String {
        let all: Vec<String> =
            self.brokers.iter().map(|b| format!("{}:{}", self.place.address, b.port)).collect();
        all.join(",")
    }

    /// Ends broker `n` (from 0) at once, as SIGKILL does.
    #[allow(dead_code, reason = "not every user of this file kills brokers")]
    pub fn kill(&mut self, n: usize) {
        self.brokers[n].running = None;
    }

    /// Restarts broker `n` with its data, and waits until it accepts connections.
    ///
    /// # Errors
    /// It did not start.
    #[allow(dead_code, reason = "not every user of this file kills brokers")]
    pub fn restart(&mut self, n: usize) -> Result<(), String> {
        self.spawn(n)?;
        self.wait(n)
    }

    /// Suspends broker `n`: it keeps its connections and answers nothing.
    ///
    /// # Errors
    /// It does not run.
    #[allow(dead_code, reason = "not every user of this file stops brokers")]
    pub fn pause(&self, n: usize) -> Result<(), String> {
        self.signal(n, "-STOP")
    }

    /// Resumes broker `n`.
    ///
    /// # Errors
    /// It does not run.
    #[allow(dead_code, reason = "not every user of this file stops brokers")]
    pub fn resume(&self, n: usize) -> Result<(), String> {
        self.signal(n, "-CONT")
    }

    #[allow(dead_code, reason = "not every user of this file stops brokers")]
    fn signal(&self, n: usize, signal: &str) -> Result<(), String> {
        let running = self.brokers[n].running.as_ref();
        let id = running.ok_or(format!("broker {} is gone", n + 1))?.child.id();
        let sent = Command::new("kill").args([signal, &id.to_string()]).status();
        match sent {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("kill {signal}: {other:?}")),
        }
    }

    /// Number of a broker that has ended by itself.
    pub fn ended(&mut self) -> Option<usize> {
        self.brokers.iter_mut().position(Broker::has_ended)
    }

    fn java(&self, folder: &Path) -> Command {
        let mut java = match &self.place.space {
            None => Command::new("java"),
            Some(space) => {
                // `ip` becomes Java, so that the child is the broker here as well.
                let mut ip = Command::new("ip");
                ip.args(["netns", "exec", space, "java"]);
                ip
            }
        };
        java.arg(format!(
            "-Dlog4j.configuration=file:{}",
            folder.join("log4j.properties").display()
        ))
        .args(JAVA)
        .args(&self.archive)
        .arg("-cp")
        .arg(self.libs.join("*"))
        .stdin(Stdio::null());
        java
    }

    fn format(&self, folder: &Path) -> Result<(), String> {
        let mut java = self.java(folder);
        java.args(["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c"]);
        let said = java
            .arg(folder.join("server.properties"))
            .args(&self.place.format)
            .output()
            .map_err(|e| format!("java: {e}"))?;
        if said.status.success() {
            return Ok(());
        }
        let words = [said.stdout, said.stderr].concat();
        Err(format!("kafka.tools.StorageTool: {}", String::from_utf8_lossy(&words)))
    }

    fn spawn(&mut self, n: usize) -> Result<(), String> {
        let folder = self.brokers[n].folder.clone();
        // Emptied: `wait` looks for the text of this start.
        let out = fs::File::create(folder.join("out")).map_err(|e| e.to_string())?;
        fs::write(folder.join("log"), "").map_err(|e| e.to_string())?;
        let mut java = self.java(&folder);
        let errors = out.try_clone().map_err(|e| e.to_string())?;
        java.arg("kafka.Kafka").arg(folder.join("server.properties")).stdout(out).stderr(errors);
        self.brokers[n].running = Some(Running::start(java)?);
        Ok(())
    }

    fn wait(&mut self, n: usize) -> Result<(), String> {
        let start = Instant::now();
        // One that has ended may be why another has no majority: that one's reason is told.
        let mut failed = n;
        while start.elapsed() < PATIENCE {
            if read(&self.brokers[n].folder.join("log")).contains(READY) {
                return Ok(());
            }
            if let Some(ended) = self.ended() {
                failed = ended;
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let folder = &self.brokers[failed].folder;
        let words = [read(&folder.join("out")), read(&folder.join("log"))].concat();
        Err(format!("broker {} did not start:\n{}", failed + 1, reasons(&words)))
    }
}

impl Broker {
    /// Whether it has ended by itself.
    fn has_ended(&mut self) -> bool {
        self.running.as_mut().is_some_and(|r| !matches!(r.child.try_wait(), Ok(None)))
    }
}

fn claim(held: &mut Vec<TcpListener>) -> Result<u16, String> {
    let listener = ports::hold()?;
    let port = listener.local_addr().map_err(|e| e.to_string())?.port();
    held.push(listener);
    Ok(port)
}

/// Lines that tell of an error, and the last 15: a broker that ends logs its whole end behind the reason.
fn reasons(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let (before, last) = lines.split_at(lines.len().saturating_sub(15));
    let tells = |line: &&&str| [" ERROR ", " FATAL ", "Exception"].iter().any(|w| line.contains(w));
    let errors = before.iter().filter(tells).take(15);
    errors.chain(last).copied().collect::<Vec<_>>().join("\n")
}

/// The last 64 KiB of a log.
fn read(path: &Path) -> String {
    let read = || {
        let mut file = fs::File::open(path)?;
        let bytes = file.metadata()?.len();
        file.seek(SeekFrom::Start(bytes.saturating_sub(64 << 10)))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&text).into_owned())
    };
    read().unwrap_or_default()
}

/// One open listener, one for the controllers, and those with access control.
fn listeners(address: &str, ports: (u16, u16), guards: &[(&Guard, u16)]) -> String {
    let (port, controller) = ports;
    let guarded: String =
        guards.iter().map(|(g, port)| format!(",{}://{address}:{port}", g.protocol)).collect();
    let mut text = format!(
        "listeners=PLAINTEXT://{address}:{port},CONTROLLER://{address}:{controller}{guarded}\n\
         advertised.listeners=PLAINTEXT://{address}:{port}{guarded}\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,\
         SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL\n"
    );
    for (guard, _) in guards {
        let name = guard.protocol.to_lowercase();
        text.extend(guard.properties.iter().map(|p| format!("listener.name.{name}.{p}\n")));
    }
    text
}

fn properties(id: usize, count: usize, voters: &str, folder: &Path) -> String {
    let (copies, least) = (count.min(3), if count >= 3 { 2 } else { 1 });
    format!(
        "process.roles=broker,controller\n\
         node.id={id}\n\
         controller.quorum.voters={voters}\n\
         controller.listener.names=CONTROLLER\n\
         inter.broker.listener.name=PLAINTEXT\n\
         log.dirs={data}\n\
         # With three brokers each leads one.\n\
         num.partitions={copies}\n\
         default.replication.factor={copies}\n\
         min.insync.replicas={least}\n\
         offsets.topic.replication.factor={copies}\n\
         offsets.topic.num.partitions=4\n\
         transaction.state.log.replication.factor={copies}\n\
         transaction.state.log.min.isr={least}\n\
         transaction.state.log.num.partitions=4\n\
         # Event messages have up to 10 MB.\n\
         message.max.bytes=10485760\n\
         replica.fetch.max.bytes=10485760\n\
         # A dead broker's partitions move within seconds.\n\
         broker.session.timeout.ms=3000\n\
         broker.heartbeat.interval.ms=500\n\
         group.initial.rebalance.delay.ms=0\n\
         # A dead member's partitions as well.\n\
         group.min.session.timeout.ms=1000\n\
         auto.create.topics.enable=true\n",
        data = folder.join("data").display()
    )
}

fn log4j(folder: &Path) -> String {
    format!(
        "log4j.rootLogger=INFO, file\n\
         log4j.appender.file=org.apache.log4j.FileAppender\n\
         log4j.appender.file.File={}\n\
         log4j.appender.file.layout=org.apache.log4j.PatternLayout\n\
         log4j.appender.file.layout.ConversionPattern=[%d] %p %m (%c)%n\n",
        folder.join("log").display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_told_though_a_long_end_is_logged_behind_it() {
        let taken = format!("[10:00] ERROR Unable to start: {TAKEN} (kafka.server.KafkaServer)");
        let end = (0..40).map(|n| format!("\n[10:00] INFO end {n} (kafka.server)"));
        let told = reasons(&(taken.clone() + &end.collect::<String>()));
        assert!(told.contains(&taken), "{told}");
        assert_eq!(told.lines().count(), 16);
        assert!(told.ends_with("end 39 (kafka.server)"));
    }

    #[test]
    fn an_archive_of_classes_that_is_there_is_used_and_kept() {
        let folder = std::env::temp_dir().join(format!("fullcount-broker-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (libs, archive) = (folder.join("jars"), folder.join(CLASSES));
        let options = || {
            let place = Place { address: "127.0.0.1".to_owned(), ..Place::default() };
            let cluster = BrokerCluster::lay_out(place, &libs, &folder, 0, None).unwrap();
            let java = cluster.java(&folder);
            java.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        let without = options();
        fs::write(&archive, "of another Java").unwrap();
        let made = BrokerCluster::archive_classes(&libs, &folder.join("broker"));
        let with = options();
        let kept = fs::read_to_string(&archive).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((made, kept.as_str()), (Ok(()), "of another Java"));
        let option = format!("-XX:SharedArchiveFile={}", archive.display());
        assert!(with.contains(&option) && !without.contains(&option), "{with:?}");
        assert_eq!(with.len(), without.len() + 1);
    }
}
