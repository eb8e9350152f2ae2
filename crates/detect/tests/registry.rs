//! Detectors by name: what is known, what is not, and what is announced but not there yet.

use fullcount_core::products::Want;
use fullcount_detect::detector::{Setup, Threads, builtin};

#[test]
fn all_builtin_detectors_configure_with_nothing_but_their_name() {
    let registry = builtin();
    for (kind, pixels) in [
        ("sonde", 64),
        ("multigrid", 3200),
        ("multiblade", 6144),
        ("gdgem", 16384),
        ("sequence", 0),
    ] {
        let detector = registry.configure(kind, &Setup::default()).unwrap();
        assert_eq!((detector.name(), detector.pixels().pixels()), (kind, pixels));
    }
    let sonde = registry.configure("sonde", &Setup::default()).unwrap();
    assert!(sonde.tick().1, "the tick length is assumed unless configured");
    let plots: Vec<_> = sonde.plots().into_iter().map(|p| p.id).collect();
    assert_eq!(plots, ["image", "tof", "adc", "adc_pixel"]);
}

#[test]
fn unknown_names_list_the_known_ones_and_plugins_say_that_they_are_to_come() {
    let registry = builtin();
    let says = |kind| registry.configure(kind, &Setup::default()).err().unwrap().to_string();
    assert_eq!(
        says("sond"),
        "detector.kind: unknown detector \"sond\"; known: sonde, multigrid, multiblade, gdgem, sequence, fragments, heap"
    );
    assert!(says("plugin:./x.so").contains("shared-library detectors are not supported"));
}

/// What a counter advises to set or mentions must be a key of that kind, or one that every kind has.
#[test]
fn counters_name_keys_that_exist() {
    let registry = builtin();
    let mut seen = 0;
    for kind in ["sonde", "multigrid", "multiblade", "gdgem", "sequence"] {
        let detector = registry.configure(kind, &Setup::default()).unwrap();
        let decoder = detector.decoder(Want::default(), &Threads::of(1)).unwrap();
        let sheets = decoder.sheets();
        for line in sheets.iter().flat_map(|sheet| sheet.lines()) {
            let text = format!("{} {}", line.meaning, line.todo);
            for after in text.split("detector.").skip(1) {
                let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
                let key = &after[..end.unwrap_or(after.len())];
                if ["kind", "geometry", "calibration"].contains(&key) {
                    continue;
                }
                seen += 1;
                let options = format!("{key} = []");
                let setup = Setup { options, ..Setup::default() };
                let said = registry.configure(kind, &setup).err().map(|e| e.to_string());
                let unknown = said.is_some_and(|said| said.contains("unknown field"));
                assert!(!unknown, "{kind}: {}: there is no key detector.{key}: {text}", line.name);
            }
        }
    }
    assert!(seen > 10, "{seen} keys in all texts");
}

/// Committed packets of each format pass the header test of their own kind and no other.
#[test]
fn header_tests_tell_the_formats_apart() {
    let registry = builtin();
    let vector = |path: &str| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/");
        std::fs::read(format!("{folder}{path}")).expect("committed")
    };
    let mut container = vec![0x60, 0, 0, 0x58, 0, 4, 0, 7, 0, 0, 0xbb];
    container.extend([1, 2, 3, 4, 0x21, 0x43, 0x65, 0x87, 0, 0, 1, 0xee]);
    let mut frame = b"\0\0\0\x01VM3\x10".to_vec();
    frame.extend([0; 8 + 6]);
    let numbered = [&b"FCSQ"[..], &[0; 20]].concat();
    let packets = [
        ("sonde", vector("sonde/d6_3_events.bin")),
        ("multiblade", vector("multiblade/pkt13.bin")),
        ("multigrid", container),
        ("gdgem", frame),
        ("sequence", numbered),
    ];
    for (own, packet) in &packets {
        let fits = registry.kinds().filter(|kind| kind.looks_right(packet));
        assert_eq!(fits.map(|kind| kind.name()).collect::<Vec<_>>(), [*own]);
        let cut = &packet[..packet.len() - 1];
        let fits: Vec<_> = registry.kinds().filter(|kind| kind.looks_right(cut)).collect();
        assert!(
            fits.iter().all(|kind| kind.name() == *own),
            "{own}: a damaged one is nobody else's"
        );
    }
    for foreign in [&b""[..], b"\x12\x34\x81\x80", &[0xff; 1500], b"GET / HTTP/1.1"] {
        assert!(registry.kinds().all(|kind| !kind.looks_right(foreign)), "{foreign:?}");
    }
}
