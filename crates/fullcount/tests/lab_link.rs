//! `fullcount lab link` as a user sees it: the paper's table, wrong options, the document.

use crate::service::say;

#[test]
fn the_table_of_the_paper_and_of_the_document() {
    let said = say(&["lab", "link", "--speed", "10Gbps"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let here = env!("CARGO_MANIFEST_DIR");
    let document = std::fs::read_to_string(format!("{here}/../../docs/link.md")).unwrap();
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|c| c.trim().to_owned()).collect()
    };
    let mut rows = 0;
    for line in said.out.lines().filter(|l| l.starts_with("| ") && !l.contains("user data")) {
        let c = cells(line);
        let expected =
            format!("| {} | {} | {} | {} | {} | {} |", c[0], c[4], c[5], c[6], c[8], c[7]);
        assert!(document.contains(&expected), "docs/link.md lacks {expected}");
        rows += 1;
    }
    assert_eq!(rows, 8, "{}", said.out);
    assert!(said.out.contains("| 978 | 1500 | 1 | 0 | 1024 | 1044 | 6.3 |"), "{}", said.out);
    assert!(said.out.contains("| 7230.4 | 0.14 | 9.927 |"), "{}", said.out);
}

#[test]
fn fragments_tags_and_use_of_the_link_as_json() {
    let mtu = ["--mtu", "1500", "--sizes", "1472,8972", "--vlan", "1", "--ipv6"];
    let words = [&["lab", "link", "--json", "--rate", "9.5Gbps"][..], &mtu].concat();
    let said = say(&words);
    assert_eq!(said.code, 0, "{}", said.err);
    let s = said.summary();
    assert_eq!((&s["schema"], &s["vlan_tags"]), (&"fullcount/link/1".into(), &1.into()));
    assert_eq!(s["rows"][0]["frames"], 2);
    assert_eq!(s["rows"][1]["frames"], 7);
    // Seven frames of 1448 B or less after 48 B of headers: 8980 + 7 × (48 + 18 + 4 + 20).
    assert_eq!(s["rows"][1]["bytes"]["total"], 8980 + 7 * 90);
    assert!(s["rows"][1]["utilisation"].as_f64().unwrap() > 1.0);
}

#[test]
fn what_cannot_be_is_refused_with_flag_and_range() {
    for (words, parts) in [
        (&["--speed", "3pps"][..], &["speed", "10Gbps"][..]),
        (&["--speed", "fast"], &["speed", "fast"]),
        (&["--vlan", "3"], &["--vlan", "0, 1"]),
        (&["--mtu", "67"], &["--mtu", "68 to 65535"]),
        (&["--mtu", "1279", "--ipv6"], &["--mtu", "1280"]),
        (&["--sizes", "65508"], &["--sizes", "65507"]),
        (&["--rate", "many"], &["rate", "many"]),
    ] {
        let said = say(&[&["lab", "link"], words].concat());
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{words:?}: {}", said.err);
        for part in parts {
            assert!(said.err.contains(part), "{words:?} must say {part}: {}", said.err);
        }
    }
}
