//! Where a file may be: below the writer's folder, and nowhere else.
//!
//! An absolute path is taken below the folder, as the existing writer does: its folder is a prefix of every name. Refuses
//! `..`, links that lead out of the folder, folders that are not there, names of the writer's own files. Also what a job, a
//! topic and an instrument may be called. Source: `docs/formats/flatbuffers.md` section 5 ("relative to the writer's output
//! folder").

use std::path::{Component, Path, PathBuf};

use fullcount_core::text::is_control;

/// Folder of the writer's own files, below that of the data.
pub(super) const OWN_FOLDER: &str = ".fullcount-write";

/// Bytes of a file's own name: the longest that a disk takes (255) without those of files under way.
const LONGEST: usize = 200;

/// `text` as one line of at most `most` bytes: control characters are escaped, what is longer ends with `…`.
pub(super) fn one_line(text: &str, most: usize) -> String {
    let mut line = String::with_capacity(text.len().min(most) + 4);
    for c in text.chars() {
        if line.len() >= most {
            line.truncate(line.floor_char_boundary(most));
            line.push('…');
            break;
        }
        if is_control(c) {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

/// The path of the file called `name` below `folder`.
///
/// # Errors
/// Why there may be none, in words.
pub(super) fn inside(folder: &Path, name: &str) -> Result<PathBuf, String> {
    if name.is_empty() || name.contains('\0') || name.ends_with('/') || name.len() > 1024 {
        return Err("a file name is 1 to 1024 bytes without NUL and does not end with /".into());
    }
    if name.contains(is_control) {
        return Err("a file name has no control characters, such as a new line".into());
    }
    if Path::new(name).components().any(|part| part == Component::ParentDir) {
        return Err("\"..\" leads out of the writer's folder".into());
    }
    let relative = without_root(name);
    match relative.components().next() {
        None => return Err("no file name".into()),
        Some(first) if first.as_os_str() == OWN_FOLDER => {
            return Err(format!("the folder {OWN_FOLDER} is the writer's own"));
        }
        Some(_) => {}
    }
    let path = folder.join(&relative);
    let parent = path.parent().unwrap_or(folder);
    let shown = relative.parent().unwrap_or(Path::new("")).display().to_string();
    let real = parent.canonicalize().map_err(|e| {
        format!("the folder \"{shown}\" below the writer's cannot be used ({e}); make it first")
    })?;
    let root = folder.canonicalize().map_err(|e| format!("the writer's folder: {e}"))?;
    if !real.starts_with(&root) {
        return Err(format!("the folder \"{shown}\" leads out of the writer's folder"));
    }
    if real.starts_with(root.join(OWN_FOLDER)) {
        return Err(format!(
            "the folder \"{shown}\" leads into {OWN_FOLDER}, which is the writer's own"
        ));
    }
    let file = path.file_name().ok_or("no file name")?;
    // What is found under such a name is removed when the file is made that it would belong to.
    let name = file.to_string_lossy();
    if name.len() > LONGEST {
        return Err(format!("its last part has {} bytes, above {LONGEST}", name.len()));
    }
    if name.ends_with(".building") || name.contains(".reserve-") {
        return Err(
            "names with .building at the end or .reserve- are those of files under way".into()
        );
    }
    Ok(real.join(file))
}

/// `name` as a path that [`inside`] would look for below a folder: never absolute, never above it.
pub(super) fn without_root(name: &str) -> PathBuf {
    let parts = Path::new(name).components();
    parts.filter(|part| matches!(part, Component::Normal(_))).collect()
}

/// True for an instrument's name that may be that of a file: one part of a path, and not a hidden one.
pub(super) fn is_instrument(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && !text.starts_with('.')
        && !text.contains(|c: char| is_control(c) || matches!(c, '/' | '\\'))
}

/// True for text that may identify a job: it names files and stands in messages.
pub(super) fn is_job_id(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && !text.starts_with('.')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// True for what Kafka takes as the name of a topic.
pub(super) fn is_topic(text: &str) -> bool {
    (1..=249).contains(&text.len())
        && !matches!(text, "." | "..")
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_below_the_folder_are_taken() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        std::fs::create_dir_all(data.join("p1")).unwrap();
        std::os::unix::fs::symlink(dir.path(), data.join("out")).unwrap();
        std::os::unix::fs::symlink(data.join("p1"), data.join("in")).unwrap();
        std::fs::create_dir_all(data.join(".fullcount-write/w")).unwrap();
        std::os::unix::fs::symlink(data.join(".fullcount-write"), data.join("own")).unwrap();
        let real = data.canonicalize().unwrap();
        assert_eq!(inside(&data, "a.nxs"), Ok(real.join("a.nxs")));
        assert_eq!(inside(&data, "p1/a.nxs"), Ok(real.join("p1/a.nxs")));
        assert_eq!(inside(&data, "./p1/./a.nxs"), Ok(real.join("p1/a.nxs")));
        assert_eq!(inside(&data, "in/a.nxs"), Ok(real.join("p1/a.nxs")));
        // An absolute name is one below the folder.
        assert_eq!(inside(&data, "/a.nxs"), Ok(real.join("a.nxs")));
        assert_eq!(inside(&data, "//p1/./a.nxs"), Ok(real.join("p1/a.nxs")));
        assert_eq!(without_root("/p1/../../etc/./x"), Path::new("p1/etc/x"));
        for (bad, why) in [
            ("", "a file name is"),
            ("/etc/passwd", "the folder \"etc\" below the writer's cannot be used"),
            ("/../a.nxs", "leads out"),
            ("/p1/../../a.nxs", "leads out"),
            ("/out/a.nxs", "leads out"),
            ("//own/w/a.nxs", "own"),
            ("/.fullcount-write/x", "own"),
            ("/", "does not end"),
            ("../a.nxs", "leads out"),
            ("p1/../../a.nxs", "leads out"),
            ("out/a.nxs", "leads out"),
            ("p1/", "does not end"),
            ("a\0b", "without NUL"),
            (".", "no file name"),
            ("missing/a.nxs", "make it first"),
            (".fullcount-write/x/y", "own"),
            ("own/w/a.job", "own"),
            ("a\nb.nxs", "control characters"),
            ("p1/a\u{1b}[2J.nxs", "control characters"),
            ("a\u{2028}b.nxs", "control characters"),
            (&"x".repeat(201), "above 200"),
            ("a.nxs.building", "under way"),
            ("a.nxs.reserve-12", "under way"),
        ] {
            let e = inside(&data, bad).unwrap_err();
            assert!(e.contains(why), "{bad}: {e}");
        }
    }

    #[test]
    fn whatever_was_sent_becomes_one_short_line() {
        assert_eq!(one_line("run 42 ä", 20), "run 42 ä");
        assert_eq!(one_line("a\nb\r\t\u{1b}[1m", 40), "a\\nb\\r\\t\\u{1b}[1m");
        assert_eq!(one_line("x\u{2028}y\u{202e}z", 40), "x\\u{2028}y\\u{202e}z");
        assert_eq!(one_line(&"ä".repeat(50), 9), "ääää…");
        assert_eq!(one_line(&"\n".repeat(50), 4), "\\n\\n…");
        assert_eq!(one_line("abcd", 4), "abcd");
    }

    #[test]
    fn instruments_are_one_part_of_a_path() {
        assert!(is_instrument("loki") && is_instrument("T-REX 2") && is_instrument("ä"));
        let long = "x".repeat(129);
        for bad in ["", ".", "..", ".loki", "a/b", "/a", "a\\b", "a\nb", "a\0", "\u{202e}x", &long]
        {
            assert!(!is_instrument(bad), "{bad:?}");
        }
    }

    #[test]
    fn job_ids_and_topics_are_plain() {
        assert!(is_job_id("3f2c5f6e-5a3a-4b1e-9d8e-000000000001") && is_job_id("run_42"));
        for bad in ["", ".hidden", "a/b", "a b", "ä", "..", &"x".repeat(129)] {
            assert!(!is_job_id(bad), "{bad}");
        }
        assert!(is_topic("loki_detector") && !is_topic("..") && !is_topic("a b") && !is_topic(""));
    }
}
