//! Counters of the Kafka sink and the publisher.

fullcount_core::counters! {
    /// What the Kafka sink counts. Events balance: those that came in, or were in the spool at the start, are
    /// confirmed, refused, dropped, or waiting.
    pub enum KafkaCounter {
        In "sink.kafka.in" Events Sum "sink.kafka" In "events given to the Kafka output" "";
        Recovered "sink.kafka.recovered" Events Sum "sink.kafka" In "events of an earlier run that were in the spool" "";
        Events "sink.kafka.events" Events Sum "sink.kafka" Accepted "events in messages that the broker has confirmed" "";
        Waiting "sink.kafka.waiting" Events Sum "sink.kafka" Queued "events in messages that fill or wait in the spool" "";
        Before1970 "sink.kafka.before_1970" Events Sum "sink.kafka" Rejected "events of pulses before 1970, which consumers take for damage" "check time.epoch";
        Malformed "sink.kafka.malformed" Events Sum "sink.kafka" Rejected "events in batches whose columns contradict each other" "report it: a detector made them";
        Resumed "sink.kafka.resumed" Events Sum "sink.kafka" Rejected "events of an interrupted replay that an earlier process had in messages: passed over" "nothing: they are on the topic already";
        Later "sink.kafka.later" Events Sum "sink.kafka" Rejected "events where a replay was interrupted that are in no message: the next start with it makes them again" "start it again, or use --replay restart for all of it";
        Dropped "sink.kafka.dropped" Events Sum "sink.kafka" Dropped(Queue) "events dropped at the end of a run because the spool was full and nobody took its messages" "start the broker, or make output.kafka.spool_size larger";
        Refused "sink.kafka.refused" Events Sum "sink.kafka" Dropped(Queue) "events in messages that the broker or librdkafka refuses for good" "the message on standard error says why; a message that is too large needs a smaller output.kafka.capacity, or message.max.bytes on broker and topic";
        Damaged "sink.kafka.damaged" Events Sum "sink.kafka" Dropped(Queue) "events in messages of the spool that were damaged on the disk, as far as it is known how many they had" "check the disk";
        Messages "sink.kafka.messages" Messages Sum "sink.kafka" Note "messages that the broker has confirmed" "";
        Bytes "sink.kafka.bytes" Bytes Sum "sink.kafka" Note "payload of these" "";
        Already "sink.kafka.already" Messages Sum "sink.kafka" Note "messages of an earlier run that were found on the topic, and not sent again" "";
        CutPulse "sink.kafka.cut.pulse" Messages Sum "sink.kafka" Note "messages cut because a newer pulse took their place" "";
        CutCapacity "sink.kafka.cut.capacity" Messages Sum "sink.kafka" Note "messages cut because they were full" "";
        CutTimer "sink.kafka.cut.timer" Messages Sum "sink.kafka" Note "messages cut because the flush interval was over" "";
        CutEnd "sink.kafka.cut.end" Messages Sum "sink.kafka" Note "messages cut at the end of the run" "";
        SpoolMessages "kafka.spool.messages" Messages Present "sink.kafka" Note "messages in the spool that the broker has not confirmed" "if it grows: the broker is away or too slow";
        SpoolBytes "kafka.spool.bytes" Bytes Present "sink.kafka" Note "size of the spool's files" "";
        SpoolLimit "kafka.spool.limit" Bytes Present "sink.kafka" Note "most bytes of the spool's files: output.kafka.spool_size" "";
        SpoolNearlyFull "kafka.spool.nearly_full" Times Sum "sink.kafka" Note "times that the spool came to be 80 % full" "the broker is away or too slow: start it, or make output.kafka.spool_size larger";
        SpoolAge "kafka.spool.age_ms" Times Max "sink.kafka" Note "age of the oldest message in the spool, ms" "if it grows: the broker is away or too slow";
        SpoolFull "kafka.spool.full" Times Sum "sink.kafka" Note "times that a message had to wait because the spool or its disk was full" "the broker is away or too slow: make output.kafka.spool_size larger, or clear the disk";
        SpoolDamaged "kafka.spool.damaged" Messages Sum "sink.kafka" Missing(Queue) "messages of the spool that were damaged or missing on the disk, and that the topic does not have" "check the disk";
        SpoolUnreadable "kafka.spool.unreadable" Times Sum "sink.kafka" Note "files of the spool that were damaged, missing or of another spool; messages are lost only where kafka.spool.damaged says so" "check the disk; what could not be read is kept in the folder as *.damaged";
        SpoolTorn "kafka.spool.torn" Times Sum "sink.kafka" Note "appends to the spool that were cut off by a kill: never completed, so their events were in no message" "";
        Errors "kafka.errors" Times Sum "sink.kafka" Note "errors that librdkafka reported: connections, time-outs, brokers down" "the message on standard error says why";
        Sessions "kafka.sessions" Times Sum "sink.kafka" Note "times that sending began anew after an error that librdkafka does not mend by itself" "the message on standard error says why";
    }
}

fullcount_core::counters! {
    /// What a consumer counts.
    pub enum ConsumerCounter {
        Messages "kafka.in.messages" Messages Sum "kafka.in" Note "messages read from Kafka" "";
        Bytes "kafka.in.bytes" Bytes Sum "kafka.in" Note "payload of these" "";
        Commits "kafka.in.commits" Times Sum "kafka.in" Note "times that offsets were committed" "";
        Errors "kafka.in.errors" Times Sum "kafka.in" Note "errors that librdkafka reported and mends by itself" "if it grows: is a broker down?";
    }
}
