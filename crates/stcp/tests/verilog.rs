//! A trace is read by a test bench in Verilog, which checks it and counts what Rust counted. Skipped where there is no
//! `iverilog`, but not in CI.

use std::fmt::Write;
use std::process::Command;

use fullcount_stcp::receiver::{ModelReceiver, ReceiverSetup};
use fullcount_stcp::trace::{TRACE_HEADER, TraceKind, TraceLine};
use fullcount_stcp::{StcpSettings, StcpState};

use crate::rig::*;

/// A session with a loss, as a trace; beside it what the bench must print.
fn session() -> (String, String) {
    let mut rig = Rig::closed(StcpSettings::daq());
    let mut peer = ModelReceiver::<16>::new(ReceiverSetup {
        iss: IRS,
        scale: 0,
        buffer: 40_000,
        ..ReceiverSetup::default()
    });
    let mut lines = vec![TraceLine::call(0, TraceKind::Opened, ISS, 0)];
    rig.s.open(0, ISS, true).unwrap();
    let mut sent = 0;
    while rig.s.snapshot().una < 100_000 {
        if rig.s.state() == StcpState::Established && rig.s.snapshot().end == 0 {
            rig.submit(100_000);
            rig.s.flush();
            lines.push(TraceLine::call(rig.t, TraceKind::Submitted, 0, 100_000));
            lines.push(TraceLine::call(rig.t, TraceKind::Flushed, 0, 0));
        }
        for o in rig.all() {
            lines.push(TraceLine::sent(rig.t, &o));
            sent += 1;
            if sent != 4
                && let Some(ack) = peer.receive(rig.t, &o)
            {
                rig.t += 10 * US;
                lines.push(TraceLine::received(rig.t, &ack));
                rig.give(ack);
            }
        }
        rig.t += 100 * US;
        if let Some(ack) = peer.tick(rig.t) {
            lines.push(TraceLine::received(rig.t, &ack));
            rig.give(ack);
        }
    }
    rig.s.abort(rig.t);
    lines.push(TraceLine::call(rig.t, TraceKind::Aborted, 0, 0));
    lines.extend(rig.all().iter().map(|o| TraceLine::sent(rig.t, o)));
    let mut text = format!("{TRACE_HEADER}\n");
    for line in &lines {
        writeln!(text, "{line}").unwrap();
    }
    let of = |kind| lines.iter().filter(move |l| l.kind == kind);
    let (out, bytes) =
        (of(TraceKind::Sent).count(), of(TraceKind::Sent).map(|l| l.segment.length).sum::<u32>());
    let received = of(TraceKind::Received).count();
    (text, format!("lines {} sent {out} received {received} bytes {bytes} wrong 0", lines.len()))
}

#[test]
fn icarus_reads_a_trace_and_finds_nothing_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, bench) = (folder.path().join("session.trace"), folder.path().join("bench"));
    let (text, expected) = session();
    std::fs::write(&trace, &text).unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/trace.v");
    let built = Command::new("iverilog").args(["-g2005-sv", "-o"]).arg(&bench).arg(source).output();
    let built = match built {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && std::env::var_os("CI").is_none() => {
            eprintln!("skipped: iverilog is not installed (Debian: apt-get install iverilog)");
            return;
        }
        other => other.expect("iverilog"),
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let run = |file: &std::path::Path| {
        let ran = Command::new("vvp")
            .arg(&bench)
            .arg(format!("+trace={}", file.display()))
            .output()
            .unwrap();
        String::from_utf8_lossy(&ran.stdout).trim().to_owned()
    };
    assert_eq!(run(&trace), expected);
    // And the bench sees what is wrong: a segment beyond the window.
    let wrong = text.replace(" 00002300 0000 ff", " 0000ff00 0000 ff");
    std::fs::write(&trace, wrong).unwrap();
    assert!(!run(&trace).ends_with("wrong 0"), "{}", run(&trace));
}
