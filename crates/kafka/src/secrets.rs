//! Secrets from a file or the environment: every user of the host can read a command line (`ps`), and a configuration
//! is printed, copied and committed.
//!
//! `NAME.file = PATH` and `NAME.env = VARIABLE` replace `NAME`, for secret settings ([`secret`]). Refuses a secret that
//! is missing, empty, not text, above 64 KiB, longer than one line (except PEM), or set twice. No message contains a
//! part of a secret. Source: `docs/kafka.md`, "Passwords".

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;

use super::settings::SettingError;
use fullcount_core::sink::secret;

/// Bytes of a secret: PEM with a chain of certificates has some 10 KiB.
const LONGEST: u64 = 64 << 10;

/// The settings with every secret in its place.
pub(super) fn in_place(
    pairs: impl IntoIterator<Item = (String, String)>,
) -> Result<BTreeMap<String, String>, SettingError> {
    let mut all = BTreeMap::new();
    let mut fetched = Vec::new();
    for (name, value) in pairs {
        let from = [(".file", read as fn(&str) -> _), (".env", look)].into_iter().find_map(
            |(end, fetch)| {
                Some((name.strip_suffix(end).filter(|name| secret(name))?.to_owned(), fetch))
            },
        );
        match from {
            None => drop(all.insert(name, value)),
            Some((secret, fetch)) => fetched.push((secret, name, value, fetch)),
        }
    }
    for (secret, name, value, fetch) in fetched {
        let refuse = |why: String| SettingError { name: name.clone(), value: value.clone(), why };
        let found = fetch(&value).and_then(|text| one_line(&secret, text)).map_err(refuse)?;
        if all.insert(secret.clone(), found).is_some() {
            return Err(refuse(format!("{secret} is set twice: leave one of them out")));
        }
    }
    Ok(all)
}

fn read(path: &str) -> Result<String, String> {
    // A pipe without a writer would block; a link, as Kubernetes uses it, is followed.
    let about = fs::metadata(path).map_err(|e| format!("cannot be read: {e}"))?;
    if !about.is_file() {
        return Err("is no regular file".into());
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|e| format!("cannot be read: {e}"))?;
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|e| format!("cannot be read: {e}"))?;
    if bytes.len() as u64 > LONGEST {
        return Err(format!("is larger than a secret may be, {LONGEST} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "is no UTF-8 text".into())
}

fn look(variable: &str) -> Result<String, String> {
    match std::env::var(variable) {
        Ok(text) => Ok(text),
        Err(std::env::VarError::NotPresent) => {
            Err("no such variable in the environment of this process".into())
        }
        Err(std::env::VarError::NotUnicode(_)) => Err("is no UTF-8 text".into()),
    }
}

/// Without the end of the line that editors and `echo` leave.
fn one_line(secret: &str, mut text: String) -> Result<String, String> {
    if text.ends_with('\n') {
        text.truncate(text.len() - if text.ends_with("\r\n") { 2 } else { 1 });
    }
    if text.is_empty() {
        return Err("is empty".into());
    }
    if text.contains('\0') || (text.contains(['\n', '\r']) && !secret.ends_with(".pem")) {
        return Err("has more than one line, or NUL".into());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, value: &str) -> Result<BTreeMap<String, String>, SettingError> {
        in_place([(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn a_secret_comes_from_a_file_or_the_environment() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        let file = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            one("sasl.password.file", path.to_str().unwrap())
        };
        for text in ["hush", "hush\n", "hush\r\n"] {
            assert_eq!(file(text.as_bytes()).unwrap()["sasl.password"], "hush");
        }
        assert_eq!(file(b" two words \n").unwrap()["sasl.password"], " two words ");
        // Every process has it.
        let path_here = std::env::var("PATH").unwrap();
        assert_eq!(one("ssl.key.password.env", "PATH").unwrap()["ssl.key.password"], path_here);
        fs::write(&path, "-----BEGIN\nA\n-----END\n").unwrap();
        let pem = one("ssl.key.pem.file", path.to_str().unwrap()).unwrap();
        assert_eq!(pem["ssl.key.pem"], "-----BEGIN\nA\n-----END");
        // librdkafka's own files, and names that are no secrets, are left alone.
        for name in ["sasl.oauthbearer.assertion.file", "ssl.ca.file", "client.id.env"] {
            assert_eq!(one(name, "x").unwrap()[name], "x");
        }
    }

    #[test]
    fn a_secret_that_is_not_there_is_told_and_never_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        let shown = path.display().to_string();
        let said = |name: &str, value: &str| one(name, value).unwrap_err().to_string();
        let missing = said("sasl.password.file", &shown);
        assert!(missing.starts_with(&format!("sasl.password.file = {shown}: cannot be read: ")));
        for (bytes, words) in [
            (&b""[..], "is empty"),
            (b"\n", "is empty"),
            (b"hush\nhush", "more than one line"),
            (b"hu\0sh", "or NUL"),
            (b"hush\xff", "no UTF-8"),
            (&[b'h'; 65_537], "larger than a secret may be, 65536 bytes"),
        ] {
            fs::write(&path, bytes).unwrap();
            let error = said("sasl.password.file", &shown);
            assert!(error.contains(words) && !error.contains("hush"), "{error}");
        }
        assert!(
            said("sasl.password.file", dir.path().to_str().unwrap()).contains("no regular file")
        );
        assert!(said("sasl.password.file", "/dev/zero").contains("no regular file"));
        let none = "FULLCOUNT_NO_SUCH_VARIABLE";
        assert!(said("sasl.password.env", none).contains("no such variable in the environment"));
        fs::write(&path, "hush").unwrap();
        let twice = [("sasl.password", "hush"), ("sasl.password.file", &shown)];
        let twice = in_place(twice.map(|(n, v)| (n.to_owned(), v.to_owned()))).unwrap_err();
        let twice = twice.to_string();
        assert!(twice.ends_with("sasl.password is set twice: leave one of them out"), "{twice}");
        assert!(!twice.contains("hush"), "{twice}");
    }
}
