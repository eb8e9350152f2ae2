//! `cargo xtask test`: every check and every test, each step timed, none hiding the next.
//!
//! Refuses an unknown step with the list (exit 2). A step that fails does not stop the others; the
//! last line of the output is `N passed, N failed, N skipped` alone, and the exit code is 1 if
//! anything failed.
//!
//! Source: docs/testing.md.

mod nightly;
mod part;
mod portable;
mod rust;

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use crate::command::{Job, spoken, timed};
use crate::place;
use crate::room;
use crate::setup::{self, Missing, Need};
use crate::tally::Tally;

/// When a step runs without being named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// With `--quick` as well.
    Quick,
    /// In a full run only.
    Full,
    /// Never: its tests are part of `test`.
    Named,
}

/// One step: what it is called, what it does, what the host must have for it.
struct Step {
    name: &'static str,
    about: &'static str,
    when: When,
    /// Without these the step cannot run.
    needs: &'static [Need],
    /// Without these some of its tests skip themselves.
    wants: &'static [Need],
    /// Folders of the target directory that no later step uses.
    leaves: &'static [&'static str],
    run: fn(&Host) -> Tally,
}

/// Most that the target directory of a whole run from empty takes, MB: docs/testing.md.
const ROOM_MB: u64 = 10_000;

/// In the order of running: what fails fastest and most often comes first.
const STEPS: [Step; 14] = [
    step("fmt", "formatting", When::Quick, &[], rust::format),
    step(
        "clippy",
        "clippy over all targets; a warning is an error",
        When::Quick,
        NATIVE,
        rust::clippy,
    ),
    Step {
        wants: &[
            setup::PYTHON,
            setup::BROWSER,
            setup::NPM,
            setup::NAMESPACES,
            setup::IPERF3,
            setup::JAVA,
            setup::MAVEN,
        ],
        ..step("test", "all Rust tests", When::Quick, NATIVE, rust::test)
    },
    step(
        "python",
        "part of `test`: our files in h5py, scippnexus and pandas",
        When::Named,
        &[setup::C_COMPILER, setup::CPP_COMPILER, setup::CMAKE, setup::MAKE, setup::PYTHON],
        part::python,
    ),
    step(
        "browser",
        "part of `test`: the live page in Chromium",
        When::Named,
        &[
            setup::C_COMPILER,
            setup::CPP_COMPILER,
            setup::CMAKE,
            setup::MAKE,
            setup::BROWSER,
            setup::NPM,
        ],
        part::browser,
    ),
    step(
        "counters",
        "part of `test`: docs/counters.md equals the catalogue of the binary",
        When::Named,
        NATIVE,
        part::counters,
    ),
    step(
        "kafka",
        "part of `test`: the service against a real Kafka",
        When::Named,
        &[
            setup::C_COMPILER,
            setup::CPP_COMPILER,
            setup::CMAKE,
            setup::MAKE,
            setup::PYTHON,
            setup::JAVA,
            setup::MAVEN,
        ],
        part::kafka,
    ),
    step(
        "kafka-tls",
        "a real Kafka behind TLS; not in `test`, for it compiles OpenSSL and librdkafka anew",
        When::Named,
        &[
            setup::C_COMPILER,
            setup::CPP_COMPILER,
            setup::CMAKE,
            setup::MAKE,
            setup::PERL,
            setup::JAVA,
            setup::MAVEN,
        ],
        part::kafka_tls,
    ),
    Step {
        leaves: &["wasm"],
        ..step(
            "wasm",
            "core for wasm32: builds, and imports nothing",
            When::Full,
            &[],
            portable::wasm,
        )
    },
    Step {
        leaves: &portable::ELSEWHERE,
        ..step(
            "portable",
            "core, io, detect, out without C for aarch64 Linux and macOS",
            When::Full,
            &[],
            portable::check,
        )
    },
    step("deny", "licences, bans and sources of the dependencies", When::Full, &[], rust::deny),
    Step { leaves: &["miri"], ..step("miri", "core under Miri", When::Full, &[], nightly::miri) },
    Step {
        leaves: &["asan"],
        ..step(
            "asan",
            "io, with its system calls, under AddressSanitizer",
            When::Full,
            &[setup::C_COMPILER],
            nightly::asan,
        )
    },
    Step {
        leaves: &["fuzz"],
        ..step(
            "fuzz",
            "fuzz targets: seeds replayed, then a short run",
            When::Full,
            &[setup::C_COMPILER, setup::CPP_COMPILER],
            nightly::fuzz,
        )
    },
];

const fn step(
    name: &'static str,
    about: &'static str,
    when: When,
    needs: &'static [Need],
    run: fn(&Host) -> Tally,
) -> Step {
    Step { name, about, when, needs, wants: &[], leaves: &[], run }
}

/// HDF5 and librdkafka are in the default features of the binary and compile from source.
const NATIVE: &[Need] = &[setup::C_COMPILER, setup::CPP_COMPILER, setup::CMAKE, setup::MAKE];
/// Without these two there is no Kafka to test against.
const KAFKA: [Need; 2] = [setup::JAVA, setup::MAVEN];

/// What set-up found on this host.
pub struct Host {
    missing: Option<Missing>,
    python: Option<PathBuf>,
    browser: Option<PathBuf>,
    /// axe-core's file.
    axe: Option<PathBuf>,
    /// Jars of Apache Kafka.
    kafka: Option<PathBuf>,
}

