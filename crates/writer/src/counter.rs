//! What the writer counts: messages by schema and by reason of refusal, events, orders, files.
//!
//! Source: `docs/contracts.md`, "Ledger". One refusal is one counter.

use fullcount_messages::{NotAMessage, Schema};

fullcount_core::counters! {
    /// What the file writer counts.
    pub enum WriteCounter {
        In "write.in" Messages Sum "write" In "messages read from the topics of jobs" "";
        Ev44 "write.ev44" Messages Sum "write" Accepted "ev44 messages in files" "";
        Ev42 "write.ev42" Messages Sum "write" Accepted "ev42 messages in files" "";
        Ev43 "write.ev43" Messages Sum "write" Accepted "ev43 messages in files" "";
        F144 "write.f144" Messages Sum "write" Accepted "f144 messages in files" "";
        F142 "write.f142" Messages Sum "write" Accepted "f142 messages in files" "";
        Ns10 "write.ns10" Messages Sum "write" Accepted "ns10 messages in files" "";
        Da00 "write.da00" Messages Sum "write" Accepted "da00 messages in files" "";
        Hs01 "write.hs01" Messages Sum "write" Accepted "hs01 messages in files" "";
        Hs00 "write.hs00" Messages Sum "write" Accepted "hs00 messages in files" "";
        Al00 "write.al00" Messages Sum "write" Accepted "al00 messages in files" "";
        Ep01 "write.ep01" Messages Sum "write" Accepted "ep01 messages in files" "";
        Ep00 "write.ep00" Messages Sum "write" Accepted "ep00 messages in files" "";
        Se00 "write.se00" Messages Sum "write" Accepted "se00 messages in files" "";
        Senv "write.senv" Messages Sum "write" Accepted "senv messages in files" "";
        Tdct "write.tdct" Messages Sum "write" Accepted "tdct messages in files" "";
        Ad00 "write.ad00" Messages Sum "write" Accepted "ad00 messages in files" "";
        Adar "write.adar" Messages Sum "write" Accepted "ADAr messages in files" "";
        NotAsked "write.not_asked" Messages Sum "write" Rejected
            "messages of a source or a schema that the structure of the file does not name"
            "nothing if others share the topic; else compare source names in the structure with those of the producer";
        BeforeStart "write.before_start" Messages Sum "write" Rejected
            "messages whose own time is before the start of the run" "a few: normal; all: the clocks of senders and control system differ";
        AfterStop "write.after_stop" Messages Sum "write" Rejected
            "messages whose own time is after the stop of the run" "a few: normal; all: the clocks of senders and control system differ";
        Repeated "write.repeated" Messages Sum "write" Rejected
            "messages of a log, an alarm or a connection with the time of the one before, which is in the file" "nothing: a forwarder repeats values";
        TooShort "write.too_short" Messages Sum "write" Rejected
            "messages of less than 8 bytes" "find out who else writes to this topic";
        UnknownSchema "write.unknown_schema" Messages Sum "write" Rejected
            "messages of a schema that is not read here"
            "nothing if others share the topic; else check the producer's schema";
        Damaged "write.damaged" Messages Sum "write" Rejected
            "messages that the verifier refused: offsets or lengths that cannot be, or a required field missing"
            "update the producer, or look for what cuts its messages (message.max.bytes)";
        UnknownMember "write.unknown_member" Messages Sum "write" Rejected
            "messages whose union holds a member that the schema does not have"
            "compare the versions of producer and writer";
        UnknownValue "write.unknown_value" Messages Sum "write" Rejected
            "messages with a number that an enumeration of the schema does not have"
            "compare the versions of producer and writer";
        Contradictory "write.contradictory" Messages Sum "write" Rejected
            "event messages that contradict themselves: index rules broken, or vectors of different lengths"
            "report it to whoever makes the producer";
        Shape "write.shape" Messages Sum "write" Rejected
            "messages of another shape or type than the structure of the file says"
            "correct the structure (dtype, shape, array_size, variables) or the producer";
        Range "write.range" Messages Sum "write" Rejected
            "messages with a number that the type of the dataset cannot hold"
            "give the stream a wider dtype in the structure";
        Gone "write.gone" Messages Sum "write" Missing(Down)
            "messages that the broker had deleted before they were read: the topic's retention is shorter than a writer was away or behind"
            "raise retention.ms or retention.bytes of the topic; do not leave a writer with unfinished files stopped";
        CarriedIn "write.carried_in" Messages Sum "write" Note
            "last values from before the start that were written because they still held" "";
        CarriedOut "write.carried_out" Messages Sum "write" Note
            "first values from after the stop that were written because the last ones of the run held until then" "";
        EventsIn "write.events.in" Events Sum "write.events" In "events of messages in files" "";
        Events "write.events" Events Sum "write.events" Accepted
            "events in files up to their last flush" "";
        EventsWaiting "write.events.waiting" Events Sum "write.events" Queued
            "events that wait for the next flush of their file" "";
        OutsidePixels "write.events.outside_pixels" Events Sum "write.events" Rejected
            "events whose pixel is not in the detector_number of the structure; readers would drop them without a word"
            "compare detector_number in the structure with the pixel numbers that come";
        OffsetRange "write.events.offset_range" Events Sum "write.events" Rejected
            "events more than 2147483647 ns after their pulse, which event_time_offset (int32) cannot hold"
            "let the producer use a pulse nearer to the event";
        PixelRange "write.events.pixel_range" Events Sum "write.events" Rejected
            "events of ev42 pixels above 2147483647, which event_id (int32) cannot hold"
            "number the pixels from 1, or send ev44";
        Before1970 "write.events.before_1970" Events Sum "write.events" Rejected
            "events of pulses before 1970, which event_time_zero (uint64) cannot hold"
            "correct the clock of the readout system";
        Unwritten "write.events.unwritten" Events Sum "write.events" Dropped(Down)
            "events taken but not in a file because writing failed"
            "free space on the disk; the file keeps what was flushed before";
        Orders "write.orders" Messages Sum "write.orders" In
            "messages of the job pool and of control topics" "";
        Started "write.orders.started" Messages Sum "write.orders" Accepted "runs started" "";
        Stopped "write.orders.stopped" Messages Sum "write.orders" Accepted "stop times set" "";
        OthersOrder "write.orders.not_ours" Messages Sum "write.orders" Rejected
            "orders for another writer, and what other services say on the same topic" "nothing: others use the topic as well";
        OrderAgain "write.orders.again" Messages Sum "write.orders" Rejected
            "orders that were obeyed before and came again after a restart" "nothing: they are obeyed once";
        OrderEcho "write.orders.echo" Messages Sum "write.orders" Rejected
            "starts that a writer said again on the control topic of their run" "nothing: other writers echo their starts";
        OrderBroken "write.orders.broken" Messages Sum "write.orders" Rejected
            "orders that cannot be read: the answer says where they stand, and for which job if that can be read"
            "look at who writes to the job pool and the control topics";
        OrderField "write.orders.field" Messages Sum "write.orders" Rejected
            "orders without a field that is needed, or with one that cannot be" "read the answer (answ)";
        OrderStructure "write.orders.structure" Messages Sum "write.orders" Rejected
            "starts whose nexus_structure cannot be written" "read the answer (answ): it says where in the JSON";
        OrderTemplate "write.orders.template" Messages Sum "write.orders" Rejected
            "starts without a nexus_structure whose instrument_name has no template" "read the answer (answ); look at --templates, or send the structure";
        OrderPath "write.orders.path" Messages Sum "write.orders" Rejected
            "starts whose file name leads out of the writer's folder, or cannot be used" "choose another file name";
        OrderExists "write.orders.exists" Messages Sum "write.orders" Rejected
            "starts whose file is there already" "choose another file name";
        OrderTwice "write.orders.twice" Messages Sum "write.orders" Rejected
            "starts with the id of a job that runs or ran" "give every run an id of its own";
        OrderTimes "write.orders.times" Messages Sum "write.orders" Rejected
            "orders whose stop is not after the start" "correct start_time and stop_time";
        OrderPast "write.orders.past" Messages Sum "write.orders" Rejected
            "stops in the past" "send stop_time 0 to stop at once; compare the clocks";
        OrderOver "write.orders.over" Messages Sum "write.orders" Rejected
            "later stops for runs that have passed their stop already" "start another run";
        OrderUnknown "write.orders.unknown_job" Messages Sum "write.orders" Rejected
            "stops for jobs that this writer does not have" "compare job_id; with several writers on one control topic and no pool use --shared-control";
        OrderTopic "write.orders.topic" Messages Sum "write.orders" Rejected
            "starts with a topic that is not on the broker, or that it cannot be asked for" "create the topic, or correct the structure";
        OrderFull "write.orders.full" Messages Sum "write.orders" Rejected
            "starts while the writer has as many jobs as it may" "raise --jobs, or start another writer";
        OrderSuspect "write.orders.suspect" Messages Sum "write.orders" Rejected
            "starts that are not read again: the writer ended twice while it read them"
            "look at the nexus_structure of the order, and at what ended the writer (memory?)";
        OrderFile "write.orders.file" Messages Sum "write.orders" Rejected
            "starts whose file could not be made" "read the answer (answ): disk full, permissions";
        Finished "write.files" Times Sum "write.files" Note "files finished" "";
        Failed "write.files_failed" Times Sum "write.files" Note
            "files given up; what was flushed is in them" "read wrdn: disk full, permissions";
        TopicGone "write.topics_gone" Times Sum "write.files" Note
            "topics that were deleted while a file was to be written from them, also those that were made anew"
            "do not delete topics during runs; wrdn says which file is not whole";
        Outside "write.streams_outside" Times Sum "write.files" Note
            "streams of which all that came during a run was before its start or after its stop"
            "read wrdn; give the detector wall-clock times ([time] epoch = \"now\"), or begin the run where its times are (--start)";
        Resumed "write.files_resumed" Times Sum "write.files" Note
            "files gone on with after a restart" "";
        Flushes "write.flushes" Times Sum "write.files" Note "flushes of files" "";
    }
}

