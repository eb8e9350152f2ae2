//! Traces for developers: groups of a mask, levels in an order; nothing at all without the feature `trace`.
//!
//! `trace!(Input, Debug, "batch of {n}")` is compiled out of usual builds, arguments included, and checked all the same. In a build with
//! the feature the mask and the level are changed while the program runs, and a line costs two loads where it is off. Refuses
//! nothing. Source: `control-and-monitoring.md` section 5.4.

macro_rules! groups {
    ($($name:ident $bit:literal $text:literal $about:literal;)+) => {
        /// What a trace is about; each is a bit of the mask.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub enum TraceGroup {
            $(#[doc = $about] $name = $bit,)+
        }

        impl TraceGroup {
            /// All of them, by bit.
            pub const ALL: &[TraceGroup] = &[$(TraceGroup::$name),+];

            /// As the event formation unit calls it.
            pub fn name(self) -> &'static str {
                match self { $(TraceGroup::$name => $text,)+ }
            }
        }
    };
}

groups! {
    Input 0x0001 "INPUT" "What is received.";
    Output 0x0002 "OUTPUT" "What goes to the outputs.";
    Process 0x0004 "PROCESS" "Decoders.";
    Main 0x0008 "MAIN" "The program.";
    Init 0x0010 "INIT" "How a run starts.";
    Ipc 0x0020 "IPC" "Between threads and processes.";
    Command 0x0040 "CMD" "Commands.";
    Data 0x0080 "DATA" "Single packets.";
    Kafka 0x0100 "KAFKA" "Brokers.";
    Utils 0x0200 "UTILS" "All else.";
    Cluster 0x0400 "CLUSTER" "Clusters.";
    Event 0x0800 "EVENT" "Events.";
    Builder 0x1000 "BUILDER" "What makes events of hits.";
}

/// How much is traced; larger is more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum TraceLevel {
    /// 1, `ALW`.
    Always = 1,
    /// 2, `CRI`.
    Critical,
    /// 3, `ERR`: the usual one.
    Error,
    /// 4, `WAR`.
    Warning,
    /// 5, `NOTE`.
    Notice,
    /// 6, `INF`.
    Info,
    /// 7, `DEB`.
    Debug,
}

impl TraceLevel {
    /// As the event formation unit has it.
    pub fn short(self) -> &'static str {
        ["ALW", "CRI", "ERR", "WAR", "NOTE", "INF", "DEB"][self as usize - 1]
    }
}

/// True if this build has traces.
pub const BUILT_IN: bool = cfg!(feature = "trace");

/// Bits of all groups.
pub const ALL_GROUPS: u32 = 0x1fff;

/// Reads a mask: `0x41`, `65`, `INPUT,CMD`, `ALL` or `OFF`.
pub fn mask(text: &str) -> Option<u32> {
    let number = match text.strip_prefix("0x") {
        Some(hex) if !hex.starts_with('+') => u32::from_str_radix(hex, 16).ok(),
        _ if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    };
    match text {
        "ALL" => return Some(ALL_GROUPS),
        "OFF" => return Some(0),
        _ if number.is_some() => return number.filter(|n| n & !ALL_GROUPS == 0),
        _ => {}
    }
    let bit = |name: &str| TraceGroup::ALL.iter().find(|g| g.name() == name).map(|g| *g as u32);
    text.split(',').try_fold(0, |mask, name| Some(mask | bit(name)?))
}

/// Shows a trace, if its group and level are on.
#[cfg(not(feature = "trace"))]
#[macro_export]
macro_rules! trace {
    ($group:ident, $level:ident, $($text:tt)+) => {
        if false {
            let _ = ($crate::trace::TraceGroup::$group, $crate::trace::TraceLevel::$level, format_args!($($text)+));
        }
    };
}

