//! The memo's tables: 1 (iperf), 2 (light receiver), 3 (`spead2_recv`), both on loopback, and 4 (over a link of 1 Gb/s).

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fullcount_child::{Asked, RunningChild};
use serde_json::{Value, json};

use super::campaign::{Campaign, MemoOrder};
use super::ground::SpeadGround;
use super::limits::TrialSeries;
use super::memo::{self, COLUMNS, Memo};
use super::pm;
use super::rights::TrialRights;
use super::tools::{SpeadPeer, SpeadWish};
use super::trial::{FarEnd, HeapTrial, Runner};
use crate::error::LabError;
use crate::peers::iperf3;
use crate::record::Record;

/// Packets of the column `mtu` on loopback, MTU 65536, as the memo has them.
const LOOPBACK_UDP: usize = 65_507;
const LOOPBACK_TCP: usize = 65_483;
const USUAL: usize = 1472;
/// Port of iperf3 inside of a place.
const IPERF_PORT: u16 = 17_147;
/// Iperf3 keeps its rights: it never exceeds the limits of buffers, and only with them may it choose any congestion control.
const RIGHTS: TrialRights = TrialRights::Plain;

/// What a column sends.
pub(super) fn wish(column: &str, tcp: bool, asked: &MemoOrder, heaps: u64) -> SpeadWish {
    let large = if tcp { LOOPBACK_TCP } else { LOOPBACK_UDP };
    let with_buffers = column.contains("buffers");
    SpeadWish {
        tcp,
        heap_bytes: asked.heap_bytes,
        heaps,
        packet: if column.starts_with("mtu") { large } else { USUAL },
        buffer: with_buffers.then_some(memo::TABLE_BUFFER),
        rate: None,
        pool: false,
        sockets: 1,
    }
}

fn memo(value: Memo) -> String {
    value.map_or("–".to_owned(), |(mean, sd)| format!("{mean:.2} ± {sd:.2}"))
}

/// One of tables 2 to 4.
pub(super) struct Table {
    part: &'static str,
    number: u32,
    title: &'static str,
    far: FarEnd,
    /// Rows of the memo: UDP Gb/s, (UDP loss %), TCP Gb/s.
    memo: &'static [[Memo; 4]],
}

pub(super) const TABLES: [Table; 3] = [
    Table {
        part: "table2",
        number: 2,
        title: "sender against a light receiver, loopback",
        far: FarEnd::Light,
        memo: &memo::TABLE2,
    },
    Table {
        part: "table3",
        number: 3,
        title: "sender to receiver, loopback",
        far: FarEnd::Full,
        memo: &memo::TABLE3,
    },
    Table {
        part: "table4",
        number: 4,
        title: "sender to receiver over 1 Gb/s, MTU 1500",
        far: FarEnd::Full,
        memo: &memo::TABLE4,
    },
];

/// Values of one row over its columns.
struct Row {
    what: String,
    cells: [Vec<f64>; 4],
}

impl Table {
    /// Measures and writes the table.
    pub fn run(
        &self,
        campaign: &mut Campaign<'_>,
        record: &mut Record,
    ) -> Result<String, LabError> {
        let link = self.number == 4;
        let ground = match link {
            true => SpeadGround::links(&[1.0], 1500).map_err(|e| LabError::Failed(e.into()))?,
            false => SpeadGround::Loopback,
        };
        let columns = if link { &[0usize, 2][..] } else { &[0, 1, 2, 3] };
        let mut rows = Vec::new();
        for peer in campaign.peers.clone() {
            for tcp in [false, true] {
                let mut cells: [Vec<f64>; 4] = Default::default();
                let mut loss: [Vec<f64>; 4] = Default::default();
                for &column in columns {
                    for run in 0..campaign.asked.repeats {
                        let (trial, line) =
                            self.one(campaign, &ground, &peer, (column, tcp), run)?;
                        record.row(json!({
                            "part": self.part, "peer": peer.name(), "tcp": tcp,
                            "column": COLUMNS[column], "run": run, "trial": line,
                        }));
                        cells[column].extend(trial.gbps.first());
                        loss[column].extend(trial.loss.map(|share| 100.0 * share));
                    }
                }
                let name = |what: &str| format!("{} {what}", peer.name());
                rows.push(Row { what: name(if tcp { "TCP Gb/s" } else { "UDP Gb/s" }), cells });
                if self.far == FarEnd::Full && !tcp {
                    rows.push(Row { what: name("UDP heap loss %"), cells: loss });
                }
            }
        }
        Ok(self.text(&rows))
    }

