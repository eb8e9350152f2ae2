//! Tests of the server over real loopback connections, with a client of its own.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::AtomicBool;

use fullcount_core::ledger::{Entries, Ledger, Sheet};
use fullcount_core::products::Products;
use fullcount_core::time::PulseTime;
use fullcount_core::view::{Axis, PixelMap, Plot, PlotColumn, PlotKind, Projection};
use serde_json::Value;

use super::*;
use crate::status::Facts;
use crate::{LiveOptions, LiveSink, live};
use fullcount_core::sink::Sink;

fullcount_core::counters! {
    /// A short chain.
    enum T {
        In "receive.packets" Packets Sum "receive" In "datagrams received" "";
        Ok "receive.accepted" Packets Sum "receive" Accepted "handed on" "";
        Lost "receive.lost" Packets Sum "receive" Missing(Socket) "missing" "enlarge the buffer";
        BadSize "decode.bad_size" Packets Sum "receive" Rejected "of wrong length" "ask the sender";
        Version "decode.version" Packets Sum "receive" Rejected "of another version" "update";
        Noise "decode.noise" Readouts Sum "geometry" Rejected "readouts, not packets" "";
    }
}

pub(crate) struct Fixed(Ledger);

impl StatusSource for Fixed {
    fn entries(&self) -> Entries {
        self.0.read()
    }

    fn facts(&self) -> Facts {
        Facts { title: "test <run>".into(), running: true, started: 7, ..Facts::default() }
    }
}

pub(crate) fn status() -> Arc<dyn StatusSource> {
    let sheet = Sheet::new(T::catalogue());
    sheet.add(T::In as usize, 10);
    sheet.add(T::Ok as usize, 7);
    sheet.add(T::BadSize as usize, 1);
    sheet.add(T::Version as usize, 2);
    sheet.add(T::Lost as usize, 4);
    let ledger = Ledger::default();
    ledger.register(sheet);
    Arc::new(Fixed(ledger))
}

pub(crate) fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// A page over a picture of 2 × 2 and a spectrum, with three events in it.
fn page() -> (PageServer, LiveSink) {
    let pixels = PixelMap { columns: 2, rows: 2, cell: vec![0, 1, 2, 3], ..PixelMap::default() };
    let plot =
        |id: &str, kind| Plot { id: id.into(), title: id.into(), kind, gates: vec![], log: false };
    let x = Axis {
        column: PlotColumn::OffsetNs,
        label: "Time of flight".into(),
        unit: "µs".into(),
        scale: 1000.0,
        first: 0,
        last: 4000,
        bins: 4,
    };
    let (right, up) = ("x".to_owned(), "y".to_owned());
    let sum = Projection { x: right, y: up, columns: 2, rows: 2, cell: vec![0, 0, 0, 3] };
    let plots = vec![
        plot("image", PlotKind::Image),
        plot("tof", PlotKind::Histogram(x)),
        plot("sum", PlotKind::Projection(sum)),
    ];
    let (mut sink, view) = live(plots, pixels, LiveOptions::default()).unwrap();
    let mut p = Products::default();
    p.events.open_pulse(PulseTime(0));
    for (offset, pixel) in [(100, 1), (1500, 4), (1600, 4)] {
        p.events.push(offset, pixel);
    }
    sink.push(&Arc::new(p)).unwrap();
    sink.tick(Duration::ZERO).unwrap();
    (PageServer::start(loopback(), Some(view), status()).unwrap(), sink)
}

/// Sends `text` unchanged and returns status, head in lower case, and body.
pub(crate) fn raw(server: &PageServer, text: &[u8]) -> (u16, String, Vec<u8>) {
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    // A server that accepts no connection fails the test instead of blocking it.
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(text).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), answer[end + 4..].to_vec())
}

pub(crate) fn get(server: &PageServer, path: &str) -> (u16, String, Vec<u8>) {
    raw(
        server,
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes(),
    )
}

fn post(server: &PageServer, path: &str, headers: &str) -> u16 {
    let text = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost:8080\r\n{headers}Connection: close\r\nContent-Length: 0\r\n\r\n"
    );
    raw(server, text.as_bytes()).0
}

