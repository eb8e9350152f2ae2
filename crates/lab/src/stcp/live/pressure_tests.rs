//! What the source of `lab stcp backpressure` makes and how it is judged, with a destination that does as it is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fullcount_core::destination::{Departed, DestinationError};
use fullcount_core::ledger::Sheet;
use fullcount_io::raw::Driver;
use serde_json::Value;

use super::*;

fn plan() -> BackPressure {
    BackPressure {
        sender: LiveSender::usual(Driver::Packet, true),
        fragment: 2048,
        rate: 2e9,
        reader: 0.5,
        time: Duration::from_secs(3600),
        mtu: 9000,
        buffer: 1 << 19,
        frames_to: None,
    }
}

/// Holds its source once, for two milliseconds; with the next call it is over.
#[derive(Default)]
struct Slow {
    bytes: Vec<u8>,
    held: HeldBack,
    over: Arc<AtomicBool>,
}

impl Destination for Slow {
    fn send(&mut self, bytes: &[u8], stride: usize) -> Result<(), DestinationError> {
        assert!(stride == 2048 && bytes.len().is_multiple_of(stride) && bytes.len() <= BURST);
        self.bytes.extend_from_slice(bytes);
        if self.held.times == 0 {
            std::thread::sleep(Duration::from_millis(2));
            (self.held.times, self.held.seen) = (1, 1);
        } else {
            self.over.store(true, Relaxed);
        }
        Ok(())
    }

    fn departed(&self) -> Departed {
        Departed::default()
    }

    fn held(&self) -> Option<HeldBack> {
        Some(self.held)
    }

    fn lossless(&self) -> bool {
        true
    }

    fn sheet(&self) -> Arc<Sheet> {
        Sheet::new(vec![])
    }

    fn describe(&self) -> Vec<String> {
        vec![]
    }
}

#[test]
fn what_falls_due_while_the_source_is_held_is_never_made() {
    let (plan, mut slow) = (plan(), Slow::default());
    let over = slow.over.clone();
    let made = plan.source(&mut slow, &|| over.load(Relaxed)).unwrap();
    // It waits for what is due, not longer.
    let (ns, next) = (Duration::from_nanos(1), plan.falls_due(1000));
    assert_eq!((plan.due(next - ns), plan.due(next + ns)), (999, 1000));
    // 244 fragments are due in the two milliseconds, and at most 32 were given before.
    assert!(made.throttled >= plan.due(Duration::from_millis(2)) - 32, "{made:?}");
    assert_eq!((made.sent * 2048, made.held), (slow.bytes.len() as u64, slow.held));
    assert_eq!(pattern::wrong(&slow.bytes, 0, u64::from(OWN_PORT)), None);
}

#[test]
fn the_median_is_below_a_millisecond_and_the_source_sees_nine_of_ten() {
    let good = HeldBack {
        times: 200,
        seen: 180,
        seen_after_median_ns: MOST_NS - 1,
        ..HeldBack::default()
    };
    let missed = |held: &HeldBack| super::missed(held, JUDGED);
    assert!(missed(&good).is_empty());
    let late = missed(&HeldBack { seen_after_median_ns: MOST_NS, ..good });
    assert!(matches!(&late[..], [said] if said.contains("1000 µs")), "{late:?}");
    let blind = missed(&HeldBack { seen: 179, ..good });
    assert!(matches!(&blind[..], [said] if said.contains("179 of 200")), "{blind:?}");
    let short = JUDGED - Duration::from_millis(1);
    assert!(super::missed(&HeldBack { seen: 179, ..good }, short).is_empty());
    assert!(!super::missed(&HeldBack { seen_after_median_ns: MOST_NS, ..good }, short).is_empty());
}

#[test]
fn the_record_says_whose_signal_it_is_and_a_missing_byte_fails() {
    let plan = plan();
    let held = HeldBack { times: 1, seen: 1, ..HeldBack::default() };
    let made = Made { sent: 3, throttled: 4, held };
    let told = Told { xoff: Some(2), busy_ns: Some(5), frames: 0 };
    let mut record = Record::new("test", "d".into(), None, Value::Null).unwrap();
    let found = plan.judge(&mut record, made, &told, (3 * 2048, &[])).unwrap();
    assert!(found.missed.is_empty() && found.text.contains("stcp://"), "{}", found.text);
    let json = record.json();
    assert_eq!(json["rows"][0]["signal"], "stcp://");
    assert_eq!(json["parameters"], json!({"median_below_us": 1000, "seen_at_least_percent": 90}));
    let short = plan.judge(&mut record, made, &told, (3 * 2048 - 1, &[]));
    assert!(short.unwrap_err().to_string().contains("missing"));
    let wrong = plan.judge(&mut record, made, &told, (3 * 2048, &["byte 7".into()]));
    assert!(wrong.unwrap_err().to_string().contains("byte 7"));
    let unseen = Made { held: HeldBack { seen: 0, ..held }, ..made };
    let never = plan.judge(&mut record, unseen, &told, (3 * 2048, &[]));
    assert!(never.unwrap_err().to_string().contains("never saw it"));
}

#[test]
fn its_url_has_what_is_asked_for() {
    let asked = BackPressure {
        sender: LiveSender::usual(Driver::Xdp, false),
        frames_to: Some((PathBuf::from("frames.pcapng"), 5000)),
        ..plan()
    };
    let all = "driver=xdp&offload=0&mtu=9000&buffer=524288&port=10&profile=default&coalescing=1ms\
               &frames_to=frames.pcapng&frames_limit=5000";
    assert_eq!(asked.keys().unwrap(), all);
    let sockets = BackPressure { sender: LiveSender::Linux { no_delay: false }, ..plan() };
    assert!(matches!(sockets.keys(), Err(LabError::Refused(_))));
}
