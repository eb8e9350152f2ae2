//! `capture`: all packets captured beside their events, at 10 Gb/s or at 0.8 of what the disk writes.
//!
//! `dd conv=fdatasync` and runs take turns: the disk's own rate, then 20 s of the first detector's packets into `run`
//! with a capture, and once without. If 0.8 of the slowest `dd` is less than what a capture of 10 Gb/s writes, the
//! packets come at the rate that makes 0.8 of it, or a little faster, and one more run at 10 Gb/s shows what is then counted:
//! all packets as events, those not captured by name. The last files are replayed: they hold as many
//! packets as was said. Holds if nothing was lost and nothing not captured at the wanted rate, and the
//! packets captured and not captured add up in every run.
//!
//! The environment says more: `CAPTURE_DIR` is the folder (else the target folder), `CAPTURE_GIB` is how much may be on
//! the disk at a time (6; 1 to 1000), `CAPTURE_SECONDS` is the length of a run (20; 1 to 3600). Refuses other values,
//! and a disk with less room than that and half a GiB.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Finding;
use super::campaign::Campaign;
use super::lab::{self, Ended};
use crate::place;

/// Bits a second of payload, and what a capture of it writes: packets of 1261 B need 76 B more.
const LINE: f64 = 10e9;
const PACKET: f64 = 1261.0;
const RECORD: f64 = 1261.0 + 28.0 + 42.0 + 4.0 + 1.0;
/// Part of the disk's rate that must be reached.
const SHARE: f64 = 0.8;
/// Part of the rate that is asked of the sender: it falls behind by up to 5 % where the host takes its core while the disk works (seen: 1.5
/// and 5 %), and a lower rate than wanted would prove nothing.
const ASKED: f64 = 1.06;
/// Files of the series that stay. One more is written to, and the next one has its first pieces.
const KEEP: u64 = 3;
const ROUNDS: u32 = 3;

/// What the environment asks for.
struct Size {
    folder: PathBuf,
    seconds: u64,
    /// MiB that may be on the disk at a time.
    mib: u64,
}

impl Size {
    fn read() -> Result<Size, String> {
        let number = |name: &str, usual: u64, most: u64| match std::env::var(name) {
            Err(_) => Ok(usual),
            Ok(text) => number(name, &text, most),
        };
        let folder = std::env::var_os("CAPTURE_DIR").map_or_else(place::target, PathBuf::from);
        let mib = 1024 * number("CAPTURE_GIB", 6, 1000)?;
        let seconds = number("CAPTURE_SECONDS", 20, 3600)?;
        let size = Size { folder: folder.join("prove-capture"), seconds, mib };
        fs::create_dir_all(&size.folder).map_err(|e| format!("{}: {e}", size.folder.display()))?;
        let free = free_mib(&size.folder)?;
        if free < mib + 512 {
            return Err(format!(
                "{}: {free} MiB are free, {} are wanted: give another folder with CAPTURE_DIR, \
                 or less with CAPTURE_GIB (1 and more)",
                size.folder.display(),
                mib + 512
            ));
        }
        Ok(size)
    }

    /// MiB that `dd` writes: with 6 GiB, more than 10 Gb/s bring in 3 s.
    fn dd(&self) -> u64 {
        self.mib * 2 / 3
    }

    /// MiB of a file of the series: with all of them and what is in front, less than there is room for.
    fn file(&self) -> u64 {
        self.mib / (KEEP + 3)
    }
}

fn number(name: &str, text: &str, most: u64) -> Result<u64, String> {
    let found = text.parse().ok().filter(|n| (1..=most).contains(n));
    found.ok_or_else(|| format!("{name} = {text}: a whole number of 1 to {most} is expected"))
}

/// Room for anybody on the folder's disk.
fn free_mib(folder: &Path) -> Result<u64, String> {
    let words = ["--output=avail", "--block-size=1M", &folder.display().to_string()];
    let said = place::output_of("df", &words);
    let said = said.as_deref().and_then(|text| text.lines().last()?.trim().parse().ok());
    said.ok_or_else(|| format!("df says nothing about {}", folder.display()))
}