    fn one(
        &self,
        campaign: &mut Campaign<'_>,
        ground: &SpeadGround,
        peer: &SpeadPeer,
        (column, tcp): (usize, bool),
        run: usize,
    ) -> Result<(HeapTrial, Value), LabError> {
        let key = format!(
            "{} {} {} {} {run}",
            self.part,
            peer.name(),
            COLUMNS[column],
            if tcp { "tcp" } else { "udp" }
        );
        let heaps = campaign.asked.table_heaps;
        // 1 Gb/s takes its time.
        let heaps = if self.number == 4 { heaps.div_ceil(10) } else { heaps };
        let wish = wish(COLUMNS[column], tcp, campaign.asked, heaps);
        let (far, stop) = (self.far, campaign.stop);
        let series = TrialSeries { part: self.part, peer: peer.name(), tcp };
        let measure = || Runner { ground, peer, stop, cores: None }.trial(&wish, &[0], far);
        campaign.trial(&key, series, measure)
    }

    fn text(&self, rows: &[Row]) -> String {
        let mut text = format!(
            "\n## Table {}: {}\n\n| | default | MTU | buffers | MTU + buffers |\n|---|---|---|---|---|\n",
            self.number, self.title
        );
        for row in rows {
            let cells: Vec<String> = row.cells.iter().map(|cell| pm(cell)).collect();
            text += &format!("| {} | {} |\n", row.what, cells.join(" | "));
        }
        let names = match self.memo.len() {
            2 => &["UDP Gb/s", "TCP Gb/s"][..],
            _ => &["UDP Gb/s", "UDP heap loss %", "TCP Gb/s"],
        };
        for (name, cells) in names.iter().zip(self.memo) {
            let cells: Vec<String> = cells.iter().map(|cell| memo(*cell)).collect();
            text += &format!("| memo: {name} | {} |\n", cells.join(" | "));
        }
        text
    }
}

pub(super) fn failed(what: &str, why: impl std::fmt::Display) -> LabError {
    LabError::Failed(anyhow::anyhow!("{what}: {why}"))
}

/// One run of iperf3.
#[derive(Debug, Clone, Copy)]
pub(super) struct IperfRun<'a> {
    /// Over TCP; UDP as fast as it goes otherwise.
    pub tcp: bool,
    /// Whole seconds.
    pub seconds: u64,
    /// More options of the client.
    pub more: &'a [&'a str],
    /// Cores of client and server, by `taskset`.
    pub cores: Option<[usize; 2]>,
}

impl IperfRun<'_> {
    fn client(&self, ground: &SpeadGround) -> Command {
        let (address, port) = (ground.address(0).to_string(), IPERF_PORT.to_string());
        let mut client = ground.pinned((0, true), Path::new("iperf3"), self.cores, RIGHTS);
        client.args(["-c", &address, "-p", &port, "-J", "-t", &self.seconds.to_string()]);
        client.args(self.more);
        if !self.tcp {
            // The largest datagram that is not cut.
            let length = if matches!(ground, SpeadGround::Loopback) { "65507" } else { "1472" };
            client.args(["-u", "-b", "0", "-l", length]);
        }
        client
    }

    /// Gb/s, share of datagrams lost, and cores that both ends used.
    ///
    /// # Errors
    /// What kept it from giving a result.
    pub fn measure(&self, ground: &SpeadGround, stop: Asked<'_>) -> Result<Value, LabError> {
        let wrong = |e: &dyn std::fmt::Display| failed("iperf3", e);
        let (address, port) = (ground.address(0).to_string(), IPERF_PORT.to_string());
        let mut server = ground.pinned((0, false), Path::new("iperf3"), self.cores, RIGHTS);
        server.args(["-s", "-1", "-p", &port, "-B", &address]);
        let mut server = RunningChild::start("iperf3 server", server).map_err(|e| wrong(&e))?;
        let listens = || ground.listens(0, true, IPERF_PORT);
        server.wait_until(Duration::from_secs(10), stop, listens).map_err(|e| wrong(&e))?;
        let client = RunningChild::start("iperf3 client", self.client(ground));
        let mut client = client.map_err(|e| wrong(&e))?;
        let limit = Duration::from_secs(self.seconds + 30);
        let ended = client.end(limit, stop).map_err(|e| wrong(&e))?;
        let ended = ended.ok_or_else(|| wrong(&"it does not end"))?;
        // It ends with its client.
        let _ended = server.end(Duration::from_secs(10), stop).map_err(|e| wrong(&e))?;
        let json: Value = serde_json::from_str(&ended.output).map_err(|e| wrong(&e))?;
        told(&json, self.tcp).ok_or_else(|| wrong(&"no rate in its JSON"))
    }
}

