//! Files that are read completely, and environment variables that the file writer must ignore.
#![cfg(unix)]

use std::process::{Command, Stdio};

use crate::service::{Said, fullcount, say, vector};

/// Runs a command to its end.
fn told(command: &mut Command) -> Said {
    let o = command.output().expect("it starts");
    Said {
        code: o.status.code().expect("not killed by a signal"),
        out: String::from_utf8(o.stdout).expect("UTF-8"),
        err: String::from_utf8(o.stderr).expect("UTF-8"),
    }
}

#[test]
fn files_without_end_are_refused_with_key_path_and_limit() {
    let zero = "/dev/zero";
    for (arguments, key) in [
        (&["run", zero][..], "CONFIG"),
        (&["run", "--geometry", zero], "detector.geometry"),
        (
            &["run", "--detector", "gdgem", "--set", "detector.calibration=/dev/zero"],
            "detector.calibration",
        ),
        (&["lab", "capacity", "--measured", zero], "measured"),
    ] {
        // 1 GB of memory is not enough for an endless file.
        let limited = "ulimit -v 1000000; exec \"$0\" \"$@\"";
        let binary = env!("CARGO_BIN_EXE_fullcount");
        let said = told(
            Command::new("sh").args(["-c", limited, binary]).args(arguments).stdin(Stdio::null()),
        );
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.err);
        for words in [key, zero, "64 MiB"] {
            assert!(said.err.contains(words), "{arguments:?}: {words}: {}", said.err);
        }
    }
}

#[test]
fn a_pipe_is_read_and_one_that_nobody_writes_to_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let source = format!("pcap:{}?flat-out", vector("sonde/sonde.pcap"));
    let config = format!(
        "[source]\nurl = \"{source}\"\n[output]\nsink = \"null\"\n[web]\nlisten = \"off\"\n"
    );
    let file = folder.path().join("run.toml");
    std::fs::write(&file, config).unwrap();
    let binary = env!("CARGO_BIN_EXE_fullcount");
    let line = format!("cat '{}' | '{binary}' run /dev/stdin --json", file.display());
    let said = told(Command::new("sh").args(["-c", &line]));
    assert_eq!((said.code, said.summary()["events"].as_u64()), (0, Some(467)), "{}", said.err);
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let said = say(&["run", "--geometry", &pipe.display().to_string()]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("detector.geometry") && said.err.contains("gave nothing"));
}

#[test]
fn the_hdf5_library_takes_no_orders_from_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let source = format!("pcap:{}?flat-out", vector("sonde/sonde.pcap"));
    let run = ["run", "--source", &source, "--detector", "sonde", "--web", "off", "--json"];
    for (n, (name, value)) in [
        ("HDF5_DRIVER", "core"),
        ("HDF5_DRIVER", "split"),
        ("HDF5_DRIVER", "no-such-driver"),
        ("HDF5_VOL_CONNECTOR", "no-such-connector"),
        ("HDF5_USE_FILE_LOCKING", "TRUE"),
        ("HDF5_PLUGIN_PRELOAD", "/no/such/folder"),
        ("HDF5_DEBUG", "all"),
    ]
    .into_iter()
    .enumerate()
    {
        let file = folder.path().join(format!("{n}.nxs"));
        let path = file.display().to_string();
        let said = told(fullcount(&[&run[..], &["--nexus", &path]].concat()).env(name, value));
        assert_eq!(said.code, 0, "{name}={value}: {}", said.err);
        let f = hdf5_metno::File::open(&file).unwrap_or_else(|e| panic!("{name}={value}: {e}"));
        let ids = f.dataset("entry/instrument/sonde/sonde_events/event_id").unwrap();
        assert_eq!(ids.size(), 467, "{name}={value}");
    }
    let files = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files, 7, "one each, and no other");
}
