//! Checks deploy/: each command line of Fullcount in it with the program, the files with their schemas, and the script
//! by running it.
//!
//! Nothing of it is installed here: neither systemd, Docker nor Kubernetes runs a test. Units are checked by
//! `systemd-analyze verify` if it exists; compose.yaml and kubernetes.yaml are checked with the schemas in
//! vectors/schemas, by Python. Source: `deploy/README.md`.

use crate::python;
use std::collections::BTreeMap;
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::service::{Said, say};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("two folders up")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// What deploy/README.md has people install, in a folder in place of `/etc` and `/var/lib`.
struct Stage(tempfile::TempDir);

impl Stage {
    fn new() -> Stage {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["etc/fullcount", "var/lib/fullcount", "var/lib/fullcount-write"] {
            fs::create_dir_all(folder.path().join(name)).expect("made");
        }
        for (from, to) in [
            ("deploy/detector.toml", "etc/fullcount/detector.toml"),
            ("docs/examples/gdgem-sectors.json", "etc/fullcount/gdgem-sectors.json"),
            ("deploy/systemd/write.env", "etc/fullcount/write.env"),
        ] {
            fs::copy(root().join(from), folder.path().join(to)).expect("copied");
        }
        Stage(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Asks the program about these arguments, without opening anything: returns its output and whether it accepted
    /// them.
    fn ask(&self, arguments: &[String]) -> (bool, Said) {
        let staged = |text: &String| {
            let text = text.replace("/etc/fullcount", &self.path("etc/fullcount"));
            text.replace("/var/lib/fullcount", &self.path("var/lib/fullcount"))
        };
        let mut all: Vec<String> = arguments.iter().map(staged).collect();
        let writes = all.first().is_some_and(|verb| verb == "write");
        // The writer checks librdkafka's settings last, so a wrong one shows that everything else was right.
        let more: &[&str] = match writes {
            true => &["--kafka-set", "no.such=setting"],
            false if all.iter().any(|a| a == "--print-config") => &[],
            false => &["--print-config"],
        };
        all.extend(more.iter().map(|m| (*m).to_owned()));
        let said = say(&all.iter().map(String::as_str).collect::<Vec<_>>());
        let taken = match writes {
            true => said.code == 2 && said.err.contains("no.such"),
            false => said.code == 0,
        };
        (taken, said)
    }

    fn takes(&self, place: &str, arguments: &[String]) {
        let (taken, said) = self.ask(arguments);
        assert!(taken, "{place}: {arguments:?}\n{}", said.err);
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// Values of a key of a unit.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    let value = |line: &'a str| line.strip_prefix(key)?.strip_prefix('=');
    unit.lines().filter_map(value).collect()
}

/// The command lines of a unit, with its specifiers and variables filled in as systemd does.
fn commands(unit: &str, instance: &str) -> Vec<Vec<String>> {
    let mut filled = BTreeMap::from([("FLAGS".to_owned(), "--core 0".to_owned())]);
    for line in read("deploy/systemd/write.env").lines().filter(|l| !l.starts_with('#')) {
        let (name, value) = line.split_once('=').expect("NAME=VALUE");
        filled.insert(name.to_owned(), value.to_owned());
    }
    let command = |line: &&str| {
        let mut line = line.replace("%i", instance).replace("%H", "host-1.example.org");
        if let Some(script) = line.strip_prefix("/bin/sh -c '") {
            return in_a_shell(script.strip_suffix('\'').expect("one word"), &filled);
        }
        for (name, value) in &filled {
            line = line.replace(&format!("${{{name}}}"), value).replace(&format!("${name}"), value);
        }
        assert!(!line.contains(['$', '%']), "{line}");
        let mut all = words(&line);
        assert_eq!(all.remove(0), "/usr/local/bin/fullcount", "{line}");
        all
    };
    [values(unit, "ExecStartPre"), values(unit, "ExecStart")].concat().iter().map(command).collect()
}

/// The arguments that a shell script passes to the program, printed by the shell itself. systemd makes `$$` a dollar.
fn in_a_shell(script: &str, variables: &BTreeMap<String, String>) -> Vec<String> {
    assert!(!script.contains(['\'', '%']) && !script.contains("${"), "{script}");
    let script = script.replace("$$", "$");
    let rest = script.strip_prefix("exec /usr/local/bin/fullcount ").expect("it makes way");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("printf '%s\\n' {rest}")]).envs(variables);
    let said = shell.output().expect("a shell");
    assert!(said.status.success(), "{script}: {}", text(&said));
    String::from_utf8(said.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

const UNITS: [&str; 2] = ["fullcount-run@.service", "fullcount-write.service"];

#[test]
fn each_command_line_of_the_units_is_one_of_the_program() {
    let stage = Stage::new();
    for (unit, count) in UNITS.into_iter().zip([2, 1]) {
        let text = read(&format!("deploy/systemd/{unit}"));
        for instance in ["0", "3"] {
            let all = commands(&text, instance);
            assert_eq!(all.len(), count, "{unit}");
            all.iter().for_each(|command| stage.takes(unit, command));
        }
        // A drain of 30 s fits into the time that systemd waits.
        assert_eq!(values(&text, "KillSignal"), ["SIGINT"], "{unit}");
        assert_eq!(values(&text, "TimeoutStopSec"), ["60s"], "{unit}");
    }
    assert!(read("deploy/detector.toml").contains("drain = \"30s\""));
}

#[test]
fn an_instance_of_two_digits_gets_ports_that_exist() {
    let unit = read(&format!("deploy/systemd/{}", UNITS[0]));
    let stage = Stage::new();
    // A detector of eleven sectors: the first FEC of the example for each further one.
    let path = stage.path("etc/fullcount/gdgem-sectors.json");
    let mut geometry: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&path).expect("staged")).expect("JSON");
    let chips = geometry["vmm_geometry"].as_array_mut().expect("a list");
    let first: Vec<_> = chips.iter().filter(|c| c["fec"] == 1).cloned().collect();
    for sector in 4..=10 {
        chips.extend(first.iter().cloned().map(|mut chip| {
            chip["detector"] = sector.into();
            chip["fec"] = (5 + sector).into();
            chip
        }));
    }
    fs::write(&path, geometry.to_string()).expect("written");
    for (instance, source, page, control) in [
        ("0", "udp://0.0.0.0:9000", "127.0.0.1:8080", "127.0.0.1:8888"),
        ("9", "udp://0.0.0.0:9009", "127.0.0.1:8089", "127.0.0.1:8897"),
        ("10", "udp://0.0.0.0:9010", "127.0.0.1:8090", "127.0.0.1:8898"),
    ] {
        let all = commands(&unit, instance);
        let behind = |flag: &str| {
            let at = all[1].iter().position(|word| word == flag);
            at.map_or("", |at| all[1][at + 1].as_str())
        };
        let told = [behind("--source"), behind("--web"), behind("--control")];
        assert_eq!(told, [source, page, control], "{all:?}");
        all.iter().for_each(|command| stage.takes(instance, command));
    }
    // A name that is no number is refused, not used as sector 0.
    assert!(!stage.ask(&commands(&unit, "north")[1]).0);
}

#[test]
fn a_wrong_option_is_found() {
    let stage = Stage::new();
    let all = commands(&read(&format!("deploy/systemd/{}", UNITS[0])), "1");
    for (from, to) in [
        ("--spool", "--spooll"),
        ("detector.sectors=1", "detector.sector=1"),
        ("detector.sectors=1", "detector.sectors=4"),
        ("udp://0.0.0.0:9001", "udp://0.0.0.0:90001"),
        ("/etc/fullcount/detector.toml", "/etc/fullcount/other.toml"),
    ] {
        let changed: Vec<String> =
            all[1].iter().map(|w| if w == from { to.to_owned() } else { w.clone() }).collect();
        assert_ne!(changed, all[1], "{from}");
        assert!(!stage.ask(&changed).0, "{changed:?}");
    }
    let all = commands(&read(&format!("deploy/systemd/{}", UNITS[1])), "");
    for (from, to) in
        [("--keep-jobs", "--keep"), ("--folder", "--folders"), ("filewriter_pool", "a b")]
    {
        let changed: Vec<String> =
            all[0].iter().map(|w| if w == from { to.to_owned() } else { w.clone() }).collect();
        assert_ne!(changed, all[0], "{from}");
        assert!(!stage.ask(&changed).0, "{changed:?}");
    }
}

/// `None` after saying that the program is not there.
fn output(program: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => Some(output),
        Err(e) => {
            println!("not checked with {program}: {e}");
            None
        }
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
}

/// Highest exposure that `systemd-analyze security` may find, tenths: docs/operations.md.
const EXPOSURE: [&str; 2] = ["24", "17"];

#[test]
fn the_units_are_as_closed_as_the_page_says() {
    let page = read("docs/operations.md");
    for (unit, most) in UNITS.into_iter().zip(EXPOSURE) {
        let path = root().join("deploy/systemd").join(unit).display().to_string();
        let words = ["security", "--offline=true", "--no-pager", "--threshold", most, &path];
        let Some(said) = output("systemd-analyze", &words) else { return };
        if text(&said).contains("unrecognized option") {
            println!("skipped: this systemd-analyze cannot look at files");
            return;
        }
        assert!(
            said.status.success(),
            "{unit}: {}",
            text(&said).lines().last().unwrap_or_default()
        );
        let score = format!("{}.{}", &most[..1], &most[1..]);
        assert!(page.contains(&format!("`{unit}` {score}")), "{unit}: {score} is not in the page");
    }
    // A unit that gives all of it up is found.
    let folder = tempfile::tempdir().expect("a folder");
    let open = folder.path().join("open.service");
    fs::write(&open, "[Service]\nExecStart=/bin/true\n").expect("written");
    let words = ["security", "--offline=true", "--no-pager", "--threshold", EXPOSURE[0]];
    let said = output("systemd-analyze", &[&words[..], &[&open.display().to_string()]].concat());
    assert!(!said.expect("it is there").status.success());
}

#[test]
fn systemd_knows_every_key_of_the_units() {
    let folder = tempfile::tempdir().expect("a folder");
    // It wants the program to be there, so it gets the one under test.
    let binary = env!("CARGO_BIN_EXE_fullcount");
    let verify = |name: &str, unit: &str| {
        let path = folder.path().join(name.replace('@', "@1"));
        fs::write(&path, unit.replace("/usr/local/bin/fullcount", binary)).expect("written");
        output("systemd-analyze", &["verify", "--man=no", &path.display().to_string()])
    };
    for name in UNITS {
        let unit = read(&format!("deploy/systemd/{name}"));
        let Some(said) = verify(name, &unit) else { return };
        // It reads the host's own units as well, and has words about some of them.
        let ours = |line: &&str| {
            !line.starts_with("/lib/systemd/") && !line.starts_with("/usr/lib/systemd/")
        };
        let all = text(&said);
        let about: Vec<&str> = all.lines().filter(ours).filter(|line| !line.is_empty()).collect();
        assert!(said.status.success() && about.is_empty(), "{name}: {about:?}");
        // It only warns: the words decide.
        let said = verify(name, &unit.replace("\nRestart=", "\nRestrat=")).expect("it is there");
        assert!(text(&said).contains("Restrat"), "{}", text(&said));
    }
}

#[test]
fn compose_and_kubernetes_files_follow_their_schemas_and_name_what_is_there() {
    let Some(python) = python::interpreter() else { return };
    let stage = Stage::new();
    let folder = tempfile::tempdir().expect("a folder");
    let check = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).expect("written");
        let script = root().join("tests/python/check_deploy.py");
        let mut command = Command::new(&python);
        command.arg(script).arg(path).arg(root().join("vectors/schemas")).output().expect("it runs")
    };
    for (name, commands, damages) in [
        (
            "compose.yaml",
            5,
            [
                ("stop_signal: SIGINT", "stop_sgnal: SIGINT", "stop_sgnal"),
                ("[\"spool-1:", "[\"spool-9:", "no volume spool-9"),
            ],
        ),
        (
            "kubernetes.yaml",
            5,
            [
                ("replicas: 4", "replicas: four", "is not of type 'integer'"),
                ("serviceName: fullcount-run", "serviceName: other", "no service other"),
            ],
        ),
    ] {
        let content = read(&format!("deploy/{name}"));
        let said = check(name, &content);
        assert!(said.status.success(), "{}", text(&said));
        let found: Vec<Vec<String>> = serde_json::from_slice(&said.stdout).expect("JSON");
        assert_eq!(found.len(), commands, "{name}");
        found.iter().for_each(|command| stage.takes(name, command));
        for (from, to, words) in damages {
            assert!(content.contains(from), "{name}: {from}");
            let said = check(name, &content.replacen(from, to, 1));
            assert!(!said.status.success() && text(&said).contains(words), "{}", text(&said));
        }
    }
}

