//! Candidates against the vectors' builder cases and reference data, and against a naive reference.

use crate::hits::PlaneHit;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::cluster::gap::sort_by_time;

/// Parameters of the format, ticks of 1 ns.
const STEPS: Steps =
    Steps { box_ticks: 2010, time_gap: 2000, coordinate_gap: 1, matching_gap: 2000 };

#[derive(Debug, Default)]
struct Seen {
    candidates: Vec<[PlaneSum; 2]>,
    resolved: usize,
}

impl Candidates for Seen {
    fn candidate(&mut self, planes: &[PlaneSum; 2]) {
        self.candidates.push(*planes);
    }

    fn no_coincidence(&mut self, hits: &[PlaneHit]) {
        let plane = |p: u8| PlaneSum::of(hits.iter().filter(|h| h.plane == p));
        self.candidates.push([plane(0), plane(1)]);
    }

    fn resolved(&mut self) {
        self.resolved += 1;
    }
}

fn hit(time: i64, coordinate: u16, weight: u16, plane: u8) -> PlaneHit {
    PlaneHit { time, coordinate, weight, module: 0, plane }
}

/// Candidates of one segment, from a box that starts at 0.
fn candidates(steps: Steps, resolve: bool, hits: &[PlaneHit]) -> Seen {
    let mut seen = Seen::default();
    Boxes::new(steps, resolve).segment(&mut hits.to_vec(), &mut 0, &mut seen);
    // A short segment is sorted first; without that it is the same.
    let mut unsorted = Seen::default();
    Boxes::new(steps, resolve).segment_from(0, &mut hits.to_vec(), &mut 0, &mut unsorted);
    assert_eq!(seen.candidates, unsorted.candidates);
    seen
}

fn vector(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/multiblade/");
    std::fs::read_to_string(format!("{folder}{name}")).expect("vectors are committed")
}

fn expected() -> Value {
    serde_json::from_str(&vector("expected.json")).expect("JSON")
}

#[test]
fn the_builder_cases_of_the_vectors() {
    let expected = expected();
    let cases = expected["builder_cases"].as_object().unwrap();
    assert_eq!(cases.len(), 6);
    for (name, case) in cases {
        let number = |v: &Value| v.as_i64().unwrap();
        let mut hits: Vec<PlaneHit> = case["hits"]
            .as_array()
            .unwrap()
            .iter()
            .map(|h| {
                let [t, c, w, p] = [0, 1, 2, 3].map(|i| number(&h[i]));
                hit(t, c as u16, w as u16, p as u8)
            })
            .collect();
        // The case gives a builder its hits out of order; in a segment they are sorted. Both make two boxes.
        let mut seen = Seen::default();
        let mut boxes = Boxes::new(STEPS, false);
        let mut start = 0;
        if name == "late_hit_before_box" {
            for one in &mut hits {
                boxes.segment(std::slice::from_mut(one), &mut start, &mut seen);
            }
            assert_eq!(start, 4990, "a hit before the box opens another one");
        } else {
            sort_by_time(&mut hits);
            boxes.segment(&mut hits, &mut start, &mut seen);
        }
        let wanted = case["expect"].as_array().unwrap();
        assert_eq!(seen.candidates.len(), wanted.len(), "{name}");
        for ([x, y], wanted) in seen.candidates.iter().zip(wanted) {
            let planes = [number(&wanted["planes"][0]), number(&wanted["planes"][1])];
            assert_eq!([i64::from(x.hits), i64::from(y.hits)], planes, "{name}");
            assert_eq!(x.first.min(y.first), number(&wanted["time"]), "{name}");
            let centre = |i: usize| wanted["center"][i].as_f64();
            assert_eq!([x.centre(), y.centre()], [centre(0), centre(1)], "{name}");
        }
    }
}

