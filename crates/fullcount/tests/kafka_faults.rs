//! Faults between the service and a real Kafka, each several times: the topic is compared with the sender's list
//! afterwards. Every message that was appended to the spool is there once and in order, and missing events were
//! counted.
//!
//! `cargo xtask prove kafka` runs these scenarios more often and longer, by the environment: `FULLCOUNT_FAULT` (one of
//! the names below; all), `FULLCOUNT_FAULT_ROUNDS` (3), `FULLCOUNT_FAULT_SECONDS` (0.5), and reads the lines
//! `figures: {…}`. A fault lasts this long and until its effect has been seen; nothing else uses a clock.
#![cfg(target_os = "linux")]

use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::broker::{
    BrokerCluster, Checker, EVENTS, arguments, brokers, jars, packets, wait_until, wait_until_empty,
};
use crate::faults::{Account, Plan, Running, Sender, SmallDisk, leader, tell, url};
use crate::places_net::{FAR, Net};
use crate::service::capture;
use serde_json::json;

/// Events of a message where events are slow.
const USUAL: u32 = 500;
/// Events of a message where the rate is the spool's: each message is an append, and bytes are few, so that neither
/// detector nor disk is what limits it.
const SMALL: u32 = 10;
/// Part of the spool's rate at which nothing may be lost.
const SHARE: f64 = 0.8;
/// Overload, in the spool's rates.
const TOO_MUCH: f64 = 3.0;

#[test]
fn a_broker_that_is_killed_or_gone_costs_no_event_and_doubles_none() {
    let plan = Plan::read();
    if !plan.asks_for("broker-killed") && !plan.asks_for("broker-gone") {
        return;
    }
    let Some((mut cluster, folder)) = brokers(1) else { return };
    if plan.asks_for("broker-killed") {
        broker_killed(&mut cluster, folder.path(), &plan);
    }
    if plan.asks_for("broker-gone") {
        broker_gone(&mut cluster, folder.path(), &plan);
    }
}

/// Killed with SIGKILL in the middle of messages, and started again.
fn broker_killed(cluster: &mut BrokerCluster, folder: &Path, plan: &Plan) {
    let topic = "killed_detector";
    let mut sender = Sender::new();
    let to = url(cluster, topic);
    let running = Running::udp(&mut sender, &to, &folder.join("killed"), USUAL, &[]);
    let mut checker = Checker::new(&cluster.bootstrap(), topic, 1);
    for round in 0..plan.rounds {
        sender.send(150);
        // All but the open message; then the broker is killed in the middle of the next.
        checker.wait_for_events(u64::from(round * 300 + 100) * u64::from(EVENTS));
        sender.send(50);
        cluster.kill(0);
        sender.send(100);
        running.wait_for("receive.packets", sender.next.into());
        cluster.restart(0).unwrap_or_else(|e| panic!("{e}"));
    }
    let account = Account::close(running, &mut checker, &mut sender);
    account.assert_whole();
    checker.assert_whole(sender.events());
    tell("broker-killed", &json!({ "rounds": plan.rounds, "account": account.figures() }));
}

/// Events per second that the spool can write alone: no broker, and a source that waits.
fn spool_rate(folder: &Path, length: Duration) -> f64 {
    let file = capture(folder, "flat-out", &packets(1000));
    let source = format!("pcap:{file}?flat-out&preload&repeat=forever&shift");
    let spool = folder.join("measured");
    let nobody = "kafka://127.0.0.1:1/measured_detector";
    let mut all = arguments(&source, nobody, &spool.display().to_string(), SMALL);
    for set in ["output.kafka.drain=1ms", "output.kafka.spool_size=64GiB"] {
        all.extend(["--set".to_owned(), set.to_owned()]);
    }
    let running = Running::start(all);
    running.wait_for("kafka.spool.messages", 1);
    let (begun, first) = (Instant::now(), running.counter("kafka.spool.messages"));
    thread::sleep(length.min(Duration::from_secs(10)));
    let appended = running.counter("kafka.spool.messages") - first;
    let rate = appended as f64 * f64::from(SMALL) / begun.elapsed().as_secs_f64();
    let said = running.interrupt();
    assert_eq!(said.code, 0, "{}", said.err);
    std::fs::remove_dir_all(&spool).expect("removed");
    rate
}

