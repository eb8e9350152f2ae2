//! What limits a wanted rate on a host, what to change, and changing it: `fullcount advise`.
//!
//! Reading order: [`wish`] (what is wanted), [`facts`] (what the host says), [`need`] (the arithmetic
//! between them), then one file for each part of a packet's way – [`link`], [`card`], [`kernel`],
//! [`buffers`], [`cores`], [`bounds`] – each giving [`line::AdviceLine`]s; [`report`] prints them; [`place`],
//! [`state`] and [`apply`] change settings and put them back exactly. Reading and judging never write,
//! and a judgement is a pure function of wish and facts, so that a saved tree of another host gives the
//! same words every time. Refuses: what [`wish::WishError`] and [`state::SettingsStateError`] name. Source:
//! `docs/advise.md`.

pub mod apply;
pub mod bounds;
pub mod buffers;
pub mod card;
pub mod cores;
pub mod facts;
pub mod kernel;
pub mod line;
pub mod link;
pub mod need;
pub mod place;
pub mod report;
pub mod state;
pub mod wish;

pub use facts::HostFacts;
pub use line::{AdviceLine, AdviceStatus};
pub use wish::{HostRole, Wish, WishError};

use need::Need;

/// Wish, what follows from it, and what limits it.
#[derive(Debug, Clone)]
pub struct Advice {
    /// What is wanted.
    pub wish: Wish,
    /// What follows from it on this host's link.
    pub need: Need,
    /// Interface that was looked at.
    pub interface: Option<String>,
    /// Every line, in the order of a packet's way.
    pub lines: Vec<AdviceLine>,
}

impl Advice {
    /// Judges the facts by the wish.
    ///
    /// # Errors
    /// A core that is not on, or an interface that is not there.
    pub fn new(wish: &Wish, facts: &HostFacts) -> Result<Advice, WishError> {
        facts.check(wish)?;
        let need = Need::new(wish, facts);
        let mut lines = vec![];
        for part in
            [link::lines, card::lines, kernel::lines, buffers::lines, cores::lines, bounds::lines]
        {
            lines.extend(part(wish, facts, &need));
        }
        let interface = facts.card.as_ref().map(|c| c.name.clone());
        Ok(Advice { wish: wish.clone(), need, interface, lines })
    }

    /// How many lines have that status.
    pub fn count(&self, status: AdviceStatus) -> usize {
        self.lines.iter().filter(|l| l.status == status).count()
    }
}

#[cfg(test)]
#[path = "advise_tests.rs"]
mod tests;