pub fn run(campaign: &mut Campaign) -> Result<Finding, String> {
    let size = Size::read()?;
    let disks = campaign.units("the disk by itself (dd)", ROUNDS, |_| disk(&size))?;
    let slowest = disks
        .iter()
        .filter_map(|d| d["bytes_per_s"].as_f64())
        .min_by(f64::total_cmp)
        .ok_or("dd said nothing")?;
    let rate = (SHARE * slowest * 8.0 * PACKET / RECORD).min(LINE);
    let captured =
        campaign.units("run with a capture", ROUNDS, |_| measure(&size, ASKED * rate, true))?;
    let alone = campaign.units("run without", 1, |_| measure(&size, ASKED * rate, false))?;
    let beyond = if rate < LINE {
        campaign.units("run with a capture, beyond the disk", 1, |_| measure(&size, LINE, true))?
    } else {
        Vec::new()
    };
    let after = campaign.units("the disk by itself, afterwards", 1, |_| disk(&size))?;
    let _ = fs::remove_dir_all(&size.folder);
    let whole = |run: &Value| {
        run["balance"] == 0
            && run["packets_sent"].as_u64() > Some(0)
            && run["packets_sent"] == run["packets_accepted"]
    };
    let complete = |run: &Value| {
        run["exit"] == 0 && run["not_captured"] == 0 && run["captured"] == run["packets_sent"]
    };
    let paced = |run: &Value| run["gbps_sent"].as_f64() >= Some(0.99 * rate / 1e9);
    let added = |run: &Value| {
        let n = |key: &str| run[key].as_u64().unwrap_or(0);
        n("captured") + n("not_captured") == n("packets_received")
            && run["replayed_as_said"] == true
    };
    let held = captured.iter().all(|r| whole(r) && complete(r) && paced(r) && added(r))
        && beyond.iter().all(|r| r["balance"] == 0 && added(r));
    let figures = json!({
        "seconds": size.seconds,
        "mib_on_the_disk_at_most": size.mib,
        "disk_bytes_per_s": disks,
        "disk_bytes_per_s_after": after,
        "share_of_the_slowest": SHARE,
        "rate_gbps": rate / 1e9,
        "asked_of_the_sender_gbps": ASKED * rate / 1e9,
        "with_capture": captured,
        "without_capture": alone,
        "beyond_the_disk": beyond,
    });
    Ok(Finding { held, figures })
}

/// What the disk does by itself.
fn disk(size: &Size) -> Result<Value, String> {
    let (file, volume) =
        (size.folder.join("dd").display().to_string(), format!("{}MiB", size.dd()));
    lab::bench(&lab::build()?, &["disk", "--file", &file, "--volume", &volume])
}

