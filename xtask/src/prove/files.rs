//! `files`: 100 new files begun by command in a minute of `run` at 1 M events/s.
//!
//! Each file is read again when it is closed, and its events counted; the summary has their sum. Holds if that is the number
//! of events made, if as many files are there as were begun, and if both ends say that nothing was lost. Refuses a
//! run that begins no file within ten seconds.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Finding;
use super::campaign::Campaign;
use super::service;
use crate::kinds;
use crate::place;

/// Files begun behind the first.
const FILES: usize = 100;
const RATE: &str = "1Mev/s";
/// Between two files.
const EVERY: Duration = Duration::from_millis(550);
/// Longest wait for a reply, and for a change.
const PATIENCE: Duration = Duration::from_secs(10);

pub fn run(campaign: &mut Campaign) -> Result<Finding, String> {
    let results = campaign.units("100 files in a minute", 1, |_| files())?;
    let figures = results.into_iter().next().unwrap_or_default();
    let number = |name: &str| figures[name].as_u64().unwrap_or(0);
    let complete = number("events") > 0
        && number("events") == number("events_in_files")
        && number("files") == FILES as u64 + 1
        && number("files") == number("files_there");
    let sound = figures["exit"] == 0 && figures["balance"] == 0 && number("packets_lost") == 0;
    Ok(Finding { held: complete && sound, figures })
}

fn files() -> Result<Value, String> {
    let binary = service::build()?;
    let folder = place::target().join("prove/files");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let (first, below) = (folder.join("000.nxs"), format!("control.folder={}", folder.display()));
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let control = free.map_err(|error| format!("no free TCP port: {error}"))?.to_string();
    let first = first.display().to_string();
    let run = [
        "--nexus",
        &first,
        "--tick",
        "1ns",
        "--web",
        "off",
        "--control",
        &control,
        "--set",
        &below,
    ];
    let send = ["--rate", RATE, "--duration", "60s"];
    let (mut receiver, sender) =
        service::run_and_send(&binary, &kinds::first(&binary)?, &run, &send)?;
    let mut port = connect(&control)?;
    let begun = Instant::now();
    for n in 1..=FILES {
        thread::sleep((begun + EVERY * n as u32).saturating_duration_since(Instant::now()));
        ask(&mut port, &format!("NEXUS_NEXT {n:03}.nxs {n}"))?;
        if !receiver.is_running() {
            return receiver.finish(Duration::ZERO).map(|_| "run ended early".into());
        }
    }
    let sent = sender.finish(Duration::from_secs(120))?;
    // What is queued and in the socket is read within a moment; then it is told to end.
    thread::sleep(Duration::from_secs(2));
    receiver.interrupt();
    let ended = receiver.finish(Duration::from_secs(120))?;
    let there = fs::read_dir(&folder).map_or(0, Iterator::count);
    let _ = fs::remove_dir_all(&folder);
    Ok(json!({
        "rate": RATE,
        "exit": ended.code,
        "balance": ended.number("/balance"),
        "packets_sent": sent.number("/packets/sent"),
        "packets_lost": ended.sum("/packets/lost"),
        "events": ended.number("/events"),
        "events_in_files": ended.number("/outputs/nexus/events"),
        "files": ended.number("/counters/sink.nexus.files"),
        "files_there": there,
    }))
}

fn connect(at: &str) -> Result<TcpStream, String> {
    let wrong = |error: std::io::Error| format!("control port {at}: {error}");
    let stream = TcpStream::connect(at).map_err(wrong)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(wrong)?;
    Ok(stream)
}

/// Gives a command once nothing of those before is under way.
fn ask(port: &mut TcpStream, command: &str) -> Result<(), String> {
    let (begun, mut buffer) = (Instant::now(), [0; 9000]);
    loop {
        let wrong = |error: std::io::Error| format!("{command}: {error}");
        port.write_all(command.as_bytes()).map_err(wrong)?;
        let n = port.read(&mut buffer).map_err(wrong)?;
        match &buffer[..n] {
            b"<OK>" => return Ok(()),
            b"Error: <BUSY>" if begun.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(20));
            }
            other => return Err(format!("{command}: {}", String::from_utf8_lossy(other))),
        }
    }
}
