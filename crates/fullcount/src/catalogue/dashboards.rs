//! Grafana dashboards of the counter catalogue, for Prometheus and for Graphite: `deploy/monitoring` holds what is printed here.
//!
//! Every panel comes of the catalogue's units, hops and roles, so that a new counter has its place without anybody's help.
//! Source: `control-and-monitoring.md` section 4.6 (panels), `docs/operations.md`.

use std::collections::BTreeSet;

use fullcount_core::ledger::{Info, Role, Unit};
use serde_json::{Value, json};

/// Where Grafana reads from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum MetricStore {
    /// Prometheus.
    Prometheus,
    /// Graphite.
    Graphite,
}

/// One graph: title, unit of Grafana, queries with their legends.
struct Panel {
    title: &'static str,
    unit: &'static str,
    queries: Vec<(String, String)>,
}

/// Counters of the catalogue that something is true for, each name once; those of a placeholder are not.
fn chosen(lines: &[(&'static str, Info)], is: impl Fn(&Info) -> bool) -> Vec<String> {
    let names =
        lines.iter().map(|(_, info)| info).filter(|info| is(info) && !info.name.contains('<'));
    let names: BTreeSet<String> = names.map(|info| info.name.to_string()).collect();
    names.into_iter().collect()
}

fn is_loss(info: &Info) -> bool {
    matches!(info.role, Role::Missing(_) | Role::Dropped(_))
}

fn is_refused(info: &Info) -> bool {
    info.role == Role::Rejected && info.hop == "decode"
}

fn is_waiting(info: &Info) -> bool {
    info.role == Role::Queued || info.name.ends_with(".spool.messages")
}

fn is_rows(info: &Info) -> bool {
    info.unit == Unit::Rows && info.role == Role::Accepted
}

/// Rate of one counter.
fn rate(store: MetricStore, name: &str) -> (String, String) {
    let query = match store {
        MetricStore::Prometheus => {
            format!(
                "rate({{name=\"{name}\",job=~\"$job\",instance=~\"$instance\"}}[$__rate_interval])"
            )
        }
        MetricStore::Graphite => format!("perSecond($prefix.{name})"),
    };
    let legend = match store {
        MetricStore::Prometheus => format!("{{{{instance}}}} {name}"),
        MetricStore::Graphite => name.to_owned(),
    };
    (query, legend)
}

/// Rates of many: one query where the labels tell them apart.
fn rates(store: MetricStore, labels: &str, names: &[String]) -> Vec<(String, String)> {
    match store {
        MetricStore::Prometheus => {
            let chosen = format!(
                "{{__name__=~\"fullcount_.+_total\",{labels},job=~\"$job\",instance=~\"$instance\"}}"
            );
            vec![(format!("rate({chosen}[$__rate_interval]) > 0"), "{{instance}} {{name}}".into())]
        }
        MetricStore::Graphite => names.iter().map(|name| rate(store, name)).collect(),
    }
}

/// The host and each module in Graphite; legends are made of the names that are there.
fn in_graphite() -> Vec<Panel> {
    let named = |query: &str, what: &str, to: &str| {
        (format!("aliasSub({query}, '^.*{what}', '{to}')"), String::new())
    };
    let lost = |of: &str| {
        named(&format!("perSecond($prefix.machine.{of})"), r"\.machine\.([^ )]+).*$", r"\1")
    };
    let module =
        |of: &str, query: &str| named(query, &format!(r"\.module\.([^.]+)\.{of}.*$"), r"\1");
    let lost = ["softnet.*.dropped", "nic.*.missed", "udp.receive_buffer_errors"].map(lost);
    let busy = named(
        "scale(perSecond($prefix.machine.cpu.*.busy_ms), 0.001)",
        r"\.cpu\.([0-9]+)\..*$",
        r"CPU \1",
    );
    let packets = module("packets", "perSecond($prefix.module.*.packets)");
    let age = module("age_ms", "$prefix.module.*.age_ms");
    let panel = |title, unit, queries| Panel { title, unit, queries };
    vec![
        panel("Processor, core by core", "percentunit", vec![busy]),
        panel("Losses that the host counts", "pps", lost.into()),
        panel("Packets of each module", "pps", vec![packets]),
        panel("Age of each module's newest packet", "ms", vec![age]),
    ]
}

/// What Prometheus is told of them, and what is wrong now.
fn of_host_and_modules() -> Vec<Panel> {
    let mut all = Vec::new();
    let at = "job=~\"$job\",instance=~\"$instance\"";
    let busy = format!(
        "1 - rate(fullcount_host_cpu_seconds_total{{mode=\"idle\",{at}}}[$__rate_interval])"
    );
    all.push(Panel {
        title: "Processor, core by core",
        unit: "percentunit",
        queries: vec![(busy, "{{instance}} CPU {{cpu}}".into())],
    });
    let host = format!(
        "rate({{__name__=~\"fullcount_host_(softnet_dropped|nic_receive_missed|udp_receive_buffer_errors)_total\",{at}}}[$__rate_interval]) > 0"
    );
    let legend = "{{instance}} {{__name__}} {{cpu}}{{interface}}";
    all.push(Panel {
        title: "Losses that the host counts",
        unit: "pps",
        queries: vec![(host, legend.into())],
    });
    let rate = format!("rate(fullcount_module_packets_total{{{at}}}[$__rate_interval])");
    all.push(Panel {
        title: "Packets of each module",
        unit: "pps",
        queries: vec![(rate, "{{instance}} {{module}}".into())],
    });
    let age = format!("fullcount_module_age_seconds{{{at}}}");
    all.push(Panel {
        title: "Age of each module's newest packet",
        unit: "s",
        queries: vec![(age, "{{instance}} {{module}}".into())],
    });
    let state = format!(
        "{{__name__=~\"fullcount_(output_failed|mostly_refused|spool_nearly_full|module_silent)\",{at}}} > 0"
    );
    let legend = "{{instance}} {{__name__}} {{output}}{{module}}";
    all.push(Panel {
        title: "What is wrong now",
        unit: "short",
        queries: vec![(state, legend.into())],
    });
    all
}

fn panels(store: MetricStore, lines: &[(&'static str, Info)]) -> Vec<Panel> {
    let one = |name: &str| rate(store, name);
    let mut all = vec![
        Panel { title: "Packets received", unit: "pps", queries: vec![one("receive.packets")] },
        Panel { title: "Bytes received", unit: "Bps", queries: vec![one("receive.bytes")] },
        Panel { title: "Events made", unit: "cps", queries: vec![one("events.count")] },
        Panel {
            title: "Losses by place",
            unit: "cps",
            queries: rates(store, "role=~\"missing|dropped\"", &chosen(lines, is_loss)),
        },
        Panel {
            title: "Packets refused, by reason",
            unit: "cps",
            queries: rates(store, "role=\"rejected\",hop=\"decode\"", &chosen(lines, is_refused)),
        },
        Panel {
            title: "Rows of tables",
            unit: "rowsps",
            queries: rates(store, "role=\"accepted\",unit=\"rows\"", &chosen(lines, is_rows)),
        },
    ];
    let waiting = chosen(lines, is_waiting);
    all.push(Panel {
        title: "What waits: queues and spools",
        unit: "short",
        queries: match store {
            MetricStore::Prometheus => {
                let at = "job=~\"$job\",instance=~\"$instance\"";
                let queues = format!("{{__name__=~\"fullcount_.+\",role=\"queued\",{at}}}");
                let spools = format!("{{__name__=~\"fullcount_.+_spool_messages\",{at}}}");
                let legend = "{{instance}} {{name}}";
                vec![(queues, legend.into()), (spools, legend.into())]
            }
            MetricStore::Graphite => {
                waiting.iter().map(|n| (format!("$prefix.{n}"), n.clone())).collect()
            }
        },
    });
    all.extend(match store {
        MetricStore::Prometheus => of_host_and_modules(),
        MetricStore::Graphite => in_graphite(),
    });
    all.push(Panel {
        title: "Seconds since the start",
        unit: "s",
        queries: match store {
            MetricStore::Prometheus => {
                let started = "fullcount_start_time_seconds{job=~\"$job\",instance=~\"$instance\"}";
                vec![(format!("time() - {started}"), "{{instance}}".into())]
            }
            MetricStore::Graphite => vec![("$prefix.main.uptime".into(), "uptime".into())],
        },
    });
    all
}

/// A choice on top of the dashboard.
fn choice(name: &str, query: &str) -> Value {
    json!({
        "name": name, "type": "query", "query": query, "includeAll": true, "multi": true, "allValue": ".*",
        "current": {"selected": true, "text": ["All"], "value": ["$__all"]}, "refresh": 2,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
    })
}

/// The dashboard as Grafana imports it.
pub fn dashboard(store: MetricStore, lines: &[(&'static str, Info)]) -> Value {
    let kind = if store == MetricStore::Prometheus { "prometheus" } else { "graphite" };
    let source = json!({"type": kind, "uid": "${datasource}"});
    let mut variables = vec![json!({"name": "datasource", "type": "datasource", "query": kind})];
    match store {
        MetricStore::Prometheus => variables.extend([
            choice("job", "label_values(fullcount_running, job)"),
            choice("instance", "label_values(fullcount_running{job=~\"$job\"}, instance)"),
        ]),
        MetricStore::Graphite => variables.push(json!({
            "name": "prefix", "type": "textbox", "query": "fullcount.*",
            "current": {"text": "fullcount.*", "value": "fullcount.*"},
        })),
    }
    let panel = |(at, panel): (usize, Panel)| {
        let target = |(n, (query, legend)): (usize, (String, String))| {
            // A, B, …, Z, A1, B1, …
            let letter = char::from(b'A' + (n % 26) as u8);
            let name = if n < 26 { letter.to_string() } else { format!("{letter}{}", n / 26) };
            match store {
                MetricStore::Prometheus => {
                    json!({"refId": name, "datasource": source, "expr": query, "legendFormat": legend})
                }
                MetricStore::Graphite => {
                    let query = match legend.is_empty() {
                        true => query,
                        false => format!("alias({query}, '{legend}')"),
                    };
                    json!({"refId": name, "datasource": source, "target": query})
                }
            }
        };
        let targets: Vec<Value> = panel.queries.into_iter().enumerate().map(target).collect();
        json!({
            "id": at + 1, "title": panel.title, "type": "timeseries", "datasource": source,
            "gridPos": {"x": at % 2 * 12, "y": at / 2 * 8, "w": 12, "h": 8},
            "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
            "options": {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []},
                        "tooltip": {"mode": "multi", "sort": "desc"}},
            "targets": targets,
        })
    };
    let panels: Vec<Value> = panels(store, lines).into_iter().enumerate().map(panel).collect();
    json!({
        "title": format!("Fullcount ({kind})"), "uid": format!("fullcount-{kind}"), "schemaVersion": 39,
        "tags": ["fullcount"], "timezone": "browser", "refresh": "5s", "editable": true,
        "time": {"from": "now-15m", "to": "now"}, "templating": {"list": variables}, "panels": panels,
    })
}
