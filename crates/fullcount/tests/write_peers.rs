//! The checks of the existing file writer's own tests, as scenarios for `fullcount write` with a real Kafka.
//!
//! The facts are those of `ess-dmsc/kafka-to-nexus` (`integration-tests`, `domain-tests`, and `system-tests` of earlier
//! versions); the scenarios are new. A control system in Python (`tests/python/peers`) that uses only
//! `streaming_data_types`, a Kafka client and h5py orders the runs, sends their data and reads the files. One broker
//! serves all: two writers of one file each share a pool (`control.py`, one scenario after the other), and a third has
//! a run for each scenario at once (`files.py`). Each scenario is a test here, which fails with its own message.
//! Intended differences are in `docs/write.md`, "Differences from the existing file writer".
//!
//! | what theirs check | scenario |
//! |---|---|
//! | idle status messages are sent | `an_idle_writer_says_so_again_and_again` |
//! | a blank file sends the correct messages; the start is echoed once, the end has its metadata | `a_run_says_what_it_should_in_order` |
//! | rejoins the pool after writing is done | `a_writer_leaves_the_pool_while_it_writes_and_comes_back` |
//! | start and stop in the same message | `start_and_stop_may_stand_in_one_message` |
//! | two writers write three files; the third waits in the pool, its stop comes first | `two_writers_write_three_files` |
//! | ignores a stop with an incorrect service or job id; accepts the correct and the empty one | `stops_with_another_service_or_job_id_are_no_stops` |
//! | ignores commands with an incorrect id | `a_start_for_another_service_is_no_start` |
//! | rejects bad JSON, values of another type than their dtype, an invalid job id, a folder or topic that is not there | `wrong_starts_are_refused_with_the_reason` |
//! | a file that exists is not overwritten | `a_file_that_is_there_is_not_written_again` |
//! | a new stop time replaces the one before | `a_stop_time_may_be_set_again` |
//! | what NICOS does with its writers: starts, checks, extends, stops and aborts | `ten_runs_two_at_once_are_checked_extended_stopped_and_aborted` |
//! | a stop immediately after the start, on a control topic of its own | `a_stop_right_behind_the_start_holds` |
//! | static data reach the file; it is closed and read-only | `static_data_reach_the_file` |
//! | links, relative and absolute, to datasets and groups | `links_lead_where_they_should` |
//! | links to streams | `links_to_streams_have_their_data` |
//! | large start messages (1 MiB, 16 MiB) | `a_large_start_is_taken` |
//! | mdat: start and end time as dates | `start_and_end_are_dates` |
//! | data written to the file are correct (ev44 and f144, live) | `events_of_live_data_are_all_there` |
//! | topics of several partitions | `messages_of_all_partitions_are_there` |
//! | data before and after: the last value before the start, the first behind the stop | `the_last_value_before_and_the_first_behind_are_written` |
//! | buffered: the value from before the start when nothing comes in between | `a_value_from_before_the_start_is_written_when_nothing_follows` |
//! | repeated messages are written once | `repeated_times_are_written_once` |
//! | f144 in full: extremes, units given and not given, al00, ep01 | `a_log_has_extremes_alarms_and_connections` |
//! | EPICS connection states | `connections_of_a_group_outside_the_entry_are_written` |
//! | start and stop time in the past (f142 with alarms, and an empty topic) | `old_logs_with_alarms_are_written_from_a_topic_of_the_past` |
//! | mass message handling: a short run within a long topic | `a_short_run_is_found_among_many_messages` |
//! | several modules and sources with one schema on one topic | `sources_of_one_topic_are_told_apart` |
//! | writer modules: f144, ep01, al00, ev44, ad00, tdct, da00 | `every_module_writes_what_it_should` |
//! | templates | `a_template_is_taken_by_the_name_of_the_instrument` |
//! | the end has the metadata of the start, and of the file | `the_end_counts_events_of_each_group` |
//!
//! Not here: the long run of hours (`cargo xtask prove`), arrays in f144 and f142 with extremes (theirs takes no arrays any
//! more), their module `f142_test`.
//!
//! Needs Java, the jars that `cargo xtask test` has fetched, and a Python with `tests/python/requirements.txt`; without
//! them it is skipped with a message, and fails with CI=true.

use crate::python;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use crate::broker::{BrokerCluster, jars};
use crate::service::Service;
use serde_json::{Value, json};

/// What went wrong in each scenario; `None`: nothing.
type Faults = BTreeMap<String, Option<String>>;

/// A writer and its name. It is killed at any end of the scenarios.
struct Writer {
    service: Service,
    id: String,
}

impl Writer {
    fn start(brokers: &str, folder: &Path, id: &str, more: &[&str]) -> Writer {
        let data = folder.join("data").display().to_string();
        let mut all = vec!["write", "--brokers", brokers, "--folder", &data, "--service-id", id];
        all.extend(["--control", "idle"]);
        all.extend(["--heartbeat", "300ms", "--flush", "100ms"]);
        all.extend(["--kafka-set", "session.timeout.ms=3000"]);
        all.extend(["--kafka-set", "heartbeat.interval.ms=100"]);
        all.extend(more);
        Writer { service: Service::start(&all), id: id.to_owned() }
    }

