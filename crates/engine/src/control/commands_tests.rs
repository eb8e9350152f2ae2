//! Commands against the spelling of the document.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use fullcount_core::command::{Access, Desk, Session};
use fullcount_core::ledger::{Entries, Ledger, Sheet};
use fullcount_core::status::Facts;

use super::*;

fullcount_core::counters! {
    /// A small run.
    enum T {
        In "receive.packets" Packets Sum "t" In "in" "";
        Ok "receive.accepted" Packets Sum "t" Accepted "ok" "";
    }
}

fullcount_core::counters! {
    /// Values that grow, and that can fall.
    enum G {
        In "receive.packets" Packets Sum "t" In "in" "";
        Depth "queue.depth" Packets Sum "t" Queued "waiting" "";
        Most "depth.most" Times Max "t" Note "deepest" "";
        Open "streams.open" Times Present "t" Note "open now" "";
    }
}

struct Run(Ledger);

impl StatusSource for Run {
    fn entries(&self) -> Entries {
        self.0.read()
    }

    fn facts(&self) -> Facts {
        Facts::default()
    }

    fn prefix(&self) -> &str {
        "efu.tube."
    }
}

fn desk() -> (Desk, Stop) {
    let (ledger, sheet, stop) = (Ledger::default(), Sheet::new(T::catalogue()), Stop::default());
    sheet.add(T::In as usize, 17);
    ledger.register(sheet);
    let mut desk = Desk::default();
    let context = Context {
        run: Arc::new(Run(ledger)),
        stop: stop.clone(),
        detector: "tube".into(),
        configuration: CurrentConfig::new(serde_json::json!({"web": {"listen": "off", "a.b": 1}})),
        mask: Arc::default(),
    };
    register(&mut desk.commands, context);
    (desk, stop)
}

fn ask(desk: &Desk, request: &str) -> String {
    let mut session = Session::new(Access::All);
    session.receive(request.as_bytes(), desk);
    String::from_utf8(session.output().to_vec()).unwrap()
}

#[test]
fn replies_are_spelled_as_scripts_expect_them() {
    let (desk, stop) = desk();
    for (request, reply) in [
        ("STAT_GET_COUNT", "STAT_GET_COUNT 2"),
        ("STAT_GET 1", "STAT_GET efu.tube.receive.packets 17"),
        ("STAT_GET 2", "STAT_GET efu.tube.receive.accepted 0"),
        ("STAT_GET 3", "STAT_GET  -1"),
        ("STAT_GET 0", "STAT_GET  -1"),
        ("STAT_GET -5", "STAT_GET  -1"),
        ("STAT_GET 99999999999999999999999", "STAT_GET  -1"),
        ("STAT_GET x", "Error: <BADARGS>"),
        ("STAT_GET", "Error: <BADARGS>"),
        ("STAT_GET_NAME receive.packets", "STAT_GET_NAME receive.packets 17"),
        ("STAT_GET_NAME efu.tube.receive.packets", "STAT_GET_NAME efu.tube.receive.packets -1"),
        ("STAT_GET_NAME no.such", "STAT_GET_NAME no.such -1"),
        ("DETECTOR_INFO_GET", "DETECTOR_INFO_GET tube"),
        ("RUNTIMESTATS", "RUNTIMESTATS 0"),
        ("CALIB_MODE_GET", "CALIB_MODE_GET 0"),
        ("CALIB_MODE_SET 1", "<OK>"),
        ("CALIB_MODE_GET", "CALIB_MODE_GET 1"),
        ("CALIB_MODE_SET 2", "Error: <BADARGS>"),
        ("CALIB_MODE_SET 0", "<OK>"),
        ("CMD_GET_COUNT", "CMD_GET_COUNT 18"),
        ("CMD_GET 1", "CMD_GET AUTH"),
        ("CMD_GET 18", "CMD_GET WHY"),
        ("NO_SUCH", "Error: <BADCMD>"),
        ("WHY", "WHY nothing was refused"),
        // The old one counted what it did not know.
        ("CMD_GET_COUNT", "CMD_GET_COUNT 18"),
        ("CONFIG_GET web.listen", "CONFIG_GET \"off\""),
        ("CONFIG_GET web", "CONFIG_GET {\"listen\":\"off\",\"a.b\":1}"),
        ("CONFIG_GET web.a.b", "CONFIG_GET 1"),
        ("CONFIG_GET web.no", "Error: <BADARGS>"),
    ] {
        assert_eq!(ask(&desk, request), reply, "{request}");
    }
    assert_eq!(ask(&desk, "VERSION_GET").split(' ').count(), 7);
    let modules = ask(&desk, "MODULES_GET");
    let modules: serde_json::Value =
        serde_json::from_str(&modules["MODULES_GET ".len()..]).unwrap();
    assert_eq!(modules, serde_json::json!({"modules": [], "silent": [], "hidden": 0}));
    let ledger = ask(&desk, "LEDGER_GET");
    let ledger: serde_json::Value = serde_json::from_str(&ledger["LEDGER_GET ".len()..]).unwrap();
    assert_eq!(
        (&ledger["counters"]["receive.packets"], &ledger["balance"]),
        (&17.into(), &17.into())
    );
    assert!(!stop.requested());
    assert_eq!(ask(&desk, "EXIT\n"), "<OK>");
    assert!(stop.requested());
}

