//! The output against receivers of the test: Graylog over TCP and UDP, syslog over both and over a socket, the journal, a file.
//!
//! Messages of a process go to all receivers of it, and tests share a process: each looks for words of its own.

use super::*;
use crate::log::gelf::Smaller;
use fullcount_core::ledger::{Entries, Ledger};
use fullcount_core::status::Facts;
use fullcount_log::{LogForm, error};
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

/// A run with a title of its own.
struct Run(&'static str);

impl StatusSource for Run {
    fn entries(&self) -> Entries {
        Ledger::default().read()
    }

    fn facts(&self) -> Facts {
        Facts { title: self.0.into(), ..Facts::default() }
    }
}

fn section(text: &str) -> LogSection {
    section::read(SECTION, text).unwrap()
}

fn start(text: &str, title: &'static str) -> LogThreads {
    fullcount_log::install(LogForm::Text, true, None);
    let sender = Sender { host: "daq".into(), detector: "tube".into() };
    let outlets = Outlets::open(&section(text).targets().unwrap(), sender).unwrap();
    LogThreads::start(Arc::new(outlets), Arc::new(Run(title))).unwrap()
}

#[test]
fn receivers_know_the_detector_by_the_name_that_metrics_have() {
    let metrics = "names = \"efu\"\ndetector = \"mbcaen\"";
    assert_eq!(called(Some(metrics), "multiblade").unwrap(), "mbcaen");
    assert_eq!(called(Some("names = \"efu\""), "multiblade").unwrap(), "multiblade");
    assert_eq!(called(None, "multiblade").unwrap(), "multiblade");
}

fn patient(socket: &UdpSocket) {
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
}

#[test]
fn graylog_gets_objects_with_a_nul_behind_each_until_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let gelf = format!("gelf = \"{}\"", listener.local_addr().unwrap());
    let threads = start(&gelf, "tcp-gelf");
    let sheet = threads.outlets().sheet();
    let mut from = BufReader::new(listener.accept().unwrap().0);
    let mut next = |word: &str| loop {
        let mut bytes = Vec::new();
        from.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "{word} did not come");
        let object: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        if object["short_message"].as_str().unwrap().contains(word) {
            return object;
        }
    };
    let first = next("run started: tcp-gelf");
    assert_eq!((first["level"].as_u64(), first["_process_name"].as_str()), (Some(6), Some("tube")));
    assert_eq!(first["_target"], "run");
    error!(output = "nexus", "tcp-gelf has no space");
    let second = next("tcp-gelf has no space");
    assert_eq!((second["level"].as_u64(), second["_output"].as_str()), (Some(3), Some("nexus")));
    drop(threads);
    next("run ended");
    assert!(sheet.get(LogCounter::Messages as usize) >= 3);
    assert_eq!(sheet.get(LogCounter::Dropped as usize), 0);
    assert_eq!(sheet.get(LogCounter::Connections as usize), 1);
}

/// The next message with that word, in one datagram, as text.
fn heard(socket: &UdpSocket, word: &str, read: impl Fn(&[u8]) -> String) -> String {
    let mut buffer = [0; 9000];
    loop {
        let n = socket.recv(&mut buffer).expect(word);
        let text = read(&buffer[..n]);
        if text.contains(word) {
            return text;
        }
    }
}

