//! The search on made-up hosts: a clear border, noise, holes, and hosts that say anything.

use proptest::prelude::*;

use super::*;

fn plan() -> SearchPlan {
    SearchPlan {
        floor: 1.0,
        ceiling: 1000.0,
        resolution: 0.01,
        trial: Duration::from_secs(1),
        confirm: Duration::from_secs(5),
        confirmations: 3,
        retries: 1,
    }
}

/// Runs a search; gives its end and all trials with their verdicts.
fn run(
    plan: SearchPlan,
    mut host: impl FnMut(TrialOrder) -> Verdict,
) -> (SearchStep, Vec<(TrialOrder, Verdict)>) {
    let mut search = Search::new(plan).unwrap();
    let mut trials = Vec::new();
    loop {
        match search.next() {
            SearchStep::Trial(ask) => {
                assert_eq!(search.next(), SearchStep::Trial(ask), "asking changes nothing");
                let verdict = host(ask);
                trials.push((ask, verdict));
                search.report(verdict);
                assert!(trials.len() <= plan.most_trials() as usize, "endless");
            }
            end => {
                search.report(Verdict::Lossy);
                assert_eq!(search.next(), end, "the end stays");
                assert_eq!(search.left(), Duration::ZERO);
                return (end, trials);
            }
        }
    }
}

fn below(border: f64) -> impl FnMut(TrialOrder) -> Verdict {
    move |ask| if ask.rate <= border { Verdict::Lossless } else { Verdict::Lossy }
}

fn found(end: SearchStep) -> ConfirmedRate {
    let SearchStep::Found(found) = end else { panic!("{end:?}") };
    found
}

#[test]
fn a_clear_border_is_found_within_the_resolution() {
    let (end, trials) = run(plan(), below(123.4));
    let found = found(end);
    assert!(found.rate <= 123.4 && found.rate >= 123.4 * 0.99, "{found:?}");
    assert!(found.failed.unwrap() > 123.4);
    assert_eq!((found.limit, found.failed_confirmations), (SearchLimit::Loss, 0));
    // Ceiling, floor, 10 bisections (ln 1000 / 0.01005 = 687 < 2^10), half of them twice at most.
    assert!(trials.len() <= 2 * 12 + 3, "{}", trials.len());
    assert_eq!(trials[0].0.rate, 1000.0);
    let last = trials[trials.len() - 3..].iter();
    assert!(last.clone().all(|(a, v)| a.rate == found.rate && *v == Verdict::Lossless));
    assert!(last.clone().all(|(a, _)| a.length == Duration::from_secs(5)));
    assert_eq!(last.last().unwrap().0.phase, SearchPhase::Confirm { number: 3, of: 3 });
    assert_eq!(found.trials as usize, trials.len());
}

#[test]
fn a_host_that_never_loses_is_limited_by_the_ceiling() {
    let (end, trials) = run(plan(), |_| Verdict::Lossless);
    let found = found(end);
    assert_eq!((found.rate, found.limit, found.failed), (1000.0, SearchLimit::Ceiling, None));
    assert_eq!(trials.len(), 4, "one trial and three confirmations");
}

#[test]
fn a_host_that_always_loses_ends_at_the_floor() {
    let (end, trials) = run(plan(), |_| Verdict::Lossy);
    assert_eq!(end, SearchStep::Nothing(SearchLimit::Loss, 4));
    assert_eq!(trials.len(), 4, "ceiling and floor, twice each");
    let one = SearchPlan { floor: 5.0, ceiling: 5.0, retries: 0, ..plan() };
    assert_eq!(run(one, |_| Verdict::Lossy).0, SearchStep::Nothing(SearchLimit::Loss, 1));
    assert_eq!(found(run(one, below(5.0)).0).rate, 5.0);
}

#[test]
fn a_sender_that_is_too_slow_is_named_as_the_limit() {
    let host = |ask: TrialOrder| {
        if ask.rate <= 50.0 { Verdict::Lossless } else { Verdict::Short { offered: 50.0 } }
    };
    let found = found(run(plan(), host).0);
    assert_eq!(found.limit, SearchLimit::Sender);
    assert!(found.rate <= 50.0 && found.rate >= 49.5, "{found:?}");
}

