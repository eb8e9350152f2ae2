//! Members of a group that reduce events live: the example `tof_spectrum`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use fullcount_messages::DataType::Int64;
use fullcount_messages::{Events44, Message};
use fullcount_writer::structure;
use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use serde_json::Value;

use super::{PATIENCE, Place, wait_for_members};
use crate::service::Service;

/// The example program; built with the tests of this package.
pub(super) fn example(arguments: &[&str]) -> Command {
    let path = Path::new(env!("CARGO_BIN_EXE_fullcount")).with_file_name("examples");
    let path = path.join(format!("tof_spectrum{}", std::env::consts::EXE_SUFFIX));
    assert!(path.is_file(), "not built: `cargo build -p fullcount --examples`");
    let mut command = Command::new(path);
    command.args(arguments).stdin(Stdio::null());
    command
}

const BINS: usize = 40;
const WIDTH_NS: i64 = 100_000;
const FROM_NS: i64 = 1_000_000;

/// Events of the messages by time since their pulse: below, in the bins, above.
fn made_of<'a>(messages: impl Iterator<Item = &'a Vec<u8>>) -> (i64, Vec<i64>, i64) {
    let (mut below, mut counts, mut above) = (0, vec![0; BINS], 0);
    for message in messages {
        let Ok(Message::Ev44(Events44 { time_of_flight: Some(times), .. })) =
            fullcount_messages::decode(message)
        else {
            panic!("events with times")
        };
        for time in times.iter().map(|&t| i64::from(t)) {
            if time < FROM_NS {
                below += 1;
            } else if time >= FROM_NS + WIDTH_NS * BINS as i64 {
                above += 1;
            } else {
                counts[((time - FROM_NS) / WIDTH_NS) as usize] += 1;
            }
        }
    }
    (below, counts, above)
}

fn printed(summary: &Value) -> (i64, Vec<i64>, i64) {
    let counts = summary["counts"].as_array().expect("a list").iter();
    let counts: Vec<i64> = counts.map(|c| c.as_i64().expect("a number")).collect();
    (summary["below"].as_i64().unwrap(), counts, summary["above"].as_i64().unwrap())
}

/// Members of the group `tof-spectrum`, and what they are given.
struct Live<'a> {
    place: &'a Place,
    producer: BaseProducer,
    brokers: String,
}

