//! Command lines, lines of output, sums of a trial, the search, trials that are kept.

use std::time::Duration;

use serde_json::json;

use super::campaign::MemoOrder;
use super::cost::TrialCost;
use super::kept::Kept;
use super::lossless::{bisect, line};
use super::memo;
use super::mro::{PRESETS, Point, scaling_text, wish as wish_on_the_link};
use super::tables::wish as wish_of_a_table;
use super::tools::{HeapsHeard, SenderEnd, SpeadPeer, SpeadWish, heard, sent};
use super::trial::{HeapTrial, evaluate};
use super::{figures, mean_sd, pm};
use crate::plot::{Chart, Stroke};
use crate::record::Record;

fn wish() -> SpeadWish {
    SpeadWish {
        tcp: false,
        heap_bytes: 1000,
        heaps: 10,
        packet: 8950,
        buffer: Some(12),
        rate: Some(9.5),
        pool: true,
        sockets: 4,
    }
}

#[test]
fn tools_get_the_options_of_spead2_and_their_lines_are_read() {
    let words = wish().sender("10.0.0.1:7148").join(" ");
    assert_eq!(
        words,
        "--heap-size 1000 --heaps 10 --packet 8950 --buffer 12 --rate 9.500000 10.0.0.1:7148"
    );
    let spead2 = SpeadPeer::Spead2 { folder: "/spead2".into() };
    let ours = SpeadPeer::Ours { program: "/fullcount".into() };
    let tcp = SpeadWish { tcp: true, packet: 65_537, ..wish() };
    assert_eq!(tcp.receiver(":7148", &ours), tcp.receiver(":7148", &spead2));
    assert!(wish().receiver(":7148", &ours).join(" ").starts_with("--quiet --sockets 4 --buffer"));
    assert!(wish().receiver(":7148", &spead2).join(" ").starts_with("--quiet --buffer"));
    let words = tcp.receiver(":7148", &spead2).join(" ");
    assert_eq!(
        words,
        "--quiet --packet 65537 --buffer 12 --mem-pool --mem-upper 1000 --mem-max-free 16 --mem-initial 16 --tcp :7148"
    );
    for line in [
        "Sent 8426481 bytes in 0.345169 seconds, 0.195301 Gb/s\n",
        "Sent 8426481 bytes in 0.345169s, 0.195301 Gb/s",
    ] {
        assert_eq!(sent(line), Some(SenderEnd { bytes: 8_426_481, seconds: 0.345_169 }));
    }
    assert_eq!(sent("Sent nothing"), None);
    let output =
        "Received heap 1 at 0.5\nReceived 3 heaps\nheaps: 3\nincomplete_heaps_evicted: 0\n\nmore";
    let statistics = vec![("heaps".to_owned(), 3), ("incomplete_heaps_evicted".to_owned(), 0)];
    assert_eq!(heard(output), Some(HeapsHeard { heaps: 3, statistics }));
    assert_eq!(heard("Received heap 1 at 0.5"), None);
    let output = "Received heap 1 on stream :1\nShutting down stream :1 after 3 heaps\nheaps: 3\n";
    let statistics = vec![("heaps".to_owned(), 3)];
    assert_eq!(heard(output), Some(HeapsHeard { heaps: 3, statistics }));
    let pypi = SpeadPeer::Pypi { folder: "/pypi".into() };
    let both = |sender: &SpeadPeer, receiver: &SpeadPeer| SpeadPeer::Pair {
        name: "pair",
        sender: sender.clone().into(),
        receiver: receiver.clone().into(),
    };
    assert_eq!(both(&ours, &pypi).program(false).0, pypi.program(false).0);
    assert_eq!(both(&ours, &pypi).program(true), ours.program(true));
    assert!(wish().receiver(":7148", &both(&ours, &pypi)).join(" ").starts_with("--buffer"));
    assert!(
        wish().receiver(":7148", &both(&pypi, &ours)).join(" ").starts_with("--quiet --sockets")
    );
}