/// Shows a trace, if its group and level are on.
#[cfg(feature = "trace")]
#[macro_export]
macro_rules! trace {
    ($group:ident, $level:ident, $($text:tt)+) => {{
        let (group, level) = ($crate::trace::TraceGroup::$group, $crate::trace::TraceLevel::$level);
        if $crate::trace::is_on(group, level) {
            $crate::trace::show($crate::trace::Traced { group, level, file: file!(), line: line!(), text: format_args!($($text)+) });
        }
    }};
}

#[cfg(feature = "trace")]
pub use built_in::{Traced, is_on, set, show, show_with, shown};

#[cfg(feature = "trace")]
mod built_in {
    use std::fmt::Arguments;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::{ALL_GROUPS, TraceGroup, TraceLevel};

    /// One trace.
    #[derive(Debug)]
    pub struct Traced<'a> {
        /// What it is about.
        pub group: TraceGroup,
        /// How much it matters.
        pub level: TraceLevel,
        /// File of the source.
        pub file: &'static str,
        /// Line in it.
        pub line: u32,
        /// The text.
        pub text: Arguments<'a>,
    }

    static MASK: AtomicU32 = AtomicU32::new(ALL_GROUPS);
    static LEVEL: AtomicU32 = AtomicU32::new(TraceLevel::Error as u32);
    static SHOW: OnceLock<fn(&Traced<'_>)> = OnceLock::new();

    /// True if that is to be shown.
    #[inline]
    pub fn is_on(group: TraceGroup, level: TraceLevel) -> bool {
        MASK.load(Relaxed) & group as u32 != 0 && level as u32 <= LEVEL.load(Relaxed)
    }

    /// Bits of the groups that are shown, and up to which level.
    pub fn set(mask: u32, level: u32) {
        MASK.store(mask & ALL_GROUPS, Relaxed);
        LEVEL.store(level, Relaxed);
    }

    /// What is shown now.
    pub fn shown() -> (u32, u32) {
        (MASK.load(Relaxed), LEVEL.load(Relaxed))
    }

    /// Who shows traces; the first stays.
    pub fn show_with(show: fn(&Traced<'_>)) {
        let _ = SHOW.set(show);
    }

    /// Shows one.
    #[cold]
    #[inline(never)]
    pub fn show(line: Traced<'_>) {
        if let Some(show) = SHOW.get() {
            show(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_numbers_or_names_of_groups() {
        let all = TraceGroup::ALL.iter().fold(0, |all, group| {
            assert_eq!(mask(group.name()), Some(*group as u32));
            assert_eq!(all & *group as u32, 0, "a bit each");
            all | *group as u32
        });
        assert_eq!((all, mask("ALL"), mask("OFF")), (ALL_GROUPS, Some(ALL_GROUPS), Some(0)));
        assert_eq!(
            (mask("0x41"), mask("65"), mask("INPUT,CMD")),
            (Some(0x41), Some(0x41), Some(0x41))
        );
        for bad in
            ["", "0x", "0x2000", "8192", "-1", "+1", "0x+1", "input", "INPUT,", "99999999999"]
        {
            assert_eq!(mask(bad), None, "{bad}");
        }
    }

    #[cfg(feature = "trace")]
    #[test]
    fn a_trace_is_shown_if_its_group_and_level_are_on() {
        use std::sync::Mutex;
        static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
        show_with(|line| SEEN.lock().unwrap().push(format!("{} {}", line.group.name(), line.text)));
        set(TraceGroup::Input as u32, TraceLevel::Notice as u32);
        trace!(Input, Notice, "{} packets", 7);
        trace!(Input, Info, "too much");
        trace!(Command, Error, "another group");
        assert_eq!(*SEEN.lock().unwrap(), ["INPUT 7 packets"]);
        assert_eq!(shown(), (1, 5));
    }

    #[cfg(not(feature = "trace"))]
    #[test]
    fn without_the_feature_a_trace_does_not_even_look_at_its_arguments() {
        let never = || -> u32 { panic!("looked at") };
        trace!(Input, Error, "{}", never());
    }
}
