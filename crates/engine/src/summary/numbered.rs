//! What senders number instead of packets, in the summary: lost by place, in its own unit.
//!
//! Source: `docs/summary.md`.

use std::fmt::Write;

use fullcount_core::ledger::Place;
use serde_json::{Map, Value, json};

use super::grouped;
use super::text::{RECORDED, UNEXPLAINED, UNREAD, witnesses_text};
use crate::account::{Account, NumberedLoss};
use crate::places::Shared;

/// What is numbered instead of packets.
pub(super) fn json(series: &NumberedLoss) -> Value {
    let places: Map<String, Value> =
        Place::ALL.iter().zip(series.lost).map(|(p, n)| (p.name().into(), json!(n))).collect();
    let shared = |s: &Shared| {
        let places: Vec<&str> = s.places.iter().map(|p| p.name()).collect();
        json!({"places": places, "lost": s.packets})
    };
    json!({"unit": series.unit.name(), "lost": series.lost_total(),
           "lost_at_least": series.at_least > 0, "places": places,
           "shared": series.shared.iter().map(shared).collect::<Vec<_>>(),
           "duplicate": series.duplicate, "reordered": series.reordered, "late": series.late,
           "restarts": series.restarts})
}

/// The same for people.
pub(super) fn text(
    a: &Account,
    series: &NumberedLoss,
    (faults, recorded): (u64, bool),
    t: &mut String,
) {
    let unit = series.unit.name();
    let lost = if series.at_least > 0 { "lost at least" } else { "lost" };
    let _ = writeln!(t, "  {lost:<28}{:>18} {unit}", grouped(series.lost_total()));
    let mut line = |where_: &str, n: u64, places: &[Place]| {
        let _ = writeln!(t, "    at {where_:<23}{:>18} {unit}", grouped(n));
        witnesses_text(a, places, t);
    };
    let unknown = Place::ALL.len() - 1;
    for (place, n) in Place::ALL[..unknown].iter().zip(series.lost).filter(|(_, n)| *n > 0) {
        line(place.name(), n, &[*place]);
    }
    for s in &series.shared {
        let names: Vec<&str> = s.places.iter().map(|p| p.name()).collect();
        line(&names.join(" or "), s.packets, &s.places);
    }
    if series.unexplained() > 0 {
        line(Place::Unknown.name(), series.unexplained(), &[]);
        let why = match (faults, a.watched) {
            (0, true) => UNEXPLAINED.to_owned(),
            (0, false) if recorded => RECORDED.to_owned(),
            (0, false) => UNREAD.to_owned(),
            _ => format!("{} packets were dropped on purpose (source.fault)", grouped(faults)),
        };
        let _ = writeln!(t, "        {why}");
    }
    for (what, n) in
        [("duplicate", series.duplicate), ("reordered", series.reordered), ("late", series.late)]
    {
        if n > 0 {
            let _ = writeln!(t, "  {what:<28}{:>18} {unit}", grouped(n));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_core::ledger::Unit;

    #[test]
    fn lost_container_events_are_told_with_unit_places_and_cause() {
        let shared = vec![Shared { places: vec![Place::Nic, Place::Socket], packets: 30 }];
        let series = NumberedLoss {
            lost: [0, 0, 0, 1200, 0, 0, 0, 50],
            shared,
            duplicate: 4,
            ..NumberedLoss::default()
        };
        let shown = json(&series);
        assert_eq!((&shown["lost"], &shown["unit"]), (&1250.into(), &"container events".into()));
        assert_eq!(
            (&shown["places"]["socket"], &shown["places"]["unknown"]),
            (&1200.into(), &50.into())
        );
        assert_eq!(shown["shared"][0], json!({"places": ["nic", "socket"], "lost": 30}));
        assert_eq!(Unit::ContainerEvents.name(), shown["unit"]);
        let told = |watched, faults| {
            let mut t = String::new();
            let mut a = Account::default();
            a.watched = watched;
            text(&a, &series, (faults, false), &mut t);
            t
        };
        let t = told(true, 0);
        for words in [
            "1,250 container events",
            "at socket ",
            "at nic or socket ",
            "20 container events",
            "lost before it",
            "4 container events",
        ] {
            assert!(t.contains(words), "{words}: {t}");
        }
        assert!(told(true, 7).contains("7 packets were dropped on purpose"));
        assert!(told(false, 0).contains("engine.probes = off"));
    }
}
