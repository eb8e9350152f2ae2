//! `cargo xtask test`: every check and every test, each step timed, none hiding the next; `--deep`: what needs compilers
//! and hours of its own.
//!
//! Refuses an unknown step with the list (exit 2). A step that fails does not stop the others; the
//! last line of the output is `N passed, N failed, N skipped` alone, and the exit code is 1 if
//! anything failed. With `--add` it is the sum with that of the whole run before it.
//!
//! Source: docs/testing.md.

mod arrows;
mod bare;
mod beside;
mod binaries;
mod cost;
mod counts;
mod crew;
mod house;
mod linted;
mod nightly;
mod part;
mod pieces;
mod portable;
mod rust;
mod steps;
mod trace;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use beside::BesideSteps;
use steps::{BESIDE_DEEP, BESIDE_TESTS, STEPS, Step, When};

use crate::command::{Job, spoken, timed};
use crate::place;
use crate::room;
use crate::setup::{self, Missing, Need};
use crate::tally::Tally;

/// Most that the target directory of a whole run from empty takes, MB: docs/testing.md.
const ROOM_MB: u64 = 10_000;

/// Its row in the summary: what is fetched, if anything is.
const SET_UP: &str = "set-up";

/// Without these two there is no Kafka to test against.
const KAFKA: [Need; 2] = [setup::JAVA, setup::MAVEN];

/// What set-up found on this host.
pub struct Host {
    missing: Option<Missing>,
    python: Option<PathBuf>,
    browser: Option<PathBuf>,
    /// axe-core's file.
    axe: Option<PathBuf>,
    /// Folder with Grafana's schema and TypeScript's compiler.
    grafana: Option<PathBuf>,
    /// Jars of Apache Kafka.
    kafka: Option<PathBuf>,
    /// What the parts of a step cost.
    notes: cost::Notes,
    /// Steps that run beside others.
    beside: BesideSteps,
    /// What clippy said in the build of the tests, until its step tells it.
    lints: Mutex<Option<linted::Lints>>,
}

impl Host {
    /// Gives a job what the tests look for in their environment: the interpreter of the private
    /// environment, the browser, axe-core, Grafana's schema and Kafka's jars, each only if it is there.
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
        if let Some(modules) = &self.grafana {
            job = job.env("FULLCOUNT_GRAFANA_MODULES", modules);
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

/// What was asked for.
struct Wish<'a> {
    names: Vec<&'a str>,
    quick: bool,
    deep: bool,
    /// The counts of the whole run before are added to the last line.
    add: bool,
    /// The table in docs/testing.md is written; alone, nothing else is done.
    table: bool,
}

impl Wish<'_> {
    fn read(arguments: &[String]) -> Result<Wish<'_>, String> {
        let mut wish =
            Wish { names: Vec::new(), quick: false, deep: false, add: false, table: false };
        for argument in arguments {
            match argument.as_str() {
                "--quick" => wish.quick = true,
                "--deep" => wish.deep = true,
                "--add" => wish.add = true,
                "--table" => wish.table = true,
                name if STEPS.iter().any(|step| step.name == name) => wish.names.push(name),
                other => {
                    return Err(format!("there is no step `{other}`; these exist:\n{}", list()));
                }
            }
        }
        if wish.quick && wish.deep {
            return Err("--quick and --deep: one of the two".to_owned());
        }
        Ok(wish)
    }

    /// Everything that runs without names, or its deep half.
    fn is_whole(&self) -> bool {
        self.names.is_empty() && !self.quick
    }

    fn takes(&self, step: &Step) -> bool {
        match (self.names.is_empty(), step.when) {
            (false, _) => self.names.contains(&step.name),
            (true, When::Quick) => !self.deep,
            (true, When::Usual) => !self.deep && !self.quick,
            (true, When::Deep) => self.deep,
            (true, When::Named) => false,
        }
    }
}

