//! Command lines, lines of output, sums of a trial, the search, trials that are kept.

use serde_json::json;

use super::campaign::MemoOrder;
use super::kept::Kept;
use super::lossless::bisect;
use super::tools::{HeapsHeard, SenderEnd, SpeadPeer, SpeadWish, heard, sent};
use super::trial::{HeapTrial, evaluate};
use super::{mean_sd, pm};

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
}

#[test]
fn the_sum_is_all_bytes_over_the_last_sender_s_time_and_loss_counts_whole_heaps() {
    let all = [
        SenderEnd { bytes: 125_000_000, seconds: 1.0 },
        SenderEnd { bytes: 125_000_000, seconds: 2.0 },
    ];
    let heaps = |heaps| HeapsHeard { heaps, statistics: vec![] };
    let trial = evaluate(&wish(), &all, &[heaps(10), heaps(5)], 1);
    assert_eq!((trial.gbps.clone(), trial.sum), (vec![1.0, 0.5], 1.0));
    assert_eq!((trial.loss, trial.interrupted), (Some(0.25), 1));
    assert_eq!(HeapTrial::of(&trial.json()), Some(trial));
    assert_eq!(evaluate(&wish(), &all, &[], 0).loss, None);
}

#[test]
fn a_search_comes_as_near_as_its_steps_allow() {
    let found = bisect(16.0, 7, |rate| Ok::<bool, ()>(rate <= 5.0)).unwrap();
    assert!((4.875..=5.0).contains(&found), "{found}");
    assert_eq!(bisect(16.0, 7, |_| Ok::<bool, ()>(false)), Ok(0.0));
    assert_eq!(bisect(1.0, 3, |_| Err("broken")), Err("broken"));
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

#[test]
fn fewer_points_are_spread_over_all() {
    let order = |points| MemoOrder {
        parts: vec![],
        repeats: 1,
        link_repeats: 1,
        heap_bytes: 1,
        table_heaps: 1,
        heaps: 1,
        scale: 1.0,
        emulated_gbps: 1.0,
        iperf_seconds: 1,
        points,
        namespaces: false,
    };
    let all = [1.0, 2.0, 3.0, 4.0, 5.0];
    assert_eq!(order(0).few(&all), all);
    assert_eq!(order(2).few(&all), [1.0, 5.0]);
    assert_eq!(order(3).few(&all), [1.0, 3.0, 5.0]);
    assert_eq!(order(1).few(&all), [3.0]);
    assert_eq!(order(9).few(&all), all);
}
