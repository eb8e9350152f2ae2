//! `fullcount top`: a running service at a glance, in a terminal.
//!
//! Looks at the service's page once an interval, from a thread of its own, so that keys work whatever the service does. A service that is gone
//! is tried again, and said to be gone. Refuses to draw where standard output is no terminal. Source: `docs/operations.md`, "top".

mod draw;
mod fetch;
mod view;

use std::io::IsTerminal;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use fullcount_engine::stop::Stop;
use fullcount_io::quantity;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use self::fetch::{PageAddress, TopLook};
use self::view::TopView;
use crate::exit::Failure;
use crate::say;

/// Shows a running service in the terminal: rates, losses, counters, queues, CPU of its threads.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TopFlags {
    /// Where the service has its page
    #[arg(value_name = "HOST[:PORT]", default_value = "127.0.0.1:8080")]
    host: String,
    /// Time between two looks, 200ms to 60s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Print one screen as text, and end: 1 if the service cannot be reached or something of it is wrong
    #[arg(long)]
    once: bool,
    /// Print an object a line instead of a screen
    #[arg(long)]
    json: bool,
    /// Size of the screen of --once, columns and lines
    #[arg(long, value_name = "CxL", default_value = "100x40", value_parser = size)]
    size: (u16, u16),
}

const EXAMPLES: &str = "\
Keys: q ends; arrows and PgUp, PgDn move the counters; z shows counters that are 0, too.

Examples:
  fullcount top
  fullcount top daq7:8080 --interval 5s
  fullcount top daq7 --once --size 120x60
  fullcount top daq7 --json --once | jq .rates.events_per_s";

/// Longest wait for a key before the screen is looked at again.
const TICK: Duration = Duration::from_millis(100);

fn interval(text: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(200)..=Duration::from_secs(60);
    let time = quantity::duration(text).ok().filter(|time| range.contains(time));
    time.ok_or_else(|| "200ms to 60s".to_owned())
}

fn size(text: &str) -> Result<(u16, u16), String> {
    let range = 1..=500u16;
    let read = |n: &str| n.parse().ok().filter(|n| range.contains(n));
    let both = text.split_once('x').and_then(|(c, l)| Some((read(c)?, read(l)?)));
    both.ok_or_else(|| "columns x lines such as 100x40, 500 at most".to_owned())
}

/// What the thread that looks tells.
type Look = Result<TopLook, String>;

/// Shows the service until the end is asked for.
pub fn top(flags: &TopFlags) -> Result<u8, Failure> {
    let place = PageAddress::read(&flags.host).map_err(Failure::Wrong)?;
    let plain = flags.once || flags.json;
    let terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if !(plain || terminal) {
        let why = "fullcount top draws on a terminal; without one give --once or --json";
        return Err(Failure::Wrong(why.into()));
    }
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let looks = looking(place.clone(), flags.interval).context("starting a thread")?;
    let screen = Screen { place, view: None, last: None, trouble: None, zeros: false, first: 0 };
    match plain {
        true => Ok(screen.print(flags, &looks, &stop)),
        false => Ok(screen.draw(&looks, &stop)?),
    }
}

/// Looks at the service again and again; ends with the process.
fn looking(place: PageAddress, interval: Duration) -> std::io::Result<Receiver<Look>> {
    // One that waits is enough: who does not take them wants no more.
    let (tell, looks) = mpsc::sync_channel(1);
    let body = move || {
        loop {
            let begun = Instant::now();
            if tell.send(fetch::look(&place)).is_err() {
                return;
            }
            std::thread::sleep(interval.saturating_sub(begun.elapsed()));
        }
    };
    std::thread::Builder::new().name("top".into()).spawn(body)?;
    Ok(looks)
}

/// What is shown.
struct Screen {
    place: PageAddress,
    view: Option<TopView>,
    last: Option<TopLook>,
    /// Why the service cannot be reached.
    trouble: Option<String>,
    /// Counters that are 0 are shown.
    zeros: bool,
    /// First counter that is shown.
    first: usize,
}

impl Screen {
    fn take(&mut self, look: Look) {
        match look {
            Ok(seen) => {
                self.view = Some(TopView::of(self.last.as_ref(), &seen));
                self.last = Some(seen);
                self.trouble = None;
            }
            Err(why) => self.trouble = Some(why),
        }
    }

    /// Texts without a terminal: the second look, which has rates, or the first failure; with `--json` alone all of them.
    fn print(mut self, flags: &TopFlags, looks: &Receiver<Look>, stop: &Stop) -> u8 {
        let mut count = 0;
        while !stop.requested() {
            match looks.recv_timeout(TICK) {
                Ok(look) => self.take(look),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return 1,
            }
            count += 1;
            if flags.once && count < 2 && self.trouble.is_none() {
                continue;
            }
            match flags.json {
                true => say!("{}", self.to_json()),
                false => say!("{}", self.to_text(flags.size)),
            }
            if flags.once {
                let bad = self.view.as_ref().is_none_or(|view| !view.bad.is_empty());
                return u8::from(bad || self.trouble.is_some());
            }
        }
        0
    }

    fn to_json(&self) -> serde_json::Value {
        let mut all = self.view.as_ref().map_or_else(|| serde_json::json!({}), TopView::to_json);
        all["schema"] = "fullcount/top/1".into();
        all["service"] = self.place.to_string().into();
        all["unreachable"] = self.trouble.clone().into();
        all
    }

    /// The screen as lines without colours.
    fn to_text(&self, (columns, lines): (u16, u16)) -> String {
        let Ok(mut terminal) = Terminal::new(TestBackend::new(columns, lines));
        let Ok(_) = terminal.draw(|frame| draw::draw(frame, self));
        let buffer = terminal.backend().buffer();
        let row = |y: u16| {
            let text: String = (0..columns).map(|x| buffer[(x, y)].symbol()).collect();
            text.trim_end().to_owned()
        };
        let all: Vec<String> = (0..lines).map(row).collect();
        all.join("\n").trim_end().to_owned()
    }

    fn draw(mut self, looks: &Receiver<Look>, stop: &Stop) -> anyhow::Result<u8> {
        // Puts the terminal back, also when something panics.
        let mut terminal = ratatui::try_init().context("the terminal")?;
        let result = self.rounds(&mut terminal, looks, stop);
        ratatui::restore();
        result.map(|()| 0).context("the terminal")
    }

    fn rounds(
        &mut self,
        terminal: &mut ratatui::DefaultTerminal,
        looks: &Receiver<Look>,
        stop: &Stop,
    ) -> std::io::Result<()> {
        while !stop.requested() {
            // Sees to a changed size by itself.
            terminal.draw(|frame| draw::draw(frame, self))?;
            if event::poll(TICK)?
                && let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
                && self.key(key)
            {
                return Ok(());
            }
            looks.try_iter().for_each(|look| self.take(look));
        }
        Ok(())
    }

    /// What a key does; true: the end.
    fn key(&mut self, key: KeyEvent) -> bool {
        let last = self.view.as_ref().map_or(0, |view| view.counters.len().saturating_sub(1));
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Char('z') => (self.zeros, self.first) = (!self.zeros, 0),
            KeyCode::Up | KeyCode::Char('k') => self.first = self.first.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.first += 1,
            KeyCode::PageUp => self.first = self.first.saturating_sub(20),
            KeyCode::PageDown => self.first += 20,
            KeyCode::Home => self.first = 0,
            _ => {}
        }
        self.first = self.first.min(last);
        false
    }
}

#[cfg(test)]
#[path = "top/top_tests.rs"]
mod tests;
