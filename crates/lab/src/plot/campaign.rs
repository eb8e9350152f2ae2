//! Figure 3 of the paper from a campaign: user data speed, packet error ratio and CPU load over user data size.
//!
//! Speed stands beside what the link allows. On the axis of error ratios, which has no 0, a size that lost nothing
//! is an open triangle at 1/N, N being the packets sent. Refuses: a campaign without a trial.

use super::{Chart, ChartLine, Dot, PlotAxis, Stroke};
use crate::campaign::parameters::Parameters;
use crate::campaign::table::{Cell, cell};
use crate::campaign::{Campaign, theoretical_gbps};

/// The three figures, named after the campaign.
pub fn figures(campaign: &Campaign) -> [Chart; 3] {
    let plan = &campaign.plan;
    let cells: Vec<(usize, &str, Vec<Cell>)> = plan
        .series
        .iter()
        .enumerate()
        .map(|(i, p)| {
            let mut cells: Vec<Cell> =
                plan.sizes.iter().filter_map(|&size| cell(campaign, p, size)).collect();
            cells.sort_by_key(|c| c.size);
            (i, p.name.as_str(), cells)
        })
        .collect();
    let figure = |part: &str, title: &str, y_label: &str, axis, lines| Chart {
        name: format!("{}-{part}", plan.name),
        title: title.to_owned(),
        x_label: "User data size, B".to_owned(),
        y_label: y_label.to_owned(),
        x_axis: PlotAxis::Logarithmic,
        axis,
        lines,
    };
    [
        figure(
            "speed",
            "User data speed against user data size",
            "User data speed, Gb/s",
            PlotAxis::Linear(0.0),
            speed(campaign, &cells),
        ),
        figure(
            "per",
            "Packet error ratio against user data size",
            "Packet error ratio",
            PlotAxis::Logarithmic,
            per(&cells),
        ),
        figure(
            "cpu",
            // Whole cores, interrupts and strangers included, or the programs' own time.
            match plan.cpu_interval_ms {
                Some(_) => "CPU load of the pinned cores against user data size",
                None => "CPU load of receiver and sender against user data size",
            },
            "CPU load, % of one core",
            PlotAxis::Linear(100.0),
            cpu(&cells),
        ),
    ]
}

fn dot(x: usize, y: f64) -> Dot {
    Dot { x: x as f64, y, spread: None, below: false }
}

fn speed(campaign: &Campaign, cells: &[(usize, &str, Vec<Cell>)]) -> Vec<ChartLine> {
    let gbps = campaign.plan.link_bits_per_s / 1e9;
    let mut lines: Vec<ChartLine> = Vec::new();
    for (i, p) in campaign.plan.series.iter().enumerate() {
        let sizes = cells[i].2.first().zip(cells[i].2.last()).map(|(a, b)| a.size..=b.size);
        // Between the sizes too: above the MTU the ceiling is a saw.
        let theory: Vec<Dot> = sizes.map(|s| ceiling(p, s, gbps)).unwrap_or_default();
        // One line a link: sets of the same MTU share it.
        let same = campaign.plan.series[..i].iter().any(|q| q.mtu == p.mtu);
        if !same && !theory.is_empty() {
            let name = format!("{gbps} Gb/s link, MTU {}", p.mtu);
            lines.push(ChartLine { name, colour: i, stroke: Stroke::Limit, dots: theory });
        }
    }
    for (i, name, cells) in cells {
        let of =
            |c: &Cell| Dot { spread: Some(c.received.interval), ..dot(c.size, c.received.value) };
        let dots = cells.iter().map(of).collect();
        lines.push(ChartLine { name: (*name).to_owned(), colour: *i, stroke: Stroke::Solid, dots });
    }
    lines
}

/// Highest speed over a range of sizes, at most 400 points apart by equal ratios.
fn ceiling(p: &Parameters, sizes: std::ops::RangeInclusive<usize>, gbps: f64) -> Vec<Dot> {
    let (first, last) = (*sizes.start() as f64, *sizes.end() as f64);
    let mut all: Vec<Dot> = Vec::new();
    for step in 0..=400 {
        let size = (first * (last / first).powf(f64::from(step) / 400.0)).round() as usize;
        if all.last().is_none_or(|d| d.x < size as f64) {
            all.push(dot(size, theoretical_gbps(p, size, gbps * 1e9)));
        }
    }
    all
}

fn per(cells: &[(usize, &str, Vec<Cell>)]) -> Vec<ChartLine> {
    // The floor: the smallest ratio that any set could have shown at a size.
    let mut floor: Vec<Dot> = Vec::new();
    for c in cells.iter().flat_map(|(_, _, cells)| cells).filter(|c| c.sent > 0) {
        let y = 1.0 / c.sent as f64;
        match floor.iter_mut().find(|d| d.x == c.size as f64) {
            Some(d) => d.y = d.y.min(y),
            None => floor.push(dot(c.size, y)),
        }
    }
    floor.sort_by(|a, b| a.x.total_cmp(&b.x));
    let name = "1/N; ▽ none of N lost".to_owned();
    let mut lines = vec![ChartLine { name, colour: 0, stroke: Stroke::Floor, dots: floor }];
    let sets = cells.len();
    for (i, name, cells) in cells {
        // Sets that lost nothing would cover one another: each is moved aside by 2.5 %.
        let aside = 1.025f64.powf(*i as f64 - (sets as f64 - 1.0) / 2.0);
        let of = |c: &Cell| {
            let y = if c.lost == 0 { 1.0 / c.sent as f64 } else { c.per() };
            Dot { below: c.lost == 0, x: c.size as f64 * aside, y, spread: None }
        };
        let dots = cells.iter().filter(|c| c.sent > 0).map(of).collect();
        lines.push(ChartLine { name: (*name).to_owned(), colour: *i, stroke: Stroke::Solid, dots });
    }
    lines
}

