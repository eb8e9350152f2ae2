//! Kafka's own `ProducerPerformance`: the command that its script `kafka-producer-perf-test.sh` makes, and its last line.
//!
//! Our own messages are its payload, read from a file that it takes for text: they have to be valid UTF-8, and parted by
//! a text that none of them holds. It sends them in random order. Refuses folders without Kafka's jars, a Java that is
//! missing, and a result that does not have all messages.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::TrialError;
use fullcount_child::ChildEnd;

/// Name of the contender: every setting that is not asked for as it comes.
pub const AS_IT_COMES: &str = "ProducerPerformance";
/// The same with batches and patience of librdkafka's size, which its defaults (16 KiB, 0 ms) are not.
pub const BATCHED: &str = "ProducerPerformance-batched";
/// What parts two messages in the payload file.
pub const DELIMITER: &str = "~fullcount:next~";
/// Jars that have to be there.
const JARS: [&str; 2] = ["kafka-clients-", "kafka-tools-"];
/// As the script sets them.
const JVM: [&str; 6] = [
    "-Xmx512M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
];

/// Why it cannot run here.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum PerformanceError {
    #[error(
        "--jars {folder}: there is no {jar}*.jar; `cargo xtask kafka` fetches Kafka's jars, \
         or name the folder libs of an installed Kafka"
    )]
    Jars { folder: PathBuf, jar: &'static str },
    #[error(
        "java: cannot be started: {cause}; install a Java runtime, 17 or newer (Debian: apt-get install openjdk-17-jre-headless)"
    )]
    Java { cause: std::io::Error },
    #[error("a payload that is not UTF-8, or holds \"{DELIMITER}\"")]
    Payload,
}

/// Checks that the folder holds what it takes; with `broker`, what a broker takes too.
///
/// # Errors
/// [`PerformanceError::Jars`].
pub fn check_jars(folder: &Path, broker: bool) -> Result<(), PerformanceError> {
    let names: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    let wanted = JARS.into_iter().chain(broker.then_some("kafka_2"));
    for jar in wanted {
        if !names.iter().any(|name| name.starts_with(jar) && name.ends_with(".jar")) {
            return Err(PerformanceError::Jars { folder: folder.to_owned(), jar });
        }
    }
    Ok(())
}

/// Kafka's version by the name of a jar, and Java's by its own word.
///
/// # Errors
/// [`PerformanceError::Java`].
pub fn versions(folder: &Path, java: &Path) -> Result<(String, String), PerformanceError> {
    let output = Command::new(java).arg("-version").output();
    let output = output.map_err(|cause| PerformanceError::Java { cause })?;
    // Java tells its version on standard error.
    let said = String::from_utf8_lossy(&output.stderr);
    let java = said.lines().next().unwrap_or("unknown").to_owned();
    let version = std::fs::read_dir(folder).ok().and_then(|entries| {
        entries.flatten().find_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            Some(name.strip_prefix(JARS[0])?.strip_suffix(".jar")?.to_owned())
        })
    });
    Ok((version.unwrap_or_else(|| "unknown".into()), java))
}

/// The payload file's contents.
///
/// # Errors
/// [`PerformanceError::Payload`].
pub fn payload(messages: &[Vec<u8>]) -> Result<Vec<u8>, PerformanceError> {
    let holds = |message: &[u8]| {
        message.windows(DELIMITER.len()).any(|window| window == DELIMITER.as_bytes())
    };
    if messages.iter().any(|m| m.is_empty() || str::from_utf8(m).is_err() || holds(m)) {
        return Err(PerformanceError::Payload);
    }
    Ok(messages.join(DELIMITER.as_bytes()))
}

/// What it is to send.
#[derive(Debug, Clone, Copy)]
pub struct Sending<'a> {
    /// Java.
    pub java: &'a Path,
    /// Folder of the jars.
    pub jars: &'a Path,
    /// `host:port`.
    pub brokers: &'a str,
    /// Topic.
    pub topic: &'a str,
    /// Number of messages.
    pub messages: u64,
    /// Payload file.
    pub payload: &'a Path,
    /// Compression.
    pub compression: &'a str,
    /// With batches of librdkafka's size.
    pub batched: bool,
}

/// The command: acks=all, everything else as it comes, idempotence included (on since Kafka 3.0), but for the largest
/// request, which has to hold a message.
pub fn command(sending: &Sending<'_>) -> Command {
    let mut command = Command::new(sending.java);
    command.args(JVM).args(["-Duser.language=en", "-cp"]).arg(sending.jars.join("*"));
    command.args(["org.apache.kafka.tools.ProducerPerformance", "--topic", sending.topic]);
    command.args(["--num-records", &sending.messages.to_string(), "--throughput", "-1"]);
    command.arg("--payload-file").arg(sending.payload).args(["--payload-delimiter", DELIMITER]);
    command.arg("--producer-props").arg(format!("bootstrap.servers={}", sending.brokers));
    command.args(["acks=all", "max.request.size=10485760"]);
    command.arg(format!("compression.type={}", sending.compression));
    if sending.batched {
        command.args(["batch.size=1000000", "linger.ms=100", "buffer.memory=134217728"]);
    }
    command
}