/// Killed, and gone for the length of the fault while events come at 80 % of the spool's rate.
fn broker_gone(cluster: &mut BrokerCluster, folder: &Path, plan: &Plan) {
    let topic = "gone_detector";
    let rate = spool_rate(folder, plan.length);
    let mut sender = Sender::new();
    // A disk that thinks for a moment is not a rate: the queue in front of the output bridges it.
    let large = ["--set", "output.kafka.spool_size=64GiB", "--set", "engine.queue=512"];
    let to = url(cluster, topic);
    let running = Running::udp(&mut sender, &to, &folder.join("gone"), SMALL, &large);
    let mut checker = Checker::new(&cluster.bootstrap(), topic, 1);
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        let stop = AtomicBool::new(false);
        let confirmed = running.counter("sink.kafka.messages");
        let (reached, gone, queued, [messages, bytes]) = thread::scope(|scope| {
            let sending = scope.spawn(|| sender.paced(SHARE * rate, &stop));
            running.wait_for("sink.kafka.messages", confirmed + 1);
            cluster.kill(0);
            let begun = Instant::now();
            running.wait_for("kafka.spool.messages", 1);
            thread::sleep(plan.length.saturating_sub(begun.elapsed()));
            let gone = begun.elapsed();
            stop.store(true, Relaxed);
            let reached = sending.join().expect("the sender");
            let spooled =
                ["messages", "bytes"].map(|n| running.counter(&format!("kafka.spool.{n}")));
            let queued = running.counter("queue.kafka.queued");
            (reached, gone, queued, spooled)
        });
        cluster.restart(0).unwrap_or_else(|e| panic!("{e}"));
        let begun = Instant::now();
        wait_until_empty(&running.page);
        rounds.push(json!({
            "events_per_s_sent": reached,
            "seconds_gone": gone.as_secs_f64(),
            "events_in_the_queue_then": queued,
            "messages_spooled": messages,
            "bytes_spooled": bytes,
            "seconds_until_empty": begun.elapsed().as_secs_f64(),
        }));
    }
    let account = Account::close(running, &mut checker, &mut sender);
    tell(
        "broker-gone",
        &json!({
            "events_per_message": SMALL,
            "spool_events_per_s": rate,
            "share": SHARE,
            "rounds": rounds,
            "account": account.figures(),
        }),
    );
}

#[test]
fn a_spool_that_cannot_follow_loses_what_is_counted_and_a_kill_nothing_that_was_appended() {
    let plan = Plan::read();
    if !["service-killed", "overload", "disk-full"].iter().any(|fault| plan.asks_for(fault)) {
        return;
    }
    let Some((mut cluster, folder)) = brokers(1) else { return };
    if plan.asks_for("overload") {
        overload(&cluster, folder.path(), &plan);
    }
    if plan.asks_for("disk-full") {
        disk_full(&cluster, folder.path(), &plan);
    }
    if plan.asks_for("service-killed") {
        service_killed(&mut cluster, folder.path(), &plan);
        packets_of_a_dead_service(&cluster, folder.path(), &plan);
    }
}

/// Events come faster than the spool takes them.
fn overload(cluster: &BrokerCluster, folder: &Path, plan: &Plan) {
    let topic = "overload_detector";
    let rate = spool_rate(folder, plan.length);
    let mut sender = Sender::new();
    let to = url(cluster, topic);
    let short = ["--set", "engine.queue=4"];
    let running = Running::udp(&mut sender, &to, &folder.join("overload"), SMALL, &short);
    let mut checker = Checker::new(&cluster.bootstrap(), topic, 1);
    let mut reached = Vec::new();
    for _ in 0..plan.rounds {
        let stop = AtomicBool::new(false);
        let before = running.counter("queue.kafka.dropped");
        reached.push(thread::scope(|scope| {
            let sending = scope.spawn(|| sender.paced(TOO_MUCH * rate, &stop));
            let begun = Instant::now();
            running.wait_for("queue.kafka.dropped", before + 1);
            thread::sleep(plan.length.saturating_sub(begun.elapsed()));
            stop.store(true, Relaxed);
            sending.join().expect("the sender")
        }));
        wait_until_empty(&running.page);
    }
    let account = Account::close(running, &mut checker, &mut sender);
    assert!(account.dropped > 0, "more than the spool takes, and nothing is dropped");
    tell(
        "overload",
        &json!({
            "events_per_message": SMALL,
            "spool_events_per_s": rate,
            "events_per_s_sent": reached,
            "account": account.figures(),
        }),
    );
}