pub(crate) fn json_of(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

fn cells(body: &[u8]) -> (Value, Vec<u32>) {
    let n = u32::from_le_bytes(body[4..8].try_into().unwrap()) as usize;
    let words = body[8 + n..].chunks_exact(4);
    let cells = words.map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect();
    (json_of(&body[8..8 + n]), cells)
}

#[test]
fn every_file_of_the_page_is_served_under_its_policy_and_names_no_other_host() {
    let (server, _sink) = page();
    for file in page::FILES {
        let (status, head, body) = get(&server, file.path);
        assert_eq!(status, 200, "{}", file.path);
        assert!(head.contains("content-security-policy: default-src 'self'"), "{head}");
        assert!(head.contains(&format!("content-type: {}", file.kind)), "{head}");
        let text = String::from_utf8(body).unwrap();
        assert!(!text.is_empty(), "{}", file.path);
        let foreign = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!foreign.contains("http://") && !foreign.contains("https://"), "{}", file.path);
        for inline in ["<script>", " onclick=\"", "style=\"", "<style"] {
            assert!(!text.contains(inline), "{}: the policy forbids {inline}", file.path);
        }
    }
}

#[test]
fn each_module_of_the_page_is_one_that_is_served() {
    for file in page::FILES.iter().filter(|f| f.path.ends_with(".js")) {
        for line in file.text.lines().filter(|l| l.starts_with("import ")) {
            let name = line.split('"').nth(1).unwrap().trim_start_matches("./");
            let path = format!("/page/{name}");
            assert!(page::FILES.iter().any(|f| f.path == path), "{}: {path}", file.path);
        }
    }
}

/// A run whose places of losses are watched.
struct Watched(Fixed);

impl StatusSource for Watched {
    fn entries(&self) -> Entries {
        self.0.entries()
    }

    fn facts(&self) -> Facts {
        let lost_shared = vec![(vec!["nic", "socket"], 3)];
        Facts { lost: Some([0, 0, 0, 1, 0, 0, 0, 3]), lost_shared, ..self.0.facts() }
    }
}

#[test]
fn watched_places_win_over_the_counters_own_and_shared_losses_are_listed() {
    let sheet = Sheet::new(T::catalogue());
    sheet.add(T::Lost as usize, 4);
    let ledger = Ledger::default();
    ledger.register(sheet);
    let source: Arc<dyn StatusSource> = Arc::new(Watched(Fixed(ledger)));
    let server = PageServer::start(loopback(), None, source).unwrap();
    let s = json_of(&get(&server, "/api/state").2);
    assert_eq!((&s["lost"]["socket"], &s["lost"]["unknown"]), (&1.into(), &3.into()));
    assert_eq!(s["totals"]["lost"], 4);
    assert_eq!(s["lost_shared"][0]["places"][1], "socket");
    assert_eq!(s["lost_shared"][0]["packets"], 3);
}

fullcount_core::counters! {
    /// A detector whose senders number what packets carry.
    enum Carried {
        Count "container_events.count" ContainerEvents Sum "decode" Note "seen" "";
        Lost "container_events.lost" ContainerEvents Sum "decode" Missing(Unknown) "never came" "look";
        AtLeast "container_events.lost_at_least" Times Sum "decode" Note "gaps that may be longer" "look";
        Missing "container_events.missing" ContainerEvents Sum "decode" Note "may come" "";
    }
}

#[test]
fn what_is_numbered_instead_of_packets_is_told_in_its_unit_and_is_a_loss() {
    let sheet = Sheet::new(Carried::catalogue());
    let all = [(Carried::Count, 900), (Carried::Lost, 40), (Carried::Missing, 7)];
    all.into_iter().for_each(|(line, n)| sheet.add(line as usize, n));
    let ledger = Ledger::default();
    ledger.register(sheet);
    let server = PageServer::start(loopback(), None, Arc::new(Fixed(ledger))).unwrap();
    let s = json_of(&get(&server, "/api/state").2);
    let of = &s["lost_numbered"][0];
    assert_eq!((&of["key"], &of["unit"]), (&"container_events".into(), &"container events".into()));
    assert_eq!((&of["lost"], &of["missing"], &of["count"]), (&40.into(), &7.into(), &900.into()));
    assert_eq!(of["lost_at_least"], 0);
    assert_eq!((&of["places"]["unknown"], &s["totals"]["lost"]), (&40.into(), &0.into()));
    assert_eq!(s["anything_lost"], true);
    let line =
        s["ledger"].as_array().unwrap().iter().find(|l| l["name"] == "container_events.lost");
    assert_eq!(line.unwrap()["severity"], "loss");
    let metrics = String::from_utf8_lossy(&get(&server, "/metrics").2).into_owned();
    let lost = metrics.lines().find(|l| l.starts_with("fullcount_container_events_lost_total{"));
    let lost = lost.expect("a line of its own");
    assert!(
        lost.contains("unit=\"container events\",role=\"missing\"") && lost.ends_with(" 40"),
        "{lost}"
    );
}

