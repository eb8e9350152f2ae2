//! `fullcount recover`: makes NeXus files left by a killed process readable by every reader.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use fullcount_engine::summary::grouped;
use fullcount_nexus::recover as recover_file;

use crate::exit::Failure;
use crate::{note, say};

/// Makes NeXus files left by a killed process readable by every reader.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RecoverFlags {
    /// Files written by fullcount
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// One JSON object with the outcome of each file
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Everything up to the last flush is kept; what was still on its way is cut off. Files that are
already complete are left as they are. The next `fullcount run` to the same path does this by
itself.

Examples:
  fullcount recover run42.nxs
  fullcount recover --json *.nxs";

/// Recovers each file; a file that cannot be recovered does not stop the others.
pub fn recover(flags: RecoverFlags) -> Result<u8, Failure> {
    // Before anything is opened: a name that is not there is a wrong option, for all verbs.
    for path in &flags.files {
        let missing = |e| Failure::Wrong(format!("{}: {e}", path.display()));
        std::fs::metadata(path).map_err(missing)?;
    }
    let mut failed = 0;
    let mut all = serde_json::Map::new();
    for path in &flags.files {
        let shown = path.display().to_string();
        match recover_file(path) {
            Ok(r) => {
                let (events, pulses) = (r.events, r.pulses);
                let what = if r.changed { "recovered" } else { "already complete" };
                note!(
                    "{shown}: {what}, {} events, {} pulse rows",
                    grouped(events),
                    grouped(pulses)
                );
                let changed = r.changed;
                let outcome = serde_json::json!({
                    "events": events, "pulse_rows": pulses, "changed": changed,
                    "cut_events": r.cut_events, "cut_pulse_rows": r.cut_rows,
                });
                all.insert(shown, outcome);
            }
            Err(e) => {
                failed += 1;
                note!("fullcount: {e}");
                all.insert(shown, serde_json::json!({"failure": e.to_string()}));
            }
        }
    }
    if flags.json {
        let schema = "fullcount/summary/1";
        say!("{}", serde_json::json!({"schema": schema, "verb": "recover", "files": all}));
    }
    if failed > 0 {
        let n = flags.files.len();
        return Err(Failure::Failed(anyhow!("{failed} of {n} files could not be recovered")));
    }
    Ok(0)
}
