//! Which detectors are measured with which inputs; each configured as `run` would.
//!
//! Refuses: unknown detectors and inputs, a flag for a detector that is not measured, and what the detector itself
//! refuses.

use std::path::{Path, PathBuf};

use fullcount_detect::detector::{Detector, registered};
use fullcount_detect::instructions::Instructions;
use fullcount_engine::config::refuse;
use fullcount_engine::run::configure;

use super::input::{self, CAPTURE, CAPTURES, Input, SIMULATED};
use super::scratch::ScratchFiles;
use crate::Tell;
use crate::error::LabError;
use fullcount_engine::config::Overlay;

/// What is measured, as the flags have it.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Detectors; empty: all that have an input.
    pub detectors: Vec<String>,
    /// Inputs by name; empty: those that the way of measuring prefers.
    pub inputs: Vec<String>,
    /// Captures that are repeated instead: `KIND=FILE`, or `KIND=FILE?port=N`.
    pub captures: Vec<String>,
    /// Geometry files: `KIND=FILE`.
    pub geometries: Vec<String>,
    /// Keys of detectors' configurations: `KIND.KEY=VALUE`.
    pub settings: Vec<String>,
    /// Folder of the recorded packets.
    pub vectors: PathBuf,
    /// What decoders use of the processor; `None`: the largest that it has.
    pub instructions: Option<String>,
}

/// A detector, configured for an input.
pub struct DetectorJob {
    /// What it is given.
    pub input: Input,
    /// It.
    pub detector: Box<dyn Detector>,
    /// Its geometry file.
    pub geometry: Option<PathBuf>,
    /// Its settings: `detector.KEY=VALUE`, and the instructions if they were named.
    pub settings: Vec<String>,
}

/// `KIND=REST` of a flag.
fn split<'a>(flag: &'static str, text: &'a str) -> Result<(&'a str, &'a str), LabError> {
    let parts = text.split_once('=').filter(|(kind, rest)| !kind.is_empty() && !rest.is_empty());
    let usual = registered().usual();
    parts.ok_or_else(|| refuse(flag, text, format!("KIND=FILE, e.g. {usual}=run42.pcapng")).into())
}

impl Choice {
    /// What is simulated for one detector.
    pub fn simulated(kind: &str) -> Choice {
        let (detectors, inputs) = (vec![kind.to_owned()], vec![SIMULATED.to_owned()]);
        Choice { detectors, inputs, ..Choice::default() }
    }

    /// All jobs, each detector's together.
    ///
    /// # Errors
    /// What is refused.
    pub fn jobs(&self, scratch: &ScratchFiles, tell: Tell) -> Result<Vec<DetectorJob>, LabError> {
        let kinds = self.kinds()?;
        self.instructions()?;
        let captures = self.captures()?;
        let mut jobs = vec![];
        for kind in &kinds {
            let given: Vec<Input> =
                captures.iter().filter(|c| c.detector == *kind).cloned().collect();
            let inputs = if given.is_empty() { self.inputs(kind)? } else { given };
            for input in inputs {
                match self.job(input, scratch) {
                    Ok(job) => jobs.push(job),
                    // One that nobody asked for and that needs a geometry which nobody gave.
                    Err(LabError::Refused(why))
                        if self.detectors.is_empty() && !self.names(kind) =>
                    {
                        tell(&format!("{kind} is left out: {why}"));
                    }
                    Err(e) => return Err(e),
                }
            }
        }
        if jobs.is_empty() {
            return Err(refuse("detector", "none", "one that can be configured here").into());
        }
        Ok(jobs)
    }

    /// What decoders use.
    ///
    /// # Errors
    /// This processor does not have it.
    pub fn instructions(&self) -> Result<Instructions, LabError> {
        let name = self.instructions.as_deref().unwrap_or("auto");
        let found = Instructions::named(name);
        Ok(found.map_err(|e| refuse("instructions", name, e.to_string()))?)
    }

    /// True if a flag is about this detector.
    fn names(&self, kind: &str) -> bool {
        let about = |text: &String| {
            let rest = text.strip_prefix(kind);
            rest.is_some_and(|r| r.starts_with(['=', '.']))
        };
        [&self.captures, &self.geometries, &self.settings].into_iter().flatten().any(about)
    }

    /// Detectors in the order of measuring.
    fn kinds(&self) -> Result<Vec<String>, LabError> {
        let registry = registered();
        let known: Vec<&str> = registry.kinds().map(|k| k.name()).collect();
        let list = known.join(", ");
        if let Some(other) = self.detectors.iter().find(|k| !known.contains(&k.as_str())) {
            return Err(refuse("detector", other, format!("known are {list}")).into());
        }
        let mut kinds = self.detectors.clone();
        if kinds.is_empty() {
            let captures: Vec<&str> =
                self.captures.iter().filter_map(|c| Some(c.split_once('=')?.0)).collect();
            let has = |kind: &&str| {
                captures.contains(kind) || !input::known(kind, &self.vectors).is_empty()
            };
            kinds = known.iter().filter(|k| has(k)).map(|k| (*k).to_owned()).collect();
        }
        for (flag, given) in [("capture", &self.captures), ("geometry", &self.geometries)] {
            for text in given {
                let (kind, _) = split(flag, text)?;
                if !kinds.iter().any(|k| k == kind) {
                    let why = format!("KIND must be one that is measured: {}", kinds.join(", "));
                    return Err(refuse(flag, text, why).into());
                }
            }
        }
        for text in &self.settings {
            let kind = text.split_once('.').map(|(kind, _)| kind);
            let form = text.split_once('=').is_some_and(|(key, _)| key.contains('.'));
            if !form || !kinds.iter().any(|k| Some(k.as_str()) == kind) {
                let why =
                    format!("KIND.KEY=VALUE with a KIND that is measured: {}", kinds.join(", "));
                return Err(refuse("set", text, why).into());
            }
        }
        Ok(kinds)
    }