#[test]
fn a_gap_of_nothing_that_may_be_whole_turns_is_a_loss() {
    let sheet = Sheet::new(Carried::catalogue());
    sheet.add(Carried::AtLeast as usize, 1);
    let ledger = Ledger::default();
    ledger.register(sheet);
    let server = PageServer::start(loopback(), None, Arc::new(Fixed(ledger))).unwrap();
    let s = json_of(&get(&server, "/api/state").2);
    let of = &s["lost_numbered"][0];
    assert_eq!(
        (&of["lost"], &of["lost_at_least"], &s["anything_lost"]),
        (&0.into(), &1.into(), &true.into())
    );
}

#[test]
fn the_state_has_totals_losses_hops_ledger_and_plots() {
    let (server, _sink) = page();
    let (status, head, body) = get(&server, "/api/state");
    assert_eq!(status, 200);
    assert!(head.contains("application/json"));
    let s = json_of(&body);
    assert_eq!(s["schema"], "fullcount/state/1");
    assert_eq!(s["run"]["title"], "test <run>");
    assert_eq!(
        (s["totals"]["packets"].as_u64(), s["totals"]["lost"].as_u64()),
        (Some(10), Some(4))
    );
    assert_eq!((s["lost"]["socket"].as_u64(), s["lost"]["link"].as_u64()), (Some(4), Some(0)));
    assert_eq!((s["balance"].as_u64(), s["anything_lost"].as_bool()), (Some(0), Some(true)));
    assert_eq!(s["hops"][0]["difference"], 0);
    let most = &s["rejected"]["most"];
    assert_eq!((&s["rejected"]["packets"], &most["value"]), (&3.into(), &2.into()));
    assert_eq!((&most["name"], &most["todo"]), (&"decode.version".into(), &"update".into()));
    assert_eq!(s["ledger"][2]["todo"], "enlarge the buffer");
    assert_eq!(s["ledger"][2]["severity"], "loss");
    assert_eq!((s["plots"][1]["id"].as_str(), s["window_s"].as_f64()), (Some("tof"), Some(5.0)));
}