/// What counts of iperf3's JSON.
fn told(json: &Value, tcp: bool) -> Option<Value> {
    let number = |path: &str| json.pointer(path).and_then(Value::as_f64);
    let (rate, lost) = match tcp {
        true => (number("/end/sum_received/bits_per_second"), None),
        false => (number("/end/sum/bits_per_second"), number("/end/sum/lost_percent")),
    };
    let cores = |who: &str| {
        let percent = number(&format!("/end/cpu_utilization_percent/{who}_total"));
        percent.map(|percent| percent / 100.0)
    };
    Some(json!({
        "gbps": rate? / 1e9, "lost_percent": lost, "sender_cores": cores("host"), "receiver_cores": cores("remote"),
    }))
}

/// Table 1: the raw links.
pub(super) fn table1(campaign: &mut Campaign<'_>, record: &mut Record) -> Result<String, LabError> {
    let version = iperf3::version(Path::new("iperf3"));
    let Ok(version) = version else {
        return Ok("\n## Table 1\n\nNot measured: the program iperf3 is missing.\n".to_owned());
    };
    record.parameter("iperf3", version);
    let run =
        IperfRun { tcp: false, seconds: campaign.asked.iperf_seconds, more: &[], cores: None };
    let mut text = "\n## Table 1: iperf3\n\n| link | Gb/s | lost % | sender cores | receiver cores | memo Gb/s | memo lost % |\n\
                    |---|---|---|---|---|---|---|\n"
        .to_owned();
    for (n, line) in memo::TABLE1.iter().enumerate() {
        let (link, tcp, name) = (n >= 2, n % 2 == 1, line.name);
        if link && !campaign.asked.namespaces {
            continue;
        }
        let ground = match link {
            true => SpeadGround::links(&[1.0], 1500).map_err(|e| LabError::Failed(e.into()))?,
            false => SpeadGround::Loopback,
        };
        let mut values: [Vec<f64>; 4] = Default::default();
        for repeat in 0..campaign.asked.repeats {
            let stop = campaign.stop;
            let key = format!("table1 {name} {repeat}");
            let value = campaign.kept(&key, || IperfRun { tcp, ..run }.measure(&ground, stop))?;
            let keys = ["gbps", "lost_percent", "sender_cores", "receiver_cores"];
            for (list, key) in values.iter_mut().zip(keys) {
                list.extend(value.get(key).and_then(Value::as_f64));
            }
            record.row(json!({"part": "table1", "link": name, "run": repeat, "trial": value}));
        }
        let ours = values.map(|list| pm(&list)).join(" | ");
        let (mean, sd) = line.gbps;
        text += &format!("| {name} | {ours} | {mean:.3} ± {sd:.3} | {} |\n", memo(line.lost));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iperf3_says_rate_loss_and_cores() {
        // Keys as iperf 3.12 writes them.
        let json = json!({"end": {
            "sum": {"bits_per_second": 8e8, "lost_percent": 12.5},
            "sum_received": {"bits_per_second": 7e8},
            "cpu_utilization_percent": {"host_total": 98.0, "remote_total": 25.0},
        }});
        let udp = told(&json, false).unwrap();
        assert_eq!(
            (&udp["gbps"], &udp["lost_percent"], &udp["sender_cores"], &udp["receiver_cores"]),
            (&json!(0.8), &json!(12.5), &json!(0.98), &json!(0.25))
        );
        let tcp = told(&json, true).unwrap();
        assert_eq!((&tcp["gbps"], &tcp["lost_percent"]), (&json!(0.7), &Value::Null));
        assert_eq!(told(&json!({"error": "unable to connect"}), true), None);
    }

    #[test]
    fn iperf3_is_pinned_as_the_other_programs_are() {
        let run = IperfRun { tcp: true, seconds: 2, more: &["-C", "cubic"], cores: Some([3, 4]) };
        let words = |run: IperfRun<'_>| {
            let command = run.client(&SpeadGround::Loopback);
            let words = command.get_args().map(|w| w.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words(run), "-c 3 iperf3 -c 127.0.0.1 -p 17147 -J -t 2 -C cubic");
        let free = IperfRun { tcp: false, more: &[], cores: None, ..run };
        assert_eq!(words(free), "-c 127.0.0.1 -p 17147 -J -t 2 -u -b 0 -l 65507");
    }
}
