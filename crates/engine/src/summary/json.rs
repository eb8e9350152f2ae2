//! The ledger as one JSON object, `fullcount/summary/1`. Source: `docs/losses.md`.

use fullcount_core::ledger::{Place, Role, Unit};
use fullcount_core::status::ModuleFacts;
use serde_json::{Map, Value, json};

use super::{Summary, clock, numbered};
use crate::account::{Account, PacketParts};
use crate::places::Shared;
use crate::places::watch::Testimony;
use crate::status::PartLine;

impl Summary {
    /// The object.
    pub fn to_json(&self) -> Value {
        let a = &self.account;
        let packets = self.packets_json();
        let mut bytes = Map::new();
        if let Some(sent) = self.sent_bytes {
            bytes.insert("sent".into(), json!(sent));
        }
        bytes.insert("received".into(), json!(self.counter("receive.bytes")));
        let (gbps, mpps, events_per_s) = self.rates();
        let mut rates = Map::new();
        rates.insert("gbps".into(), json!(gbps));
        if let Some(wire) = self.wire_gbps() {
            rates.insert("wire_gbps".into(), json!(wire));
        }
        rates.insert("mpps".into(), json!(mpps));
        rates.insert("events_per_s".into(), json!(events_per_s));
        let cpu = self.cpu_json();
        let counters: Map<String, Value> =
            self.entries.iter().map(|e| (e.info.name.to_string(), json!(e.value))).collect();
        let (outputs, events_lost) = self.outputs_json();
        let messages_lost = self.messages_lost();
        let mut object = json!({
            "schema": "fullcount/summary/1",
            "verb": self.verb,
            "seconds": self.active.as_secs_f64(),
            "packets": packets,
            "bytes": bytes,
            "readouts": self.counter("readouts.count"),
            "hits": self.counter("hits.count"),
            "events": self.events(),
            "events_lost": events_lost,
            "messages_lost": messages_lost,
            "rates": rates,
            "per": a.per(),
            "cpu": cpu,
            "counters": counters,
            "outputs": outputs,
            "balance": a.balance,
        });
        if let Some(r) = &self.refused {
            object["refused"] = json!({"packets": r.counted.refused, "percent": r.counted.percent(),
                                       "limit_percent": r.limit, "looks_like": r.looks_like,
                                       "message": r.message});
        }
        if !a.lost_numbered.is_empty() {
            let each = a.lost_numbered.iter().map(|s| (s.unit.key().to_owned(), numbered::json(s)));
            object["lost_numbered"] = each.collect();
        }
        if let Some(clock) = &self.clock {
            object["clock"] = clock::value(clock);
        }
        let (modules, hidden) = &self.modules;
        if !modules.is_empty() {
            let one = |m: &ModuleFacts| json!({"name": m.name, "packets": m.packets, "lost": m.lost, "age_ms": m.age_ms, "silent": m.silent});
            object["modules"] = modules.iter().map(one).collect();
            object["modules_hidden"] = json!(hidden);
        }
        if !self.parts.is_empty() {
            object["workers"] = self.parts.iter().map(|p| self.part_json(p)).collect();
        }
        object
    }

    /// What became of every packet.
    fn packets_json(&self) -> Map<String, Value> {
        let a = &self.account;
        let mut packets = Map::new();
        if let Some(sent) = a.sent {
            packets.insert("sent".into(), json!(sent));
        }
        packets.insert("received".into(), json!(a.received));
        packets.insert("accepted".into(), json!(a.accepted));
        packets.insert("rejected".into(), a.rejected.iter().cloned().collect::<Value>());
        packets.insert("truncated".into(), json!(a.truncated));
        packets.insert("queued".into(), json!(a.queued));
        let lost: Map<String, Value> =
            Place::ALL.iter().zip(a.lost).map(|(p, n)| (p.name().into(), json!(n))).collect();
        packets.insert("lost".into(), lost.into());
        packets.insert("lost_at_least".into(), json!(a.at_least > 0));
        packets.insert("lost_shared".into(), a.shared.iter().map(shared_json).collect());
        packets.insert("lost_witnesses".into(), witnesses_json(a));
        for (name, n) in [
            ("duplicate", a.duplicate),
            ("reordered", a.reordered),
            ("late", a.late),
            ("restarts", a.restarts),
        ] {
            packets.insert(name.into(), json!(n));
        }
        if let Some(PacketParts { delivered, lost, rejected }) = a.unannounced() {
            let parts = json!({"delivered": delivered, "lost": lost, "rejected": rejected});
            packets.insert("unannounced".into(), parts);
        }
        packets
    }