impl Live<'_> {
    fn publish(&self, part: &[Vec<u8>]) {
        for (n, message) in (0..).zip(part) {
            let record = BaseRecord::<(), [u8]>::to("live").payload(message).partition(n % 2);
            self.producer.send(record).expect("queued");
        }
        self.producer.flush(PATIENCE).expect("confirmed");
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut all = vec!["--brokers", self.brokers.as_str(), "--events", "live", "--from", "1ms"];
        all.extend(["--width", "100us", "--bins", "40", "--every", "50ms", "--json"]);
        all.extend(more);
        example(&all)
    }

    fn member(&self, more: &[&str]) -> Service {
        Service::run(self.command(more))
    }

    fn sum(&self) -> Value {
        let output = self.command(&["--total", "--until-end"]).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        serde_json::from_str::<Value>(text.lines().last().expect("a line")).expect("JSON")
    }

    /// Both from before the first message to the end: what each has counted itself adds up as well.
    fn two_from_begin_to_end(&self, messages: &[Vec<u8>]) {
        let running = [self.member(&[]), self.member(&[])];
        wait_for_members(self.place, "tof-spectrum", 2);
        self.publish(messages);
        assert_eq!(printed(&self.sum()), made_of(messages.iter()));
        running.iter().for_each(Service::interrupt);
        let mut together = (0, vec![0; BINS], 0);
        for one in running {
            let said = one.end();
            assert_eq!(said.code, 0, "{}", said.err);
            let summary = said.summary();
            assert!(summary["messages"].as_u64() > Some(0), "each has a part: {summary}");
            assert_eq!((&summary["missing"], &summary["other_messages"]), (&0.into(), &0.into()));
            let (below, counts, above) = printed(&summary);
            together.0 += below;
            together.1.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
            together.2 += above;
        }
        assert_eq!(together, made_of(messages.iter()));
    }

    /// Two new ones go on from what is published. One dies with what it had not published, and its partition moves.
    /// (Its death is noticed within 3 s; a live one that is slow loses its place as well, and that must not matter.)
    fn two_of_which_one_dies(&self, before: &[Vec<u8>], after: &[Vec<u8>], all: &[Vec<u8>]) {
        let hasty =
            ["--kafka-set", "session.timeout.ms=3000", "--kafka-set", "heartbeat.interval.ms=300"];
        let mut running = [self.member(&hasty), self.member(&hasty)];
        wait_for_members(self.place, "tof-spectrum", 2);
        self.publish(before);
        running[0].child.kill();
        self.publish(after);
        let summary = self.sum();
        let want = made_of(all.iter());
        assert!(want.0 > 0 && want.1.iter().sum::<i64>() > 0 && want.2 > 0, "{want:?}");
        assert_eq!(printed(&summary), want);
        let [_, other] = running;
        other.interrupt();
        assert_eq!(other.end().code, 0);
    }

    /// A group that knows nothing of the other's offsets reads everything again, and counts only what is new.
    fn one_of_another_group(&self, messages: &[Vec<u8>]) -> (i64, Vec<i64>, i64) {
        let late = self.member(&["--group", "late"]);
        wait_for_members(self.place, "late", 1);
        self.publish(&messages[..2]);
        let want = made_of(messages.iter().chain(&messages[..2]));
        assert_eq!(printed(&self.sum()), want);
        late.interrupt();
        let said = late.end();
        let summary = said.summary();
        assert_eq!(summary["passed_over"], messages.len(), "{}", said.err);
        assert_eq!(printed(&summary), made_of(messages[..2].iter()));
        want
    }

    /// A member ends where everything is counted; other bins under the same name are refused.
    fn ends_and_refuses(&self) {
        let said = self.member(&["--group", "end", "--until-end"]);
        assert_eq!(said.end().code, 0);
        let mut command =
            example(&["--brokers", &self.brokers, "--events", "live", "--bins", "7", "--total"]);
        let said = command.output().expect("it starts");
        let words = String::from_utf8_lossy(&said.stderr);
        assert_eq!(
            (said.status.code(), words.contains("40 bins of 100000 ns")),
            (Some(1), true),
            "{words}"
        );
    }

    /// On the topic, as others read it: the sum under the name, each partition under its number. The file writer takes
    /// them as the document says it.
    fn as_others_read_it(&self, counts: &[i64]) {
        let document =
            fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scale.md"));
        let document = document.expect("the document");
        let module = document.split("```json\n").nth(1).and_then(|rest| rest.split("```").next());
        let module = module.expect("a module for the writer");
        let group = |name, class, child: &str| {
            format!(
                r#"{{"type": "group", "name": "{name}", "attributes": {{"NX_class": "{class}"}}, "children": [{child}]}}"#
            )
        };
        let entry = group("entry", "NXentry", &group("tof", "NXdata", module));
        let plan = structure::parse(
            &format!("{{\"children\": [{entry}]}}"),
            &structure::StructureLimits::default(),
        );
        assert_eq!(plan.expect("the writer takes it").topics(), ["d22_detector_tof"]);
        let module: Value = serde_json::from_str(module).expect("JSON");
        let variables = module["config"]["variables"].as_array().expect("a list");
        assert_eq!(variables.len(), 2);
        let mut sources = BTreeMap::new();
        self.place.each("live_tof", |message| {
            let Ok(Message::Da00(array)) = fullcount_messages::decode(message.payload()) else {
                panic!("no da00")
            };
            let named =
                |name: &str| array.data.iter().find(|v| v.name == name).expect("a variable");
            assert!(array.data.iter().all(|v| v.fits()));
            assert_eq!((array.data[0].name, array.data[0].unit), ("tof", Some("ns")));
            for variable in variables {
                let found = named(variable["name"].as_str().expect("a name"));
                assert_eq!(
                    (variable["data_type"].as_str(), found.data_type),
                    (Some("int64"), Int64)
                );
                let length = variable["shape"][0].as_i64().expect("one number");
                assert_eq!(&found.shape[..], [length - 200 + BINS as i64]);
            }
            let found = named("signal").data.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b));
            sources.insert(array.source_name.to_owned(), found.collect::<Vec<_>>());
        });
        let names: Vec<&str> = sources.keys().map(String::as_str).collect();
        assert_eq!(names, ["tof_spectrum", "tof_spectrum/0", "tof_spectrum/1"]);
        assert_eq!(sources["tof_spectrum"], counts);
    }
}

/// Two members of a group make one spectrum; one is killed half-way, and another one takes its place.
pub(super) fn a_group_of_two_makes_one_spectrum(place: &Place, events: &str) {
    let mut messages = vec![];
    place.each(events, |message| messages.push(message.payload().to_vec()));
    assert!(messages.len() >= 12, "{} messages", messages.len());
    place.topic("live", 2);
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", place.brokers()).create().expect("a producer");
    let live = Live { place, producer, brokers: place.brokers() };
    let thirds: Vec<&[Vec<u8>]> = messages.chunks(messages.len().div_ceil(3)).collect();
    live.two_from_begin_to_end(thirds[0]);
    live.two_of_which_one_dies(thirds[1], thirds[2], &messages);
    let want = live.one_of_another_group(&messages);
    live.ends_and_refuses();
    live.as_others_read_it(&want.1);
}