#[test]
fn datagrams_go_to_both_compressed_where_it_is_wanted() {
    let (graylog, syslog) =
        (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    patient(&graylog);
    patient(&syslog);
    let addresses = (graylog.local_addr().unwrap(), syslog.local_addr().unwrap());
    let text = format!(
        "gelf = \"udp://{}\"\nsyslog = \"{}\"\ncompression = \"zlib\"",
        addresses.0, addresses.1
    );
    let _threads = start(&text, "datagrams");
    error!("datagrams have no space");
    let inflated = |bytes: &[u8]| {
        let mut object = String::new();
        flate2::read::ZlibDecoder::new(bytes).read_to_string(&mut object).unwrap();
        object
    };
    let object = heard(&graylog, "datagrams have", inflated);
    let object: serde_json::Value = serde_json::from_str(&object).unwrap();
    assert_eq!(object["short_message"], "datagrams have no space");
    let line = heard(&syslog, "datagrams have", |b| String::from_utf8(b.to_vec()).unwrap());
    assert!(line.starts_with("<27>1 ") && line.ends_with("datagrams have no space"), "{line}");
}

/// Joins chunks as Graylog does: by id and number, whatever their order.
#[derive(Default)]
struct Joined(std::collections::BTreeMap<[u8; 8], Vec<Option<Vec<u8>>>>);

impl Joined {
    /// A message once all of its chunks are there, and how many they were.
    fn take(&mut self, datagram: &[u8]) -> Option<(usize, Vec<u8>)> {
        let Some(chunk) = datagram.strip_prefix(&[0x1e, 0x0f]) else {
            return Some((1, datagram.to_vec()));
        };
        let (id, rest) = chunk.split_first_chunk::<8>().expect("an id");
        let [number, count, part @ ..] = rest else { panic!("number and count") };
        let (number, count) = (usize::from(*number), usize::from(*count));
        let parts = self.0.entry(*id).or_insert_with(|| vec![None; count]);
        assert!(parts.len() == count && count <= 128 && parts[number].is_none(), "each once");
        parts[number] = Some(part.to_vec());
        if parts.iter().any(Option::is_none) {
            return None;
        }
        let parts = self.0.remove(id).expect("it is there");
        Some((count, parts.into_iter().flatten().flatten().collect()))
    }
}

#[test]
fn a_long_message_comes_in_chunks_that_its_receiver_joins_and_inflates() {
    // What hardly gets smaller: 20,000 hexadecimal digits of a generator, with words of its own.
    let mut seed = 7u64;
    let digits = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from_digit((seed >> 60) as u32, 16).expect("a digit")
    });
    let long: String = digits.take(20_000).collect();
    for (how, name) in [(Smaller::Gzip, "gzip"), (Smaller::Zlib, "zlib"), (Smaller::Off, "off")] {
        let graylog = UdpSocket::bind("127.0.0.1:0").unwrap();
        patient(&graylog);
        let at = graylog.local_addr().unwrap();
        let threads = start(&format!("gelf = \"udp://{at}\"\ncompression = \"{name}\""), name);
        error!("chunked by {name}\n{long}");
        let (mut joined, mut buffer) = (Joined::default(), [0; 9000]);
        let (count, object) = loop {
            let n = graylog.recv(&mut buffer).expect("all chunks come");
            assert!(n <= 1420, "{n} bytes in a datagram");
            let Some((count, whole)) = joined.take(&buffer[..n]) else { continue };
            let mut text = String::new();
            match how {
                Smaller::Gzip => flate2::read::GzDecoder::new(&whole[..]).read_to_string(&mut text),
                Smaller::Zlib => {
                    flate2::read::ZlibDecoder::new(&whole[..]).read_to_string(&mut text)
                }
                Smaller::Off => (&whole[..]).read_to_string(&mut text),
            }
            .expect("the object");
            let object: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            if object["short_message"] == format!("chunked by {name}") {
                break (count, object);
            }
        };
        // Digits are half a byte each at best.
        assert!(count > 20_000 / 2 / 1420, "{count} chunks");
        assert_eq!(object["full_message"], format!("chunked by {name}\n{long}"));
        assert_eq!(object["level"], 3);
        drop(threads);
    }
}

#[test]
fn receivers_hear_why_a_run_did_not_start_before_the_plan_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.log");
    fullcount_log::install(LogForm::Text, true, None);
    let section = section(&format!("file = \"{}\"", path.display()));
    let (targets, filter) = (section.targets().unwrap(), section.level().unwrap());
    let sender = Sender { host: "daq".into(), detector: "tube".into() };
    let mut plan = LogPlan { targets, filter, sender, opened: None };
    assert!(plan.takes_messages());
    let no: fullcount_core::output::Ask = Arc::new(|| false);
    let ending = fullcount_core::output::Ending {
        requested: no.clone(),
        over: no.clone(),
        hurried: no.clone(),
        stuck: no,
    };
    // What was opened goes, as where another output cannot be opened.
    drop(plan.open(&Opening { workers: 1, ending, replay: None }).unwrap());
    fullcount_log::alert!("unstarted: the other output is gone");
    drop(plan);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.contains(" ALR ") && text.contains("unstarted: the other output is gone"),
        "{text}"
    );
}

#[test]
fn syslog_over_tcp_has_the_length_before_each_message() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let threads =
        start(&format!("syslog = \"tcp://{}\"", listener.local_addr().unwrap()), "counted");
    let mut from = BufReader::new(listener.accept().unwrap().0);
    let mut next = |word: &str| loop {
        let mut length = Vec::new();
        from.read_until(b' ', &mut length).unwrap();
        let length: usize = String::from_utf8(length).unwrap().trim_end().parse().unwrap();
        let mut line = vec![0; length];
        from.read_exact(&mut line).unwrap();
        if String::from_utf8(line).unwrap().contains(word) {
            return;
        }
    };
    next("run started: counted");
    drop(threads);
    next("run ended");
}

