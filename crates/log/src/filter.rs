//! What is told: `info`, `warning,kafka=debug`, `error,control=off`.
//!
//! One level for all, and others for origins: a crate (`kafka`), or a module of it (`kafka::link`); the longest name counts. Other people's
//! crates tell warnings and worse unless they are named. Refuses unknown levels, and more than 64 origins.

use std::fmt;

use crate::level::LogLevel;

/// Origins at most.
const MOST: usize = 64;
/// Longest name of an origin, bytes.
const LONGEST: usize = 100;

/// What is told, by origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilter {
    general: LogLevel,
    /// The longest name first; `None`: nothing.
    origins: Vec<(String, Option<LogLevel>)>,
}

impl Default for LogFilter {
    fn default() -> Self {
        LogFilter { general: LogLevel::Info, origins: Vec::new() }
    }
}

/// A crate's module as people know it: without what all our crates begin with.
pub fn origin(target: &str) -> &str {
    target.strip_prefix("fullcount_").unwrap_or(target)
}

impl LogFilter {
    /// What is allowed, for who refuses something else.
    pub const ALLOWED: &str = "emergency, alert, critical, error, warning, notice, info or debug; also ORIGIN=LEVEL or \
                               ORIGIN=off behind a comma, such as info,kafka=debug";

    /// Reads levels with commas between them.
    pub fn read(text: &str) -> Option<LogFilter> {
        let mut filter = LogFilter::default();
        let mut general = None;
        for part in text.split(',').map(str::trim) {
            match part.split_once('=') {
                None if general.is_none() => general = Some(LogLevel::read(part)?),
                None => return None,
                Some((name, level)) => {
                    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
                    let bad = name.is_empty() || name.len() > LONGEST || !name.chars().all(letter);
                    let twice = filter.origins.iter().any(|(known, _)| known == origin(name));
                    if bad || twice || filter.origins.len() == MOST {
                        return None;
                    }
                    let level = if level == "off" { None } else { Some(LogLevel::read(level)?) };
                    filter.origins.push((origin(name).to_owned(), level));
                }
            }
        }
        filter.general = general.unwrap_or(filter.general);
        filter.origins.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then(a.cmp(b)));
        Some(filter)
    }

    /// The least severe that is told of an origin; `None`: nothing is.
    pub fn least(&self, target: &str) -> Option<LogLevel> {
        let name = origin(target);
        let is = |known: &str| {
            name.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let found = self.origins.iter().find(|(known, _)| is(known));
        let ours = target.starts_with("fullcount");
        let general = if ours { self.general } else { self.general.min(LogLevel::Warning) };
        found.map_or(Some(general), |(_, level)| *level)
    }

    /// True if that is told.
    pub fn lets(&self, target: &str, level: LogLevel) -> bool {
        self.least(target).is_some_and(|least| level <= least)
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.general.name())?;
        let each = |(name, level): &(String, Option<LogLevel>)| {
            format!(",{name}={}", level.map_or("off", LogLevel::name))
        };
        self.origins.iter().map(each).try_for_each(|text| write!(f, "{text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_longest_name_counts_and_other_peoples_crates_are_quieter() {
        let filter = LogFilter::read("notice, kafka=debug,kafka::link=off,control=3").unwrap();
        let lets = |target, level| filter.lets(target, level);
        assert!(lets("fullcount_kafka::topic", LogLevel::Debug));
        assert!(!lets("fullcount_kafka::link", LogLevel::Emergency));
        assert!(!lets("fullcount_kafka::link::deep", LogLevel::Emergency));
        assert!(lets("fullcount_kafka::linked", LogLevel::Debug), "another module");
        assert!(lets("fullcount_io", LogLevel::Notice) && !lets("fullcount_io", LogLevel::Info));
        assert!(lets("hyper::proto", LogLevel::Warning) && !lets("hyper", LogLevel::Notice));
        assert_eq!(filter.to_string(), "notice,kafka::link=off,control=error,kafka=debug");
        assert_eq!(LogFilter::read("kafka=debug").unwrap().to_string(), "info,kafka=debug");
    }

    #[test]
    fn what_is_no_level_is_refused() {
        let many: Vec<String> = (0..65).map(|n| format!("a{n}=info")).collect();
        let many = many.join(",");
        for bad in
            ["", "loud", "info,error", "kafka=", "=info", "a b=info", "a=info,a=debug", &many]
        {
            assert_eq!(LogFilter::read(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_shown_as_it_can_be_read_again(text in "[a-z0-9:,=]{0,30}|(info|debug|3)(,[a-z:]{1,4}=(off|info|7)){0,4}") {
            if let Some(filter) = LogFilter::read(&text) {
                prop_assert_eq!(LogFilter::read(&filter.to_string()), Some(filter));
            }
        }
    }
}
