//! What the output of merged events counts.

fullcount_core::counters! {
    /// Counters of merged events on their way to a topic.
    pub enum MergedCounter {
        In "sink.merged.in" Events Sum "sink.merged" In "merged events given to this output" "";
        Recovered "sink.merged.recovered" Events Sum "sink.merged" In "merged events of an earlier run that were in the spool" "";
        Sent "sink.merged.events" Events Sum "sink.merged" Accepted "merged events in messages that the broker has confirmed" "";
        Waiting "sink.merged.queued" Events Sum "sink.merged" Queued "merged events on their way or in the spool" "";
        Refused "sink.merged.refused" Events Sum "sink.merged" Dropped(Queue) "merged events in messages that the broker or librdkafka refuses for good" "the message on standard error says why; a large event needs a larger message.max.bytes on broker, topic and in output.merged.options";
        Dropped "sink.merged.dropped" Events Sum "sink.merged" Dropped(Queue) "merged events not sent because the spool had failed, or was full at the end of the run" "the message says why: room on the disk, its permissions, or a broker that is away";
        Damaged "sink.merged.damaged" Events Sum "sink.merged" Dropped(Queue) "merged events in messages of the spool that were damaged on the disk, as far as it is known how many they had" "check the disk";
        Bytes "sink.merged.bytes" Bytes Sum "sink.merged" Note "payload of confirmed messages" "";
        Already "sink.merged.already" Messages Sum "sink.merged" Note "messages of an earlier run that were found on the topic, and not sent again" "";
        SpoolMessages "merged.spool.messages" Messages Present "sink.merged" Note "messages in the spool that the broker has not confirmed" "if it grows: the broker is away or too slow";
        SpoolBytes "merged.spool.bytes" Bytes Present "sink.merged" Note "size of the spool's files" "";
        SpoolLimit "merged.spool.limit" Bytes Present "sink.merged" Note "most bytes of the spool's files: output.merged.spool_size" "";
        SpoolNearlyFull "merged.spool.nearly_full" Times Sum "sink.merged" Note "times that the spool came to be 80 % full" "the broker is away or too slow: start it, or make output.merged.spool_size larger";
        SpoolAge "merged.spool.age_ms" Times Max "sink.merged" Note "age of the oldest message in the spool, ms" "if it grows: the broker is away or too slow";
        SpoolFull "merged.spool.full" Times Sum "sink.merged" Note "times that a message had to wait because the spool or its disk was full" "the broker is away or too slow: make output.merged.spool_size larger";
        SpoolDamaged "merged.spool.damaged" Messages Sum "sink.merged" Missing(Queue) "messages of the spool that were damaged or missing on the disk, and that the topic does not have" "check the disk";
        SpoolUnreadable "merged.spool.unreadable" Times Sum "sink.merged" Note "files of the spool that were damaged, missing or of another spool; messages are lost only where merged.spool.damaged says so" "check the disk; what could not be read is kept in the folder as *.damaged";
        SpoolTorn "merged.spool.torn" Times Sum "sink.merged" Note "appends to the spool that were cut off by a kill: never completed" "";
        Errors "merged.errors" Times Sum "sink.merged" Note "errors that librdkafka reported: connections, time-outs, brokers down" "the message on standard error says why";
        Sessions "merged.sessions" Times Sum "sink.merged" Note "times that sending began anew after an error that librdkafka does not mend by itself" "the message on standard error says why";
    }
}
