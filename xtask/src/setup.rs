//! Set-up: finds what a command needs, installs what is missing where it may, and says so.
//!
//! Refuses to guess: where it may not install (not root, or no apt-get) the error holds the one
//! command to run. Python packages only ever go into the private environment
//! `target/python-venv`; toolchain parts are asked of rustup.
//!
//! Source: CONTRIBUTING.md, "What it needs".

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::command::Job;
use crate::place;

/// Something that a distribution's package brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// What it is, in the message.
    pub name: &'static str,
    /// What needs it.
    pub reason: &'static str,
    /// Any of these along `PATH` will do.
    programs: &'static [&'static str],
    /// The Debian package that brings it.
    package: &'static str,
}

/// HDF5 and librdkafka are compiled from source.
pub const C_COMPILER: Need = Need {
    name: "a C compiler",
    reason: "HDF5 and librdkafka",
    programs: &["cc", "gcc", "clang"],
    package: "gcc",
};
/// HDF5's build system.
pub const CMAKE: Need =
    Need { name: "CMake", reason: "HDF5", programs: &["cmake"], package: "cmake" };
/// librdkafka compiles its C++ half along; libFuzzer is compiled from source.
pub const CPP_COMPILER: Need = Need {
    name: "a C++ compiler",
    reason: "librdkafka and the fuzz targets",
    programs: &["c++", "g++", "clang++"],
    package: "g++",
};
/// What librdkafka is built with.
pub const MAKE: Need =
    Need { name: "make", reason: "librdkafka", programs: &["make"], package: "make" };
/// What OpenSSL, which the feature `kafka-tls` brings along as source, is configured with.
pub const PERL: Need =
    Need { name: "Perl", reason: "OpenSSL", programs: &["perl"], package: "perl" };
/// A real Kafka is tested against.
pub const JAVA: Need = Need {
    name: "Java",
    reason: "the tests with a real Kafka",
    programs: &["java"],
    package: "default-jre-headless",
};
/// It fetches Kafka.
pub const MAVEN: Need = Need {
    name: "Maven",
    reason: "the tests with a real Kafka",
    programs: &["mvn"],
    package: "maven",
};
/// The page is tested in a real browser.
pub const BROWSER: Need = Need {
    name: "Chromium",
    reason: "the tests of the web page",
    programs: &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"],
    package: "chromium",
};
/// It fetches axe-core, which checks the page inside that browser, and Grafana's schema.
pub const NPM: Need = Need {
    name: "npm",
    reason: "the accessibility checks of the web page, and those of the dashboards",
    programs: &["npm"],
    package: "npm",
};
/// Losses and campaigns are tested between network namespaces.
pub const NAMESPACES: Need = Need {
    name: "iproute2",
    reason: "the tests in network namespaces",
    programs: &["ip"],
    package: "iproute2",
};
/// iperf3 is measured beside us.
pub const IPERF3: Need = Need {
    name: "iperf3",
    reason: "the test of `lab peers`",
    programs: &["iperf3"],
    package: "iperf3",
};
/// Carbon stores what goes to Graphite.
pub const CARBON: Need = Need {
    name: "Carbon",
    reason: "the test of `metrics.graphite`",
    programs: &["carbon-cache"],
    package: "graphite-carbon",
};
/// Takes messages as a facility's syslog server does.
pub const RSYSLOG: Need = Need {
    name: "rsyslog",
    reason: "the test of `log.syslog`",
    programs: &["rsyslogd"],
    package: "rsyslog",
};
/// A terminal for `fullcount top`.
pub const TMUX: Need = Need {
    name: "tmux",
    reason: "the test of `fullcount top`",
    programs: &["tmux"],
    package: "tmux",
};
/// graphite-web answers the queries of the dashboard for Graphite.
pub const GRAPHITE_WEB: Need = Need {
    name: "graphite-web",
    reason: "the test of the dashboard for Graphite",
    programs: &["graphite-manage"],
    package: "graphite-web",
};
/// promtool judges the metrics, Prometheus reads them.
pub const PROMETHEUS: Need = Need {
    name: "Prometheus",
    reason: "the tests of `/metrics`",
    programs: &["promtool"],
    package: "prometheus",
};
/// tshark judges the frames of the simplified TCP.
pub const TSHARK: Need = Need {
    name: "tshark",
    reason: "the test of the frames of the simplified TCP",
    programs: &["tshark"],
    package: "tshark",
};
/// A simulator of hardware reads the traces of the simplified TCP.
pub const VERILOG: Need = Need {
    name: "Icarus Verilog",
    reason: "the test of the traces of the simplified TCP",
    programs: &["iverilog"],
    package: "iverilog",
};
/// h5py and scippnexus read the files that we write.
pub const PYTHON: Need = Need {
    name: "Python with venv",
    reason: "the tests that read our files with other people's readers",
    programs: &["python3"],
    package: "python3-venv",
};

/// Needs that are not met and could not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    needs: Vec<Need>,
    why: String,
}

impl Missing {
    /// Whether this need is among the missing.
    pub fn lacks(&self, need: Need) -> bool {
        self.needs.contains(&need)
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> =
            self.needs.iter().map(|need| format!("{} (for {})", need.name, need.reason)).collect();
        write!(f, "missing: {}; {}; run: sudo {}", words.join(", "), self.why, apt(&self.needs))
    }
}

