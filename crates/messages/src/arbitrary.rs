//! Any message of any schema, for property tests.

use std::borrow::Cow;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use super::*;

/// Text that lives as long as the test program: messages borrow theirs.
fn text() -> BoxedStrategy<&'static str> {
    let some: &'static [&'static str] = &[
        "",
        "a",
        "cspec",
        "multi\u{2009}grid",
        "0123456789abcdef",
        "{\"k\": [1, 2]}",
        "Ω\0µ",
        "seven77",
    ];
    proptest::sample::select(some).boxed()
}

fn bytes() -> BoxedStrategy<&'static [u8]> {
    static PATTERN: [u8; 256] = {
        let mut all = [0; 256];
        let mut i = 0;
        while i < 256 {
            all[i] = i as u8 ^ 0x5a;
            i += 1;
        }
        all
    };
    (0..40usize, 0..200usize).prop_map(|(n, at)| &PATTERN[at..at + n]).boxed()
}

fn column<T: Arbitrary + Clone + 'static>() -> BoxedStrategy<Cow<'static, [T]>> {
    vec(any::<T>(), 0..20).prop_map(Cow::Owned).boxed()
}

fn one_of<T: Copy + std::fmt::Debug + 'static>(all: &'static [T]) -> BoxedStrategy<T> {
    proptest::sample::select(all).boxed()
}

fn events42() -> BoxedStrategy<Message<'static>> {
    let isis = (any::<u32>(), one_of(RunState::ALL), any::<f32>()).prop_map(
        |(period_number, run_state, proton_charge)| {
            FacilityData::Isis(IsisData { period_number, run_state, proton_charge })
        },
    );
    let debug = (of(column()), of(column()), of(column()), of(column()), of(column())).prop_map(
        |(amplitude, peak_area, background, threshold_time, peak_time)| {
            FacilityData::AdcPulseDebug(AdcPulseDebug {
                amplitude,
                peak_area,
                background,
                threshold_time,
                peak_time,
            })
        },
    );
    (
        of(text()),
        any::<u64>(),
        any::<u64>(),
        of(column()),
        of(column()),
        of(prop_oneof![isis, debug]),
    )
        .prop_map(|(source_name, message_id, pulse_time, time_of_flight, detector_id, data)| {
            Message::Ev42(Events42 {
                source_name,
                message_id,
                pulse_time,
                time_of_flight,
                detector_id,
                facility_specific_data: data,
            })
        })
        .boxed()
}

fn events44() -> BoxedStrategy<Message<'static>> {
    (text(), any::<i64>(), column(), column(), of(column()), of(column()))
        .prop_map(|(source_name, message_id, reference_time, index, time_of_flight, pixel_id)| {
            Message::Ev44(Events44 {
                source_name,
                message_id,
                reference_time,
                reference_time_index: index,
                time_of_flight,
                pixel_id,
            })
        })
        .boxed()
}

macro_rules! histogram {
    ($name:ident $variant:ident $histogram:ident $dimension:ident $values:ident $int:ident $long:ident $n:ty, $t:ty) => {
        fn $name() -> BoxedStrategy<Message<'static>> {
            let values = || {
                prop_oneof![
                    column().prop_map($values::$int),
                    column().prop_map($values::$long),
                    column().prop_map($values::ArrayDouble),
                    column().prop_map($values::ArrayFloat),
                ]
            };
            let dimension = (any::<$n>(), of(text()), of(text()), of(values())).prop_map(
                |(length, unit, label, bin_boundaries)| $dimension {
                    length,
                    unit,
                    label,
                    bin_boundaries,
                },
            );
            let head = (of(text()), any::<$t>(), of(vec(dimension, 0..4)), any::<$t>());
            (head, column(), of(column()), of(values()), of(values()), of(text()))
                .prop_map(|(head, current_shape, offset, data, errors, info)| {
                    let (source, timestamp, dim_metadata, last_metadata_timestamp) = head;
                    Message::$variant($histogram {
                        source,
                        timestamp,
                        dim_metadata,
                        last_metadata_timestamp,
                        current_shape,
                        offset,
                        data,
                        errors,
                        info,
                    })
                })
                .boxed()
        }
    };
}
histogram! { hs00 Hs00 Histogram00 Dimension00 Values00 ArrayUInt ArrayULong u32, u64 }
histogram! { hs01 Hs01 Histogram01 Dimension01 Values01 ArrayInt ArrayLong i32, i64 }

