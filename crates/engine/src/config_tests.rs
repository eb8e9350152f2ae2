//! Configurations that are taken and that are refused; flags over files.

use super::*;

fn flags(pairs: &[(&str, &str)]) -> Vec<(String, toml::Value)> {
    pairs.iter().map(|(k, v)| (k.to_string(), (*v).into())).collect()
}

#[test]
fn flags_win_over_the_file_and_make_tables() {
    let file = "[source]\nurl = \"udp://127.0.0.1:1\"\n[engine]\nthreads = 2\n";
    let flags = flags(&[("source.url", "udp://127.0.0.1:2"), ("output.nexus.path", "a.nxs")]);
    let c = Config::read(Some(("f.toml", file)), &flags).unwrap();
    assert_eq!(c.source.url, OneOrMore::One("udp://127.0.0.1:2".into()));
    assert_eq!(c.engine.threads, 2);
    assert_eq!(c.section("output.nexus").unwrap(), "path = \"a.nxs\"\n");
}

#[test]
fn pulses_in_the_readouts_are_used_unless_another_way_is_chosen() {
    let pulse = |file: &str, pairs: &[(&str, &str)]| {
        Config::read(Some(("f.toml", file)), &flags(pairs)).unwrap().time.pulse
    };
    assert_eq!(pulse("[detector]\nkind = \"multigrid\"\n", &[]), "data");
    assert_eq!(pulse("", &[("detector.kind", "multigrid")]), "data");
    assert_eq!(pulse("[time]\nepoch = \"5\"\n", &[("detector.kind", "multigrid")]), "data");
    let chosen = "[time]\npulse = \"none\"\n[detector]\nkind = \"multigrid\"\n";
    assert_eq!(pulse(chosen, &[]), "none");
    assert_eq!(pulse(chosen, &[("time.pulse", "grid(14Hz)")]), "grid(14Hz)");
    for kind in ["sonde", "multiblade", "gdgem", "sequence", "unheard-of"] {
        assert_eq!(pulse("", &[("detector.kind", kind)]), "none", "{kind}");
    }
}

#[test]
fn an_unknown_key_is_named_with_its_line() {
    let file = "[source]\nurl = \"udp://127.0.0.1:1\"\nbufer = 3\n";
    let e = Config::read(Some(("f.toml", file)), &[]).unwrap_err().to_string();
    assert!(e.contains("f.toml") && e.contains("line 3") && e.contains("bufer"), "{e}");
}

#[test]
fn a_geometry_in_the_file_lies_beside_the_file_and_one_on_the_command_line_does_not() {
    let file = "[detector]\ngeometry = \"g.toml\"\ncalibration = \"c.json\"\n";
    let c = Config::read(Some(("sub/c.toml", file)), &[]).unwrap();
    assert_eq!(c.detector.geometry.unwrap(), PathBuf::from("sub/g.toml"));
    assert_eq!(c.detector.calibration.unwrap(), PathBuf::from("sub/c.json"));
    for (name, key) in PUBLISHED {
        let path = |c: Config| match key {
            "detector.geometry" => c.detector.geometry.unwrap(),
            _ => c.detector.calibration.unwrap(),
        };
        let file = format!("[detector]\n{name} = \"c.json\"\n");
        let c = Config::read(Some(("sub/c.toml", &file)), &[]).unwrap();
        assert_eq!(path(c), PathBuf::from("sub/c.json"));
        let over = flags(&[(&format!("detector.{name}"), "d.json")]);
        let c = Config::read(Some(("sub/c.toml", &file)), &over).unwrap();
        assert_eq!(path(c), PathBuf::from("d.json"));
        let own = key.trim_start_matches("detector.");
        let twice = format!("{file}{own} = \"e.json\"\n");
        let e = Config::read(Some(("c.toml", &twice)), &[]).unwrap_err().to_string();
        assert!(e.starts_with(&format!("{key} = \"c.json\": once")), "{e}");
    }
    let over = flags(&[("detector.geometry", "g.toml")]);
    let c = Config::read(Some(("sub/c.toml", file)), &over).unwrap();
    assert_eq!(c.detector.geometry.unwrap(), PathBuf::from("g.toml"));
}

