//! Where the fuzz targets start: the golden vectors, or a few inputs made here, in each target's form.
//!
//! Made inputs share no code with the parsers: frames by RFC 791, RFC 8200, RFC 768 and the tcpdump
//! list of link types, numbers by `docs/contracts.md`, "`sequence` payload". The seeds of a decoder come from its
//! golden vectors and from what the program says of its kind. A target that is not known here starts from nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::kinds::Decoder;
use crate::place;

/// Folders of a target's seeds; those that must be made are made in `folder/seeds/NAME`.
///
/// # Errors
///
/// A folder that cannot be read or written.
pub fn of(name: &str, folder: &Path) -> Result<Vec<PathBuf>, String> {
    let vectors = place::root().join("vectors");
    let folder = folder.join("seeds").join(name);
    let made = match name {
        // Whole captures.
        "pcap" => {
            let own = vectors.join("pcap");
            return match captures(&vectors, &folder) {
                Ok(()) => Ok(vec![own, folder]),
                Err(error) => Err(format!("{}: {error}", folder.display())),
            };
        }
        // Whole messages, the damaged ones too: libFuzzer looks into folders of folders.
        "flat" => return Ok(vec![vectors.join("flatbuffers")]),
        "structure" => write(&folder, &structures()),
        "frame" => write(&folder, &frames()),
        "spead" => streams(&vectors.join("spead"), &folder),
        "control" => write(&folder, &receives()),
        "stcp" => write(&folder, &sessions()),
        "framing" => write(&folder, &framed()),
        "intake" => write(&folder, &links()),
        "readout" => write(&folder, &readouts()),
        _ => return Ok(Vec::new()),
    };
    made.map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(vec![folder])
}

/// The folder of a decoder's seeds for the target of all decoders: its golden vectors, the packets of its sample, and of
/// numbered packets the orders that matter.
///
/// # Errors
///
/// A folder that cannot be read or written.
pub fn of_kind(kind: &Decoder, folder: &Path) -> Result<Vec<PathBuf>, String> {
    let folder = folder.join("seeds").join(&kind.name);
    let vectors = place::root().join("vectors").join(&kind.name);
    let made = packets_of(kind, &vectors).and_then(|mut seeds| {
        if kind.packets.first().is_some_and(|packet| packet.starts_with(MAGIC)) {
            // Streams told apart by sender, and by id alone.
            for (name, bytes) in numbers() {
                let by_id = [&[bytes[0], 1], &bytes[2..]].concat();
                seeds.extend([(format!("{name}_by_id"), by_id), (name, bytes)]);
            }
        }
        write(&folder, &seeds)
    });
    made.map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(vec![folder])
}

/// Set-ups that each packet is a seed for; the target takes the number modulo its own.
const SETUPS: u8 = 8;

/// An input of the target: kind (which the target takes from its environment), set-up, and each packet with its sender's
/// port behind 13 bits of length and 3 of port.
fn input(setup: u8, packets: &[(&[u8], u8)]) -> Vec<u8> {
    let mut input = vec![0, setup];
    for (packet, port) in packets.iter().filter(|(packet, _)| packet.len() < 1 << 13) {
        let head = packet.len() as u16 | u16::from(*port) << 13;
        input.extend(head.to_le_bytes());
        input.extend_from_slice(packet);
    }
    input
}

/// Each `.bin` of `vectors`, if the folder is there, each packet of the sample, and all of them in a row; set-ups in turn.
fn packets_of(kind: &Decoder, vectors: &Path) -> io::Result<Vec<Seed>> {
    let mut packets: Vec<Seed> = Vec::new();
    if vectors.is_dir() {
        for entry in fs::read_dir(vectors)? {
            let file = entry?.path();
            if file.extension().is_some_and(|extension| extension == "bin") {
                let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                packets.push((stem, fs::read(&file)?));
            }
        }
    }
    packets.sort();
    let sample = kind.packets.iter().enumerate();
    packets.extend(sample.map(|(n, packet)| (format!("sample_{n}"), packet.clone())));
    let row: Vec<(&[u8], u8)> = packets.iter().map(|(_, packet)| (&packet[..], 0)).collect();
    let rows = (0..SETUPS).map(|setup| (format!("all_{setup}"), input(setup, &row)));
    let each = (0u8..)
        .zip(&packets)
        .map(|(n, (name, packet))| (name.clone(), input(n % SETUPS, &[(&packet[..], 0)])));
    Ok(each.chain(rows).collect())
}

