//! What rates of `lab spead` have to reach: the goals of `lossless`, and the words for what is below one, here and in `memory`.
//!
//! Goals of `lossless` are ratios to spead2's tools by turns with ours, and to iperf3. Refuses to judge a quick run, one with a single
//! socket, and one without spead2: there the rates stand alone. Source: `docs/lab-spead.md`.

use serde_json::{Value, json};

use super::lossless::{BisectionOrder, Buffers};
use super::tools::SpeadPeer;

/// Packets of an Ethernet without jumbo frames, bytes: what a goal of its own is for.
const USUAL: usize = 1472;
/// Largest packet on jumbo frames, bytes.
const JUMBO: usize = 8972;
/// Least share of spead2's UDP rate with large buffers and a pool: at 1472 B, and at other sizes.
const POOL: [f64; 2] = [2.0, 1.5];
/// The same with stock buffers.
const STOCK: f64 = 3.0;
/// The same over TCP: packets up to 8972 B, and larger ones.
const TCP: [f64; 2] = [1.3, 1.1];
/// Least share of the rate of iperf3 with cubic that whole heaps have.
pub(super) const OF_IPERF3: f64 = 0.9;

/// Goal over UDP, as a share of spead2's rate.
pub(super) fn over_udp(packet: usize, buffers: Buffers) -> f64 {
    match buffers {
        Buffers::Stock => STOCK,
        Buffers::Large => POOL[usize::from(packet != USUAL)],
    }
}

/// Goal in packets over TCP, as a share of spead2's rate.
pub(super) fn over_tcp(packet: usize) -> f64 {
    TCP[usize::from(packet > JUMBO)]
}

/// A ratio below its goal, in words; never shown as the goal itself.
pub(super) fn below(row: &str, (of, with): (&str, &str), ratio: f64, goal: f64) -> Option<String> {
    let shown = (ratio * 100.0).floor() / 100.0;
    let low = ratio < goal || ratio.is_nan();
    low.then(|| format!("{row}: {of} is {shown:.2} of {with}; wanted {goal:.2}"))
}

/// The goals of a campaign, and what came of them.
#[derive(Debug)]
pub(super) struct RateGoals {
    unjudged: Option<&'static str>,
    /// Rows below their goal.
    pub missed: Vec<String>,
    /// Goals of which one side was not there.
    pub unmeasured: Vec<String>,
}

impl RateGoals {
    /// Judges what is asked for, if it can be.
    pub fn new(order: &BisectionOrder, peers: &[SpeadPeer]) -> RateGoals {
        let has = |name| peers.iter().any(|peer| peer.name() == name);
        let unjudged = match order {
            BisectionOrder { quick: true, .. } => Some("this is a quick run"),
            BisectionOrder { sockets: Some(1), .. } => Some("goals are for several sockets"),
            _ if !(has("fullcount") && has("spead2")) => {
                Some("goals need fullcount and spead2 as peers")
            }
            _ => None,
        };
        RateGoals { unjudged, missed: Vec::new(), unmeasured: Vec::new() }
    }

    /// Judges a row, if rows are judged. `None`: one of the two was not measured.
    pub fn judge(&mut self, row: &str, names: (&str, &str), ratio: Option<f64>, goal: f64) {
        match ratio {
            _ if self.unjudged.is_some() => {}
            Some(ratio) => self.missed.extend(below(row, names, ratio, goal)),
            None => self
                .unmeasured
                .push(format!("{row}: {} beside {}, of which one is not there", names.0, names.1)),
        }
    }

    /// For the results file.
    pub fn json(&self) -> Value {
        json!({
            "of_spead2_udp_1472": POOL[0], "of_spead2_udp": POOL[1], "of_spead2_udp_stock": STOCK,
            "of_spead2_tcp": TCP[0], "of_spead2_tcp_above_8972": TCP[1], "of_iperf3_cubic": OF_IPERF3,
            "judged": self.unjudged.is_none(), "not_reached": self.missed, "not_measured": self.unmeasured,
        })
    }