#[test]
fn the_container_is_made_of_files_that_are_there() {
    let file = read("deploy/Containerfile");
    let lines = || file.lines().filter(|l| !l.starts_with('#') && !l.is_empty());
    let known =
        ["FROM", "ARG", "RUN", "WORKDIR", "COPY", "USER", "STOPSIGNAL", "ENTRYPOINT", "CMD", "   "];
    for line in lines() {
        assert!(known.iter().any(|k| line.starts_with(k)), "{line}");
    }
    let toolchain: toml::Table = read("rust-toolchain.toml").parse().expect("TOML");
    let channel = toolchain["toolchain"]["channel"].as_str().expect("a version");
    assert!(file.contains(&format!("library/rust:{channel}-")), "the pinned compiler is {channel}");
    let copied: Vec<&str> = lines()
        .filter_map(|l| l.strip_prefix("COPY "))
        .filter(|l| !l.starts_with("--from") && *l != ". .")
        .flat_map(|l| l.split(' ').filter(|w| !w.starts_with('/')))
        .collect();
    assert_eq!(copied.len(), 2, "{copied:?}");
    copied.iter().for_each(|path| assert!(root().join(path).is_file(), "{path}"));
    assert!(file.contains("STOPSIGNAL SIGINT\nENTRYPOINT [\"/usr/local/bin/fullcount\"]"));
}

