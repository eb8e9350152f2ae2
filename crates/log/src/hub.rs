//! Where lines come together: from `tracing`, to the terminal and to receivers.
//!
//! A receiver takes a line without waiting; what does not fit is its own loss, which it counts. Lines before the receivers are there wait for
//! them: the newest 256, 256 KiB at most. Refuses nothing.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use serde_json::Value;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};

use crate::filter::LogFilter;
use crate::level::LogLevel;
use crate::line::{LONGEST, LogLine, cut};
use crate::rate::LogRate;
use crate::terminal::{self, LogForm};

/// Lines that wait for the receivers.
const EARLY: usize = 256;
/// Bytes of their texts.
const EARLY_BYTES: usize = 256 << 10;

/// Takes lines and never makes who tells them wait.
pub trait LogReceiver: Send + Sync {
    /// Takes a line.
    fn take(&self, line: &LogLine);
}

/// A place in the source that has told something.
struct Site {
    rate: LogRate,
    /// The last line, without its text: what is said of those that were left out.
    level: LogLevel,
    target: &'static str,
    place: (&'static str, u32),
}

#[derive(Default)]
struct Inner {
    receivers: Vec<(u64, Arc<dyn LogReceiver>)>,
    next: u64,
    early: VecDeque<LogLine>,
    early_bytes: usize,
    settled: bool,
    sites: HashMap<Identifier, Site>,
}

/// The one of this process.
struct Hub {
    inner: Mutex<Inner>,
    filter: RwLock<LogFilter>,
    left_out: AtomicU64,
    /// The command line says what is told.
    given: AtomicBool,
    begun: Instant,
}

static HUB: LazyLock<Hub> = LazyLock::new(|| Hub {
    inner: Mutex::default(),
    filter: RwLock::default(),
    left_out: AtomicU64::new(0),
    given: AtomicBool::new(false),
    begun: Instant::now(),
});

impl Hub {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lets(&self, target: &str, level: LogLevel) -> bool {
        self.filter.read().unwrap_or_else(PoisonError::into_inner).lets(target, level)
    }

    /// Hands a line on, or counts it where its place has said too much.
    fn tell(&self, mut line: LogLine, site: Identifier) {
        let mut inner = self.lock();
        let now = self.begun.elapsed();
        let (level, target, place) = (line.level, line.target, line.place);
        let known = inner.sites.entry(site);
        let site = known.or_insert_with(|| Site { rate: LogRate::default(), level, target, place });
        site.level = level;
        match site.rate.ask(now) {
            Some(before) => line.left_out = before,
            None => {
                self.left_out.fetch_add(1, Relaxed);
                return;
            }
        }
        inner.hand_on(line);
    }

    /// Says what was left out, of places that have said nothing since.
    fn tick(&self, last: bool) {
        let (mut inner, now) = (self.lock(), self.begun.elapsed());
        let each = inner.sites.values_mut().filter_map(|site| {
            let n = if last { site.rate.rest() } else { site.rate.overdue(now) };
            let text =
                format!("{n} more messages of {}:{} were left out", site.place.0, site.place.1);
            let mut line = LogLine::now(site.level, site.target, text);
            line.place = site.place;
            (n > 0).then_some(line)
        });
        let lines: Vec<LogLine> = each.collect();
        lines.into_iter().for_each(|line| inner.hand_on(line));
    }
}

impl Inner {
    fn hand_on(&mut self, line: LogLine) {
        terminal::show(&line);
        self.receivers.iter().for_each(|(_, receiver)| receiver.take(&line));
        if self.settled {
            return;
        }
        self.early_bytes += line.text.len();
        self.early.push_back(line);
        while self.early.len() > EARLY || self.early_bytes > EARLY_BYTES {
            let Some(old) = self.early.pop_front() else { break };
            self.early_bytes -= old.text.len();
        }
    }
}

/// Takes what `tracing` hands on.
struct Taken;

impl<S: Subscriber> Layer<S> for Taken {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        // What is told may change at any time.
        Interest::sometimes()
    }

    fn enabled(&self, about: &Metadata<'_>, _: Context<'_, S>) -> bool {
        about.is_event() && HUB.lets(about.target(), LogLevel::worst(about.level()))
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let about = event.metadata();
        let mut line = LogLine::now(LogLevel::usual(about.level()), about.target(), String::new());
        line.place = (about.file().unwrap_or_default(), about.line().unwrap_or_default());
        event.record(&mut Fields(&mut line));
        if HUB.lets(line.target, line.level) {
            HUB.tell(line, about.callsite());
        }
    }
}

/// Reads the fields of an event.
struct Fields<'a>(&'a mut LogLine);

impl Fields<'_> {
    fn put(&mut self, field: &Field, value: Value) {
        self.0.with(field.name(), value);
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = cut(format!("{value:?}"), LONGEST);
        match field.name() {
            "message" => self.0.text = text,
            _ => self.put(field, text.into()),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.0.text = cut(value.to_owned(), LONGEST),
            _ => self.put(field, cut(value.to_owned(), LONGEST).into()),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "severity" => self.0.level = LogLevel::numbered(value),
            _ => self.put(field, value.into()),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        match field.name() {
            "terminal" => self.0.on_terminal = value,
            _ => self.put(field, value.into()),
        }
    }
}

/// Begins to take lines; a second call only changes how they look. `filter`: what is told until [`set_filter`].
pub fn install(form: LogForm, quiet: bool, filter: Option<LogFilter>) {
    terminal::set(form, quiet);
    crate::trace::install();
    if let Some(filter) = filter {
        set_filter(filter);
        HUB.given.store(true, Relaxed);
    }
    // An application that has a subscriber of its own keeps it.
    let all = tracing_subscriber::registry().with(Taken);
    let _ = tracing::subscriber::set_global_default(all);
}

/// What is told from now on.
pub fn set_filter(filter: LogFilter) {
    *HUB.filter.write().unwrap_or_else(PoisonError::into_inner) = filter;
    tracing::callsite::rebuild_interest_cache();
}

/// What a configuration says is to be told: unless the command line said something, which wins.
pub fn configure(filter: LogFilter) {
    if !HUB.given.load(Relaxed) {
        set_filter(filter);
    }
}

/// What the command line said is to be told.
pub fn given() -> Option<LogFilter> {
    HUB.given.load(Relaxed).then(filter)
}

/// What is told now.
pub fn filter() -> LogFilter {
    HUB.filter.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Lines that were left out because their place in the source said too much.
pub fn suppressed() -> u64 {
    HUB.left_out.load(Relaxed)
}

/// Says what was left out; to be called now and then. `last`: nothing follows.
pub fn tick(last: bool) {
    HUB.tick(last);
}

/// A receiver that gets lines until this is dropped.
#[derive(Debug)]
pub struct LogAttached(u64);

impl Drop for LogAttached {
    fn drop(&mut self) {
        HUB.lock().receivers.retain(|(number, _)| *number != self.0);
    }
}

/// Adds a receiver. What was told before any could be there is told to it now, as long as [`settle`] was not called.
pub fn attach(receiver: Arc<dyn LogReceiver>) -> LogAttached {
    let mut inner = HUB.lock();
    inner.early.iter().for_each(|line| receiver.take(line));
    let number = inner.next;
    inner.next += 1;
    inner.receivers.push((number, receiver));
    LogAttached(number)
}

/// All receivers are there: nothing is kept for others.
pub fn settle() {
    let mut inner = HUB.lock();
    inner.settled = true;
    inner.early = VecDeque::new();
    inner.early_bytes = 0;
}

#[cfg(test)]
#[path = "hub_tests.rs"]
mod tests;
