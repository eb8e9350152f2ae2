//! What is told of commands, and that nothing is where debug is not told.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fullcount_core::command::{Access, Answer, Command, Desk, Session, Token};
use fullcount_log::{LogFilter, LogForm, LogLevel, LogLine, LogReceiver};

use super::*;

#[derive(Default)]
struct Kept(Mutex<Vec<LogLine>>);

impl LogReceiver for Kept {
    fn take(&self, line: &LogLine) {
        self.0.lock().unwrap().push(line.clone());
    }
}

const TOKEN: &str = "0123456789abcdef";

fn desk() -> Desk {
    let mut desk = Desk { record: Some(record), token: Token::read(TOKEN).ok(), ..Desk::default() };
    let get = |_: &[&str]| Ok(Answer::Values("5".into()));
    desk.commands.register(Command::read("SOME_GET", ("[N]", "some"), 0..=1, get));
    let set = |_: &[&str]| Ok(Answer::Done);
    desk.commands.register(Command::change("SOME_SET", ("N", "some"), 1..=1, set));
    desk
}

/// One test: what is told is the same for the whole process.
#[test]
fn commands_are_told_by_what_they_change_and_cost_nothing_where_they_are_not() {
    fullcount_log::install(LogForm::Text, true, None);
    let before = fullcount_log::filter();
    let told = |level: &str| fullcount_log::set_filter(LogFilter::read(level).unwrap());
    let kept = Arc::new(Kept::default());
    let _attached = fullcount_log::attach(kept.clone());
    let desk = desk();
    // An address of this test alone, since others tell commands as well.
    let mut session = Session::new(Access::Read).of_client("[::ffff:10.9.8.7]:65".parse().unwrap());
    let mut give = |request: &str| {
        session.receive(request.as_bytes(), &desk);
        let sent = session.output().len();
        session.sent(sent, &desk);
        let mut all = kept.0.lock().unwrap();
        let lines: Vec<LogLine> = all.drain(..).filter(|l| l.text.contains("10.9.8.7")).collect();
        lines.into_iter().map(|line| (line.level, line.target, line.text)).collect::<Vec<_>>()
    };
    told("info,control=debug");
    let notice =
        |text: &str| (LogLevel::Notice, "fullcount_control", format!("10.9.8.7:65 gave {text}"));
    let debug =
        |text: &str| (LogLevel::Debug, "fullcount_control", format!("10.9.8.7:65 gave {text}"));
    assert_eq!(give("SOME_GET \x1b[2J"), [debug("SOME_GET \u{fffd}[2J: done")]);
    let turned = give("SOME_GET a\u{202e}b\u{2028}c");
    assert_eq!(turned, [debug("SOME_GET a\u{fffd}b\u{fffd}c: done")]);
    let refused = "this client may not give it without the token: AUTH TOKEN";
    assert_eq!(give("SOME_SET 1"), [notice(&format!("SOME_SET 1: not done: {refused}"))]);
    assert_eq!(give("AUTH wrong"), [notice("AUTH: not done: this is not the token")]);
    assert_eq!(give(&format!("AUTH {TOKEN}")), [notice("AUTH: done")]);
    assert_eq!(
        give(&format!("SOME_SET {}", "x".repeat(101))),
        [notice(&format!("SOME_SET {}…: done", "x".repeat(100)))]
    );
    let unknown = "an unknown command: not done: there is no such command: HELP lists them";
    assert_eq!(give(TOKEN), [debug(unknown)], "a misplaced word is not told");

    told("info");
    assert!(give("SOME_GET").is_empty(), "reads are for who looks for a fault");
    assert_eq!(give("SOME_SET 2"), [notice("SOME_SET 2: done")]);
    told("info,control=off");
    assert!(give("SOME_SET 3").is_empty());

    // 5,000 commands a second are 200 µs for each; being not told takes far below one of them, also in a build without optimisation.
    told("info");
    let read = GivenCommand {
        client: None,
        name: "SOME_GET",
        arguments: &[],
        changes: false,
        refused: None,
    };
    let thousand = || {
        let begun = Instant::now();
        (0..1000).for_each(|_| record(&read));
        begun.elapsed()
    };
    // The best of many: in the others this thread may have waited for a processor.
    let each = (0..50).map(|_| thousand()).min().unwrap() / 1000;
    println!("{each:?} for a command that is not told");
    assert!(each < Duration::from_micros(20), "{each:?}");
    fullcount_log::set_filter(before);
}
