//! `LOG_LEVEL` and `TRACE_MASK`: what is told, changed while a run goes on.
//!
//! Source: `docs/operations.md`, `control-and-monitoring.md` section 5.

use fullcount_core::command::{Answer, Command, NotDone};
use fullcount_core::trace;
use fullcount_log::LogFilter;

/// Both.
pub fn commands() -> Vec<Command> {
    let level = |arguments: &[&str]| match arguments {
        [] => Ok(Answer::Values(fullcount_log::filter().to_string())),
        [text, ..] => {
            let filter = LogFilter::read(text).ok_or(NotDone::Arguments)?;
            fullcount_log::notice!("the log's level is {filter} from now on");
            fullcount_log::set_filter(filter);
            Ok(Answer::Done)
        }
    };
    let about =
        "what is told: a level, ORIGIN=LEVEL, or several with commas; without LEVEL what it is now";
    let mask = "which traces are shown: groups as INPUT,CMD or a number, ALL or OFF; up to a level from 1 to 7; without MASK what it is now";
    vec![
        Command::change("LOG_LEVEL", ("[LEVEL]", about), 0..=1, level).telling_bare(),
        Command::change("TRACE_MASK", ("[MASK [LEVEL]]", mask), 0..=2, traced).telling_bare(),
    ]
}

fn traced(arguments: &[&str]) -> Result<Answer, NotDone> {
    let mask =
        arguments.first().map(|text| trace::mask(text).ok_or(NotDone::Arguments)).transpose()?;
    let level = |text: &&str| text.parse().ok().filter(|n| (1..=7u32).contains(n));
    let level = arguments.get(1).map(|text| level(text).ok_or(NotDone::Arguments)).transpose()?;
    set(mask, level)
}

#[cfg(feature = "trace")]
fn set(mask: Option<u32>, level: Option<u32>) -> Result<Answer, NotDone> {
    let (now, up_to) = trace::shown();
    let Some(mask) = mask else { return Ok(Answer::Values(format!("0x{now:04x} {up_to}"))) };
    trace::set(mask, level.unwrap_or(up_to));
    Ok(Answer::Done)
}

/// Said in a reply, not by an error: the command is right, and this program cannot do it.
#[cfg(not(feature = "trace"))]
fn set(_: Option<u32>, _: Option<u32>) -> Result<Answer, NotDone> {
    Ok(Answer::Values("trace is not built in".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_core::command::{Commands, Rights};

    #[test]
    fn levels_and_masks_are_checked_and_a_usual_build_says_that_it_has_no_traces() {
        let mut all = Commands::default();
        commands().into_iter().for_each(|command| all.register(command));
        let give = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            all.give(all.find(words[0]).unwrap(), &words[1..])
        };
        assert!(matches!(give("LOG_LEVEL"), Ok(Answer::Values(_))));
        for name in ["LOG_LEVEL", "TRACE_MASK"] {
            let command = all.find(name).unwrap();
            assert_eq!(
                (command.rights_with(0), command.rights_with(1)),
                (Rights::Read, Rights::Change)
            );
        }
        for bad in
            ["LOG_LEVEL loud", "LOG_LEVEL info error", "TRACE_MASK 0x2000", "TRACE_MASK ALL 8"]
        {
            assert_eq!(give(bad), Err(NotDone::Arguments), "{bad}");
        }
        let is = give("TRACE_MASK INPUT,CMD 7").unwrap();
        match trace::BUILT_IN {
            true => assert_eq!((is, trace::mask("0x41")), (Answer::Done, Some(0x41))),
            false => assert_eq!(is, Answer::Values("trace is not built in".into())),
        }
    }
}
