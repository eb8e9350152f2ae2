//! `advise` as users call it: its exact output on saved hosts, its exit codes, its JSON, and changing what it reads.

use std::fs;
use std::path::{Path, PathBuf};

use crate::service::{fullcount, say, vector};
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Copies a tree; the copy may be written.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => fs::write(&target, fs::read(entry.path()).unwrap()).unwrap(),
        }
    }
}

#[test]
fn each_saved_host_gets_the_advice_that_is_written_beside_it() {
    let mut hosts = 0;
    for entry in fs::read_dir(vector("hosts")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "txt") {
            continue;
        }
        hosts += 1;
        let golden = fs::read_to_string(&path).unwrap();
        let (command, _) = golden.split_once('\n').unwrap();
        let words = command.strip_prefix("$ fullcount ").expect("the command comes first");
        let words: Vec<&str> = words.split(' ').collect();
        let out = fullcount(&words).current_dir(root()).output().unwrap();
        let said = format!("{command}\n{}", String::from_utf8(out.stdout).unwrap());
        // `FULLCOUNT_WRITE_GOLDEN=1` writes the expected output, to be reviewed.
        if std::env::var_os("FULLCOUNT_WRITE_GOLDEN").is_some() {
            fs::write(&path, &said).unwrap();
        }
        assert_eq!(said, golden, "{}", path.display());
    }
    assert!(hosts >= 5, "four hosts and one that sends");
}

#[test]
fn the_document_shows_what_is_really_printed() {
    let document = fs::read_to_string(root().join("docs/advise.md")).unwrap();
    let golden = fs::read_to_string(vector("hosts/server.txt")).unwrap();
    assert!(document.contains(&golden), "docs/advise.md must hold vectors/hosts/server.txt");
}

#[test]
fn check_exits_1_if_anything_is_short_and_0_if_not() {
    let server = vector("hosts/server");
    let asks = ["advise", "--root", &server, "--interface", "ens5f0np0", "--check"];
    assert_eq!(say(&asks).code, 1);
    let laptop = vector("hosts/laptop");
    let modest = ["advise", "--root", &laptop, "--rate", "1Mbps", "--for", "send", "--json"];
    let object = say(&modest).summary();
    assert_eq!(lines(&object, "short"), [""; 0]);
    assert_eq!(lines(&object, "hint"), ["irqbalance", "governor", "idle"]);
    assert_eq!(say(&[&modest[..], &["--check"]].concat()).code, 0);
}

/// Keys of the lines with that status.
fn lines<'a>(object: &'a Value, status: &str) -> Vec<&'a str> {
    let all = object["lines"].as_array().unwrap().iter();
    all.filter(|l| l["status"] == status).map(|l| l["key"].as_str().unwrap()).collect()
}

