//! Where the blocks of a page are run: a folder that looks like a clone, and a separate network with an `eth0`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fullcount_lab::namespace::{Layout, NamespaceNetwork};

use super::blocks::root;

/// Time limit of a command: it turns a hang into a failure, also on a machine that is busy with something else.
const LIMIT: Duration = Duration::from_secs(300);
/// What runs until Ctrl-C, or for a minute, gets it after this time.
const LONG_ENOUGH: Duration = Duration::from_secs(3);
/// Pause between two looks at a command.
const LOOK: Duration = Duration::from_millis(20);

/// The folder and the network of a page.
pub struct Room {
    folder: tempfile::TempDir,
    network: NamespaceNetwork,
    /// Lines that change the shell itself, for the commands that follow.
    before: String,
    running: Vec<Run>,
    number: usize,
    python: Option<Child>,
}

/// A running command.
struct Run {
    command: String,
    child: Child,
    said: PathBuf,
    begun: Instant,
}

impl Run {
    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }

    fn failed(&self, why: &str) -> String {
        format!("{}\n{why}; it said:\n{}", self.command, self.said())
    }

    /// True once the program in the shell handles Ctrl-C: before that it would only die of it.
    fn takes_ctrl_c(&self) -> bool {
        let id = self.child.id();
        let read = |path: String| fs::read_to_string(path).unwrap_or_default();
        // The shell makes way for its last command, or waits for it.
        let own = (read(format!("/proc/{id}/comm")).trim() == "fullcount").then(|| id.to_string());
        let children = read(format!("/proc/{id}/task/{id}/children"));
        own.into_iter().chain(children.split_whitespace().map(str::to_owned)).any(|process| {
            let status = read(format!("/proc/{process}/status"));
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
            // Signal n is bit n - 1, and SIGINT is 2.
            caught.is_some_and(|mask| mask & 0b10 != 0)
        })
    }

    fn interrupt(&self) {
        // To the whole group, as a terminal does.
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-INT", "--", &group]).status();
    }

    fn kill(&mut self) {
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.child.wait();
    }

    /// Ctrl-C, and then an end as one should be: nothing or something lost, but no failure.
    fn end(mut self) -> Result<(), String> {
        self.interrupt();
        let asked = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return match status.code() {
                    Some(0 | 3) => Ok(()),
                    _ => Err(self.failed(&format!("{status} after Ctrl-C"))),
                };
            }
            if asked.elapsed() > LIMIT {
                self.kill();
                return Err(self.failed("does not end after Ctrl-C"));
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// True if the command ends by Ctrl-C in everyday use.
fn ends_by_hand(command: &str) -> bool {
    let verbs = ["fullcount send", "fullcount demo"];
    verbs.iter().any(|verb| command.starts_with(verb))
}

/// True if the command runs the engine: one at a time, as all want the same port and page.
fn runs(command: &str) -> bool {
    let verb = ["fullcount run", "fullcount receive"].iter().any(|verb| command.starts_with(verb));
    verb && !command.contains("--print-config")
}

/// True if the command is one that listens until Ctrl-C.
fn listens(command: &str) -> bool {
    runs(command) && !command.contains("pcap:")
}

impl Room {
    pub fn new() -> Room {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        fs::create_dir_all(at.join("docs/results")).expect("made");
        for name in ["vectors", "docs/examples"] {
            std::os::unix::fs::symlink(root().join(name), at.join(name)).expect("linked");
        }
        fs::create_dir(at.join("deploy")).expect("made");
        for name in ["detector.toml", "instances.sh"] {
            fs::copy(root().join("deploy").join(name), at.join("deploy").join(name))
                .expect("copied");
        }
        let layout = Layout { purpose: "docs".into(), hosts: 1, links: vec![] };
        let network = NamespaceNetwork::build(&layout).expect("a network");
        let ip = |words: &[&str]| network.ip(0, words.iter().copied()).expect("an interface");
        ip(&["link", "add", "eth0", "type", "veth", "peer", "name", "far0"]);
        for name in ["far0", "eth0"] {
            ip(&["link", "set", name, "up"]);
        }
        ip(&["address", "add", "10.0.0.2/24", "dev", "eth0"]);
        Room { folder, network, before: String::new(), running: vec![], number: 0, python: None }
    }

    pub fn save(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).expect("written");
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let binary = Path::new(env!("CARGO_BIN_EXE_fullcount"));
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", binary.parent().expect("a folder").display());
        let mut command = self.network.command(0, program);
        command.current_dir(self.folder.path()).env("PATH", path).process_group(0);
        command
    }

    /// Runs command lines one after another, like a reader with a terminal for each: a command that listens runs until
    /// the next one that listens is started, or the block ends.
    pub fn shell(&mut self, commands: &[String]) -> Result<(), String> {
        // Back from Python, which may have had files open.
        self.leave_python();
        let done = commands.iter().try_for_each(|command| self.one(command));
        let ended = self.end();
        done.and(ended)
    }

    fn leave_python(&mut self) {
        if let Some(mut python) = self.python.take() {
            let _ = python.kill();
            let _ = python.wait();
        }
    }

    fn one(&mut self, command: &str) -> Result<(), String> {
        if ["export ", "cd "].iter().any(|word| command.starts_with(word)) {
            self.before += &format!("{command}\n");
            return Ok(());
        }
        if runs(command) {
            self.end()?;
        }
        self.number += 1;
        let said = self.folder.path().join(format!(".said-{}", self.number));
        let out = File::create(&said).expect("a file");
        let script = format!("set -o pipefail\n{}{command}", self.before);
        let mut bash = self.command("bash");
        bash.args(["-c", &script]).stdin(Stdio::null());
        bash.stdout(out.try_clone().expect("a file")).stderr(out);
        let child = bash.spawn().expect("bash is there");
        let mut run = Run { command: command.to_owned(), child, said, begun: Instant::now() };
        loop {
            if let Some(status) = run.child.try_wait().expect("a child") {
                // A recording may lack packets, and a receiver lose some: the ledger then says so.
                let told = status.code() == Some(3) && runs(command);
                return match status.success() || told {
                    true => Ok(()),
                    false => Err(run.failed(&status.to_string())),
                };
            }
            if listens(command) && run.said().contains("listening on ") {
                self.running.push(run);
                return Ok(());
            }
            let long = run.begun.elapsed() > LONG_ENOUGH;
            if ends_by_hand(command) && long && run.takes_ctrl_c() {
                return run.end();
            }
            if run.begun.elapsed() > LIMIT {
                run.kill();
                return Err(run.failed(&format!("not done after {} s", LIMIT.as_secs())));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Ends what listens.
    fn end(&mut self) -> Result<(), String> {
        let all: Vec<Run> = self.running.drain(..).collect();
        // Each is ended, even after one that failed.
        let ends: Vec<_> = all.into_iter().map(Run::end).collect();
        ends.into_iter().collect()
    }

    /// Runs a block in the page's Python, where the names of earlier blocks are known.
    pub fn python(&mut self, interpreter: &Path, code: &str) -> Result<(), String> {
        const DRIVER: &str = "import json, sys, traceback\nnames = {}\nfor line in sys.stdin:\n    try:\n        \
            exec(compile(json.loads(line), 'block', 'exec'), names)\n        said = ''\n    except BaseException:\n        \
            said = traceback.format_exc()\n    print('\\n' + json.dumps({'failed': said}), flush=True)\n";
        if self.python.is_none() {
            let mut command = self.command(interpreter);
            command.args(["-u", "-c", DRIVER]).stdin(Stdio::piped()).stdout(Stdio::piped());
            self.python = Some(command.spawn().map_err(|e| e.to_string())?);
        }
        let child = self.python.as_mut().expect("started");
        let line = serde_json::Value::from(code).to_string() + "\n";
        child
            .stdin
            .as_mut()
            .expect("piped")
            .write_all(line.as_bytes())
            .map_err(|e| e.to_string())?;
        // One object a block, alone on its line, after the output of the block.
        for line in BufReader::new(child.stdout.as_mut().expect("piped")).lines() {
            let line = line.map_err(|e| e.to_string())?;
            let Ok(answer) = serde_json::from_str::<serde_json::Value>(&line) else { continue };
            let Some(failed) = answer["failed"].as_str() else { continue };
            return if failed.is_empty() { Ok(()) } else { Err(failed.to_owned()) };
        }
        Err("Python ended".into())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.running.iter_mut().for_each(Run::kill);
        self.leave_python();
    }
}
