//! The screen from states as a service gives them, without a terminal.

use super::*;
use ratatui::style::Color;
use serde_json::json;

fn place() -> PageAddress {
    PageAddress::read("daq7").unwrap()
}

fn screen() -> Screen {
    Screen { place: place(), view: None, last: None, trouble: None, zeros: false, first: 0 }
}

fn seen(at: Instant, seconds: u64, events: u64, lost: u64) -> TopLook {
    let counter = |name: &str, value: u64, severity: &str| json!({"name": name, "value": value, "unit": "packets", "severity": severity, "todo": "do this"});
    let state = json!({
        "schema": "fullcount/state/1",
        "run": {"title": "tube \u{1b}[31m· 9000", "detector": "sonde · 64 pixels", "running": true, "last_data_s_ago": 7.0},
        "totals": {"packets": 1000, "events": events, "lost": lost},
        "rates": {"packets_per_s": 812_345.0, "bits_per_s": 9.5e9, "events_per_s": 5e6, "lost_per_s": 0.0},
        "lost": {"link": 0, "socket": lost},
        "rejected": {"packets": 3},
        "sinks": [{"name": "kafka", "queued": 60, "capacity": 64, "events": 123_456, "dropped_events": 0},
                  {"name": "live", "queued": 0, "capacity": 64, "events": 1, "dropped_events": 0}],
        "spools": [{"output": "kafka", "percent": 12}],
        "outputs_failed": [{"name": "nexus", "reason": "no space left"}],
        "ledger": [counter("events.count", events, "plain"), counter("packets.lost.socket", lost, "loss"),
                   counter("never", 0, "plain")],
    });
    let threads = [("receive".to_owned(), seconds as f64 * 0.95), ("control".to_owned(), 0.0)];
    TopLook { at: at + Duration::from_secs(seconds), state, threads: threads.into() }
}

fn looked() -> Screen {
    let (mut screen, begin) = (screen(), Instant::now());
    screen.take(Ok(seen(begin, 0, 1000, 0)));
    screen.take(Ok(seen(begin, 2, 3000, 42)));
    screen
}

#[test]
fn a_screen_has_what_is_wrong_rates_losses_queues_threads_and_counters() {
    let screen = looked();
    let text = screen.to_text((110, 40));
    for words in [
        "RUNNING, NOT WELL",
        "812 kpackets/s",
        "9.50 Gbit/s",
        "5.00 Mevents/s",
        "nothing came for 7 s",
        "! output nexus has failed: no space left",
        "! the queue of output kafka is nearly full",
        "! 42 packets lost, most of them at: socket",
        "! thread receive uses 95 % of a CPU",
        "queue 60/64",
        "spool 12 %",
        "FAILED",
        "receive            95.0 %",
        "do this",
        "1000/s",
    ] {
        assert!(text.contains(words), "{words}:\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(!text.contains("never"));
    let all = Screen { zeros: true, ..looked() }.to_text((110, 40));
    assert!(all.contains("never"));
    let json = screen.to_json();
    assert_eq!(
        (json["totals"]["lost"].as_u64(), json["schema"].as_str()),
        (Some(42), Some("fullcount/top/1"))
    );
    assert_eq!(json["threads_percent"]["receive"], 95.0);
    assert_eq!(json["counters"][0]["name"], "packets.lost.socket", "what loses comes first");
    assert_eq!(json["bad"].as_array().unwrap().len(), 4);
}

#[test]
fn what_is_bad_is_red() {
    let mut terminal = Terminal::new(TestBackend::new(110, 30)).unwrap();
    let screen = looked();
    terminal.draw(|frame| draw::draw(frame, &screen)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y: u16| (0..110).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    for words in ["! output nexus", "socket  ", "packets.lost.socket"] {
        let y = (0..30).find(|y| row(*y).contains(words)).expect(words);
        let x = row(y).find(words).unwrap() as u16;
        assert_eq!(buffer[(x, y)].fg, Color::Red, "{words}");
    }
    let y = (0..30).find(|y| row(*y).contains("link ")).unwrap();
    assert_eq!(buffer[(0, y)].fg, Color::Reset);
}

#[test]
fn a_service_that_is_gone_is_said_to_be_gone_and_what_was_known_stays() {
    let mut screen = screen();
    assert!(screen.to_text((80, 10)).contains("asking daq7:8080"));
    screen.take(Err("Connection refused".into()));
    assert!(screen.to_text((80, 10)).contains("daq7:8080 cannot be reached: Connection refused"));
    let begin = Instant::now();
    screen.take(Ok(seen(begin, 0, 1000, 0)));
    screen.take(Err("Connection refused".into()));
    let text = screen.to_text((120, 30));
    assert!(text.contains("tried again; what follows is ") && text.contains("kafka"), "{text}");
    assert_eq!(screen.to_json()["unreachable"], "Connection refused");
    screen.take(Ok(seen(begin, 1, 1000, 0)));
    assert!(!screen.to_text((120, 30)).contains("cannot be reached"));
}

#[test]
fn any_size_of_a_terminal_and_any_state_is_drawn() {
    let mut screen = looked();
    for size in [(1, 1), (1, 500), (500, 1), (20, 5), (80, 24), (500, 500)] {
        screen.to_text(size);
    }
    assert!(screen.to_text((40, 6)).contains("tube"), "the head goes before all else");
    for state in [json!({}), json!({"sinks": 7, "lost": [], "ledger": [{}, null, 3], "rates": []})]
    {
        let seen = TopLook { at: Instant::now(), state, threads: Default::default() };
        screen.take(Ok(seen));
        screen.to_text((80, 24));
    }
    for code in [KeyCode::Down, KeyCode::PageDown, KeyCode::Up, KeyCode::Home, KeyCode::Char('z')] {
        assert!(!screen.key(KeyEvent::from(code)));
        screen.to_text((80, 24));
    }
    assert!(screen.key(KeyEvent::from(KeyCode::Char('q'))));
    assert!(screen.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
}

#[test]
fn sizes_and_intervals_are_checked() {
    assert_eq!(size("100x40"), Ok((100, 40)));
    assert_eq!(interval("5s"), Ok(Duration::from_secs(5)));
    for bad in ["", "100", "0x40", "100x501", "axb"] {
        assert!(size(bad).is_err(), "{bad}");
    }
    for bad in ["0s", "61s", "1"] {
        assert!(interval(bad).is_err(), "{bad}");
    }
}
