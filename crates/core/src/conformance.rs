//! The suite that every output must pass, inside this workspace or outside: everything that it reports as
//! safe must be safe.
//!
//! [`output`] gives an output batches of two pipelines, some of them without anything to write, and asks it
//! after each which batches are safe. Deterministic: time is an argument. Outputs that can drop have their
//! own tests that the answer does not pass a dropped batch.

use std::sync::Arc;
use std::time::Duration;

use crate::products::Products;
use crate::progress::{BatchNumber, Flush};
use crate::sink::Sink;

/// An output under test.
pub struct OutputCase<'a> {
    /// Fresh.
    pub sink: &'a mut dyn Sink,
    /// Puts one thing into products that the output writes; the number tells things apart, from 0.
    pub fill: &'a dyn Fn(&mut Products, u64),
    /// How many of these things would be found if the process were killed now. Called after the end as well.
    pub kept: &'a mut dyn FnMut() -> u64,
    /// Nothing is found before the output is closed.
    pub at_close: bool,
}

/// Batches of a pipeline before the output is left alone.
const BATCHES: u64 = 40;
/// An output that is left alone must have written by then.
const CATCHES_UP: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_millis(100);

/// What was given and answered.
struct Run<'a, 'b> {
    case: &'b mut OutputCase<'a>,
    now: Duration,
    things: u64,
    /// By pipeline and batch: things up to it, from batch 0.
    given: [Vec<u64>; 2],
    answers: [u64; 2],
}

impl Run<'_, '_> {
    fn push(&mut self, pipeline: usize, thing: bool, flush: Option<Flush>) -> Result<(), String> {
        let mut products = Products { want: self.case.sink.want(), flush, ..Products::default() };
        if thing {
            (self.case.fill)(&mut products, self.things);
            self.things += 1;
        }
        let given = &mut self.given[pipeline];
        let before = given.last().copied().unwrap_or(0);
        given.push(before + u64::from(thing));
        let batch = given.len() as u64 - 1;
        products.complete = BatchNumber { pipeline: pipeline as u32, batch };
        self.case.sink.push(&Arc::new(products)).map_err(|e| e.to_string())?;
        self.look()
    }

    fn tick(&mut self) -> Result<(), String> {
        self.now += TICK;
        self.case.sink.tick(self.now).map_err(|e| e.to_string())?;
        self.look()
    }

    /// Every answer is of a batch that was given, and never goes back.
    fn look(&mut self) -> Result<(), String> {
        for (pipeline, given) in (0..).zip(&self.given) {
            let (safe, newest) = (self.case.sink.safe(pipeline), given.len() as u64 - 1);
            let before = std::mem::replace(&mut self.answers[pipeline as usize], safe);
            if safe > newest || safe < before {
                return Err(format!("batch {safe} is safe, of {newest}, and before {before} was"));
            }
        }
        match self.case.sink.safe(2) {
            0 => Ok(()),
            safe => Err(format!("batch {safe} is safe of a pipeline that gave none")),
        }
    }

    /// What is said to be safe is found.
    fn is_kept(&mut self) -> Result<(), String> {
        let kept = (self.case.kept)();
        let safe = self.given.iter().zip(self.answers).map(|(given, safe)| given[safe as usize]);
        match safe.sum::<u64>() {
            safe if safe > kept => Err(format!("{safe} things are safe, and {kept} are found")),
            _ => Ok(()),
        }
    }

    fn has_all(&self, when: &str) -> Result<(), String> {
        let newest = self.given.each_ref().map(|given| given.len() as u64 - 1);
        match self.answers == newest {
            true => Ok(()),
            false => Err(format!("{when}: safe are {:?} of {newest:?}", self.answers)),
        }
    }
}

/// Runs the suite and finishes the output.
///
/// # Errors
/// The first thing that is wrong, or words of the output.
pub fn output(mut case: OutputCase<'_>) -> Result<(), String> {
    let at_close = case.at_close;
    let given = [vec![0], vec![0]];
    let mut run = Run { case: &mut case, now: Duration::ZERO, things: 0, given, answers: [0; 2] };
    run.look()?;
    for n in 0..BATCHES {
        // Every fourth batch has nothing for this output.
        run.push(0, n % 4 != 3, None)?;
        run.push(1, n % 4 != 1, None)?;
        if n % 4 == 0 {
            run.tick()?;
            run.is_kept()?;
        }
    }
    let end = run.now + CATCHES_UP;
    while run.now < end {
        run.tick()?;
    }
    run.is_kept()?;
    if !at_close {
        run.has_all("left alone")?;
    }
    run.push(0, true, None)?;
    run.push(1, true, Some(Flush::Taken))?;
    run.tick()?;
    run.is_kept()?;
    if !at_close {
        run.has_all("after flush(Taken)")?;
    }
    // Nothing to write at all.
    run.push(0, false, None)?;
    run.push(0, true, None)?;
    run.case.sink.finish().map_err(|e| e.to_string())?;
    run.look()?;
    run.is_kept()?;
    run.has_all("after the end")
}
