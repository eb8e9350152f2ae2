//! What campaigns with a Kafka broker share: broker, jars, and a folder of the run.
//!
//! Refuses before anything is opened: an address that cannot be, a folder without Kafka's jars.

use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::record::Record;
use crate::streaming::broker::Broker;
use crate::streaming::performance::{check_jars, versions};
use anyhow::{Context, ensure};
use fullcount_io::newfile::Scratch;
use fullcount_kafka::{Admin, Consumer, ConsumerOptions, KafkaSettings, check_brokers};

use crate::Tell;
use crate::error::LabError;

/// Where to measure, as the options have it.
#[derive(Debug, Clone, Default)]
pub struct BenchOptions {
    /// Broker: `HOST[:PORT]`; `None`: one is started here and ended again.
    pub broker: Option<String>,
    /// Folder with Apache Kafka's jars; `None`: what `cargo xtask kafka` has fetched.
    pub jars: Option<PathBuf>,
    /// Folder for everything that is written, on the disk to measure; `None`: the system's temporary folder.
    pub folder: Option<PathBuf>,
    /// librdkafka's own settings for our side, `NAME=VALUE`.
    pub kafka_set: Vec<String>,
}

/// Checked, nothing opened.
#[derive(Debug)]
pub struct Checked {
    broker: Option<String>,
    jars: Option<PathBuf>,
    folder: PathBuf,
    settings: KafkaSettings,
}

/// Broker and folder, for as long as this lives.
#[derive(Debug)]
pub struct BenchGround {
    // Ends before its folder goes.
    broker: Broker,
    folder: Scratch,
    jars: Option<PathBuf>,
    /// librdkafka's own settings.
    pub settings: KafkaSettings,
    /// Gets lines of progress.
    pub tell: Tell,
}

/// Longest wait for a topic that was made.
const SEEN: Duration = Duration::from_secs(15);
/// Topics have this much disk freed again a second after they are removed, and take messages of 10 MB.
const TOPIC: [(&str, &str); 2] =
    [("file.delete.delay.ms", "1000"), ("max.message.bytes", "10485760")];

impl BenchOptions {
    /// Checks the options. `theirs`: Kafka's own program is needed.
    ///
    /// # Errors
    /// The first that cannot be.
    pub fn check(&self, theirs: bool) -> Result<Checked, LabError> {
        let broker = match &self.broker {
            None => None,
            Some(text) => {
                Some(check_brokers(text).map_err(|e| LabError::Refused(format!("--broker {e}")))?)
            }
        };
        let settings = KafkaSettings::of_options(&self.kafka_set)
            .map_err(|e| LabError::Refused(format!("--kafka-set {e}")))?;
        let jars = match (theirs || broker.is_none(), self.jars.clone().or_else(usual_jars)) {
            (false, _) => None,
            (true, Some(jars)) => {
                check_jars(&jars, broker.is_none())
                    .map_err(|e| LabError::Refused(e.to_string()))?;
                Some(jars)
            }
            (true, None) => {
                return Err(LabError::Refused(
                    "--jars: no jars of Apache Kafka were found: `cargo xtask kafka` fetches them, \
                     or name the folder libs of an installed Kafka"
                        .into(),
                ));
            }
        };
        let folder = self.folder.clone().unwrap_or_else(std::env::temp_dir);
        if !folder.is_dir() {
            let what = format!("--folder {}: is not a folder", folder.display());
            return Err(LabError::Refused(what));
        }
        Ok(Checked { broker, jars, folder, settings })
    }
}

/// What `cargo xtask kafka` has fetched: beside this program's target folder, or here.
fn usual_jars() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("FULLCOUNT_KAFKA_JARS") {
        return Some(named.into());
    }
    let program = std::env::current_exe().ok()?;
    let targets = program.ancestors().map(Path::to_path_buf).chain([PathBuf::from("target")]);
    let jars = |target: PathBuf| {
        let kafka = target.join("kafka");
        kafka.join("fetched.xml").is_file().then(|| kafka.join("jars"))
    };
    targets.into_iter().find_map(jars)
}

impl Checked {
    /// Starts a broker if none is given, and makes the folder. Java has to be there if jars are needed.
    ///
    /// # Errors
    /// No Java, no answer of the broker, and a folder that takes nothing.
    pub fn open(self, record: &mut Record, tell: Tell) -> anyhow::Result<BenchGround> {
        let Checked { broker, jars, folder, settings } = self;
        if let Some(jars) = &jars {
            let (kafka, java) = versions(jars, Path::new("java"))?;
            record.parameter("kafka", kafka).parameter("java", java);
        }
        if let Some(broker) = &broker {
            reach(broker)?;
        }
        let folder = Scratch::make(&folder, "fullcount-lab")
            .with_context(|| format!("making a folder in {}", folder.display()))?;
        let own = broker.is_none();
        let broker = match (broker, &jars) {
            (None, Some(jars)) => {
                tell("starting a broker");
                Broker::start(jars, &folder.path().join("kafka"))?
            }
            (given, _) => Broker::given(given.as_deref().unwrap_or_default()),
        };
        record
            .parameter("broker", if own { "started for this, one, on this host" } else { "given" })
            .parameter("broker_partitions", 1)
            .parameter("our_settings", format!("{settings:?}"));
        Ok(BenchGround { broker, folder, jars, settings, tell })
    }
}

/// Refuses brokers of which none takes a connection: librdkafka would wait for one.
fn reach(brokers: &str) -> anyhow::Result<()> {
    let mut last = "no such host".to_owned();
    for address in brokers.split(',') {
        let all = address.to_socket_addrs().with_context(|| format!("--broker {address}"))?;
        for one in all {
            match TcpStream::connect_timeout(&one, Duration::from_secs(5)) {
                Ok(_) => return Ok(()),
                Err(e) => last = format!("{one}: {e}"),
            }
        }
    }
    anyhow::bail!("no broker answers ({last}): start one, or leave out --broker and one is started")
}

impl BenchGround {
    /// `host:port`.
    pub fn brokers(&self) -> &str {
        self.broker.address()
    }

    /// Jars, where they are needed.
    pub fn jars(&self) -> &Path {
        self.jars.as_deref().unwrap_or(Path::new(""))
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a topic of one partition, which goes with what is returned.
    ///
    /// # Errors
    /// What the broker says.
    pub fn topic(&self, name: &str) -> anyhow::Result<Topic> {
        let admin = Admin::new(self.brokers(), &self.settings)?;
        let name = format!("fullcount-lab-{}-{name}", std::process::id());
        admin.create(&name, 1, &TOPIC)?;
        let topic = Topic { admin, name, tell: self.tell };
        // The broker that made it may not know it yet.
        let asking = Consumer::new(&ConsumerOptions::new(self.brokers()))?;
        let begun = Instant::now();
        while asking.partitions(&topic.name)? == 0 {
            ensure!(begun.elapsed() < SEEN, "topic {}: made, but not there", topic.name);
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(topic)
    }
}

/// A topic that goes with its trial.
#[derive(Debug)]
pub struct Topic {
    admin: Admin,
    tell: Tell,
    /// Name.
    pub name: String,
}

impl Drop for Topic {
    fn drop(&mut self) {
        if let Err(e) = self.admin.remove(&self.name) {
            (self.tell)(&format!("fullcount: {e}"));
        }
    }
}
