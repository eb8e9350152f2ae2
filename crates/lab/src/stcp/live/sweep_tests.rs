//! Statement 59 of `docs/formats/simplified-tcp.md`: what a sweep must reach, and what the committed record reached.

use serde_json::Value;

use super::*;

const TEN: Option<u64> = Some(10_000_000_000);

fn point(link: Option<u64>, sender: &str, size: usize, gbps: f64) -> Point {
    let figure = record::Figure::of(&[gbps], "Gb/s").unwrap();
    Point { link, sender: LiveSender::named(sender).unwrap(), size, figure, cpu: 0.0 }
}

#[test]
fn s59_each_level_has_its_border() {
    for (link, sender, size, least) in [
        (TEN, "offload", 16, 8.0),
        (TEN, "offload", 64, 9.0),
        (TEN, "offload", 65_536, 9.0),
        (TEN, "frames", 16, 5.0),
        (TEN, "frames", 65_536, 5.0),
        (None, "frames", 65_536, 10.0),
        (None, "tap", 65_536, 23.0),
    ] {
        assert_eq!(missed(&[point(link, sender, size, least)]), [""; 0], "{sender} {size}");
        let below = missed(&[point(link, sender, size, least - 0.01)]);
        assert!(below.len() == 1 && below[0].contains(sender), "{below:?}");
    }
    for (link, size, of_linux) in
        [(TEN, 16, 50.0), (TEN, 64, 0.98), (TEN, 65_536, 0.98), (None, 65_536, 0.9)]
    {
        // So fast that the sizes' own levels are met.
        let linux = if size == 16 { 1.0 } else { 20.0 };
        let both = |gbps| [point(link, "offload", size, gbps), point(link, "linux", size, linux)];
        assert_eq!(missed(&both(of_linux * linux)), [""; 0], "{size}");
        let below = missed(&both(of_linux * linux - 0.01));
        assert!(below.len() == 1 && below[0].contains("Linux sockets"), "{below:?}");
    }
}

/// Points of a committed record.
fn committed(name: &str) -> Vec<Point> {
    let page = format!("{}/../../docs/results/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let record: Value = serde_json::from_slice(&std::fs::read(page).unwrap()).unwrap();
    let read = |row: &Value| {
        let link = [TEN, None].into_iter().find(|link| row["link"] == link_name(*link).as_str());
        let size = row["fragment_bytes"].as_u64().unwrap() as usize;
        let (sender, gbps) = (row["sender"].as_str().unwrap(), row["gbps"].as_f64().unwrap());
        assert!(row["repeats"].as_u64() >= Some(5), "a median of five: {row}");
        point(link.unwrap(), sender, size, gbps)
    };
    record["rows"].as_array().unwrap().iter().map(read).collect()
}

#[test]
fn s59_the_committed_sweep_reaches_every_level() {
    let points = committed("stcp-sweep");
    let both = [TEN, None].into_iter();
    let all = both.flat_map(|link| ["offload", "frames", "linux"].map(|sender| (link, sender)));
    for (link, sender) in all {
        let sender = LiveSender::named(sender);
        let sizes = points.iter().filter(|p| p.link == link && Some(p.sender) == sender);
        assert!(sizes.map(|p| p.size).eq(SIZES), "{} {sender:?}", link_name(link));
    }
    assert_eq!(missed(&points), [""; 0]);
}

#[test]
fn s59_the_committed_drivers_reach_every_level() {
    let points = committed("stcp-sweep-drivers");
    for sender in ["offload", "frames", "tap", "linux"] {
        let of = |p: &&Point| p.link.is_none() && p.sender.name() == sender && p.size == 65_536;
        assert!(points.iter().any(|p| of(&p)), "{sender}");
    }
    assert_eq!(missed(&points), [""; 0]);
}

/// Its sockets have `cubic` and a faster processor; 50 times their rate at 16 B is more than the link has.
#[test]
fn s59_the_committed_sweep_of_a_xeon_misses_what_the_pages_say_and_nothing_else() {
    let told = missed(&committed("stcp-sweep-xeon"));
    let [at_16] = told.as_slice() else { panic!("{told:?}") };
    assert!(at_16.contains("offload, 16 B") && at_16.contains("50 times"), "{at_16}");
    assert_eq!(missed(&committed("stcp-sweep-drivers-xeon")), [""; 0]);
}
