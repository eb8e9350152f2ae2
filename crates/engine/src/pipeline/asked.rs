//! What is asked of decoders while data flow: commands, done between two batches, and which modules have sent what.
//!
//! A command goes to the decoder of each worker; the thread that gave it waits for all replies, [`PATIENCE`] at most. The hot path
//! looks at one number a batch. Refuses a command while eight are under way. Source: `docs/operations.md`.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use fullcount_core::command::{Answer, Command, Mailbox, NotDone};
use fullcount_core::detector::{CommandError, CommandInfo, Decoder};

/// Longest wait for the decoders: they are asked at least every 100 ms.
const PATIENCE: Duration = Duration::from_secs(2);

type Reply = Result<String, CommandError>;

/// One command for one decoder.
pub struct DecoderOrder {
    name: Arc<str>,
    arguments: Arc<[String]>,
    reply: mpsc::Sender<Reply>,
}

/// Commands that wait for the decoder of one worker.
pub type DecoderOrders = Mailbox<DecoderOrder>;

/// Does what waits; called between two batches.
#[cold]
pub(super) fn obey(orders: &DecoderOrders, decoder: &mut dyn Decoder) {
    while let Some(DecoderOrder { name, arguments, reply }) = orders.take() {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        // Who asked may have given up.
        let _ = reply.send(decoder.command(&name, &arguments));
    }
}

/// The commands of a run's decoders, one mailbox for each.
pub fn decoder_commands(infos: Vec<CommandInfo>, workers: &[Arc<DecoderOrders>]) -> Vec<Command> {
    let one = |info: CommandInfo| {
        let (name, workers): (Arc<str>, _) = (info.name.as_str().into(), workers.to_vec());
        let work = move |arguments: &[&str]| give(&name, arguments, &workers);
        let texts = (info.arguments, info.help);
        match info.changes {
            true => Command::change(info.name, texts, info.count, work),
            false => Command::read(info.name, texts, info.count, work),
        }
    };
    infos.into_iter().map(one).collect()
}

fn give(
    name: &Arc<str>,
    arguments: &[&str],
    workers: &[Arc<DecoderOrders>],
) -> Result<Answer, NotDone> {
    let (reply, replies) = mpsc::channel();
    let arguments: Arc<[String]> = arguments.iter().map(|&word| word.to_owned()).collect();
    for orders in workers {
        let (name, arguments) = (name.clone(), arguments.clone());
        let order = DecoderOrder { name, arguments, reply: reply.clone() };
        let busy = |_| NotDone::Busy("eight commands are still under way: ask again later".into());
        orders.put(order).map_err(busy)?;
    }
    drop(reply);
    let until = Instant::now() + PATIENCE;
    let mut said: Vec<String> = Vec::new();
    for _ in workers {
        let left = until.saturating_duration_since(Instant::now());
        let late = |_| NotDone::Busy("the decoder has not answered yet: it does so later".into());
        match replies.recv_timeout(left).map_err(late)? {
            Ok(reply) if said.contains(&reply) => {}
            Ok(reply) => said.push(reply),
            Err(CommandError::Unknown(_)) => return Err(NotDone::Arguments),
            Err(CommandError::Arguments(why)) => return Err(NotDone::Refused(why)),
        }
    }
    match said.join(" | ") {
        nothing if nothing.is_empty() => Ok(Answer::Done),
        values => Ok(Answer::Values(values)),
    }
}

#[cfg(test)]
mod tests {
    use fullcount_core::batch::Batch;
    use fullcount_core::ledger::Sheet;
    use fullcount_core::products::Products;
    use fullcount_core::progress::Flush;
    use fullcount_core::time::Nanos;

    use super::*;

    /// Keeps a number.
    struct Keeper(u32);

    impl Decoder for Keeper {
        fn decode(&mut self, _: Option<&Batch>, _: Option<Nanos>, _: &mut Products) {}

        fn flush(&mut self, _: Flush, _: &mut Products) {}

        fn sheets(&self) -> Vec<Arc<Sheet>> {
            Vec::new()
        }

        fn commands(&self) -> Vec<CommandInfo> {
            let info = |name: &str, n, changes| CommandInfo {
                name: name.into(),
                arguments: String::new(),
                help: "a number".into(),
                count: n..=n,
                changes,
            };
            vec![info("N_GET", 0, false), info("N_SET", 1, true)]
        }

        fn command(&mut self, name: &str, arguments: &[&str]) -> Reply {
            match (name, arguments) {
                ("N_GET", _) => Ok(self.0.to_string()),
                ("N_SET", [n]) => {
                    self.0 = n.parse().map_err(|_| CommandError::Arguments("0 or more".into()))?;
                    Ok(String::new())
                }
                _ => Err(CommandError::Unknown(name.into())),
            }
        }
    }

    #[test]
    fn every_workers_decoder_does_a_command_and_one_reply_is_made_of_theirs() {
        let workers: Vec<Arc<DecoderOrders>> = (0..2).map(|_| Arc::default()).collect();
        let commands = decoder_commands(Keeper(0).commands(), &workers);
        let mut all = fullcount_core::command::Commands::default();
        commands.into_iter().for_each(|command| all.register(command));
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let threads: Vec<_> = (0..)
            .zip(&workers)
            .map(|(n, orders)| {
                let (orders, stop) = (orders.clone(), stop.clone());
                std::thread::spawn(move || {
                    let mut keeper = Keeper(n);
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        if !orders.is_empty() {
                            obey(&orders, &mut keeper);
                        }
                        std::thread::sleep(Duration::from_millis(1));
                    }
                })
            })
            .collect();
        let give = |name: &str, arguments: &[&str]| all.give(all.find(name).unwrap(), arguments);
        let Ok(Answer::Values(both)) = give("N_GET", &[]) else { panic!("no answer") };
        assert!(both == "0 | 1" || both == "1 | 0", "{both}");
        assert_eq!(give("N_SET", &["7"]), Ok(Answer::Done));
        assert_eq!(give("N_GET", &[]), Ok(Answer::Values("7".into())));
        assert_eq!(give("N_SET", &["x"]), Err(NotDone::Refused("0 or more".into())));
        assert_eq!(give("N_SET", &[]), Err(NotDone::Arguments));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(matches!(give("N_GET", &[]), Err(NotDone::Busy(_))), "nobody answers any more");
    }
}
