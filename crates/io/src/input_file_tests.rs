//! Files, pipes, devices and other inputs.

use super::*;
use std::io::Write;
use std::process::Command;

#[test]
fn a_file_is_read_up_to_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    std::fs::write(&path, "twelve bytes").unwrap();
    assert_eq!(text(&path, 12).unwrap(), "twelve bytes");
    let said = text(&path, 11).unwrap_err().to_string();
    assert!(said.contains("12 bytes") && said.contains("at most 11"), "{said}");
    std::fs::write(&path, b"ab\xffc").unwrap();
    assert!(matches!(text(&path, 12), Err(InputError::NoText(2))));
    assert!(text(&folder.path().join("none"), 12).unwrap_err().is_not_found());
    assert!(matches!(text(folder.path(), 12), Err(InputError::NoFile("directory"))));
}

#[test]
fn a_hole_of_a_terabyte_and_a_device_without_end_cost_no_more_than_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hole");
    File::create(&path).unwrap().set_len(1 << 40).unwrap();
    assert!(matches!(bytes(&path, 1 << 20), Err(InputError::TooLarge { .. })));
    let zero = Path::new("/dev/zero");
    let said = bytes(zero, LARGEST_INPUT).unwrap_err().to_string();
    assert!(said.contains("67108864 bytes (64 MiB)"), "{said}");
    assert_eq!(bytes(Path::new("/dev/null"), 1).unwrap(), [0; 0]);
    // Their size is 0 until they are read.
    assert!(!bytes(Path::new("/proc/self/status"), 1 << 20).unwrap_or_default().is_empty());
}

#[test]
fn pipes_are_read_but_not_waited_for_without_end() {
    let (reader, mut writer) = io::pipe().unwrap();
    let from = File::from(std::os::fd::OwnedFd::from(reader.try_clone().unwrap()));
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
    writer.write_all(b"through a pipe").unwrap();
    drop(writer);
    assert_eq!(text(Path::new(&path), 100).unwrap(), "through a pipe");
    drop(from);
    let (reader, mut writer) = io::pipe().unwrap();
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
    writer.write_all(&[b'x'; 1000]).unwrap();
    assert!(matches!(bytes(Path::new(&path), 999), Err(InputError::Endless { limit: 999 })));
}

#[test]
fn a_named_pipe_without_a_writer_is_given_up_and_one_whose_writer_comes_late_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let file = open(&path).unwrap();
    let short = Duration::from_millis(20);
    assert!(matches!(patiently(&file, 100, (short, SILENCE)), Err(InputError::Silent(_))));
    // The other end is open and silent.
    let held = OpenOptions::new().write(true).open(&path).unwrap();
    assert!(matches!(patiently(&file, 100, (ALONE, short)), Err(InputError::Silent(_))));
    drop((file, held));
    let late = std::thread::spawn({
        let path = path.clone();
        move || std::fs::write(path, "late")
    });
    assert_eq!(text(&path, 100).unwrap(), "late");
    late.join().unwrap().unwrap();
}

#[test]
fn a_socket_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let _listening = std::os::unix::net::UnixListener::bind(&path).unwrap();
    assert!(matches!(bytes(&path, 1), Err(InputError::NoFile("socket"))));
}
