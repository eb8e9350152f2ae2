//! A thread that stands still is found by its name, in a decoder too; one that may wait is not.

use std::sync::mpsc;
use std::thread;

use fullcount_core::batch::{Batch, Edge, Origin};
use fullcount_core::detector::Decoder;
use fullcount_core::ledger::{Ledger, Sheet};
use fullcount_core::products::Products;
use fullcount_core::progress::Flush;
use fullcount_core::time::Nanos;
use fullcount_io::source::{Received, Source, SourceError};

use super::super::{Processing, Progress, RingCount, RunLimits, run_one_thread, run_two_threads};
use super::*;
use crate::fanout::Fanout;
use crate::stop::Stop;

#[test]
fn a_thread_stands_still_if_it_leaves_no_mark_and_has_not_said_that_it_waits() {
    let (hearts, begun) = (Hearts::default(), Instant::now());
    let (goes, hangs) = (hearts.add("receive".into()), hearts.add("process".into()));
    let mut second = 0;
    let mut look = |seconds: u64| {
        (0..seconds).fold(Vec::new(), |_, _| {
            goes.beat();
            second += 1;
            hearts.stand_still(begun + Duration::from_secs(second))
        })
    };
    // The first look begins the time.
    assert!(look(30).is_empty());
    assert_eq!(look(1), ["process"]);
    assert_eq!(look(100), ["process"]);
    hangs.beat();
    assert!(look(30).is_empty(), "it goes on");
    assert_eq!(look(1), ["process"]);
    hangs.rests(true);
    assert!(look(1000).is_empty(), "it waits for others");
    hangs.rests(false);
    assert!(look(29).is_empty());
    assert_eq!(look(1), ["process"]);
}

#[test]
fn a_process_that_stood_still_has_not_waited_for_its_threads() {
    let (hearts, begun) = (Hearts::default(), Instant::now());
    let _hangs = hearts.add("receive".into());
    for hour in 0..15 {
        let now = begun + Duration::from_secs(3600 * hour);
        assert!(hearts.stand_still(now).is_empty(), "{hour} h");
    }
    assert_eq!(hearts.stand_still(begun + Duration::from_secs(3600 * 15)), ["receive"]);
}

/// Tells of its first packet, and hangs until it is told to go on.
struct Hanging(Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>);

impl Decoder for Hanging {
    fn decode(&mut self, batch: Option<&Batch>, _: Option<Nanos>, _: &mut Products) {
        if let Some((tell, go_on)) = batch.and_then(|_| self.0.take()) {
            tell.send(()).unwrap();
            go_on.recv().unwrap();
        }
    }
    fn flush(&mut self, _: Flush, _: &mut Products) {}
    fn sheets(&self) -> Vec<Arc<Sheet>> {
        vec![]
    }
}

/// A datagram now and then, of a sender that waits for nobody.
struct Live;

impl Source for Live {
    fn recv(&mut self, batch: &mut Batch, _: Duration) -> Result<Received, SourceError> {
        thread::sleep(Duration::from_millis(1));
        batch.clear();
        batch.append(&[0; 4], Origin::NONE, 0, Edge::Datagram);
        Ok(Received::Data)
    }
    fn batch(&self) -> Batch {
        Batch::with_slots(0, 0)
    }
    fn lossless(&self) -> bool {
        false
    }
    fn sheet(&self) -> Arc<Sheet> {
        Sheet::new(vec![])
    }
    fn describe(&self) -> Vec<String> {
        vec![]
    }
}

#[test]
fn a_decoder_that_hangs_is_told_by_the_name_of_its_thread() {
    for (threads, name) in [(1, "receive"), (2, "process")] {
        let ((tell, told), (go_on, wait)) = (mpsc::channel(), mpsc::channel());
        let (mut ways, drains) = Fanout::start(vec![], (1, 4), &Ledger::default(), |_| {}).unwrap();
        let decoder = Box::new(Hanging(Some((tell, wait))));
        let mut work = Processing::new(decoder, ways.remove(0), false, false);
        let (stop, progress) = (Stop::default(), Arc::new(Progress::default()));
        let (asked, seen) = (stop.clone(), progress.clone());
        let run = thread::spawn(move || {
            let sheets = [Sheet::new(RingCount::catalogue()), Sheet::new(RingCount::catalogue())];
            let (limits, source) = (RunLimits::default(), &mut Live);
            match threads {
                1 => run_one_thread(source, &mut work, &limits, &asked, &seen),
                _ => {
                    let sheets = (&*sheets[0], &*sheets[1]);
                    run_two_threads(source, &mut work, &limits, &asked, &seen, sheets, || {})
                }
            }
            .unwrap();
        });
        told.recv().unwrap();
        // Seconds of this test's own: the one that hangs is found once it has left no mark for so many looks.
        let (begun, mut looks) = (Instant::now(), 0);
        let mut look = || {
            thread::sleep(Duration::from_millis(1));
            looks += 1;
            assert!(begun.elapsed() < Duration::from_secs(60), "after {looks} looks");
            progress.stand_still(begun + Duration::from_secs(looks))
        };
        while look() != [name] {}
        assert_eq!(progress.stood_still(), [name]);
        go_on.send(()).unwrap();
        while !look().is_empty() {}
        assert!(progress.stood_still().is_empty());
        stop.request();
        run.join().unwrap();
        drains.finish(vec![]);
    }
}
