//! The server over real connections: many clients, slow ones, rubbish; and what the section refuses.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use fullcount_core::ledger::{Entries, Ledger, Sheet};
use fullcount_core::status::Facts;

use super::*;
use crate::stop::Stop;

fullcount_core::counters! {
    /// A small run.
    enum T {
        In "receive.packets" Packets Sum "t" In "in" "";
    }
}

struct Run(Ledger);

impl StatusSource for Run {
    fn entries(&self) -> Entries {
        self.0.read()
    }

    fn facts(&self) -> Facts {
        Facts::default()
    }
}

fn config(text: &str) -> Config {
    Config::read(Some(("f.toml", text)), &[]).unwrap()
}

fn refused(text: &str) -> String {
    ControlPlan::new(&config(text)).err().expect("refused").to_string()
}

/// A server on a free port, and where.
fn server(stop: &Stop) -> (Box<dyn Serving>, String) {
    let plan = ControlPlan::new(&config("[control]\nlisten = \"127.0.0.1:0\"\n"));
    let port = plan.unwrap().reserve().unwrap().unwrap();
    let address = port.address.to_string();
    let (ledger, sheet) = (Ledger::default(), Sheet::new(T::catalogue()));
    sheet.add(T::In as usize, 3);
    ledger.register(sheet);
    let run: Arc<dyn StatusSource> = Arc::new(Run(ledger));
    let mut desk = Desk::default();
    let context = commands::Context {
        run: run.clone(),
        stop: stop.clone(),
        detector: "tube".into(),
        configuration: CurrentConfig::default(),
        mask: Arc::default(),
    };
    commands::register(&mut desk.commands, context);
    let run = crate::named::WithDesk { run, desk: Arc::new(desk) };
    (Box::new(port).serve(Arc::new(run)).unwrap(), address)
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// Sends one command, reads once.
fn ask(stream: &mut TcpStream, request: &[u8]) -> String {
    stream.write_all(request).unwrap();
    let mut buffer = [0; 9000];
    let n = stream.read(&mut buffer).unwrap();
    String::from_utf8(buffer[..n].to_vec()).unwrap()
}

#[test]
fn a_client_keeps_its_connection_and_exit_ends_the_run() {
    let stop = Stop::default();
    let (server, address) = server(&stop);
    assert_eq!(server.fact(), format!("commands at {address}"));
    let mut client = connect(&address);
    assert_eq!(ask(&mut client, b"STAT_GET 1"), "STAT_GET receive.packets 3");
    assert_eq!(ask(&mut client, b"\xff\xfe\n"), "Error: <BADCMD>");
    assert_eq!(ask(&mut client, b"DETECTOR_INFO_GET\n"), "DETECTOR_INFO_GET tube");
    assert!(!stop.requested());
    assert_eq!(ask(&mut client, b"EXIT"), "<OK>");
    assert!(stop.requested());
    assert_eq!(client.read(&mut [0; 10]).unwrap(), 0, "closed");
}

#[test]
fn a_hundred_clients_are_answered_while_others_send_without_reading() {
    let stop = Stop::default();
    let (_server, address) = server(&stop);
    let mut rude: Vec<TcpStream> = (0..10).map(|_| connect(&address)).collect();
    for stream in &mut rude {
        stream.set_nonblocking(true).unwrap();
        // Until neither side's buffers take more: nobody reads the replies.
        let line = [b"LEDGER_GET\n".as_slice(); 500].concat();
        for _ in 0..200 {
            if stream.write(&line).is_err() {
                break;
            }
        }
    }
    let mut clients: Vec<TcpStream> = (0..100).map(|_| connect(&address)).collect();
    for _ in 0..3 {
        for client in &mut clients {
            assert_eq!(
                ask(client, b"STAT_GET_NAME receive.packets"),
                "STAT_GET_NAME receive.packets 3"
            );
        }
    }
    assert!(!stop.requested());
}

/// Bytes that this process has in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
}

