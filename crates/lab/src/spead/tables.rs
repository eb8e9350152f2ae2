//! The memo's tables: 1 (iperf), 2 (light receiver), 3 (`spead2_recv`), both on loopback, and 4 (over a link of 1 Gb/s).

use std::process::Command;
use std::time::Duration;

use fullcount_child::{Asked, RunningChild};
use serde_json::{Value, json};

use super::campaign::Campaign;
use super::ground::SpeadGround;
use super::memo::{self, COLUMNS, Memo};
use super::pm;
use super::tools::{SpeadPeer, SpeadWish};
use super::trial::{FarEnd, HeapTrial, Runner};
use crate::error::{LabError, TrialError};
use crate::peers::iperf3;
use crate::record::Record;

/// Packets of the column `mtu` on loopback, MTU 65536, as the memo has them.
const LOOPBACK_UDP: usize = 65_507;
const LOOPBACK_TCP: usize = 65_483;
const USUAL: usize = 1472;
/// Port of iperf3 inside of a place.
const IPERF_PORT: u16 = 17_147;

/// What a column sends.
fn wish(column: &str, tcp: bool, campaign: &Campaign<'_>, heaps: u64) -> SpeadWish {
    let large = if tcp { LOOPBACK_TCP } else { LOOPBACK_UDP };
    let with_buffers = column.contains("buffers");
    SpeadWish {
        tcp,
        heap_bytes: campaign.asked.heap_bytes,
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
    pub number: u32,
    pub title: &'static str,
    far: FarEnd,
    /// Rows of the memo: UDP Gb/s, (UDP loss %), TCP Gb/s.
    memo: &'static [[Memo; 4]],
}

pub(super) const TABLES: [Table; 3] = [
    Table {
        number: 2,
        title: "sender against a light receiver, loopback",
        far: FarEnd::Light,
        memo: &memo::TABLE2,
    },
    Table {
        number: 3,
        title: "sender to receiver, loopback",
        far: FarEnd::Full,
        memo: &memo::TABLE3,
    },
    Table {
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
                        let trial = self.one(campaign, &ground, &peer, (column, tcp), run)?;
                        record.row(json!({
                            "part": format!("table{}", self.number), "peer": peer.name(), "tcp": tcp,
                            "column": COLUMNS[column], "run": run, "trial": trial.json(),
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
    ) -> Result<HeapTrial, LabError> {
        let key = format!(
            "table{} {} {} {} {run}",
            self.number,
            peer.name(),
            COLUMNS[column],
            if tcp { "tcp" } else { "udp" }
        );
        let heaps = campaign.asked.table_heaps;
        // 1 Gb/s takes its time.
        let heaps = if self.number == 4 { heaps.div_ceil(10) } else { heaps };
        let wish = wish(COLUMNS[column], tcp, campaign, heaps);
        let (far, stop) = (self.far, campaign.stop);
        campaign.trial(&key, || Runner { ground, peer, stop, cores: None }.trial(&wish, &[0], far))
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

/// One run of iperf3 with more of its options: Gb/s and share of datagrams lost.
pub(super) fn iperf(
    ground: &SpeadGround,
    tcp: bool,
    (seconds, more): (u64, &[&str]),
    stop: Asked<'_>,
) -> Result<Value, LabError> {
    let program = std::path::Path::new("iperf3");
    let address = ground.address(0).to_string();
    let port = IPERF_PORT.to_string();
    let mut server = ground.command(0, false, program);
    server.args(["-s", "-1", "-p", &port, "-B", &address]);
    let mut server = RunningChild::start("iperf3 server", server)
        .map_err(TrialError::from)
        .map_err(|e| failed("iperf3", e))?;
    let ready =
        server.wait_until(Duration::from_secs(10), stop, || ground.listens(0, true, IPERF_PORT));
    ready.map_err(|e| failed("iperf3", e))?;
    let mut client: Command = ground.command(0, true, program);
    client.args(["-c", &address, "-p", &port, "-J", "-t", &seconds.to_string()]).args(more);
    if !tcp {
        // The largest datagram that is not cut.
        let length = if matches!(ground, SpeadGround::Loopback) { "65507" } else { "1472" };
        client.args(["-u", "-b", "0", "-l", length]);
    }
    let mut client =
        RunningChild::start("iperf3 client", client).map_err(|e| failed("iperf3", e))?;
    let limit = Duration::from_secs(seconds + 30);
    let ended = client.end(limit, stop).map_err(|e| failed("iperf3", e))?;
    let ended = ended.ok_or_else(|| failed("iperf3", "it does not end"))?;
    // It ends with its client.
    let _ended = server.end(Duration::from_secs(10), stop).map_err(|e| failed("iperf3", e))?;
    let json: Value = serde_json::from_str(&ended.output).map_err(|e| failed("iperf3", e))?;
    let number = |path: &str| json.pointer(path).and_then(Value::as_f64);
    let (rate, lost) = match tcp {
        true => (number("/end/sum_received/bits_per_second"), None),
        false => (number("/end/sum/bits_per_second"), number("/end/sum/lost_percent")),
    };
    let rate = rate.ok_or_else(|| failed("iperf3", "no rate in its JSON"))?;
    Ok(json!({"gbps": rate / 1e9, "lost_percent": lost}))
}

/// Table 1: the raw links.
pub(super) fn table1(campaign: &mut Campaign<'_>, record: &mut Record) -> Result<String, LabError> {
    let version = iperf3::version(std::path::Path::new("iperf3"));
    let Ok(version) = version else {
        return Ok("\n## Table 1\n\nNot measured: the program iperf3 is missing.\n".to_owned());
    };
    record.parameter("iperf3", version);
    let seconds = campaign.asked.iperf_seconds;
    let mut text =
        "\n## Table 1: iperf3\n\n| link | Gb/s | lost % | memo Gb/s |\n|---|---|---|---|\n"
            .to_owned();
    for (n, (name, mean, sd)) in memo::TABLE1.into_iter().enumerate() {
        let (link, tcp) = (n >= 2, n % 2 == 1);
        if link && !campaign.asked.namespaces {
            continue;
        }
        let ground = match link {
            true => SpeadGround::links(&[1.0], 1500).map_err(|e| LabError::Failed(e.into()))?,
            false => SpeadGround::Loopback,
        };
        let (mut rates, mut lost) = (Vec::new(), Vec::new());
        for run in 0..campaign.asked.repeats {
            let stop = campaign.stop;
            let key = format!("table1 {name} {run}");
            let value = campaign.kept(&key, || iperf(&ground, tcp, (seconds, &[]), stop))?;
            rates.extend(value.get("gbps").and_then(Value::as_f64));
            lost.extend(value.get("lost_percent").and_then(Value::as_f64));
            record.row(json!({"part": "table1", "link": name, "run": run, "trial": value}));
        }
        text += &format!("| {name} | {} | {} | {mean:.3} ± {sd:.3} |\n", pm(&rates), pm(&lost));
    }
    Ok(text)
}