#[test]
fn the_small_reference_set_of_the_vectors() {
    let expected = expected();
    let set = &expected["small_sets"]["FPRefData"];
    let text = vector("small_FPRefData.csv");
    let mut hits: Vec<PlaneHit> = text
        .lines()
        .skip(1)
        .map(|line| {
            let n: Vec<i64> = line.split(',').map(|v| v.parse().unwrap()).collect();
            let (plane, coordinate) = if n[1] < 32 { (0, n[1]) } else { (1, n[1] - 32) };
            hit(n[0], coordinate as u16, n[2] as u16, plane)
        })
        .collect();
    assert_eq!(hits.len() as u64, set["readouts"].as_u64().unwrap());
    sort_by_time(&mut hits);
    let seen = candidates(STEPS, false, &hits).candidates;
    assert_eq!(seen.len() as u64, set["clusters_after_matching"].as_u64().unwrap());
    let (both, single): (Vec<_>, Vec<_>) =
        seen.into_iter().partition(|[x, y]| !x.is_empty() && !y.is_empty());
    assert_eq!(single.len() as u64, set["no_coincidence"].as_u64().unwrap());
    let events = set["events"].as_array().unwrap();
    assert_eq!(both.len(), events.len());
    for ([wires, strips], event) in both.iter().zip(events) {
        assert_eq!(Some(wires.first.min(strips.first)), event["time"].as_i64());
        assert_eq!(wires.centre(), event["wire"].as_f64());
        assert_eq!(strips.centre(), event["strip"].as_f64());
        let counts = [wires.hits.into(), strips.hits.into(), wires.weight, strips.weight];
        let wanted =
            ["wires", "strips", "wire_adc", "strip_adc"].map(|k| event[k].as_u64().unwrap());
        assert_eq!(counts, wanted);
    }
}

#[test]
fn a_box_keeps_its_start_over_segments() {
    let mut boxes = Boxes::new(STEPS, false);
    let (mut start, mut seen) = (0, Seen::default());
    boxes.segment(&mut [hit(5000, 1, 1, 0)], &mut start, &mut seen);
    // 500 ns after the start of the box before: the start stays, so 7010 is a new box.
    boxes.segment(
        &mut [hit(5500, 1, 1, 0), hit(7009, 1, 1, 1), hit(7010, 1, 1, 1)],
        &mut start,
        &mut seen,
    );
    let hits: Vec<u32> = seen.candidates.iter().map(|[x, y]| x.hits + y.hits).collect();
    assert_eq!((hits, start), (vec![1, 2, 1], 7010));
}

#[test]
fn two_neutrons_at_once_are_told_apart_if_asked_for() {
    let hits = [hit(10, 3, 100, 0), hit(11, 20, 45, 1), hit(12, 9, 900, 0), hit(13, 2, 400, 1)];
    assert_eq!(candidates(STEPS, false, &hits).candidates.len(), 1);
    let seen = candidates(STEPS, true, &hits);
    assert_eq!(seen.resolved, 1);
    let places: Vec<_> = seen.candidates.iter().map(|[x, y]| (x.lowest, y.lowest)).collect();
    assert_eq!(places, [(9, 2), (3, 20)]);
}

