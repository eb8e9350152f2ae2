//! Options and the run that they become.

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    flags: EfuFlags,
}

fn flags(line: &str) -> EfuFlags {
    Cli::try_parse_from(line.split_whitespace()).unwrap_or_else(|e| panic!("{e}")).flags
}

fn becomes(line: &str) -> Result<String, String> {
    match meaning(&flags(line))? {
        Meaning::Run(arguments) => {
            assert!(parsed(&arguments).is_ok(), "{arguments:?}");
            Ok(shown(&arguments))
        }
        Meaning::Nothing(_) => Ok("nothing".into()),
    }
}

#[test]
fn options_become_a_run() {
    crate::kinds::for_tests();
    let plain = becomes("efu -d sonde").unwrap();
    let want = "run --source udp://0.0.0.0:9000 --detector sonde --receive-buffer 2000000 \
                --kafka kafka://localhost:9092/sonde_detector --graphite 127.0.0.1:2003 \
                --control 127.0.0.1:8888 --web off --set metrics.names=efu --set metrics.detector=sonde \
                --set output.kafka.flush=1s";
    assert_eq!(plain, want);
    let all = "efu --det mbcaen -i 239.1.2.3 -p 9001 -b b:1 -t top -f g.json --calibration c.json -m 8889 -g carbon \
               -o 2103 --graphite_prefix p -r north -s 60 --updateinterval 5 --rxbuffer 1000000 -c 3 --ar51_topic raw -a graylog -l 5 --log_file efu.log";
    let all = becomes(all).unwrap();
    for part in [
        "--source udp://239.1.2.3:9001 --detector multiblade --geometry g.json --receive-buffer 1000000",
        "--kafka kafka://b:1/top --graphite carbon:2103 --control 127.0.0.1:8889 --web off --duration 60s",
        "--set detector.calibration=c.json",
        "--set metrics.names=efu --set metrics.detector=mbcaen",
        "--set metrics.prefix=p --set metrics.region=north",
        "--set output.kafka.flush=5s",
        "--set log.gelf=graylog --set log.level=notice --set log.file=efu.log",
        "--set output.raw.topic=raw",
        "--set output.raw.every=500",
        "--threads 2 --core 3 --process-core 4",
    ] {
        assert!(all.contains(part), "{part}: {all}");
    }
    assert_eq!(becomes("efu -d udp -s 0").unwrap(), "nothing");
    let cores = becomes("efu -d gdgem -c processing:7,input:5").unwrap();
    assert!(cores.ends_with("--process-core 7 --core 5 --threads 2"), "{cores}");
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    crate::kinds::for_tests();
    for (line, said) in [
        ("efu -d nosuch", "-d nosuch: no such module; known: sonde, mgmesytec, mbcaen, gdgem, udp"),
        ("efu -d sonde --udder", "--udder is not taken"),
        ("efu -d sonde --dumptofile x", "--dumptofile is not taken: fullcount run --capture"),
        ("efu -d sonde --read_config x", "--read_config is not taken"),
        ("efu -d mgmesytec --wlo 5", "--wlo is not taken"),
        ("efu -d sonde -c x", "-c x: a CPU"),
        ("efu -d sonde -c input:100", "-c input:100: a CPU"),
        ("efu -d sonde -c other:1", "-c other:1: a CPU"),
        ("efu -d sonde --kafka_config /no/such", "--kafka_config /no/such: "),
    ] {
        let why = becomes(line).unwrap_err();
        assert!(why.starts_with(said), "{line}: {why}");
    }
    for bad in ["efu", "efu -d sonde -p x", "efu -d sonde --nosuch", "efu -d sonde -l 9"] {
        assert!(Cli::try_parse_from(bad.split_whitespace()).is_err(), "{bad}");
    }
    assert_eq!(flags("efu -d sonde -l notice").log_level, Some(5));
    for (option, ours) in
        [("--multigrid-monitor", true), ("--multigrid-monitor=false", true), ("--nosuch", false)]
    {
        let e = Cli::try_parse_from(["efu", "-d", "mgmesytec", option]).unwrap_err();
        let said = options::not_taken(&e);
        let named = said.is_some_and(|said| said.starts_with("--multigrid-monitor is not taken: "));
        assert_eq!(named, ours, "{option}");
    }
}

#[test]
fn properties_of_kafka_are_one_text_each() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k.json");
    let read = |text: &str| {
        std::fs::write(&path, text).unwrap();
        flags(&format!("efu -d sonde --kafka_config {}", path.display())).kafka_settings()
    };
    let good = r#"{"KafkaParms": [{"message.max.bytes": "10000000"}, {"linger.ms": "5"}]}"#;
    let good = read(good).unwrap();
    assert_eq!(good[1], ("linger.ms".to_owned(), "5".to_owned()));
    for bad in
        ["", "{}", r#"{"KafkaParms": [{"a": 1}]}"#, r#"{"KafkaParms": [{"a": "1", "b": "2"}]}"#]
    {
        assert!(read(bad).unwrap_err().starts_with("--kafka_config "), "{bad}");
    }
}

#[test]
fn a_secret_does_not_stand_in_the_command_that_is_said() {
    let words = ["run", "--set", "output.kafka.options.sasl.password=SECRET2", "--set", "a=b c"];
    let words = words.map(str::to_owned);
    let said = shown(&words);
    assert!(!said.contains("SECRET2"), "{said}");
    assert!(said.ends_with("--set 'a=b c'"), "{said}");
    assert!(
        matches!(meaning(&flags("efu -d sonde -s 0")), Ok(Meaning::Nothing(run)) if run[0] == "run")
    );
}
