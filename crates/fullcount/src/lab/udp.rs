//! `fullcount lab udp`: the campaign over packet sizes, this binary as both ends.

mod flags;

use anyhow::Context;
use fullcount_engine::config::refuse;
use fullcount_engine::stop::Stop;
use fullcount_lab::campaign::asked::{self, Ends};
use fullcount_lab::campaign::field::{Field, FieldPlace, FieldWatch, TrialSettings};
use fullcount_lab::campaign::parameters::Parameters;
use fullcount_lab::campaign::report::{self, Circumstances};
use fullcount_lab::campaign::state::CampaignState;
use fullcount_lab::campaign::{
    Campaign, CampaignError, CampaignPlan, Ground as _, OfferedLoad, SIZES, THREE_SIZES,
    TrialVolume, table,
};
use fullcount_lab::record::{self, results::Results};

pub use self::flags::LabUdpFlags;
use super::read;
use crate::exit::Failure;
use crate::{note, say, tell};

impl LabUdpFlags {
    fn plan(&self) -> Result<CampaignPlan, Failure> {
        let ms = |key, text: &str| read::duration(key, text).map(|d| d.as_millis() as u64);
        let load = match self.flat_out {
            true => OfferedLoad::FlatOut,
            false => OfferedLoad::Offered(read::bits("rate", &self.rate)?),
        };
        let volume = match &self.volume {
            Some(text) => TrialVolume::Bytes(read::size("volume", text)?),
            None => TrialVolume::Milliseconds(ms("duration", &self.duration)?),
        };
        let sizes = match (self.sizes.as_slice(), self.ablate) {
            ([], false) => SIZES.to_vec(),
            ([], true) => THREE_SIZES.to_vec(),
            (given, _) => given.to_vec(),
        };
        let series = asked::ParameterSets {
            sets: &self.parameters,
            engines: &self.engines,
            place: &self.place,
            mtu: self.mtu,
            cut_segments: self.cut_segments,
            ablate: self.ablate,
        };
        let (place, series) = (self.place.clone(), series.read()?);
        let (cores, near) = asked::cores(self.cores.as_deref(), &self.place)?;
        let cpu_interval_ms =
            self.cpu_pass.then(|| ms("cpu-interval", &self.cpu_interval)).transpose()?;
        let mut plan = CampaignPlan {
            name: self.name(),
            place,
            sizes,
            series,
            ablation: self.ablate,
            load,
            volume,
            warm_up_ms: ms("warm-up", &self.warm_up)?,
            repeats: self.repeats,
            cpu_interval_ms,
            cores,
            near,
            link_bits_per_s: read::bits("link-speed", &self.link_speed)?,
            fragments: !self.no_fragments,
        };
        // Of an ablation, what cannot be measured at these sizes is left out; its base must be.
        if plan.ablation && !plan.series.is_empty() {
            let base = plan.series.remove(0);
            let fits = |p: &Parameters| !plan.sizes.iter().any(|&size| plan.cannot_arrive(p, size));
            let others: Vec<Parameters> = plan.series.iter().filter(|p| fits(p)).cloned().collect();
            plan.series = [base].into_iter().chain(others).collect();
        }
        if !record::allowed_name(&plan.name) {
            return Err(refuse("name", &plan.name, "1 to 80 of a-z, 0-9 and -").into());
        }
        plan.check().map_err(|e| Failure::Wrong(e.to_string()))?;
        Ok(plan)
    }

    fn name(&self) -> String {
        let load = if self.flat_out { "flat-out" } else { "offered" };
        let place = match self.place.as_str() {
            "loopback" => "",
            "namespaces" => "-namespaces",
            _ => "-hosts",
        };
        let what = if self.ablate { "-ablation" } else { "" };
        self.name.clone().unwrap_or_else(|| format!("udp-{load}{place}{what}"))
    }
}

/// Runs the campaign.
pub fn udp(flags: LabUdpFlags) -> Result<u8, Failure> {
    let plan = flags.plan()?;
    if flags.profile {
        if !matches!(flags.place.as_str(), "loopback" | "namespaces") {
            return Err(refuse("profile", &flags.place, "only with both ends on this host").into());
        }
        if !plan.near && plan.cores.0.is_none() {
            let why = "a core that the receiver is pinned to: --cores R,S or near";
            return Err(refuse("profile", "--cores none", why).into());
        }
        fullcount_lab::profile::available().map_err(anyhow::Error::from)?;
    }
    let results = Results::new(flags.out.clone(), flags.name.clone(), flags.overwrite);
    let ready = || results.ready(&report::names(&plan, !flags.no_figures));
    let folder = &results.folder;
    if !flags.resume {
        ready()?;
    }
    let place = Ends {
        place: &flags.place,
        far: &flags.far,
        token_file: flags.token_file.as_deref(),
        interface: flags.interface.as_deref(),
        data: flags.data,
    };
    let place: FieldPlace = place.open()?;
    let program = std::env::current_exe().context("finding this program")?;
    let path = CampaignState::path_of(folder, &plan.name);
    let mut state = asked::state(&path, &plan, flags.resume, flags.overwrite, say::line)?;
    if flags.resume {
        // Only now is it known that there is something to go on with.
        ready()?;
    }
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let (stopped, tell) = (|| stop.requested(), |line: &str| note!("{line}"));
    let settings = TrialSettings {
        cores: plan.cores,
        near: plan.near,
        profile: flags.profile,
        load: plan.load,
        port: flags.port,
    };
    let watch = FieldWatch { stop: &stopped, tell: &tell };
    let mut field = Field::new(program, place, settings, watch);
    let run = Campaign::run(plan, &mut field, &mut state, &mut |line| note!("{line}"));
    let campaign = match run {
        Ok(campaign) => campaign,
        Err(e) => {
            if state.is_empty() {
                state.finish();
            } else if !matches!(e, CampaignError::Interrupted) {
                note!("{} trials are kept: --resume goes on from there", state.len());
            }
            return Err(Failure::Failed(e.into()));
        }
    };
    let revision = record::revision();
    let about = Circumstances { date: record::now(), revision, found: field.found() };
    // Links and settings are put back before anything else can fail.
    drop(field);
    let written = report::write(&campaign, &about, folder, !flags.no_figures, flags.overwrite);
    for path in written.map_err(anyhow::Error::from)? {
        note!("written: {}", path.display());
    }
    state.finish();
    if flags.json {
        say!("{}", report::json(&campaign, &about));
    } else {
        tell!("{}", table::markdown(&campaign));
    }
    // A rate that was not offered proves nothing about losing nothing.
    let shortfalls = campaign.shortfalls();
    for line in &shortfalls {
        note!("{line}");
    }
    Ok(match (flags.require_lossless, campaign.lossless(), shortfalls.is_empty()) {
        (false, _, _) | (true, true, true) => 0,
        (true, false, _) => 3,
        (true, true, false) => 1,
    })
}