/// Sections 5.1 to 5.3 and the matching, word by word, with new lists at every step.
fn naive(steps: Steps, hits: &[PlaneHit]) -> Vec<[PlaneSum; 2]> {
    let mut boxes: Vec<Vec<PlaneHit>> = vec![vec![]];
    let mut start = 0i64;
    for hit in hits {
        if hit.time.wrapping_sub(start) as u64 >= steps.box_ticks {
            start = hit.time;
            boxes.push(vec![]);
        }
        boxes.last_mut().unwrap().push(*hit);
    }
    let mut out = Vec::new();
    for hits in boxes {
        let mut clusters: Vec<(i64, u8, i64, Vec<PlaneHit>)> = Vec::new();
        for plane in [0, 1] {
            let mut times: Vec<Vec<PlaneHit>> = Vec::new();
            for hit in hits.iter().filter(|h| h.plane == plane) {
                match times.last_mut() {
                    Some(t) if hit.time - t.last().unwrap().time <= steps.time_gap => t.push(*hit),
                    _ => times.push(vec![*hit]),
                }
            }
            for mut time in times {
                time.sort_by_key(|h| h.coordinate);
                let mut parts: Vec<Vec<PlaneHit>> = Vec::new();
                for hit in time {
                    match parts.last_mut() {
                        Some(p)
                            if hit.coordinate - p.last().unwrap().coordinate
                                <= steps.coordinate_gap =>
                        {
                            p.push(hit);
                        }
                        _ => parts.push(vec![hit]),
                    }
                }
                for part in parts {
                    let first = part.iter().map(|h| h.time).min().unwrap();
                    let last = part.iter().map(|h| h.time).max().unwrap();
                    clusters.push((first, plane, last, part));
                }
            }
        }
        clusters.sort_by_key(|c| (c.0, c.1));
        let mut events: Vec<(i64, Vec<PlaneHit>)> = Vec::new();
        for (first, _, last, part) in clusters {
            match events.last_mut() {
                Some((end, all)) if first - *end <= steps.matching_gap => {
                    *end = last.max(*end);
                    all.extend(part);
                }
                _ => events.push((last, part)),
            }
        }
        let plane = |all: &[PlaneHit], p| PlaneSum::of(all.iter().filter(|h| h.plane == p));
        out.extend(events.iter().map(|(_, all)| [plane(all, 0), plane(all, 1)]));
    }
    out
}

proptest! {
    /// Neutrons far apart whose readouts come in any order, and now and then one that is late: as in the data.
    #[test]
    fn nearly_sorted_hits_make_the_candidates_of_sorted_ones(
        neutrons in proptest::collection::vec(
            (0i64..90, proptest::collection::vec((0i64..25, 0u16..12, 0u8..2), 1..7)), 1..30),
        swaps in proptest::collection::vec((any::<prop::sample::Index>(), 0usize..9), 0..4),
    ) {
        let steps = Steps { box_ticks: 30, time_gap: 30, coordinate_gap: 1, matching_gap: 30 };
        let (mut hits, mut time) = (vec![], 0);
        for (later, readouts) in neutrons {
            time += later;
            hits.extend(readouts.iter().map(|&(t, c, p)| hit(time + t, c, 100 + c, p)));
        }
        for (at, step) in swaps {
            let at = at.index(hits.len());
            let other = (at + step).min(hits.len() - 1);
            hits.swap(at, other);
        }
        let mut sorted = hits.clone();
        sort_by_time(&mut sorted);
        prop_assert_eq!(candidates(steps, false, &hits).candidates, naive(steps, &sorted));
    }

    #[test]
    fn candidates_are_those_of_the_format_word_by_word(
        rows in proptest::collection::vec((0i64..400, 0u16..12, any::<u16>(), 0u8..2), 0..60),
        box_ticks in 1u64..60, time_gap in 0i64..30, coordinate_gap in 0u16..3, matching_gap in 0i64..30,
    ) {
        let steps = Steps { box_ticks, time_gap, coordinate_gap, matching_gap };
        let as_they_came: Vec<_> = rows.into_iter().map(|(t, c, w, p)| hit(t, c, w, p)).collect();
        let mut hits = as_they_came.clone();
        sort_by_time(&mut hits);
        let wanted = naive(steps, &hits);
        prop_assert_eq!(&candidates(steps, false, &hits).candidates, &wanted);
        prop_assert_eq!(&candidates(steps, false, &as_they_came).candidates, &wanted, "in any order");
        // Telling neutrons apart neither loses nor makes hits.
        let seen = candidates(steps, true, &hits).candidates;
        let sum = |all: &[[PlaneSum; 2]]| -> u64 { all.iter().flatten().map(|s| u64::from(s.hits)).sum() };
        prop_assert_eq!(sum(&seen), hits.len() as u64);
    }
}