#[test]
fn plots_carry_their_counts_and_are_not_sent_twice() {
    let (server, _sink) = page();
    let (status, _, body) = get(&server, "/api/plot/image");
    let (head, counts) = cells(&body);
    assert_eq!((status, counts), (200, vec![1, 0, 0, 2]));
    let (_, _, body) = get(&server, "/api/plot/tof?mode=current");
    assert_eq!(cells(&body).1, [1, 2, 0, 0]);
    let version = head["version"].as_u64().unwrap();
    let (status, _, body) = get(&server, &format!("/api/plot/image?after={version}"));
    assert_eq!((status, body.len()), (204, 0));
    let (_, _, body) = get(&server, "/api/pixels");
    assert_eq!(body, [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
}

#[test]
fn a_projection_carries_its_sums_and_says_of_how_many_pixels() {
    let (server, _sink) = page();
    let (head, counts) = cells(&get(&server, "/api/plot/sum").2);
    assert_eq!((head["kind"].as_str(), counts), (Some("projection"), vec![1, 0, 0, 2]));
    let (status, _, body) = get(&server, "/api/pixels?plot=sum");
    assert_eq!((status, &body[..]), (200, &[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0][..]));
    for unknown in ["tof", "nothing"] {
        assert_eq!(get(&server, &format!("/api/pixels?plot={unknown}")).0, 404, "{unknown}");
    }
}

#[test]
fn metrics_are_text_for_prometheus() {
    let (server, _sink) = page();
    let (status, head, body) = get(&server, "/metrics");
    assert_eq!(status, 200);
    assert!(head.contains("text/plain; version=0.0.4"));
    let text = String::from_utf8(body).unwrap();
    assert!(text.contains("# TYPE fullcount_receive_packets_total counter"), "{text}");
}

#[test]
fn clearing_works_for_this_page_and_not_for_others() {
    let (server, mut sink) = page();
    for foreign in [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Origin: http://localhost:8081\r\n",
        "Origin: \u{e9}\r\n",
    ] {
        assert_eq!(post(&server, "/api/clear", foreign), 403, "{foreign}");
    }
    sink.tick(Duration::from_secs(1)).unwrap();
    assert_eq!(cells(&get(&server, "/api/plot/image").2).1, [1, 0, 0, 2], "nothing was cleared");
    let own = "Origin: http://localhost:8080\r\nSec-Fetch-Site: same-origin\r\n";
    assert_eq!(post(&server, "/api/clear?plot=image", own), 202);
    sink.tick(Duration::from_secs(2)).unwrap();
    assert_eq!(cells(&get(&server, "/api/plot/image").2).1, [0; 4]);
    assert_eq!(cells(&get(&server, "/api/plot/tof").2).1, [1, 2, 0, 0]);
    assert_eq!(post(&server, "/api/clear", ""), 202, "programs that are no browsers may");
    sink.tick(Duration::from_secs(3)).unwrap();
    assert_eq!(cells(&get(&server, "/api/plot/tof").2).1, [0; 4]);
    sink.finish().unwrap();
    assert_eq!(post(&server, "/api/clear", ""), 409, "a run that has ended keeps its pictures");
}

#[test]
fn a_rebound_name_reads_and_clears_nothing() {
    let (server, mut sink) = page();
    let port = server.addr().port();
    let ask = |line: &str, hosts: &[&str]| {
        let hosts: String = hosts.iter().map(|h| format!("Host: {h}\r\n")).collect();
        let text =
            format!("{line} HTTP/1.1\r\n{hosts}Connection: close\r\nContent-Length: 0\r\n\r\n");
        let (status, head, body) = raw(&server, text.as_bytes());
        (status, head, String::from_utf8_lossy(&body).into_owned())
    };
    for path in ["/", "/api/state", "/metrics", "/api/plot/image"] {
        let (status, head, body) = ask(&format!("GET {path}"), &["evil.example:8080"]);
        assert_eq!(status, 421, "{path}: {body}");
        assert!(body.contains("'evil.example'") && body.contains("web.hosts"), "{body}");
        assert!(body.contains(&format!("http://localhost:{port}/")), "{body}");
        assert!(head.contains("nosniff") && head.contains("text/plain"), "{head}");
    }
    // What a rebound page sends: its own name, and to the browser it is all one site.
    let rebound = "evil.example\r\nOrigin: http://evil.example\r\nSec-Fetch-Site: same-origin";
    assert_eq!(ask("POST /api/clear", &[rebound]).0, 421);
    sink.tick(Duration::from_secs(1)).unwrap();
    assert_eq!(cells(&get(&server, "/api/plot/image").2).1, [1, 0, 0, 2], "nothing was cleared");
    let own = format!("127.0.0.1:{port}");
    for (line, hosts, status) in [
        ("GET /api/state", &[own.as_str()][..], 200),
        ("GET /api/state", &["[::1]:9999"][..], 200),
        ("GET /api/state", &["localhost", "localhost"][..], 400),
        ("GET /api/state", &[][..], 400),
        ("GET http://evil.example/api/state", &["localhost"][..], 421),
        ("GET http://localhost/api/state", &["evil.example"][..], 421),
        ("GET http://localhost/api/state", &["localhost"][..], 200),
        ("GET /api/state", &["localhost@evil.example"][..], 421),
        ("GET /api/state", &["localhost:80:80"][..], 421),
        ("GET /api/state", &["\u{e9}"][..], 421),
    ] {
        assert_eq!(ask(line, hosts).0, status, "{line} {hosts:?}");
    }
}

#[test]
fn a_configured_name_is_served() {
    let reserved = PageServer::reserve(loopback()).unwrap().called(&["DAQ.example.org".to_owned()]);
    let server = PageServer::start_on(reserved, None, status()).unwrap();
    let ask = |host: &str| {
        raw(
            &server,
            format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        )
        .0
    };
    assert_eq!((ask("daq.example.org:443"), ask("other.example.org")), (200, 421));
}

/// What a connection gives until its end; the server may end it with a reset.
fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut part) {
        answer.extend_from_slice(&part[..n]);
    }
    answer
}

