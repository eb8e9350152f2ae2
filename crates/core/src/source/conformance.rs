//! The suite that every source must pass, inside this workspace or outside: what is given to it comes out once, in order, and is
//! accounted for.
//!
//! [`source`] opens a URL through the registry, gives it packets where the case says how, and follows it to its end. It waits for
//! the source alone, by rounds of [`WAIT`]; it reads no clock.

use std::time::Duration;

use super::{OpenedSource, Received, Source, SourceEndpoint, SourceOpening, SourceSetup, Sources};
use crate::batch::Batch;
use crate::ledger::{Ledger, Role, Unit};
use crate::progress::BatchNumber;

/// What becomes of a second source of the same URL while the first is open.
#[derive(Debug, Clone, Copy)]
pub enum Twin {
    /// It is refused when it is opened; the sentence holds these words, which say what is in use.
    Refused(&'static str),
    /// It reads the same.
    Reads,
    /// Cannot be tried here.
    Untried,
}

/// Brings packets to where a source reads. A live source is given them when it is open, and is there then; a recording before.
pub type Give<'a> = dyn FnMut(Option<&OpenedSource>, &[Vec<u8>]) + 'a;

/// A source under test.
pub struct SourceCase<'a> {
    /// All kinds.
    pub sources: &'a Sources,
    /// What is opened.
    pub url: &'a str,
    /// URLs of this kind that are refused before anything is opened.
    pub refused: &'a [&'a str],
    /// Brings packets there.
    pub give: &'a mut Give<'a>,
    /// It says by itself that it has ended.
    pub ends: bool,
    /// A second one of the same URL.
    pub twin: Twin,
}

/// Packets that are given.
const PACKETS: usize = 300;
/// Longest packet: fits a frame of the usual Ethernet.
const LONGEST: usize = 1400;
/// A round of waiting.
pub const WAIT: Duration = Duration::from_millis(50);
/// Rounds without a packet before it is taken for lost: 20 s.
const ROUNDS: u32 = 400;

/// Packets that are told apart by their first bytes, of many sizes, some in a row equally long.
fn packets() -> Vec<Vec<u8>> {
    let one = |n: usize| {
        let len = 4 + (n / 3 * 97) % (LONGEST - 4);
        let number = (n as u32).to_be_bytes();
        number.into_iter().chain((4..len).map(|at| (at ^ n) as u8)).collect()
    };
    (0..PACKETS).map(one).collect()
}

/// What one call gave.
struct Call {
    outcome: Received,
    packets: Vec<Vec<u8>>,
}

/// Calls a source, and looks at what holds for every call.
struct Caller {
    source: Box<dyn Source>,
    batch: Batch,
    number: BatchNumber,
}

impl Caller {
    fn new(source: Box<dyn Source>) -> Caller {
        let batch = source.batch();
        Caller { source, batch, number: BatchNumber { pipeline: 3, batch: 1 } }
    }

    fn call(&mut self) -> Result<Call, String> {
        self.batch.set_number(self.number);
        let outcome = self.source.recv(&mut self.batch, WAIT).map_err(|e| e.to_string())?;
        let number = self.batch.number();
        if number != self.number {
            return Err(format!("the batch {:?} came back as {number:?}", self.number));
        }
        let chunks = self.batch.trains().flat_map(|train| train.chunks());
        let packets: Vec<Vec<u8>> = chunks.map(<[u8]>::to_vec).collect();
        let full = matches!(outcome, Received::Data);
        if packets.is_empty() == full {
            return Err(format!("{outcome:?} with {} packets", packets.len()));
        }
        if let (Received::Flush(reason), false) = (outcome, self.source.lossless()) {
            return Err(format!("flush({reason:?}) of a source that may lose packets"));
        }
        // Numbers rise by one; a call that gives nothing uses none.
        self.number.batch += u64::from(matches!(outcome, Received::Data | Received::Flush(_)));
        Ok(Call { outcome, packets })
    }

    /// All packets until so many have come, or it ends.
    fn take(&mut self, count: usize) -> Result<(Vec<Vec<u8>>, bool), String> {
        let (mut all, mut idle) = (Vec::new(), 0);
        while all.len() < count {
            let call = self.call()?;
            all.extend(call.packets);
            match call.outcome {
                Received::End => return Ok((all, true)),
                Received::Idle if idle == ROUNDS => return Ok((all, false)),
                Received::Idle => idle += 1,
                Received::Data | Received::Flush(_) => idle = 0,
            }
        }
        Ok((all, false))
    }
}

