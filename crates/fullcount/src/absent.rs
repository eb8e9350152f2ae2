//! What this build was made without: verbs, flags and sections that it refuses by name, with the feature that brings them.
//!
//! The features of this crate remove kinds that need a C library or a runtime. Source: `docs/architecture.md`, "The house".

use clap::error::{ContextKind, ContextValue, ErrorKind};
use fullcount_core::output::Outputs;

/// What a feature brings.
struct Part {
    feature: &'static str,
    built: bool,
    verbs: &'static [&'static str],
    flags: &'static [&'static str],
    sections: &'static [&'static str],
}

const PARTS: [Part; 4] = [
    Part {
        feature: "kafka",
        built: cfg!(feature = "kafka"),
        verbs: &["kafka"],
        flags: &[
            "kafka",
            "message-id",
            "replay",
            "spool",
            "kafka-set",
            "structure",
            "file",
            "control",
            "job",
            "start",
            "events",
            "monitor",
            "print-structure",
        ],
        sections: &["output.kafka", "output.merged", "output.raw"],
    },
    Part {
        feature: "nexus",
        built: cfg!(feature = "nexus"),
        verbs: &["recover"],
        flags: &[
            "nexus",
            "title",
            "run-number",
            "proposal",
            "user",
            "sample",
            "compression",
            "hits",
            "clusters",
        ],
        sections: &["output.nexus", "output.hits", "output.clusters"],
    },
    Part {
        feature: "web",
        built: cfg!(feature = "web"),
        verbs: &[],
        flags: &["web"],
        sections: &["web"],
    },
    Part {
        feature: "write",
        built: cfg!(feature = "write"),
        verbs: &["write"],
        flags: &[],
        sections: &[],
    },
];

/// What is said of `word`.
pub fn sentence(word: &str, feature: &str) -> String {
    format!("{word}: not in this build, which was made without the feature `{feature}`")
}

/// What is said instead of an error of the parser; `None`: no build has the word.
pub fn of(error: &clap::Error) -> Option<String> {
    let (context, is_flag) = match error.kind() {
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, true),
        ErrorKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, false),
        _ => return None,
    };
    let Some(ContextValue::String(word)) = error.get(context) else { return None };
    let left_out = |part: &&Part| {
        !part.built
            && match is_flag {
                true => part.flags.iter().any(|flag| word.strip_prefix("--") == Some(flag)),
                false => part.verbs.contains(&word.as_str()),
            }
    };
    PARTS.iter().find(left_out).map(|part| sentence(word, part.feature))
}

/// Notes the sections that this build has no outputs for.
pub fn leave_out(kinds: &mut Outputs) {
    for part in PARTS.iter().filter(|part| !part.built) {
        part.sections.iter().for_each(|section| kinds.leave_out(section, part.feature));
    }
}

#[cfg(all(test, feature = "write", feature = "web"))]
mod tests {
    use std::collections::BTreeSet;

    use clap::{Command, CommandFactory};
    use fullcount_engine::registered;

    use super::*;

    fn words(of: &Command, verbs: &mut BTreeSet<String>, flags: &mut BTreeSet<String>) {
        flags.extend(of.get_arguments().filter_map(|a| a.get_long().map(str::to_owned)));
        for verb in of.get_subcommands() {
            verbs.insert(verb.get_name().to_owned());
            words(verb, verbs, flags);
        }
    }

    #[test]
    fn what_is_left_out_is_what_a_whole_build_has() {
        crate::kinds::for_tests();
        let (mut verbs, mut flags) = (BTreeSet::new(), BTreeSet::new());
        words(&crate::Cli::command(), &mut verbs, &mut flags);
        for part in &PARTS {
            assert!(part.built, "{}", part.feature);
            part.verbs.iter().for_each(|verb| assert!(verbs.contains(*verb), "{verb}"));
            part.flags.iter().for_each(|flag| assert!(flags.contains(*flag), "{flag}"));
            for section in part.sections {
                let kind = registered::outputs().of_section(section).expect(section);
                for flag in kind.keys().iter().filter_map(|key| key.flag) {
                    // Outputs that are always there may have it as well.
                    let known = part.flags.contains(&flag.name) || flag.name == "overwrite";
                    assert!(known, "{section}: --{}", flag.name);
                }
            }
        }
    }
}
