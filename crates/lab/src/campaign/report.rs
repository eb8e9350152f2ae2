//! A finished campaign on disk: one JSON with everything, the tables as Markdown, the figures as SVG and PNG.
//!
//! The JSON (schema `fullcount/udp-campaign/1`) holds `plan` (every parameter), `found` (hosts, settings in force),
//! `trials` (every trial with every interval) and `rows` (what the tables show). Each file comes in one step, and replaces
//! an older one only where that was asked for. Refuses: what the file system says.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::table::{self, Cell};
use super::{Campaign, CampaignError, CampaignPlan};
use crate::plot;
use crate::record::{RecordError, files};

/// Shape of the JSON.
pub const SCHEMA: &str = "fullcount/udp-campaign/1";

/// When, with what, and on what a campaign was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Circumstances {
    /// UTC, of its end.
    pub date: String,
    /// Of the build.
    pub revision: Option<String>,
    /// [`super::Ground::found`].
    pub found: Value,
}

/// The whole object.
pub fn json(campaign: &Campaign, about: &Circumstances) -> Value {
    let plan = &campaign.plan;
    let mut rows = Vec::new();
    for p in &plan.series {
        let cells = plan.sizes.iter().filter_map(|&size| table::cell(campaign, p, size));
        rows.extend(cells.map(|c| row(&p.name, &c)));
    }
    json!({
        "schema": SCHEMA,
        "name": plan.name,
        "date": about.date,
        "revision": about.revision,
        "version": env!("CARGO_PKG_VERSION"),
        "plan": plan,
        "found": about.found,
        "lossless": campaign.lossless(),
        "rows": rows,
        "trials": campaign.done,
    })
}

fn row(series: &str, c: &Cell) -> Value {
    let (low, high) = c.received.interval;
    let lost_at: serde_json::Map<String, Value> =
        c.lost_at.iter().map(|(place, n)| (place.clone(), (*n).into())).collect();
    json!({
        "series": series,
        "size": c.size,
        "received_gbps": {"median": c.received.value, "interval": [low, high], "trials": c.received.repeats},
        "theoretical_gbps": c.theoretical,
        "mpps": c.mpps,
        "sent": c.sent,
        "lost": c.lost,
        "per": c.per(),
        "lost_at": lost_at,
        "reordered": c.reordered,
        "receiver_cores": c.cores.0,
        "sender_cores": c.cores.1,
        "receiver_core_percent": c.shares.0,
        "sender_core_percent": c.shares.1,
        "receiver_calls_per_packet": c.calls.0,
        "sender_calls_per_packet": c.calls.1,
        "receiver_switches_per_packet":
            c.switches.map(|(v, i)| json!({"voluntary": v, "involuntary": i})),
    })
}

/// Files of a campaign's results, as far as they are known before it: a figure without any point is not drawn.
pub fn names(plan: &CampaignPlan, figures: bool) -> Vec<String> {
    let name = &plan.name;
    let mut all = vec![format!("{name}.json"), format!("{name}.md")];
    if figures && !plan.ablation {
        let each = ["speed", "per", "cpu"]
            .map(|what| ["svg", "png"].map(|e| format!("{name}-{what}.{e}")));
        all.extend(each.into_iter().flatten());
    }
    all
}

/// Writes `<folder>/<name>.json` and `.md`, and with `figures` `<name>-{speed,per,cpu}.{svg,png}`; their paths
/// ([`files::put`]).
pub fn write(
    campaign: &Campaign,
    about: &Circumstances,
    folder: &Path,
    figures: bool,
    overwrite: bool,
) -> Result<Vec<PathBuf>, CampaignError> {
    let name = &campaign.plan.name;
    let refuse = |cause| RecordError::Write { path: folder.to_owned(), cause };
    std::fs::create_dir_all(folder).map_err(refuse)?;
    let mut paths = Vec::new();
    let texts = [
        ("json", format!("{:#}\n", json(campaign, about))),
        ("md", document(campaign, about, figures)),
    ];
    for (ending, text) in texts {
        let file = format!("{name}.{ending}");
        paths.push(files::put(folder, &file, text.as_bytes(), overwrite)?);
    }
    for figure in drawn(campaign, figures) {
        paths.extend(figure.write(folder, overwrite)?);
    }
    Ok(paths)
}

