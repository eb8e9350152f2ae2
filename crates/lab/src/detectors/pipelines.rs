//! 1…n pipelines at once: each detector n times, then all of them mixed, each with packets of its own.
//!
//! One of each alone is always measured, as everything is told in units of it. Pipelines are pinned one a core as far as
//! there are cores; the rest run where the system puts them, and that is said.

use super::copy;
use super::scaling::{Member, Scaling, ScalingPoint};
use fullcount_core::quantity::short_text as short;
use fullcount_detect::detector::Threads;
use fullcount_engine::stop::Stop;

use super::at_once::{Pipeline, at_once};
use super::campaign::{SpeedPlan, stopped};
use super::chain::{ChainOutcome, DecoderPart};
use super::image::PacketImage;
use super::job::DetectorJob;
use super::progress::StepProgress;
use crate::error::LabError;

/// Ascending, with 1 if there are any.
pub fn numbers(asked: &[usize]) -> Vec<usize> {
    let mut all = asked.to_vec();
    if !all.is_empty() {
        all.push(1);
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Sets of jobs: each alone, then all of them if there are several.
fn sets<'a>(jobs: &[&'a DetectorJob]) -> Vec<(String, Vec<&'a DetectorJob>)> {
    let several = |d: &str| jobs.iter().filter(|j| j.input.detector == d).count() > 1;
    let name = |j: &DetectorJob| match several(&j.input.detector) {
        true => j.input.title(),
        false => j.input.detector.clone(),
    };
    let mut sets: Vec<_> = jobs.iter().map(|&j| (name(j), vec![j])).collect();
    if jobs.len() > 1 {
        sets.push(("mixed".to_owned(), jobs.to_vec()));
    }
    sets
}

/// Points of each set: one pipeline cannot be mixed.
fn points<'a>(set: &[&DetectorJob], numbers: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
    let least = if set.len() > 1 { 2 } else { 1 };
    numbers.iter().copied().filter(move |&n| n >= least)
}

/// Points in all.
pub fn trials(jobs: &[&DetectorJob], numbers: &[usize]) -> usize {
    sets(jobs).iter().map(|(_, set)| points(set, numbers).count()).sum()
}

/// Measures them all.
pub fn run(
    jobs: &[&DetectorJob],
    numbers: &[usize],
    plan: &SpeedPlan,
    stop: &Stop,
    progress: &mut StepProgress,
) -> Result<Scaling, LabError> {
    let (mut scaling, alone) = (Scaling::default(), Threads::of(1));
    for (name, set) in sets(jobs) {
        let most = points(&set, numbers).last().unwrap_or(0);
        (plan.tell)(&format!("{name}: preparing packets for {most} pipelines"));
        let turn = |at: usize| set[at % set.len()];
        let images: Vec<PacketImage> = (0..most)
            .map(|at| turn(at).input.image(&*turn(at).detector, plan.memory))
            .collect::<Result<_, _>>()?;
        for n in points(&set, numbers) {
            let cores: Vec<Option<usize>> = (0..n).map(|at| plan.core(at)).collect();
            let pipeline = |at: usize| Pipeline {
                part: DecoderPart::Whole,
                detector: &*turn(at).detector,
                image: &images[at],
                core: cores[at],
                threads: &alone,
            };
            let pipelines: Vec<Pipeline<'_>> = (0..n).map(pipeline).collect();
            let mut trials = vec![];
            for _ in 0..plan.repeats {
                let outcomes = at_once(&pipelines, plan.time, &|| stop.requested(), plan.tell)?;
                stopped(stop)?;
                if let Some(Err(why)) = outcomes.first().map(|o| &o.misses) {
                    scaling.no_misses = Some(why.clone());
                }
                let members = outcomes.iter().enumerate().map(|(at, o)| member(turn(at), o));
                let members: Vec<Member> = members.collect();
                let readouts: f64 = members.iter().filter_map(|m| m.rates.readouts).sum();
                progress.done(&format!("{name}, {n} at once: {} readouts/s", short(readouts)));
                trials.push(members);
            }
            let copy = copy::bandwidth(&cores, plan.copy_time());
            let pinned = cores.iter().flatten().count();
            scaling.points.push(ScalingPoint {
                set: name.clone(),
                pipelines: n,
                pinned,
                trials,
                copy,
            });
        }
    }
    Ok(scaling)
}

fn member(job: &DetectorJob, outcome: &ChainOutcome) -> Member {
    let misses = outcome.misses.as_ref().ok();
    Member {
        detector: job.input.detector.clone(),
        input: job.input.name.to_owned(),
        rates: outcome.amounts.over(outcome.seconds),
        misses: misses.map(|&n| n as f64 / outcome.amounts.packets.max(1) as f64),
    }
}
