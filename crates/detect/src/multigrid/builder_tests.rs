//! Groups, order and release, hit by hit; and the builder against a direct model of the format's rules.

use super::*;
use fullcount_core::ledger::Ledger;
use proptest::prelude::*;

const LATENCY: i64 = 300_000;
const RELEASE: i64 = 200_000_000;

fn config() -> Arc<MultiGridConfig> {
    let file = include_str!("../../../../vectors/multigrid/config/three_modules_mg24.json");
    Arc::new(MultiGridConfig::read(file, "").unwrap())
}

fn builder(most: usize) -> MultigridBuilder {
    MultigridBuilder::new(config(), &TimeBase::default(), RELEASE, most)
}

fn wire(time: i64, module: u16, coordinate: u16, weight: u16) -> PlaneHit {
    PlaneHit { time, coordinate, weight, module, plane: 0 }
}

fn grid(time: i64, module: u16, coordinate: u16, weight: u16) -> PlaneHit {
    PlaneHit { plane: 1, ..wire(time, module, coordinate, weight) }
}

fn pulse(time: i64) -> PlaneHit {
    PlaneHit { plane: PlaneHit::PULSE, module: u16::MAX, ..wire(time, 0, u16::MAX, 0) }
}

/// A neutron: a wire and a grid.
fn neutron(time: i64, module: u16) -> [PlaneHit; 2] {
    [wire(time, module, 5, 100), grid(time, module, 7, 90)]
}

fn build(b: &mut MultigridBuilder, hits: &[PlaneHit], now: Option<i64>) -> Vec<(i64, u32)> {
    let (mut hits, mut products) = (hits.to_vec(), Products::default());
    b.build(&mut hits, &mut products, now.map(Nanos));
    assert!(hits.is_empty());
    balanced(b);
    products.events.absolute().collect()
}

fn finish(b: &mut MultigridBuilder) -> Vec<(i64, u32)> {
    let mut products = Products::default();
    b.flush(Flush::End, &mut Vec::new(), &mut products);
    balanced(b);
    let waiting = [MultiGridBuilt::Open, MultiGridBuilt::Ready, MultiGridBuilt::PulsesReady];
    assert_eq!(waiting.map(|line| b.sheet.get(line as usize)), [0; 3]);
    products.events.absolute().collect()
}

fn balanced(b: &MultigridBuilder) {
    let ledger = Ledger::default();
    ledger.register(b.sheet.clone());
    assert_eq!(ledger.read().balance(), 0, "{:?}", ledger.read().hops());
}

fn count(b: &MultigridBuilder, line: MultiGridBuilt) -> u64 {
    b.sheet.get(line as usize)
}

fn ns(ticks: i64) -> i64 {
    ticks * 125 / 2
}

fn times(events: &[(i64, u32)]) -> Vec<i64> {
    events.iter().map(|e| e.0).collect()
}

#[test]
fn a_group_goes_on_over_batches_and_ends_with_the_next_time() {
    let mut b = builder(256);
    let [w, g] = neutron(100, 0);
    assert_eq!(build(&mut b, &[w], None), []);
    assert_eq!(count(&b, MultiGridBuilt::Open), 1);
    assert_eq!(build(&mut b, &[g], None), []);
    build(&mut b, &neutron(200, 0), None);
    assert_eq!((count(&b, MultiGridBuilt::Groups), count(&b, MultiGridBuilt::Ready)), (1, 1));
    assert_eq!(times(&finish(&mut b)), [ns(100), ns(200)]);
}

#[test]
fn pulses_come_first_and_modules_in_order_whatever_came_first() {
    let mut b = builder(256);
    let mut hits: Vec<_> =
        [2, 0, 1].iter().flat_map(|&m| neutron(500, m)).chain([pulse(500)]).collect();
    let mut products = Products::default();
    let time = TimeBase { pulses_in_data: true, ..TimeBase::default() };
    b.pulses = Pulses::new(&time);
    b.flush(Flush::End, &mut hits, &mut products);
    assert_eq!(products.events.pulse_ns, [ns(500)], "no reference row before the pulse");
    let pixel = |module| b.config.volume.pixel(module, 5, 7).unwrap();
    assert_eq!(products.events.pixel, [pixel(0), pixel(1), pixel(2)]);
    assert_eq!(products.events.offset_ns, [0; 3]);
}

#[test]
fn a_silent_module_plane_or_pulse_holds_nothing_up() {
    let mut b = builder(256);
    let mut given = build(&mut b, &neutron(1, 2), None);
    build(&mut b, &[pulse(2)], None);
    // Module 1 has wires only.
    build(&mut b, &[wire(3, 1, 4, 50)], None);
    for i in 1..=20 {
        given.extend(build(&mut b, &neutron(i * LATENCY / 4, 0), None));
    }
    let wanted: Vec<i64> =
        [1].into_iter().chain((1..16).map(|i| i * LATENCY / 4)).map(ns).collect();
    assert_eq!(times(&given), wanted);
    assert_eq!((count(&b, MultiGridBuilt::Bad), count(&b, MultiGridBuilt::PulsesOut)), (1, 1));
    assert_eq!(times(&finish(&mut b)).len(), 5);
}

