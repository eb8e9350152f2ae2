//! `cargo xtask schemas`: makes the code of `fullcount_messages::generated` from the schemas in `crates/messages/schemas`.
//!
//! The compiler, flatc, is that of the crate `flatc-fork`, which carries FlatBuffers' own C++ sources and builds them with
//! CMake; its version is that of the crate `flatbuffers` in the root `Cargo.toml`. It is built in a small package
//! under `target/schemas`, so that nobody else's build waits for it. With `--check` nothing is written: what differs
//! is named, exit 1.
//!
//! Refuses other arguments (exit 2). Source: `docs/dependencies.md`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use crate::{place, setup};

/// The release of `flatc-fork` that carries flatc 25.12.19.
const RELEASE: &str = "=0.6.0";
/// What it must say of itself: the version of the crate `flatbuffers`.
const VERSION: &str = "flatc version 25.12.19";

/// Builds the compiler, then writes or compares.
pub fn run(arguments: &[String]) -> ExitCode {
    let check = match arguments {
        [] => false,
        [one] if one == "--check" => true,
        _ => {
            eprintln!("error: `cargo xtask schemas` takes nothing, or --check");
            return ExitCode::from(2);
        }
    };
    match compile(check) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compile(check: bool) -> Result<String, String> {
    setup::ensure(&[setup::C_COMPILER, setup::CPP_COMPILER, setup::CMAKE])
        .map_err(|missing| missing.to_string())?;
    let flatc = flatc()?;
    let out = place::target().join("schemas/code");
    fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let schemas = place::root().join("crates/messages/schemas");
    let folder = place::root().join("crates/messages/src/generated");
    let (mut files, mut differ) = (0, Vec::new());
    let entries =
        fs::read_dir(&schemas).map_err(|error| format!("{}: {error}", schemas.display()))?;
    for entry in entries.flatten() {
        let schema = entry.path();
        let Some(name) = schema.file_stem().map(|name| name.to_string_lossy().into_owned()) else {
            continue;
        };
        let made = Command::new(&flatc).args(["--rust", "-o"]).arg(&out).arg(&schema).output();
        let made = made.map_err(|error| format!("{}: {error}", flatc.display()))?;
        if !made.status.success() {
            return Err(String::from_utf8_lossy(&made.stdout).into_owned());
        }
        let (from, to) =
            (out.join(format!("{name}_generated.rs")), folder.join(format!("{name}.rs")));
        let code = fs::read(&from).map_err(|error| format!("{}: {error}", from.display()))?;
        if fs::read(&to).ok().as_deref() != Some(&code[..]) {
            differ.push(name);
            if !check {
                fs::write(&to, &code).map_err(|error| format!("{}: {error}", to.display()))?;
            }
        }
        files += 1;
    }
    differ.sort();
    match (check, differ.as_slice()) {
        (_, []) => Ok(format!("{files} schemas: the code is what {VERSION} makes of them")),
        (false, _) => Ok(format!("{files} schemas: written anew: {}", differ.join(", "))),
        (true, _) => Err(format!(
            "the code of {} is not what flatc makes of the schema: run `cargo xtask schemas`",
            differ.join(", ")
        )),
    }
}

/// Builds flatc, some minutes the first time, and says where it is.
fn flatc() -> Result<PathBuf, String> {
    let package = place::target().join("schemas/flatc");
    let write = |name: &str, text: &str| {
        let path = package.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    fs::create_dir_all(package.join("src"))
        .map_err(|error| format!("{}: {error}", package.display()))?;
    write(
        "Cargo.toml",
        &format!(
            "[package]\nname = \"flatc\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
             [dependencies]\nflatc-fork = \"{RELEASE}\"\n\n[workspace]\n"
        ),
    )?;
    write(
        "src/main.rs",
        "//! Says where flatc is.\nfn main() {\n    println!(\"{}\", flatc_fork::flatc().display());\n}\n",
    )?;
    println!("building flatc; the first time takes some minutes");
    let said = Command::new("cargo")
        .args(["run", "--release", "--target-dir"])
        .arg(place::target().join("schemas/build"))
        .current_dir(&package)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if !said.status.success() {
        return Err("flatc did not build".to_owned());
    }
    let flatc = PathBuf::from(String::from_utf8_lossy(&said.stdout).trim());
    let version = Command::new(&flatc)
        .arg("--version")
        .output()
        .map_err(|error| format!("{}: {error}", flatc.display()))?;
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    if version != VERSION {
        return Err(format!("flatc-fork {RELEASE} carries `{version}`, wanted `{VERSION}`"));
    }
    Ok(flatc)
}
