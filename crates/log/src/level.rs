//! How bad something is, in the words and numbers of syslog. Source: RFC 5424 section 6.2.1.

use tracing::Level;

/// Smaller is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LogLevel {
    /// Nothing works any more.
    Emergency,
    /// Somebody has to act now.
    Alert,
    /// The run cannot go on.
    Critical,
    /// Something of the run does not work any more.
    Error,
    /// Something is or may be lost.
    Warning,
    /// Normal, and worth to be seen.
    Notice,
    /// What goes on.
    Info,
    /// For who looks for a fault.
    Debug,
}

impl LogLevel {
    /// All of them, the worst first.
    pub const ALL: [LogLevel; 8] = [
        LogLevel::Emergency,
        LogLevel::Alert,
        LogLevel::Critical,
        LogLevel::Error,
        LogLevel::Warning,
        LogLevel::Notice,
        LogLevel::Info,
        LogLevel::Debug,
    ];

    /// As in `log.level`.
    pub fn name(self) -> &'static str {
        let names =
            ["emergency", "alert", "critical", "error", "warning", "notice", "info", "debug"];
        names[self as usize]
    }

    /// As the event formation unit has it on its console.
    pub fn short(self) -> &'static str {
        ["EMG", "ALR", "CRIT", "ERR", "WAR", "NOTE", "INFO", "DEB"][self as usize]
    }

    /// Reads a name or a number of syslog.
    pub fn read(text: &str) -> Option<LogLevel> {
        let named = |level: &&LogLevel| level.name() == text || (**level as u8).to_string() == text;
        LogLevel::ALL.iter().find(named).copied()
    }

    /// The one with that number; what is larger is for who looks for a fault.
    pub fn numbered(number: u64) -> LogLevel {
        let at = usize::try_from(number).unwrap_or(usize::MAX).min(7);
        LogLevel::ALL[at]
    }

    /// Of an event that does not say: one of another crate.
    pub(crate) fn usual(level: &Level) -> LogLevel {
        match *level {
            Level::ERROR => LogLevel::Error,
            Level::WARN => LogLevel::Warning,
            Level::INFO => LogLevel::Info,
            _ => LogLevel::Debug,
        }
    }

    /// The worst that an event of this level can be.
    pub(crate) fn worst(level: &Level) -> LogLevel {
        match *level {
            Level::ERROR => LogLevel::Emergency,
            Level::WARN => LogLevel::Warning,
            Level::INFO => LogLevel::Notice,
            _ => LogLevel::Debug,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_those_of_syslog() {
        for (number, level) in LogLevel::ALL.into_iter().enumerate() {
            assert_eq!(level as usize, number);
            assert_eq!(LogLevel::read(level.name()), Some(level));
            assert_eq!(LogLevel::read(&number.to_string()), Some(level));
            assert_eq!(LogLevel::numbered(number as u64), level);
        }
        assert_eq!(LogLevel::numbered(u64::MAX), LogLevel::Debug);
        for bad in ["", "8", "-1", "ERROR", "loud"] {
            assert_eq!(LogLevel::read(bad), None, "{bad}");
        }
        for level in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE] {
            assert!(LogLevel::worst(&level) <= LogLevel::usual(&level));
        }
    }
}