#[test]
fn counters_begin_anew_for_scripts_and_go_on_in_the_ledger() {
    let (ledger, sheet) = (Ledger::default(), Sheet::new(G::catalogue()));
    [17, 5, 9, 4].iter().enumerate().for_each(|(line, n)| sheet.set(line, *n));
    ledger.register(sheet.clone());
    let run: Arc<dyn StatusSource> = Arc::new(Run(ledger));
    let mut desk = Desk::default();
    let (configuration, mask) = (CurrentConfig::default(), Arc::default());
    let (stop, detector) = (Stop::default(), "tube".into());
    let (begin, moved) = (Instant::now(), Arc::new(AtomicU32::new(0)));
    let clock = moved.clone();
    let clock = Box::new(move || begin + FRESH * clock.load(Relaxed));
    let context = Context { run: run.clone(), stop, detector, configuration, mask };
    register_by(&mut desk.commands, context, clock);
    let now = || {
        ["receive.packets", "queue.depth", "depth.most", "streams.open"].map(|name| {
            let said = ask(&desk, &format!("STAT_GET_NAME {name}"));
            said.rsplit(' ').next().unwrap().parse::<i64>().unwrap()
        })
    };
    let values = || {
        // What is shown may be so old.
        moved.fetch_add(1, Relaxed);
        now()
    };
    assert_eq!(values(), [17, 5, 9, 4]);
    assert_eq!(ask(&desk, "STAT_RESET"), "<OK>");
    assert_eq!(values(), [0, 5, 9, 4], "what can fall is shown as it is");
    sheet.add(0, 3);
    sheet.set(1, 2);
    sheet.set(3, 1);
    assert_eq!(now(), [0, 5, 9, 4], "as they were a moment ago");
    assert_eq!(values(), [3, 2, 9, 1]);
    assert_eq!(ask(&desk, "STAT_GET_NAME no.such"), "STAT_GET_NAME no.such -1");
    assert!(ask(&desk, "LEDGER_GET").contains("\"receive.packets\":20"));
    assert_eq!(run.entries().get("receive.packets"), Some(20));
    let mut reader = Session::new(Access::Read);
    reader.receive(b"STAT_RESET", &desk);
    assert_eq!(reader.output(), b"Error: <NOAUTH>");
}

#[test]
fn a_value_above_what_is_signed_is_shown_as_the_largest() {
    let (ledger, sheet) = (Ledger::default(), Sheet::new(T::catalogue()));
    sheet.set(0, u64::MAX);
    ledger.register(sheet);
    let mut desk = Desk::default();
    let context = Context {
        run: Arc::new(Run(ledger)),
        stop: Stop::default(),
        detector: "tube".into(),
        configuration: CurrentConfig::default(),
        mask: Arc::default(),
    };
    register(&mut desk.commands, context);
    let most = format!("STAT_GET_NAME receive.packets {}", i64::MAX);
    assert_eq!(ask(&desk, "STAT_GET_NAME receive.packets"), most);
}
