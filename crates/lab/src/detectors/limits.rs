//! What limits a detector over UDP: how busy each core of its service is flat out and at the rate without loss, and in
//! which functions.
//!
//! The cores are watched from the first packets to the last reading of the metrics, by `/proc/stat` and `perf`
//! ([`crate::profile`]); interrupts that come on the core count as well. A trial that is watched gives no rates: watching
//! takes part of the time. Refuses: a host without `perf`.

use std::fmt::Write as _;

use fullcount_io::host::{CoreTime, Host};
use serde_json::{Value, json};

use super::{How, SpeedRow};
use crate::agent::sample::Share;
use crate::profile::{ProfileError, ProfileRecording, Symbol};

/// Functions in the table; the results file has more.
const SHOWN: usize = 10;
/// A core that is busy for this share of the time has no room left: ticks of 10 ms, and the pauses of perf.
const FULL: f64 = 95.0;

/// What one core did.
#[derive(Debug, Clone, PartialEq)]
pub struct CoreProfile {
    /// What the service does there: `receive`, `process`, or both.
    pub work: &'static str,
    /// Its number.
    pub core: usize,
    /// Its time; `None` where the host does not say.
    pub share: Option<Share>,
    /// Functions, most first, in percent of its busy time.
    pub symbols: Vec<Symbol>,
}

impl CoreProfile {
    /// Percent of the time that it was busy.
    fn busy(&self) -> Option<f64> {
        self.share.map(|s| s.busy())
    }

    /// Percent of the busy time in functions of the kernel, among those that are known.
    fn kernel(&self) -> f64 {
        let ours = self.symbols.iter().filter(|s| s.name.starts_with("[k]"));
        // An empty sum of floats would be -0.
        ours.fold(0.0, |sum, s| sum + s.percent)
    }

    fn title(&self) -> String {
        let busy = self.busy().map_or(String::new(), |b| format!("{b:.0} % busy, "));
        format!("{} core: {busy}{:.0} % of that in the kernel", self.work, self.kernel())
    }

    /// For a results file.
    pub fn json(&self) -> Value {
        json!({
            "work": self.work, "core": self.core, "busy_percent": self.busy(), "time": self.share,
            "kernel_percent": self.kernel(), "symbols": self.symbols,
        })
    }
}