    fn cpu_json(&self) -> Map<String, Value> {
        let mut cpu = Map::new();
        cpu.insert("user".into(), json!(self.cpu.user));
        cpu.insert("system".into(), json!(self.cpu.system));
        if let Some(c) = self.simulator {
            cpu.insert("simulator".into(), json!({"user": c.user, "system": c.system}));
        }
        if let Some(s) = self.cpu.softirq {
            cpu.insert("softirq".into(), json!(s));
        }
        cpu
    }

    /// Outputs, and events that each required one lost.
    fn outputs_json(&self) -> (Map<String, Value>, Map<String, Value>) {
        let mut outputs = Map::new();
        let mut events_lost = Map::new();
        for o in &self.outputs {
            let mut out = Map::new();
            out.insert("path".into(), json!(o.place));
            if o.rows.is_empty() {
                out.insert("events".into(), json!(o.events));
            } else {
                let rows: Map<String, Value> =
                    o.rows.iter().map(|(table, n)| ((*table).into(), json!(n))).collect();
                out.insert("rows".into(), rows.into());
            }
            if o.bytes > 0 {
                out.insert("bytes".into(), json!(o.bytes));
            }
            if let Some(why) = &o.failure {
                out.insert("failure".into(), json!(why));
            }
            outputs.insert(o.name.into(), out.into());
            if o.required {
                let dropped =
                    self.counter(&format!("queue.{}.dropped", o.name)) + self.dropped_by(o.name);
                events_lost.insert(o.name.into(), json!(dropped));
            }
        }
        self.packet_outputs_json(&mut outputs);
        (outputs, events_lost)
    }

    /// Outputs of packets, and spools.
    fn packet_outputs_json(&self, outputs: &mut Map<String, Value>) {
        for (name, taken) in &self.packets {
            let mut out = Map::new();
            match taken {
                Ok(r) => {
                    out.insert("path".into(), json!(r.place));
                    out.insert("packets".into(), json!(r.packets));
                    out.insert("bytes".into(), json!(r.bytes));
                    out.extend(r.files.map(|files| ("files".into(), json!(files))));
                }
                Err(why) => {
                    let written = self.counter(&format!("sink.{name}.written"));
                    out.insert("packets".into(), json!(written));
                    let bytes = self.entries.get(&format!("sink.{name}.bytes"));
                    out.extend(bytes.map(|bytes| ("bytes".into(), json!(bytes))));
                    out.insert("failure".into(), json!(why));
                }
            }
            outputs.insert((*name).into(), out.into());
        }
        for (output, folder) in &self.spools {
            let [messages, content, bytes] = self.spooled(output);
            let what = if self.takes_packets(output) { "packets" } else { "events" };
            if let Some(out) = outputs.get_mut(*output) {
                let path = folder.display().to_string();
                out["spool"] =
                    json!({"path": path, "messages": messages, what: content, "bytes": bytes});
            }
        }
    }

    /// One worker or link.
    fn part_json(&self, p: &PartLine) -> Value {
        let mut o = json!({"label": p.label, "packets": p.packets, "bytes": p.bytes,
                               "kernel_drops": p.kernel_drops});
        if let Some(lost) = p.lost {
            o["lost"] = json!(lost);
        }
        if let Some(missing) = self.missing(p) {
            o["missing"] = json!(missing);
        }
        o
    }

    /// Messages that outputs lost, by output.
    fn messages_lost(&self) -> Map<String, Value> {
        let mut messages_lost = Map::new();
        for e in self.entries.iter() {
            let missing = matches!(e.info.role, Role::Missing(_) | Role::Dropped(_));
            if let (Unit::Messages, true, Some(of)) =
                (e.info.unit, missing, e.info.hop.strip_prefix("sink."))
            {
                let sum = messages_lost.get(of).and_then(Value::as_u64).unwrap_or(0);
                messages_lost.insert(of.into(), json!(sum.saturating_add(e.value)));
            }
        }
        messages_lost
    }
}

/// One shared loss.
fn shared_json(s: &Shared) -> Value {
    let places: Vec<&str> = s.places.iter().map(|p| p.name()).collect();
    json!({"places": places, "packets": s.packets})
}

/// The host's counters that moved, by the place that they name.
fn witnesses_json(a: &Account) -> Value {
    let each = |(place, all): &(Place, Vec<Testimony>)| {
        let one = |t: &Testimony| json!({"place": place.name(), "counter": t.name, "times": t.times, "of": t.of});
        all.iter().map(one).collect::<Vec<_>>()
    };
    a.testimony.iter().flat_map(each).collect()
}