    /// As Ctrl-C, and waits for the end; returns its output.
    fn end(self) -> Result<String, String> {
        self.service.interrupt();
        let said = self.service.end();
        let ended = format!("writer {}: exit code {}\n{}", self.id, said.code, said.err);
        if said.code == 0 { Ok(ended) } else { Err(ended) }
    }
}

/// Runs a script of the scenarios; returns its output.
fn run(python: &Path, script: &str, arguments: &[&str]) -> Result<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python/peers");
    let done = Command::new(python).arg("-B").arg(folder.join(script)).args(arguments).output();
    let done = done.map_err(|error| format!("{script}: {error}"))?;
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    println!("{script}:\n{err}");
    if done.status.success() { Ok(out.into()) } else { Err(format!("{script}: {out}\n{err}")) }
}

fn template() -> Value {
    let stream =
        json!({"module": "f144", "config": {"topic": "old_choppers", "source": "chop:delay"}});
    let log = json!({"type": "group", "name": "delay", "children": [stream]});
    json!({"children": [{"type": "group", "name": "entry", "attributes": {"NX_class": "NXentry"}, "children": [log]}]})
}

/// Runs all scenarios.
fn all(jars: &Path, python: &Path) -> Result<Faults, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = BrokerCluster::start(jars, folder.path(), 1, None)?;
    both(&cluster.bootstrap(), folder.path(), python)
}

fn both(brokers: &str, folder: &Path, python: &Path) -> Result<Faults, String> {
    let (data, templates) = (folder.join("data"), folder.join("templates"));
    for made in [&data, &templates] {
        std::fs::create_dir(made).unwrap();
    }
    std::fs::write(templates.join("chopper_test.json"), template().to_string()).unwrap();
    let data = data.display().to_string();
    run(python, "facility.py", &[brokers])?;
    let one = ["--jobs", "1", "--leeway", "400ms", "--pool", "pool"];
    let mut writers: Vec<Writer> =
        ["w1", "w2"].into_iter().map(|id| Writer::start(brokers, folder, id, &one)).collect();
    let templates = templates.display().to_string();
    let many = ["--jobs", "64", "--leeway", "1s", "--pool", "pool2", "--read-only"];
    let many = [&many[..], &["--templates", &templates]].concat();
    writers.push(Writer::start(brokers, folder, "w3", &many));
    let arguments = [brokers, &data];
    let (control, files) = std::thread::scope(|scope| {
        let files = scope.spawn(|| run(python, "files.py", &arguments));
        (run(python, "control.py", &arguments), files.join().expect("does not panic"))
    });
    for writer in writers {
        println!("{}", writer.end()?);
    }
    let mut faults = Faults::new();
    for printed in [control?, files?] {
        let read: Faults = serde_json::from_str(&printed).map_err(|e| format!("{e}: {printed}"))?;
        faults.extend(read);
    }
    Ok(faults)
}

/// The scenarios are run once, by the test that asks first. `None` where something is not there to run them with.
fn faults() -> Option<&'static Faults> {
    static FAULTS: OnceLock<Result<Faults, String>> = OnceLock::new();
    let (jars, python) = (jars()?, python::interpreter()?);
    let faults = FAULTS.get_or_init(|| all(&jars, &python));
    Some(faults.as_ref().unwrap_or_else(|error| panic!("{error}")))
}

macro_rules! scenarios {
    ($($name:ident)+) => {
        const NAMES: &[&str] = &[$(stringify!($name)),+];
        $(
            #[test]
            fn $name() {
                let Some(faults) = faults() else { return };
                let fault = faults.get(stringify!($name)).expect("the script has it");
                assert_eq!(fault.as_deref(), None, "{}", stringify!($name));
            }
        )+
    };
}

scenarios! {
    an_idle_writer_says_so_again_and_again
    a_run_says_what_it_should_in_order
    a_writer_leaves_the_pool_while_it_writes_and_comes_back
    start_and_stop_may_stand_in_one_message
    two_writers_write_three_files
    stops_with_another_service_or_job_id_are_no_stops
    a_start_for_another_service_is_no_start
    wrong_starts_are_refused_with_the_reason
    a_file_that_is_there_is_not_written_again
    a_stop_time_may_be_set_again
    ten_runs_two_at_once_are_checked_extended_stopped_and_aborted
    a_stop_right_behind_the_start_holds
    static_data_reach_the_file
    links_lead_where_they_should
    links_to_streams_have_their_data
    a_large_start_is_taken
    start_and_end_are_dates
    events_of_live_data_are_all_there
    messages_of_all_partitions_are_there
    the_last_value_before_and_the_first_behind_are_written
    a_value_from_before_the_start_is_written_when_nothing_follows
    repeated_times_are_written_once
    a_log_has_extremes_alarms_and_connections
    connections_of_a_group_outside_the_entry_are_written
    old_logs_with_alarms_are_written_from_a_topic_of_the_past
    a_short_run_is_found_among_many_messages
    sources_of_one_topic_are_told_apart
    every_module_writes_what_it_should
    a_template_is_taken_by_the_name_of_the_instrument
    the_end_counts_events_of_each_group
}

#[test]
fn every_scenario_of_the_scripts_has_a_test() {
    let Some(faults) = faults() else { return };
    let mut names: Vec<&str> = NAMES.to_vec();
    names.sort_unstable();
    assert_eq!(faults.keys().collect::<Vec<_>>(), names);
}
