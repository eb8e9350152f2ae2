//! Tests of plan, order, state file and judgement, with outcomes made up instead of measured.

use super::state::{CampaignState, StateError};
use super::*;
use crate::agent::engine::Method;

pub(super) fn plan() -> CampaignPlan {
    CampaignPlan {
        name: "test".into(),
        place: "loopback".into(),
        sizes: vec![64, 128],
        series: vec![Parameters::kernel(), Parameters::tuned()],
        ablation: false,
        load: OfferedLoad::Offered(10e9),
        volume: TrialVolume::Milliseconds(10_000),
        warm_up_ms: 1000,
        repeats: 2,
        cpu_interval_ms: Some(10_000),
        cores: (Some(1), Some(2)),
        near: false,
        link_bits_per_s: 10e9,
        fragments: true,
    }
}

pub(super) fn outcome(received_gbps: f64, lost: u64) -> TrialOutcome {
    let lost_at = if lost > 0 { vec![("socket".to_owned(), lost)] } else { Vec::new() };
    TrialOutcome {
        sent: 1000,
        delivered: 1000 - lost,
        lost,
        lost_at,
        sent_gbps: 10.0,
        received_gbps,
        ..TrialOutcome::default()
    }
}

/// Gives speeds in turn and notes what was asked; fails at trial `fails_at`.
pub(super) struct Prepared {
    pub asked: Vec<(String, usize, TrialVolume, bool)>,
    pub fails_at: usize,
}

impl Ground for Prepared {
    fn measure(
        &mut self,
        parameters: &Parameters,
        size: usize,
        volume: TrialVolume,
        interval: Option<Duration>,
    ) -> Result<TrialOutcome, CampaignError> {
        if self.asked.len() == self.fails_at {
            return Err(CampaignError::Interrupted);
        }
        self.asked.push((parameters.name.clone(), size, volume, interval.is_some()));
        Ok(outcome(self.asked.len() as f64, 0))
    }

    fn found(&self) -> Value {
        Value::Null
    }
}

pub(super) fn run(
    plan: CampaignPlan,
    state: &mut CampaignState,
    fails_at: usize,
) -> Result<Campaign, CampaignError> {
    let mut ground = Prepared { asked: Vec::new(), fails_at };
    Campaign::run(plan, &mut ground, state, &mut |_| ())
}

#[test]
fn repeats_go_round_and_the_cpu_pass_comes_last() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = CampaignState::begin(&dir.path().join("s"), &plan(), None, true).unwrap();
    let mut ground = Prepared { asked: Vec::new(), fails_at: usize::MAX };
    let mut lines = Vec::new();
    let campaign =
        Campaign::run(plan(), &mut ground, &mut state, &mut |l| lines.push(l.to_owned()));
    let campaign = campaign.unwrap();
    // Each trial is preceded by its warm-up.
    assert_eq!(ground.asked.len(), 2 * 12);
    assert!(ground.asked.iter().step_by(2).all(|a| a.2 == TrialVolume::Milliseconds(1000) && !a.3));
    let asked: Vec<_> =
        ground.asked.iter().skip(1).step_by(2).map(|(n, s, _, i)| (n.as_str(), *s, *i)).collect();
    assert_eq!(
        asked[..5],
        [
            ("default", 64, false),
            ("default", 128, false),
            ("tuned", 64, false),
            ("tuned", 128, false),
            ("default", 64, false)
        ]
    );
    assert_eq!(asked[8], ("default", 64, true));
    assert_eq!(lines[0], "[1/12] default, 64 B, 10 Gb/s: running, 2 min 16 s left");
    assert_eq!(
        lines[1],
        "[1/12] default, 64 B, 10 Gb/s: 2.00 Gb/s, 0.000 M packets/s, lost 0, unaccounted 0"
    );
    assert!(lines[16].starts_with("[9/12] default, 64 B, 10 Gb/s, CPU: running"), "{}", lines[16]);
    assert_eq!(campaign.trials("tuned", 64).count(), 2);
    assert!(campaign.cpu_trial("tuned", 128).is_some());
    assert!(campaign.lossless() && campaign.shortfalls().is_empty());
}

#[test]
fn an_interrupted_campaign_goes_on_where_it_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let path = CampaignState::path_of(dir.path(), "test");
    let plan = CampaignPlan { warm_up_ms: 0, ..plan() };
    let revision = || Some("abc".to_owned());
    let mut state = CampaignState::begin(&path, &plan, revision(), true).unwrap();
    let e = run(plan.clone(), &mut state, 5).unwrap_err();
    assert!(e.to_string().contains("--resume"), "{e}");
    drop(state);
    // The kill came in the middle of a line.
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str("{\"point\":{\"pa");
    std::fs::write(&path, text).unwrap();
    let mut state = CampaignState::resume(&path, &plan, revision()).unwrap();
    assert_eq!(state.len(), 5);
    let mut ground = Prepared { asked: Vec::new(), fails_at: usize::MAX };
    let campaign = Campaign::run(plan.clone(), &mut ground, &mut state, &mut |_| ()).unwrap();
    assert_eq!((ground.asked.len(), campaign.done.len()), (7, 12));
    assert_eq!(campaign.done[4].outcome.received_gbps, 5.0, "measured before");
    assert_eq!(campaign.done[5].outcome.received_gbps, 1.0, "measured now");
    // All is there: nothing is measured again.
    drop(state);
    let mut state = CampaignState::resume(&path, &plan, revision()).unwrap();
    assert_eq!(run(plan, &mut state, 0).unwrap(), campaign);
    state.finish();
    assert!(!path.exists());
}