#[test]
fn three_hundred_dripping_connections_shut_nobody_out() {
    let (server, _sink) = page();
    let mut many = Vec::new();
    for k in 0..300 {
        let mut stream = TcpStream::connect(server.addr()).unwrap();
        stream.write_all(b"GET /api/state HTTP/1.1\r\nX-Drip: ").unwrap();
        many.push(stream);
        // From the same address, in the midst of it.
        if k % 60 == 59 {
            assert_eq!(get(&server, "/api/state").0, 200, "with {k} others");
        }
    }
    // Each drips on; those that had to make room find out now or at the next byte.
    for stream in &mut many {
        let _ended = stream.write_all(b"x");
    }
    assert_eq!(get(&server, "/api/state").0, 200);
    // Their time-out is longer than any answer takes: connections that have ended by now were ended for a new one.
    let open = many.iter().filter(|stream| {
        stream.set_nonblocking(true).unwrap();
        let look = (&mut &**stream).read(&mut [0; 16]);
        look.is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
    });
    let open = open.count();
    assert!((1..=slots::MOST_OF_ONE).contains(&open), "{open} of 300 are left");
}

#[test]
fn silent_and_dripping_requests_are_hung_up_on() {
    let (server, _sink) = page();
    let begin = |text: &[u8]| {
        let mut stream = TcpStream::connect(server.addr()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(text).unwrap();
        stream
    };
    for mut stream in [begin(b""), begin(b"GET / HTTP/1.1\r\nHost: loc")] {
        // Ten seconds later; `pace` has the rules on a clock of the test's own. Its end, not our time-out:
        match stream.read(&mut [0; 1]) {
            Ok(n) => assert_eq!(n, 0),
            Err(e) => assert_eq!(e.kind(), io::ErrorKind::ConnectionReset),
        }
    }
}

#[test]
fn a_request_that_never_ends_is_cut_off_in_size() {
    let (server, _sink) = page();
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ").unwrap();
    let _cut = stream.write_all(&vec![b'x'; 1 << 20]);
    assert!(!String::from_utf8_lossy(&rest(&mut stream)).contains("200 OK"));
    // A body that is announced and does not come holds up no answer.
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    let text = "POST /api/clear HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\nx";
    stream.write_all(text.as_bytes()).unwrap();
    let answer = String::from_utf8_lossy(&rest(&mut stream)).into_owned();
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
}

#[test]
fn axis_and_window_change_and_refuse() {
    let (server, mut sink) = page();
    let axis = "/api/axis?plot=tof&axis=x&first=0&last=8000&bins=";
    assert_eq!(post(&server, &format!("{axis}2"), ""), 202);
    assert_eq!(post(&server, "/api/window?seconds=10", ""), 202);
    sink.tick(Duration::from_secs(1)).unwrap();
    assert_eq!(cells(&get(&server, "/api/plot/tof").2).1, [0, 0], "counted anew from here");
    assert_eq!(json_of(&get(&server, "/api/state").2)["window_s"], 10.0);
    for (path, status) in [
        (format!("{axis}0"), 400),
        (format!("{axis}9000"), 400),
        (format!("{axis}x"), 400),
        ("/api/axis?plot=image&axis=x&first=0&last=2&bins=1".to_owned(), 400),
        ("/api/axis?plot=none&axis=x&first=0&last=2&bins=1".to_owned(), 404),
        ("/api/axis?plot=tof".to_owned(), 400),
        ("/api/window?seconds=0".to_owned(), 400),
        ("/api/window?seconds=61".to_owned(), 400),
        ("/api/clear?plot=none".to_owned(), 404),
    ] {
        assert_eq!(post(&server, &path, ""), status, "{path}");
    }
}

#[test]
fn bad_requests_get_an_answer_and_the_next_one_works() {
    let (server, _sink) = page();
    for (path, status) in [
        ("/nothing", 404),
        ("/api/plot/none", 404),
        ("/api/plot/%ff%fe", 400),
        ("/api/plot/image?mode=other", 400),
        ("/api/plot/image?after=-1", 400),
        ("/../../etc/passwd", 404),
        ("/page/../page/main.js", 404),
        ("/api/clear", 405),
    ] {
        assert_eq!(get(&server, path).0, status, "{path}");
    }
    let close = "Host: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    for method in ["POST", "PUT", "DELETE"] {
        let text = format!("{method} /api/state HTTP/1.1\r\n{close}");
        assert_eq!(raw(&server, text.as_bytes()).0, 405, "{method}");
    }
    assert_eq!(raw(&server, b"rubbish\r\n\r\n").0, 400);
    let old = raw(&server, b"GET /api/state HTTP/1.0\r\n\r\n");
    assert_eq!(old.0, 200, "no Host header is needed");
    // A client that leaves in the middle of its request.
    drop(TcpStream::connect(server.addr()).unwrap().write_all(b"GET /api/pl"));
    assert_eq!(get(&server, "/api/state").0, 200);
}

