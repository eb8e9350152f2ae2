//! Each rule on made-up facts, on both sides of its border; and trees full of garbage, which must never
//! panic. What is said of the committed trees is tested word by word with the binary.

use std::fs;
use std::path::{Path, PathBuf};

use fullcount_io::host::bounds::Bounds;
use fullcount_io::host::cpu::{Core, CoreSet, Cores, IdleState};
use fullcount_io::host::firewall::Firewall;
use fullcount_io::host::interface::{Interface, InterfaceKind, Interrupt, Pcie};
use fullcount_io::host::offload::{Feature, Rings};
use fullcount_io::host::tuning::Tuning;
use fullcount_io::host::{Host, SoftnetBacklog};
use fullcount_io::quantity::Rate;
use proptest::prelude::*;

use super::*;

fn set(list: &str) -> CoreSet {
    CoreSet::list(list).unwrap()
}

/// A host where nothing is short for 10 Gbit/s of 8972 B received on core 1: two nodes of two cores.
fn good() -> (Wish, HostFacts) {
    let wish = Wish { size: 8972, core: Some(1), ..Wish::default() };
    let feature = |name: &str| Feature { name: name.into(), on: true, fixed: false };
    let names = ["rx-gro", "rx-checksum", "tx-generic-segmentation", "tx-udp-segmentation"];
    let interrupt = Interrupt { number: 40, name: "eth0-TxRx-0".into(), cores: set("0") };
    let card = Interface {
        name: "eth0".into(),
        kind: InterfaceKind::Device,
        driver: Some("ice".into()),
        mtu: Some(9000),
        tx_queue_len: Some(1000),
        speed_mbps: Some(25_000),
        full_duplex: Some(true),
        carrier: Some(true),
        node: Some(0),
        pcie: Some(Pcie {
            gigatransfers: 8.0,
            lanes: 8,
            lanes_max: Some(8),
            gigatransfers_max: None,
        }),
        rps: vec![CoreSet::default()],
        interrupts: vec![interrupt],
    };
    let idle = vec![IdleState { number: 1, name: "C1".into(), latency_us: 2, disabled: false }];
    let core = |number: u32| Core {
        number,
        siblings: set(&number.to_string()),
        governor: Some("performance".into()),
        idle: idle.clone(),
    };
    let facts = HostFacts {
        memory: Some(64 << 30),
        interfaces: vec!["eth0".into(), "lo".into()],
        card: Some(card),
        rings: Some(Rings { rx: 4096, rx_max: 4096, tx: 4096, tx_max: 4096 }),
        features: names.map(feature).into(),
        tuning: Tuning {
            rmem_max: Some(64 << 20),
            rmem_default: Some(64 << 20),
            wmem_max: Some(64 << 20),
            netdev_max_backlog: Some(5000),
            netdev_budget: Some(600),
            netdev_budget_usecs: Some(8000),
            udp_mem: Some([1 << 20, 2 << 20, 4 << 20]),
        },
        cores: Cores {
            online: set("0-3"),
            isolated: set("1"),
            nodes: vec![(0, set("0-1")), (1, set("2-3"))],
            ..Cores::default()
        },
        each: (0..4).map(core).collect(),
        bounds: Bounds { cores: Some(set("0-3")), ..Bounds::default() },
        ..HostFacts::default()
    };
    (wish, facts)
}

fn line(wish: &Wish, facts: &HostFacts, key: &str) -> AdviceLine {
    let advice = Advice::new(wish, facts).unwrap();
    let line = advice.lines.iter().find(|l| l.key == key);
    line.unwrap_or_else(|| panic!("no line {key}: {}", advice.text())).clone()
}

fn card(facts: &mut HostFacts) -> &mut Interface {
    facts.card.as_mut().unwrap()
}

#[test]
fn a_good_host_is_fine_in_both_roles() {
    let (mut wish, facts) = good();
    for role in [HostRole::Receive, HostRole::Send, HostRole::Both] {
        wish.role = role;
        let advice = Advice::new(&wish, &facts).unwrap();
        assert_eq!(advice.count(AdviceStatus::Fine), advice.lines.len(), "{}", advice.text());
        assert!(advice.lines.iter().all(|l| l.changes.is_empty() && l.wanted.is_none()));
    }
}