/// Makes sure of `needs`, installing what is missing where it may.
pub fn ensure(needs: &[Need]) -> Result<(), Missing> {
    let missing: Vec<Need> = needs.iter().copied().filter(|need| !is_met(*need)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let refuse = |why: &str| Err(Missing { needs: missing.clone(), why: why.to_owned() });
    if place::on_path("apt-get").is_none() {
        return refuse("this host has no apt-get, so install them its own way, or where it exists");
    }
    if place::output_of("id", &["-u"]).as_deref() != Some("0") {
        return refuse("installing them takes root");
    }
    let names: Vec<&str> = missing.iter().map(|need| need.name).collect();
    println!("installing {}: {}", names.join(", "), apt(&missing));
    let install = || {
        let packages = missing.iter().map(|need| need.package);
        Job::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["install", "-y", "--no-install-recommends"])
            .args(packages)
            .limit(Duration::from_secs(600))
            .run()
    };
    // A fresh image often has no package lists; a warm one needs no refresh.
    if !install().ok {
        Job::new("apt-get").args(["update"]).limit(Duration::from_secs(300)).run();
        let end = install();
        if !end.ok {
            return refuse(&format!("apt-get could not install them ({})", end.phrase));
        }
    }
    match needs.iter().copied().filter(|need| !is_met(*need)).collect::<Vec<_>>() {
        still if still.is_empty() => Ok(()),
        still => Err(Missing { needs: still, why: "apt-get did not bring them".to_owned() }),
    }
}

/// The path of what meets a need.
pub fn program(need: Need) -> Option<PathBuf> {
    need.programs.iter().find_map(|program| place::on_path(program))
}

fn is_met(need: Need) -> bool {
    // Debian ships python3 without the module that makes environments.
    let complete =
        need != PYTHON || place::output_of("python3", &["-c", "import ensurepip, venv"]).is_some();
    program(need).is_some() && complete
}

fn apt(needs: &[Need]) -> String {
    let packages: Vec<&str> = needs.iter().map(|need| need.package).collect();
    format!("apt-get install -y {}", packages.join(" "))
}

/// The list of Python packages that the tests use.
pub fn python_requirements() -> PathBuf {
    place::root().join("tests/python/requirements.txt")
}

/// The interpreter of the private environment, made or brought up to date first.
///
/// # Errors
///
/// What pip or venv said no to, with the command to try by hand.
pub fn python_environment() -> Result<PathBuf, String> {
    let folder = place::target().join("python-venv");
    let interpreter = folder.join("bin/python");
    let requirements = python_requirements();
    let wanted = fs::read_to_string(&requirements)
        .map_err(|error| format!("{}: {error}", requirements.display()))?;
    // Written last, so an interrupted installation is done again.
    let stamp = folder.join("requirements.installed");
    if interpreter.is_file() && fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
        return Ok(interpreter);
    }
    println!("making the private Python environment {}", folder.display());
    let venv = Job::new("python3").args(["-m", "venv", "--clear"]).args([&folder]);
    let made = venv.limit(Duration::from_secs(120)).run();
    if !made.ok {
        return Err(format!("python3 -m venv: {}", made.phrase));
    }
    let pip = Job::new(&interpreter)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
        .args([&requirements]);
    let installed = pip.limit(Duration::from_secs(900)).run();
    if !installed.ok {
        let (python, list) = (interpreter.display(), requirements.display());
        let phrase = installed.phrase;
        return Err(format!("pip: {phrase}; run: {python} -m pip install --requirement {list}"));
    }
    fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))?;
    Ok(interpreter)
}

/// Asks rustup for a target of the pinned toolchain.
///
/// # Errors
///
/// Why it is not to be had.
pub fn rust_target(target: &str) -> Result<(), String> {
    let installed = place::output_of("rustup", &["target", "list", "--installed"]);
    if installed.is_some_and(|list| list.lines().any(|line| line == target)) {
        return Ok(());
    }
    rustup(&["target", "add", target])
}

/// Asks rustup for a component of the pinned toolchain or of nightly.
///
/// # Errors
///
/// Why it is not to be had.
pub fn rust_component(component: &str, nightly: bool) -> Result<(), String> {
    let mut list = vec!["component", "list", "--installed"];
    let mut add = vec!["component", "add", component];
    if nightly {
        nightly_toolchain()?;
        list.extend(["--toolchain", "nightly"]);
        add.extend(["--toolchain", "nightly"]);
    }
    // Installed ones are listed with their host: `miri-x86_64-unknown-linux-gnu`.
    let installed = place::output_of("rustup", &list);
    if installed.is_some_and(|list| list.lines().any(|line| line.starts_with(component))) {
        return Ok(());
    }
    rustup(&add)
}

/// Makes sure of a nightly toolchain, whichever is there.
///
/// # Errors
///
/// Why it is not to be had.
pub fn nightly_toolchain() -> Result<(), String> {
    if place::output_of("rustup", &["run", "nightly", "rustc", "--version"]).is_some() {
        return Ok(());
    }
    rustup(&["toolchain", "install", "nightly", "--profile", "minimal"])
}

fn rustup(arguments: &[&str]) -> Result<(), String> {
    let shown = format!("rustup {}", arguments.join(" "));
    let output = Command::new("rustup")
        .args(arguments)
        .current_dir(place::root())
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        println!("installed: {shown}");
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason given");
    Err(format!("{shown}: {last}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_names_the_one_command() {
        let missing =
            Missing { needs: vec![CMAKE, BROWSER], why: "installing them takes root".to_owned() };
        assert_eq!(
            missing.to_string(),
            "missing: CMake (for HDF5), Chromium (for the tests of the web page); installing them \
             takes root; run: sudo apt-get install -y cmake chromium"
        );
        assert!(missing.lacks(CMAKE) && !missing.lacks(C_COMPILER));
    }
}
