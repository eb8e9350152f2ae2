//! The output against servers of the test, which are gone, slow or restarted as the tests want.

use super::*;
use fullcount_core::ledger::{Entries, Ledger};
use fullcount_core::status::Facts;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;

fullcount_core::counters! {
    /// Counters of a run.
    enum Run {
        In "receive.packets" Packets Sum "receive" In "in" "";
        Ok "receive.accepted" Packets Sum "receive" Accepted "ok" "";
    }
}

struct Fixed(Ledger, Arc<Sheet>);

impl StatusSource for Fixed {
    fn entries(&self) -> Entries {
        self.0.read()
    }

    fn facts(&self) -> Facts {
        Facts::default()
    }

    fn prefix(&self) -> &str {
        "efu.x.0."
    }
}

fn run() -> Arc<Fixed> {
    let (ledger, sheet) = (Ledger::default(), Sheet::new(Run::catalogue()));
    ledger.register(sheet.clone());
    sheet.add(Run::In as usize, 5);
    Arc::new(Fixed(ledger, sheet))
}

fn task(port: u16) -> GraphiteTask {
    let peer = Peer::read("k", &format!("127.0.0.1:{port}"), PORT).unwrap().unwrap();
    let sheet = Sheet::new(GraphiteCounter::catalogue());
    GraphiteTask { peer, period: Duration::from_millis(100), sheet, machine: false }
}

/// The next line of a connection, in its three words.
fn line(from: &mut impl BufRead) -> (String, i64, u64) {
    let mut text = String::new();
    from.read_line(&mut text).unwrap();
    let words: Vec<&str> = text.trim_end().split(' ').collect();
    (words[0].to_owned(), words[1].parse().unwrap(), words[2].parse().unwrap())
}

#[test]
fn all_counters_come_each_period_and_once_more_at_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (run, task) = (run(), task(listener.local_addr().unwrap().port()));
    let sheet = task.sheet.clone();
    let threads = GraphiteThreads::start(task, run.clone()).unwrap();
    let mut from = BufReader::new(listener.accept().unwrap().0);
    let (name, value, at) = line(&mut from);
    assert_eq!((name.as_str(), value), ("efu.x.0.receive.packets", 5));
    assert!(at > 1_500_000_000);
    assert_eq!(line(&mut from).0, "efu.x.0.receive.accepted");
    run.1.add(Run::In as usize, 2);
    // Later ones see the new value.
    while line(&mut from).1 != 7 {}
    run.1.add(Run::In as usize, 1);
    drop(threads);
    let rest: Vec<String> = from.lines().map(|l| l.unwrap()).collect();
    let last = rest.iter().rfind(|l| l.contains("receive.packets")).unwrap();
    assert!(last.starts_with("efu.x.0.receive.packets 8 "), "{last}");
    assert_eq!(sheet.get(GraphiteCounter::Connections as usize), 1);
    let count = |c| sheet.get(c as usize);
    assert_eq!(count(GraphiteCounter::Sent), count(GraphiteCounter::Snapshots));
}

#[test]
fn a_server_that_comes_back_gets_what_it_missed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (run, task) = (run(), task(address.port()));
    let sheet = task.sheet.clone();
    let _threads = GraphiteThreads::start(task, run.clone()).unwrap();
    let mut from = BufReader::new(listener.accept().unwrap().0);
    assert_eq!(line(&mut from).1, 5);
    drop((from, listener));
    // Whatever the thread does now fails, until somebody listens again.
    while sheet.get(GraphiteCounter::Errors as usize) < 2 {
        std::thread::yield_now();
    }
    run.1.add(Run::In as usize, 100);
    let listener = TcpListener::bind(address).unwrap();
    let mut from = BufReader::new(listener.accept().unwrap().0);
    assert_eq!(line(&mut from).1, 5, "from before the break");
    while line(&mut from).1 != 105 {}
    assert_eq!(sheet.get(GraphiteCounter::Dropped as usize), 0);
}

#[test]
fn nobody_there_costs_nothing_at_the_end() {
    let task = task(1);
    let sheet = task.sheet.clone();
    let threads = GraphiteThreads::start(task, run()).unwrap();
    while sheet.get(GraphiteCounter::Errors as usize) < 2 {
        std::thread::yield_now();
    }
    let begun = std::time::Instant::now();
    drop(threads);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn prefixes_regions_names_and_periods_are_checked() {
    let read = |text: &str| section::read::<MetricsSection>(SECTION, text).unwrap().check_names();
    for good in ["", "region = \"b\"", "prefix = \"a.b\"\nregion = \"0\"", "names = \"efu2018\""] {
        read(good).unwrap();
    }
    let said = read("names = \"theirs\"").unwrap_err().to_string();
    assert_eq!(said, "metrics.names = theirs: ours, efu, efu2018");
    for bad in [
        "prefix = \"\"",
        "prefix = \"a..b\"",
        "region = \"a b\"",
        "region = \".\"",
        "prefix = \"ä\"",
    ] {
        let said = read(bad).unwrap_err().to_string();
        assert!(said.starts_with("metrics.") && said.contains("a dot between"), "{said}");
    }
    let period = |text: &str| section::read::<MetricsSection>(SECTION, text).unwrap().period();
    assert_eq!(period("period = \"100ms\"").unwrap(), Duration::from_millis(100));
    for bad in ["period = 1", "period = \"99ms\"", "period = \"2h\""] {
        assert!(period(bad).unwrap_err().to_string().contains("100ms to 1h"));
    }
}