#[test]
fn live_the_last_event_leaves_after_the_time_and_without_new_hits() {
    let mut b = builder(256);
    assert_eq!(build(&mut b, &neutron(1, 0), Some(1_000)), []);
    let step = RELEASE / 10;
    let mut left = None;
    for i in 1..=10 {
        let now = 1_000 + i * step;
        if !build(&mut b, &[], Some(now)).is_empty() {
            left = left.or(Some(i));
        }
    }
    assert_eq!(left, Some(10), "not before its time, and not after");
    assert_eq!(count(&b, MultiGridBuilt::ByTime), 1);
    assert_eq!(finish(&mut b), []);
    // A replay waits for the data.
    let mut b = builder(256);
    build(&mut b, &neutron(1, 0), None);
    assert_eq!(build(&mut b, &[], None), []);
    assert_eq!(finish(&mut b).len(), 1);
}

#[test]
fn live_nothing_waits_longer_than_the_time_while_hits_keep_coming() {
    let mut b = builder(1 << 12);
    let step = RELEASE / 50;
    let mut waiting: VecDeque<i64> = VecDeque::new();
    for i in 0..500 {
        // Ticks that hardly move: the latency window never releases anything.
        let now = i * step;
        let n = build(&mut b, &neutron(i + 1, (i % 3) as u16), Some(now)).len();
        waiting.push_back(now);
        waiting.drain(..n);
        assert!(waiting.front().is_none_or(|&came| now - came <= RELEASE + step), "{i}");
    }
    assert!(waiting.len() < 60, "an eighth of it early at most");
}

#[test]
fn too_many_waiting_give_way_in_order() {
    let mut b = builder(256);
    let hits: Vec<_> = (1..=300).flat_map(|t| neutron(t, (t % 3) as u16)).collect();
    let given = build(&mut b, &hits, None);
    assert_eq!(times(&given), (1..=128).map(ns).collect::<Vec<_>>());
    assert_eq!(count(&b, MultiGridBuilt::ByNumber), 128);
    assert_eq!(times(&finish(&mut b)), (129..=300).map(ns).collect::<Vec<_>>());
}

#[test]
fn a_step_back_finishes_what_came_before_and_order_begins_anew() {
    let mut b = builder(256);
    let far = 10 * LATENCY;
    let mut given = build(&mut b, &[neutron(far, 0), neutron(far + 1, 1)].concat(), None);
    given.extend(build(&mut b, &[neutron(3, 2), neutron(2, 0)].concat(), None));
    assert_eq!(times(&given), [ns(far), ns(far + 1)], "both open groups, before anything after");
    assert_eq!(times(&finish(&mut b)), [ns(2), ns(3)], "a small step is put in order");
    assert_eq!(
        (count(&b, MultiGridBuilt::StepsBack), count(&b, MultiGridBuilt::TimeSeqErr)),
        (1, 1)
    );
}

#[test]
fn each_rule_of_the_format_has_its_counter() {
    for (hits, line) in [
        (vec![wire(1, 0, 1, 9), wire(1, 0, 2, 9)], MultiGridBuilt::Multiplicity),
        ((0..6).map(|g| grid(1, 0, g, 9)).collect(), MultiGridBuilt::Multiplicity),
        (vec![wire(1, 0, 1, 9)], MultiGridBuilt::Bad),
        (vec![grid(1, 0, 1, 9)], MultiGridBuilt::Bad),
        (vec![wire(1, 0, 1, 0), grid(1, 0, 1, 9)], MultiGridBuilt::Bad),
        (vec![wire(1, 0, 1, 9), grid(1, 0, 1, 0)], MultiGridBuilt::Bad),
        (vec![wire(1, 0, 80, 9), grid(1, 0, 1, 9)], MultiGridBuilt::Outside),
        (vec![wire(1, 0, 1, 9), grid(1, 0, 40, 9)], MultiGridBuilt::Outside),
    ] {
        let mut b = builder(256);
        build(&mut b, &hits, None);
        assert_eq!(finish(&mut b), [], "{hits:?}");
        assert_eq!((count(&b, line), count(&b, MultiGridBuilt::Groups)), (1, 1), "{hits:?}");
    }
    let mut b = builder(256);
    build(&mut b, &[wire(1, 3, 1, 9), PlaneHit { plane: 9, ..wire(1, 0, 1, 9) }], None);
    finish(&mut b);
    assert_eq!((count(&b, MultiGridBuilt::BadPlane), count(&b, MultiGridBuilt::Groups)), (2, 0));
}