/// What is done to the good host, the line that must then stand so, and a word of it.
type Case = (&'static str, AdviceStatus, &'static str, fn(&mut Wish, &mut HostFacts));

const CASES: &[Case] = {
    use AdviceStatus::{Hint, Short, Unknown};
    &[
        ("net.core.rmem_max", Short, "hold 0.17 ms", |_, f| f.tuning.rmem_max = Some(212_992)),
        ("net.core.rmem_max", Unknown, "not show", |_, f| f.tuning.rmem_max = None),
        ("net.core.rmem_default", Hint, "do not ask", |_, f| f.tuning.rmem_default = Some(212_992)),
        ("net.core.wmem_max", Short, "sender waits", |w, f| {
            w.role = HostRole::Send;
            f.tuning.wmem_max = Some(212_992);
        }),
        ("net.ipv4.udp_mem", Short, "128 MiB", |_, f| f.tuning.udp_mem = Some([1, 2, 49_151])),
        ("memory", Hint, "quarter", |_, f| f.memory = Some((512 << 20) - 1)),
        ("net.core.netdev_max_backlog", Hint, "RPS", |_, f| {
            f.tuning.netdev_max_backlog = Some(500);
        }),
        ("net.core.netdev_max_backlog", Short, "7 packets were dropped", |_, f| {
            f.tuning.netdev_max_backlog = Some(500);
            f.backlog = Some(SoftnetBacklog { dropped: 7, ..SoftnetBacklog::default() });
            card(f).rps = vec![set("0")];
        }),
        ("net.core.netdev_budget", Hint, "rounds", |w, f| {
            w.rate = Rate::Packets(1.1e6);
            w.size = 64;
            f.tuning.netdev_budget = Some(300);
        }),
        ("link.speed", Short, "on the wire", |_, f| card(f).speed_mbps = Some(10_000)),
        ("link.speed", Short, "no link", |_, f| card(f).carrier = Some(false)),
        ("link.speed", Short, "half duplex", |_, f| card(f).full_duplex = Some(false)),
        ("link.speed", Unknown, "does not say", |_, f| card(f).speed_mbps = None),
        ("link.pcie", Short, "wider slot", |_, f| {
            card(f).pcie = Some(Pcie { gigatransfers: 2.5, lanes: 4, ..Pcie::default() });
        }),
        ("mtu", Short, "7 IP fragments", |_, f| card(f).mtu = Some(1500)),
        ("mtu", Hint, "7 IP fragments", |w, f| {
            w.fragments = true;
            card(f).mtu = Some(1500);
        }),
        ("mtu", Short, "at most 8972 B", |w, _| w.size = 16_000),
        ("mtu", Short, "48 B of headers", |w, _| w.ipv6 = true),
        ("ring.rx", Short, "hold", |_, f| f.rings.as_mut().unwrap().rx = 128),
        ("ring.rx", Unknown, "rings", |_, f| f.rings = None),
        ("ring.tx", Short, "sender", |w, f| {
            w.role = HostRole::Send;
            f.rings.as_mut().unwrap().tx = 128;
        }),
        ("txqueuelen", Short, "dropped", |w, f| {
            w.role = HostRole::Send;
            card(f).tx_queue_len = Some(100);
        }),
        ("offload.rx-gro", Short, "trains", |_, f| f.features[0].on = false),
        ("offload.rx-checksum", Short, "checksums", |_, f| f.features[1].on = false),
        ("offload.rx-gro", Unknown, "does not say", |_, f| f.features.clear()),
        ("offload.tx-udp-segmentation", Hint, "cuts", |w, f| {
            w.role = HostRole::Send;
            f.features[3].on = false;
        }),
        ("driver", Unknown, "no driver", |_, f| card(f).driver = None),
        ("numa", Short, "0-1", |w, _| w.core = Some(2)),
        ("numa", Hint, "0-1", |w, _| {
            w.core = Some(2);
            w.rate = Rate::Bits(1e9);
        }),
        ("irq.affinity", Short, "another node", |_, f| card(f).interrupts[0].cores = set("0,2")),
        ("irq.affinity", Short, "core 1 or its sibling", |_, f| {
            card(f).interrupts[0].cores = set("1");
        }),
        ("irq.affinity", Hint, "no other core", |_, f| f.each[1].siblings = set("0-1")),
        ("irq.affinity", Unknown, "does not say", |_, f| card(f).interrupts.clear()),
        ("rps", Hint, "core 1", |_, f| card(f).rps = vec![set("0-3")]),
        ("irqbalance", Hint, "core 1", |_, f| f.cores.irqbalance = true),
        ("governor", Short, "clock", |_, f| f.each[1].governor = Some("powersave".into())),
        ("governor", Unknown, "no clock control", |_, f| f.each[1].governor = None),
        ("idle", Short, "1,394 frames arrive", |_, f| {
            f.each[1].idle[0].latency_us = 10_000;
        }),
        ("idle", Hint, "7 frames arrive", |_, f| f.each[1].idle[0].latency_us = 50),
        ("idle", Unknown, "sleep", |_, f| f.each[1].idle.clear()),
        ("core", Hint, "on average since the start", |_, f| {
            f.load.insert(1, facts::CoreLoad { busy: 0.21, stolen: 0.0 });
        }),
        ("steal", Hint, "hypervisor", |_, f| {
            f.load.insert(1, facts::CoreLoad { busy: 0.0, stolen: 0.02 });
        }),
        ("smt", Hint, "slower", |_, f| {
            f.each[1].siblings = set("1,3");
            f.load.insert(3, facts::CoreLoad { busy: 0.9, stolen: 0.0 });
        }),
        ("isolcpus", Hint, "isolcpus=1", |_, f| f.cores.isolated = set("3")),
        ("conntrack", Hint, "looked up", |_, f| {
            f.firewall =
                Firewall { tracked: Some(1), tracked_max: Some(10), ..Firewall::default() };
        }),
        ("conntrack", Short, "full", |_, f| {
            f.firewall =
                Firewall { tracked: Some(9), tracked_max: Some(10), ..Firewall::default() };
        }),
        ("rp_filter", Hint, "multicast", |_, f| f.firewall.rp_filter = Some(1)),
        ("firewall", Hint, "rules", |_, f| f.firewall.tables = vec!["filter".into()]),
        ("cpu.quota", Short, "stands still", |_, f| f.bounds.cpu_quota = Some(0.5)),
        ("cpu.quota", Hint, "all stand still", |_, f| f.bounds.cpu_quota = Some(2.0)),
        ("cpuset", Short, "will fail", |_, f| f.bounds.cores = Some(set("0,2-3"))),
        ("memory.limit", Short, "128 MiB", |_, f| f.bounds.memory = Some(128 << 20)),
        ("socket", Hint, "3 drops", |w, f| {
            w.port = Some(9000);
            let state = fullcount_io::host::PortState { sockets: 1, queued_bytes: 0, drops: 3 };
            f.port = Some(state);
        }),
        ("interface", Unknown, "--interface", |_, f| f.card = None),
    ]
};