#[test]
fn the_sum_is_all_bytes_over_the_last_sender_s_time_and_loss_counts_whole_heaps() {
    let all = [
        SenderEnd { bytes: 125_000_000, seconds: 1.0 },
        SenderEnd { bytes: 125_000_000, seconds: 2.0 },
    ];
    let heaps = |heaps| HeapsHeard { heaps, statistics: vec![] };
    let arrived = Duration::from_secs(3);
    let trial = evaluate(&wish(), &all, (&[heaps(10), heaps(5)], arrived), 1);
    assert_eq!((trial.gbps.clone(), trial.sum), (vec![1.0, 0.5], 1.0));
    assert_eq!((trial.loss, trial.interrupted), (Some(0.25), 1));
    assert_eq!(HeapTrial::of(&trial.json()), Some(trial.clone()));
    let cost = TrialCost { seconds: 2.0, sender_cores: vec![0.5, 0.25], ..TrialCost::default() };
    let costly = HeapTrial { cost: Some(cost), ..trial };
    assert_eq!(HeapTrial::of(&costly.json()), Some(costly.clone()));
    let mut earlier = costly.json();
    earlier.as_object_mut().unwrap().remove("cost");
    assert_eq!(HeapTrial::of(&earlier).unwrap().cost, None, "a trial of an earlier version");
    assert_eq!(evaluate(&wish(), &all, (&[], arrived), 0).loss, None);
    // 15 heaps of 8000 bits in 2 s, over TCP until they were there.
    let both = [heaps(10), heaps(5)];
    let effective = |tcp| {
        let wish = SpeadWish { tcp, ..wish() };
        evaluate(&wish, &all, (&both, arrived), 0).effective.unwrap()
    };
    assert!((effective(false) - 6e-5).abs() < 1e-12 && (effective(true) - 4e-5).abs() < 1e-12);
}

#[test]
fn a_search_comes_as_near_as_its_steps_allow() {
    let below = |most: f64| move |rate: f64| Ok::<_, ()>((rate <= most).then_some(rate));
    let (found, above) = bisect(16.0, (7, 0), below(5.0)).unwrap();
    assert_eq!((found, above), (Some(5.0), 5.125));
    // Seven steps of 16 end 0.125 apart; a low rate needs more to be within 5 %.
    let (found, above) = bisect(16.0, (7, 8), below(0.3)).unwrap();
    let found = found.unwrap();
    assert!(found <= 0.3 && above > 0.3 && above - found <= 0.05 * above, "{found} {above}");
    let (mut asked, mut none) = (0, |_| Ok::<Option<f64>, ()>(None));
    assert_eq!(bisect(16.0, (7, 0), &mut none), Ok((None, 0.125)));
    let counted = |rate| {
        asked += 1;
        none(rate)
    };
    assert_eq!(bisect(16.0, (2, 3), counted).unwrap().0, None);
    assert_eq!(asked, 5, "never more than both");
    assert_eq!(bisect::<(), _>(1.0, (3, 0), |_| Err("broken")), Err("broken"));
    assert_eq!(pm(&[1.0, 2.0, 3.0]), "2.00 ± 1.00");
    assert_eq!((pm(&[]), mean_sd(&[f64::NAN])), ("–".to_owned(), None));
}

#[test]
fn trials_are_kept_and_an_interrupted_campaign_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let plan = json!({"heaps": 3});
    let mut kept = Kept::open(folder.path(), "spead", &plan, false).unwrap();
    assert_eq!(kept.or_measure("a", || Ok(json!(1))).unwrap(), 1);
    drop(kept);
    let refused = Kept::open(folder.path(), "spead", &plan, false).unwrap_err().to_string();
    assert!(refused.contains("--resume"), "{refused}");
    let other = Kept::open(folder.path(), "spead", &json!({"heaps": 4}), true).unwrap_err();
    assert!(other.to_string().contains("another campaign"));
    let mut kept = Kept::open(folder.path(), "spead", &plan, true).unwrap();
    assert_eq!(kept.or_measure("a", || panic!("it is known")).unwrap(), 1);
    kept.finish();
    assert!(!Kept::path(folder.path(), "spead").exists());
}

