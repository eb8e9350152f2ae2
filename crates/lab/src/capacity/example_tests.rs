//! Round numbers for tests.

use super::measured::MeasuredRates;

pub const MEMORY: &str = r#"{
  "host": {"cpus": 4},
  "rows": [
    {"detector": "sonde", "input": "recorded", "how": "memory", "packet_bytes": 145.0,
     "packets": {"value": 1.0}, "events": {"value": 1.0}},
    {"detector": "sonde", "input": "simulated", "how": "memory", "packet_bytes": 1250.0,
     "packets": {"value": 2000000.0}, "events": {"value": 500000000.0}}
  ]}"#;

pub const UDP: &str = r#"{"host": {"cpus": 4}, "rows": [
    {"detector": "sonde", "input": "simulated", "how": "udp-lossless-1", "packet_bytes": 1250.0,
     "packets": {"value": 400000.0}, "events": {"value": 100000000.0}}]}"#;

pub const RECEIVE: &str = r#"{"host": {"cpus": 4}, "figures": {
    "lossless_auto_1000": {"value": 1000000.0}, "lossless_auto_9000": {"value": 250000.0}}}"#;

pub const OUTPUT: &str = r#"{"host": {"cpus": 4}, "figures": {
    "capacity_encode": {"value": 1e9}, "capacity_spool": {"value": 500e6},
    "capacity_produce": {"value": 100e6}, "capacity_disk": {"value": 250e6}}}"#;

pub fn facts() -> MeasuredRates {
    let mut facts = MeasuredRates::default();
    for (name, text) in [
        ("memory.json", MEMORY),
        ("udp.json", UDP),
        ("lossless.json", RECEIVE),
        ("output.json", OUTPUT),
    ] {
        facts.read(name, text).unwrap();
    }
    facts
}
