//! `fullcount advise`: what limits a wanted rate on this host, what to change, and changing it.
//!
//! Refuses: wrong options before anything is read or opened; changes without the right to make them, with
//! the commands instead. Source: `docs/advise.md`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fullcount_engine::config::refuse;
use fullcount_io::host::Host;
use fullcount_io::quantity::{self, Rate};
use fullcount_lab::advise::apply::{self, AppliedChange, ChangeOutcome, ChosenLines};
use fullcount_lab::advise::place::{Change, HostSettings};
use fullcount_lab::advise::state::default_path;
use fullcount_lab::advise::{Advice, AdviceStatus, HostFacts, HostRole, Wish, WishError};
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::{note, say, tell};

/// What limits a wanted rate on this host: buffers, queues, MTU, rings, offloads, interrupts, cores, sleep,
/// filters, container. Each line says what it is now, what is wanted, why, and the command.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AdviseFlags {
    /// Wanted rate: payload bits or packets a second
    #[arg(long, value_name = "RATE", default_value = "10Gbps")]
    rate: String,
    /// Payload of a packet in bytes, 1 to 65507
    #[arg(long, value_name = "BYTES", default_value = "1472")]
    size: String,
    /// Which end of the stream this host is
    #[arg(long = "for", value_name = "END", default_value = "receive")]
    role: End,
    /// Interface [default: that of the default route]
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// UDP port: its socket's drops are shown and it stands in the commands
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// CPU that the receiving or sending thread is, or will be, pinned to
    #[arg(long, value_name = "CPU")]
    core: Option<u32>,
    /// Over IPv6: its header is 20 B longer
    #[arg(long)]
    ipv6: bool,
    /// Packets above the MTU may go as IP fragments
    #[arg(long)]
    fragments: bool,
    /// How long the receive buffer must bridge a receiver that is off its core, 1ms to 10s
    #[arg(long, value_name = "TIME", default_value = "50ms")]
    hold: String,
    /// Read a saved host: proc, sys and the output of ethtool below this folder
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Exit with 1 if anything is short
    #[arg(long, group = "deed", help_heading = "What to do")]
    check: bool,
    /// Change what is short, as root; the former values go into the state file first
    #[arg(long, group = "deed", help_heading = "What to do")]
    apply: bool,
    /// Put back every former value of the state file
    #[arg(long, group = "deed", help_heading = "What to do")]
    revert: bool,
    /// With --apply or --revert: say what would be written and write nothing
    #[arg(long, help_heading = "What to do")]
    dry_run: bool,
    /// With --apply: change what is a hint, too
    #[arg(long, requires = "apply", help_heading = "What to do")]
    with_hints: bool,
    /// With --apply: change these only, e.g. net.core.rmem_max,mtu
    #[arg(long, value_name = "KEYS", value_delimiter = ',', requires = "apply")]
    #[arg(help_heading = "What to do")]
    only: Vec<String>,
    /// With --apply: leave these as they are
    #[arg(long, value_name = "KEYS", value_delimiter = ',', requires = "apply")]
    #[arg(help_heading = "What to do")]
    skip: Vec<String>,
    /// State file [default: fullcount/advise-state.json below $XDG_STATE_HOME, else below /var/lib]
    #[arg(long, value_name = "FILE", help_heading = "What to do")]
    state: Option<PathBuf>,
    /// End with one JSON object on standard output
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum End {
    Receive,
    Send,
    Both,
}

const EXAMPLES: &str = "\
Exit code 1 if --check finds anything short, or a change failed.

Examples:
  fullcount advise --rate 10Gbps --size 8972 --interface eth1 --core 4
  fullcount advise --rate 14.88Mpps --size 18 --for send --check
  fullcount advise --rate 10Gbps --apply --skip mtu --dry-run
  fullcount advise --revert
  fullcount advise --root saved-host --json";