fn measure(size: &Size, rate: f64, capture: bool) -> Result<Value, String> {
    let series = size.folder.join("series");
    let _ = fs::remove_dir_all(&series);
    fs::create_dir_all(&series).map_err(|e| format!("{}: {e}", series.display()))?;
    let folder = series.display().to_string();
    let file = series.join("run.pcapng").display().to_string();
    let (duration, rate) = (format!("{}s", size.seconds), format!("{:.0}bps", rate));
    let mut words = vec!["trial", "--rate", &rate, "--duration", &duration];
    if capture {
        words.extend(["--replay", &folder]);
    }
    words.extend(["--", "run", "--sink", "null", "--web", "off"]);
    let (file_size, keep) = (format!("{}MiB", size.file()), KEEP.to_string());
    if capture {
        words.extend(["--capture", &file, "--rotate-size", &file_size, "--keep", &keep]);
    }
    let row = lab::bench(&lab::build()?, &words)?;
    let (sent, ended) = (Ended::of(&row["send"][0]), Ended::of(&row["receiver"]));
    let counter = |name: &str| counter(&ended, name);
    let mut result = json!({
        "exit": ended.code,
        "balance": ended.number("/balance"),
        "packets_sent": sent.number("/packets/sent"),
        "packets_received": ended.number("/packets/received"),
        "packets_accepted": ended.number("/packets/accepted"),
        "packets_lost": ended.sum("/packets/lost"),
        "events": ended.number("/events"),
        "gbps_sent": sent.summary.pointer("/rates/gbps"),
        "cpu": ended.summary.get("cpu"),
    });
    if capture {
        let lost = counter("dropped") + counter("failed") + counter("too_long");
        result["captured"] = counter("written").into();
        result["not_captured"] = lost.into();
        result["bytes_per_s"] = (counter("bytes") as f64 / size.seconds as f64).into();
        result["buffer_peak_bytes"] = counter("waiting_peak").into();
        result["files"] = counter("files").into();
        result["replayed_as_said"] = replayed(&row["replayed"], counter("files")).into();
    }
    let _ = fs::remove_dir_all(&series);
    Ok(result)
}

fn counter(ended: &Ended, name: &str) -> u64 {
    let counters = ended.summary.get("counters");
    counters.and_then(|c| c[format!("sink.capture.{name}")].as_u64()).unwrap_or(0)
}

/// True if the files that stayed can be read to their end, and follow each other without a gap of their own.
fn replayed(replays: &Value, files: u64) -> bool {
    let whole = |n: u64| {
        let name = format!("run-{:05}.pcapng", n + 1);
        let mut all = replays.as_array().into_iter().flatten();
        let Some(replay) = all.find(|replay| replay["file"] == *name) else { return false };
        let n = |name: &str| {
            replay.pointer(&format!("/summary/counters/{name}")).and_then(Value::as_u64)
        };
        n("receive.packets") > Some(0)
            && n("pcap.truncated") == Some(0)
            && n("pcap.damaged") == Some(0)
            && n("pcap.frames") == n("receive.packets")
    };
    (files.saturating_sub(KEEP)..files).all(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_at_a_time_are_within_what_is_asked_for() {
        for gib in [1, 6, 1000] {
            let size = Size { folder: PathBuf::new(), seconds: 1, mib: 1024 * gib };
            assert!(size.dd() <= size.mib && (KEEP + 2) * size.file() < size.mib, "{gib}");
            assert!(size.file() > 100);
        }
    }

    #[test]
    fn the_last_files_have_to_be_read_to_their_end() {
        let replay = |file: u64, frames: u64, damaged: u64| {
            json!({"file": format!("run-{file:05}.pcapng"), "summary": {"counters": {
                "receive.packets": 5, "pcap.frames": frames, "pcap.truncated": 0, "pcap.damaged": damaged}}})
        };
        let last = |last: Value| json!([replay(2, 5, 0), replay(3, 5, 0), last]);
        assert!(replayed(&last(replay(4, 5, 0)), 4));
        assert!(!replayed(&last(replay(4, 6, 0)), 4) && !replayed(&last(replay(4, 5, 1)), 4));
        assert!(!replayed(&json!([replay(2, 5, 0), replay(3, 5, 0)]), 4), "one is missing");
    }

    #[test]
    fn other_numbers_are_refused_with_what_is_allowed() {
        assert_eq!(number("CAPTURE_GIB", "7", 1000), Ok(7));
        for text in ["0", "1001", "", "6GiB"] {
            let error = number("CAPTURE_GIB", text, 1000).unwrap_err();
            assert!(error.contains("1 to 1000") && error.contains("CAPTURE_GIB"), "{error}");
        }
    }

    #[test]
    fn the_room_on_a_disk_is_known() {
        assert!(free_mib(&std::env::temp_dir()).is_ok());
        let error = free_mib(Path::new("/nonexistent/folder")).unwrap_err();
        assert!(error.contains("/nonexistent/folder"), "{error}");
    }
}