#[test]
fn each_rule_speaks_up_at_its_border() {
    for (key, status, word, spoil) in CASES {
        let (mut wish, mut facts) = good();
        spoil(&mut wish, &mut facts);
        let l = line(&wish, &facts, key);
        assert_eq!(l.status, *status, "{key} ({word}): {l:?}");
        assert!(l.why.contains(word) || l.now.as_ref().is_some_and(|n| n.contains(word)), "{l:?}");
        if *status == AdviceStatus::Short {
            assert!(l.now.is_some() && l.wanted.is_some(), "{l:?}");
        }
    }
}

#[test]
fn a_slow_wake_that_programs_forbid_does_not_count() {
    let (wish, mut facts) = good();
    let slow = IdleState { number: 2, name: "C6".into(), latency_us: 10_000, disabled: false };
    facts.each[1].idle.push(slow);
    let l = line(&wish, &facts, "idle");
    assert_eq!(l.commands, ["echo 1 > /sys/devices/system/cpu/cpu1/cpuidle/state2/disable"]);
    facts.cores.wake_limit_us = Some(20);
    assert_eq!(line(&wish, &facts, "idle").status, AdviceStatus::Fine);
}

#[test]
fn interrupts_go_to_free_cores_near_the_card() {
    let (wish, mut facts) = good();
    card(&mut facts).interrupts[0].cores = set("2");
    let l = line(&wish, &facts, "irq.affinity");
    assert_eq!(l.commands, ["echo 0 > /proc/irq/40/smp_affinity_list"]);
    // Without another core near the card nothing is moved.
    facts.cores.nodes = vec![(0, set("1")), (1, set("2-3"))];
    let l = line(&wish, &facts, "irq.affinity");
    assert!(l.status == AdviceStatus::Hint && l.changes.is_empty(), "{l:?}");
}