/// Time between two looks at the cores: 25 ticks of a clock of 100 Hz, in which the kernel counts.
const LOOK: Duration = Duration::from_millis(250);

/// Advises, checks, changes or puts back.
pub fn advise(flags: &AdviseFlags) -> Result<u8, Failure> {
    let wish = wish(flags)?;
    if flags.dry_run && !(flags.apply || flags.revert) {
        return Err(refuse("dry-run", "", "only with --apply or --revert").into());
    }
    if !flags.root.is_dir() {
        let root = flags.root.display();
        return Err(refuse("root", root, "a folder with a host's proc and sys").into());
    }
    let host = Host::at(&flags.root);
    if flags.revert {
        return revert(flags, &host);
    }
    let mut wait = || std::thread::sleep(LOOK);
    let facts = HostFacts::read(&host, &wish, Some(&mut wait));
    let advice = Advice::new(&wish, &facts).map_err(wrong)?;
    if flags.apply {
        return change(flags, &host, may_not(&host, Some(&facts)), &advice);
    }
    match flags.json {
        true => say!("{}", advice.json()),
        false => tell!("{}", advice.text()),
    }
    Ok(u8::from(flags.check && advice.count(AdviceStatus::Short) > 0))
}

fn wrong(e: WishError) -> Failure {
    Failure::Wrong(e.to_string())
}

fn wish(flags: &AdviseFlags) -> Result<Wish, Failure> {
    let rate = flags.rate.parse::<Rate>();
    let rate = rate.map_err(|e| refuse("rate", &flags.rate, e.to_string()))?;
    let size = quantity::size(&flags.size);
    let size = size.map_err(|e| refuse("size", &flags.size, e.to_string()))?;
    let hold = quantity::duration(&flags.hold);
    let hold = hold.map_err(|e| refuse("hold", &flags.hold, e.to_string()))?;
    let wish = Wish {
        rate,
        size: usize::try_from(size).unwrap_or(usize::MAX),
        ipv6: flags.ipv6,
        interface: flags.interface.clone(),
        port: flags.port,
        core: flags.core,
        role: match flags.role {
            End::Receive => HostRole::Receive,
            End::Send => HostRole::Send,
            End::Both => HostRole::Both,
        },
        fragments: flags.fragments,
        hold,
    };
    wish.check().map_err(wrong)?;
    Ok(wish)
}

fn state_file(flags: &AdviseFlags) -> PathBuf {
    let home = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    flags.state.clone().unwrap_or_else(|| default_path(home.as_deref()))
}

/// Settings of this host need root; a tree needs whatever its files need.
fn may_not(host: &Host, facts: Option<&HostFacts>) -> bool {
    let root = facts.map_or_else(|| host.bounds().root, |f| f.bounds.root);
    host.is_this_one() && root == Some(false)
}

fn change(flags: &AdviseFlags, host: &Host, barred: bool, advice: &Advice) -> Result<u8, Failure> {
    for (key, names) in [("only", &flags.only), ("skip", &flags.skip)] {
        let known = |name: &&String| !advice.lines.iter().any(|l| l.key == **name);
        if let Some(name) = names.iter().find(known) {
            let keys: Vec<&str> = advice.lines.iter().map(|l| l.key.as_str()).collect();
            return Err(refuse(key, name, keys.join(", ")).into());
        }
    }
    let choice =
        ChosenLines { hints: flags.with_hints, only: flags.only.clone(), skip: flags.skip.clone() };
    let changes = choice.changes(&advice.lines);
    if barred && !flags.dry_run {
        return Ok(commands(flags, &changes));
    }
    let path = state_file(flags);
    let steps = apply::apply(&changes, &mut HostSettings::new(host), &path, flags.dry_run)
        .map_err(anyhow::Error::from)?;
    let more =
        advice.lines.iter().filter(|l| l.status == AdviceStatus::Short && l.changes.is_empty());
    for line in more {
        note!("{}: cannot be changed from here: {}", line.key, line.why);
    }
    Ok(told(flags, "apply", &path, &steps))
}

