//! A broker with access control: passwords (SASL/PLAIN) in every build, TLS and SCRAM with the feature `kafka-tls`.
//!
//! A client without access reports the reason, tries again, and loses nothing: the next start with correct settings
//! sends its events. `cargo xtask test kafka-tls` builds with the feature. Passwords and certificates are made here,
//! for each test.

use std::net::UdpSocket;
use std::path::Path;
use std::time::Instant;

use crate::broker::{
    BrokerCluster, Checker, EVENTS, PATIENCE, arguments, jars, packet, packets, wait_for_counter,
};
use crate::service::{Service, capture, say};
use fullcount_broker::Guard;
use fullcount_kafka::{Begin, Consumer, ConsumerOptions, KafkaSettings, Polled};

/// Settings of one start for the broker, under librdkafka's names.
type Told<'a> = &'a [(&'a str, &'a str)];

const PASSWORD: [(&str, &str); 4] = [
    ("security.protocol", "sasl_plaintext"),
    ("sasl.mechanisms", "PLAIN"),
    ("sasl.username", "fullcount"),
    ("sasl.password", "hush-right"),
];

/// The same with another value of one.
fn but<'a>(told: Told<'a>, name: &str, value: &'a str) -> Vec<(&'a str, &'a str)> {
    told.iter().map(|&(n, v)| (n, if n == name { value } else { v })).collect()
}

/// A listener that wants name and password.
fn with_password() -> Guard {
    let login = "org.apache.kafka.common.security.plain.PlainLoginModule";
    let properties = vec![
        "sasl.enabled.mechanisms=PLAIN".to_owned(),
        format!("plain.sasl.jaas.config={login} required user_fullcount=\"hush-right\";"),
    ];
    Guard { protocol: "SASL_PLAINTEXT", properties }
}

/// A broker with these listeners and one for the checker, which needs no password.
fn guarded(folder: &Path, guards: Vec<Guard>, format: &[&str]) -> Option<BrokerCluster> {
    let format = format.iter().map(|word| (*word).to_owned()).collect();
    let cluster = BrokerCluster::start_guarded(&jars()?, &folder.join("broker"), guards, format);
    Some(cluster.unwrap_or_else(|e| panic!("{e}")))
}

/// Arguments of a run that sends to the guarded listener.
fn run(source: &str, at: &str, topic: &str, spool: &Path, told: Told<'_>) -> Vec<String> {
    let url = format!("kafka://{at}/{topic}");
    let mut all = arguments(source, &url, &spool.display().to_string(), 500);
    let set = |(name, value): &(&str, &str)| format!("output.kafka.options.{name}={value}");
    all.extend(told.iter().flat_map(|pair| ["--set".to_owned(), set(pair)]));
    all
}

/// The first start has wrong settings: it prints `words`, tries again, and keeps its events. The second one has the
/// right settings, and sends those events and its own. Everything is on the topic, once and in order.
fn wrong_and_then_right(
    cluster: &BrokerCluster,
    folder: &Path,
    (protocol, topic): (&str, &str),
    [wrong, right]: [Told<'_>; 2],
    words: &[&str],
) {
    let (at, spool) = (cluster.guarded(protocol), folder.join(topic));
    let mut all = run("udp://127.0.0.1:0", &at, topic, &spool, wrong);
    all.extend(["--web", "127.0.0.1:0", "--set", "output.kafka.drain=1ms"].map(str::to_owned));
    let mut first = Service::start(&all.iter().map(String::as_str).collect::<Vec<_>>());
    let (page, port) = (first.page(), first.udp_port());
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for k in 0..150 {
        socket.send_to(&packet(k), ("127.0.0.1", port)).expect("sent");
    }
    wait_for_counter(&page, "receive.packets", 150);
    let said = first.wait_for(words[0], |l| l.contains(words[0]).then(|| l.to_owned()));
    for word in words.iter().chain(&["tried again"]) {
        assert!(said.contains(word), "{word:?} is not in {said:?}");
    }
    // It keeps trying.
    wait_for_counter(&page, "kafka.errors", 4);
    first.interrupt();
    let said = first.end();
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.summary()["balance"], 0, "{}", said.err);
    assert_eq!(said.counter("sink.kafka.events"), 0, "{}", said.err);
    assert_eq!(said.counter("sink.kafka.waiting"), 150 * u64::from(EVENTS), "{}", said.err);
    assert!(said.err.contains("the next start sends them"), "{}", said.err);
    // Said when it began, not with each attempt.
    assert_eq!(said.err.matches(words[0]).count(), 1, "{}", said.err);
    assert!(!said.err.contains("hush"), "{}", said.err);

    let rest = capture(folder, &format!("{topic}-rest"), &packets(300)[150..]);
    let mut all = run(&format!("pcap:{rest}?flat-out"), &at, topic, &spool, right);
    all.extend(["--web", "off"].map(str::to_owned));
    let said = say(&all.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.counter("sink.kafka.events"), 30_000, "{}", said.err);
    let mut checker = Checker::new(&cluster.bootstrap(), topic, 1);
    checker.read_all();
    checker.assert_whole(30_000);

    // Readers come in by the same door.
    let mut options = ConsumerOptions::new(&at);
    options.settings =
        KafkaSettings::new(right.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())));
    let consumer = Consumer::new(&options).expect("settings");
    consumer.assign(&[(topic, 0, Begin::Oldest)]).expect("assigned");
    let begun = Instant::now();
    while !matches!(consumer.poll(std::time::Duration::from_millis(200)), Ok(Polled::Message(_))) {
        assert!(begun.elapsed() < PATIENCE, "nothing could be read from {at}");
    }
}