/// Cores that are being watched.
#[derive(Debug)]
pub struct Watched(Vec<(&'static str, usize, Option<CoreTime>, ProfileRecording)>);

fn time_of(core: usize) -> Option<CoreTime> {
    Host::default().cores().into_iter().find(|c| c.core as usize == core)
}

impl Watched {
    /// Begins on cores and what is done there.
    ///
    /// # Errors
    /// No `perf`.
    pub fn begin(cores: &[(&'static str, usize)]) -> Result<Watched, ProfileError> {
        let one = |&(work, core)| Ok((work, core, time_of(core), ProfileRecording::begin(core)?));
        cores.iter().map(one).collect::<Result<_, _>>().map(Watched)
    }

    /// Ends all of them.
    ///
    /// # Errors
    /// What `perf` said.
    pub fn end(self) -> Result<Vec<CoreProfile>, ProfileError> {
        // Times first: reading a profile takes a second of some core.
        let times: Vec<_> = self.0.iter().map(|(_, core, ..)| time_of(*core)).collect();
        let one = |((work, core, from, recording), to): (
            (_, _, Option<CoreTime>, ProfileRecording),
            _,
        )| {
            let to: Option<CoreTime> = to;
            let share = from.zip(to).and_then(|(from, to)| Share::between(&from, &to));
            Ok(CoreProfile { work, core, share, symbols: recording.end()? })
        };
        self.0.into_iter().zip(times).map(one).collect()
    }
}

/// What stands in the way of a higher rate, in words.
fn verdict(row: &SpeedRow) -> String {
    if let How::Lossless(_) = row.how {
        return match row.limit() {
            Some("sender") => "Nothing was lost, and the sender sent no more.",
            Some("ceiling") => "Nothing was lost, and no higher rate was tried.",
            _ => "Nothing is lost at this rate; above it something was.",
        }
        .to_owned();
    }
    if row.runs.iter().all(|r| r.lost == Some(0.0)) {
        return "Nothing was lost: the sender is the limit.".to_owned();
    }
    let busy = |p: &&CoreProfile| p.busy().is_some_and(|b| b >= FULL);
    let full: Vec<&CoreProfile> = row.profile.iter().filter(busy).collect();
    let most = |p: &CoreProfile| {
        let first = p.symbols.iter().find(|s| s.name != crate::profile::OTHERS);
        let first = first.map_or(String::new(), |s| format!(", first in {}", code(&s.name)));
        format!("the {} core{first}", p.work)
    };
    match full.as_slice() {
        [] => "Packets were lost, but no core of the service was busy all the time: they came in bursts that the \
               receive buffer did not hold, or the host gave the cores to others."
            .to_owned(),
        full => {
            let all: Vec<String> = full.iter().map(|p| most(p)).collect();
            format!("The limit: {}.", all.join("; "))
        }
    }
}

/// A function's name in a cell.
fn code(name: &str) -> String {
    format!("`{}`", name.replace('|', "\\|").replace('`', "'"))
}

/// Tables of all rows that were watched; empty if none was.
pub fn markdown(rows: &[SpeedRow]) -> String {
    let mut text = String::new();
    for row in rows.iter().filter(|r| !r.profile.is_empty()) {
        if text.is_empty() {
            text.push_str("\n## What the cores of the service do\n");
        }
        let (detector, input, how) = (&row.detector, &row.input, row.how.text());
        let _ = writeln!(text, "\n{detector}, {input}, {how}. {}\n", verdict(row));
        let heads: Vec<String> = row.profile.iter().map(|p| format!("{} | %", p.title())).collect();
        let rules = vec![":--|--:"; heads.len()];
        let _ = writeln!(text, "| {} |\n|{}|", heads.join(" | "), rules.join("|"));
        let most = row.profile.iter().map(|p| p.symbols.len().min(SHOWN)).max().unwrap_or(0);
        for i in 0..most {
            let cell = |p: &CoreProfile| match p.symbols.get(i) {
                Some(s) => format!("{} | {:.1}", code(&s.name), s.percent),
                None => " | ".to_owned(),
            };
            let cells: Vec<String> = row.profile.iter().map(cell).collect();
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::SpeedTrial;
    use super::*;

    fn profile(work: &'static str, idle: f64, symbols: &[(&str, f64)]) -> CoreProfile {
        let share = Share { user: 60.0 - idle, system: 40.0, idle, ..Share::default() };
        let symbol = |&(name, percent): &(&str, f64)| Symbol { percent, name: name.to_owned() };
        let symbols = symbols.iter().map(symbol).collect();
        CoreProfile { work, core: 1, share: Some(share), symbols }
    }

    fn receive_and_process() -> CoreProfile {
        profile("receive and process", 50.0, &[("[.] f", 100.0)])
    }

    fn row(lost: f64, profile: Vec<CoreProfile>) -> SpeedRow {
        SpeedRow {
            detector: "multigrid".into(),
            input: "simulated".into(),
            about: "made here".into(),
            how: How::FlatOut(2),
            packet_bytes: 1299.0,
            runs: vec![SpeedTrial { rates: Default::default(), cores: None, lost: Some(lost) }],
            search: None,
            profile,
        }
    }

    #[test]
    fn cores_stand_side_by_side_and_the_full_one_is_the_limit() {
        let receive = profile("receive", 40.0, &[("[k] _copy_to_iter", 70.0), ("[.] a|b", 30.0)]);
        let process = profile("process", 1.0, &[("[.] <Matcher>::close", 100.0)]);
        let text = markdown(&[row(0.4, vec![receive.clone(), process.clone()])]);
        let expected = "
## What the cores of the service do

multigrid, simulated, UDP flat out, 2 threads. The limit: the process core, first in `[.] <Matcher>::close`.

| receive core: 60 % busy, 70 % of that in the kernel | % | process core: 99 % busy, 0 % of that in the kernel | % |
|:--|--:|:--|--:|
| `[k] _copy_to_iter` | 70.0 | `[.] <Matcher>::close` | 100.0 |
| `[.] a\\|b` | 30.0 |  |  |
";
        assert_eq!(text, expected);
        let json = process.json();
        assert_eq!((&json["work"], &json["busy_percent"]), (&"process".into(), &99.0.into()));
        assert_eq!(json["symbols"][0]["name"], "[.] <Matcher>::close");
        assert!(
            markdown(&[row(0.4, vec![receive])]).contains("no core of the service was busy all")
        );
        assert!(markdown(&[row(0.0, vec![process])]).contains("the sender is the limit"));
        assert_eq!(markdown(&[row(0.4, vec![])]), "");
        let search = Some(json!({"limit": "loss"}));
        let found =
            SpeedRow { how: How::Lossless(1), search, ..row(0.0, vec![receive_and_process()]) };
        let text = markdown(&[found]);
        assert!(
            text.contains("UDP without loss, 1 thread. Nothing is lost at this rate;"),
            "{text}"
        );
    }

    #[test]
    fn a_long_profile_is_cut_in_the_table_only() {
        let symbols: Vec<(&str, f64)> = (0..20).map(|_| ("[.] f", 5.0)).collect();
        let full = row(0.1, vec![profile("receive and process", 0.0, &symbols)]);
        assert_eq!(markdown(std::slice::from_ref(&full)).matches("`[.] f` | 5.0").count(), SHOWN);
        assert_eq!(full.profile[0].json()["symbols"].as_array().unwrap().len(), 20);
    }
}
