//! docs/stcp.md has the state table and the counters as the code has them.

use fullcount_stcp::{StcpCounters, state};

const PAGE: &str = include_str!("../../../docs/stcp.md");

#[test]
fn the_page_has_the_state_table() {
    let mut table = String::new();
    state::markdown(&mut table).unwrap();
    assert!(PAGE.contains(&table), "docs/stcp.md should have this:\n{table}");
}

#[test]
fn the_page_has_the_counters() {
    let mut table = String::new();
    StcpCounters::default().each(|name, unit, text, _| {
        table += &format!("| `{name}` | {unit} | {text} |\n");
    });
    assert!(PAGE.contains(&table), "docs/stcp.md should have this:\n{table}");
}
