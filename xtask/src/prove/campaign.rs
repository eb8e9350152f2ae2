//! The state of one proof on disk, and its progress with the time left.
//!
//! Refuses a state file of another shape, revision or changed tree. The file is replaced whole by
//! a rename, so a kill leaves either the old state or the new one.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::command::spoken;
use crate::{place, record};

/// One proof under way.
pub struct Campaign {
    file: PathBuf,
    /// The one part that is asked for, if not all.
    pub only: Option<String>,
    revision: String,
    done: Map<String, Value>,
    before: Duration,
    start: Instant,
    made_now: u32,
}

impl Campaign {
    /// Begins, or with `resume` goes on where an interrupted one stopped.
    ///
    /// # Errors
    ///
    /// Nothing to resume, or not from this revision.
    pub fn open(name: &str, only: Option<&str>, resume: bool) -> Result<Self, String> {
        let (commit, clean) = record::revision();
        let revision = if clean { commit } else { format!("{commit} with changes") };
        let folder = place::target().join("prove");
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let campaign = Self::open_in(folder.join(format!("{name}.json")), revision, resume)?;
        Ok(Self { only: only.map(str::to_owned), ..campaign })
    }

    fn open_in(file: PathBuf, revision: String, resume: bool) -> Result<Self, String> {
        let mut campaign = Self {
            file,
            only: None,
            revision,
            done: Map::new(),
            before: Duration::ZERO,
            start: Instant::now(),
            made_now: 0,
        };
        if !resume {
            campaign.save()?;
            return Ok(campaign);
        }
        let shown = campaign.file.display();
        let text = fs::read_to_string(&campaign.file)
            .map_err(|error| format!("nothing to resume: {shown}: {error}"))?;
        let mut state: Value = serde_json::from_str(&text)
            .map_err(|error| format!("{shown}: {error}; run without --resume"))?;
        let began = state["revision"].as_str().unwrap_or("unknown");
        if began != campaign.revision {
            let now = &campaign.revision;
            return Err(format!("begun at revision {began}, this is {now}; run without --resume"));
        }
        let seconds = state["seconds"].as_f64().unwrap_or(0.0);
        campaign.before = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let Value::Object(done) = state["done"].take() else {
            return Err(format!("{shown} holds no units; run without --resume"));
        };
        println!("resuming with {} units done", done.len());
        campaign.done = done;
        Ok(campaign)
    }

    /// Makes units `0..count`, each at most once over all resumed runs; their results in order.
    ///
    /// # Errors
    ///
    /// Of the first unit that could not be made; those before it are kept for `--resume`.
    pub fn units(
        &mut self,
        kind: &str,
        count: u32,
        mut work: impl FnMut(u32) -> Result<Value, String>,
    ) -> Result<Vec<Value>, String> {
        let mut results = Vec::new();
        let mut spent = Duration::ZERO;
        for unit in 0..count {
            let key = format!("{kind} {}", unit + 1);
            let result = match self.done.get(&key) {
                Some(result) => result.clone(),
                None => {
                    let left = remaining(spent, self.made_now, count - unit);
                    println!("[{}/{count}] {kind}{left}", unit + 1);
                    let start = Instant::now();
                    let result = work(unit)?;
                    spent += start.elapsed();
                    self.made_now += 1;
                    self.done.insert(key, result.clone());
                    self.save()?;
                    result
                }
            };
            results.push(result);
        }
        // The next kind of unit takes its own time.
        self.made_now = 0;
        Ok(results)
    }

    /// Time spent, that of earlier, interrupted runs included.
    pub fn spent(&self) -> Duration {
        self.before + self.start.elapsed()
    }

    /// Ends: there is nothing left to resume.
    pub fn close(self) {
        let _ = fs::remove_file(&self.file);
    }

    fn save(&self) -> Result<(), String> {
        let state = json!({
            "revision": self.revision,
            "seconds": self.spent().as_secs_f64(),
            "done": self.done,
        });
        let new = self.file.with_extension("new");
        fs::write(&new, format!("{state:#}\n"))
            .and_then(|()| fs::rename(&new, &self.file))
            .map_err(|error| format!("{}: {error}", self.file.display()))
    }
}

/// `, about 3 min 20 s left`, once there is a unit to judge by.
fn remaining(spent: Duration, made: u32, left: u32) -> String {
    match spent.checked_div(made) {
        Some(each) => format!(", about {} left", spoken(each * left)),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of this test's own, gone when the test is.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("fullcount-campaign-{}-{name}.json", std::process::id());
            Self(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    fn open(scratch: &Scratch, revision: &str, resume: bool) -> Result<Campaign, String> {
        Campaign::open_in(scratch.0.clone(), revision.to_owned(), resume)
    }

    #[test]
    fn an_interrupted_proof_goes_on_where_it_stopped() {
        let scratch = Scratch::new("resume");
        let mut made = Vec::new();
        let mut first = open(&scratch, "abc", false).unwrap();
        let stopped = first.units("round", 4, |unit| {
            made.push(unit);
            if unit == 2 { Err("power cut".to_owned()) } else { Ok(json!(unit * 10)) }
        });
        assert_eq!(stopped.unwrap_err(), "power cut");
        drop(first);
        let mut second = open(&scratch, "abc", true).unwrap();
        let results = second.units("round", 4, |unit| {
            made.push(unit);
            Ok(json!(unit * 10))
        });
        assert_eq!(results.unwrap(), [json!(0), json!(10), json!(20), json!(30)]);
        assert_eq!(made, [0, 1, 2, 2, 3]);
        second.close();
        assert!(
            open(&scratch, "abc", true).is_err_and(|error| error.contains("nothing to resume"))
        );
    }

    #[test]
    fn another_revision_is_not_resumed() {
        let scratch = Scratch::new("revision");
        drop(open(&scratch, "abc", false).unwrap());
        let error = open(&scratch, "abd", true).err().unwrap();
        assert_eq!(error, "begun at revision abc, this is abd; run without --resume");
    }

    #[test]
    fn a_state_file_that_is_cut_is_refused() {
        let scratch = Scratch::new("cut");
        fs::write(&scratch.0, "{\"revision\": \"abc\", ").unwrap();
        assert!(open(&scratch, "abc", true).is_err_and(|error| error.contains("without --resume")));
    }

    #[test]
    fn the_time_left_is_judged_by_what_was_made_now() {
        assert_eq!(remaining(Duration::from_secs(20), 2, 9), ", about 1 min 30 s left");
        assert_eq!(remaining(Duration::ZERO, 0, 9), "");
    }
}
