//! `cargo xtask kafka`: a real Kafka on this machine, from Maven's jars; and the jars for the tests.
//!
//! The jars are fetched once, by Maven, into `target/kafka/jars`. Brokers keep their data in `target/kafka/by-hand` until
//! `--fresh`; Ctrl-C ends them. Refuses other arguments (exit 2), and to go on without Java or Maven.
//!
//! Source: docs/testing.md.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use fullcount_broker::{BrokerCluster, CLASSES};

use crate::command::Job;
use crate::{place, setup};

/// The release that the tests run against; the brokers alone, and the tool that its speed is measured with.
const VERSION: &str = "3.9.1";
/// Kafka's own port.
const PORT: u16 = 9092;

/// Starts brokers and waits.
pub fn run(arguments: &[String]) -> ExitCode {
    let (mut brokers, mut fresh, mut rest) = (1, false, arguments.iter());
    while let Some(argument) = rest.next() {
        match (argument.as_str(), rest.as_slice().first().and_then(|n| n.parse().ok())) {
            ("--fresh", _) => fresh = true,
            ("--brokers", Some(n @ 1..=9)) => {
                brokers = n;
                rest.next();
            }
            _ => {
                eprintln!(
                    "error: `cargo xtask kafka` takes --brokers N with N of 1 to 9, and --fresh"
                );
                return ExitCode::from(2);
            }
        }
    }
    match serve(brokers, fresh) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(brokers: usize, fresh: bool) -> Result<(), String> {
    setup::ensure(&[setup::JAVA, setup::MAVEN]).map_err(|missing| missing.to_string())?;
    let jars = jars()?;
    let folder = place::target().join(format!("kafka/by-hand-{brokers}"));
    if fresh && folder.exists() {
        fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    println!("starting {brokers} broker(s) in {}", folder.display());
    let mut cluster = BrokerCluster::start(&jars, &folder, brokers, Some(PORT))?;
    println!("ready at {}; Ctrl-C ends it", cluster.bootstrap());
    loop {
        if let Some(n) = cluster.ended() {
            return Err(format!("broker {} has ended; its log is in {}", n + 1, folder.display()));
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// The folder of the jars, fetched first if need be, with Java's archive of their classes beside it.
///
/// # Errors
/// What Maven said no to.
pub fn jars() -> Result<PathBuf, String> {
    let jars = fetched_jars()?;
    // Brokers start without it as well, only more slowly.
    let once = jars.with_file_name(format!("for-classes-{}", std::process::id()));
    if let Err(error) = BrokerCluster::archive_classes(&jars, &once) {
        println!("no archive of Kafka's classes: {error}");
    }
    Ok(jars)
}

fn fetched_jars() -> Result<PathBuf, String> {
    let folder = place::target().join("kafka");
    let jars = folder.join("jars");
    let dependency = |group: &str, artifact: &str| {
        format!(
            "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
             <version>{VERSION}</version></dependency>"
        )
    };
    let wanted = format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
         <groupId>fullcount</groupId><artifactId>kafka-for-tests</artifactId><version>1</version>\
         <dependencies>{}{}</dependencies></project>\n",
        dependency("org.apache.kafka", "kafka_2.13"),
        dependency("org.apache.kafka", "kafka-tools"),
    );
    // Written last, so an interrupted fetch is done again.
    let stamp = folder.join("fetched.xml");
    if fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
        return Ok(jars);
    }
    println!("fetching Apache Kafka {VERSION} with Maven, about 60 MB");
    let write =
        |path: &PathBuf| fs::write(path, &wanted).map_err(|e| format!("{}: {e}", path.display()));
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let pom = folder.join("pom.xml");
    write(&pom)?;
    let maven = Job::new("mvn").args(["-q", "-B", "-f"]).args([&pom]).args([
        "dependency:copy-dependencies".to_owned(),
        format!("-DoutputDirectory={}", jars.display()),
    ]);
    let end = maven.limit(Duration::from_secs(900)).run();
    if !end.ok {
        return Err(format!("mvn could not fetch Apache Kafka: {}", end.phrase));
    }
    // An archive of other jars is of no use.
    let _ = fs::remove_file(folder.join(CLASSES));
    write(&stamp)?;
    Ok(jars)
}
