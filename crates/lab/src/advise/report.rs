//! Advice as text for people and as one JSON object for programs.
//!
//! The JSON's keys are stable: `docs/advise.md`.

use std::fmt::Write;

use serde_json::{Value, json};

use fullcount_core::quantity::{bits_text, time_text};

use super::Advice;
use super::line::{AdviceLine, AdviceStatus};
use super::need::count_text;
use super::wish::HostRole;

/// Width of the text.
const WIDTH: usize = 100;
/// Column of everything but the status.
const INDENT: usize = 9;
/// Commands of one line that the text shows; all are in the JSON.
const COMMANDS: usize = 4;

impl HostRole {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            HostRole::Receive => "receive",
            HostRole::Send => "send",
            HostRole::Both => "receive and send",
        }
    }
}

impl Advice {
    /// The text, with a last line that counts.
    pub fn text(&self) -> String {
        let n = &self.need;
        let on = self.interface.as_ref().map_or(String::new(), |i| format!(" on {i}"));
        let mut text = String::new();
        let rate = bits_text(n.bits);
        let _ = writeln!(text, "{} {rate} as packets of {} B{on}", self.wish.role.word(), n.size);
        let mtu = match n.mtu_known {
            true => format!("at MTU {}", n.wire.mtu),
            false => format!("at an MTU of {} B, as is usual for that size", n.wire.mtu),
        };
        let (pps, each) = (count_text(n.pps), time_text(1.0 / n.pps));
        let wire = bits_text(n.wire_bits());
        let _ = writeln!(text, "{pps} packets/s, one every {each}; {wire} on the wire {mtu}");
        for status in AdviceStatus::ALL {
            for line in self.lines.iter().filter(|l| l.status == status) {
                text.push('\n');
                write_line(&mut text, line);
            }
        }
        let _ = writeln!(text, "\n{}", self.counts());
        text
    }

    /// `2 short, 1 hint, 0 unknown, 9 fine`.
    pub fn counts(&self) -> String {
        let part = |s: AdviceStatus| format!("{} {}", self.count(s), s.word());
        AdviceStatus::ALL.map(part).join(", ")
    }

    /// The object.
    pub fn json(&self) -> Value {
        let (w, n) = (&self.wish, &self.need);
        let lines: Vec<Value> = self.lines.iter().map(line_json).collect();
        let counts = AdviceStatus::ALL.map(|s| (s.word().to_owned(), Value::from(self.count(s))));
        json!({
            "schema": "fullcount/advise/1",
            "verb": "advise",
            "for": w.role.word(),
            "interface": self.interface,
            "port": w.port,
            "core": w.core,
            "size": n.size,
            "ipv6": w.ipv6,
            "hold_ms": w.hold.as_secs_f64() * 1e3,
            "packets_per_s": n.pps,
            "payload_bits_per_s": n.bits,
            "wire_bits_per_s": n.wire_bits(),
            "lines": lines,
            "counts": serde_json::Map::from_iter(counts),
        })
    }
}

fn write_line(text: &mut String, line: &AdviceLine) {
    let wanted = line.wanted.as_ref().map_or(String::new(), |w| format!(", wanted {w}"));
    let now = line.now.as_ref().map_or(String::new(), |n| format!(": {n}"));
    let _ = writeln!(text, "{:INDENT$}{}{now}{wanted}", line.status.word(), line.key);
    wrap(text, &line.why);
    for command in line.commands.iter().take(COMMANDS) {
        let _ = writeln!(text, "{:INDENT$}# {command}", "");
    }
    let rest = line.commands.len().saturating_sub(COMMANDS);
    if rest > 0 {
        let _ = writeln!(text, "{:INDENT$}# … and {rest} more like these: --json lists all", "");
    }
}

/// Breaks at blanks.
fn wrap(text: &mut String, sentence: &str) {
    let mut column = 0;
    for word in sentence.split(' ') {
        let length = word.chars().count();
        if column == 0 || column + 1 + length > WIDTH {
            let _ = write!(text, "{}{:INDENT$}", if column == 0 { "" } else { "\n" }, "");
            column = INDENT + length;
        } else {
            text.push(' ');
            column += 1 + length;
        }
        text.push_str(word);
    }
    text.push('\n');
}

fn line_json(line: &AdviceLine) -> Value {
    let mut object = json!({"key": line.key, "status": line.status.word()});
    if let Some(map) = object.as_object_mut() {
        let mut put = |key: &str, value: Value| map.insert(key.to_owned(), value);
        if let Some(now) = &line.now {
            put("now", now.as_str().into());
        }
        if let Some(wanted) = &line.wanted {
            put("wanted", wanted.as_str().into());
        }
        put("why", line.why.as_str().into());
        put("commands", line.commands.clone().into());
        put("apply", (!line.changes.is_empty()).into());
    }
    object
}