fn arrays() -> BoxedStrategy<Message<'static>> {
    let labels = (text(), of(text()), of(text()), of(text()));
    let rest = (one_of(DataType::ALL), of(vec(text(), 0..4)), column(), bytes());
    let variable = (labels, rest).prop_map(|(labels, (data_type, axes, shape, data))| {
        let (name, unit, label, source) = labels;
        Variable { name, unit, label, source, data_type, axes, shape, data }
    });
    (text(), any::<i64>(), vec(variable, 0..4))
        .prop_map(|(source_name, timestamp, data)| {
            Message::Da00(DataArray { source_name, timestamp, data })
        })
        .boxed()
}

fn value() -> BoxedStrategy<LogValue<'static>> {
    use LogValue::*;
    macro_rules! any_of {
        ($($number:ty: $single:ident $array:ident)+) => {
            prop_oneof![
                $(any::<$number>().prop_map($single), column().prop_map($array),)+
            ]
        };
    }
    let integers = any_of! {
        i8: Byte ArrayByte u8: UByte ArrayUByte i16: Short ArrayShort u16: UShort ArrayUShort i32: Int ArrayInt
    };
    let more = any_of! {
        u32: UInt ArrayUInt i64: Long ArrayLong u64: ULong ArrayULong f32: Float ArrayFloat f64: Double ArrayDouble
    };
    prop_oneof![integers, more].boxed()
}

fn logs() -> BoxedStrategy<Message<'static>> {
    let f142 = (
        of(text()),
        of(value()),
        any::<u64>(),
        one_of(AlarmStatus::ALL),
        one_of(AlarmSeverity::ALL),
    )
        .prop_map(|(source_name, value, timestamp, status, severity)| {
            Message::F142(LogEntry142 { source_name, value, timestamp, status, severity })
        });
    let f144 = (text(), any::<i64>(), value()).prop_map(|(source_name, timestamp, value)| {
        Message::F144(LogEntry144 { source_name, timestamp, value })
    });
    let al00 = (of(text()), any::<i64>(), one_of(StateSeverity::ALL), of(text())).prop_map(
        |(source_name, timestamp, severity, message)| {
            Message::Al00(Alarm { source_name, timestamp, severity, message })
        },
    );
    prop_oneof![f142, f144, al00].boxed()
}

fn services() -> BoxedStrategy<Message<'static>> {
    let status = (vec(of(text()), 5), any::<u32>(), any::<u32>()).prop_map(|(t, id, interval)| {
        Message::X5f2(Status {
            software_name: t[0],
            software_version: t[1],
            service_id: t[2],
            host_name: t[3],
            process_id: id,
            update_interval: interval,
            status_json: t[4],
        })
    });
    let json = of(text()).prop_map(|json| Message::Json(JsonText { json }));
    let raw =
        (text(), any::<i64>(), of(bytes())).prop_map(|(source_name, message_id, raw_data)| {
            Message::Ar51(RawReadout { source_name, message_id, raw_data })
        });
    prop_oneof![status, json, raw].boxed()
}