/// Streams of frames: two sources' blocks by `docs/fragments.md`, without a checksum, and each prefix around a few bytes.
fn framed() -> Vec<Seed> {
    let block = |source: u64, event: u64| {
        let words = [5 << 60 | event << 32 | source << 8, 0xa << 60 | 2 << 32];
        let mut bytes = (0x475a << 48 | 3u64 << 30 | 2).to_be_bytes().to_vec();
        bytes.extend((source << 32 | event).to_be_bytes());
        words.iter().for_each(|word: &u64| bytes.extend(word.to_le_bytes()));
        bytes
    };
    let blocks: Vec<u8> = (0..4).flat_map(|n| block(n % 2, n / 2)).collect();
    let stream = |choice: u8| [&[choice][..], &blocks].concat();
    let mut seeds: Vec<Seed> =
        [0, 0x18, 0x30].map(|choice| (format!("blocks_{choice:02x}"), stream(choice))).into();
    let prefixes: [&[u8]; 4] = [&[0, 2], &[2, 0], &[0, 0, 0, 2], &[2, 0, 0, 0]];
    for (choice, prefix) in (4u8..).zip(prefixes) {
        seeds
            .push((format!("prefix_{choice}"), [&[choice], prefix, b"ab", prefix, b"cd"].concat()));
    }
    seeds
}

/// Copies the captures of all kinds' vectors into `to`.
fn captures(vectors: &Path, to: &Path) -> io::Result<()> {
    let mut seeds = Vec::new();
    for folder in fs::read_dir(vectors)? {
        let Ok(files) = fs::read_dir(folder?.path()) else { continue };
        for file in files {
            let file = file?.path();
            if file.extension().is_some_and(|extension| extension == "pcap") {
                let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                seeds.push((stem, fs::read(&file)?));
            }
        }
    }
    write(to, &seeds)
}

/// Streams of SPEAD packets, each for four receivers.
fn streams(vectors: &Path, to: &Path) -> io::Result<()> {
    let mut seeds = Vec::new();
    for file in fs::read_dir(vectors)? {
        let file = file?.path();
        if file.extension().is_some_and(|extension| extension == "bin") {
            let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let bytes = fs::read(&file)?;
            let of = |choice: u8| (format!("{stem}_{choice}"), [&[choice], &bytes[..]].concat());
            seeds.extend([0, 1, 6, 63].map(of));
        }
    }
    seeds.extend(back_channel().map(|(name, bytes)| (name.to_owned(), bytes)));
    write(to, &seeds)
}

