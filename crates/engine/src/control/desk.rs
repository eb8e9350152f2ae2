//! The desk of a run: its commands, and who may give them; for the control port and the page's HTTP interface.
//!
//! It is made when everything else is open, so that it has the commands of all parts. Source: `docs/operations.md`.

use std::sync::Arc;

use fullcount_core::command::{ClientTrust, Command, Commands, Desk, Token};
use fullcount_core::naming::Names;
use fullcount_core::output::{Serving, StateOutput};
use fullcount_core::status::StatusSource;

use super::activity::{ActivityWatch, Mask};
use super::commands::{self, Context};
use super::current::CurrentConfig;
use super::record::record;
use crate::named::{Named, WithDesk};
use crate::run::RunError;
use crate::status::StatusWatch;
use crate::stop::Stop;

/// What a desk is made of.
pub struct DeskPlan {
    /// Who may do what, and the token.
    pub trust: (ClientTrust, Option<Token>),
    /// What the detector is called.
    pub detector: String,
    /// The configuration without secrets.
    pub configuration: CurrentConfig,
    /// How the run is ended.
    pub stop: Stop,
    /// Names of its counters.
    pub names: Arc<Names>,
    /// Commands of its parts.
    pub commands: Vec<Command>,
}

impl DeskPlan {
    /// Serves what shows the run, and what takes commands for it. What is served stands in `served`, also where another fails.
    ///
    /// # Errors
    /// The system refuses a thread or an event loop.
    pub fn serve(
        self,
        pages: Vec<Box<dyn StateOutput>>,
        watch: &Arc<StatusWatch>,
        served: &mut Vec<Box<dyn Serving>>,
    ) -> Result<ActivityWatch, RunError> {
        let run: Arc<dyn StatusSource> = Arc::new(Named::new(watch.clone(), self.names));
        let mask: Arc<Mask> = Arc::default();
        let activity = ActivityWatch::start(Arc::downgrade(&run), mask.clone());
        let activity = activity.map_err(RunError::Thread)?;
        let mut all = Commands::default();
        let context = Context {
            run: run.clone(),
            stop: self.stop,
            detector: self.detector,
            configuration: self.configuration,
            mask,
        };
        commands::register(&mut all, context);
        self.commands.into_iter().for_each(|command| all.register(command));
        let (trust, token) = self.trust;
        let desk = Arc::new(Desk { commands: all, token, trust, record: Some(record) });
        let run: Arc<dyn StatusSource> = Arc::new(WithDesk { run, desk });
        for page in pages {
            page.sheets().into_iter().for_each(|sheet| watch.ledger.register(sheet));
            let page = page.serve(run.clone());
            served.push(page.map_err(|e| RunError::Web(e.to_string()))?);
        }
        Ok(activity)
    }
}