impl WriteCounter {
    /// The counter of written messages of a schema.
    pub(super) fn of(schema: Schema) -> WriteCounter {
        match schema {
            Schema::Ev44 => WriteCounter::Ev44,
            Schema::Ev42 => WriteCounter::Ev42,
            Schema::Ev43 => WriteCounter::Ev43,
            Schema::F144 => WriteCounter::F144,
            Schema::F142 => WriteCounter::F142,
            Schema::Ns10 => WriteCounter::Ns10,
            Schema::Da00 => WriteCounter::Da00,
            Schema::Hs01 => WriteCounter::Hs01,
            Schema::Hs00 => WriteCounter::Hs00,
            Schema::Al00 => WriteCounter::Al00,
            Schema::Ep01 => WriteCounter::Ep01,
            Schema::Ep00 => WriteCounter::Ep00,
            Schema::Se00 => WriteCounter::Se00,
            Schema::Senv => WriteCounter::Senv,
            Schema::Tdct => WriteCounter::Tdct,
            Schema::Ad00 => WriteCounter::Ad00,
            Schema::Adar => WriteCounter::Adar,
            // No module reads these.
            Schema::Ar51
            | Schema::Json
            | Schema::X5f2
            | Schema::Pl72
            | Schema::S6s4t
            | Schema::Answ
            | Schema::Wrdn
            | Schema::Mo01 => WriteCounter::NotAsked,
        }
    }

    /// The counter of a buffer that is no message.
    pub(super) fn refused(reason: &NotAMessage) -> WriteCounter {
        match reason {
            NotAMessage::TooShort { .. } => WriteCounter::TooShort,
            NotAMessage::UnknownSchema { .. } => WriteCounter::UnknownSchema,
            NotAMessage::Damaged { .. } => WriteCounter::Damaged,
            NotAMessage::UnknownMember { .. } => WriteCounter::UnknownMember,
            NotAMessage::UnknownValue { .. } => WriteCounter::UnknownValue,
        }
    }
}