#[test]
fn an_interface_without_a_card_has_no_speed_and_no_ring() {
    let (mut wish, mut facts) = good();
    wish.role = HostRole::Both;
    let c = card(&mut facts);
    (c.kind, c.speed_mbps) = (InterfaceKind::Virtual, Some(10));
    facts.rings = None;
    facts.tuning.netdev_max_backlog = Some(500);
    assert_eq!(line(&wish, &facts, "link.speed").status, AdviceStatus::Fine);
    assert_eq!(line(&wish, &facts, "ring.rx").status, AdviceStatus::Fine);
    assert_eq!(line(&wish, &facts, "net.core.netdev_max_backlog").status, AdviceStatus::Short);
}

#[test]
fn applying_what_is_wanted_makes_it_fine() {
    let (wish, mut facts) = good();
    facts.tuning.rmem_max = Some(4096);
    facts.tuning.udp_mem = Some([1, 2, 3]);
    let changes = apply::ChosenLines::default().changes(&Advice::new(&wish, &facts).unwrap().lines);
    for change in &changes {
        match change.place.to_string().as_str() {
            "file proc/sys/net/core/rmem_max" => {
                facts.tuning.rmem_max = Some(change.value.parse().unwrap());
            }
            "file proc/sys/net/ipv4/udp_mem" => {
                let pages: Vec<u64> = change.value.split(' ').map(|w| w.parse().unwrap()).collect();
                assert!(pages[0] <= pages[1] && pages[1] <= pages[2]);
                facts.tuning.udp_mem = Some([pages[0], pages[1], pages[2]]);
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(changes.len(), 2);
    assert_eq!(Advice::new(&wish, &facts).unwrap().count(AdviceStatus::Short), 0);
}

#[test]
fn only_and_skip_choose_by_key() {
    let (wish, mut facts) = good();
    facts.tuning.rmem_max = Some(4096);
    facts.tuning.rmem_default = Some(4096);
    card(&mut facts).mtu = Some(1500);
    let lines = Advice::new(&wish, &facts).unwrap().lines;
    let chosen = |choice: apply::ChosenLines| {
        let all: Vec<String> =
            choice.changes(&lines).iter().map(|c| c.command().replace("sysctl -w ", "")).collect();
        all.join(" | ")
    };
    let key = |k: &str| vec![k.to_owned()];
    let mtu = "ip link set dev eth0 mtu 9000";
    let rmem = "net.core.rmem_max=67108864";
    assert_eq!(chosen(apply::ChosenLines::default()), format!("{mtu} | {rmem}"));
    let only = apply::ChosenLines { only: key("mtu"), ..apply::ChosenLines::default() };
    assert_eq!(chosen(only), mtu);
    let skip =
        apply::ChosenLines { skip: key("mtu"), hints: true, ..apply::ChosenLines::default() };
    assert_eq!(chosen(skip), format!("{rmem} | net.core.rmem_default=67108864"));
}

#[test]
fn what_the_host_has_not_is_refused_by_name() {
    let (mut wish, facts) = good();
    wish.core = Some(4);
    let said = Advice::new(&wish, &facts).unwrap_err().to_string();
    assert!(said.contains("4 is not on") && said.contains("0-3"), "{said}");
    let mut none = facts.clone();
    none.card = None;
    wish = Wish { interface: Some("eth9".into()), ..Wish::default() };
    let said = Advice::new(&wish, &none).unwrap_err().to_string();
    assert!(said.contains("eth9") && said.contains("eth0, lo"), "{said}");
}

fn saved(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/hosts").join(name)
}

/// Paths of all files of a tree.
fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, all) } else { all.push(path) }
    }
}

