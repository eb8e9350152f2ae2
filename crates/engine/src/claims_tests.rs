//! Two names of one file, in every spelling that a file system has.

use std::os::unix::fs::symlink;

use fullcount_core::output::Claim::{Folder, Series, Written, WrittenBeside};

use super::*;

const A: &str = "output.capture.file";
const B: &str = "output.nexus.path";

/// True if an output at `b` is refused beside one at `a`.
fn clash(a: &Path, b: &Path) -> bool {
    let mut claims = Claims::default();
    claims.take(Written(A, a.to_owned())).unwrap();
    match claims.take(Written(B, b.to_owned())) {
        Ok(()) => false,
        Err(e) => {
            let words = e.to_string();
            let parts = [format!("{B} = {}", b.display()), format!("{A} = {}", a.display())];
            assert!(parts.iter().all(|p| words.contains(p)), "{words}");
            true
        }
    }
}

#[test]
fn every_spelling_of_one_file_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("real/below")).unwrap();
    symlink(at("real"), at("link")).unwrap();
    fs::write(at("real/there"), b"x").unwrap();
    fs::hard_link(at("real/there"), at("hard")).unwrap();
    symlink("real/there", at("soft")).unwrap();
    symlink(at("soft"), at("softer")).unwrap();
    symlink("real/new", at("dangling")).unwrap();
    symlink("nowhere/new", at("lost")).unwrap();
    symlink("round", at("round")).unwrap();
    let same = [
        ("real/new", "real/new"),
        ("real/new", "real/./new"),
        ("real/new", "real/below/../new"),
        ("real/new", "link/new"),
        ("real/new", "link/below/../new"),
        ("real/new", "dangling"),
        ("link/new", "dangling"),
        ("nowhere/new", "lost"),
        ("nowhere/new", "nowhere/further/../new"),
        ("real/there", "hard"),
        ("real/there", "soft"),
        ("hard", "softer"),
        ("round", "round"),
    ];
    for (a, b) in same {
        assert!(clash(&at(a), &at(b)) && clash(&at(b), &at(a)), "{a} {b}");
    }
    for (a, b) in [("real/new", "new"), ("real/there", "real/new"), ("dangling", "lost")] {
        assert!(!clash(&at(a), &at(b)) && !clash(&at(b), &at(a)), "{a} {b}");
    }
    let here = std::env::current_dir().unwrap();
    assert!(clash(Path::new("./d.nxs"), Path::new("d.nxs")));
    assert!(clash(Path::new("d.nxs"), &here.join("d.nxs")));
}

#[test]
fn what_is_read_may_be_read_twice_and_never_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.pcapng");
    fs::write(&file, b"x").unwrap();
    let mut claims = Claims::default();
    claims.read("source.url", &file).unwrap();
    claims.read("detector.geometry", &file).unwrap();
    let e = claims.take(Written(A, dir.path().join("./a.pcapng"))).unwrap_err().to_string();
    assert!(e.contains("this is the same file as source.url = "), "{e}");
    // Nor by the name that an output has while it is made.
    let building = dir.path().join("b.nxs.building");
    claims.read("detector.calibration", &building).unwrap();
    let e = claims.take(WrittenBeside(B, dir.path().join("b.nxs"), ".building")).unwrap_err();
    assert!(e.to_string().contains("detector.calibration"), "{e}");
}

#[test]
fn the_folder_of_a_spool_is_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let spool = dir.path().join("spool");
    let (key, raw) = ("output.kafka.spool", "output.raw.spool");
    // Whether it is there or not, and whoever comes first.
    for made in [false, true] {
        if made {
            fs::create_dir(&spool).unwrap();
            symlink(&spool, dir.path().join("link")).unwrap();
        }
        let mut claims = Claims::default();
        claims.take(Folder(key, spool.clone())).unwrap();
        assert!(claims.take(Folder(raw, dir.path().join("x/../spool"))).is_err());
        assert!(claims.take(Written(A, spool.join("a.pcapng"))).is_err());
        assert!(claims.take(Written(A, spool.clone())).is_err());
        assert!(claims.take(Series(A, spool.join("a.pcapng"))).is_err());
        assert_eq!(claims.take(Written(B, dir.path().join("link/a.nxs"))).is_err(), made);
        claims.take(Written(A, dir.path().join("spool.pcapng"))).unwrap();
        let mut claims = Claims::default();
        claims.take(Written(A, spool.join("lock"))).unwrap();
        let e = claims.take(Folder(key, spool.clone())).unwrap_err().to_string();
        assert!(e.contains("around the file of output.capture.file"), "{e}");
    }
}

#[test]
fn a_series_takes_no_name_of_another() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    symlink("run-00007.pcapng", at("alias")).unwrap();
    for (name, refused) in [
        ("run-00001.pcapng", true),
        ("run-123456.pcapng", true),
        ("./run-00001.pcapng", true),
        ("alias", true),
        ("run-1.pcapng", false),
        ("run-00001.nxs", false),
        ("other-00001.pcapng", false),
        // No file of the series is called so.
        ("run.pcapng", false),
        ("below/run-00001.pcapng", false),
    ] {
        let mut claims = Claims::default();
        claims.read("source.url", &at(name)).unwrap();
        assert_eq!(claims.take(Series(A, at("run.pcapng"))).is_err(), refused, "{name}");
        let mut claims = Claims::default();
        claims.take(Series(A, at("run.pcapng"))).unwrap();
        assert_eq!(claims.take(Written(B, at(name))).is_err(), refused, "{name}");
    }
}