#[test]
fn a_sender_that_falls_behind_without_loss_confirms_what_it_sent() {
    let mut sent = [80.0, 60.0, 70.0].into_iter();
    let (end, trials) = run(plan(), |ask| match ask.phase {
        SearchPhase::Search => Verdict::Lossless,
        SearchPhase::Confirm { .. } => Verdict::Short { offered: sent.next().unwrap() },
    });
    let found = found(end);
    assert_eq!((found.rate, found.asked, found.limit), (60.0, 1000.0, SearchLimit::Sender));
    assert_eq!((trials.len(), found.failed, found.failed_confirmations), (4, Some(1000.0), 0));
    // A loss is a loss, whatever was sent before.
    let mut n = 0;
    let (end, _) = run(plan(), |ask| match ask.phase {
        SearchPhase::Confirm { .. } if ask.rate > 900.0 => {
            n += 1;
            if n == 2 { Verdict::Lossy } else { Verdict::Short { offered: 60.0 } }
        }
        _ => Verdict::Lossless,
    });
    let found = self::found(end);
    assert_eq!((found.rate, found.asked, found.failed_confirmations), (60.0, 990.0, 1));
}

#[test]
fn what_a_slow_sender_sent_without_loss_is_not_searched_below() {
    // It reaches what is asked up to 90, and falls to 60 above.
    let host = |ask: TrialOrder| {
        if ask.rate <= 90.0 { Verdict::Lossless } else { Verdict::Short { offered: 60.0 } }
    };
    let (end, trials) = run(plan(), host);
    let found = found(end);
    assert_eq!(found.limit, SearchLimit::Sender);
    assert!(found.rate <= 90.0 && found.rate >= 89.1, "{found:?}");
    assert!(trials.iter().all(|(ask, _)| ask.rate >= 60.0), "{trials:?}");
    // A loss above what was sent counts as one.
    let host = |ask: TrialOrder| match ask.rate {
        r if r > 500.0 => Verdict::Short { offered: 100.0 },
        r if r > 300.0 => Verdict::Lossy,
        _ => Verdict::Lossless,
    };
    let found = self::found(run(plan(), host).0);
    assert_eq!(found.limit, SearchLimit::Loss);
    assert!(found.rate <= 300.0 && found.rate >= 297.0, "{found:?}");
}

#[test]
fn one_hiccup_in_the_search_costs_a_retry_not_the_result() {
    for hiccup in 1..12 {
        let mut n = 0;
        let mut border = below(700.0);
        let (end, _) = run(plan(), |ask| {
            n += 1;
            if n == hiccup { Verdict::Lossy } else { border(ask) }
        });
        assert!(found(end).rate >= 693.0, "hiccup in trial {hiccup}: {end:?}");
    }
}

#[test]
fn longer_trials_that_lose_lower_the_rate_and_the_gap_is_closed_again() {
    // Short trials pass up to 800, long ones only up to 300: a buffer that takes a while to fill.
    let (end, trials) = run(plan(), |ask| {
        let border = if ask.phase == SearchPhase::Search { 800.0 } else { 300.0 };
        if ask.rate <= border { Verdict::Lossless } else { Verdict::Lossy }
    });
    let found = found(end);
    assert!(found.rate <= 300.0 && found.rate >= 297.0, "{found:?}");
    // 1, 2, 4, ... 50 % down from 800, then bisection: not 98 steps of 1 %.
    assert!(found.failed_confirmations >= 5 && found.failed_confirmations <= 15, "{found:?}");
    assert!(trials.len() < 60, "{}", trials.len());
}

#[test]
fn a_confirmation_that_always_fails_ends_with_nothing() {
    let host = |ask: TrialOrder| match ask.phase {
        SearchPhase::Search => Verdict::Lossless,
        SearchPhase::Confirm { .. } => Verdict::Lossy,
    };
    let (end, _) = run(plan(), host);
    assert!(matches!(end, SearchStep::Nothing(SearchLimit::Loss, _)), "{end:?}");
}

#[test]
fn a_hole_below_the_border_is_not_reported_as_lossless() {
    // Loses between 100 and 200 and above 900.
    let loses = |rate: f64| (100.0..200.0).contains(&rate) || rate > 900.0;
    let host = |ask: TrialOrder| if loses(ask.rate) { Verdict::Lossy } else { Verdict::Lossless };
    let found = found(run(plan(), host).0);
    assert!(!loses(found.rate), "{found:?}");
}

