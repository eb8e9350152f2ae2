//! Which modules, streams or front ends of the detector have sent what, and which have stopped.
//!
//! The processing thread of each worker tells its part of a [`ModuleBoard`] ten times a second, without waiting for whoever reads;
//! a module's age is exact to that. Bounded: [`MOST_MODULES`] of each worker are listed. Source: `docs/operations.md`, "Modules".

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use fullcount_core::batch::Origin;
use fullcount_core::detector::{Decoder, MOST_MODULES, ModuleNames, SeenModule};
use fullcount_core::status::ModuleFacts;

/// One module as it was last told.
#[derive(Debug)]
struct ModuleRow {
    name: String,
    packets: u64,
    lost: u64,
    /// When its packets last became more.
    moved: Instant,
}

#[derive(Debug, Default)]
struct BoardRows {
    rows: HashMap<(Origin, u32), ModuleRow>,
    hidden: u64,
}

/// The modules of one worker.
#[derive(Debug)]
pub struct ModuleBoard {
    names: ModuleNames,
    rows: Mutex<BoardRows>,
}

impl ModuleBoard {
    /// Nobody has sent anything.
    pub fn new(names: ModuleNames) -> Arc<ModuleBoard> {
        Arc::new(ModuleBoard { names, rows: Mutex::default() })
    }

    /// Looks at what a decoder has seen by now. If somebody reads at the moment, the next time will do.
    pub fn look(&self, decoder: &dyn Decoder, now: Instant) {
        let mut board = match self.rows.try_lock() {
            Ok(board) => board,
            Err(TryLockError::Poisoned(board)) => board.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let mut hidden = 0;
        decoder.modules(&mut |seen| hidden += u64::from(!board.note(&self.names, &seen, now)));
        board.hidden = hidden;
    }

    fn facts(&self, silent: Duration, now: Instant, all: &mut Vec<ModuleFacts>) -> u64 {
        let board = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(board.rows.values().map(|row| {
            let age = now.saturating_duration_since(row.moved);
            ModuleFacts {
                name: row.name.clone(),
                packets: row.packets,
                lost: row.lost,
                age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
                silent: age > silent,
            }
        }));
        board.hidden
    }
}

impl BoardRows {
    /// False if there is no room for it.
    fn note(&mut self, names: &ModuleNames, seen: &SeenModule, now: Instant) -> bool {
        let room = self.rows.len() < MOST_MODULES;
        match self.rows.get_mut(&(seen.origin, seen.id)) {
            Some(row) => {
                if row.packets != seen.packets {
                    row.moved = now;
                }
                (row.packets, row.lost) = (seen.packets, seen.lost);
                true
            }
            None if room => {
                let (packets, lost) = (seen.packets, seen.lost);
                let row = ModuleRow { name: names.name(seen), packets, lost, moved: now };
                self.rows.insert((seen.origin, seen.id), row);
                true
            }
            None => false,
        }
    }
}

/// The modules of a run.
#[derive(Debug, Default)]
pub struct ModuleBoards {
    /// One a worker.
    pub boards: Vec<Arc<ModuleBoard>>,
    /// From here on one that sends nothing is silent.
    pub silent: Duration,
}

impl ModuleBoards {
    /// All modules by name, and how many more there are. One that came to several workers is one.
    pub fn facts(&self) -> (Vec<ModuleFacts>, u64) {
        let (mut all, now) = (Vec::new(), Instant::now());
        let facts = |board: &Arc<ModuleBoard>| board.facts(self.silent, now, &mut all);
        let hidden: u64 = self.boards.iter().map(facts).sum();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        let mut merged: Vec<ModuleFacts> = Vec::with_capacity(all.len());
        for one in all {
            match merged.last_mut().filter(|last| last.name == one.name) {
                Some(last) => {
                    last.packets = last.packets.saturating_add(one.packets);
                    last.lost = last.lost.saturating_add(one.lost);
                    last.age_ms = last.age_ms.min(one.age_ms);
                    last.silent &= one.silent;
                }
                None => merged.push(one),
            }
        }
        let over = merged.len().saturating_sub(MOST_MODULES) as u64;
        merged.truncate(MOST_MODULES);
        (merged, hidden + over)
    }
}

impl ModuleBoards {
    /// The same at the end of a run: silent is who stopped before the others did.
    pub fn at_end(&self) -> (Vec<ModuleFacts>, u64) {
        let (mut all, hidden) = self.facts();
        let last = all.iter().map(|module| module.age_ms).min().unwrap_or(0);
        let limit = u64::try_from(self.silent.as_millis()).unwrap_or(u64::MAX);
        for module in &mut all {
            module.age_ms -= last;
            module.silent = module.age_ms > limit;
        }
        (all, hidden)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(id: u32, packets: u64) -> SeenModule {
        SeenModule { origin: Origin::NONE, id, packets, lost: u64::from(id) }
    }

    #[test]
    fn a_module_that_stops_is_silent_and_too_many_are_counted() {
        let names = ModuleNames { called: Some("fec"), by_port: false };
        let (board, start) = (ModuleBoard::new(names), Instant::now() - Duration::from_secs(60));
        let note = |seen: SeenModule, at| board.rows.lock().unwrap().note(&names, &seen, at);
        assert!(note(seen(2, 10), start) && note(seen(1, 10), start));
        assert!(note(seen(2, 10), Instant::now()) && note(seen(1, 11), Instant::now()));
        let boards = ModuleBoards { boards: vec![board.clone()], silent: Duration::from_secs(10) };
        let (facts, hidden) = boards.facts();
        let told: Vec<_> =
            facts.iter().map(|m| (m.name.as_str(), m.packets, m.lost, m.silent)).collect();
        assert_eq!((told, hidden), (vec![("fec 1", 11, 1, false), ("fec 2", 10, 2, true)], 0));
        assert!(facts[1].age_ms >= 60_000);
        let (ended, _) = boards.at_end();
        assert_eq!((ended[0].age_ms, ended[0].silent, ended[1].silent), (0, false, true));
        let more = (0..1000).filter(|n| note(seen(100 + n, 1), start)).count();
        assert_eq!(more, MOST_MODULES - 2);
    }

    #[test]
    fn a_module_at_two_workers_is_one() {
        let boards: Vec<_> = (0..2).map(|_| ModuleBoard::new(ModuleNames::SENDER)).collect();
        let now = Instant::now();
        boards[0].rows.lock().unwrap().note(
            &ModuleNames::SENDER,
            &seen(0, 3),
            now - Duration::from_secs(99),
        );
        boards[1].rows.lock().unwrap().note(&ModuleNames::SENDER, &seen(0, 4), now);
        let (facts, _) = ModuleBoards { boards, silent: Duration::from_secs(10) }.facts();
        assert_eq!((facts.len(), facts[0].packets, facts[0].silent), (1, 7, false));
    }
}