/// Runs the steps asked for, all but the deep ones by default.
pub fn run(arguments: &[String]) -> ExitCode {
    let wish = match Wish::read(arguments) {
        Ok(wish) => wish,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    if wish.table && arguments.len() == 1 {
        return write_table();
    }
    let chosen: Vec<&'static Step> = STEPS.iter().filter(|step| wish.takes(step)).collect();
    let before = wish.add.then(counts::take);
    if wish.is_whole() && !wish.deep {
        // What is left of an earlier run must not be taken for this one's, should it not come to its end.
        counts::forget();
    }
    let (outcomes, total) = timed(|| run_steps(&wish, &chosen));
    let mut all = summary(outcomes, total);
    if wish.is_whole() && !wish.deep {
        counts::leave(&all);
    }
    if let Some(before) = before {
        heading("the run before");
        before.tell_failures();
        println!("before: {}", before.line());
        all += before;
    }
    let table = if wish.table { write_table() } else { ExitCode::SUCCESS };
    println!("{}", all.line());
    if all.failed.is_empty() { table } else { ExitCode::FAILURE }
}

fn write_table() -> ExitCode {
    let steps: Vec<&str> = [SET_UP].into_iter().chain(STEPS.iter().map(|step| step.name)).collect();
    match cost::write_table(&steps) {
        Ok(page) => {
            println!("written: {}", page.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A step that has been made.
struct Outcome {
    tally: Tally,
    step: cost::Step,
}

/// What of a run is made beside others, and what in its turn; the former are told last.
fn shared_out(
    wish: &Wish<'_>,
    chosen: &[&'static Step],
) -> (Vec<&'static Step>, Vec<&'static Step>) {
    let beside: &[&str] = match (wish.is_whole(), wish.deep) {
        (true, true) => &BESIDE_DEEP,
        (true, false) => &BESIDE_TESTS,
        (false, _) => &[],
    };
    chosen.iter().partition(|step| beside.contains(&step.name))
}

fn run_steps(wish: &Wish<'_>, chosen: &[&'static Step]) -> Vec<Outcome> {
    if wish.is_whole() {
        room::warn(ROOM_MB);
    }
    // Quick uses what is there; it does not go and fetch a browser.
    let (mut host, cost) = cost::measured(|| set_up(chosen, !wish.quick));
    let (beside, in_turn) = shared_out(wish, chosen);
    host.beside = BesideSteps::new(beside.clone());
    println!("-- {SET_UP}: {}", spoken(cost.wall));
    // A run of a step alone finds what it needs; its set-up says nothing about that of an empty host.
    let kept = wish.is_whole() && !wish.deep;
    let set_up = Outcome {
        tally: Tally::default(),
        step: cost::Step {
            line: cost::Line { name: SET_UP.to_owned(), cost },
            parts: Vec::new(),
            pieces: Vec::new(),
        },
    };
    let run = |step: &&'static Step| {
        heading(&format!("{}: {}", step.name, step.about));
        let work = || host.beside.take(step.name).unwrap_or_else(|| run_step(step, &host));
        let (tally, cost) = cost::measured(|| work().judged(place::in_ci()));
        println!("-- {}: {} ({})", step.name, tally.line(), spoken(cost.wall));
        // What failed may have left what shows why: fuzzing's inputs lie there.
        if tally.failed.is_empty() {
            room::leave(step.leaves);
        }
        let (parts, pieces) = host.notes.take();
        let line = cost::Line { name: step.name.to_owned(), cost };
        Outcome { tally, step: cost::Step { line, parts, pieces } }
    };
    let mut outcomes = vec![set_up];
    std::thread::scope(|scope| {
        // The tests start those beside them once they are built: until then both would wait for cargo's lock.
        let deep = wish.deep.then(|| scope.spawn(|| host.beside.run(&host)));
        outcomes.extend(in_turn.iter().map(run));
        // One that panicked has left no result: its step has its turn then.
        drop(deep.map(std::thread::ScopedJoinHandle::join));
        outcomes.extend(beside.iter().map(run));
    });
    cost::keep(outcomes.iter().skip(usize::from(!kept)).map(|outcome| &outcome.step));
    outcomes
}

/// Prints what each step came to and cost, and what failed or was skipped.
fn summary(outcomes: Vec<Outcome>, total: Duration) -> Tally {
    heading("summary");
    let mut all = Tally::default();
    let row = |name: &str, counts: &str, cost: cost::Cost| {
        let (wall, processor) = (spoken(cost.wall), spoken(cost.processor));
        println!("{name:9} {counts:40} {wall:>12}, of the processors {processor:>12}");
    };
    for Outcome { tally, step } in outcomes {
        let counts = if step.line.name == SET_UP { String::new() } else { tally.line() };
        row(&step.line.name, &counts, step.line.cost);
        step.parts.iter().for_each(|part| row(&format!("  {}", part.name), "", part.cost));
        all += tally;
    }
    println!("{:9} {:40} {:>12}\n", "total", "", spoken(total));
    all.tell_failures();
    all
}

fn set_up(chosen: &[&'static Step], fetch_wants: bool) -> Host {
    heading(SET_UP);
    if fetch_wants {
        fetch_crates(chosen);
    }
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
    let has_npm = needs.contains(&setup::NPM) && setup::program(setup::NPM).is_some();
    let [axe, grafana] = [crate::npm::AXE, crate::npm::GRAFANA].map(|wanted| {
        if !has_npm {
            return wanted.fetched();
        }
        let fetched = wanted.fetch();
        fetched.inspect_err(|error| println!("no {}: {error}", wanted.name)).ok()
    });
    Host {
        missing,
        python,
        browser: setup::program(setup::BROWSER),
        axe,
        grafana,
        kafka,
        notes: cost::Notes::default(),
        beside: BesideSteps::default(),
        lints: Mutex::default(),
    }
}

/// Brings the sources of the dependencies, so that no step's time is that of a network. What cannot be fetched the build
/// will name.
fn fetch_crates(chosen: &[&'static Step]) {
    let fetch = |manifest: &str| {
        let triple = place::host_triple().unwrap_or_default();
        let job = Job::cargo(&["fetch", "--quiet", "--manifest-path", manifest]);
        job.args(["--target", &triple]).limit(Duration::from_secs(900)).run()
    };
    if chosen.iter().any(|step| step.name != "fmt") {
        fetch("Cargo.toml");
    }
    if chosen.iter().any(|step| step.name == "fuzz") {
        fetch("fuzz/Cargo.toml");
    }
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

fn heading(text: &str) {
    println!("\n==== {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(arguments: &[&str]) -> Result<Vec<&'static str>, String> {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        let wish = Wish::read(&arguments)?;
        Ok(STEPS.iter().filter(|step| wish.takes(step)).map(|step| step.name).collect())
    }

    #[test]
    fn steps_beside_others_are_those_of_whole_runs() {
        let beside = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
            let wish = Wish::read(&arguments).unwrap();
            let chosen: Vec<_> = STEPS.iter().filter(|step| wish.takes(step)).collect();
            let (beside, in_turn) = shared_out(&wish, &chosen);
            assert_eq!(beside.len() + in_turn.len(), chosen.len());
            beside.iter().map(|step| step.name).collect::<Vec<_>>()
        };
        assert_eq!(beside(&[]), BESIDE_TESTS);
        assert_eq!(beside(&["--deep"]), BESIDE_DEEP);
        assert!(beside(&["--quick"]).is_empty() && beside(&["trace", "test"]).is_empty());
    }

    #[test]
    fn every_step_is_of_one_run_or_has_a_name_only() {
        assert_eq!(steps(&["--quick"]).unwrap(), ["fmt", "arrows", "house", "test", "clippy"]);
        assert_eq!(
            steps(&[]).unwrap(),
            ["fmt", "arrows", "house", "test", "clippy", "trace", "deny"]
        );
        let deep = ["wasm", "portable", "bare", "asan", "fuzz", "faults", "miri"];
        assert_eq!(steps(&["--deep", "--add"]).unwrap(), deep);
        assert_eq!(steps(&["miri", "fmt"]).unwrap(), ["fmt", "miri"]);
        assert!(steps(&["--deep", "--quick"]).is_err());
        assert!(steps(&["flour"]).is_err_and(|said| said.contains("kafka-tls")));
    }
}