#[test]
fn a_run_without_plots_still_shows_its_counters() {
    let server = PageServer::start(loopback(), None, status()).unwrap();
    assert_eq!(json_of(&get(&server, "/api/state").2)["totals"]["packets"], 10);
    assert_eq!(get(&server, "/api/plot/image").0, 404);
    assert_eq!(get(&server, "/api/pixels").2, b"");
    assert_eq!(post(&server, "/api/clear", ""), 404);
}

#[test]
fn a_port_in_use_is_refused_with_the_address_and_what_to_do() {
    let taken = std::net::TcpListener::bind(loopback()).unwrap();
    let addr = taken.local_addr().unwrap();
    let error = PageServer::start(addr, None, status()).unwrap_err().to_string();
    assert!(error.contains(&addr.to_string()) && error.contains("--web"), "{error}");
    let elsewhere = "192.0.2.1:0".parse().unwrap();
    let error = PageServer::start(elsewhere, None, status()).unwrap_err().to_string();
    assert!(error.contains("192.0.2.1:0") && error.contains("address of this machine"), "{error}");
}

#[test]
fn stopping_frees_the_port_though_viewers_are_connected() {
    let (server, _sink) = page();
    let addr = server.addr();
    let viewer = TcpStream::connect(addr).unwrap();
    server.stop();
    let again = PageServer::start(addr, None, status());
    assert!(again.is_ok(), "{:?}", again.err());
    drop(viewer);
}

/// A run that ends when told to.
struct Ending(AtomicBool);

impl StatusSource for Ending {
    fn entries(&self) -> Entries {
        Ledger::default().read()
    }

    fn facts(&self) -> Facts {
        Facts { running: self.0.load(Relaxed), ..Facts::default() }
    }
}

#[test]
fn an_open_page_sees_the_end_of_the_run_before_the_server_goes() {
    let run = Arc::new(Ending(true.into()));
    let reserved = PageServer::reserve(loopback()).unwrap();
    // Longer than any test takes: only the page's question can end the wait.
    let patience = Duration::from_secs(3600);
    let server = PageServer::start_with(reserved, None, run.clone(), patience).unwrap();
    let addr = server.addr();
    assert_eq!(json_of(&get(&server, "/api/state").2)["run"]["running"], true);
    run.0.store(false, Relaxed);
    let stopping = std::thread::spawn(move || server.stop());
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.write_all(b"GET /api/state HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"running\":false"), "{answer}");
    stopping.join().unwrap();
}

#[test]
fn a_server_on_all_addresses_names_one_that_a_browser_can_open() {
    let server = PageServer::start("0.0.0.0:0".parse().unwrap(), None, status()).unwrap();
    let port = server.addr().port();
    assert_eq!(server.url(), format!("http://127.0.0.1:{port}/"));
}