/// The broker answers nothing until the spool's disk is full; then there is room, then the broker is back.
fn disk_full(cluster: &BrokerCluster, folder: &Path, plan: &Plan) {
    let topic = "full_detector";
    let at = folder.join("disk");
    let Some(disk) = SmallDisk::mount(&at, "6m") else { return };
    let mut sender = Sender::new();
    let to = url(cluster, topic);
    let small = ["--set", "output.kafka.spool_size=16MiB"];
    let running = Running::udp(&mut sender, &to, &at.join("spool"), USUAL, &small);
    let mut checker = Checker::new(&cluster.bootstrap(), topic, 1);
    for _ in 0..plan.rounds {
        sender.send(20);
        checker.wait_for_events(checker.events() + 1);
        cluster.pause(0).unwrap_or_else(|e| panic!("{e}"));
        let before = running.counter("kafka.spool.full");
        while running.counter("kafka.spool.full") == before {
            sender.send(200);
            running.wait_for_all(&mut sender, 0);
        }
        let full = running.counter("kafka.spool.messages");
        disk.resize("12m");
        running.wait_for("kafka.spool.messages", full + 1);
        cluster.resume(0).unwrap_or_else(|e| panic!("{e}"));
        wait_until_empty(&running.page);
        disk.resize("6m");
    }
    let account = Account::close(running, &mut checker, &mut sender);
    tell("disk-full", &json!({ "rounds": plan.rounds, "account": account.figures() }));
    // The same with a source that can wait: nothing is missing, however full the disk.
    cluster.pause(0).unwrap_or_else(|e| panic!("{e}"));
    let file = capture(folder, "full", &packets(15_000));
    let topic = "full_capture_detector";
    let (source, spool) = (format!("pcap:{file}?flat-out"), at.join("capture"));
    let mut all = arguments(&source, &url(cluster, topic), &spool.display().to_string(), USUAL);
    all.extend(["--set", "output.kafka.spool_size=16MiB"].map(str::to_owned));
    let running = Running::start(all);
    running.wait_for("kafka.spool.full", 1);
    cluster.resume(0).unwrap_or_else(|e| panic!("{e}"));
    let said = running.service.end();
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.summary()["balance"], 0);
    let mut checker = Checker::new(&cluster.bootstrap(), topic, 1);
    checker.read_all();
    checker.assert_whole(1_500_000);
}

/// Killed while sent messages are unconfirmed; while it spools and the broker is down; while it sends the spooled
/// backlog.
fn service_killed(cluster: &mut BrokerCluster, folder: &Path, plan: &Plan) {
    let topic = "dead_detector";
    let spool = folder.join("dead");
    let (mut sender, to) = (Sender::new(), url(cluster, topic));
    let mut checker = Checker::new(&cluster.bootstrap(), topic, 1);
    let mut appended = 0;
    let mut ends = Vec::new();
    for round in 0..plan.rounds {
        if round % 3 == 1 {
            cluster.kill(0);
        }
        let mut running = Running::udp(&mut sender, &to, &spool, USUAL, &[]);
        let first = sender.next;
        sender.send(200);
        running.wait_for("sink.kafka.in", 200 * u64::from(EVENTS));
        if round % 3 == 2 {
            cluster.restart(0).unwrap_or_else(|e| panic!("{e}"));
        }
        if round % 3 == 0 {
            // The broker stops with connections open: messages sent now are in sockets, and on the topic later.
            running.wait_for("sink.kafka.messages", 1);
            cluster.pause(0).unwrap_or_else(|e| panic!("{e}"));
            sender.send(100);
            running.wait_for("sink.kafka.in", 300 * u64::from(EVENTS));
            running.wait_for("kafka.spool.messages", 1);
        } else {
            sender.send(100);
        }
        // At least these were appended by now.
        let cut =
            ["pulse", "capacity", "timer"].map(|c| running.counter(&format!("sink.kafka.cut.{c}")));
        running.service.child.kill();
        appended += cut.iter().sum::<u64>();
        drop(running);
        if round % 3 == 0 {
            cluster.resume(0).unwrap_or_else(|e| panic!("{e}"));
        }
        // No process listens: packets sent now are lost.
        sender.send(50);
        ends.push((first * EVENTS, (first + 300) * EVENTS, sender.next * EVENTS));
    }
    if plan.rounds % 3 == 2 {
        cluster.restart(0).unwrap_or_else(|e| panic!("{e}"));
    }
    // The last one only sends the rest of the others. The record of confirmed messages is lost, too: the topic has it.
    let settled = spool.join("settled");
    if settled.exists() {
        std::fs::remove_file(&settled).expect("removed");
    }
    let running = Running::udp(&mut sender, &to, &spool, USUAL, &[]);
    wait_until_empty(&running.page);
    let already = running.counter("sink.kafka.already");
    let said = running.interrupt();
    assert_eq!(said.code, 0, "{}", said.err);
    checker.read_all();
    let row = checker.row();
    assert!(row.messages >= appended, "{} of {appended} messages", row.messages);
    // Of each round a first part, in order, and nothing that was sent while no process listened.
    let mut part = 0;
    let mut missing = 0;
    for (first, behind, next) in &ends {
        let gap = row.gaps.iter().find(|gap| gap.1 == *next);
        let until = match gap {
            Some(gap) => gap.0,
            // After the last message: the number of missing events is known only from the existing ones.
            None => first + (row.events as u32 - part),
        };
        assert!((*first..=*behind).contains(&until), "{until} of {first} to {behind}");
        part += until - first;
        missing += u64::from(behind - until);
    }
    assert!(row.gaps.len() < ends.len().max(1), "{:?}", row.gaps);
    assert_eq!(u64::from(part), row.events);
    tell(
        "service-killed",
        &json!({
            "rounds": plan.rounds,
            "messages_on_topic": row.messages,
            "messages_appended_at_least": appended,
            "messages_found_on_topic_by_the_next_start": already,
            "events_sent_while_it_ran": u64::from(plan.rounds) * 300 * u64::from(EVENTS),
            "events_on_topic": row.events,
            "events_not_in_a_message_when_killed": missing,
            "events_sent_while_it_was_down": u64::from(plan.rounds) * 50 * u64::from(EVENTS),
        }),
    );
}

