//! The description of a run gets into its NeXus file, from flags and from the configuration; unprintable text is
//! refused; and the field's validators find no error in a file of any detector.
#![cfg(target_os = "linux")]

use crate::documents::all_that_can_be_said;
use crate::pages::document;
use crate::python;
use crate::service;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::service::{say, vector};
use hdf5_metno::types::VarLenUnicode;

/// A run of a recorded detector into `file`.
fn recorded(detector: &str, file: &Path, more: &[&str]) -> service::Said {
    let (capture, geometry) = match detector {
        "sonde" => ("sonde/sonde.pcap", None),
        "multigrid" => ("multigrid/multigrid.pcap", Some("multigrid-three-modules.toml")),
        "multiblade" => ("multiblade/multiblade.pcap", Some("multiblade-mb18-freia.toml")),
        "gdgem" => ("gdgem/example.pcapng", Some("gdgem.toml")),
        other => panic!("no recording of {other}"),
    };
    let source = format!("pcap:{}?flat-out", vector(capture));
    let file = file.display().to_string();
    let geometry =
        geometry.map(|name| format!("{}/../../docs/examples/{name}", env!("CARGO_MANIFEST_DIR")));
    let mut all = vec!["run", "--source", &source, "--detector", detector, "--web", "off"];
    all.extend(["--nexus", &file]);
    all.extend(geometry.iter().flat_map(|path| ["--geometry", path.as_str()]));
    all.extend(more);
    say(&all)
}

const FLAGS: [&str; 12] = [
    "--title",
    "Vanadium, 3 Å",
    "--run-number",
    "4711",
    "--proposal",
    "20260042",
    "--sample",
    "V rod",
    "--user",
    "Ada Lovelace",
    "--user",
    "Émilie du Châtelet",
];

fn text(file: &hdf5_metno::File, path: &str) -> String {
    let dataset = file.dataset(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    dataset.read_scalar::<VarLenUnicode>().expect("text").to_string()
}

#[test]
fn flags_say_what_a_run_is_about() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.nxs");
    let said = recorded("sonde", &path, &FLAGS);
    assert!(path.exists(), "{}", said.err);
    let file = hdf5_metno::File::open(&path).expect("complete");
    assert_eq!(text(&file, "/entry/title"), "Vanadium, 3 Å");
    assert_eq!(text(&file, "/entry/entry_identifier"), "4711");
    let number = file.dataset("/entry/run_number").and_then(|d| d.read_scalar::<i32>());
    assert_eq!(number.ok(), Some(4711));
    assert_eq!(text(&file, "/entry/experiment_identifier"), "20260042");
    assert_eq!(text(&file, "/entry/user_1/name"), "Ada Lovelace");
    assert_eq!(text(&file, "/entry/user_2/name"), "Émilie du Châtelet");
    assert!(!file.link_exists("/entry/user_3"));
    assert_eq!(text(&file, "/entry/sample/name"), "V rod");
    let class = file.group("/entry/user_1").and_then(|g| g.attr("NX_class")?.read_scalar());
    assert_eq!(class.map(|c: VarLenUnicode| c.to_string()).ok().as_deref(), Some("NXuser"));
    assert!(!file.link_exists("/entry/definition"), "nothing is claimed that is not kept");
}

#[test]
fn the_configuration_says_more_and_flags_win() {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, path) = (folder.path().join("run.toml"), folder.path().join("run.nxs"));
    let written = "[output.nexus]\npath = 'run.nxs'\nproposal = 20260042\nrun_number = 7\n\
                   [output.nexus.sample]\nname = 'V'\nchemical_formula = 'V'\ntype = 'sample+can'\n\
                   temperature_k = 293.5\nmass_g = 12\n\
                   [[output.nexus.users]]\nname = 'A'\naffiliation = 'B'\nemail = 'a@b'\n\
                   facility_user_id = 12\nrole = 'local_contact'\n";
    std::fs::write(&config, written).expect("written");
    let source = format!("pcap:{}?flat-out", vector("sonde/sonde.pcap"));
    let config = config.display().to_string();
    let run = ["run", &config, "--source", &source, "--web", "off", "--run-number", "8"];
    let said = say(&run);
    assert!(path.exists(), "{}", said.err);
    let file = hdf5_metno::File::open(&path).expect("complete");
    assert_eq!(text(&file, "/entry/entry_identifier"), "8");
    assert_eq!(text(&file, "/entry/experiment_identifier"), "20260042", "a number is text here");
    for (name, value) in [
        ("user_1/affiliation", "B"),
        ("user_1/email", "a@b"),
        ("user_1/facility_user_id", "12"),
        ("user_1/role", "local_contact"),
        ("sample/chemical_formula", "V"),
        ("sample/type", "sample+can"),
    ] {
        assert_eq!(text(&file, &format!("/entry/{name}")), value);
    }
    for (name, value, unit) in [("temperature", 293.5, "K"), ("mass", 12.0, "g")] {
        let dataset = file.dataset(&format!("/entry/sample/{name}")).expect("there");
        let found: VarLenUnicode =
            dataset.attr("units").and_then(|a| a.read_scalar()).expect("a unit");
        assert_eq!((dataset.read_scalar::<f64>().ok(), found.as_str()), (Some(value), unit));
    }
    // What is printed is taken again.
    let printed = say(&["run", &config, "--print-config"]);
    assert_eq!(printed.code, 0, "{}", printed.err);
    let again = folder.path().join("again.toml");
    std::fs::write(&again, &printed.out).expect("written");
    let twice = say(&["run", &again.display().to_string(), "--print-config"]);
    assert_eq!((twice.code, twice.out), (0, printed.out));
}