fn cpu(cells: &[(usize, &str, Vec<Cell>)]) -> Vec<ChartLine> {
    type Load = fn(&Cell) -> Option<f64>;
    let ends: [(&str, Stroke, Load); 2] = [
        ("receiver", Stroke::Solid, Cell::receiver_cpu),
        ("sender", Stroke::Dashed, Cell::sender_cpu),
    ];
    let mut lines = Vec::new();
    for (i, name, cells) in cells {
        for (end, stroke, of) in ends {
            let dots: Vec<Dot> = cells.iter().filter_map(|c| Some(dot(c.size, of(c)?))).collect();
            if !dots.is_empty() {
                lines.push(ChartLine { name: format!("{name}, {end}"), colour: *i, stroke, dots });
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::outcome::{EndCost, TrialOutcome};
    use crate::campaign::{
        CampaignPlan, CampaignPoint, Done, OfferedLoad, Pass, SIZES, TrialVolume,
    };

    /// A campaign as the paper's, made up.
    fn campaign() -> Campaign {
        let plan = CampaignPlan {
            name: "made-up".into(),
            place: "namespaces".into(),
            sizes: SIZES.to_vec(),
            series: vec![Parameters::kernel(), Parameters::tuned()],
            ablation: false,
            load: OfferedLoad::FlatOut,
            volume: TrialVolume::Milliseconds(10_000),
            warm_up_ms: 0,
            repeats: 3,
            cpu_interval_ms: None,
            cores: (Some(1), Some(2)),
            near: false,
            link_bits_per_s: 10e9,
            fragments: true,
        };
        let mut done = Vec::new();
        for (i, p) in plan.series.iter().enumerate() {
            for &size in &plan.sizes {
                for repeat in 0..3 {
                    let most = crate::campaign::theoretical_gbps(p, size, 10e9);
                    let speed = most * (0.8 + 0.1 * i as f64 + 0.03 * f64::from(repeat));
                    let sent = (speed * 1e10 / 8.0 / size as f64) as u64;
                    let lost = if i == 0 { sent / 3000 / (1 + size as u64 / 100) } else { 0 };
                    let cost = |c: f64| EndCost {
                        user: Some(c / 3.0),
                        system: Some(c / 1.5),
                        ..EndCost::default()
                    };
                    let outcome = TrialOutcome {
                        sent,
                        delivered: sent - lost,
                        lost,
                        received_gbps: speed,
                        receiver: cost(0.9 - size as f64 / 12_000.0),
                        sender: cost(1.0 - size as f64 / 18_000.0),
                        ..TrialOutcome::default()
                    };
                    let point = CampaignPoint {
                        pass: Pass::Speed(repeat as usize),
                        series: p.name.clone(),
                        size,
                    };
                    done.push(Done { point, outcome });
                }
            }
        }
        Campaign { plan, done }
    }

    #[test]
    fn the_three_figures_show_every_set_and_the_limits() {
        // FULLCOUNT_FIGURES keeps them, for the eye.
        let kept = std::env::var_os("FULLCOUNT_FIGURES").map(std::path::PathBuf::from);
        let dir = tempfile::tempdir().unwrap();
        let folder = kept.unwrap_or_else(|| dir.path().to_owned());
        let [speed, per, cpu] = figures(&campaign());
        let names = |f: &Chart| f.lines.iter().map(|l| l.name.clone()).collect::<Vec<_>>();
        assert_eq!(
            names(&speed),
            ["10 Gb/s link, MTU 1500", "10 Gb/s link, MTU 9000", "default", "tuned"]
        );
        assert_eq!(names(&per)[1..], ["default", "tuned"]);
        assert!(per.lines[2].dots.iter().all(|d| d.below), "tuned lost nothing");
        assert!(per.lines[1].dots.iter().any(|d| !d.below && d.y > 1e-6));
        assert!(per.lines[0].dots.windows(2).all(|w| w[0].x < w[1].x));
        assert_eq!(
            names(&cpu),
            ["default, receiver", "default, sender", "tuned, receiver", "tuned, sender"]
        );
        for figure in [speed, per, cpu] {
            let whole = |l: &ChartLine| l.dots.len() == 16 || l.stroke == Stroke::Limit;
            assert!(figure.lines.iter().all(whole), "{}", figure.name);
            figure.write(&folder, true).unwrap();
        }
    }

    #[test]
    fn a_campaign_without_trials_draws_nothing() {
        let none = Campaign { done: vec![], ..campaign() };
        assert!(figures(&none).iter().all(|f| f.svg().is_err()));
    }
}
