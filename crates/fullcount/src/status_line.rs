//! Progress on standard error: one line that renews itself on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use fullcount_engine::status::RunStatus;
use fullcount_engine::summary::grouped;

/// Messages that wait longer for the broker are worth a word.
const LINGERS: Duration = Duration::from_secs(1);

/// Shows the status of a running engine.
pub struct StatusLine {
    terminal: bool,
    last: Option<RunStatus>,
    shown: u32,
}

impl StatusLine {
    /// Looks at whether standard error is a terminal.
    pub fn new() -> StatusLine {
        let terminal = std::io::stderr().is_terminal() && !fullcount_log::terminal::is_json();
        StatusLine { terminal, last: None, shown: 0 }
    }

    /// Time between two lines.
    pub fn period(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// Shows what happened since the last call. Not on a terminal: every tenth time only, so that a log
    /// of a day stays below 1 MB.
    pub fn show(&mut self, now: &RunStatus) {
        let then = self.last.replace(now.clone()).unwrap_or_default();
        let seconds = now.elapsed.saturating_sub(then.elapsed).as_secs_f64().max(1e-3);
        let rate = |a: u64, b: u64| a.saturating_sub(b) as f64 / seconds;
        let mut text = format!(
            "{:>5} s  {:>7.3} Gbit/s  {:>9} packets/s  {:>11} events/s  {:>15} events",
            now.elapsed.as_secs(),
            rate(now.bytes, then.bytes) * 8.0 / 1e9,
            grouped(rate(now.packets, then.packets) as u64),
            grouped(rate(now.events, then.events) as u64),
            grouped(now.events),
        );
        let bound = |at_least: bool| if at_least { "at least " } else { "" };
        text += &format!("  lost {}{}", bound(now.lost_at_least), grouped(now.lost));
        for s in &now.lost_numbered {
            text += &format!("  lost {}{} {}", bound(s.at_least), grouped(s.lost), s.unit);
            if s.missing > 0 {
                text += &format!("  {} missing so far", grouped(s.missing));
            }
        }
        for (n, what) in [
            (now.missing, "missing so far"),
            (now.rejected, "packets refused"),
            (now.unplaced, "readouts without a pixel"),
        ] {
            if n > 0 {
                text += &format!("  {} {what}", grouped(n));
            }
        }
        for q in &now.queues {
            if q.failed {
                text += &format!("  {} HAS FAILED", q.name);
            }
            let percent = 100.0 * q.dropped as f64 / q.offered.max(1) as f64;
            if q.dropped > 0 {
                text += &format!("  {} drops {percent:.1} %", q.name);
            } else if q.queued > 0 {
                text += &format!("  {} queue {}", q.name, grouped(q.queued));
            }
        }
        // A broker that keeps up leaves some messages on their way, none of them old.
        for spool in now.spools.iter().filter(|s| s.age >= LINGERS) {
            text += &format!("  {spool}");
        }
        if let Some(clock) = &now.clock {
            text += &format!("  {clock}");
        }
        if fullcount_log::is_quiet() {
            return;
        }
        if self.terminal {
            crate::say::write_error(format_args!("\r\x1b[2K{text}"));
        } else if self.shown.is_multiple_of(10) {
            crate::say::line(&text);
        }
        self.shown += 1;
    }

    /// Removes the line before other text is printed.
    pub fn clear(&mut self) {
        if self.terminal && self.shown > 0 {
            crate::say::write_error(format_args!("\r\x1b[2K"));
        }
    }
}