/// Messages of the back-channel, each behind its length in fours, and a descriptor alone: `docs/formats/spead.md`, section 4, and the head of
/// `crates/spead/src/feedback/message.rs`.
fn back_channel() -> [(&'static str, Vec<u8>); 4] {
    let message = |kind: u8, ranges: u8, fields: &[u64]| {
        let fields = fields.iter().flat_map(|field| field.to_be_bytes());
        let message: Vec<u8> =
            [b'F', b'C', b'S', b'B', 1, kind, 0, ranges].into_iter().chain(fields).collect();
        [&[(message.len() / 4) as u8][..], &message].concat()
    };
    let report = |n: u64| {
        message(1, 0, &[n, 50_000_000 * n, 20 * n, 600_000 * n, n, 1000 * n, n / 4, u64::MAX])
    };
    let reports: Vec<u8> = (1..40).flat_map(report).collect();
    let requests = [message(2, 1, &[2, 0, 64]), message(2, 2, &[3, 0, 1, 900, 1000])].concat();
    let totals = [message(3, 0, &[3, 51, 3000]), report(1)].concat();
    let pointers: [u64; 6] = [
        1 << 63 | 1 << 40 | 1,
        1 << 63 | 2 << 40 | 10,
        1 << 63 | 3 << 40,
        1 << 63 | 4 << 40 | 10,
        1 << 63 | 0x14 << 40 | 7,
        0x13 << 40,
    ];
    let pointers = pointers.iter().flat_map(|pointer| pointer.to_be_bytes());
    let head = [0x53, 4, 3, 5, 0, 0, 0, 7].into_iter().chain(pointers);
    let last = (0x12u64 << 40 | 4).to_be_bytes();
    let fields = *b"u\0\0\x20\0\0\0\0\0\x04";
    let descriptor: Vec<u8> = head.chain(last).chain(fields).collect();
    [("reports", reports), ("requests", requests), ("totals", totals), ("descriptor", descriptor)]
        .map(|(name, bytes)| (name, [&[0], &bytes[..]].concat()))
}

/// Structures of files: one of each thing that can stand in them.
fn structures() -> Vec<Seed> {
    let whole = |inside: &str| {
        let entry = r#"{"type":"group","name":"entry","attributes":[{"name":"NX_class","dtype":"string","values":"NXentry"}],"children":["#;
        format!(r#"{{"children":[{entry}{inside}]}}]}}"#).into_bytes()
    };
    let stream = |module: &str, more: &str| {
        let config = format!(r#""topic":"t","source":"s"{more}"#);
        whole(&format!(r#"{{"module":"{module}","config":{{{config}}}}}"#))
    };
    let mut all = vec![
        ("empty".to_owned(), br#"{"children":[]}"#.to_vec()),
        (
            "dataset".to_owned(),
            whole(
                r#"{"module":"dataset","config":{"name":"x","values":[1,2.5],"dtype":"double"}}"#,
            ),
        ),
        ("link".to_owned(), whole(r#"{"module":"link","config":{"name":"l","source":"/entry"}}"#)),
        (
            "mdat".to_owned(),
            whole(r#"{"module":"mdat","config":{"items":["start_time","end_time"]}}"#),
        ),
    ];
    for module in
        ["ev44", "ev43", "ev42", "f142", "ns10", "al00", "ep01", "ep00", "se00", "senv", "tdct"]
    {
        all.push((module.to_owned(), stream(module, "")));
    }
    all.push(("f144".to_owned(), stream("f144", r#","dtype":"double","value_units":"mm""#)));
    for module in ["da00", "hs01", "hs00", "ad00", "ADAr"] {
        all.push((module.to_owned(), stream(module, r#","type":"int32","shape":[4,3]"#)));
    }
    all
}

/// A name and the input.
type Seed = (String, Vec<u8>);

/// Writes each seed as `NAME.bin`.
fn write(to: &Path, seeds: &[Seed]) -> io::Result<()> {
    fs::create_dir_all(to)?;
    seeds.iter().try_for_each(|(name, seed)| fs::write(to.join(format!("{name}.bin")), seed))
}

/// Link types in the order of the target `frame`.
#[derive(Debug, Clone, Copy)]
enum Link {
    Ethernet,
    Cooked,
    Cooked2,
    RawIp,
    Loopback,
}

/// Inputs of the target `control`: what may be sent at a time, who sends, length (16 bits, big-endian), bytes; each
/// receive of `docs/operations.md`, and two that follow each other.
fn receives() -> Vec<Seed> {
    let all: [(&str, &[&str]); 7] = [
        ("one", &["STAT_GET 1"]),
        ("line", &["STAT_GET 1\r\n"]),
        ("lines", &["STAT_GET 1\nHELP\nCMD_GET 2\n"]),
        ("rubbish", &["stat_get", " \n", "\0\u{7f}"]),
        ("browser", &["POST / HTTP/1.1\r\n\r\n", "EXIT"]),
        ("token", &["EXIT", "AUTH 0123456789abcdef", "STAT_GET -1"]),
        ("end", &["CMD_GET_COUNT", "EXIT\n", "AUTH x", "AUTH x\nAUTH x"]),
    ];
    let receive = |text: &&str| {
        let length = (text.len() as u16).to_be_bytes();
        [&[7, 0, length[0], length[1]], text.as_bytes()].concat()
    };
    let seed = |(name, texts): (&str, &[&str])| {
        (name.to_owned(), texts.iter().flat_map(receive).collect())
    };
    all.into_iter().map(seed).collect()
}

/// Inputs of the target `stcp`: settings, then steps of nine bytes: what, and eight bytes of it.
fn sessions() -> Vec<Seed> {
    const OPEN: u8 = 11;
    let all: [(&str, &[u8]); 7] = [
        ("open", &[OPEN]),
        ("answered", &[OPEN, 3]),
        ("data", &[OPEN, 3, 4, 5, 0]),
        ("timeout", &[OPEN, 3, 4, 5, 7, 7, 7]),
        ("blind", &[OPEN, 3, 4, 1, 1, 2, 6]),
        ("frames", &[OPEN, 9, 9, 8]),
        ("abort", &[OPEN, 3, 4, 10]),
    ];
    let step = |what: &u8| [*what, 0, 0, 0, 1, 0, 0, 0x10, 0];
    let seed = |(name, steps): (&str, &[u8])| {
        let steps = steps.iter().flat_map(step);
        (name.to_owned(), std::iter::once(0).chain(steps).collect())
    };
    all.into_iter().map(seed).collect()
}

/// Inputs of the target `intake`: settings, then steps of eight bytes: what, and seven bytes of it. Each begins with the
/// probe, the question, the neighbour's address and the SYNs.
fn links() -> Vec<Seed> {
    const ARP: [u8; 8] = [24, 0, 1, 0, 0, 0, 0, 0];
    const LATER: [u8; 8] = [40, 0x20, 0, 0, 0, 0, 0, 0];
    // Stream, ACK of all that was sent, next number, flags, window.
    let segment = |stream: u8, flags: u8| [0, stream, 0, 64, 0, flags, 0x80, 0];
    let answer = |stream: u8| [0, stream, 0, 0, 0, 0x12, 0x60, 0];
    let submit = |stream: u8| [41, stream, 200, 0, 0, 0, 0, 0];
    let storm = |step: [u8; 8]| {
        [step[0] | 0x40, step[1], 0x3f, step[3], step[4], step[5], step[6], step[7]]
    };
    let all: [(&str, Vec<[u8; 8]>); 8] = [
        ("asked", vec![LATER, ARP]),
        ("connected", vec![answer(0), answer(1), answer(2)]),
        ("data", vec![answer(0), submit(0), segment(0, 16), submit(0), segment(0, 16)]),
        ("ended", vec![answer(0), submit(0), segment(0, 17), segment(1, 4), segment(2, 20)]),
        ("strays", vec![segment(3, 16), segment(3, 2), segment(3, 4), storm(segment(3, 16))]),
        ("storm", vec![answer(0), storm(answer(0)), storm(segment(0, 4))]),
        ("messages", vec![[28, 0, 8, 0, 0, 0, 0, 0], [28, 0, 3, 4, 2, 64, 1, 0]]),
        ("no_room", vec![[42, 0, 1, 2, 0, 0, 0, 0], answer(0), submit(0), segment(3, 16)]),
    ];
    let seed = |(name, steps): (&str, Vec<[u8; 8]>)| {
        let steps = [LATER, LATER, ARP].into_iter().chain(steps).flatten();
        (name.to_owned(), std::iter::once(0).chain(steps).collect())
    };
    all.into_iter().map(seed).collect()
}

/// Inputs of the target `readout`: options, then steps of five bytes: what, and four bytes of it: place (source in its upper
/// half), how many, words, and more.
fn readouts() -> Vec<Seed> {
    let (open, hang_up, close, later) = (0, 2, 3, [4, 0xff, 0xff, 0, 0]);
    let row = |place: u8, count: u8| [14, place << 4 | place, count, 4, 0];
    let at = |what: u8, place: u8| [what, place, 0, 0, 0];
    let three = || vec![at(open, 0), at(open, 1), at(open, 2)];
    let all: [(&str, Vec<[u8; 5]>); 8] = [
        ("events", vec![row(0, 9), row(1, 9), row(2, 9)]),
        ("ahead", [vec![row(0, 255); 90], vec![row(1, 9), row(2, 9)]].concat()),
        (
            "hung_up",
            vec![row(0, 9), at(hang_up, 0), at(open, 3), [14, 3, 9, 4, 0], at(close, 0), at(5, 0)],
        ),
        ("repeated", vec![row(0, 9), at(open, 3), [14, 3, 9, 4, 0]]),
        ("late", vec![row(0, 9), row(1, 9), later, at(5, 0), row(2, 9)]),
        ("blocks", vec![[11, 0, 3, 20, 0], [12, 0, 3, 20, 1], [11, 0x11, 9, 9, 0]]),
        ("damaged", vec![[13, 0, 3, 4, 17], [13, 0x11, 3, 4, 60], row(2, 9)]),
        ("unknown", vec![[14, 0x30, 1, 4, 0], row(1, 1)]),
    ];
    let seed = |choice: u8| {
        all.clone().into_iter().map(move |(name, steps)| {
            let steps = three().into_iter().chain(steps).flatten();
            (format!("{name}_{choice:02x}"), std::iter::once(choice).chain(steps).collect())
        })
    };
    [0, 1, 2, 0x20, 0xc0].into_iter().flat_map(seed).collect()
}

/// Inputs of the target `frame`: link type, time step, length (16 bits, big-endian), bytes.
fn frames() -> Vec<Seed> {
    use Link::*;
    let (v4, v6) = (ipv4(udp(b"readout"), None), ipv6(udp(b"readout"), None));
    let mut seeds: Vec<Seed> = Vec::new();
    let mut add = |name: &str, frames: &[(Link, &[u8])]| {
        let mut seed = Vec::new();
        for &(link, bytes) in frames {
            seed.extend([link as u8, 1]);
            seed.extend((bytes.len() as u16).to_be_bytes());
            seed.extend(bytes);
        }
        seeds.push((name.to_owned(), seed));
    };
    let ethernet = |kind: [u8; 2], packet: &[u8]| {
        let addresses = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        [&addresses[..], &kind, packet].concat()
    };
    let (ip4, ip6, arp) = ([8, 0], [0x86, 0xdd], [8, 6]);
    let tagged = ethernet([0x81, 0], &[&[0, 7][..], &ip4, &v4].concat());
    let twice = ethernet([0x88, 0xa8], &[&[0, 9, 0x81, 0, 0, 7][..], &ip4, &v4].concat());
    add("ethernet4", &[(Ethernet, &ethernet(ip4, &v4))]);
    add("ethernet6", &[(Ethernet, &ethernet(ip6, &v6))]);
    add("vlan", &[(Ethernet, &tagged), (Ethernet, &twice)]);
    add("arp", &[(Ethernet, &ethernet(arp, &[0; 46]))]);
    add("padded", &[(Ethernet, &[&ethernet(ip4, &v4)[..], &[0; 18]].concat())]);
    add(
        "cooked",
        &[(Cooked, &[&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0][..], &ip4, &v4].concat())],
    );
    let cooked2 = [&ip6[..], &[0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0], &v6].concat();
    add("cooked2", &[(Cooked2, &cooked2)]);
    add("raw", &[(RawIp, &v4), (RawIp, &v6)]);
    let loopback = |family: [u8; 4], packet: &[u8]| [&family[..], packet].concat();
    add(
        "loopback",
        &[(Loopback, &loopback([2, 0, 0, 0], &v4)), (Loopback, &loopback([0, 0, 0, 30], &v6))],
    );

    // A datagram in three parts: in order, out of order with a repeat, and one that overlaps.
    let whole = udp(&[0x5a; 40]);
    type Make = fn(Vec<u8>, Option<(u16, bool)>) -> Vec<u8>;
    for (name, make) in [("4", ipv4 as Make), ("6", ipv6 as Make)] {
        let part = |from: usize, to: usize| {
            make(whole[from..to].to_vec(), Some((from as u16 / 8, to < whole.len())))
        };
        let (first, middle, last) = (part(0, 16), part(16, 32), part(32, 48));
        let parts = |list: &[&Vec<u8>]| -> Vec<(Link, Vec<u8>)> {
            list.iter().map(|p| (RawIp, (*p).clone())).collect()
        };
        let mut add_parts = |what: &str, list: &[&Vec<u8>]| {
            let owned = parts(list);
            let borrowed: Vec<(Link, &[u8])> = owned.iter().map(|(l, p)| (*l, &p[..])).collect();
            add(&format!("fragments{name}_{what}"), &borrowed);
        };
        add_parts("in_order", &[&first, &middle, &last]);
        add_parts("mixed", &[&last, &first, &first, &middle]);
        add_parts("overlap", &[&first, &part(8, 32), &last]);
        add_parts("incomplete", &[&first, &last]);
    }
    seeds
}

/// A UDP datagram, ports 50011 and 9000, without a checksum.
fn udp(payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    let ports = [50_011u16, 9000, length, 0];
    ports.iter().flat_map(|word| word.to_be_bytes()).chain(payload.iter().copied()).collect()
}

/// An IPv4 packet; `part`: offset in 8 bytes, and whether more follow.
fn ipv4(payload: Vec<u8>, part: Option<(u16, bool)>) -> Vec<u8> {
    let (offset, more) = part.unwrap_or((0, false));
    let mut p = vec![0x45, 0];
    p.extend((20 + payload.len() as u16).to_be_bytes());
    p.extend([0, 7]);
    p.extend((offset | u16::from(more) << 13).to_be_bytes());
    p.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum: u32 = p.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    p.extend(payload);
    p
}

/// An IPv6 packet, with a fragment header for a `part`.
fn ipv6(payload: Vec<u8>, part: Option<(u16, bool)>) -> Vec<u8> {
    let fragment: Vec<u8> = match part {
        None => Vec::new(),
        Some((offset, more)) => {
            let field = (offset << 3 | u16::from(more)).to_be_bytes();
            [&[17, 0][..], &field, &[0, 0, 0, 7]].concat()
        }
    };
    let next = if part.is_some() { 44 } else { 17 };
    let mut p = vec![0x60, 0, 0, 0];
    p.extend((fragment.len() as u16 + payload.len() as u16).to_be_bytes());
    p.extend([next, 64]);
    for host in [1, 2] {
        p.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    p.extend(fragment);
    p.extend(payload);
    p
}

/// First bytes of a numbered packet: `docs/contracts.md`, "`sequence` payload".
const MAGIC: &[u8] = b"FCSQ";
/// An end mark's bit in a tag.
const END: u8 = 8;
/// A packet cut short.
const CUT: u8 = 16;
/// Another sender: the port, in the tag's upper three bits.
const SENDER: u8 = 32;

/// Orders of numbered packets: per packet a tag (stream id 0 to 7, end mark, damage, sender) and a number.
fn numbers() -> Vec<Seed> {
    let packet = |&(tag, number): &(u8, u64)| {
        let mut packet = [MAGIC, &u32::from(tag & 7).to_le_bytes()].concat();
        let number = number.to_le_bytes();
        let (first, second) = if tag & END == 0 { (number, [0; 8]) } else { ([0xff; 8], number) };
        packet.extend(first.into_iter().chain(second));
        packet.truncate(if tag & CUT == 0 { 24 } else { usize::from(tag >> 5) });
        (packet, tag >> 5)
    };
    let seed = |name: &str, packets: &[(u8, u64)]| {
        let packets: Vec<(Vec<u8>, u8)> = packets.iter().map(packet).collect();
        let packets: Vec<(&[u8], u8)> = packets.iter().map(|(p, port)| (&p[..], *port)).collect();
        (name.to_owned(), input(0, &packets))
    };
    let run = |tag: u8, from: u64, to: u64| (from..to).map(|n| (tag, n)).collect::<Vec<_>>();
    let ends = |tag: u8, total: u64| vec![(tag | END, total); 5];
    let two = (0..20).flat_map(|n| [(1, n), (1 | SENDER, n / 2 * 2)]).collect::<Vec<_>>();
    vec![
        seed("in_order", &[run(0, 0, 30), ends(0, 30)].concat()),
        seed("lost_tail", &[run(0, 0, 20), ends(0, 30)].concat()),
        seed("gap_copy_swap", &[(0, 0), (0, 1), (0, 3), (0, 3), (0, 5), (0, 4), (0, 2)]),
        // The target's window is 64 numbers.
        seed("beyond_the_window", &[run(0, 0, 3), run(0, 100, 103), vec![(0, 5)]].concat()),
        seed("joined_late", &run(0, 1 << 30, (1 << 30) + 5)),
        seed("again_after_the_end", &[run(0, 0, 9), ends(0, 9), run(0, 0, 5), ends(0, 5)].concat()),
        seed("again_without_an_end", &[run(0, 500, 510), run(0, 0, 9)].concat()),
        seed("two_senders_one_id", &[two, ends(1, 20), ends(1 | SENDER, 20)].concat()),
        seed("more_streams_than_places", &(0..8).map(|id| (id, 0)).collect::<Vec<_>>()),
        seed(
            "refused",
            &[(CUT, 0), (CUT | 7 << 5, 0), (0, 1 << 56), (END, u64::MAX), (0, u64::MAX)],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_and_samples_stand_behind_their_lengths() {
        let folder = std::env::temp_dir().join(format!("fullcount-seeds-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("a.bin"), [7u8; 300]).unwrap();
        fs::write(folder.join("notes.txt"), "no packet").unwrap();
        let packets = vec![vec![9; 4], vec![1; 1 << 13]];
        let kind = Decoder { name: "own".into(), geometry: None, packets };
        let seeds = packets_of(&kind, &folder).unwrap();
        assert_eq!(seeds.len(), 3 + usize::from(SETUPS));
        assert_eq!((&seeds[0].1[..4], seeds[0].1.len()), (&[0, 0, 0x2c, 1][..], 304));
        assert_eq!(seeds[1].1, [0, 1, 4, 0, 9, 9, 9, 9]);
        assert_eq!(seeds[2].1, [0, 2], "too long for an input");
        assert_eq!(seeds[3].1.len(), 2 + 302 + 6);
        assert_eq!(input(1, &[(&[5], 3)]), [0, 1, 1, 0x60, 5]);
        let none = packets_of(&kind, &folder.join("none")).unwrap();
        assert_eq!(none.len(), 2 + usize::from(SETUPS), "a kind without vectors");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn every_target_has_seeds_and_no_two_share_a_name() {
        let folder = std::env::temp_dir().join(format!("fullcount-of-{}", std::process::id()));
        for target in crate::fuzzing::names().unwrap() {
            if target == crate::fuzzing::DECODERS {
                continue;
            }
            let folders = of(&target, &folder).unwrap();
            let files = folders.iter().flat_map(|f| fs::read_dir(f).unwrap());
            assert!(files.count() > 5, "{target} starts from nothing");
        }
        let packets = vec![[MAGIC, &[0; 20]].concat()];
        let kind = Decoder { name: "numbered".into(), geometry: None, packets };
        let folders = of_kind(&kind, &folder).unwrap();
        assert_eq!(fs::read_dir(&folders[0]).unwrap().count(), 1 + 8 + 2 * numbers().len());
        for made in [frames(), numbers(), structures(), receives()] {
            let names: std::collections::BTreeSet<_> = made.iter().map(|(name, _)| name).collect();
            assert_eq!(names.len(), made.len());
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn frames_are_whole_behind_their_lengths() {
        for (name, seed) in frames() {
            let mut rest = &seed[..];
            while let [link, _, high, low, tail @ ..] = rest {
                assert!(*link < 5, "{name}");
                rest = tail.get(usize::from(u16::from_be_bytes([*high, *low]))..).expect(&name);
            }
            assert!(rest.is_empty(), "{name}");
        }
        // 20 B of header whose sum with its check field is all ones (RFC 791).
        let header = ipv4(vec![0; 8], None);
        let sum: u32 = header[..20].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }
}