impl Host {
    /// Gives a job what the tests look for in their environment: the interpreter of the private
    /// environment, the browser, axe-core and Kafka's jars, each only if it is there.
    fn tell(&self, mut job: Job) -> Job {
        if let Some(python) = &self.python {
            job = job.env("FULLCOUNT_PYTHON", python);
        }
        if let Some(browser) = &self.browser {
            job = job.env("FULLCOUNT_BROWSER", browser);
        }
        if let Some(axe) = &self.axe {
            job = job.env("FULLCOUNT_AXE", axe);
        }
        if let Some(jars) = &self.kafka {
            job = job.env("FULLCOUNT_KAFKA_JARS", jars);
        }
        job
    }
}

/// One line per step, for the help.
pub fn list() -> String {
    STEPS.iter().map(|step| format!("  {:9} {}\n", step.name, step.about)).collect()
}

/// Runs the steps asked for, all of them by default.
pub fn run(arguments: &[String]) -> ExitCode {
    let mut quick = false;
    let mut names = Vec::new();
    for argument in arguments {
        match argument.as_str() {
            "--quick" => quick = true,
            name if STEPS.iter().any(|step| step.name == name) => names.push(name),
            other => {
                eprintln!("error: there is no step `{other}`; these exist:\n{}", list());
                return ExitCode::from(2);
            }
        }
    }
    let chosen: Vec<&Step> = STEPS
        .iter()
        .filter(|step| match (names.is_empty(), step.when) {
            (false, _) => names.contains(&step.name),
            (true, When::Quick) => true,
            (true, When::Full) => !quick,
            (true, When::Named) => false,
        })
        .collect();

    let (outcomes, total) = timed(|| {
        if names.is_empty() && !quick {
            room::warn(ROOM_MB);
        }
        // Quick uses what is there; it does not go and fetch a browser.
        let host = set_up(&chosen, !quick);
        let has = |name: &str| chosen.iter().any(|step| step.name == name);
        // Tests wait for brokers and browsers half of the time, and Miri needs one processor for minutes: it takes what they leave.
        let mut beside = (has("test") && has("miri")).then(|| thread::spawn(nightly::miri_beside));
        let run = |step: &&Step| {
            heading(&format!("{}: {}", step.name, step.about));
            let other = if step.name == "miri" { beside.take() } else { None };
            let work = || match other {
                Some(beside) => shown(beside),
                None => run_step(step, &host),
            };
            let (tally, took) = timed(|| work().judged(place::in_ci()));
            println!("-- {}: {} ({})", step.name, tally.line(), spoken(took));
            // What failed may have left what shows why: fuzzing's inputs lie there.
            if tally.failed.is_empty() {
                room::leave(step.leaves);
            }
            (step.name, tally, took)
        };
        chosen.iter().map(run).collect::<Vec<_>>()
    });

    heading("summary");
    let mut all = Tally::default();
    for (name, tally, took) in outcomes {
        println!("{name:9} {:40} {:>12}", tally.line(), spoken(took));
        all += tally;
    }
    println!("{:9} {:40} {:>12}\n", "total", "", spoken(total));
    for reason in all.missing.iter().chain(&all.unavailable) {
        println!("skipped: {reason}");
    }
    for said in &all.said {
        println!("{} said:", said.test);
        said.lines.iter().for_each(|line| println!("    {line}"));
    }
    for name in &all.failed {
        println!("failed: {name}");
    }
    println!("{}", all.line());
    if all.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn set_up(chosen: &[&Step], fetch_wants: bool) -> Host {
    heading("set-up");
    let mut needs: Vec<Need> = Vec::new();
    for step in chosen {
        let wants = step.wants.iter().filter(|_| fetch_wants);
        for need in step.needs.iter().chain(wants) {
            if !needs.contains(need) {
                needs.push(*need);
            }
        }
    }
    let missing = setup::ensure(&needs).err();
    if let Some(missing) = &missing {
        println!("{missing}");
    }
    let mut python = None;
    if needs.contains(&setup::PYTHON) && setup::python_requirements().is_file() {
        match setup::python_environment() {
            Ok(interpreter) => python = Some(interpreter),
            Err(error) => println!("no Python environment: {error}"),
        }
    }
    let mut kafka = None;
    // A quick run fetches nothing, but uses what an earlier run fetched.
    let wanted = KAFKA.iter().all(|need| needs.contains(need)) || fetched();
    if wanted && KAFKA.iter().all(|need| setup::program(*need).is_some()) {
        match crate::kafka::jars() {
            Ok(jars) => kafka = Some(jars),
            Err(error) => println!("no Kafka: {error}"),
        }
    }
    // As with Kafka: a quick run fetches nothing.
    let mut axe = crate::axe::fetched();
    if needs.contains(&setup::NPM) && setup::program(setup::NPM).is_some() {
        match crate::axe::fetch() {
            Ok(file) => axe = Some(file),
            Err(error) => println!("no axe-core: {error}"),
        }
    }
    Host { missing, python, browser: setup::program(setup::BROWSER), axe, kafka }
}

/// Whether Kafka's jars are there already.
fn fetched() -> bool {
    place::target().join("kafka/fetched.xml").is_file()
}

fn run_step(step: &Step, host: &Host) -> Tally {
    if let Some(missing) = &host.missing
        && let Some(need) = step.needs.iter().find(|need| missing.lacks(**need))
    {
        return Tally::missing(format!("step {} needs {}: {missing}", step.name, need.name));
    }
    (step.run)(host)
}

/// What ran beside other steps: its lines come now.
fn shown(beside: thread::JoinHandle<(Tally, Vec<String>)>) -> Tally {
    match beside.join() {
        Ok((tally, lines)) => {
            println!("(ran beside the other steps)");
            lines.iter().for_each(|line| println!("{line}"));
            tally
        }
        Err(_) => Tally::fail("the step beside the others panicked"),
    }
}

fn heading(text: &str) {
    println!("\n==== {text}");
}