#[test]
fn another_plan_or_revision_is_not_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let e = CampaignState::resume(&path, &plan(), None).unwrap_err();
    assert!(matches!(&e, StateError::Nothing { .. }), "{e}");
    drop(CampaignState::begin(&path, &plan(), Some("abc".into()), true).unwrap());
    let e = CampaignState::resume(&path, &plan(), Some("def".into())).unwrap_err();
    assert!(e.to_string().contains("had revision abc, this one has def"), "{e}");
    let other = CampaignPlan { repeats: 3, ..plan() };
    let e = CampaignState::resume(&path, &other, Some("abc".into())).unwrap_err();
    assert!(e.to_string().contains("had repeats 2, this one has 3"), "{e}");
    for (text, what) in [("", "empty"), ("{}\n", "line 1"), ("x\n", "line 1")] {
        std::fs::write(&path, text).unwrap();
        let e = CampaignState::resume(&path, &plan(), None).unwrap_err();
        assert!(e.to_string().contains(what), "{e}");
    }
    let good = dir.path().join("good");
    drop(CampaignState::begin(&good, &plan(), None, true).unwrap());
    let text = std::fs::read_to_string(&good).unwrap() + "nonsense\n";
    std::fs::write(&good, text).unwrap();
    let e = CampaignState::resume(&good, &plan(), None).unwrap_err();
    assert!(e.to_string().contains("line 2"), "{e}");
}

#[test]
fn plans_that_cannot_be_are_refused() {
    assert!(plan().check().is_ok());
    let twice = vec![Parameters::tuned(), Parameters::tuned()];
    for (plan, part) in [
        (CampaignPlan { sizes: vec![], ..plan() }, "--sizes"),
        (CampaignPlan { sizes: vec![23], ..plan() }, "--sizes 23"),
        (CampaignPlan { sizes: vec![64, 64], ..plan() }, "nothing twice"),
        (CampaignPlan { load: OfferedLoad::Offered(900e9), ..plan() }, "--rate 900 Gb/s: at 64 B"),
        (CampaignPlan { load: OfferedLoad::Offered(0.0), ..plan() }, "--rate"),
        (CampaignPlan { repeats: 0, ..plan() }, "--repeats"),
        (CampaignPlan { volume: TrialVolume::Milliseconds(0), ..plan() }, "--duration"),
        (CampaignPlan { volume: TrialVolume::Bytes(0), ..plan() }, "--volume"),
        (CampaignPlan { series: vec![], ..plan() }, "--parameters"),
        (CampaignPlan { series: twice, ..plan() }, "nothing twice"),
        (CampaignPlan { link_bits_per_s: 0.0, ..plan() }, "--link-speed"),
        (CampaignPlan { cpu_interval_ms: Some(0), ..plan() }, "--cpu-interval"),
        (CampaignPlan { sizes: vec![1473], fragments: false, ..plan() }, "at most 1472 B"),
    ] {
        let e = plan.check().unwrap_err();
        assert!(e.to_string().contains(part), "{e}");
    }
    let fits = CampaignPlan { sizes: vec![1472], fragments: false, ..plan() };
    assert!(fits.check().is_ok());
}

#[test]
fn what_was_lost_or_not_sent_is_said() {
    let point = |size| CampaignPoint { pass: Pass::Speed(0), series: "tuned".into(), size };
    let done = |size, outcome| Done { point: point(size), outcome };
    let slow = TrialOutcome { sent_gbps: 9.8, ..outcome(9.8, 0) };
    let slower = TrialOutcome { sent_gbps: 9.0, ..outcome(9.0, 1) };
    let all = vec![done(64, outcome(10.0, 0)), done(128, slow), done(128, slower)];
    let campaign = Campaign { plan: plan(), done: all };
    assert!(!campaign.lossless());
    assert_eq!(campaign.shortfalls(), ["tuned, 128 B: asked for 10 Gb/s, only 9.00 were sent"]);
    let flat = Campaign { plan: CampaignPlan { load: OfferedLoad::FlatOut, ..plan() }, ..campaign };
    assert!(flat.shortfalls().is_empty());
    let none = Campaign { plan: plan(), done: vec![] };
    assert!(!none.lossless(), "nothing measured proves nothing");
}

#[test]
fn volumes_become_packets_and_speeds_have_a_ceiling() {
    assert_eq!(TrialVolume::Bytes(400_000_000_000).extent(8972), Extent::Packets(44_583_148));
    assert_eq!(TrialVolume::Bytes(1).extent(64), Extent::Packets(1));
    assert_eq!(TrialVolume::Milliseconds(5).extent(64), Extent::Milliseconds(5));
    // 64 B of payload: 64 + 28 + 18 + 20 = 130 B on the wire.
    let p = Parameters::kernel();
    assert!((theoretical_gbps(&p, 64, 10e9) - 10.0 * 64.0 / 130.0).abs() < 1e-9);
    assert!((theoretical_gbps(&p, 1472, 10e9) - 10.0 * 1472.0 / 1538.0).abs() < 1e-9);
    let xdp = CampaignPlan {
        place: "namespaces".into(),
        series: vec![Parameters::kernel().with_method(Method::XDP)],
        sizes: vec![1472, 1473],
        ..plan()
    };
    let e = xdp.check().unwrap_err().to_string();
    assert!(e.contains("1473") && e.contains("engine xdp puts no fragments together"), "{e}");
    assert!(CampaignPlan { sizes: vec![1472], ..xdp }.check().is_ok());
    let jumbo = Parameters::tuned().with_method(Method::named("plain").unwrap());
    assert!((theoretical_gbps(&jumbo, 8972, 10e9) - 10.0 * 8972.0 / 9038.0).abs() < 1e-9);
}