/// In a cluster that shares the nodes' network, a page on 0.0.0.0 is on every address of the node.
#[test]
fn in_kubernetes_the_page_is_on_loopback_and_the_image_is_named_as_one_to_push() {
    let file = read("deploy/kubernetes.yaml");
    assert!(file.contains("hostNetwork: true"));
    let lines: Vec<&str> = file.lines().map(str::trim).filter(|l| !l.starts_with('#')).collect();
    let web = lines.iter().position(|l| *l == "- --web").expect("a page");
    assert_eq!(lines[web + 1], "- 127.0.0.1:8080");
    for path in ["/healthz", "/readyz"] {
        assert!(file.contains(&format!("httpGet: {{host: 127.0.0.1, path: {path}, port: web}}")));
    }
    assert!(file.contains("livenessProbe:") && file.contains("readinessProbe:"));
    // It would end the run of whoever reaches the node's loopback.
    assert!(!file.contains("--control"));
    let readme = read("deploy/README.md");
    let images: Vec<&str> = lines.iter().filter_map(|l| l.strip_prefix("image: ")).collect();
    assert_eq!((images.len(), images[0]), (2, images[1]));
    for command in [format!("-t {} .", images[0]), format!("push {}", images[0])] {
        assert!(readme.contains(&command), "{command}");
    }
}

