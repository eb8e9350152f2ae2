//! `fullcount lab spead memo`: the memo's tables and figures. Refuses unknown parts, numbers out of range, links without root.

use anyhow::Context;
use clap::Args;
use fullcount_engine::config::refuse;
use fullcount_engine::stop::Stop;
use fullcount_lab::namespace;
use fullcount_lab::spead::campaign::{self, MemoOrder, MemoPart};

use super::peers::PeerFlags;
use super::{EXAMPLES, write};
use crate::exit::Failure;
use crate::lab::read;
use crate::lab::results::ResultFlags;
use crate::say;

/// The memo's experiments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct MemoFlags {
    /// Parts, with commas: table1, table2, table3, table4, mro10, mro40, scaling, mro90, buffers
    /// [default: all; without root those that need no links]
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    parts: Vec<String>,
    /// Runs of each cell of a table
    #[arg(long, value_name = "N", default_value_t = 5)]
    repeats: usize,
    /// Runs of each point on links
    #[arg(long, value_name = "N", default_value_t = 5)]
    link_repeats: usize,
    /// Payload of a heap
    #[arg(long, value_name = "SIZE", default_value = "4MiB")]
    heap_size: String,
    /// Heaps of a run of tables 2 and 3
    #[arg(long, value_name = "N", default_value_t = 500)]
    table_heaps: u64,
    /// Heaps of each stream on links
    #[arg(long, value_name = "N", default_value_t = 30)]
    heaps: u64,
    /// Links and rates of mro10, mro40, mro90 and scaling are the memo's times this
    #[arg(long, value_name = "SHARE", default_value_t = 0.03)]
    scale: f64,
    /// Rate of the link with round trips of 0.1 and 8.77 ms
    #[arg(long, value_name = "RATE", default_value = "500Mbps")]
    emulated: String,
    /// Length of a run of iperf3, s
    #[arg(long, value_name = "N", default_value_t = 10)]
    iperf_seconds: u64,
    /// Points of each scan at most; 0: all
    #[arg(long, value_name = "N", default_value_t = 0)]
    points: usize,
    /// The memo's own amounts: 50000 heaps a stream, scale 1, five runs, 20 s of iperf3
    #[arg(long, conflicts_with_all = ["quick", "heaps", "heap_size", "scale", "link_repeats", "iperf_seconds"])]
    memo: bool,
    /// Few and short runs: does everything work?
    #[arg(long)]
    quick: bool,
    /// Go on with an interrupted campaign
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    peers: PeerFlags,
    #[command(flatten)]
    result: ResultFlags,
}

impl MemoFlags {
    fn parts(&self, root: bool) -> Result<Vec<MemoPart>, Failure> {
        if self.parts.is_empty() {
            let all = MemoPart::ALL.into_iter();
            return Ok(all.filter(|part| root || !part.needs_root()).collect());
        }
        let known = MemoPart::ALL.map(MemoPart::name).join(", ");
        let part = |text: &String| {
            let found = MemoPart::ALL.into_iter().find(|part| part.name() == text);
            found.ok_or_else(|| Failure::from(refuse("parts", text, known.clone())))
        };
        let parts = self.parts.iter().map(part).collect::<Result<Vec<_>, _>>()?;
        match parts.iter().find(|part| part.needs_root() && !root) {
            Some(part) => {
                Err(refuse("parts", part.name(), "it needs root: links between namespaces").into())
            }
            None => Ok(parts),
        }
    }

    fn order(&self) -> Result<MemoOrder, Failure> {
        let namespaces = namespace::allowed();
        let within = |key, value: u64, most: u64| match value {
            v if (1..=most).contains(&v) => Ok(v),
            v => Err(Failure::from(refuse(key, v, format!("1 to {most}")))),
        };
        if !(1e-4..=10.0).contains(&self.scale) {
            return Err(refuse("scale", self.scale, "0.0001 to 10").into());
        }
        let heap_bytes = read::size("heap-size", &self.heap_size)?;
        if !(4..=1 << 30).contains(&heap_bytes) {
            return Err(refuse("heap-size", &self.heap_size, "4B to 1GiB").into());
        }
        let mut order = MemoOrder {
            parts: self.parts(namespaces)?,
            repeats: within("repeats", self.repeats as u64, 1000)? as usize,
            link_repeats: within("link-repeats", self.link_repeats as u64, 1000)? as usize,
            heap_bytes,
            table_heaps: within("table-heaps", self.table_heaps, 1 << 24)?,
            heaps: within("heaps", self.heaps, 1 << 24)?,
            scale: self.scale,
            emulated_gbps: read::bits("emulated", &self.emulated)? / 1e9,
            iperf_seconds: within("iperf-seconds", self.iperf_seconds, 3600)?,
            points: self.points,
            namespaces,
        };
        if self.memo {
            order = order.of_the_memo();
        }
        if self.quick {
            let points = if self.points == 0 { 1 } else { self.points };
            order = MemoOrder {
                repeats: 1,
                link_repeats: 1,
                heap_bytes: order.heap_bytes.min(1 << 18),
                table_heaps: order.table_heaps.min(40),
                heaps: order.heaps.min(20),
                iperf_seconds: 1,
                points,
                ..order
            };
        }
        Ok(order)
    }
}

/// Runs the campaign.
pub fn of_memo(flags: &MemoFlags) -> Result<u8, Failure> {
    let order = flags.order()?;
    let peers = flags.peers.find()?;
    let mut record = flags.result.begin("spead-memo")?;
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let stopped = || stop.requested();
    let results = flags.result.results();
    let watch: (fullcount_lab::Tell, _) = (say::line, &stopped as &dyn Fn() -> bool);
    let found = campaign::run(&order, &peers, (&results, flags.resume), &mut record, watch)?;
    flags.result.finish(&record, "SPEAD: the memo's experiments", &found.text)?;
    write(&found.figures, &flags.result)?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        flags: MemoFlags,
    }

    #[test]
    fn memo_is_the_memos_own_amounts_and_takes_no_others() {
        let typed = |words: &[&str]| Typed::try_parse_from([&["memo"][..], words].concat());
        let order = |words: &[&str]| {
            typed(words).unwrap().flags.order().unwrap_or_else(|e| panic!("{e:?}"))
        };
        let asked = order(&["--memo", "--parts", "table3"]);
        let amounts = (asked.heaps, asked.heap_bytes, asked.scale, asked.points);
        assert_eq!(amounts, (50_000, 4 << 20, 1.0, 0));
        assert_eq!((asked.repeats, asked.link_repeats, asked.iperf_seconds), (5, 5, 20));
        assert_ne!(order(&["--parts", "table3"]).heaps, 50_000);
        for other in [
            ["--heaps", "5"],
            ["--heap-size", "4MiB"],
            ["--scale", "0.5"],
            ["--link-repeats", "2"],
            ["--iperf-seconds", "1"],
        ] {
            assert!(typed(&[&["--memo"][..], &other].concat()).is_err(), "{other:?}");
        }
        assert!(typed(&["--memo", "--quick"]).is_err());
    }
}
