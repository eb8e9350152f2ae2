//! Every shell and Python block of README and docs/ runs unchanged in a new clone, page by page, in order.
//!
//! `documented/blocks.rs` says how a fence is marked; `documented/room.rs` where blocks run: in a folder with the files
//! of a clone, and in a network namespace, so that no port is shared with another test. A block that cannot run has the
//! reason. Blocks that need root are run as root only; the checks of fences and quotes need nothing.
#![cfg(target_os = "linux")]

#[path = "documented/blocks.rs"]
mod blocks;
#[path = "documented/room.rs"]
mod room;

use crate::python;
use std::sync::Mutex;

use blocks::{Block, commands, of, pages, unquoted};
use fullcount_lab::namespace;
use room::Room;

/// Command lines and Python blocks that run, at least. This was their number when this was written; fewer means that
/// the search is broken, or that blocks became sketches.
const SHELL_LINES: usize = 45;
const PYTHON_BLOCKS: usize = 6;

#[test]
fn every_fence_says_what_it_holds_and_every_sketch_why() {
    let mut wrong = Vec::new();
    for page in pages() {
        for block in of(&page) {
            let known = ["sh", "python", "text", "toml", "json"].contains(&block.language.as_str());
            let info = match block.language.as_str() {
                "sh" | "python" => {
                    block.info.is_empty() || block.sketch().is_some_and(|why| why.len() > 8)
                }
                "toml" | "json" => block.info.is_empty() || block.file().is_some(),
                _ => block.info.is_empty(),
            };
            if !known || !info {
                wrong.push(format!("{page}:{}: ```{} {}", block.line, block.language, block.info));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "a fence is sh, python, text, toml or json, or `sh sketch: why`:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn no_command_line_has_signs_that_a_shell_takes_for_its_own() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for page in pages() {
        for block in of(&page).iter().filter(|b| b.language == "sh") {
            for command in commands(&block.text) {
                seen += 1;
                wrong.extend(
                    unquoted(&command).iter().map(|w| format!("{page}:{}: {w}", block.line)),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "quote these words, zsh refuses them:\n{}", wrong.join("\n"));
    assert!(seen > SHELL_LINES, "only {seen} command lines found");
}

#[test]
fn fences_commands_and_quotes_are_found() {
    let text = "a\n```sh\nls # b\nfullcount run \\\n  x\n```\n```sh sketch: needs a broker\n# c\n\nd\n```\n```toml file=r.toml\ne = 1\n```\n";
    let all = blocks::blocks(text);
    assert_eq!(commands(&all[0].text), ["ls # b", "fullcount run    x"]);
    assert_eq!(
        (all[1].sketch(), commands(&all[1].text)),
        (Some("needs a broker"), vec!["d".to_owned()])
    );
    assert_eq!((all[2].file(), all[2].line, all[2].text.as_str()), (Some("r.toml"), 12, "e = 1\n"));
    assert_eq!(unquoted("run --source pcap:a?x&y --set a=[1] b*.nxs"), ["pcap:a?x&y", "a=[1]"]);
    assert!(unquoted("run 'pcap:a?x&y' \"k=[1]\" *.nxs && b & # c?").is_empty());
}

#[derive(Default)]
struct Tally {
    shell: usize,
    python: usize,
    failed: Vec<String>,
}

/// Runs a page; what could not be run for lack of Python is not counted.
fn run(page: &str, python: Option<&std::path::Path>, tally: &Mutex<Tally>) {
    let all = of(page);
    let runs = |b: &&Block| matches!(b.language.as_str(), "sh" | "python") && b.sketch().is_none();
    if !all.iter().any(|b| runs(&b)) {
        return;
    }
    let mut room = Room::new();
    let saved = all.iter().filter_map(|b| Some((b.file()?, &b.text)));
    saved.for_each(|(name, text)| room.save(name, text));
    for block in all.iter().filter(runs) {
        let begun = std::time::Instant::now();
        let (done, shell, code) = match (block.language.as_str(), python) {
            ("sh", _) => {
                let lines = commands(&block.text);
                (room.shell(&lines), lines.len(), 0)
            }
            (_, Some(python)) => (room.python(python, &block.text), 0, 1),
            (_, None) => continue,
        };
        println!("{page}:{}: {:.1} s", block.line, begun.elapsed().as_secs_f64());
        let mut tally = tally.lock().expect("no panic");
        tally.shell += shell;
        tally.python += code;
        tally.failed.extend(done.err().map(|why| format!("{page}:{}: {why}", block.line)));
    }
}

#[test]
fn every_block_that_is_no_sketch_runs_as_it_stands() {
    if let Some(reason) = namespace::lacking() {
        assert!(std::env::var_os("CI").is_none(), "CI must have it: {reason}");
        println!("skipped: {reason}");
        return;
    }
    let python = python::interpreter();
    let (tally, todo) = (Mutex::new(Tally::default()), Mutex::new(pages()));
    let next = || todo.lock().expect("no panic").pop();
    // In the order of their names, so that the longest (capacity, scale) do not run alone at the end.
    todo.lock().expect("no panic").reverse();
    let work = || {
        while let Some(page) = next() {
            run(&page, python.as_deref(), &tally);
        }
    };
    // Most of the time is spent waiting.
    std::thread::scope(|all| (0..5).for_each(|_| drop(all.spawn(work))));
    let tally = tally.into_inner().expect("no panic");
    assert!(tally.failed.is_empty(), "{}", tally.failed.join("\n\n"));
    assert!(tally.shell >= SHELL_LINES, "only {} command lines were run", tally.shell);
    assert!(
        python.is_none() || tally.python >= PYTHON_BLOCKS,
        "only {} blocks of Python",
        tally.python
    );
}
