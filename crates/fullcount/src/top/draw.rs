//! The screen: what is wrong first, then rates, losses, outputs, threads, and counters as many as fit.
//!
//! A terminal that is too small for the rest shows the head alone. Red is bad.

use fullcount_core::quantity::short_text;
use fullcount_engine::summary::grouped;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Row, Table};

use super::Screen;
use super::view::{BUSY, TopView};

const RED: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const GOOD: Style = Style::new().fg(Color::Green);
/// Lines of what is wrong at most.
const BAD_LINES: usize = 4;

/// `12.3 M`, `9500`, `7`: three digits that count, and no decimals of small numbers.
pub fn short(value: f64) -> String {
    match value.abs() < 1e3 {
        true => format!("{value:.0}"),
        false => short_text(value),
    }
}

/// Draws all of it.
pub fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let head = head(screen);
    let Some(view) = &screen.view else {
        frame.render_widget(Paragraph::new(head), frame.area());
        return;
    };
    let parts = view.lost.len().max(view.queues.len()).max(4) as u16 + 1;
    let [top, middle, rest] = Layout::vertical([
        Constraint::Length(head.len() as u16),
        Constraint::Length(parts.min(frame.area().height / 2)),
        Constraint::Min(0),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(head), top);
    let [left, centre, right] =
        Layout::horizontal([Constraint::Length(26), Constraint::Min(20), Constraint::Length(26)])
            .areas(middle);
    lost(frame, view, left);
    queues(frame, view, centre);
    threads(frame, view, right);
    counters(frame, screen, view, rest);
}

fn head(screen: &Screen) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if let Some(why) = &screen.trouble {
        let since = screen.last.as_ref().map(|seen| seen.at.elapsed().as_secs());
        let since = since.map_or(String::new(), |s| format!("; what follows is {s} s old"));
        let text = format!("{} cannot be reached: {why}; tried again{since}", screen.place);
        lines.push(Line::styled(text, RED));
    }
    let Some(view) = &screen.view else {
        if screen.trouble.is_none() {
            lines.push(Line::raw(format!("asking {} …", screen.place)));
        }
        return lines;
    };
    let state = match (view.running, view.bad.is_empty()) {
        (true, true) => Span::styled("running, all well", GOOD),
        (true, false) => Span::styled("RUNNING, NOT WELL", RED),
        (false, _) => Span::styled("ENDED", RED),
    };
    let title = Span::styled(view.title.clone(), HEAD);
    // First what a narrow terminal has to show.
    lines.push(Line::from(vec![state, "  ".into(), title]));
    lines.push(Line::styled(view.detector.clone(), DIM));
    lines.push(Line::raw(match view.rates {
        Some([packets, bits, events, lost]) => format!(
            "{}packets/s  {}bit/s  {}events/s  {}lost/s",
            unit(packets),
            unit(bits),
            unit(events),
            unit(lost)
        ),
        None => "no rates yet".into(),
    }));
    let [packets, events, all_lost] = view.totals.map(grouped);
    let silent = view.last_data_s.filter(|s| *s >= 2.0);
    let silent = silent.map_or(String::new(), |s| format!("  nothing came for {s:.0} s"));
    let text = format!(
        "in all: {packets} packets  {events} events  {all_lost} lost  {} refused{silent}",
        grouped(view.refused)
    );
    lines.push(Line::raw(text));
    for bad in view.bad.iter().take(BAD_LINES) {
        lines.push(Line::styled(format!("! {bad}"), RED));
    }
    if view.bad.len() > BAD_LINES {
        lines.push(Line::styled(format!("! and {} more", view.bad.len() - BAD_LINES), RED));
    }
    lines
}

/// A number and the beginning of its unit.
fn unit(value: f64) -> String {
    let text = short(value);
    if text.ends_with(|c: char| c.is_ascii_digit()) { text + " " } else { text }
}

fn block(title: &'static str) -> Block<'static> {
    Block::new().borders(Borders::TOP).title(Span::styled(title, HEAD))
}

fn styled(bad: bool) -> Style {
    if bad { RED } else { Style::new() }
}

fn lost(frame: &mut Frame<'_>, view: &TopView, area: Rect) {
    let row = |(place, n): &(String, u64)| {
        Row::new([place.clone(), format!("{:>14}", grouped(*n))]).style(styled(*n > 0))
    };
    let widths = [Constraint::Length(10), Constraint::Length(14)];
    frame.render_widget(
        Table::new(view.lost.iter().map(row), widths).block(block("lost packets at ")),
        area,
    );
}

fn queues(frame: &mut Frame<'_>, view: &TopView, area: Rect) {
    let row = |q: &super::view::QueueView| {
        let (queued, capacity) = q.queued;
        let full = (queued * 100).checked_div(capacity).unwrap_or(0);
        let spool = q.spool.map_or(String::new(), |p| format!("spool {p} %"));
        let state = if q.failure.is_some() { "FAILED".into() } else { spool };
        let bad = q.failure.is_some() || q.events.1 > 0 || full >= 80 || q.spool >= Some(80);
        let queue = format!("queue {queued}/{capacity}");
        let events = format!("{} events", short(q.events.0 as f64));
        Row::new([q.name.clone(), queue, events, state]).style(styled(bad))
    };
    let widths =
        [Constraint::Length(8), Constraint::Length(14), Constraint::Length(16), Constraint::Min(6)];
    let table = Table::new(view.queues.iter().map(row), widths).block(block("outputs "));
    frame.render_widget(table, area);
}

fn threads(frame: &mut Frame<'_>, view: &TopView, area: Rect) {
    let row = |(name, percent): &(String, f64)| {
        Row::new([name.clone(), format!("{percent:>6.1} %")]).style(styled(*percent >= BUSY))
    };
    let widths = [Constraint::Length(16), Constraint::Length(9)];
    let table = Table::new(view.threads.iter().map(row), widths).block(block("CPU by thread "));
    frame.render_widget(table, area);
}

fn counters(frame: &mut Frame<'_>, screen: &Screen, view: &TopView, area: Rect) {
    let shown = view.counters.iter().filter(|c| screen.zeros || c.value > 0);
    let row = |c: &super::view::CounterView| {
        let rate =
            c.per_s.filter(|r| *r != 0.0).map_or(String::new(), |r| format!("{}/s", short(r)));
        let todo = if c.loss { c.todo.clone() } else { String::new() };
        let cells =
            [c.name.clone(), format!("{:>18}", grouped(c.value)), format!("{rate:>12}"), todo];
        Row::new(cells).style(styled(c.loss))
    };
    let widths = [
        Constraint::Length(36),
        Constraint::Length(18),
        Constraint::Length(12),
        Constraint::Min(0),
    ];
    let rows = shown.skip(screen.first).take(area.height.into()).map(row);
    frame.render_widget(Table::new(rows, widths).block(block("counters (z: all; arrows) ")), area);
}
