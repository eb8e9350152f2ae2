//! The commands of a run: what the event formation unit answers, and what tells more.
//!
//! Source: `control-and-monitoring.md` section 3.3; `docs/operations.md`.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fullcount_core::command::{Answer, BadArguments, Command, Commands, NotDone, number};
use fullcount_core::status::{ModuleFacts, StatusSource};

use super::activity::Mask;
use super::current::CurrentConfig;
use super::reset::ResetBase;
use super::version;
use crate::stop::Stop;

/// Counters are read at most so often: a script that asks for each by itself costs no more than one that asks for all.
const FRESH: Duration = Duration::from_millis(5);

type Values = Arc<Vec<(String, i64)>>;

/// What commands look at.
pub struct Context {
    /// The run, with its names.
    pub run: Arc<dyn StatusSource>,
    /// How it is ended.
    pub stop: Stop,
    /// Name of the detector.
    pub detector: String,
    /// The configuration without secrets.
    pub configuration: CurrentConfig,
    /// What grew in the last second.
    pub mask: Arc<Mask>,
}

/// What time it is: tests move it by hand.
type Clock = Box<dyn Fn() -> Instant + Send + Sync>;

/// Counters as they were a moment ago.
struct Fresh {
    run: Arc<dyn StatusSource>,
    clock: Clock,
    last: Mutex<Option<(Instant, Values)>>,
    base: Mutex<ResetBase>,
}

impl Fresh {
    fn values(&self) -> Values {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (self.clock)();
        match last.as_ref().filter(|(at, _)| now - *at < FRESH) {
            Some((_, values)) => values.clone(),
            None => {
                let values = Arc::new(self.shown());
                *last = Some((now, values.clone()));
                values
            }
        }
    }

    fn base(&self) -> MutexGuard<'_, ResetBase> {
        self.base.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shown(&self) -> Vec<(String, i64)> {
        let mut values = self.run.published();
        let base = self.base();
        if !base.is_empty() {
            values.iter_mut().for_each(|(name, value)| *value = base.shown(name, *value));
        }
        values
    }

    fn reset(&self) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        self.base().reset(&*self.run);
        *last = None;
    }
}

/// Adds them to those about commands themselves.
pub fn register(all: &mut Commands, context: Context) {
    register_by(all, context, Box::new(Instant::now));
}

fn register_by(all: &mut Commands, context: Context, clock: Clock) {
    let Context { run, stop, detector, configuration, mask } = context;
    let (last, base) = (Mutex::default(), Mutex::default());
    let fresh = Arc::new(Fresh { run: run.clone(), clock, last, base });
    counters(all, &fresh);
    about_the_run(all, &run, (detector, configuration), mask);
    calibration(all);
    modules(all, &run);
    let exit = move |_: &[&str]| {
        stop.request();
        Ok(Answer::Goodbye)
    };
    all.register(Command::change("EXIT", ("", "ends the run as Ctrl-C does"), 0..=0, exit));
}

fn counters(all: &mut Commands, fresh: &Arc<Fresh>) {
    let of = fresh.clone();
    let count = move |_: &[&str]| Ok(Answer::Values(of.values().len().to_string()));
    let about = ("", "how many counters there are");
    all.register(Command::read("STAT_GET_COUNT", about, 0..=0, count));
    let of = fresh.clone();
    let nth = move |arguments: &[&str]| {
        let place = number(arguments.first().ok_or(BadArguments)?)?;
        let values = of.values();
        let at = usize::try_from(place).ok().and_then(|place| place.checked_sub(1));
        Ok(Answer::Values(match at.and_then(|at| values.get(at)) {
            Some((name, value)) => format!("{}{name} {value}", of.run.prefix()),
            // An empty name, as scripts know it.
            None => " -1".to_owned(),
        }))
    };
    let about = ("I", "name and value of a counter, by its place from 1");
    all.register(Command::read("STAT_GET", about, 1..=1, nth));
    let of = fresh.clone();
    let named = move |arguments: &[&str]| {
        let name = *arguments.first().ok_or(BadArguments)?;
        let values = of.values();
        let value = values.iter().find(|(known, _)| known == name).map_or(-1, |(_, value)| *value);
        Ok(Answer::Values(format!("{name} {value}")))
    };
    let about = ("NAME", "value of a counter, its name without the prefix; -1: there is none");
    all.register(Command::read("STAT_GET_NAME", about, 1..=1, named));
    let of = fresh.clone();
    let reset = move |_: &[&str]| {
        of.reset();
        Ok(Answer::Done)
    };
    let about = ("", "counters of STAT_GET begin at 0 again; the ledger and the exit code do not");
    all.register(Command::change("STAT_RESET", about, 0..=0, reset));
}

