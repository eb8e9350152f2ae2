//! Where the links of a structure lead, seen from the root, through other links too.
//!
//! A link to nothing is left out with a warning, as the existing writer does: a dangling one is an error to readers.
//! Refuses links to a group that they stand in. Source: `docs/formats/nexus.md` section 7.

use std::collections::HashMap;

use super::LinkPlan;
use super::error::{StructureError, StructureFault, fault};
use super::warnings::Warned;

/// Links that a link may lead through.
const HOPS: usize = 4;
/// Bytes of the path of what is linked: no path of a structure is longer that is within its limits of depth.
const LONGEST: usize = 4096;

/// A link as the structure has it.
#[derive(Debug)]
pub(super) struct Link {
    /// Absolute path of the new name.
    pub(super) path: String,
    /// The path of what is linked, as given.
    pub(super) source: String,
    /// Where in the JSON that stands.
    pub(super) at: String,
}

impl Link {
    /// The absolute path of what is linked; `None` if that leads above the root.
    pub(super) fn target(&self) -> Option<String> {
        let (parent, _) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        if self.source.len() > LONGEST {
            return None;
        }
        resolve(parent, &self.source)
    }

    fn shown(&self) -> String {
        self.source.chars().take(80).collect()
    }
}

/// The links that lead to something, each with where it stands in the JSON. `taken` has all paths of the structure; those of
/// links to nothing are taken away from it.
pub(super) fn resolved(
    links: Vec<Link>,
    taken: &mut HashMap<String, String>,
    warned: &Warned,
) -> Result<Vec<(LinkPlan, String)>, StructureError> {
    let mut targets = HashMap::with_capacity(links.len());
    let mut whole = Vec::with_capacity(links.len());
    for link in links {
        match link.target() {
            Some(target) => {
                targets.insert(link.path.clone(), target);
                whole.push(link);
            }
            None => left_out(&link, taken, warned, "leads out of the file"),
        }
    }
    let mut all = Vec::with_capacity(whole.len());
    for link in whole {
        let Some(target) = follow(&targets, &targets[&link.path]) else {
            left_out(&link, taken, warned, "leads in a circle, or through too many links");
            continue;
        };
        if target.is_empty() || link.path.starts_with(&format!("{target}/")) {
            let why = "is a group that the link itself is in";
            return fault(&link.at, StructureFault::Link { source_path: link.shown(), why });
        }
        if !taken.contains_key(&target) {
            left_out(&link, taken, warned, "is not in the structure");
            continue;
        }
        all.push((LinkPlan { path: link.path, target }, link.at));
    }
    Ok(all)
}

fn left_out(link: &Link, taken: &mut HashMap<String, String>, warned: &Warned, why: &str) {
    taken.remove(&link.path);
    warned.say(&link.at, &format!("\"{}\" {why}: the link is left out", link.shown()));
}

/// Where `target` is if parts of it are links themselves; `None` if that has no end.
fn follow(targets: &HashMap<String, String>, target: &str) -> Option<String> {
    let mut target = target.to_owned();
    for _ in 0..=HOPS {
        let mut ends = target.match_indices('/').map(|(end, _)| end).skip(1).chain([target.len()]);
        let through = ends.find_map(|end| Some((end, targets.get(&target[..end])?)));
        let Some((end, to)) = through else { return Some(target) };
        if to.len() + target.len() > 2 * LONGEST {
            return None;
        }
        target = format!("{to}{}", &target[end..]);
    }
    None
}

/// The absolute path of `source` seen from the group `from`; `None` if it leads above the root.
fn resolve(from: &str, source: &str) -> Option<String> {
    let mut parts: Vec<&str> = if source.starts_with('/') {
        Vec::new()
    } else {
        from.split('/').filter(|p| !p.is_empty()).collect()
    };
    for part in source.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.iter().flat_map(|part| ["/", part]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(links: &[(&str, &str)]) -> (Vec<(String, String)>, u64) {
        let things = ["/e", "/e/a", "/e/a/x", "/e/b"].map(str::to_owned);
        let paths = links.iter().map(|(path, _)| (*path).to_owned());
        let mut taken = things.into_iter().chain(paths).map(|path| (path, String::new())).collect();
        let link = |(path, source): &(&str, &str)| Link {
            path: (*path).to_owned(),
            source: (*source).to_owned(),
            at: String::new(),
        };
        let warned = Warned::default();
        let found = resolved(links.iter().map(link).collect(), &mut taken, &warned).unwrap();
        let found = found.into_iter().map(|(link, _)| (link.path, link.target)).collect();
        (found, warned.take().count())
    }

    #[test]
    fn links_are_followed_through_links_and_those_to_nothing_are_left_out() {
        let pair = |path: &str, target: &str| (path.to_owned(), target.to_owned());
        let (found, warned) = of(&[("/e/l", "m/x"), ("/e/m", "a"), ("/e/b/n", "../m")]);
        assert_eq!(found, [pair("/e/l", "/e/a/x"), pair("/e/m", "/e/a"), pair("/e/b/n", "/e/a")]);
        assert_eq!(warned, 0);
        // One to nothing, one above the root, two in a circle, one to itself, and one through one of them.
        let nowhere = [
            ("/e/k", "none"),
            ("/e/o", "../../x"),
            ("/e/p", "q"),
            ("/e/q", "p"),
            ("/e/r", "r"),
            ("/e/s", "k"),
            ("/e/t", &"../".repeat(LONGEST)),
        ];
        assert_eq!(of(&nowhere), (vec![], nowhere.len() as u64));
        // A long way has an end.
        let names: Vec<String> = (0..=HOPS + 1).map(|i| format!("/e/l{i}")).collect();
        let mut chain: Vec<(&str, &str)> =
            names.windows(2).map(|pair| (&pair[0][..], &pair[1][..])).collect();
        chain.push((&names[HOPS + 1], "a"));
        let (found, warned) = of(&chain);
        assert_eq!((found.len(), warned), (HOPS + 1, 1));
    }
}