#[test]
fn keys_of_text_take_text() {
    let text: Vec<_> = all_keys().filter(|key| key.is_text()).map(|key| key.path).collect();
    assert!(text.len() > 50, "{text:?}");
    for key in text {
        let mut all = flags(&[
            ("output.nexus.path", "a.nxs"),
            ("output.hits.file", "h.h5"),
            ("output.clusters.file", "c.h5"),
            ("output.kafka.topic", "t"),
            ("output.capture.file", "a.pcapng"),
        ]);
        let raw = [("brokers", "h"), ("topic", "t"), ("spool", "s")];
        all.extend(raw.map(|(k, v)| (format!("output.raw.{k}"), v.into())));
        // Numbers are text to keys with a unit (`plain`); truth values are to none.
        all.push((key.to_owned(), true.into()));
        let e = Config::read(None, &all).unwrap_err().to_string();
        assert!(e.contains("invalid type"), "{key} is no text: {e}");
    }
}

/// `output.kafka.options`, flat.
fn kafka_settings(c: &Config) -> Result<Vec<(String, String)>, Refusal> {
    let options = c.output.sections["kafka"]["options"].as_table().unwrap();
    section::settings("output.kafka.options", options)
}

#[test]
fn settings_of_librdkafka_are_one_key_or_nested_and_passwords_are_not_printed() {
    let file = "[output.kafka]\ntopic = \"t\"\n[output.kafka.options]\nlinger.ms = 5\n\
                \"sasl.password\" = \"hush\"\nssl.key.password = \"hush\"\n";
    let flags = flags(&[("output.kafka.options.socket.keepalive.enable", "true")]);
    let c = Config::read(Some(("f.toml", file)), &flags).unwrap();
    let mut settings = kafka_settings(&c).unwrap();
    settings.sort();
    let wanted = [
        ("linger.ms", "5"),
        ("sasl.password", "hush"),
        ("socket.keepalive.enable", "true"),
        ("ssl.key.password", "hush"),
    ];
    assert_eq!(settings, wanted.map(|(k, v)| (k.to_owned(), v.to_owned())));
    let printed = c.to_toml();
    assert!(!printed.contains("hush") && printed.matches("(hidden)").count() == 2, "{printed}");
    let list = "[output.kafka]\ntopic = \"t\"\noptions.x = [1]\n";
    let c = Config::read(Some(("f.toml", list)), &[]).unwrap();
    let e = kafka_settings(&c).unwrap_err().to_string();
    assert!(e.starts_with("output.kafka.options = x = [1]: text, a number"), "{e}");
}

#[test]
fn settings_of_a_source_are_those_of_a_topic_and_its_passwords_are_not_printed() {
    let file = "[source]\nurl = \"kafka://h/t\"\n[source.options]\nfetch.min.bytes = 5\n\
                \"sasl.password\" = \"hush\"\n";
    let c = Config::read(Some(("f.toml", file)), &[]).unwrap();
    let wanted = [("fetch.min.bytes", "5"), ("sasl.password", "hush")];
    let mut settings = section::settings("source.options", &c.source.options).unwrap();
    settings.sort();
    assert_eq!(settings, wanted.map(|(k, v)| (k.to_owned(), v.to_owned())));
    let printed = c.to_toml();
    assert!(!printed.contains("hush") && printed.matches("(hidden)").count() == 1, "{printed}");
    let flags = flags(&[("source.options.sasl.password", "hush")]);
    let c = Config::read(None, &flags).unwrap();
    let e = crate::open::SourcePlan::new(&c.source).err().unwrap().to_string();
    let begin = "source.options = sasl.password: only with kafka://, not with udp://127.0.0.1:9000";
    assert!(e.starts_with(begin) && !e.contains("hush"), "{e}");
}

#[test]
fn what_is_printed_reads_back_the_same() {
    let flags = flags(&[("output.nexus.path", "a.nxs"), ("time.tick", "125/2ns")]);
    let c = Config::read(None, &flags).unwrap();
    let again = Config::read(Some(("printed", &c.to_toml())), &[]).unwrap();
    assert_eq!(c.to_toml(), again.to_toml());
}