/// A numbered packet of `sequence`.
fn numbered(number: u64, time: u64) -> Vec<u8> {
    let mut p = b"FCSQ".to_vec();
    p.extend(7u32.to_le_bytes());
    p.extend(number.to_le_bytes());
    p.extend(time.to_le_bytes());
    p
}

/// With the sender's numbers in the packets, the ledger says how many were sent before it listened (`lost.down`). Minus
/// the packets of earlier processes, that is the number sent while none ran; all others are on the topic.
fn packets_of_a_dead_service(cluster: &BrokerCluster, folder: &Path, plan: &Plan) {
    let topic = "numbered_raw";
    let spool = folder.join("numbered").display().to_string();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut arguments: Vec<String> =
        ["run", "--source", "udp://127.0.0.1:0", "--detector", "sequence", "--json"]
            .map(str::to_owned)
            .into();
    let brokers = cluster.bootstrap();
    for set in [
        format!("output.raw.brokers={brokers}"),
        format!("output.raw.topic={topic}"),
        format!("output.raw.spool={spool}"),
        "output.raw.options.linger.ms=5".to_owned(),
        // A stream whose first number is no larger was not joined late but lost its head.
        "detector.window=64".to_owned(),
    ] {
        arguments.extend(["--set".to_owned(), set]);
    }
    let mut checker = Checker::new(&brokers, topic, 1);
    let (mut sent, mut taken, mut down) = (0u64, 0u64, 0u64);
    let mut gaps = Vec::new();
    for round in 0..=plan.rounds {
        let mut running = Running::start(arguments.clone());
        let to = ("127.0.0.1", running.service.udp_port());
        let send = |sent: &mut u64, count: u64, to: (&str, u16)| {
            for number in *sent..*sent + count {
                socket.send_to(&numbered(number, 0), to).expect("sent");
            }
            *sent += count;
        };
        let before = sent;
        send(&mut sent, 200, to);
        // What an earlier one left in the spool, if any, is confirmed first.
        let left = running.counter("sink.raw.recovered");
        running.wait_for("sink.raw.written", left + 200);
        // Numbers sent before this one listened: those that earlier processes received, and those that none did.
        assert_eq!(running.counter("packets.lost.down"), before);
        assert_eq!(before - taken, down);
        taken += 200;
        if round < plan.rounds {
            running.service.child.kill();
            drop(running);
            send(&mut sent, 70, to);
            down += 70;
            gaps.push((sent as u32 - 70, sent as u32));
            continue;
        }
        for _ in 0..5 {
            socket.send_to(&numbered(u64::MAX, sent), to).expect("sent");
        }
        let said = running.service.end();
        let summary = said.summary();
        assert_eq!(said.code, 3, "{}", said.err);
        assert_eq!(summary["balance"], 0, "{summary}");
        assert_eq!(summary["packets"]["sent"], sent, "{summary}");
        assert_eq!(summary["packets"]["lost"]["down"], before, "{summary}");
    }
    checker.read_all();
    let row = checker.row();
    assert_eq!(row.gaps, gaps, "sent while nobody listened");
    assert_eq!((row.events, row.events + down), (taken, sent));
    tell(
        "service-killed",
        &json!({ "packets_sent": sent, "packets_on_topic": taken, "packets_lost_down": down }),
    );
}