/// Seconds that it took for `messages`, by its last line.
///
/// # Errors
/// No such line, or not all messages.
pub fn seconds(ended: ChildEnd, messages: u64) -> Result<f64, TrialError> {
    if !ended.status.success() {
        return Err(ended.failed().into());
    }
    let read = |line: &str| {
        // `N records sent, R records/sec (M MB/sec), …, 99.9th.`; lines in between have no percentiles.
        let (sent, rest) = line.trim().strip_suffix("99.9th.")?.split_once(" records sent, ")?;
        let rate = rest.split_once(" records/sec")?.0;
        Some((sent.parse::<u64>().ok()?, rate.parse::<f64>().ok()?))
    };
    let wrong = |reason: String| TrialError::Result { program: AS_IT_COMES.into(), reason };
    match ended.output.lines().rev().find_map(read) {
        None => Err(wrong(format!("no result in what it printed: {}", ended.said))),
        Some((sent, _)) if sent != messages => {
            Err(wrong(format!("{sent} of {messages} messages were confirmed: {}", ended.said)))
        }
        Some((sent, rate)) => Ok(sent as f64 / rate),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn ended(output: &str, code: i32) -> ChildEnd {
        let status = std::process::ExitStatus::from_raw(code << 8);
        ChildEnd {
            program: "java".into(),
            status,
            output: output.into(),
            said: "last words".into(),
            lines: vec![],
            panicked: None,
        }
    }

    /// As Kafka 3.9.1 writes them.
    const SAID: &str = "\
Reading payloads from: /x/payload
Number of messages read: 160
1500 records sent, 299.9 records/sec (28.60 MB/sec), 105.4 ms avg latency, 371.0 ms max latency.
4000 records sent, 2000.000000 records/sec (190.73 MB/sec), 80.12 ms avg latency, 371.00 ms max latency, \
75 ms 50th, 160 ms 95th, 300 ms 99th, 370 ms 99.9th.
";

    #[test]
    fn its_last_line_is_read_and_every_message_counts() {
        assert_eq!(seconds(ended(SAID, 0), 4000).unwrap(), 2.0);
        let error = seconds(ended(SAID, 0), 4001).unwrap_err().to_string();
        assert!(error.contains("4000 of 4001 messages were confirmed: last words"), "{error}");
        let in_between: String = SAID.lines().take(3).map(|l| format!("{l}\n")).collect();
        let error = seconds(ended(&in_between, 0), 1500).unwrap_err().to_string();
        assert!(error.contains("no result"), "{error}");
        let error = seconds(ended("", 1), 1).unwrap_err().to_string();
        assert_eq!(error, "java: ended with exit status: 1: last words");
    }

    #[test]
    fn its_command_is_the_scripts() {
        let sending = Sending {
            java: Path::new("java"),
            jars: Path::new("/k/libs"),
            brokers: "h:9092",
            topic: "t",
            messages: 5,
            payload: Path::new("/k/payload"),
            compression: "lz4",
            batched: false,
        };
        let words = |sending: &Sending<'_>| {
            let command = command(sending);
            let words = command.get_args().map(|w| w.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            words(&sending),
            "-Xmx512M -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 \
             -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent \
             -Duser.language=en -cp /k/libs/* org.apache.kafka.tools.ProducerPerformance --topic t \
             --num-records 5 --throughput -1 --payload-file /k/payload --payload-delimiter \
             ~fullcount:next~ --producer-props bootstrap.servers=h:9092 acks=all \
             max.request.size=10485760 compression.type=lz4"
        );
        let batched = words(&Sending { batched: true, ..sending });
        assert!(batched.ends_with("lz4 batch.size=1000000 linger.ms=100 buffer.memory=134217728"));
    }

    #[test]
    fn a_payload_is_taken_only_if_it_arrives_as_it_is() {
        let made = payload(&[b"one".to_vec(), b"two".to_vec()]).unwrap();
        assert_eq!(made, b"one~fullcount:next~two");
        for bad in [&b""[..], b"\x80", b"\xed\xa0\x80", b"a~fullcount:next~b"] {
            assert!(matches!(payload(&[bad.to_vec()]), Err(PerformanceError::Payload)), "{bad:?}");
        }
    }

    #[test]
    fn what_is_missing_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str| std::fs::write(folder.path().join(name), "").unwrap();
        let error = check_jars(folder.path(), false).unwrap_err().to_string();
        assert!(error.contains("kafka-clients-*.jar") && error.contains("cargo xtask kafka"));
        put("kafka-clients-3.9.1.jar");
        assert!(check_jars(folder.path(), false).unwrap_err().to_string().contains("kafka-tools-"));
        put("kafka-tools-3.9.1.jar");
        assert!(check_jars(folder.path(), false).is_ok());
        assert!(check_jars(folder.path(), true).unwrap_err().to_string().contains("kafka_2*.jar"));
        let error = versions(folder.path(), Path::new("/nonexistent/java")).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("cannot be started") && error.contains("apt-get install"),
            "{error}"
        );
        // Any program will do that ends: the version is what it says.
        let (kafka, _) = versions(folder.path(), Path::new("true")).unwrap();
        assert_eq!(kafka, "3.9.1");
    }
}