fn order(points: usize) -> MemoOrder {
    MemoOrder {
        parts: vec![],
        repeats: 1,
        link_repeats: 1,
        heap_bytes: 1,
        table_heaps: 1,
        heaps: 1,
        scale: 0.03,
        emulated_gbps: 1.0,
        iperf_seconds: 1,
        points,
        namespaces: false,
    }
}

/// Numbers are those of section 20 of the format document: 4 MB, 50,000 heaps, 8950 B of an MTU of 9000, buffers of 12 MB on the long link
/// and of 16 MB in the tables, 1472 B, 65,507 B on loopback.
#[test]
fn the_memos_amounts_reach_the_programs_of_a_trial() {
    let asked = order(0).of_the_memo();
    assert_eq!((asked.link_repeats, asked.iperf_seconds, asked.scale), (5, 20, 1.0));
    let at = "10.0.0.1:7148";
    let link = |rate, tcp| wish_on_the_link(&asked, rate, tcp);
    let heaps = "--heap-size 4194304 --heaps 50000 --packet 8950 --buffer 12582912";
    assert_eq!(
        link(Some(9.5), false).sender(at).join(" "),
        format!("{heaps} --rate 9.500000 {at}")
    );
    assert_eq!(link(None, true).sender(at).join(" "), format!("{heaps} --tcp {at}"));
    let spead2 = SpeadPeer::Spead2 { folder: "/spead2".into() };
    let words = link(Some(9.5), false).receiver(at, &spead2).join(" ");
    assert!(words.starts_with("--quiet --buffer 12582912 "), "{words}");
    for (column, packet, buffer) in [
        ("default", "1472", None),
        ("mtu", "65507", None),
        ("buffers", "1472", Some("16777216")),
        ("mtu-buffers", "65507", Some("16777216")),
    ] {
        let words = wish_of_a_table(column, false, &asked, 500).sender(at).join(" ");
        let buffer = buffer.map_or(String::new(), |bytes| format!(" --buffer {bytes}"));
        let all = format!("--heap-size 4194304 --heaps 500 --packet {packet}{buffer} {at}");
        assert_eq!(words, all, "{column}");
    }
    // The streams of each experiment at the memo's rates, over links at its rates.
    let layout = |name: &str| PRESETS.iter().find(|p| p.name == name).unwrap().interfaces;
    assert_eq!(layout("mro10"), [(10.0, 1); 3]);
    assert_eq!(layout("mro40"), [(40.0, 4)]);
    assert_eq!(layout("mro90"), [(40.0, 4), (40.0, 4), (10.0, 1)]);
    for preset in &PRESETS {
        for point in preset.memo {
            assert!(preset.rates.contains(&point.target), "{}: {point:?}", preset.name);
        }
    }
}

#[test]
fn fewer_points_are_spread_over_all() {
    let all = [1.0, 2.0, 3.0, 4.0, 5.0];
    assert_eq!(order(0).few(&all), all);
    assert_eq!(order(2).few(&all), [1.0, 5.0]);
    assert_eq!(order(3).few(&all), [1.0, 3.0, 5.0]);
    assert_eq!(order(1).few(&all), [3.0]);
    assert_eq!(order(9).few(&all), all);
}

#[test]
fn ours_stands_in_a_ratio_to_each_other_peer() {
    let record = || Record::new("spead-x", String::new(), None, json!({})).unwrap();
    let peers = [
        SpeadPeer::Ours { program: "/fullcount".into() },
        SpeadPeer::Spead2 { folder: "/spead2".into() },
        SpeadPeer::Pypi { folder: "/pypi".into() },
    ];
    let values = [vec![9.0, 10.0, 11.0], vec![5.0], vec![4.0]];
    let text = line("| 1472 |", (&peers, &values), "udp-1472", &mut record());
    assert_eq!(
        text,
        "| 1472 | 10.00 (9.00 to 11.00) | 5.00 (5.00 to 5.00) | 4.00 (4.00 to 4.00) | 2.00 | 2.50 |\n"
    );
    let values = [vec![9.0], vec![], vec![3.0]];
    let text = line("| a |", (&peers, &values), "a", &mut record());
    assert_eq!(text, "| a | 9.00 (9.00 to 9.00) | – | 3.00 (3.00 to 3.00) | – | 3.00 |\n");
    let text = line("| a |", (&peers[..1], &values[..1]), "a", &mut record());
    assert_eq!(text, "| a | 9.00 (9.00 to 9.00) |\n", "nobody to compare with");
}

