//! Commands by name, by number and explained.

use super::*;

fn commands() -> Commands {
    let mut all = Commands::default();
    all.register(Command::read("B_GET", ("", "the b"), 0..=0, |_| Ok(Answer::Values("2".into()))));
    let set = |arguments: &[&str]| match arguments {
        ["1"] => Ok(Answer::Done),
        _ => Err(NotDone::Arguments),
    };
    all.register(Command::change("B_SET", ("N", "sets the b"), 1..=1, set));
    all
}

fn give(name: &str, arguments: &[&str]) -> Result<Answer, NotDone> {
    let all = commands();
    all.give(all.find(name).unwrap(), arguments)
}

fn values(text: &str) -> Result<Answer, NotDone> {
    Ok(Answer::Values(text.into()))
}

#[test]
fn they_are_counted_named_in_alphabetical_order_and_explained() {
    assert_eq!(give("CMD_GET_COUNT", &[]), values("7"));
    let names: Vec<_> = (1..=7).map(|i| give("CMD_GET", &[&i.to_string()]).unwrap()).collect();
    let want = ["AUTH", "B_GET", "B_SET", "CMD_GET", "CMD_GET_COUNT", "HELP", "WHY"];
    assert_eq!(names, want.map(|n| Answer::Values(n.into())));
    for bad in ["0", "-1", "8", "x", "", "1.0", "99999999999999999999"] {
        assert_eq!(give("CMD_GET", &[bad]), Err(NotDone::Arguments), "{bad}");
    }
    assert_eq!(give("HELP", &["B_SET"]), values("B_SET N: sets the b"));
    assert_eq!(give("HELP", &["C"]), Err(NotDone::Arguments));
    let Ok(Answer::Values(all)) = give("HELP", &[]) else { panic!() };
    assert_eq!(all.lines().count(), 7);
}

#[test]
fn arguments_are_counted_before_anything_is_done() {
    assert_eq!(give("B_GET", &[]), values("2"));
    assert_eq!(give("B_GET", &["1"]), Err(NotDone::Arguments));
    assert_eq!(
        (give("B_SET", &["1"]), give("B_SET", &["2"])),
        (Ok(Answer::Done), Err(NotDone::Arguments))
    );
    assert_eq!(
        (give("B_SET", &[]), give("CMD_GET", &[])),
        (Err(NotDone::Arguments), Err(NotDone::Arguments))
    );
    assert_eq!(give("CMD_GET_COUNT", &["1"]), Err(NotDone::Arguments));
}

#[test]
fn what_is_no_number_is_none_and_a_long_one_is_large() {
    assert_eq!(number("17"), Ok(17));
    assert_eq!(number("-17"), Ok(-17));
    assert_eq!(number("99999999999999999999"), Ok(i64::MAX));
    for bad in ["", "-", "1x", "0x1", "+1", " 1", "--1"] {
        assert_eq!(number(bad), Err(BadArguments), "{bad}");
    }
}
