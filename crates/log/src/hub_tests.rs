//! The hub is one for a process: tests here share it, and look for lines of their own.

use super::*;

/// What came, by text.
#[derive(Default)]
struct Kept(Mutex<Vec<LogLine>>);

impl LogReceiver for Kept {
    fn take(&self, line: &LogLine) {
        self.0.lock().unwrap().push(line.clone());
    }
}

impl Kept {
    fn about(&self, word: &str) -> Vec<LogLine> {
        let all = self.0.lock().unwrap();
        all.iter().filter(|l| l.text.contains(word)).cloned().collect()
    }
}

/// All in one: what one of several would change is seen by all.
#[test]
fn lines_reach_receivers_as_they_were_told_and_a_place_cannot_flood() {
    install(LogForm::Text, true, LogFilter::read("info,log::hub::tests=debug"));
    warning!("before anybody listens");
    let kept = Arc::new(Kept::default());
    let attached = attach(kept.clone());
    assert_eq!(kept.about("before anybody").len(), 1, "it waited");
    settle();

    let bad = 7u32;
    alert!(topic = "readouts", bad, rate = 0.5, negative = -1i64, "topic is gone: {}", "why");
    let [line] = &kept.about("topic is gone")[..] else { panic!("one line") };
    assert_eq!((line.level, line.text.as_str()), (LogLevel::Alert, "topic is gone: why"));
    let want: Vec<(&str, Value)> = vec![
        ("topic", "readouts".into()),
        ("bad", 7.into()),
        ("rate", 0.5.into()),
        ("negative", (-1).into()),
    ];
    assert_eq!(line.fields, want);
    assert!(line.place.0.ends_with("hub_tests.rs") && line.place.1 > 0 && !line.thread.is_empty());
    assert!(line.on_terminal && line.unix_ms > 1_700_000_000_000);

    emergency!("e");
    critical!("level2");
    error!("level3");
    notice!("level5");
    info!(terminal = false, "level6");
    debug!("level7");
    for (number, level) in LogLevel::ALL.into_iter().enumerate().skip(2).filter(|(n, _)| *n != 4) {
        let found = kept.about(&format!("level{number}"));
        assert_eq!(found[0].level, level);
        assert_eq!(found[0].on_terminal, number != 6);
    }

    // What is told changes while the program runs.
    let say = || info!(target: "fullcount_quiet::deep", "may be heard");
    set_filter(LogFilter::read("notice").unwrap());
    say();
    assert!(kept.about("may be heard").is_empty());
    set_filter(LogFilter::read("notice,quiet=info").unwrap());
    say();
    assert_eq!(kept.about("may be heard").len(), 1);
    assert_eq!(filter().to_string(), "notice,quiet=info");

    // A thousand of one place.
    let before = suppressed();
    for n in 0..1000 {
        warning!("flood {n}");
    }
    let told = kept.about("flood ").len() as u64;
    assert!(told >= u64::from(crate::rate::MOST) && told + (suppressed() - before) == 1000);
    warning!("another place");
    assert_eq!(kept.about("another place").len(), 1);
    tick(true);
    let [sum] = &kept.about("were left out")[..] else { panic!("once") };
    assert!(sum.text.starts_with(&format!("{} more messages of ", 1000 - told)), "{}", sum.text);

    error!(terminal = false, "{}", "x".repeat(100_000));
    assert!(kept.about("xxx")[0].text.len() < LONGEST + 20);
    drop(attached);
    error!("nobody there");
    assert!(kept.about("nobody").is_empty());
}
