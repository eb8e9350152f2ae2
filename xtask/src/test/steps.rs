//! The steps of `cargo xtask test`: what each is called, does and needs, and when it runs.
//!
//! Source: docs/testing.md, "What each step is for".

use super::{Host, arrows, bare, house, nightly, part, portable, rust, trace};
use crate::setup::{self, Need};
use crate::tally::Tally;

/// When a step runs without being named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// With `--quick` as well.
    Quick,
    /// Without `--quick`.
    Usual,
    /// With `--deep` only.
    Deep,
    /// Never: its tests are part of `test`.
    Named,
}

/// One step: what it is called, what it does, what the host must have for it.
pub struct Step {
    pub name: &'static str,
    pub about: &'static str,
    pub when: When,
    /// Without these the step cannot run.
    pub needs: &'static [Need],
    /// Without these some of its tests skip themselves.
    pub wants: &'static [Need],
    /// Folders of the target directory that no later step uses.
    pub leaves: &'static [&'static str],
    pub run: fn(&Host) -> Tally,
}

/// Steps that a whole run makes beside the tests: compilers fill what these leave of the processors. With names, and with `--quick`, each
/// has its turn.
pub const BESIDE_TESTS: [&str; 1] = ["trace"];
/// The same beside all other deep steps: it needs one processor for minutes.
pub const BESIDE_DEEP: [&str; 1] = ["miri"];

/// In the order of running: what fails fastest and most often comes first, but for those beside others, which are told last.
pub static STEPS: [Step; 19] = [
    step("fmt", "formatting", When::Quick, &[], rust::format),
    step(
        "arrows",
        "which crate uses which: the table of docs/architecture.md",
        When::Quick,
        &[],
        arrows::check,
    ),
    step(
        "house",
        "files of 600 lines at most (the binary's 300), each name of a public type once",
        When::Quick,
        &[],
        house::check,
    ),
    Step {
        wants: &[
            setup::PYTHON,
            setup::BROWSER,
            setup::NPM,
            setup::NAMESPACES,
            setup::IPERF3,
            setup::CARBON,
            setup::GRAPHITE_WEB,
            setup::PROMETHEUS,
            setup::RSYSLOG,
            setup::TMUX,
            setup::TSHARK,
            setup::VERILOG,
            setup::JAVA,
            setup::MAVEN,
        ],
        ..step("test", "all Rust tests", When::Quick, NATIVE, rust::test)
    },
    step(
        "clippy",
        "clippy over all targets, while `test` builds them; a warning is an error",
        When::Quick,
        NATIVE,
        rust::clippy,
    ),
    Step {
        leaves: &[trace::FOLDER],
        ..step(
            "trace",
            "traces that are not built in cost nothing: the instructions compared; tests with traces built in",
            When::Usual,
            &[],
            trace::check,
        )
    },
    step("deny", "licences, bans and sources of the dependencies", When::Usual, &[], rust::deny),
    step(
        "python",
        "part of `test`: our files in h5py, scippnexus and pandas",
        When::Named,
        &[setup::C_COMPILER, setup::CPP_COMPILER, setup::CMAKE, setup::MAKE, setup::PYTHON],
        part::python,
    ),
    step(
        "browser",
        "part of `test`: the live page in Chromium",
        When::Named,
        &[
            setup::C_COMPILER,
            setup::CPP_COMPILER,
            setup::CMAKE,
            setup::MAKE,
            setup::BROWSER,
            setup::NPM,
        ],
        part::browser,
    ),
    step(
        "counters",
        "part of `test`: docs/counters.md equals the catalogue of the binary",
        When::Named,
        NATIVE,
        part::counters,
    ),
    step(
        "kafka",
        "part of `test`: the service against a real Kafka",
        When::Named,
        &[
            setup::C_COMPILER,
            setup::CPP_COMPILER,
            setup::CMAKE,
            setup::MAKE,
            setup::PYTHON,
            setup::JAVA,
            setup::MAVEN,
        ],
        part::kafka,
    ),
    step(
        "kafka-tls",
        "a real Kafka behind TLS; not in `test`, for it compiles OpenSSL and librdkafka anew",
        When::Named,
        &[
            setup::C_COMPILER,
            setup::CPP_COMPILER,
            setup::CMAKE,
            setup::MAKE,
            setup::PERL,
            setup::JAVA,
            setup::MAVEN,
        ],
        part::kafka_tls,
    ),
    Step {
        leaves: &["wasm"],
        ..step(
            "wasm",
            "core for wasm32: builds, and imports nothing",
            When::Deep,
            &[],
            portable::wasm,
        )
    },
    Step {
        leaves: &portable::ELSEWHERE,
        ..step(
            "portable",
            "core, io, detect, out without C for aarch64 Linux and macOS, stcp for no system",
            When::Deep,
            &[],
            portable::check,
        )
    },
    Step {
        leaves: &[bare::FOLDER],
        ..step(
            "bare",
            "the program without C libraries and without a runtime: builds, runs, refuses by name",
            When::Deep,
            &[],
            bare::check,
        )
    },
    Step {
        leaves: &["asan"],
        ..step(
            "asan",
            "io, with its system calls, under AddressSanitizer",
            When::Deep,
            &[setup::C_COMPILER],
            nightly::asan,
        )
    },
    Step {
        leaves: &["fuzz"],
        ..step(
            "fuzz",
            "fuzz targets: seeds replayed, then a short run",
            When::Deep,
            &[setup::C_COMPILER, setup::CPP_COMPILER],
            nightly::fuzz,
        )
    },
    Step {
        wants: &[setup::NAMESPACES],
        ..step(
            "faults",
            "the scenarios of faults again: twice, with more rounds",
            When::Deep,
            FAULTS,
            part::faults,
        )
    },
    Step { leaves: &["miri"], ..step("miri", "core under Miri", When::Deep, &[], nightly::miri) },
];

const fn step(
    name: &'static str,
    about: &'static str,
    when: When,
    needs: &'static [Need],
    run: fn(&Host) -> Tally,
) -> Step {
    Step { name, about, when, needs, wants: &[], leaves: &[], run }
}

/// HDF5 and librdkafka are in the default features of the binary and compile from source.
const NATIVE: &[Need] = &[setup::C_COMPILER, setup::CPP_COMPILER, setup::CMAKE, setup::MAKE];
const FAULTS: &[Need] =
    &[setup::C_COMPILER, setup::CPP_COMPILER, setup::CMAKE, setup::MAKE, setup::JAVA, setup::MAVEN];