#[test]
fn what_no_reader_could_print_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.nxs");
    let long = "x".repeat(257);
    for (more, words) in [
        (
            &["--title", "a\u{1b}[2J"][..],
            &["output.nexus.title", "\\u{1b}", "control characters"][..],
        ),
        (
            &["--title", "run\u{202e}24"],
            &["output.nexus.title", "\"run\\u{202e}24\"", "control characters"],
        ),
        (&["--user", "A\u{2028}B"], &["users, number 1, name", "\"A\\u{2028}B\""]),
        (
            &["--set", "output.nexus.instrument=\u{2066}x"],
            &["output.nexus.instrument", "\\u{2066}"],
        ),
        (&["--title", ""], &["title", "\"\"", "1 to 256 bytes"]),
        (&["--proposal", "a\nb"], &["output.nexus.proposal", "a\\nb"]),
        (&["--sample", &long], &["sample.name", "(257 bytes)", "1 to 256"]),
        (&["--user", "A", "--user", "B\t"], &["output.nexus.users, number 2, name", "B\\t"]),
        (&["--run-number", "2147483648"], &["run_number", "2147483648", "0 to 2147483647"]),
        (&["--set", "output.nexus.sample.type=soup"], &["sample.type", "soup", "sample+can"]),
        (&["--set", "output.nexus.users=[{email=\"a\"}]"], &["name"]),
        (&["--set", "output.nexus.sample.mass_g=-1"], &["mass_g", "-1", "0 or more"]),
        (
            &["--set", "output.nexus.compress=fast"],
            &["output.nexus.compress", "fast", "direct or hdf5"],
        ),
        (&["--set", "output.nexus.compress_threads=17"], &["compress_threads", "17", "1 to 16"]),
        (
            &[
                "--compression",
                "gzip:1",
                "--set",
                "output.nexus.compress_threads=16",
                "--set",
                "output.nexus.chunk=67108864",
            ],
            &["output.nexus.chunk and output.nexus.compress_threads", "67108864 and 16", "1 GiB"],
        ),
    ] {
        let said = recorded("sonde", &path, more);
        assert_eq!(said.code, 2, "{more:?}: {}", said.err);
        for word in words {
            assert!(said.err.contains(word), "{more:?} must say {word}: {}", said.err);
        }
        assert!(!path.exists(), "{more:?}");
    }
    let alone = say(&["run", "--title", "x"]);
    assert_eq!(alone.code, 2, "{}", alone.err);
    assert!(alone.err.contains("title alone names no file"), "{}", alone.err);
}

#[test]
fn a_panel_and_a_path_that_no_file_can_have_are_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let link = folder.path().join("link.nxs");
    std::os::unix::fs::symlink(OsStr::from_bytes(b"run-\xff.nxs"), &link).expect("a link");
    let said = recorded("sonde", &link, &[]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("run-\\xFF.nxs\", is not allowed: UTF-8"), "{}", said.err);
    let example = document("examples/multigrid-three-modules.toml");
    let geometry = folder.path().join("geometry.toml");
    let source = format!("pcap:{}?flat-out", vector("multigrid/multigrid.pcap"));
    let path = folder.path().join("run.nxs");
    for name in ["source", "name"] {
        let renamed = example.replace("name = \"multigrid\"", &format!("name = \"{name}\""));
        assert_ne!(renamed, example, "the panel is called multigrid");
        std::fs::write(&geometry, renamed).expect("written");
        let (file, geometry) = (path.display().to_string(), geometry.display().to_string());
        let mut run = vec!["run", "--source", &source, "--detector", "multigrid", "--web", "off"];
        run.extend(["--nexus", &file, "--geometry", &geometry]);
        let said = say(&run);
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(said.err.contains(&format!("output.nexus.panel: \"{name}\"")), "{}", said.err);
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("readable").collect();
    assert_eq!(left.len(), 2, "the link and the geometry: {left:?}");
}

/// Files of all detectors, compressed by threads as well; one with all that can be said, and with the source's place.
/// What the validators print, with the warnings that are to be looked at, stays in `target/validators.txt`.
#[test]
fn validators_of_the_field_find_no_error_in_a_file_of_any_detector() {
    let Some(python) = python::interpreter() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut files: Vec<PathBuf> = Vec::new();
    for detector in ["sonde", "multigrid", "multiblade", "gdgem"] {
        for (name, more) in [("plain", &[][..]), ("gzip", &["--compression", "gzip:1"])] {
            let path = folder.path().join(format!("{detector}-{name}.nxs"));
            let said = recorded(detector, &path, &[&FLAGS[..], more].concat());
            assert!(path.exists(), "{}", said.err);
            files.push(path);
        }
    }
    let full = folder.path().join("sonde-full.nxs");
    let mut all = all_that_can_be_said();
    all.extend(["--set", "output.nexus.source_distance_m=20"].map(str::to_owned));
    let said = recorded("sonde", &full, &all.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(full.exists(), "{}", said.err);
    files.push(full);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python/check_valid.py");
    let output = Command::new(&python)
        // punx keeps settings there.
        .env("XDG_CONFIG_HOME", folder.path())
        .arg(script)
        .args(&files)
        .output()
        .expect("starts");
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{text}");
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("validators.txt");
    std::fs::write(&kept, &*text).unwrap_or_else(|e| panic!("{}: {e}", kept.display()));
    assert!(output.status.success(), "{text}\n{errors}");
    if std::env::var("CI").as_deref() == Ok("true") {
        assert!(!text.contains("skipped"), "tests/python/requirements.txt names all three: {text}");
    }
}