#[test]
fn the_time_left_shrinks_to_nothing() {
    let mut search = Search::new(plan()).unwrap();
    let first = search.left();
    // Two trials, 10 bisections with half of them repeated, three of 5 s.
    assert!((20..=40).contains(&first.as_secs()), "{first:?}");
    let (mut before, mut border) = (first, below(200.0));
    while let SearchStep::Trial(ask) = search.next() {
        assert!(search.left() <= before + plan().trial, "{:?}", search.left());
        before = search.left();
        search.report(border(ask));
    }
}

#[test]
fn plans_that_cannot_be_followed_are_refused() {
    let ok = plan();
    for (bad, word) in [
        (SearchPlan { floor: 0.0, ..ok }, "floor"),
        (SearchPlan { floor: 2000.0, ..ok }, "floor"),
        (SearchPlan { floor: f64::NAN, ..ok }, "floor"),
        (SearchPlan { ceiling: f64::INFINITY, ..ok }, "floor"),
        (SearchPlan { resolution: 0.0001, ..ok }, "0.05%"),
        (SearchPlan { resolution: 0.6, ..ok }, "50%"),
        (SearchPlan { trial: Duration::ZERO, ..ok }, "trial"),
        (SearchPlan { confirm: Duration::ZERO, ..ok }, "confirmation"),
        (SearchPlan { confirmations: 0, ..ok }, "at least 1"),
    ] {
        let e = Search::new(bad).unwrap_err().to_string();
        assert!(e.contains(word), "{e}");
    }
}

fn plans() -> impl Strategy<Value = SearchPlan> {
    let range = (0.001f64..1e6, 1.0f64..1e5);
    (range, 0.001f64..0.3, 1u32..5, 0u32..3).prop_map(
        |((floor, times), resolution, confirmations, retries)| {
            let ceiling = floor * times;
            SearchPlan { floor, ceiling, resolution, confirmations, retries, ..plan() }
        },
    )
}

proptest! {
    #[test]
    fn any_border_is_found(plan in plans(), at in 0.0f64..1.2) {
        let border = plan.floor * (plan.ceiling / plan.floor).powf(at);
        let found = found(run(plan, below(border)).0);
        prop_assert!(found.rate <= border);
        let most = border.min(plan.ceiling);
        prop_assert!(found.rate >= most * (1.0 - plan.resolution) * (1.0 - 1e-6), "{:?}", found);
        prop_assert_eq!(found.limit == SearchLimit::Ceiling, border >= plan.ceiling);
    }

    /// A host that answers anything: the search ends, and what it found was confirmed and is below
    /// everything that failed.
    #[test]
    fn whatever_the_host_says(plan in plans(), answers in prop::collection::vec(0u8..3, 1..400)) {
        let mut n = 0;
        let (end, trials) = run(plan, |ask| {
            n += 1;
            match answers[n % answers.len()] {
                0 => Verdict::Lossy,
                1 => Verdict::Short { offered: ask.rate * 0.9 },
                _ => Verdict::Lossless,
            }
        });
        let range = plan.floor * (1.0 - 1e-9)..=plan.ceiling * (1.0 + 1e-9);
        prop_assert!(trials.iter().all(|(a, _)| range.contains(&a.rate)));
        if let SearchStep::Found(found) = end {
            let at = |good: bool| {
                let hit = |(a, v): &&(TrialOrder, Verdict)| {
                    let same = a.rate == found.asked && a.phase != SearchPhase::Search;
                    same && (*v != Verdict::Lossy) == good
                };
                trials.iter().filter(hit).count()
            };
            prop_assert_eq!((at(true), at(false)), (plan.confirmations as usize, 0));
            prop_assert!(found.failed.is_none_or(|f| f > found.rate));
            prop_assert!(found.rate == found.asked || found.limit == SearchLimit::Sender);
        }
    }

    /// A border blurred by 2 %: repeated searches stay within 5 %.
    #[test]
    fn a_blurred_border_is_found_again(seed in any::<u64>()) {
        let mut state = seed | 1;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let found = found(run(plan(), |ask| {
            if ask.rate <= 400.0 * (0.98 + 0.02 * random()) { Verdict::Lossless } else { Verdict::Lossy }
        }).0);
        prop_assert!((380.0..=400.0).contains(&found.rate), "{:?}", found);
    }
}
