//! `fullcount lab bench probes` as a user runs it: the table, and its results file.

use crate::service::say;

#[test]
fn the_cost_of_each_probe_is_printed_and_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let said = say(&["lab", "bench", "probes", "--readings", "5", "--out", out, "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let record = said.summary();
    assert_eq!(
        (&record["schema"], &record["name"]),
        (&"fullcount/result/1".into(), &"probes".into())
    );
    assert_eq!(record["parameters"]["readings"], 5);
    let rows = record["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 7);
    for row in rows.iter().filter(|r| r["available"] == true) {
        let us = |key: &str| row[key].as_f64().unwrap();
        assert!(us("least_us") <= us("median_us") && us("median_us") <= us("most_us"), "{row}");
    }
    assert!(record["figures"]["reading"]["value"].is_f64(), "{record}");
    let file = std::fs::read_to_string(dir.path().join("probes.json")).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&file).unwrap(), record);
    let table = std::fs::read_to_string(dir.path().join("probes.md")).unwrap();
    assert!(
        table.contains("| /proc/net/snmp |") && table.contains("One reading together"),
        "{table}"
    );
    let said = say(&["lab", "bench", "probes", "--readings", "5", "--name", "../x"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""), "{}", said.err);
}