#[test]
fn daemons_of_this_host_that_are_not_there_yet_get_what_waited() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, log) = (folder.path().join("journal"), folder.path().join("log"));
    let text = format!("journald = \"{}\"\nsyslog = \"{}\"", journal.display(), log.display());
    let threads = start(&text, "sockets");
    error!("sockets are not there");
    // Refused at least once.
    let errors = || threads.outlets().sheet().get(LogCounter::Errors as usize);
    let end = Instant::now() + Duration::from_secs(30);
    while errors() < 2 {
        assert!(Instant::now() < end);
        std::thread::yield_now();
    }
    let both = [&journal, &log].map(|path| UnixDatagram::bind(path).unwrap());
    for (socket, words) in both.iter().zip(["MESSAGE=sockets are not there\nPRIORITY=3\n", "<27>"])
    {
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut buffer = [0; 9000];
        let text = loop {
            let n = socket.recv(&mut buffer).expect("it comes later");
            let text = String::from_utf8_lossy(&buffer[..n]).into_owned();
            if text.contains("sockets are not there") {
                break text;
            }
        };
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn receivers_change_while_a_run_goes_on_and_nothing_is_counted_twice() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let file = |name: &str, keep: u32| format!("file = \"{}\"\nkeep = {keep}", at(name).display());
    let threads = start(&file("a", 5), "changing");
    let change = |text: &str| threads.outlets().change(&section(text).targets().unwrap());
    let has = |name: &str, word: &str| std::fs::read_to_string(at(name)).unwrap().contains(word);
    let wait = |name: &str, word: &str| {
        let end = Instant::now() + Duration::from_secs(30);
        while !has(name, word) {
            assert!(Instant::now() < end, "{word}");
            std::thread::yield_now();
        }
    };
    wait("a", "run started: changing");
    // The same with another bound, then moved away by somebody, then another.
    change(&file("a", 6)).unwrap();
    error!("changing: the second");
    wait("a", "changing: the second");
    std::fs::rename(at("a"), at("old")).unwrap();
    change(&file("a", 6)).unwrap();
    error!("changing: the third");
    let end = Instant::now() + Duration::from_secs(30);
    while !at("a").exists() {
        assert!(Instant::now() < end);
        std::thread::yield_now();
    }
    wait("a", "changing: the third");
    assert!(has("old", "changing: the second") && !has("a", "changing: the second"));
    std::fs::create_dir(at("folder")).unwrap();
    let refused = change(&file("folder", 6)).unwrap_err().to_string();
    assert!(refused.contains("log.file") && refused.contains("folder"), "{refused}");
    assert!(threads.outlets().fact().ends_with("/a"), "as it was");
    std::fs::write(at("run.nxs"), b"\x89HDF\r\n\x1a\n and more").unwrap();
    let refused = change(&file("run.nxs", 6)).unwrap_err().to_string();
    assert!(refused.contains("something else than lines of text"), "{refused}");
    error!("changing: still there");
    wait("a", "changing: still there");
    change(&file("b", 6)).unwrap();
    error!("changing: the fourth");
    wait("b", "changing: the fourth");
    let sheet = threads.outlets().sheet();
    drop(threads);
    let of = |count: LogCounter| sheet.get(count as usize);
    assert_eq!(of(LogCounter::Messages), of(LogCounter::Sent) + of(LogCounter::Dropped));
}

#[test]
fn who_tells_something_never_waits_for_a_receiver_that_takes_nothing() {
    // A listener whose backlog nobody empties: it takes what fits into its buffers, and then no more.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let gelf = format!("gelf = \"{}\"", listener.local_addr().unwrap());
    let threads = start(&gelf, "stuck");
    let text = "x".repeat(30_000);
    let outlet = threads.outlets();
    let begun = Instant::now();
    for n in 0..1000 {
        let line = fullcount_log::LogLine::now(
            fullcount_log::LogLevel::Error,
            "fullcount_x",
            format!("{n}{text}"),
        );
        outlet.put(&line);
    }
    // 30 MB for a queue of 1 MiB.
    assert!(begun.elapsed() < Duration::from_secs(20));
    let dropped = |threads: &LogThreads| threads.outlets().counted()[1];
    assert!(dropped(&threads) > 500);
}

#[test]
fn addresses_and_levels_are_checked() {
    let targets = |text: &str| section(text).targets();
    assert!(targets("").unwrap().is_empty());
    let all = targets("gelf = \"g\"\nsyslog = \"s\"").unwrap();
    assert_eq!(all[1].to_string(), "Graylog tcp://g:12201");
    assert_eq!(all[0].to_string(), "syslog udp://s:514");
    let all =
        targets("gelf = \"udp://g\"\nsyslog = \"/dev/log\"\njournald = \"on\"\nfile = \"a.log\"")
            .unwrap();
    assert!(matches!(&all[3], LogTarget::Gelf(_, Some(Smaller::Gzip))));
    let shown: Vec<String> = all.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown[..3],
        ["file a.log", "journal /run/systemd/journal/socket", "syslog /dev/log"]
    );
    for bad in
        ["gelf = \"http://g\"", "gelf = \"udp://\"", "syslog = \"tcp://s:0\"", "syslog = \"\""]
    {
        let said = targets(bad).unwrap_err().to_string();
        assert!(said.starts_with("log.") && said.contains("udp:// or tcp://"), "{bad}: {said}");
    }
    for (bad, allowed) in [
        ("journald = \"yes\"", "path of a socket"),
        ("compression = \"xz\"", "gzip, zlib or off"),
        ("max_size = \"1KiB\"", "64KiB to 1TiB"),
        ("max_size = 10", "64KiB to 1TiB"),
        ("keep = 0", "1 to 99"),
        ("file_format = \"xml\"", "text or json"),
        ("file = \"/\"", "a file"),
    ] {
        let said = targets(bad).unwrap_err().to_string();
        assert!(said.starts_with("log.") && said.contains(allowed), "{bad}: {said}");
    }
    assert_eq!(section("level = \"warning\"").level().unwrap().to_string(), "warning");
    assert!(section("level = \"loud\"").level().unwrap_err().to_string().contains("warning"));
}