#[test]
fn an_output_that_is_not_there_is_refused_with_those_that_are() {
    let file = "[output.nexus]\npath = \"a.nxs\"\n\n[output.nexsu]\npath = \"b.nxs\"\n";
    let in_file = Config::read(Some(("f.toml", file)), &[]).unwrap_err().to_string();
    assert!(in_file.contains("line 4"), "{in_file}");
    let flag =
        Config::read(None, &flags(&[("output.nexsu.path", "b.nxs")])).unwrap_err().to_string();
    for said in [in_file, flag] {
        let known = [
            "`nexsu`",
            "`sink`",
            "`nexus`",
            "`hits`",
            "`clusters`",
            "`kafka`",
            "`raw`",
            "`capture`",
        ];
        assert!(known.iter().all(|name| said.contains(name)), "{said}");
    }
    let file = "[output.nexus]\npath = \"a.nxs\"\nfulsh = \"1s\"\n";
    let said = Config::read(Some(("f.toml", file)), &[]).unwrap_err().to_string();
    assert!(said.contains("line 3") && said.contains("`fulsh`"), "{said}");
}

#[test]
fn a_number_in_the_file_is_what_it_is_on_the_command_line() {
    let c = Config::read(
        Some((
            "f.toml",
            "[source]\nreceive_buffer = 67108864\n[time]\nepoch = 1700000000000000000\n\
             [output.capture]\nfile = 'c.pcapng'\nrotate_size = 1e9\nbuffer = 67_108_864\n\
             [output.raw]\nbrokers = 'b'\nspool = 's'\nspool_size = 4294967296\nbuffer = 8388608\n\
             [output.kafka]\nspool_size = 4294967296\n",
        )),
        &[],
    )
    .unwrap();
    assert_eq!(c.source.receive_buffer, "67108864");
    assert_eq!(c.time.epoch, "1700000000000000000");
    let printed = c.to_toml();
    for line in ["rotate_size = \"1000000000\"", "buffer = \"67108864\"", "buffer = \"8388608\""] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    assert_eq!(printed.matches("spool_size = \"4294967296\"").count(), 2, "{printed}");
    // What is printed is read again.
    assert_eq!(read(&printed).unwrap().to_toml(), printed);
    let c = read("[time]\nepoch = 2026-01-31T12:00:00Z\n").unwrap();
    assert_eq!(c.time.epoch, "2026-01-31T12:00:00Z");
}

fn read(file: &str) -> Result<Config, ConfigError> {
    Config::read(Some(("f.toml", file)), &[])
}

#[test]
fn a_number_without_its_unit_gets_the_sentence_of_the_command_line() {
    for (file, key) in [
        ("[engine]\nduration = 60\n", "engine.duration"),
        ("[engine]\nidle_exit = 2\n", "engine.idle_exit"),
        ("[engine]\nprobes = 1\n", "engine.probes"),
        ("[output.nexus]\npath = 'a.nxs'\nflush = 2\n", "output.nexus.flush"),
    ] {
        let c = read(file).unwrap();
        let Err(e) = crate::run::RunPlan::new("run", &c) else { panic!("{file}") };
        let text = e.to_string();
        assert!(text.contains(key), "{text}");
        let words = ["for example 500ms or 8s", "100ms to 60s"];
        assert!(words.iter().any(|w| text.contains(w)), "{text}");
    }
    let e = read("[source]\nreceive_buffer = true\n").unwrap_err().to_string();
    assert!(e.contains("line 2") && e.contains("text or a number"), "{e}");
    let e = read("[source]\nnap = [1]\n").unwrap_err().to_string();
    assert!(e.contains("line 2") && e.contains("array"), "{e}");
}

#[test]
fn values_out_of_range_say_what_is_allowed() {
    for (key, value, word) in [
        ("engine.threads", toml::Value::from(3), "1 (receive"),
        ("source.workers", 65.into(), "1 to 64"),
        ("output.sink", "kafka".into(), "null"),
        ("engine.queue", 0.into(), "4096"),
    ] {
        let e = Config::read(None, &[(key.to_owned(), value)]).unwrap_err().to_string();
        assert!(e.contains(key) && e.contains(word), "{e}");
    }
}