fn revert(flags: &AdviseFlags, host: &Host) -> Result<u8, Failure> {
    if may_not(host, None) && !flags.dry_run {
        return Err(anyhow::anyhow!(
            "putting settings back needs root: sudo fullcount advise --revert"
        )
        .into());
    }
    let path = state_file(flags);
    let steps = apply::revert(&mut HostSettings::new(host), &path, flags.dry_run)
        .map_err(anyhow::Error::from)?;
    Ok(told(flags, "revert", &path, &steps))
}

/// Without the right: what to run instead.
fn commands(flags: &AdviseFlags, changes: &[Change]) -> u8 {
    if changes.is_empty() {
        note!("nothing is to be changed");
    } else {
        note!(
            "changing settings needs root: run this again with sudo, or give these commands as root"
        );
    }
    let commands: Vec<String> = changes.iter().map(Change::command).collect();
    if flags.json {
        let object = json!({
            "schema": "fullcount/advise-apply/1", "verb": "advise", "deed": "apply",
            "commands": commands, "steps": [],
        });
        say!("{object}");
    } else {
        commands.iter().for_each(|c| say!("{c}"));
    }
    u8::from(!changes.is_empty())
}

fn told(flags: &AdviseFlags, deed: &str, path: &std::path::Path, steps: &[AppliedChange]) -> u8 {
    let failed = steps.iter().filter(|s| s.failed()).count();
    if flags.json {
        let steps: Vec<Value> = steps.iter().map(step_json).collect();
        let object = json!({
            "schema": "fullcount/advise-apply/1", "verb": "advise", "deed": deed,
            "dry_run": flags.dry_run, "state": path.display().to_string(),
            "steps": steps, "failed": failed,
        });
        say!("{object}");
        return u8::from(failed > 0);
    }
    for step in steps {
        let before = step.before.as_deref().unwrap_or("?");
        let (place, value) = (&step.change.place, &step.change.value);
        match (&step.outcome, flags.dry_run) {
            (ChangeOutcome::Failed(why), _) => {
                say!("failed   {place}: {why}");
                say!("         # {}", step.change.command());
            }
            (ChangeOutcome::Already, _) => say!("as it is {place}: {value}"),
            (ChangeOutcome::Done, true) => say!("would    {place}: {before} -> {value}"),
            (ChangeOutcome::Done, false) => {
                say!("done     {place}: {before} -> {}", step.after.as_deref().unwrap_or(value));
            }
        }
    }
    let done = steps.iter().filter(|s| s.outcome == ChangeOutcome::Done).count();
    match (deed, flags.dry_run) {
        (_, true) => say!("{done} would be changed; nothing was written"),
        ("apply", false) if done > 0 => {
            say!("{done} changed, {failed} failed; former values in {}", path.display());
            say!("fullcount advise --revert puts them back");
        }
        ("apply", false) => say!("0 changed, {failed} failed"),
        (_, false) => say!("{done} put back, {failed} failed"),
    }
    u8::from(failed > 0)
}

fn step_json(step: &AppliedChange) -> Value {
    let mut object = json!({
        "place": step.change.place.to_string(),
        "value": step.change.value,
        "command": step.change.command(),
        "outcome": match &step.outcome {
            ChangeOutcome::Done => "done",
            ChangeOutcome::Already => "already",
            ChangeOutcome::Failed(_) => "failed",
        },
    });
    if let Some(map) = object.as_object_mut() {
        let mut put = |key: &str, value: &Option<String>| {
            if let Some(value) = value {
                map.insert(key.to_owned(), value.as_str().into());
            }
        };
        put("before", &step.before);
        put("after", &step.after);
        if let ChangeOutcome::Failed(why) = &step.outcome {
            put("why", &Some(why.clone()));
        }
    }
    object
}