fn open_one(endpoint: &dyn SourceEndpoint) -> Result<OpenedSource, String> {
    let mut all = endpoint.open(&SourceOpening::PLAIN).map_err(|e| e.to_string())?;
    match (all.pop(), all.is_empty()) {
        (Some(one), true) => Ok(one),
        _ => Err("one worker has another number of sources".into()),
    }
}

/// Runs the suite.
///
/// # Errors
/// The first thing that is wrong, or words of the source.
pub fn source(case: SourceCase<'_>) -> Result<(), String> {
    let SourceCase { sources, url, refused, give, ends, twin } = case;
    let setup = SourceSetup::plain(sources);
    for wrong in refused {
        if setup.endpoint(wrong).is_ok() {
            return Err(format!("{wrong} is not refused"));
        }
    }
    let (kind, _) = sources.find(url).map_err(|e| e.to_string())?;
    let declared: Vec<_> = kind.counters().into_iter().flat_map(|(_, lines)| lines).collect();
    let endpoint = setup.endpoint(url).map_err(|e| e.to_string())?;
    let (live, sent) = (endpoint.is_live(), packets());
    if !live {
        give(None, &sent);
    }
    endpoint.is_there()?;
    let opened = open_one(&*endpoint)?;
    if opened.source.describe().is_empty() || opened.label.is_empty() {
        return Err("it says nothing of itself".into());
    }
    second(&setup, url, &opened, twin)?;
    let sheet = opened.source.sheet();
    if let Some(line) = sheet.lines().iter().find(|line| !declared.contains(line)) {
        return Err(format!("the counter {} is not declared", line.name));
    }
    if live {
        give(Some(&opened), &sent);
    }
    let mut caller = Caller::new(opened.source);
    let (came, over) = caller.take(sent.len())?;
    if came != sent {
        let same = came.iter().zip(&sent).take_while(|(a, b)| a == b).count();
        let (n, of) = (came.len(), sent.len());
        return Err(format!("{n} of {of} packets came, the first {same} as they were given"));
    }
    let ledger = Ledger::default();
    ledger.register(sheet);
    let entries = ledger.read();
    let sums = [Role::In, Role::Accepted].map(|role| entries.sum(Unit::Packets, role));
    if entries.balance() != 0 || sums != [sent.len() as u64; 2] {
        return Err(format!("{} packets count as {sums:?}: {entries:?}", sent.len()));
    }
    is_over(&mut caller, ends, over)
}

/// A second one while the first is open.
fn second(
    setup: &SourceSetup<'_>,
    url: &str,
    first: &OpenedSource,
    twin: Twin,
) -> Result<(), String> {
    if let Twin::Untried = twin {
        return Ok(());
    }
    // A port that the system chose stands in the label.
    let url = if first.local.is_some() { &first.label } else { url };
    let endpoint = setup.endpoint(url).map_err(|e| e.to_string())?;
    match (twin, open_one(&*endpoint)) {
        (Twin::Untried, _) | (Twin::Reads, Ok(_)) => Ok(()),
        (Twin::Refused(words), Err(e)) if e.contains(words) => Ok(()),
        (Twin::Refused(words), Err(e)) => Err(format!("a second one: '{e}' without '{words}'")),
        (Twin::Refused(_), Ok(_)) => Err("a second one is opened".into()),
        (Twin::Reads, Err(e)) => Err(format!("a second one: {e}")),
    }
}

/// Nothing more comes: the end stays the end, and a source without one waits.
fn is_over(caller: &mut Caller, ends: bool, over: bool) -> Result<(), String> {
    if over && !ends {
        return Err("it ends by itself".into());
    }
    for _ in 0..3 {
        let call = caller.call()?;
        match (call.outcome, ends) {
            (Received::End, true) | (Received::Idle, false) => {}
            // The first call may find out that there is no more.
            (Received::Idle, true) if !over => {
                let (more, over) = caller.take(1)?;
                if !more.is_empty() || !over {
                    return Err(format!("{} more packets, its end: {over}", more.len()));
                }
            }
            (outcome, _) => return Err(format!("{outcome:?} when nothing more comes")),
        }
    }
    Ok(())
}
