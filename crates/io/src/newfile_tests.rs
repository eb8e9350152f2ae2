//! Links and files planted at every name: none is followed, none is changed.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;

use super::*;

fn names(folder: &Path) -> Vec<String> {
    let all = fs::read_dir(folder).unwrap();
    let mut all: Vec<_> = all.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    all.sort();
    all
}

#[test]
fn a_file_is_replaced_in_one_step_and_nothing_is_left_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    replace_with(&path, b"one").unwrap();
    replace_for_good(&path, b"another").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"another");
    let failed = replace(&path, |file| {
        file.write_all(b"half")?;
        Err(ErrorKind::StorageFull.into())
    });
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(fs::read(&path).unwrap(), b"another");
    assert_eq!(names(dir.path()), ["state"]);
}

#[test]
fn links_at_the_name_itself_are_replaced_and_never_followed() {
    let dir = tempfile::tempdir().unwrap();
    let victim = dir.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let (soft, hard) = (dir.path().join("soft"), dir.path().join("hard"));
    symlink(&victim, &soft).unwrap();
    fs::hard_link(&victim, &hard).unwrap();
    for path in [&soft, &hard] {
        replace_with(path, b"ours").unwrap();
        assert_eq!(fs::read(path).unwrap(), b"ours");
        assert!(fs::symlink_metadata(path).unwrap().is_file());
    }
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
}

/// As if it had been written an hour ago.
fn age(path: &Path) {
    let then = std::time::SystemTime::now() - Duration::from_secs(3600);
    File::options().append(true).open(path).unwrap().set_modified(then).unwrap();
}

#[test]
fn what_a_killed_process_left_is_removed_and_what_another_builds_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    // Left by a kill; being built by another process; a planted link; foreign names.
    fs::write(at(".fullcount-0000000000000001.new"), "half").unwrap();
    fs::write(at(".fullcount-0000000000000002.new"), "building").unwrap();
    age(&at(".fullcount-0000000000000001.new"));
    age(&at(".fullcount-0000000000000002.new"));
    // Made just now and not yet locked.
    fs::write(at(".fullcount-0000000000000004.new"), "").unwrap();
    let building = File::open(at(".fullcount-0000000000000002.new")).unwrap();
    building.lock().unwrap();
    fs::write(at("victim"), "precious").unwrap();
    symlink(at("victim"), at(".fullcount-0000000000000003.new")).unwrap();
    fs::write(at(".fullcount-notes.new"), "a person's").unwrap();
    replace_with(&at("state"), b"ours").unwrap();
    assert_eq!(
        names(dir.path()),
        [
            ".fullcount-0000000000000002.new",
            ".fullcount-0000000000000003.new",
            ".fullcount-0000000000000004.new",
            ".fullcount-notes.new",
            "state",
            "victim"
        ]
    );
    assert_eq!(fs::read(at("victim")).unwrap(), b"precious");
    drop(building);
    replace_with(&at("state"), b"ours").unwrap();
    assert!(!at(".fullcount-0000000000000002.new").exists());
}

#[test]
fn many_that_build_at_once_do_not_take_each_others_files() {
    let dir = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for worker in 0..4u8 {
            let path = dir.path().join(format!("state-{worker}"));
            scope.spawn(move || {
                for _ in 0..100 {
                    replace_with(&path, &[worker; 10]).unwrap();
                    assert_eq!(fs::read(&path).unwrap(), [worker; 10]);
                }
            });
        }
    });
    assert_eq!(names(dir.path()).len(), 4);
}

#[test]
fn a_file_of_ones_own_is_opened_again_and_a_link_or_pipe_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    open_own(&at("log")).unwrap().write_all(b"one ").unwrap();
    open_own(&at("log")).unwrap().write_all(b"two").unwrap();
    assert_eq!(read_own(&at("log"), 7).unwrap(), b"one two");
    assert_eq!(read_own(&at("log"), 6).unwrap_err().kind(), ErrorKind::InvalidData);
    fs::write(at("victim"), "precious").unwrap();
    symlink(at("victim"), at("link")).unwrap();
    symlink(at("nothing"), at("dangling")).unwrap();
    std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    for name in ["link", "dangling", "socket", "."] {
        assert!(open_own(&at(name)).is_err(), "{name}");
        assert!(open_left(&at(name)).is_err(), "{name}");
        assert_eq!(create(&at(name)).unwrap_err().kind(), ErrorKind::AlreadyExists, "{name}");
    }
    let words = open_left(&at("link")).unwrap_err().to_string();
    assert!(words.contains("not followed"), "{words}");
    assert!(!at("nothing").exists());
    assert_eq!(fs::read(at("victim")).unwrap(), b"precious");
}

#[test]
fn a_pipe_without_a_writer_holds_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    assert!(open_left(&path).is_err() && read_own(&path, 10).is_err());
}

#[test]
fn room_without_a_name_and_a_folder_of_ones_own_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut room = unnamed(dir.path()).unwrap();
    room.write_all(&[1; 1000]).unwrap();
    assert!(names(dir.path()).is_empty());
    let scratch = Scratch::make(dir.path(), "trial").unwrap();
    let another = Scratch::make(dir.path(), "trial").unwrap();
    assert_ne!(scratch.path(), another.path());
    fs::write(scratch.path().join("x"), "y").unwrap();
    assert_eq!(fs::metadata(scratch.path()).unwrap().mode() & 0o777, 0o700);
    drop((scratch, another));
    assert!(names(dir.path()).is_empty());
}