fn runs() -> BoxedStrategy<Message<'static>> {
    let map = (of(column()), of(column()), any::<i32>()).prop_map(
        |(spectrum, detector_id, n_spectra)| SpectraDetectorMapping {
            spectrum,
            detector_id,
            n_spectra,
        },
    );
    let start = (vec(of(text()), 9), any::<u64>(), any::<u64>(), any::<u32>(), of(map)).prop_map(
        |(t, start_time, stop_time, n_periods, detector_spectrum_map)| {
            Message::Pl72(RunStart {
                start_time,
                stop_time,
                run_name: t[0],
                instrument_name: t[1],
                nexus_structure: t[2],
                job_id: t[3],
                broker: t[4],
                service_id: t[5],
                filename: t[6],
                n_periods,
                detector_spectrum_map,
                metadata: t[7],
                control_topic: t[8],
            })
        },
    );
    let stop = (vec(of(text()), 4), any::<u64>()).prop_map(|(t, stop_time)| {
        Message::S6s4t(RunStop {
            stop_time,
            run_name: t[0],
            job_id: t[1],
            service_id: t[2],
            command_id: t[3],
        })
    });
    let asked = (one_of(Action::ALL), one_of(AnswerOutcome::ALL), any::<i32>(), any::<u64>());
    let answer = (vec(text(), 2), vec(of(text()), 2), asked).prop_map(|(who, said, asked)| {
        let (action, outcome, status_code, stop_time) = asked;
        Message::Answ(ActionResponse {
            service_id: who[0],
            job_id: who[1],
            action,
            outcome,
            status_code,
            stop_time,
            message: said[0],
            command_id: said[1],
        })
    });
    let written = (vec(text(), 3), any::<bool>(), vec(of(text()), 2)).prop_map(|(t, bad, said)| {
        Message::Wrdn(FinishedWriting {
            service_id: t[0],
            job_id: t[1],
            error_encountered: bad,
            file_name: t[2],
            metadata: said[0],
            message: said[1],
        })
    });
    prop_oneof![start, stop, answer, written].boxed()
}

fn monitors() -> BoxedStrategy<Message<'static>> {
    let five = || (of(column()), of(column()), of(column()), of(column()), of(column()));
    let histograms = (five(), any::<u32>()).prop_map(|(five, bin_width)| {
        let (xstrips, ystrips, xspectrum, yspectrum, cluster_spectrum) = five;
        MonitorData::Histograms(Histograms {
            xstrips,
            ystrips,
            xspectrum,
            yspectrum,
            cluster_spectrum,
            bin_width,
        })
    });
    let points = || {
        let point = (any::<u16>(), any::<u16>(), any::<u16>());
        of(vec(point.prop_map(|(time, strip, adc)| Point { time, strip, adc }), 0..9))
    };
    let track = (any::<u64>(), points(), points(), any::<f64>(), any::<f64>()).prop_map(
        |(time_offset, xtrack, ytrack, xpos, ypos)| {
            MonitorData::Track(Track { time_offset, xtrack, ytrack, xpos, ypos })
        },
    );
    let hits = (of(column()), of(column()), of(column()), of(column())).prop_map(
        |(plane, time, channel, adc)| MonitorData::Hits(Hits { plane, time, channel, adc }),
    );
    (of(text()), of(prop_oneof![histograms, track, hits]))
        .prop_map(|(source_name, data)| Message::Mo01(Monitor { source_name, data }))
        .boxed()
}