fn measured(peer: &'static str, target: Option<f64>, streams: usize, sum: f64) -> Point {
    let (loss, effective) = (vec![10.0, 20.0], vec![sum * 0.9, sum * 0.8]);
    Point { peer, target, streams, sum: vec![sum, sum], loss, effective }
}

fn names(chart: &Chart) -> Vec<&str> {
    chart.lines.iter().map(|l| l.name.as_str()).collect()
}

#[test]
fn senders_have_a_figure_of_sum_effective_speed_and_loss() {
    let mut points = Vec::new();
    for senders in [1, 4] {
        for rate in [9.0, 20.0] {
            points.push(measured("fullcount", Some(rate), senders, rate * senders as f64));
            points.push(measured("spead2", Some(rate), senders, rate));
        }
    }
    let charts = figures::scaling("x", &points);
    let files: Vec<&str> = charts.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(files, ["x-scaling-sum", "x-scaling-effective", "x-scaling-loss"]);
    let [sum, effective, loss] = &charts[..] else { panic!("{files:?}") };
    let ours = ["fullcount: 1", "fullcount: 4", "spead2: 1", "spead2: 4"];
    assert_eq!(names(sum), [&ours[..], &["memo: 1", "memo: 4"]].concat());
    assert_eq!((names(effective), names(loss)), (ours.to_vec(), ours.to_vec()));
    let last = |chart: &Chart| chart.lines[1].dots[1].y;
    assert!((last(sum) - 80.0).abs() < 1e-9 && (last(effective) - 68.0).abs() < 1e-9);
    assert!((last(loss) - 15.0).abs() < 1e-9);
    for chart in &charts {
        assert!(chart.svg().unwrap().contains("Senders on one interface"), "{}", chart.name);
    }
    let text = scaling_text(&points);
    assert!(text.contains("| fullcount | 4 | 20 | 80.00 ± 0.00 | 68.00 ± 5.66 | 15.00 ± 7.07 |"));
    assert!(text.contains("| memo | 1 | 20 | 17 | – | – |"), "{text}");
}

#[test]
fn tcp_is_a_level_in_the_figures_of_the_long_link() {
    for (preset, level) in PRESETS.iter().zip([26.9, 31.0, 56.0]) {
        let points = [
            measured("fullcount", Some(5.0), 3, 15.0),
            measured("fullcount", Some(9.5), 3, 28.0),
            measured("fullcount", None, 3, 27.0),
        ];
        let charts = figures::preset("x", preset, &points);
        let rate = &charts[0];
        let all =
            ["fullcount: sum", "fullcount: effective", "fullcount: TCP", "memo: TCP", "memo: sum"];
        assert_eq!(names(rate), all, "{}", preset.name);
        for (n, y) in [(2, 27.0 * 0.85), (3, level)] {
            let line = &rate.lines[n];
            assert_eq!((line.stroke, line.dots.len()), (Stroke::Limit, 2));
            assert!(
                line.dots.iter().all(|d| (d.y - y).abs() < 1e-9) && line.dots[0].x < line.dots[1].x
            );
        }
        assert_eq!(names(&charts[1]), ["fullcount", "memo"]);
    }
    let text = PRESETS[2].text(&[measured("fullcount", None, 9, 55.0)], 0.03);
    assert!(text.contains("| memo | TCP | as UDP without loss, about 56 |"), "{text}");
    assert_eq!(memo::tcp_sum("scaling"), None);
}
