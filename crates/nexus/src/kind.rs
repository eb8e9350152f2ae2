//! The output `nexus`: a file of events. Source: `docs/files.md`, `docs/configuration.md`.

use std::path::PathBuf;

use fullcount_core::key::Takes::{Path, Text, Value};
use fullcount_core::key::{Flag, Key, Words};
use fullcount_core::output::{
    Claim, DeclaredOutput, Opened, Opening, OutputKind, OutputOpenError, OutputSetup, Plan,
    Prepared,
};
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::sink::Sink;
use fullcount_io::below::RunFolder;
use fullcount_io::{quantity, section};

use super::change::commands;
use super::section::NexusSection;
use super::{
    About, Compression, EventIdType, Existing, NexusCounter, NexusOptions, NexusSink, Packing,
    PreparedFile, StartAttribute,
};

/// Path of the section.
const SECTION: &str = "output.nexus";

/// A NeXus file.
#[derive(Debug)]
pub struct Nexus;

const DECLARED: DeclaredOutput = DeclaredOutput {
    keys: KEYS,
    named_by: Some("output.nexus.path"),
    counters: || vec![("output: nexus", NexusCounter::catalogue())],
    ..DeclaredOutput::new(
        "nexus",
        SECTION,
        "events in a NeXus file",
        section::reading::<NexusSection>(),
    )
};

impl OutputKind for Nexus {
    fn declared(&self) -> &'static DeclaredOutput {
        &DECLARED
    }

    fn plan(&self, setup: &OutputSetup<'_>) -> Result<Option<Box<dyn Plan>>, Refusal> {
        let section = section::read(SECTION, setup.section)?;
        Ok(Some(Box::new(NexusPlan(nexus_options(&section, setup)?, RunFolder::of(setup)))))
    }
}

/// A checked section.
struct NexusPlan(NexusOptions, Option<RunFolder>);

impl Plan for NexusPlan {
    fn claims(&self) -> Vec<Claim> {
        vec![Claim::WrittenBeside("output.nexus.path", PathBuf::from(&self.0.path), ".building")]
    }

    fn open(&mut self, _: &Opening) -> Result<Opened, OutputOpenError> {
        let fact = format!("output nexus {}", self.0.path.display());
        let file = NexusSink::prepare(&self.0).map_err(|e| OutputOpenError(e.to_string()))?;
        let commands = commands(&self.0, self.1.clone(), &file.orders());
        let (prepared, facts): (Box<dyn Prepared>, _) = (Box::new(file), vec![fact]);
        Ok(Opened { prepared: Some(prepared), facts, commands, ..Opened::default() })
    }
}

impl Prepared for PreparedFile {
    fn publish(self: Box<Self>) -> Result<(Box<dyn Sink>, Vec<String>), OutputOpenError> {
        let sink = PreparedFile::publish(*self).map_err(|e| OutputOpenError(e.to_string()))?;
        let recovered = sink.recovered().map(|r| {
            format!("recovered {} events of a killed run: {}", r.events, r.path.display())
        });
        let facts = recovered.into_iter().collect();
        Ok((Box::new(sink), facts))
    }
}

fn nexus_options(nexus: &NexusSection, setup: &OutputSetup<'_>) -> Result<NexusOptions, Refusal> {
    let mut o = NexusOptions::new(&nexus.path, setup.pixels.clone());
    o.existing = if nexus.overwrite { Existing::Replace } else { Existing::Refuse };
    o.title = nexus.title.clone();
    o.instrument = nexus.instrument.clone();
    o.about = About {
        run_number: nexus.run_number,
        proposal: nexus.proposal.clone(),
        users: nexus.users.clone(),
        sample: nexus.sample.clone(),
    };
    (o.tick, o.tick_assumed) = setup.tick;
    o.epoch = setup.epoch;
    if setup.epoch.0 < 0 {
        let why = "1970 or later with output.nexus: its pulse times cannot be earlier";
        return Err(refuse("time.epoch", setup.epoch_text, why));
    }
    o.pulse_mode = setup.pulse.to_owned();
    o.configuration = setup.configuration.to_owned();
    o.compression = compression("output.nexus.compression", &nexus.compression)?;
    o.flush_interval = quantity::duration(&nexus.flush)
        .map_err(|e| refuse("output.nexus.flush", &nexus.flush, e.to_string()))?;
    o.start_attribute = match nexus.epoch_attribute.as_str() {
        "offset" => StartAttribute::Offset,
        "start" => StartAttribute::Start,
        other => return Err(refuse("output.nexus.epoch_attribute", other, "offset or start")),
    };
    o.event_id = match nexus.event_id.as_str() {
        "int32" => EventIdType::I32,
        "uint32" => EventIdType::U32,
        other => return Err(refuse("output.nexus.event_id", other, "int32 or uint32")),
    };
    o.chunk_events = usize::try_from(nexus.chunk).unwrap_or(usize::MAX);
    o.source_distance_m = nexus.source_distance_m;
    o.packing = match (nexus.compress.as_str(), nexus.compress_threads) {
        ("direct", None) => o.packing,
        ("direct", Some(threads)) => Packing::Direct { threads },
        ("hdf5", None) => Packing::Hdf5,
        ("hdf5", Some(threads)) => {
            let why = "only with output.nexus.compress = \"direct\": the library compresses on one thread";
            return Err(refuse("output.nexus.compress_threads", threads, why));
        }
        (other, _) => return Err(refuse("output.nexus.compress", other, "direct or hdf5")),
    };
    o.wall.clone_from(&setup.wall);
    let shown = nexus.path.display();
    o.validate().map_err(|e| refuse("output.nexus", shown, e.to_string()))?;
    Ok(o)
}