#[test]
fn amplitudes_go_along_where_they_are_wanted() {
    let mut b = builder(256);
    let (mut hits, mut products) = (neutron(8, 0).to_vec(), Products::default());
    products.want.hits = true;
    b.flush(Flush::End, &mut hits, &mut products);
    let hits = &products.hits;
    assert_eq!((&hits.time_ns[..], &hits.adc[..]), (&[500][..], &[100][..]));
    assert_eq!(hits.pixel, products.events.pixel);
}

/// Section 6 as written: groups of one module and one time, without any order of the output.
fn model(config: &MultiGridConfig, hits: &[PlaneHit]) -> Vec<(i64, u32)> {
    let mut events = Vec::new();
    for module in 0..3u16 {
        let own: Vec<&PlaneHit> =
            hits.iter().filter(|h| h.plane < 2 && h.module == module).collect();
        for group in own.chunk_by(|a, b| a.time == b.time) {
            let of = |plane: u8| -> Vec<&PlaneHit> {
                group.iter().copied().filter(|h| h.plane == plane).collect()
            };
            let (wires, grids) = (of(0), of(1));
            if wires.len() > 1 || grids.len() > 5 || wires.is_empty() || grids.is_empty() {
                continue;
            }
            let best = |hits: &[&PlaneHit]| hits.iter().map(|h| h.weight).max().unwrap();
            if best(&wires) == 0 || best(&grids) == 0 {
                continue;
            }
            let chosen = grids.iter().filter(|g| g.weight == best(&grids));
            let ys: Vec<f64> = chosen.map(|g| f64::from(g.coordinate)).collect();
            let y = (ys.iter().sum::<f64>() / ys.len() as f64 + 0.5).floor() as u16;
            let pixel = config.volume.pixel(module.into(), wires[0].coordinate, y);
            events.extend(pixel.map(|pixel| (ns(group[0].time), pixel)));
        }
    }
    events.sort_unstable();
    events
}

fn hits() -> impl Strategy<Value = Vec<PlaneHit>> {
    let step = prop_oneof![4 => 0i64..3, 2 => 0i64..LATENCY, 1 => -LATENCY / 2..0];
    let one = (step, 0u16..4, 0u8..2, 0u16..12, prop_oneof![Just(0u16), 1u16..4]);
    proptest::collection::vec(one, 1..200).prop_map(|steps| {
        let mut time = 20 * LATENCY;
        let hit = |(step, module, plane, coordinate, weight): (i64, u16, u8, u16, u16)| {
            time = (time + step).max(0);
            match module {
                3 => pulse(time),
                module => PlaneHit { time, coordinate, weight, module, plane },
            }
        };
        steps.into_iter().map(hit).collect()
    })
}

proptest! {
    /// The model's events, for any batches; and in one batch and many, the same order.
    #[test]
    fn the_events_are_those_of_the_rules(hits in hits(), cut in 1usize..20) {
        let wanted = model(&config(), &hits);
        let mut orders = Vec::new();
        for part in [cut, hits.len()] {
            let mut b = builder(256);
            let mut given: Vec<_> = hits.chunks(part).flat_map(|h| build(&mut b, h, None)).collect();
            given.extend(finish(&mut b));
            let mut sorted = given.clone();
            sorted.sort_unstable();
            prop_assert_eq!(&sorted, &wanted);
            orders.push((given, count(&b, MultiGridBuilt::StepsBack), b));
        }
        prop_assert_eq!(&orders[0].0, &orders[1].0);
        if orders[0].1 == 0 {
            prop_assert!(times(&orders[0].0).is_sorted(), "one stream of rising time");
        }
    }

    /// Any clock: the same events, balanced at every step, and none left.
    #[test]
    fn a_clock_changes_when_events_leave_and_not_which(
        hits in hits(), waits in proptest::collection::vec(0i64..RELEASE, 1..20),
    ) {
        // A group that is given up to the clock and then goes on would be two.
        let apart: Vec<PlaneHit> = hits.chunk_by(|a, b| a.time == b.time).enumerate().flat_map(|(i, g)| {
            g.iter().map(move |h| PlaneHit { time: 20 * LATENCY + i as i64 * 10, ..*h })
        }).collect();
        let wanted = model(&config(), &apart);
        let (mut b, mut now, mut given) = (builder(256), 0, Vec::new());
        for (group, wait) in apart.chunk_by(|a, b| a.time == b.time).zip(waits.iter().cycle()) {
            now += wait;
            given.extend(build(&mut b, group, Some(now)));
        }
        given.extend(build(&mut b, &[], Some(now + RELEASE)));
        given.extend(build(&mut b, &[], Some(now + 2 * RELEASE)));
        prop_assert_eq!(b.waiting.len(), 0, "everything has left by then");
        given.extend(finish(&mut b));
        prop_assert!(times(&given).is_sorted());
        given.sort_unstable();
        prop_assert_eq!(given, wanted);
    }
}