    /// The goals and what came of them, in Markdown.
    pub fn text(&self) -> String {
        let mut text = format!(
            "\nWanted of spead2's rate: over UDP {:.1} at {USUAL} B and {:.1} at other sizes with 4 MB and a pool, {STOCK:.1} with stock \
             buffers; over TCP {:.1} in packets of at most {JUMBO} B and {:.1} in larger ones. Wanted of whole heaps: {OF_IPERF3:.1} of \
             iperf3 with cubic.\n",
            POOL[0], POOL[1], TCP[0], TCP[1],
        );
        text += &match self.unjudged {
            Some(why) => format!("\nNot judged: {why}.\n"),
            None if self.missed.is_empty() && self.unmeasured.is_empty() => {
                "\nAll of this is reached.\n".to_owned()
            }
            None => said(&self.missed, &self.unmeasured),
        };
        text
    }
}

/// What was not reached and what was not measured, a line each, in Markdown.
pub(super) fn said(missed: &[String], unmeasured: &[String]) -> String {
    let missed = missed.iter().map(|row| format!("\nNot reached: {row}.\n"));
    let unmeasured = unmeasured.iter().map(|row| format!("\nNot measured: {row}.\n"));
    missed.chain(unmeasured).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> BisectionOrder {
        BisectionOrder {
            packets: vec![1472],
            buffers: vec![Buffers::Large],
            repeats: 5,
            steps: 7,
            seconds: 1.2,
            tcp: true,
            sockets: None,
            quick: false,
        }
    }

    fn peers() -> [SpeadPeer; 2] {
        [
            SpeadPeer::Ours { program: "/fullcount".into() },
            SpeadPeer::Spead2 { folder: "/spead2".into() },
        ]
    }

    const NAMES: (&str, &str) = ("fullcount", "spead2");

    #[test]
    fn each_row_has_its_goal() {
        let pool = [1472, 8972, 65_507].map(|packet| over_udp(packet, Buffers::Large));
        assert_eq!(pool, [2.0, 1.5, 1.5]);
        let stock = [1472, 8972, 65_507].map(|packet| over_udp(packet, Buffers::Stock));
        assert_eq!(stock, [3.0; 3]);
        assert_eq!([1472, 8972, 65_483].map(over_tcp), [1.3, 1.3, 1.1]);
        assert_eq!(below("a", NAMES, 2.0, 2.0), None);
        let low = below("udp 1472 stock", NAMES, 2.999, 3.0).unwrap();
        assert_eq!(low, "udp 1472 stock: fullcount is 2.99 of spead2; wanted 3.00");
        assert!(below("a", NAMES, f64::NAN, 3.0).is_some());
    }

    #[test]
    fn a_row_below_its_goal_is_named_and_one_that_is_not_there_too() {
        let mut goals = RateGoals::new(&order(), &peers());
        goals.judge("udp 1472", NAMES, Some(2.1), 2.0);
        assert!(goals.missed.is_empty() && goals.text().contains("All of this is reached."));
        goals.judge("tcp 1472", NAMES, Some(1.29), 1.3);
        goals.judge("whole heaps", ("fullcount", "iperf3"), None, OF_IPERF3);
        assert_eq!(goals.missed, ["tcp 1472: fullcount is 1.29 of spead2; wanted 1.30"]);
        assert_eq!(
            goals.unmeasured,
            ["whole heaps: fullcount beside iperf3, of which one is not there"]
        );
        let text = goals.text();
        for words in [
            "2.0 at 1472 B and 1.5 at other sizes",
            "Not reached: tcp 1472: fullcount is 1.29",
            "Not measured: whole heaps: fullcount beside iperf3, of which one is not there.",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("All of this"), "{text}");
        assert_eq!(goals.json()["not_reached"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn what_cannot_be_judged_is_told_and_not_judged() {
        let quick = BisectionOrder { quick: true, ..order() };
        let single = BisectionOrder { sockets: Some(1), ..order() };
        let [ours, theirs] = peers();
        for (order, peers, why) in [
            (quick, &peers()[..], "quick"),
            (single, &peers()[..], "several sockets"),
            (order(), &[ours][..], "as peers"),
            (order(), &[theirs][..], "as peers"),
        ] {
            let mut goals = RateGoals::new(&order, peers);
            goals.judge("udp 1472", NAMES, Some(0.1), 2.0);
            goals.judge("udp 8972", NAMES, None, 2.0);
            assert!(goals.missed.is_empty() && goals.unmeasured.is_empty(), "{why}");
            let text = goals.text();
            assert!(text.contains("Not judged: ") && text.contains(why), "{text}");
            assert_eq!(goals.json()["judged"], false);
        }
    }
}
