//! Fenced blocks of a page, and the command lines of those in the language of a shell.
//!
//! Every fence says what it holds: `sh` and `python` are run unchanged; `text`, `toml` and `json` are not. A block that
//! cannot run in a test has the reason in its fence: ```` ```sh sketch: needs a broker ````. ```` ```toml file=run.toml
//! ```` is saved under that name, as a reader would.

use std::fs;
use std::path::{Path, PathBuf};

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Line of the fence, from 1.
    pub line: usize,
    pub language: String,
    /// What follows the language in the fence.
    pub info: String,
    pub text: String,
}

impl Block {
    /// Why the block is not run; `None` if it is.
    pub fn sketch(&self) -> Option<&str> {
        self.info.strip_prefix("sketch:").map(str::trim)
    }

    /// Name under which it is saved.
    pub fn file(&self) -> Option<&str> {
        self.info.strip_prefix("file=")
    }
}

/// Blocks in order.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut all: Vec<Block> = Vec::new();
    let mut open = false;
    for (at, line) in text.lines().enumerate() {
        match line.trim_start().strip_prefix("```") {
            Some(_) if open => open = false,
            Some(fence) => {
                let (language, info) = fence.split_once(' ').unwrap_or((fence, ""));
                let (language, info) = (language.to_owned(), info.trim().to_owned());
                all.push(Block { line: at + 1, language, info, text: String::new() });
                open = true;
            }
            None if open => {
                let block = all.last_mut().expect("an open block");
                block.text += line;
                block.text.push('\n');
            }
            None => {}
        }
    }
    assert!(!open, "a fence is not closed");
    all
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("two folders up")
}

/// Pages with commands for people, by their path in the repository.
pub fn pages() -> Vec<String> {
    let mut all: Vec<String> =
        ["README.md", "CONTRIBUTING.md", "deploy/README.md", "vectors/hosts/README.md"]
            .map(str::to_owned)
            .into();
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("readable") {
            let path = entry.expect("readable").path();
            // Formats are described, not called.
            if path.is_dir() && path.ends_with("docs/formats") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                let inside = path.strip_prefix(root()).expect("below the root");
                all.push(inside.display().to_string());
            }
        }
    }
    all.sort();
    all
}

pub fn of(page: &str) -> Vec<Block> {
    blocks(&fs::read_to_string(root().join(page)).unwrap_or_else(|e| panic!("{page}: {e}")))
}

/// Command lines: continued ones joined, comments and empty lines left out.
pub fn commands(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// Words of a command line with signs that a shell does not leave alone: zsh takes `?`, `[` and `*` for names of files
/// and refuses a word that fits none, and every shell ends the command at `&`.
pub fn unquoted(command: &str) -> Vec<String> {
    let (mut word, mut bad, mut found) = (String::new(), false, Vec::new());
    let mut quote = None;
    for c in command.chars().chain([' ']) {
        match (quote, c) {
            (Some(q), _) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '#') if word.is_empty() => break,
            (None, ' ') => {
                if bad && !word.chars().all(|c| c == '&') {
                    found.push(word.clone());
                }
                (word, bad) = (String::new(), false);
                continue;
            }
            (None, '?' | '[' | '&') => bad = true,
            // A name with a star is meant as a pattern; an address or a value is not.
            (None, '*') => bad |= word.contains([':', '=']),
            (None, _) => {}
        }
        word.push(c);
    }
    found
}