/// Asks a program that may wait for a network that is not there; `None` if it takes longer.
fn within(limit: &str, program: &str, arguments: &[&str]) -> Option<Output> {
    output("timeout", &[&["--kill-after=10s", limit, program][..], arguments].concat())
}

/// Building needs a running engine and the two base images; if one is not available, that is printed.
#[test]
fn the_image_is_built_where_a_builder_and_its_base_images_can_be_had() {
    let runs = |program: &&str| {
        within("20s", program, &["info"]).is_some_and(|said| said.status.success())
    };
    let Some(builder) = ["podman", "docker"].into_iter().find(runs) else {
        println!("unavailable: the image was not built: neither podman nor docker runs here");
        return;
    };
    let file = read("deploy/Containerfile");
    let bases = file.lines().filter_map(|l| l.strip_prefix("FROM ")?.split(' ').next());
    for base in bases {
        let pulled = within("300s", builder, &["pull", base]);
        if !pulled.is_some_and(|said| said.status.success()) {
            println!("unavailable: the image was not built: {builder} cannot have {base}");
            return;
        }
    }
    let context = root().display().to_string();
    let path = format!("{context}/deploy/Containerfile");
    let name = "fullcount-under-test";
    let said = within("1800s", builder, &["build", "-f", &path, "-t", name, &context]);
    let said = said.expect("it was there a moment ago");
    assert!(said.status.success(), "{}", text(&said));
    let said = within("60s", builder, &["run", "--rm", name, "--version"]).expect("it is there");
    assert!(said.status.success() && text(&said).contains("fullcount"), "{}", text(&said));
    let _ = within("60s", builder, &["rmi", name]);
}