#[test]
fn ten_million_random_bytes_in_random_pieces_cost_their_sender_only() {
    let stop = Stop::default();
    let (_server, address) = server(&stop);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        // xorshift64*: any numbers will do, the same each time.
        seed ^= seed >> 12;
        seed ^= seed << 25;
        seed ^= seed >> 27;
        seed.wrapping_mul(0x2545_f491_4f6c_dd1d)
    };
    let words: [&[u8]; 8] =
        [b"STAT_GET ", b"HELP\n", b"AUTH x\n", b"WHY", b" ", b"\n", b"\r\n", b"CONFIG_GET\n"];
    let mut clients: Vec<TcpStream> = Vec::new();
    let (mut sent, before) = (0, resident());
    let mut bystander = connect(&address);
    let mut buffer = vec![0; 1 << 16];
    while sent < 10_000_000 {
        if clients.len() < 20 {
            let client = connect(&address);
            client.set_nonblocking(true).unwrap();
            clients.push(client);
        }
        let at = random() as usize % clients.len();
        let mut piece: Vec<u8> = (0..1 + random() % 3000).map(|_| (random() >> 56) as u8).collect();
        if random() % 2 == 0 {
            piece.splice(0..0, words[random() as usize % 8].iter().copied());
        }
        let client = &mut clients[at];
        let gone = match client.write(&piece) {
            Ok(n) => {
                sent += n;
                false
            }
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => false,
            Err(_) => true,
        };
        // Half of them read, half of them never do.
        if at.is_multiple_of(2) {
            let _ = client.read(&mut buffer);
        }
        // Every random piece may close a connection, so only another client shows that the port still answers. It waits for
        // its reply: what it proves does not depend on how often the server's thread runs.
        let draw = random() % 500;
        if gone || draw == 0 {
            clients.swap_remove(at);
        }
        if draw == 1 {
            assert_eq!(ask(&mut bystander, b"STAT_GET 1"), "STAT_GET receive.packets 3");
        }
    }
    drop(clients);
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more in memory");
    assert!(!stop.requested());
    assert_eq!(ask(&mut bystander, b"STAT_GET 1"), "STAT_GET receive.packets 3");
    let mut client = connect(&address);
    assert_eq!(ask(&mut client, b"STAT_GET 1"), "STAT_GET receive.packets 3");
}

#[test]
fn beyond_the_bound_the_longest_idle_one_goes() {
    let (_server, address) = server(&Stop::default());
    let mut first = connect(&address);
    assert_eq!(ask(&mut first, b"CALIB_MODE_GET"), "CALIB_MODE_GET 0");
    let mut others: Vec<TcpStream> = Vec::new();
    for _ in 0..server::CLIENTS {
        let mut other = connect(&address);
        assert_eq!(ask(&mut other, b"CALIB_MODE_GET"), "CALIB_MODE_GET 0");
        others.push(other);
    }
    assert_eq!(first.read(&mut [0; 10]).unwrap_or(0), 0, "hung up on");
    assert_eq!(ask(others.last_mut().unwrap(), b"CALIB_MODE_GET"), "CALIB_MODE_GET 0");
}

#[test]
fn who_has_said_all_still_gets_the_reply() {
    let (_server, address) = server(&Stop::default());
    let mut client = connect(&address);
    client.write_all(b"HELP\nCMD_GET_COUNT\n").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut all = String::new();
    client.read_to_string(&mut all).unwrap();
    assert!(all.starts_with("HELP AUTH TOKEN: ") && all.ends_with("\nCMD_GET_COUNT 18\n"), "{all}");
}

#[test]
fn a_port_beyond_this_machine_needs_a_token_or_networks() {
    let listen = "[control]\nlisten = \"0.0.0.0:8888\"\n";
    assert!(refused(listen).contains("needs control.token_file"), "{}", refused(listen));
    assert!(refused("[control]\nlisten = \"8888\"\n").contains("127.0.0.1:8888"));
    let bad = format!("{listen}allow = [\"10.0.0.0/40\"]\n");
    assert!(refused(&bad).starts_with("control.allow = 10.0.0.0/40"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let with = format!("{listen}token_file = {:?}\n", file.display().to_string());
    assert!(refused(&with).starts_with("control.token_file = "), "{}", refused(&with));
    std::fs::write(&file, "short\n").unwrap();
    assert!(refused(&with).contains("16 to 256") && !refused(&with).contains("short"));
    std::fs::write(&file, "0123456789abcdef\n").unwrap();
    assert!(ControlPlan::new(&config(&with)).unwrap().address.is_some());
    let allowed = format!("{listen}allow = [\"10.0.0.0/8\"]\n");
    let plan = ControlPlan::new(&config(&allowed)).unwrap();
    let of = |address: &str| plan.trust.of(address.parse().unwrap());
    assert_eq!(of("127.0.0.1"), Some(Access::All));
    assert_eq!(of("::ffff:127.0.0.1"), Some(Access::All));
    assert_eq!((of("10.9.9.9"), of("11.0.0.1")), (Some(Access::Read), None));
    let closed = ControlPlan::new(&Config::default()).unwrap();
    // Without a port nobody has asked for a way to change the run.
    assert_eq!(closed.trust.of("127.0.0.1".parse().unwrap()), Some(Access::Read));
    assert!(closed.address.is_none());
    let none = folder.path().join("none").display().to_string();
    assert!(refused(&format!("[control]\nfolder = {none:?}\n")).starts_with("control.folder = "));
}
