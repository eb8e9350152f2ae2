//! What a person reads, for one instrument and round costs; and advice that names what to set.

use super::advice::{WorkerRun, run};
use super::instrument::named;
use super::plan::{Wishes, plan};
use super::queues::{QueueSetup, Sizes};
use super::report::{CapacityReport, overview, row, section};
use super::{example, queues};

const SIZES: Sizes = Sizes {
    receive_buffer: 64 << 20,
    queue: 64,
    spool: 4 << 30,
    step_s: 1e-4,
    outage_s: 2.0,
    seed: 1,
};

fn report(name: &str, wishes: &Wishes, sizes: Sizes) -> CapacityReport {
    let facts = example::facts();
    let plan = plan(&named(name).unwrap()[0], &facts, wishes).unwrap();
    let rate = |m: &Option<super::measured::Measure>| m.as_ref().map(|m| m.value);
    let setup = QueueSetup::new(&plan, &sizes, rate(&facts.spool), rate(&facts.produce));
    CapacityReport::new(plan, run(setup), sizes)
}

#[test]
fn skadi_as_a_person_reads_it() {
    let wishes = Wishes { message_bytes: 200.0, outage_s: 2.0, ..Wishes::default() };
    let r = report("skadi", &wishes, SIZES);
    let text = overview(std::slice::from_ref(&r)) + &section(&r, &example::facts());
    let golden = include_str!("skadi.golden.md");
    assert_eq!(text, golden, "got\n{text}");
    let json = row(&r, &example::facts());
    assert_eq!(json["average"]["packets_per_s"], 944_000.0);
    assert_eq!(json["measured"]["produce"]["from"], "output.json: capacity_produce");
    assert_eq!(json["simulation"]["packets"]["lost_socket"], 0);
}

fn advice_of(change: impl Fn(&mut Wishes, &mut Sizes)) -> String {
    let (mut wishes, mut sizes) = (Wishes::default(), SIZES);
    change(&mut wishes, &mut sizes);
    report("skadi", &wishes, sizes).advice.join("\n")
}

#[test]
fn advice_names_the_setting_and_its_size() {
    assert_eq!(advice_of(|_, _| {}), "");
    let said = advice_of(|_, s| s.receive_buffer = 1 << 20);
    assert!(
        said.contains("source.receive_buffer of ") && said.contains("instead of 1 MiB"),
        "{said}"
    );
    let said = advice_of(|_, s| s.spool = 16 << 20);
    assert!(
        said.contains("output.kafka.spool_size of ") && said.contains("instead of 16 MiB"),
        "{said}"
    );
    let said = advice_of(|_, s| s.queue = 1);
    assert!(said.is_empty() || said.contains("engine.queue of "), "{said}");
}

/// The size that a sentence asks for.
fn asked(said: &str, key: &str) -> u64 {
    let rest = said.split_once(&format!("{key} of ")).expect(said).1;
    let size = rest.split_once(" instead").expect(said).0.replace(' ', "");
    fullcount_io::quantity::size(&size).expect(said)
}

#[test]
fn what_is_advised_is_enough() {
    let small = |s: &mut Sizes| (s.receive_buffer, s.spool) = (1 << 20, 16 << 20);
    let said = advice_of(|_, s| small(s));
    let buffer = asked(&said, "source.receive_buffer");
    // While packets are lost in front of it, the spool's need shows in a run without bounds all the same.
    let spool = asked(&advice_of(|_, s| s.spool = 16 << 20), "output.kafka.spool_size");
    assert!(buffer > 1 << 20 && spool > 16 << 20, "{said}");
    let enough = advice_of(|_, s| (s.receive_buffer, s.spool) = (buffer, spool));
    assert_eq!(enough, "");
    let r = report("skadi", &Wishes::default(), Sizes { receive_buffer: buffer, spool, ..SIZES });
    assert_eq!(r.run.outcome.lost, [0, 0]);
}

#[test]
fn what_is_slower_than_the_stream_asks_for_more_of_it() {
    let facts = example::facts();
    let plan = plan(&named("skadi").unwrap()[0], &facts, &Wishes::default()).unwrap();
    let of = |spool: f64, produce: f64, receive: Option<f64>| {
        let mut setup = QueueSetup::new(&plan, &SIZES, Some(spool), Some(produce));
        setup.receive = receive.unwrap_or(setup.receive);
        let run: WorkerRun = run(setup);
        super::advice::advice(&plan, &SIZES, &run).join("\n")
    };
    assert!(of(1e9, 1e6, None).contains("never empties"));
    assert!(of(1e6, 1e9, None).contains("disk of the spool is slower"));
    assert!(of(1e9, 1e9, Some(1000.0)).contains("a worker is slower than its share"));
    assert_eq!(of(1e9, 1e9, None), "");
}

#[test]
fn every_instrument_of_the_table_is_written() {
    let mut facts = example::facts();
    let sonde = facts.of("sonde").unwrap().clone();
    for other in ["multigrid", "multiblade", "gdgem"] {
        facts.decoders.insert(other.to_owned(), sonde.clone());
    }
    let sizes = Sizes { outage_s: 0.1, step_s: 1e-3, ..SIZES };
    let mut all = vec![];
    for i in named("all").unwrap() {
        let p = plan(&i, &facts, &Wishes::default()).unwrap();
        let setup = QueueSetup::new(&p, &sizes, None, None);
        assert!(setup.room[queues::PLACES.len() - 1] > 0);
        let r = CapacityReport::new(p, run(setup), sizes);
        let text = section(&r, &facts);
        let assumed = i.name.starts_with("loki");
        assert_eq!(text.contains("the cost of an event is assumed"), assumed, "{text}");
        assert_eq!(text.contains("of the given links"), i.links.is_some(), "{text}");
        assert!(
            text.contains(&i.source) && !text.contains("NaN") && !text.contains("inf"),
            "{text}"
        );
        all.push(r);
    }
    assert_eq!(overview(&all).lines().count(), 2 + 11);
}
