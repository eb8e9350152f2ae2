//! Asks a service's page for its state and its threads' processor time.
//!
//! Bounded: 5 s for each answer, 8 MiB of it. Refuses places that are no name or address, and answers that are none of a service.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use fullcount_core::text::is_control;
use serde_json::Value;

/// Port of a page as it comes.
const PORT: u16 = 8080;
/// Longest wait for a connection, and for each part of an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest answer.
const LARGEST: u64 = 8 << 20;
/// Name of the processor time of a thread in `/metrics`.
const THREAD: &str = "fullcount_thread_cpu_seconds_total{thread=\"";

/// Where a service has its page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageAddress {
    host: String,
    port: u16,
}

impl fmt::Display for PageAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl PageAddress {
    /// Reads `HOST`, `HOST:PORT`, `[IPv6]:PORT`, and the address of the page as people copy it.
    pub fn read(text: &str) -> Result<PageAddress, String> {
        let wrong =
            || format!("{text}: expected HOST, HOST:PORT or [IPv6]:PORT (usual port: {PORT})");
        let bare = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
        let (host, port) = match bare.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => match bare.rsplit_once(':') {
                Some((host, port)) if !host.contains(':') => (host, Some(port)),
                Some(_) => return Err(wrong()),
                None => (bare, None),
            },
        };
        let letter =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '%');
        let port = port.map_or(Some(PORT), |port| port.parse().ok().filter(|p| *p > 0));
        let port = port.ok_or_else(wrong)?;
        if host.is_empty() || host.len() > 253 || !host.chars().all(letter) {
            return Err(wrong());
        }
        Ok(PageAddress { host: host.to_owned(), port })
    }

    fn connect(&self) -> Result<(TcpStream, SocketAddr), String> {
        let mut last = "the name has no address".to_owned();
        let addresses = (self.host.as_str(), self.port).to_socket_addrs();
        for address in addresses.map_err(|e| e.to_string())? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => return Ok((stream, address)),
                Err(e) => last = e.to_string(),
            }
        }
        Err(last)
    }
}

/// What a service said of itself.
#[derive(Debug, Clone)]
pub struct TopLook {
    /// When it was asked.
    pub at: Instant,
    /// `/api/state`.
    pub state: Value,
    /// Processor time of its threads, seconds, by name.
    pub threads: BTreeMap<String, f64>,
}

/// Asks once.
pub fn look(place: &PageAddress) -> Result<TopLook, String> {
    let at = Instant::now();
    let state: Value = serde_json::from_str(&get(place, "/api/state")?)
        .map_err(|e| format!("/api/state is no JSON: {e}"))?;
    if state["schema"] != "fullcount/state/1" {
        return Err("/api/state is not that of a fullcount service".into());
    }
    let threads = get(place, "/metrics")?.lines().filter_map(thread).take(1000).collect();
    Ok(TopLook { at, state, threads })
}

/// A thread's name and processor time.
fn thread(line: &str) -> Option<(String, f64)> {
    let (name, value) = line.strip_prefix(THREAD)?.rsplit_once("\"} ")?;
    Some((name.replace("\\\"", "\""), value.parse().ok()?))
}

fn get(place: &PageAddress, path: &str) -> Result<String, String> {
    let (mut stream, address) = place.connect()?;
    let failed = |e: std::io::Error| format!("{path}: {e}");
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
    // The page answers to its address by whatever name it was found. 1.0: the whole answer in one piece.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let (mut all, end) = (Vec::new(), Instant::now() + PATIENCE);
    let mut stream = stream.take(LARGEST);
    let mut part = [0; 16 << 10];
    loop {
        match stream.read(&mut part).map_err(failed)? {
            0 => break,
            n => all.extend_from_slice(&part[..n]),
        }
        if Instant::now() > end {
            return Err(format!("{path}: no whole answer in {} s", PATIENCE.as_secs()));
        }
    }
    body(path, &String::from_utf8_lossy(&all))
}

/// What stands behind the head of a good answer.
fn body(path: &str, answer: &str) -> Result<String, String> {
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(format!("{path}: no HTTP answer"))?;
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    match status {
        "200" => Ok(body.to_owned()),
        _ => Err(format!("{path}: the server answers {}", plain(status))),
    }
}

/// Text of others without what steers a terminal.
pub fn plain(text: &str) -> String {
    text.chars().take(500).map(|c| if is_control(c) { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_people_write_them() {
        for (text, shown) in [
            ("daq7", "daq7:8080"),
            ("10.0.0.1:81", "10.0.0.1:81"),
            ("http://127.0.0.1:8080/", "127.0.0.1:8080"),
            ("[::1]", "[::1]:8080"),
            ("[::1]:9", "[::1]:9"),
        ] {
            assert_eq!(PageAddress::read(text).unwrap().to_string(), shown);
        }
        for bad in ["", ":80", "a b", "h:0", "h:70000", "::1", "https://h", "h/x"] {
            assert!(PageAddress::read(bad).unwrap_err().contains("HOST:PORT"), "{bad}");
        }
    }

    #[test]
    fn answers_are_taken_apart() {
        assert_eq!(body("/x", "HTTP/1.0 200 OK\r\nA: b\r\n\r\nhello").unwrap(), "hello");
        assert_eq!(
            body("/x", "HTTP/1.0 404 No\r\n\r\n").unwrap_err(),
            "/x: the server answers 404"
        );
        assert_eq!(plain("a\u{1b}b\u{202e}c\u{2028}"), "a b c ");
        assert_eq!(body("/x", "SSH-2.0").unwrap_err(), "/x: no HTTP answer");
        let line = "fullcount_thread_cpu_seconds_total{thread=\"receive-2\"} 1.25";
        assert_eq!(thread(line), Some(("receive-2".into(), 1.25)));
        assert_eq!(thread("process_threads 9"), None);
    }
}
