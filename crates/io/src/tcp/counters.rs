//! What a `tcp://` source counts. Source: `docs/fragments.md`.

fullcount_core::counters! {
    /// Lines of a `tcp://` source.
    pub enum TcpCounter {
        Packets "receive.packets" Packets Sum "receive" In
            "packets that streams were cut into" "";
        Accepted "receive.accepted" Packets Sum "receive" Accepted
            "packets handed on to the decoder" "";
        Cut "tcp.cut" Packets Sum "tcp" Missing(Link)
            "packets of which only the beginning came before their stream ended"
            "the sender ended or was killed in the middle of a packet, or the connection broke: the message on standard error names it";
        Bytes "receive.bytes" Bytes Sum "receive" Note "bytes received, framing included" "";
        Largest "receive.largest" Bytes Max "receive" Note "largest packet" "";
        Idle "thread.input_idle" Times Sum "receive" Note "receive calls that timed out" "";
        Calls "receive.calls" Times Sum "receive" Note "receive calls that brought at least one packet" "";
        SystemCalls "receive.system_calls" Times Sum "receive" Note "reads of sockets, those that brought nothing included" "";
        Streams "tcp.streams" Times Present "tcp" Note "streams that are open now" "";
        Begun "tcp.begun" Times Sum "tcp" Note "streams that began: connections accepted or made" "";
        Ended "tcp.ended" Times Sum "tcp" Note "streams that their peer ended in order" "";
        Reset "tcp.reset" Times Sum "tcp" Note
            "streams that broke off: reset by the peer, or the peer does not answer any more"
            "was the sender killed, or the link cut? A sender of the simplified TCP always ends so";
        Again "tcp.again" Times Sum "tcp" Note "connections made again after one had ended (connect)" "";
        Unreached "tcp.unreached" Times Sum "tcp" Note
            "attempts to connect that failed; they are repeated"
            "start the peer, and look at address and port";
        Start "tcp.refused.start" Times Sum "tcp" Note
            "streams closed because bytes came that begin no packet"
            "something else sends to this port, or framing= does not fit the sender";
        Long "tcp.refused.long" Times Sum "tcp" Note
            "streams closed because a packet would be longer than frame_max"
            "raise frame_max if the sender means it; otherwise framing= does not fit the sender";
        Many "tcp.refused.many" Times Sum "tcp" Note
            "connections closed at once because max_streams were open" "raise max_streams";
        Unwanted "tcp.refused.decoder" Times Sum "tcp" Note
            "streams closed because the decoder refused them"
            "its own counters say why: a source id that another stream has, or that is not configured";
        Stalls "tcp.stalls" Times Sum "tcp" Note
            "times that a stream that may send was silent for longer than stall"
            "the message on standard error names the peer: is it stopped, or has it no data?";
        Stalled "tcp.stalled" Times Present "tcp" Note "streams that are silent now for longer than stall" "";
        Pauses "tcp.pauses" Times Sum "tcp" Note
            "times that a stream had no credit and was left in the kernel, so that its sender waits" "";
        Paused "tcp.paused" Times Present "tcp" Note "streams without credit now" "";
        PausedTime "tcp.paused_ms" Times Sum "tcp" Note
            "time that streams were without credit, ms, all streams added up"
            "the streams that an event waits for are slower than these, or the outputs are: detector.memory holds more";
        Memory "tcp.memory" Bytes Present "tcp" Note "memory for received bytes, in use or ready" "";
    }
}
