//! Grafana dashboards of the counter catalogue, for Prometheus and for Graphite: `deploy/monitoring` holds what is printed here.
//!
//! Every panel comes of the catalogue's units, hops and roles, so that a new counter has its place without anybody's help.
//! Below them each registered detector has a row of its own.
//! Source: `control-and-monitoring.md` section 4.6 (panels), `docs/operations.md`.

mod detectors;
mod host;

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
        MetricStore::Prometheus => host::in_prometheus(),
        MetricStore::Graphite => host::in_graphite(),
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

/// Height of a graph, in Grafana's own unit.
const HEIGHT: usize = 8;

/// Makes Grafana's panels, each with an id of its own.
struct Drawing {
    store: MetricStore,
    source: Value,
    /// The last id.
    last: usize,
}

impl Drawing {
    fn id(&mut self) -> usize {
        self.last += 1;
        self.last
    }

    /// Graphs in two columns, from this height on.
    fn graphs(&mut self, panels: Vec<Panel>, y: usize) -> Vec<Value> {
        let places = (0..).map(|at| (at % 2 * 12, y + at / 2 * HEIGHT));
        panels.into_iter().zip(places).map(|(panel, place)| self.graph(panel, place)).collect()
    }

    fn graph(&mut self, panel: Panel, (x, y): (usize, usize)) -> Value {
        let targets = panel.queries.into_iter().enumerate();
        let targets: Vec<Value> = targets.map(|(n, query)| self.target(n, query)).collect();
        json!({
            "id": self.id(), "title": panel.title, "type": "timeseries", "datasource": self.source,
            "gridPos": {"x": x, "y": y, "w": 12, "h": HEIGHT},
            "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
            "options": {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []},
                        "tooltip": {"mode": "multi", "sort": "desc"}},
            "targets": targets,
        })
    }

    fn target(&self, n: usize, (query, legend): (String, String)) -> Value {
        // A, B, …, Z, A1, B1, …
        let letter = char::from(b'A' + (n % 26) as u8);
        let name = if n < 26 { letter.to_string() } else { format!("{letter}{}", n / 26) };
        let source = &self.source;
        match self.store {
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
    }

    /// A row that is closed: Grafana asks for what is in it once somebody opens it.
    fn row(&mut self, detector: &str, graphs: Vec<Panel>, y: usize) -> Value {
        json!({
            "id": self.id(), "title": format!("Detector {detector}"), "type": "row", "collapsed": true,
            "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}, "panels": self.graphs(graphs, y + 1),
        })
    }
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
    let mut drawing = Drawing { store, source, last: 0 };
    let top = panels(store, lines);
    let below = top.len().div_ceil(2) * HEIGHT;
    let mut panels = drawing.graphs(top, 0);
    for ((detector, graphs), y) in detectors::rows(store, lines).into_iter().zip(below..) {
        panels.push(drawing.row(&detector, graphs, y));
    }
    json!({
        "title": format!("Fullcount ({kind})"), "uid": format!("fullcount-{kind}"), "schemaVersion": 39,
        "tags": ["fullcount"], "timezone": "browser", "refresh": "5s", "editable": true,
        "time": {"from": "now-15m", "to": "now"}, "templating": {"list": variables}, "panels": panels,
    })
}
