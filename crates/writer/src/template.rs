//! Structures of instruments in a folder: `<instrument_name>.json`, for starts that bring none.
//!
//! Refuses names that are no part of a path, files outside the folder (also by a link), what is no ordinary file, and texts
//! above the limit of input files; the refusal says what the folder has. Source: `docs/formats/nexus.md` section 7 (the
//! template in place of a structure), `docs/write.md`, "Templates".

use std::fs;
use std::path::{Path, PathBuf};

use fullcount_io::input_file::{self, LARGEST_INPUT};

use super::name::{is_instrument, one_line};
use super::refusal::OrderRefusal;

/// Names of a folder that are said.
const SHOWN: usize = 20;
/// Entries of a folder that are looked at for that.
const LOOKED_AT: usize = 10_000;
/// Bytes of a name that is said.
const NAME: usize = 128;

/// The template of `instrument`: its file, and its text of at most `limit` bytes.
pub(super) fn of(
    folder: Option<&Path>,
    instrument: &str,
    limit: usize,
) -> Result<(PathBuf, String), OrderRefusal> {
    let refused =
        |why: String| OrderRefusal::Template { instrument: one_line(instrument, NAME), why };
    let Some(folder) = folder else {
        return Err(refused(
            "has no template: this writer has no folder of them (--templates)".into(),
        ));
    };
    if !is_instrument(instrument) {
        let why = "is no name of a template: 1 to 128 bytes without / and control characters, and no '.' first";
        return Err(refused(why.into()));
    }
    let path = folder.join(format!("{instrument}.json"));
    let cannot = |e: &dyn std::fmt::Display| {
        refused(format!("has a template that cannot be read: {}: {e}", path.display()))
    };
    // Not a link into another folder, and not a pipe that would be waited for.
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let there = there(folder).unwrap_or_else(|e| format!("cannot be read: {e}"));
            return Err(refused(format!(
                "has no template: the folder {} {there}",
                folder.display()
            )));
        }
        Err(e) => return Err(cannot(&e)),
    };
    let root = folder.canonicalize().map_err(|e| cannot(&e))?;
    if !real.starts_with(root) {
        return Err(cannot(&"it is a link that leads out of the folder"));
    }
    if !fs::metadata(&real).map_err(|e| cannot(&e))?.is_file() {
        return Err(cannot(&"it is no file"));
    }
    let most = LARGEST_INPUT.min(limit as u64);
    let text = input_file::text(&real, most).map_err(|e| cannot(&e))?;
    Ok((path, text))
}

/// What is in the folder, in words.
fn there(folder: &Path) -> std::io::Result<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)?.take(LOOKED_AT) {
        let name = entry?.file_name();
        let stem = name.to_str().and_then(|name| name.strip_suffix(".json"));
        names.extend(stem.filter(|stem| is_instrument(stem)).map(|stem| one_line(stem, NAME)));
    }
    if names.is_empty() {
        return Ok("has none at all (files called NAME.json)".into());
    }
    names.sort_unstable();
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    names.truncate(SHOWN);
    Ok(format!("has {}{more}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_a_file_of_the_folder_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("templates");
        fs::create_dir_all(folder.join("folder.json")).unwrap();
        let said =
            |instrument: &str, limit| of(Some(&folder), instrument, limit).unwrap_err().to_string();
        fs::remove_dir(folder.join("folder.json")).unwrap();
        assert!(said("loki", 100).contains("has none at all"), "{}", said("loki", 100));
        fs::create_dir(folder.join("folder.json")).unwrap();
        fs::write(dir.path().join("secret.json"), "secret").unwrap();
        fs::write(folder.join("loki.json"), "{}").unwrap();
        fs::write(folder.join("bytes.json"), b"\xff").unwrap();
        fs::write(folder.join("notes.txt"), "").unwrap();
        std::os::unix::fs::symlink("loki.json", folder.join("inside.json")).unwrap();
        std::os::unix::fs::symlink("../secret.json", folder.join("outside.json")).unwrap();
        assert!(
            std::process::Command::new("mkfifo")
                .arg(folder.join("pipe.json"))
                .status()
                .unwrap()
                .success()
        );
        for name in ["loki", "inside"] {
            let (path, text) = of(Some(&folder), name, 100).unwrap();
            assert_eq!((path, &*text), (folder.join(format!("{name}.json")), "{}"));
        }
        for (name, limit, words) in [
            ("dream", 100, "has bytes, folder, inside, loki, outside, pipe"),
            ("outside", 100, "leads out of the folder"),
            ("folder", 100, "it is no file"),
            ("pipe", 100, "it is no file"),
            ("bytes", 100, "not UTF-8"),
            ("loki", 1, "at most 1"),
            ("../secret", 100, "is no name of a template"),
            ("", 100, "is no name of a template"),
            ("a\nb", 100, "\"a\\nb\" is no name"),
        ] {
            assert!(said(name, limit).contains(words), "{name}: {}", said(name, limit));
        }
        let none = of(None, "loki", 100).unwrap_err().to_string();
        assert!(
            none.contains("\"loki\" has no template") && none.contains("--templates"),
            "{none}"
        );
        for i in 0..30 {
            fs::write(folder.join(format!("{i:02}{}.json", "x".repeat(100))), "{}").unwrap();
        }
        let many = said("dream", 100);
        assert!(many.contains("and 16 more") && many.len() < 4096, "{many}");
    }
}