fn about_the_run(
    all: &mut Commands,
    run: &Arc<dyn StatusSource>,
    (detector, configuration): (String, CurrentConfig),
    mask: Arc<Mask>,
) {
    let words = version::words();
    let version = move |_: &[&str]| Ok(Answer::Values(words.clone()));
    let about = ("", "version, date and time of the program's file, host and user, kernel, commit");
    all.register(Command::read("VERSION_GET", about, 0..=0, version));
    let name = move |_: &[&str]| Ok(Answer::Values(detector.clone()));
    all.register(Command::read("DETECTOR_INFO_GET", ("", "name of the detector"), 0..=0, name));
    let bits = move |_: &[&str]| Ok(Answer::Values(mask.get().to_string()));
    let about = ("", "what came in the last second: 1 packets + 2 events + 4 output");
    all.register(Command::read("RUNTIMESTATS", about, 0..=0, bits));
    let of = run.clone();
    let ledger = move |_: &[&str]| {
        let entries = of.entries();
        let each = entries.iter().map(|e| (e.info.name.to_string(), e.value.into()));
        let counters: serde_json::Map<String, serde_json::Value> = each.collect();
        let balance = entries.balance();
        let all = serde_json::json!({"balance": balance, "counters": counters});
        Ok(Answer::Values(all.to_string()))
    };
    let about = ("", "all counters of the catalogue with their values, and the balance, as JSON");
    all.register(Command::read("LEDGER_GET", about, 0..=0, ledger));
    let config = move |arguments: &[&str]| {
        let shown = match arguments.first() {
            Some(key) => configuration
                .get(key)
                .ok_or_else(|| NotDone::Refused(format!("there is no key {key}")))?,
            None => configuration.all(),
        };
        Ok(Answer::Values(shown.to_string()))
    };
    let about = ("[KEY]", "the configuration, or the value of one key, as JSON; without secrets");
    all.register(Command::read("CONFIG_GET", about, 0..=1, config));
}

fn modules(all: &mut Commands, run: &Arc<dyn StatusSource>) {
    let of = run.clone();
    let listed = move |_: &[&str]| {
        let facts = of.facts();
        let one = |m: &ModuleFacts| serde_json::json!({"name": m.name, "packets": m.packets, "lost": m.lost, "age_ms": m.age_ms, "silent": m.silent});
        let modules: Vec<_> = facts.modules.iter().map(one).collect();
        let silent = facts.modules.iter().filter(|m| m.silent).map(|m| m.name.as_str());
        let silent: Vec<_> = silent.collect();
        let all = serde_json::json!({"modules": modules, "silent": silent, "hidden": facts.modules_hidden});
        Ok(Answer::Values(all.to_string()))
    };
    let about =
        ("", "packets, losses and age of each module or stream, and which are silent, as JSON");
    all.register(Command::read("MODULES_GET", about, 0..=0, listed));
}

/// The mode is kept for scripts that set and ask it: nothing here makes events otherwise for it.
fn calibration(all: &mut Commands) {
    let mode = Arc::new(AtomicBool::new(false));
    let set = mode.clone();
    let change = move |arguments: &[&str]| {
        let on = match arguments {
            ["0"] => false,
            ["1"] => true,
            _ => return Err(NotDone::Arguments),
        };
        if !set.swap(on, Relaxed) && on {
            fullcount_log::warning!("calibration mode is on; events are made as before");
        }
        Ok(Answer::Done)
    };
    let about = ("0|1", "keeps a mode for scripts; events are made as before");
    all.register(Command::change("CALIB_MODE_SET", about, 1..=1, change));
    let get = move |_: &[&str]| Ok(Answer::Values(u8::from(mode.load(Relaxed)).to_string()));
    all.register(Command::read("CALIB_MODE_GET", ("", "the mode that was set"), 0..=0, get));
}

#[cfg(test)]
#[path = "commands_tests.rs"]
mod tests;