#[cfg(not(feature = "kafka-tls"))]
#[test]
fn a_wrong_password_is_said_and_costs_no_event() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(cluster) = guarded(folder.path(), vec![with_password()], &[]) else { return };
    password(&cluster, folder.path());
}

fn password(cluster: &BrokerCluster, folder: &Path) {
    let wrong = but(&PASSWORD, "sasl.password", "hush-wrong");
    let which = ("SASL_PLAINTEXT", "password_detector");
    let words = ["does not let us in", "Invalid username or password", "sasl.password"];
    wrong_and_then_right(cluster, folder, which, [&wrong, &PASSWORD], &words);
    packets_come_back_through_the_same_door(cluster, folder, which.0, [&wrong, &PASSWORD], &words);
}

/// Packets go to a topic and come back as a source: from assigned partitions, and for a member of a group. With wrong
/// settings access is denied and reported.
fn packets_come_back_through_the_same_door(
    cluster: &BrokerCluster,
    folder: &Path,
    protocol: &str,
    [wrong, right]: [Told<'_>; 2],
    words: &[&str],
) {
    let at = cluster.guarded(protocol);
    let topic = format!("packets-{protocol}");
    let set = |table: &str, told: Told<'_>| {
        let one = |(name, value): &(&str, &str)| format!("{table}.options.{name}={value}");
        told.iter().flat_map(|pair| ["--set".to_owned(), one(pair)]).collect::<Vec<_>>()
    };
    let run = |source: &str, more: &[String]| {
        let base = ["run", "--source", source, "--detector", "sonde", "--tick", "1ns"];
        let base = base.into_iter().chain(["--epoch", "2026-01-01T00:00:00Z", "--web", "off"]);
        let base = base.chain(["--json"]).map(str::to_owned);
        base.chain(more.iter().cloned()).collect::<Vec<String>>()
    };
    let sent = capture(folder, &topic, &packets(40));
    let mut raw = set("output.raw", right);
    let spool = folder.join(format!("{topic}-spool")).display().to_string();
    for key in [format!("brokers={at}"), format!("topic={topic}"), format!("spool={spool}")] {
        raw.extend(["--set".to_owned(), format!("output.raw.{key}")]);
    }
    let all = run(&format!("pcap:{sent}?flat-out"), &raw);
    let said = say(&all.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((said.code, said.counter("sink.raw.written")), (0, 40), "{}", said.err);

    let null = ["--sink".to_owned(), "null".to_owned()];
    for keys in ["until=end", "group=again&until=end"] {
        let mut options = set("source", right);
        options
            .extend(["--set", "source.options.fetch.message.max.bytes=2000000"].map(str::to_owned));
        let source = format!("kafka://{at}/{topic}?{keys}");
        let all = run(&source, &[&options[..], &null].concat());
        let said = say(&all.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!((said.code, said.counter("receive.packets")), (0, 40), "{keys}: {}", said.err);
        assert_eq!(said.summary()["events"], 40 * u64::from(EVENTS), "{keys}: {}", said.err);
        assert!(!said.err.contains("hush") && !said.out.contains("hush"), "{}", said.err);
    }

    let source = format!("kafka://{at}/{topic}?until=end");
    let all = run(&source, &[&set("source", wrong)[..], &null].concat());
    let mut not_let_in = Service::start(&all.iter().map(String::as_str).collect::<Vec<_>>());
    let said = not_let_in.wait_for(words[0], |l| l.contains(words[0]).then(|| l.to_owned()));
    for word in words {
        assert!(said.contains(word) && !said.contains("hush"), "{word:?} is not in {said:?}");
    }
    // Its printed configuration has the setting but not its value.
    let mut all = run(&source, &set("source", right));
    all.push("--print-config".to_owned());
    let printed = say(&all.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(printed.code, 0, "{}", printed.err);
    assert!(printed.out.contains("(hidden)") && !printed.out.contains("hush"), "{}", printed.out);
}

/// Exit code 2 before anything is opened.
fn refused(told: Told<'_>, words: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let spool = folder.path().join("spool");
    let all = run("udp://127.0.0.1:0", "127.0.0.1:1", "t", &spool, told);
    let said = say(&all.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(said.code, 2, "{told:?}: {}", said.err);
    for word in words {
        assert!(said.err.contains(word), "{word:?} is not in {}", said.err);
    }
    assert!(!spool.exists(), "{told:?}");
}

#[test]
fn what_would_count_messages_as_sent_that_are_not_is_refused() {
    for (name, value) in [("acks", "0"), ("acks", "1"), ("enable.idempotence", "false")] {
        let words = format!("{name} = {value}: allowed is ");
        refused(&[(name, value)], &["output.kafka", &words]);
    }
    refused(&[("max.in.flight", "10")], &["output.kafka", "max.in.flight"]);
}

#[cfg(not(feature = "kafka-tls"))]
#[test]
fn a_build_without_tls_says_which_one_has_it() {
    refused(&[("security.protocol", "ssl")], &["security.protocol = ssl", "`kafka-tls`"]);
    let scram = but(&PASSWORD, "sasl.mechanisms", "SCRAM-SHA-512");
    refused(&scram, &["SCRAM-SHA-512", "`kafka-tls`"]);
}

#[cfg(feature = "kafka-tls")]
mod tls {
    use super::*;
    use std::process::Command;

    /// A key with a self-signed certificate for 127.0.0.1: the keystore, and the certificate as PEM.
    fn certificate(folder: &Path, name: &str) -> [String; 2] {
        let [store, pem] = ["p12", "pem"].map(|e| folder.join(format!("{name}.{e}")));
        let [store, pem] = [store, pem].map(|path| path.display().to_string());
        let keystore = ["-keystore", &store, "-storepass", "keystore", "-alias", name];
        let keytool = |arguments: &[&str]| {
            let ended = Command::new("keytool").args(arguments).args(keystore).output();
            let ended = ended.expect("keytool comes with Java");
            assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
        };
        let dname = format!("CN={name}");
        let kind = ["-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", "-validity", "3"];
        let whose = ["-storetype", "PKCS12", "-dname", &dname, "-ext", "san=ip:127.0.0.1"];
        keytool(&[&kind[..], &whose, &["-ext", "bc=ca:true"]].concat());
        keytool(&["-exportcert", "-rfc", "-file", &pem]);
        [store, pem]
    }

    #[test]
    fn an_unknown_certificate_or_a_wrong_password_is_said_and_costs_no_event() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        if jars().is_none() {
            return;
        }
        let [store, known] = certificate(folder, "broker");
        let [_, unknown] = certificate(folder, "other");
        let tls = vec![
            "ssl.keystore.type=PKCS12".to_owned(),
            format!("ssl.keystore.location={store}"),
            "ssl.keystore.password=keystore".to_owned(),
            "ssl.key.password=keystore".to_owned(),
        ];
        let login = "org.apache.kafka.common.security.scram.ScramLoginModule";
        let scram = [
            "sasl.enabled.mechanisms=SCRAM-SHA-512".to_owned(),
            format!("scram-sha-512.sasl.jaas.config={login} required;"),
        ];
        let both = tls.iter().chain(&scram).cloned().collect();
        let guards = vec![
            with_password(),
            Guard { protocol: "SSL", properties: tls },
            Guard { protocol: "SASL_SSL", properties: both },
        ];
        let user = ["--add-scram", "SCRAM-SHA-512=[name=fullcount,password=hush-right]"];
        let Some(cluster) = guarded(folder, guards, &user) else { return };
        password(&cluster, folder);

        let right = [("security.protocol", "ssl"), ("ssl.ca.location", &*known)];
        let wrong = but(&right, "ssl.ca.location", &unknown);
        let words = ["gives no secure connection", "certificate verify failed", "ssl.ca.location"];
        let which = ("SSL", "tls_detector");
        wrong_and_then_right(&cluster, folder, which, [&wrong, &right], &words);

        let right = [
            ("security.protocol", "sasl_ssl"),
            ("ssl.ca.location", &*known),
            ("sasl.mechanisms", "SCRAM-SHA-512"),
            ("sasl.username", "fullcount"),
            ("sasl.password", "hush-right"),
        ];
        let wrong = but(&right, "sasl.password", "hush-wrong");
        let words = ["does not let us in", "invalid credentials", "sasl.password"];
        let which = ("SASL_SSL", "scram_detector");
        wrong_and_then_right(&cluster, folder, which, [&wrong, &right], &words);
        let both = [&wrong[..], &right];
        packets_come_back_through_the_same_door(&cluster, folder, which.0, both, &words);
    }

    #[test]
    fn a_certificate_that_is_not_there_is_refused() {
        let told = [("security.protocol", "ssl"), ("ssl.ca.location", "/nowhere.pem")];
        refused(&told, &["output.kafka", "ssl.ca.location"]);
    }
}