fn channels() -> BoxedStrategy<Message<'static>> {
    let connection = (any::<i64>(), one_of(ConnectionState::ALL), text(), of(text())).prop_map(
        |(timestamp, status, source_name, service_id)| {
            Message::Ep01(Connection { timestamp, status, source_name, service_id })
        },
    );
    let values = prop_oneof![
        column().prop_map(SampleValues::Int8Array),
        column().prop_map(SampleValues::UInt16Array),
        column().prop_map(SampleValues::Int64Array),
        column().prop_map(SampleValues::DoubleArray),
        column().prop_map(SampleValues::FloatArray),
    ];
    let numbers = (any::<i32>(), any::<i64>(), -1e12..1e12, any::<i64>());
    let samples = (text(), numbers, one_of(SampleLocation::ALL), values, of(column())).prop_map(
        |(name, numbers, timestamp_location, values, timestamps)| {
            let (channel, packet_timestamp, time_delta, message_counter) = numbers;
            Message::Se00(Samples {
                name,
                channel,
                packet_timestamp,
                time_delta,
                timestamp_location,
                values,
                timestamps,
                message_counter,
            })
        },
    );
    let chopper =
        (text(), column(), any::<u64>()).prop_map(|(name, timestamps, sequence_counter)| {
            Message::Tdct(ChopperTimes { name, timestamps, sequence_counter })
        });
    let attribute = (text(), of(text()), of(text()), one_of(PixelType::ALL), bytes()).prop_map(
        |(name, description, source, data_type, data)| ImageAttribute {
            name,
            description,
            source,
            data_type,
            data,
        },
    );
    let image = (text(), any::<i32>(), any::<i64>(), column(), one_of(PixelType::ALL), bytes());
    let image = (image, of(vec(attribute, 0..4))).prop_map(|(image, attributes)| {
        let (source_name, id, timestamp, dimensions, data_type, data) = image;
        let image = Image { source_name, id, timestamp, dimensions, data_type, data, attributes };
        Message::Ad00(image)
    });
    prop_oneof![connection, samples, chopper, image].boxed()
}

/// What only old topics hold.
fn predecessors() -> BoxedStrategy<Message<'static>> {
    let columns = (of(column()), of(column()), of(column()), of(column()));
    let events = (of(text()), any::<u64>(), columns).prop_map(|(source_name, message_id, all)| {
        let (pulse_time, pulse_index, time_of_flight, detector_id) = all;
        Message::Ev43(Events43 {
            source_name,
            message_id,
            pulse_time,
            pulse_index,
            time_of_flight,
            detector_id,
        })
    });
    let entry = (of(text()), -1e12..1e12, -1e12..1e12, any::<bool>(), of(text())).prop_map(
        |(key, time, ttl, expired, value)| {
            Message::Ns10(CacheEntry { key, time, ttl, expired, value })
        },
    );
    let connection = (any::<u64>(), one_of(ConnectionEvent::ALL), of(text()), of(text())).prop_map(
        |(timestamp, type_, source_name, service_id)| {
            Message::Ep00(OldConnection { timestamp, type_, source_name, service_id })
        },
    );
    let values = prop_oneof![
        column().prop_map(OldSampleValues::UInt8Array),
        column().prop_map(OldSampleValues::Int16Array),
        column().prop_map(OldSampleValues::UInt32Array),
        column().prop_map(OldSampleValues::UInt64Array),
    ];
    let numbers = (any::<i32>(), any::<u64>(), -1e12..1e12, any::<u64>());
    let samples = (text(), numbers, one_of(SampleLocation::ALL), values, of(column())).prop_map(
        |(name, numbers, timestamp_location, values, timestamps)| {
            let (channel, packet_timestamp, time_delta, message_counter) = numbers;
            Message::Senv(OldSamples {
                name,
                channel,
                packet_timestamp,
                time_delta,
                timestamp_location,
                values,
                timestamps,
                message_counter,
            })
        },
    );
    let attribute = (text(), of(text()), of(text()), one_of(PixelType::ALL), bytes()).prop_map(
        |(name, description, source, data_type, data)| ImageAttribute {
            name,
            description,
            source,
            data_type,
            data,
        },
    );
    let image = (text(), any::<i32>(), any::<u64>(), column(), one_of(PixelType::ALL), bytes());
    let image = (image, of(vec(attribute, 0..4))).prop_map(|(image, attributes)| {
        let (source_name, id, timestamp, dimensions, data_type, data) = image;
        let image =
            OldImage { source_name, id, timestamp, dimensions, data_type, data, attributes };
        Message::Adar(image)
    });
    prop_oneof![events, entry, connection, samples, image].boxed()
}

/// Any message; floating-point numbers are finite, so that equal means equal.
pub fn message() -> impl Strategy<Value = Message<'static>> {
    prop_oneof![
        events42(),
        events44(),
        hs00(),
        hs01(),
        arrays(),
        logs(),
        services(),
        runs(),
        monitors(),
        channels(),
        predecessors()
    ]
}