/// An ablation is a table: its lines over sizes would say little.
fn drawn(campaign: &Campaign, figures: bool) -> Vec<plot::Chart> {
    match figures && !campaign.plan.ablation {
        // CPU load, for one, is not known everywhere.
        true => plot::campaign::figures(campaign).into_iter().filter(|f| !f.is_empty()).collect(),
        false => Vec::new(),
    }
}

/// The Markdown file: tables, figures, circumstances.
pub fn document(campaign: &Campaign, about: &Circumstances, figures: bool) -> String {
    let mut text = table::markdown(campaign);
    for figure in drawn(campaign, figures) {
        text.push_str(&format!("![{}]({}.svg)\n\n", figure.title, figure.name));
    }
    let host = |key: &str| about.found.pointer(&format!("/host/{key}")).cloned();
    let word = |v: Option<Value>| match v {
        Some(Value::String(s)) => s,
        Some(other) => other.to_string(),
        None => "unknown".to_owned(),
    };
    text.push_str(&format!(
        "{}, revision {}, {}, {} cores, Linux {}. Everything else is in `{}.json`.\n",
        about.date,
        about.revision.as_deref().unwrap_or("unknown"),
        word(host("cpu")),
        word(host("cpus")),
        word(host("kernel")),
        campaign.plan.name
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::super::parameters::Parameters;
    use super::super::tests::{outcome, plan};
    use super::super::{CampaignPlan, CampaignPoint, Done, Pass};
    use super::*;

    #[test]
    fn everything_is_written_and_reads_back() {
        let plan =
            CampaignPlan { sizes: vec![64, 1472], cpu_interval_ms: None, repeats: 1, ..plan() };
        let done = plan.points().into_iter().map(|point| Done { point, outcome: outcome(5.0, 1) });
        let campaign = Campaign { done: done.collect(), plan };
        let found = json!({"host": {"cpu": "Example CPU", "cpus": 4, "kernel": "6.1.0"}});
        let about = Circumstances {
            date: "2026-01-01T00:00:00Z".into(),
            revision: Some("abc".into()),
            found,
        };
        let dir = tempfile::tempdir().unwrap();
        let paths = write(&campaign, &about, dir.path(), true, false).unwrap();
        let names: Vec<_> =
            paths.iter().map(|p| p.file_name().unwrap().to_str().unwrap()).collect();
        // These outcomes know no CPU time, so that figure is left out.
        let all = [
            "test.json",
            "test.md",
            "test-speed.svg",
            "test-speed.png",
            "test-per.svg",
            "test-per.png",
        ];
        assert_eq!(names, all);
        let text = std::fs::read_to_string(&paths[0]).unwrap();
        let back: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(back["schema"], SCHEMA);
        assert_eq!(back["rows"][3]["series"], "tuned");
        assert_eq!(back["rows"][0]["per"], 0.001);
        assert_eq!(back["plan"]["series"][1]["receive_buffer"]["bytes"], 64 << 20);
        assert_eq!(back["trials"].as_array().unwrap().len(), 4);
        let trial: Done = serde_json::from_value(back["trials"][0].clone()).unwrap();
        assert_eq!(trial, campaign.done[0]);
        let text = std::fs::read_to_string(&paths[1]).unwrap();
        assert!(text.contains("](test-speed.svg)") && text.contains("Example CPU"), "{text}");
    }

    #[test]
    fn an_ablation_is_not_drawn() {
        let base = Parameters::tuned();
        let plan = CampaignPlan { ablation: true, series: vec![base], sizes: vec![64], ..plan() };
        let point = CampaignPoint { pass: Pass::Speed(0), series: "tuned".into(), size: 64 };
        let campaign = Campaign { plan, done: vec![Done { point, outcome: outcome(1.0, 0) }] };
        let about = Circumstances { date: String::new(), revision: None, found: Value::Null };
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(write(&campaign, &about, dir.path(), true, false).unwrap().len(), 2);
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(write(&campaign, &about, file.path(), true, false).is_err());
    }
}