/// Two neighbouring UDP ports that are free now.
fn two_ports() -> u16 {
    let free = |port: u16| UdpSocket::bind(("0.0.0.0", port));
    let pair = || {
        let first = free(0).ok()?;
        let port = first.local_addr().ok()?.port();
        free(port.checked_add(1)?).ok().map(|_| port)
    };
    (0..100).find_map(|_| pair()).expect("two free ports")
}

#[test]
fn the_script_starts_shows_and_stops_instances() {
    let stage = Stage::new();
    let script = root().join("deploy/instances.sh").display().to_string();
    let said = output("bash", &["-n", &script]).expect("bash is there");
    assert!(said.status.success(), "{}", text(&said));
    if let Some(said) = output("shellcheck", &[&script]) {
        assert!(said.status.success(), "{}", text(&said));
    }
    let port = two_ports().to_string();
    let run = |arguments: &[&str]| {
        let mut command = Command::new("bash");
        command.arg(&script).args(arguments).env("FULLCOUNT", env!("CARGO_BIN_EXE_fullcount"));
        command.env("CONFIG", stage.path("etc/fullcount/detector.toml"));
        command.env("STATE", stage.path("state")).env("FIRST_PORT", &port).env("FIRST_WEB", "off");
        let said = command.output().expect("bash is there");
        (said.status.code(), text(&said))
    };
    assert_eq!(run(&[]).0, Some(2));
    assert_eq!(run(&["start", "x"]).0, Some(2));
    // No broker is there: that is no reason not to start.
    let (code, said) = run(&["start", "2"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches(": process ").count(), 2, "{said}");
    let (code, said) = run(&["start", "2"]);
    assert_eq!((code, said.matches("runs already").count()), (Some(0), 2), "{said}");
    let (code, said) = run(&["status"]);
    assert_eq!((code, said.matches(": process ").count()), (Some(0), 2), "{said}");
    let (code, said) = run(&["stop"]);
    let balanced = said.lines().filter(|l| l.contains("balance")).count();
    assert_eq!((code, balanced), (Some(0), 2), "{said}");
    let (code, said) = run(&["status"]);
    assert_eq!((code, said.matches("not running").count()), (Some(1), 2), "{said}");
    for sector in ["0", "1"] {
        let port = port.parse::<u16>().expect("a number") + sector.parse::<u16>().expect("one");
        let log = fs::read_to_string(stage.path(&format!("state/{sector}/log"))).expect("a log");
        assert!(log.contains(&format!(":{port}")), "{log}");
        assert!(Path::new(&stage.path(&format!("state/{sector}/spool"))).is_dir());
    }
}