/// Advice of every kind for the tree, whatever it says.
fn read_everything(root: &Path, rate: Rate, size: usize) {
    let host = Host::at(root);
    let mut interfaces: Vec<Option<String>> = host.interfaces().into_iter().map(Some).collect();
    interfaces.push(None);
    for interface in interfaces {
        let core = host.topology().online.0.first().copied();
        let wish = Wish {
            rate,
            size,
            interface,
            core,
            port: Some(9000),
            role: HostRole::Both,
            ..Wish::default()
        };
        if let Ok(advice) = Advice::new(&wish, &HostFacts::read(&host, &wish, None)) {
            let _ = (advice.text(), advice.json().to_string());
        }
    }
}

/// Garbage that files of numbers and tables could hold.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let numbers = prop_oneof![
        Just("18446744073709551615"),
        Just("18446744073709551616"),
        Just("-1"),
        Just("0"),
        Just("0 0 0"),
        Just("18446744073709551615 18446744073709551615 18446744073709551615"),
        Just("0-8191"),
        Just("4294967295"),
        Just("1e400 GT/s"),
        Just("max 0"),
        Just("18446744073709551615 1"),
        Just(""),
        Just("/../../.."),
        Just("0::/../../etc"),
    ];
    prop_oneof![
        numbers.prop_map(|n| n.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..64),
        "[0-9a-fx: \\n\\t,/-]{0,200}".prop_map(String::into_bytes),
    ]
}

proptest! {
    // Each case spoils a third of a tree of 44 files and reads it whole.
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn garbage_in_any_file_never_panics(
        spoilt in prop::collection::vec((any::<prop::sample::Index>(), garbage()), 1..15),
        bits in 1f64..1e15,
        size in 1usize..65_508,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let tree = saved("container");
        let mut all = vec![];
        files(&tree, &mut all);
        for path in &all {
            let to = dir.path().join(path.strip_prefix(&tree).unwrap());
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(path, to).unwrap();
        }
        for (which, bytes) in &spoilt {
            let path = which.get(&all);
            fs::write(dir.path().join(path.strip_prefix(&tree).unwrap()), bytes).unwrap();
        }
        read_everything(dir.path(), Rate::Bits(bits), size);
    }
}

/// The same for each single file of each tree: absent, the largest number, not UTF-8.
#[test]
fn no_single_file_is_needed_or_trusted() {
    for name in ["laptop", "container", "vm"] {
        let tree = saved(name);
        let mut all = vec![];
        files(&tree, &mut all);
        // Files of one core are like those of any other.
        let other = |p: &&PathBuf| !p.to_string_lossy().contains("/cpu1/");
        let dir = tempfile::tempdir().unwrap();
        let own = |path: &Path| dir.path().join(path.strip_prefix(&tree).unwrap());
        for path in &all {
            fs::create_dir_all(own(path).parent().unwrap()).unwrap();
            fs::copy(path, own(path)).unwrap();
        }
        let numbered =
            |p: &PathBuf| (2..8).any(|c| p.to_string_lossy().contains(&format!("/cpu{c}/")));
        for path in all.iter().filter(other).filter(|p| !numbered(p)) {
            let there = own(path);
            fs::remove_file(&there).unwrap();
            read_everything(dir.path(), Rate::Bits(10e9), 1472);
            for text in [&b"18446744073709551615"[..], b"\xff\xfe\x00"] {
                fs::write(&there, text).unwrap();
                read_everything(dir.path(), Rate::Packets(1e9), 65_507);
            }
            fs::copy(path, &there).unwrap();
        }
    }
}
