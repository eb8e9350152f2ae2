//! `deploy/monitoring`: what `catalogue` prints, understood by Prometheus' own tool, its alerts tried with its own tests.
//!
//! Source: `docs/operations.md`. Refuses nothing; without promtool it is skipped, and fails with CI=true.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::service::say;
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/monitoring")
}

fn promtool(arguments: &[&str]) -> bool {
    let Ok(said) = Command::new("promtool").args(arguments).current_dir(folder()).output() else {
        let reason = "no promtool: apt-get install prometheus";
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{reason}");
        println!("skipped: {reason}");
        return false;
    };
    let text = String::from_utf8_lossy(&said.stdout) + String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{arguments:?}: {text}");
    true
}

/// The graphs of a dashboard, those of its closed rows included.
pub fn graphs(dashboard: &Value) -> Vec<&Value> {
    let mut all = vec![];
    for panel in dashboard["panels"].as_array().expect("panels") {
        match panel["panels"].as_array() {
            Some(graphs) => all.extend(graphs),
            None => all.push(panel),
        }
    }
    all
}

#[test]
fn files_are_what_the_catalogue_gives() {
    for (file, arguments) in [
        ("alerts.yaml", &["catalogue", "--alerts"][..]),
        ("grafana-prometheus.json", &["catalogue", "--dashboard", "prometheus"]),
        ("grafana-graphite.json", &["catalogue", "--dashboard", "graphite"]),
    ] {
        let printed = say(arguments).out;
        let kept = std::fs::read_to_string(folder().join(file)).expect("it is there");
        let how = format!("fullcount {} > deploy/monitoring/{file}", arguments.join(" "));
        assert!(printed == kept, "deploy/monitoring/{file} is not what this prints: {how}");
    }
}

#[test]
fn alerts_do_what_they_say_and_queries_of_the_dashboard_are_understood() {
    if !promtool(&["test", "rules", "alerts-test.yaml"]) {
        return;
    }
    promtool(&["check", "rules", "alerts.yaml"]);
    let text =
        std::fs::read_to_string(folder().join("grafana-prometheus.json")).expect("it is there");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let mut rules = "groups:\n- name: queries\n  rules:\n".to_owned();
    let mut n = 0;
    for panel in graphs(&dashboard) {
        for target in panel["targets"].as_array().expect("targets") {
            let query = target["expr"].as_str().expect("a query").replace("$__rate_interval", "1m");
            rules += &format!("  - record: 'query_{n}'\n    expr: '{query}'\n");
            n += 1;
        }
    }
    assert!(n > 10, "{n}");
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("queries.yaml");
    std::fs::write(&file, rules).unwrap();
    promtool(&["check", "rules", &file.display().to_string()]);
}

#[test]
fn dashboards_have_every_loss_of_the_catalogue() {
    let catalogue: Value = serde_json::from_str(&say(&["catalogue", "--json"]).out).expect("JSON");
    let graphite = say(&["catalogue", "--dashboard", "graphite"]).out;
    let lost = |c: &&Value| {
        let (role, name) = (c["role"].as_str().unwrap(), c["name"].as_str().unwrap());
        (role.starts_with("lost") || role.starts_with("missing")) && !name.contains('<')
    };
    let counters = catalogue["counters"].as_array().unwrap();
    let losses: Vec<&Value> = counters.iter().filter(lost).collect();
    assert!(losses.len() > 5, "{losses:?}");
    for loss in losses {
        let name = loss["name"].as_str().unwrap();
        assert!(graphite.contains(&format!("perSecond($prefix.{name})")), "{name}");
    }
}

#[test]
fn dashboards_have_a_row_for_each_detector_with_all_that_it_refuses() {
    let json =
        |arguments: &[&str]| -> Value { serde_json::from_str(&say(arguments).out).expect("JSON") };
    let catalogue = json(&["catalogue", "--json"]);
    let counters = catalogue["counters"].as_array().expect("a list");
    let kinds = json(&["catalogue", "--kinds", "--json"]);
    let kinds = kinds["detectors"].as_array().expect("a list").iter();
    let kinds: Vec<&str> = kinds.map(|kind| kind["name"].as_str().expect("a name")).collect();
    for store in ["prometheus", "graphite"] {
        let dashboard = json(&["catalogue", "--dashboard", store]);
        let panels = dashboard["panels"].as_array().expect("panels");
        let rows = panels.iter().filter(|panel| panel["type"] == "row").collect::<Vec<_>>();
        assert_eq!(rows.len(), kinds.len(), "{store}: {kinds:?}");
        for kind in &kinds {
            let row = rows.iter().find(|row| row["title"] == format!("Detector {kind}"));
            let text = row.unwrap_or_else(|| panic!("{store}: no row of {kind}")).to_string();
            let own = counters.iter().filter(|c| c["part"] == *kind);
            let mut n = 0;
            for role in ["in", "rejected"] {
                for counter in own.clone().filter(|c| c["role"] == role) {
                    let name = counter["name"].as_str().expect("a name");
                    let asked = match store {
                        "graphite" => format!("$prefix.{name})"),
                        _ => name.replace('.', "[.]"),
                    };
                    assert!(text.contains(&asked), "{store}: {kind}: {name}");
                    n += 1;
                }
            }
            assert!(n > 1, "{store}: {kind}: {n}");
        }
        let mut ids: Vec<u64> = panels.iter().chain(graphs(&dashboard)).map(id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), graphs(&dashboard).len() + rows.len(), "{store}");
    }
}

fn id(panel: &Value) -> u64 {
    panel["id"].as_u64().expect("an id")
}

#[test]
fn dashboards_are_what_grafanas_own_schema_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let modules = std::env::var_os("FULLCOUNT_GRAFANA_MODULES").map(PathBuf::from);
    let modules = modules.unwrap_or_else(|| root.join("target/grafana/node_modules"));
    let node = Command::new("node").arg("--version").output();
    if !modules.join("@grafana/schema").exists() || node.is_err() {
        let reason = "no Grafana schema: npm ci --ignore-scripts in a copy of tests/grafana, and FULLCOUNT_GRAFANA_MODULES \
                      for its node_modules (cargo xtask test does it)";
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{reason}");
        println!("skipped: {reason}");
        return;
    }
    let check = |dashboards: &[PathBuf]| {
        let checked = Command::new("node")
            .arg(root.join("tests/grafana/check.mjs"))
            .arg(&modules)
            .args(dashboards)
            .output()
            .expect("node runs");
        let text = String::from_utf8_lossy(&checked.stdout).into_owned();
        (checked.status.success(), text + &String::from_utf8_lossy(&checked.stderr))
    };
    let files = ["grafana-prometheus.json", "grafana-graphite.json"].map(|f| folder().join(f));
    let (good, text) = check(&files);
    assert!(good, "{text}");
    // One that is wrong is found.
    let mut wrong: Value =
        serde_json::from_str(&std::fs::read_to_string(&files[0]).unwrap()).expect("JSON");
    wrong["panels"][0]["gridPos"]["x"] = "left".into();
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("wrong.json");
    std::fs::write(&file, wrong.to_string()).unwrap();
    assert!(!check(&[file]).0);
}