    fn captures(&self) -> Result<Vec<Input>, LabError> {
        let mut named: Vec<(&str, &str)> = vec![];
        for text in &self.captures {
            let (kind, file) = split("capture", text)?;
            if named.iter().any(|(other, _)| *other == kind) {
                return Err(refuse("capture", text, "one capture a detector").into());
            }
            named.push((kind, file));
        }
        named.into_iter().map(|(kind, file)| input::given(kind, file)).collect()
    }

    /// What there is for a detector without a capture.
    fn inputs(&self, kind: &str) -> Result<Vec<Input>, LabError> {
        let all = input::known(kind, &self.vectors);
        if all.is_empty() {
            let why = format!("there are no packets for it here: give --capture {kind}=FILE");
            return Err(refuse("detector", kind, why).into());
        }
        let names: Vec<&str> = all.iter().map(|i| i.name).collect();
        let known = |n: &str| n == CAPTURES || input::names().contains(&n);
        if let Some(other) = self.inputs.iter().find(|n| !known(n.as_str())) {
            return Err(refuse(
                "input",
                other,
                format!("{}, {CAPTURES}", input::names().join(", ")),
            )
            .into());
        }
        let asked = |i: &Input, n: &str| n == i.name || n == CAPTURES && i.is_played();
        let wanted = |i: &Input| self.inputs.is_empty() || self.inputs.iter().any(|n| asked(i, n));
        let some: Vec<Input> = all.iter().filter(|i| wanted(i)).cloned().collect();
        if some.is_empty() {
            let why = format!("{kind} has here: {}", names.join(", "));
            return Err(refuse("input", self.inputs.join(","), why).into());
        }
        Ok(some)
    }

    fn job(&self, input: Input, scratch: &ScratchFiles) -> Result<DetectorJob, LabError> {
        let own = self.geometries.iter().filter_map(|g| g.split_once('='));
        let own = own.filter(|(kind, _)| *kind == input.detector).map(|(_, file)| file).next_back();
        let geometry = match (own, input.geometry.as_str()) {
            (Some(file), _) => Some(PathBuf::from(file)),
            (None, "") => None,
            (None, text) => {
                let name = format!("{}-{}.geometry", input.detector, input.name);
                Some(scratch.write(&name, text)?)
            }
        };
        let mut settings = input.settings.clone();
        let mine = format!("{}.", input.detector);
        let given = self.settings.iter().filter_map(|s| s.strip_prefix(&mine));
        settings.extend(given.map(|s| format!("detector.{s}")));
        settings.extend(self.instructions.iter().map(|name| format!("engine.instructions={name}")));
        let detector = set_up(&input.detector, geometry.as_deref(), &settings)?;
        Ok(DetectorJob { input, detector, geometry, settings })
    }
}

/// The detector as `run` would have it.
fn set_up(
    kind: &str,
    geometry: Option<&Path>,
    settings: &[String],
) -> Result<Box<dyn Detector>, LabError> {
    let mut o = Overlay::default();
    o.put("detector.kind", Some(kind))
        .put("detector.geometry", geometry.map(|g| g.display().to_string()))
        .set(settings)?;
    Ok(configure(&o.read(None)?)?)
}

impl DetectorJob {
    /// One a detector, for what takes long: the one that `first` prefers, else what is simulated, else its last
    /// input. All, if inputs were named.
    fn one<'a>(
        jobs: &'a [DetectorJob],
        choice: &Choice,
        first: impl Fn(&Input) -> bool,
    ) -> Vec<&'a DetectorJob> {
        if !choice.inputs.is_empty() {
            return jobs.iter().collect();
        }
        let rank = |job: &DetectorJob| match &job.input {
            input if first(input) => 2,
            input => u8::from(input.name == SIMULATED),
        };
        let mut own: Vec<&DetectorJob> = vec![];
        for job in jobs {
            match own.iter_mut().find(|o| o.input.detector == job.input.detector) {
                None => own.push(job),
                Some(o) if rank(job) >= rank(o) => *o = job,
                Some(_) => {}
            }
        }
        own
    }

    /// For pipelines: the user's capture, else what is simulated.
    pub fn piped<'a>(jobs: &'a [DetectorJob], choice: &Choice) -> Vec<&'a DetectorJob> {
        DetectorJob::one(jobs, choice, |input| input.name == CAPTURE)
    }

    /// Over UDP, as the paper did it: a capture, else what is simulated.
    pub fn played<'a>(jobs: &'a [DetectorJob], choice: &Choice) -> Vec<&'a DetectorJob> {
        DetectorJob::one(jobs, choice, Input::is_played)
    }
}