pub(crate) fn compression(key: &'static str, text: &str) -> Result<Compression, Refusal> {
    text.parse().map_err(|_| refuse(key, text, Compression::ALLOWED))
}

/// Keys of the section.
const KEYS: &[Key] = &[
    Key::new(Path, "output.nexus.path", "required", "path; its folder must exist", "file to write")
        .flag("nexus", "FILE", "Write events to this NeXus file"),
    Key::new(Value, "output.nexus.overwrite", "`false`", "`true`, `false`", "replace a file that is there")
        .with(Flag { name: "overwrite", value: "", help: "Replace the files that flags name if they exist; without such flags, the NeXus file", words: Words::Replace }),
    Key::new(Text, "output.nexus.title", "`\"Fullcount run\"`", "text", "title of the entry")
        .flag("title", "TEXT", "Title of the NeXus file [default: Fullcount run]"),
    Key::new(Text, "output.nexus.instrument", "`\"fullcount\"`", "text", "name of the instrument"),
    Key::new(Value, "output.nexus.run_number", "–", "0 to 2,147,483,647", "number of the run")
        .flag("run-number", "N", "Number of the run, for the NeXus file"),
    Key::new(Text, "output.nexus.proposal", "–", "text", "proposal that the run belongs to")
        .flag("proposal", "ID", "Proposal that the run belongs to, for the NeXus file"),
    Key::new(Value, "output.nexus.users", "–", "up to 64 tables with `name`, and if wanted `affiliation`, `email`, `facility_user_id`, `role`: text", "users; flags give names only and replace those of the file")
        .with(Flag { name: "user", value: "NAME", help: "Name of a user, for the NeXus file; may be repeated", words: Words::Names }),
    Key::new(Text, "output.nexus.sample.name", "–", "text", "name of the sample")
        .flag("sample", "NAME", "Name of the sample, for the NeXus file"),
    Key::new(Text, "output.nexus.sample.chemical_formula", "–", "text", "its formula, as `C6 H12 O6`"),
    Key::new(Text, "output.nexus.sample.description", "–", "text, up to 4096 bytes", "description"),
    Key::new(Text, "output.nexus.sample.type", "–", "`sample`, `sample+can`, `can`, `sample+buffer`, `buffer`, `calibration sample`, `normalisation sample`, `simulated data`, `none`, `sample environment`", "what it is"),
    Key::new(Value, "output.nexus.sample.temperature_k", "–", "0 K or more", "temperature"),
    Key::new(Value, "output.nexus.sample.mass_g", "–", "0 g or more", "mass"),
    Key::new(Text, "output.nexus.compression", "`\"none\"`", "`none`, `gzip` (level 4), `gzip:1` to `gzip:9`", "with shuffle; smaller and slower to write")
        .flag("compression", "HOW", "Compression of the NeXus file: none, gzip or gzip:1 to gzip:9 [default: none]"),
    Key::new(Text, "output.nexus.compress", "`\"direct\"`", "`direct`, `hdf5`", "[who compresses](files.md#compressed-files): threads of the output, or the library on the thread that writes; same filters in the file"),
    Key::new(Value, "output.nexus.compress_threads", "–", "1 to 16", "threads of `direct`; without it half of the cores, at most 4"),
    Key::new(Text, "output.nexus.flush", "`\"2s\"`", "10 ms to 1 h", "longest time that a reader of the growing file lags behind, and that a kill can cost"),
    Key::new(Text, "output.nexus.epoch_attribute", "`\"offset\"`", "`offset`, `start`", "attribute of `event_time_zero` that carries the epoch: NeXus' name, or that of the ESS file writer"),
    Key::new(Text, "output.nexus.event_id", "`\"int32\"`", "`int32`, `uint32`", "type of `event_id`; old versions of Mantid want `uint32`"),
    Key::new(Value, "output.nexus.chunk", "`1048576`", "1024 to 67,108,864 events", "entries per chunk of the event columns"),
    Key::new(Value, "output.nexus.source_distance_m", "–", "above 0 m", "from the source to the sample; without it the source has no place in the file"),
];
