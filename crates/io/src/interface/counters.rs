//! The counters that both engines have, under their scheme, before those that only one has.

/// An engine's counters: `SCHEME.truncated` and so on, then `own`; and their lines for
/// [`Judged`](crate::dissect::judged::Judged). What an engine says differently is given by name.
macro_rules! frame_counters {
    (
        $(#[$doc:meta])*
        pub enum $name:ident of $scheme:literal
        fragments: $fragments:literal $fragments_todo:literal,
        partial: $partial:literal,
        kernel_drops: $drops:literal,
        system_calls: $calls:literal,
        own: { $($own:tt)* }
    ) => {
        fullcount_core::counters! {
            $(#[$doc])*
            pub enum $name {
                Packets "receive.packets" Packets Sum "receive" In
                    "datagrams received" "";
                Accepted "receive.accepted" Packets Sum "receive" Accepted
                    "datagrams handed on to the decoder" "";
                Truncated $scheme ".truncated" Packets Sum "receive" Note
                    "frames that end before the datagram in them does"
                    "look at the sender's card and its offloads: ethtool -S, ethtool -k";
                Lengths $scheme ".lengths" Packets Sum "receive" Note
                    "frames whose IP and UDP lengths contradict each other"
                    "look at the sender: its packets are malformed";
                NotOurs $scheme ".not_ours" Packets Sum "receive" Note
                    "frames that the filter let through although they are not for this endpoint"
                    "report this: filter and receiver disagree";
                Fragments $scheme ".fragments" Packets Sum "receive" Note
                    $fragments $fragments_todo;
                Checksum $scheme ".checksum_errors" Packets Sum "receive" Note
                    "datagrams whose UDP checksum is wrong: their bytes are not those that were sent"
                    "look for damage on the link: ethtool -S (rx_crc_errors), cables, memory of the sender";
                Partial $scheme ".checksum_partial" Packets Sum "receive" Note $partial "";
                Absent $scheme ".checksum_absent" Packets Sum "receive" Note
                    "datagrams sent without a checksum (IPv4)" "";
                Bytes "receive.bytes" Bytes Sum "receive" Note
                    "UDP payload bytes received" "";
                KernelDrops "receive.kernel_drops" Times Sum "receive" Note
                    $drops
                    "raise receive_buffer, pin the receiver to a core of its own, or lower the rate";
                $($own)*
                Idle "thread.input_idle" Times Sum "receive" Note
                    "receive calls that timed out" "";
                Calls "receive.calls" Times Sum "receive" Note
                    "receive calls that brought at least one datagram" "";
                SystemCalls "receive.system_calls" Times Sum "receive" Note
                    $calls "";
            }
        }

        #[cfg(target_os = "linux")]
        impl $name {
            /// Lines that every engine writes.
            pub(crate) const OWN_LINES: $crate::interface::source::Lines = $crate::interface::source::Lines {
                idle: $name::Idle as usize,
                system_calls: $name::SystemCalls as usize,
                frames: $crate::dissect::judged::Lines {
                    calls: $name::Calls as usize,
                    packets: $name::Packets as usize,
                    accepted: $name::Accepted as usize,
                    bytes: $name::Bytes as usize,
                    partial: $name::Partial as usize,
                    absent: $name::Absent as usize,
                    // In the order of `DatagramRefusal::ALL`.
                    refused: [
                        $name::Truncated as usize,
                        $name::Lengths as usize,
                        $name::NotOurs as usize,
                        $name::Fragments as usize,
                        $name::Checksum as usize,
                    ],
                },
            };
        }
    };
}
pub(crate) use frame_counters;