#[test]
fn the_object_has_each_line_with_what_and_why() {
    let server = vector("hosts/server");
    let said = say(&["advise", "--root", &server, "--interface", "ens5f0np0", "--json"]);
    let object = said.summary();
    assert_eq!(object["schema"], "fullcount/advise/1");
    assert_eq!(object["interface"], "ens5f0np0");
    let all = object["lines"].as_array().unwrap();
    let counted: u64 =
        object["counts"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!(counted, all.len() as u64);
    for line in all {
        assert!(!line["why"].as_str().unwrap().is_empty(), "{line}");
        if line["status"] == "short" {
            assert!(line["now"].is_string() && line["wanted"].is_string(), "{line}");
        }
        if line["apply"] == true {
            assert!(!line["commands"].as_array().unwrap().is_empty(), "{line}");
        }
    }
}

#[test]
fn wrong_options_exit_2_and_say_what_is_allowed() {
    let server = vector("hosts/server");
    for (more, words) in [
        (&["--rate", "fast"][..], &["fast", "10Gbps"][..]),
        (&["--size", "0"], &["size", "65507"]),
        (&["--size", "65508"], &["65508", "65507"]),
        (&["--hold", "1h"], &["hold", "10s"]),
        (&["--core", "99"], &["99", "0-15"]),
        (&["--interface", "eth7"], &["eth7", "ens5f0np0"]),
        (&["--interface", "../../.."], &["interface", "mgmt0"]),
        (&["--root", "no-such-folder"], &["root", "no-such-folder"]),
        (&["--dry-run"], &["dry-run", "--apply"]),
        (&["--apply", "--only", "rmem"], &["only", "rmem", "net.core.rmem_max"]),
        (&["--apply", "--revert"], &["--apply", "--revert"]),
        (&["--only", "mtu"], &["--apply"]),
        (&["--for", "fun"], &["fun", "receive"]),
    ] {
        let mut all = vec!["advise"];
        if !more.contains(&"--root") {
            all.extend(["--root", &server]);
        }
        all.extend(more);
        let said = say(&all);
        assert_eq!(said.code, 2, "{more:?}: {}", said.err);
        for word in words {
            assert!(said.err.contains(word), "{more:?} must say {word}: {}", said.err);
        }
    }
}

#[test]
fn a_tree_is_changed_and_put_back_to_the_byte() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, state) = (dir.path().join("server"), dir.path().join("state.json"));
    copy(Path::new(&vector("hosts/server")), &tree);
    let rings = tree.join("sos_commands/networking/ethtool_-g_ens5f0np0");
    fs::write(&rings, fs::read_to_string(&rings).unwrap().replace("1024", "64")).unwrap();
    let (root, file) = (tree.to_str().unwrap(), state.to_str().unwrap());
    let base =
        ["advise", "--root", root, "--interface", "ens5f0np0", "--size", "8972", "--core", "0"];
    let run = |more: &[&str]| say(&[&base[..], &["--state", file], more].concat());
    let value = |path: &str| fs::read_to_string(tree.join(path)).unwrap();

    let dry = run(&["--apply", "--dry-run"]);
    assert!(dry.out.contains("nothing was written") && !state.exists(), "{}", dry.out);
    // The ring is not below the tree: reported as failed, the others are done.
    let applied = run(&["--apply"]);
    assert_eq!(applied.code, 1, "{}", applied.out);
    assert!(applied.out.contains("failed   ring-rx ens5f0np0"), "{}", applied.out);
    assert!(applied.out.contains("# ethtool -G ens5f0np0 rx 256"), "{}", applied.out);
    assert_eq!(value("proc/sys/net/core/rmem_max"), "67108864\n");
    assert_eq!(value("sys/class/net/ens5f0np0/mtu"), "9000\n");
    // A second time nothing is left to do (the interrupt is as it should be), and a larger wish keeps the oldest values.
    assert!(run(&["--apply", "--skip", "ring.rx"]).out.contains("0 changed"));
    assert_eq!(run(&["--rate", "20Gbps", "--apply", "--skip", "ring.rx,link.pcie"]).code, 0);
    assert_eq!(value("proc/sys/net/core/rmem_max"), "134217728\n");
    let reverted = run(&["--revert"]);
    assert_eq!(reverted.code, 0, "{}{}", reverted.out, reverted.err);
    assert!(!state.exists());
    for path in [
        "proc/sys/net/core/rmem_max",
        "sys/class/net/ens5f0np0/mtu",
        "proc/irq/85/smp_affinity_list",
    ] {
        let before = fs::read_to_string(Path::new(&vector("hosts/server")).join(path)).unwrap();
        assert_eq!(value(path), before, "{path}");
    }
    let again = run(&["--revert"]);
    assert_eq!(again.code, 1);
    assert!(again.err.contains("nothing is to be put back"), "{}", again.err);
}

#[test]
fn a_state_file_that_is_not_ours_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("server");
    copy(Path::new(&vector("hosts/server")), &tree);
    let state = dir.path().join("state.json");
    fs::write(&state, "shopping list").unwrap();
    let (root, file) = (tree.to_str().unwrap(), state.to_str().unwrap());
    for deed in ["--apply", "--revert"] {
        let said = say(&["advise", "--root", root, "--state", file, deed]);
        assert_eq!(said.code, 1, "{deed}");
        assert!(said.err.contains("not JSON") && said.err.contains("--state"), "{}", said.err);
    }
    assert_eq!(fs::read_to_string(&state).unwrap(), "shopping list");
    assert_eq!(fs::read_to_string(tree.join("proc/sys/net/core/rmem_max")).unwrap(), "212992\n");
}