#[test]
fn an_election_among_three_brokers_costs_no_event_and_doubles_none() {
    let plan = Plan::read();
    if !plan.asks_for("election") {
        return;
    }
    let Some((mut cluster, folder)) = brokers(3) else { return };
    let topic = "election_detector";
    let (all, mut sender) = (cluster.bootstrap(), Sender::new());
    let to = url(&cluster, topic);
    let running = Running::udp(&mut sender, &to, &folder.path().join("spool"), USUAL, &[]);
    sender.send(20);
    running.wait_for("sink.kafka.messages", 1);
    let mut checker = Checker::new(&all, topic, 3);
    let mut seconds = Vec::new();
    for round in 0..plan.rounds {
        sender.send(100);
        checker.wait_for_events(sender.events() - 20 * u64::from(EVENTS));
        let partition = round as usize % 3;
        let led = || leader(&all, topic, partition).map_or(u64::MAX, |n| n as u64);
        wait_until("a leader", led, |n| n != u64::MAX);
        let old = led();
        sender.send(50);
        cluster.kill(old as usize);
        let begun = Instant::now();
        sender.send(50);
        // The other two take over before this one is back.
        wait_until("another leader", led, |n| n != u64::MAX && n != old);
        checker.wait_for_events(sender.events() - 20 * u64::from(EVENTS));
        seconds.push(begun.elapsed().as_secs_f64());
        cluster.restart(old as usize).unwrap_or_else(|e| panic!("{e}"));
    }
    let account = Account::close(running, &mut checker, &mut sender);
    account.assert_whole();
    checker.assert_whole(sender.events());
    let figures = json!({
        "rounds": plan.rounds,
        "seconds_until_all_was_on_the_topic": seconds,
        "account": account.figures(),
    });
    tell("election", &figures);
}

#[test]
fn a_network_that_is_cut_costs_no_event_and_doubles_none() {
    let plan = Plan::read();
    if !plan.asks_for("network-cut") {
        return;
    }
    let Some(jars) = jars() else { return };
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let at = FAR.to_string();
    let cluster = BrokerCluster::start_within(&net.far, &at, &jars, folder.path(), 1);
    let cluster = cluster.unwrap_or_else(|e| panic!("{e}"));
    let topic = "cut_detector";
    let mut checker = Net::inside(&net.far, || Checker::new(&cluster.bootstrap(), topic, 1));
    let link = |state: &str| {
        let mut ip = Command::new("ip");
        let done = ip.args(["-n", &net.near, "link", "set", "places0", state]).status();
        assert!(done.is_ok_and(|status| status.success()), "ip link set {state}");
    };
    // Service and sender are on one side, broker and checker on the other.
    Net::inside(&net.near, || {
        let mut sender = Sender::new();
        let to = url(&cluster, topic);
        let running = Running::udp(&mut sender, &to, &folder.path().join("spool"), USUAL, &[]);
        let mut rounds = Vec::new();
        for _ in 0..plan.rounds {
            sender.send(100);
            checker.wait_for_events(sender.events() - 20 * u64::from(EVENTS));
            sender.send(20);
            link("down");
            let begun = Instant::now();
            let received = sender.events();
            sender.send(100);
            running.wait_for("sink.kafka.in", sender.events());
            thread::sleep(plan.length.saturating_sub(begun.elapsed()));
            let waiting = running.counter("kafka.spool.messages");
            assert!(waiting > 0, "{received} events had arrived, and nothing waits");
            link("up");
            let (cut, begun) = (begun.elapsed(), Instant::now());
            wait_until_empty(&running.page);
            rounds.push(json!({
                "seconds_cut": cut.as_secs_f64(),
                "messages_spooled": waiting,
                "seconds_until_empty": begun.elapsed().as_secs_f64(),
            }));
        }
        let account = Account::close(running, &mut checker, &mut sender);
        account.assert_whole();
        checker.assert_whole(sender.events());
        tell("network-cut", &json!({ "rounds": rounds, "account": account.figures() }));
    });
}
