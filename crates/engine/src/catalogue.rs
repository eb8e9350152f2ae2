//! Every counter that this program can have, by part: for `docs/counters.md` and `/metrics`.

use fullcount_core::ledger::{Info, Unit};
use fullcount_core::products::Want;
use fullcount_core::wall::WallCount;
use fullcount_detect::detector::{Setup, Threads, registered};
use fullcount_io::fault::Faults;

use crate::pipeline::RingCount;
use crate::registered;

/// All lines with the part of the program that they belong to.
pub fn lines() -> Vec<(&'static str, Info)> {
    let mut all: Vec<(&'static str, Vec<Info>)> =
        registered::sources().kinds().flat_map(|kind| kind.counters()).collect();
    all.extend([
        ("receiving: faults on purpose (source.fault)", Faults::catalogue()),
        ("ring between two threads", RingCount::catalogue()),
        ("times of the host's clock", WallCount::catalogue()),
        ("places of losses on this host", crate::places::HostWitness::catalogue()),
    ]);
    for kind in registered().kinds() {
        if let Ok(detector) = kind.configure(&Setup::default()) {
            let Ok(decoder) = detector.decoder(Want::default(), &Threads::of(1)) else { continue };
            let lines = decoder.sheets().iter().flat_map(|sheet| sheet.lines().to_vec()).collect();
            all.push((kind.name(), lines));
        }
    }
    all.extend(registered::outputs().kinds().flat_map(|kind| kind.counters()));
    all.push(("all outputs", crate::fanout::OutputCount::catalogue()));
    all.push(("queues to the outputs", crate::fanout::queue_lines("<output>", true, Unit::Events)));
    let each = |(part, lines): (&'static str, Vec<Info>)| lines.into_iter().map(move |l| (part, l));
    // Kinds around one another declare the same part.
    let mut lines: Vec<(&'static str, Info)> = vec![];
    for (part, line) in all.into_iter().flat_map(each) {
        if !lines.iter().any(|(of, known)| *of == part && known.name == line.name) {
            lines.push((part, line));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Write;
    use std::process::{Command, Stdio};

    use fullcount_core::ledger::{Ledger, Sheet};
    use fullcount_core::status::Facts;
    use fullcount_web::prometheus::{render, render_process};

    #[test]
    fn promtool_finds_nothing_in_the_metrics_of_all_counters() {
        let mut seen = BTreeSet::new();
        let mut lines: Vec<_> = super::lines().into_iter().map(|(_, line)| line).collect();
        lines.retain(|line| seen.insert(line.name.to_string()));
        let (ledger, sheet) = (Ledger::default(), Sheet::new(lines));
        ledger.register(sheet);
        let text = render(&ledger.read(), &Facts::default()) + &render_process();
        let promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut promtool) = promtool else {
            let reason = "no promtool: apt-get install prometheus";
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{reason}");
            println!("skipped: {reason}");
            return;
        };
        promtool.stdin.take().expect("piped").write_all(text.as_bytes()).expect("written");
        let said = promtool.wait_with_output().expect("it ends");
        let found = String::from_utf8_lossy(&said.stderr) + String::from_utf8_lossy(&said.stdout);
        assert!(said.status.success() && found.is_empty(), "{found}");
    }
}
