//! `fullcount lab link`: what a UDP datagram costs on a link, by the formula; nothing is measured.
//!
//! Refuses, before anything is printed: speeds, MTUs, tags, sizes and rates out of range, with the range.

use clap::Args;
use fullcount_core::link::cost::UDP;
use fullcount_core::link::{Cost, Link, LinkError};
use fullcount_io::quantity::Rate;
use serde_json::{Value, json};

use super::read;
use crate::exit::Failure;
use crate::{say, tell};

/// Frame sizes, overhead, rates and times of UDP datagrams on a link; a calculation.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LabLinkFlags {
    /// Speed of the link, bit/s
    #[arg(long, value_name = "RATE", default_value = "10Gbps")]
    speed: String,
    /// Largest IP packet, bytes; longer datagrams go as IP fragments [default: 1500, or 9000 for
    /// sizes that do not fit 1500]
    #[arg(long, value_name = "BYTES")]
    mtu: Option<usize>,
    /// VLAN tags in each frame, 4 B each: 0, 1 or 2
    #[arg(long, value_name = "N", default_value_t = 0)]
    vlan: u8,
    /// IPv6 (40 B header) instead of IPv4 (20 B)
    #[arg(long)]
    ipv6: bool,
    /// User data of one datagram, bytes, with commas [default: those of the paper's table 1:
    /// 1,18,82,210,466,978,1472,8972]
    #[arg(
        long,
        value_name = "BYTES",
        value_delimiter = ',',
        default_value = "1,18,82,210,466,978,1472,8972",
        hide_default_value = true
    )]
    sizes: Vec<usize>,
    /// Also say how much of the link this rate takes: user data (8Gbps) or datagrams (1Mpps) a second
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
A frame is counted with preamble (8 B) and gap (12 B); below 64 B it is padded.

Examples:
  fullcount lab link --speed 10Gbps
  fullcount lab link --speed 100Gbps --mtu 9000 --vlan 1 --ipv6 --sizes 64,1472,8972
  fullcount lab link --mtu 1500 --sizes 8972          (seven fragments)
  fullcount lab link --rate 9.5Gbps --sizes 1472,8972 (fits only above some size)";

/// One size on its link.
struct Row {
    payload: usize,
    link: Link,
    cost: Cost,
    used: Option<f64>,
}

/// Prints the table.
pub fn link(flags: LabLinkFlags) -> Result<u8, Failure> {
    let speed = read::whole_bits("speed", &flags.speed)?;
    let rate = flags.rate.as_ref().map(|r| read::rate("rate", r)).transpose()?;
    let headers = UDP as usize + if flags.ipv6 { 40 } else { 20 };
    let mut rows = Vec::with_capacity(flags.sizes.len());
    for &payload in &flags.sizes {
        let usual = if payload + headers <= 1500 { 1500 } else { 9000 };
        let mtu = flags.mtu.unwrap_or(usual);
        let link = Link::new(speed, mtu, flags.ipv6, flags.vlan).map_err(wrong)?;
        let cost = link.cost(payload).map_err(wrong)?;
        let used = rate.map(|r| link.utilisation(cost, r.packets_per_second(payload, None)));
        rows.push(Row { payload, link, cost, used });
    }
    if flags.json {
        say!("{}", object(&flags, speed, &rows));
        return Ok(0);
    }
    let ip = if flags.ipv6 { "IPv6" } else { "IPv4" };
    let tags = match flags.vlan {
        0 => String::new(),
        1 => ", 1 VLAN tag".into(),
        n => format!(", {n} VLAN tags"),
    };
    let mut text = format!("{}, UDP over {ip}{tags}\n\n", Rate::Bits(speed as f64));
    text += "| user data, B | MTU, B | frames | padding, B | frames, B | with preamble and gap, B \
             | overhead, % | time on the wire, ns | max, Mpackets/s | max user data, Gbit/s |";
    text += if rate.is_some() { " of the link used, % |\n" } else { "\n" };
    text += "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|";
    text += if rate.is_some() { "--:|\n" } else { "\n" };
    for r in &rows {
        let (link, cost) = (r.link, r.cost);
        text += &format!(
            "| {} | {} | {} | {} | {} | {} | {:.1} | {} | {:.2} | {:.3} |",
            r.payload,
            link.mtu(),
            cost.frames,
            cost.padding,
            cost.frame_bytes(),
            cost.bytes(),
            100.0 * cost.overhead(),
            nanoseconds(link.time_ps(cost)),
            link.datagrams_per_s(cost) / 1e6,
            link.payload_bps(cost) / 1e9,
        );
        if let Some(used) = r.used {
            let fits = if used > 1.0 { " (does not fit)" } else { "" };
            text += &format!(" {:.1}{fits} |", 100.0 * used);
        }
        text.push('\n');
    }
    tell!("{text}");
    Ok(0)
}

/// The sentence of a refusal, with the flag that it is about.
fn wrong(e: LinkError) -> Failure {
    let flag = match e {
        LinkError::Speed(_) => "--speed",
        LinkError::Mtu { .. } => "--mtu",
        LinkError::Tags(_) => "--vlan",
        LinkError::Payload { .. } => "--sizes",
    };
    Failure::Wrong(format!("{flag}: {e}"))
}

/// `7230.4` of 7,230,400 ps: all digits that are there, none that is not.
fn nanoseconds(ps: u64) -> String {
    let text = format!("{}.{:03}", ps / 1000, ps % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn object(flags: &LabLinkFlags, speed: u64, rows: &[Row]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|r| {
            let c = r.cost;
            let mut row = json!({
                "payload_bytes": r.payload,
                "mtu_bytes": r.link.mtu(),
                "frames": c.frames,
                "bytes": {
                    "payload": c.payload, "udp": c.udp, "ip": c.ip, "ethernet": c.ethernet,
                    "vlan": c.vlan, "padding": c.padding, "check": c.check,
                    "preamble": c.preamble, "gap": c.gap,
                    "frames": c.frame_bytes(), "total": c.bytes(),
                },
                "overhead": c.overhead(),
                "time_ps": r.link.time_ps(c),
                "packets_per_s": r.link.datagrams_per_s(c),
                "frames_per_s": r.link.frames_per_s(c),
                "payload_bps": r.link.payload_bps(c),
            });
            if let (Some(used), Some(row)) = (r.used, row.as_object_mut()) {
                row.insert("utilisation".into(), used.into());
            }
            row
        })
        .collect();
    json!({
        "schema": "fullcount/link/1",
        "speed_bps": speed,
        "ipv6": flags.ipv6,
        "vlan_tags": flags.vlan,
        "rows": rows,
    })
}

#[cfg(test)]
mod tests {
    use super::nanoseconds;

    #[test]
    fn times_keep_their_digits() {
        assert_eq!(nanoseconds(7_230_400), "7230.4");
        assert_eq!(nanoseconds(672_000), "672");
        assert_eq!(nanoseconds(67_200), "67.2");
        assert_eq!(nanoseconds(1), "0.001");
        assert_eq!(nanoseconds(0), "0");
    }
}
