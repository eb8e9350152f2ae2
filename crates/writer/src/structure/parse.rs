//! From JSON text to a plan: walks the tree once, then resolves what refers to elsewhere.
//!
//! Refuses what [`StructureFault`] lists. Source: `docs/formats/nexus.md` section 7; sections 3 and 6 for what is added:
//! start and end time of an entry, hard links `<name>_events` in the entry, `NX_class` of a stream's group.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use serde_json::{Map, Value};

use super::NumberType;
use super::array::{Array, Named, kind};
use super::beside;
use super::budget::{Budget, reading, within};
use super::config::{Config, module, text_attribute};
use super::error::{StructureError, StructureFault, fault};
use super::links::{Link, resolved};
use super::names::{attributes, is_name, name_of, values_of};
use super::warnings::Warned;
use super::{
    Attribute, DatasetPlan, Date, DatePlan, FilePlan, GroupPlan, LinkPlan, StreamModule,
    StreamPlan, StructureLimits,
};

type Read<T> = Result<T, StructureError>;

/// Name of the writer's own group.
const OWN: &str = "fullcount";

/// Bytes of a topic or a source name that is an attribute of its group.
const LONGEST_ORIGIN: usize = 4096;

/// End of the path of the numbers that pixels have.
const NUMBERS: &str = "/detector_number";

/// Pixel numbers are integers, as ids of events are: without a type they are not the doubles that others would be.
fn pixel_numbers(values: &Value, dtype: Option<Named>, budget: &Budget, at: &str) -> Read<Array> {
    if let Some(dtype) = dtype {
        let value = Array::read(values, Some(dtype), NumberType::F64, budget, at)?;
        if value.integers().is_none() {
            let found = "no list of integers".to_owned();
            let expected = "pixel numbers of an integer type, e.g. dtype int32";
            return fault(at, StructureFault::Kind { found, expected });
        }
        return Ok(value);
    }
    let read = |dtype| Array::read(values, Some(Named::Number(dtype)), dtype, budget, at);
    read(NumberType::I32).or_else(|_| read(NumberType::I64))
}

/// Reads the structure `text`.
///
/// # Errors
/// The first thing that is wrong, and where.
pub fn parse(text: &str, limits: &StructureLimits) -> Read<FilePlan> {
    if text.len() > limits.bytes {
        let what = format!("a text of {} bytes", text.len());
        return fault("", StructureFault::Limit { what, limit: limits.bytes });
    }
    let what = format!("reading a text of {} bytes", text.len());
    within(limits.memory, reading(text), what, "")?;
    let tree: Value = serde_json::from_str(text).map_err(|error| StructureError {
        at: String::new(),
        fault: StructureFault::Json(error.to_string()),
    })?;
    let Value::Object(root) = &tree else {
        return fault("", kind(&tree, "an object with the list `children`"));
    };
    if !root.contains_key("children") {
        return fault(".children", StructureFault::Missing("the list of what is in the file"));
    }
    let mut reader = Reader {
        plan: FilePlan::default(),
        taken: HashMap::new(),
        twice: 0,
        beside: Vec::new(),
        links: Vec::new(),
        nodes: 0,
        limits,
        budget: Rc::new(Budget::new(limits)),
        warned: Rc::default(),
    };
    // In the order and in the file.
    reader.budget.take(2 * text.len() as u64, "")?;
    reader.group(root, "", "", 0)?;
    reader.finish()
}

pub(super) struct Reader<'a> {
    pub(super) plan: FilePlan,
    /// Absolute path of all that has one, and where in the JSON it is.
    pub(super) taken: HashMap<String, String>,
    /// How many things were there twice.
    pub(super) twice: usize,
    /// Streams that are written beside others, unless their names are taken.
    beside: Vec<StreamPlan>,
    /// Links to resolve.
    links: Vec<Link>,
    nodes: usize,
    limits: &'a StructureLimits,
    budget: Rc<Budget>,
    pub(super) warned: Rc<Warned>,
}

impl Reader<'_> {
    fn take(&mut self, path: &str, at: &str) -> Read<()> {
        self.budget.node(path, at)?;
        match self.taken.insert(path.to_owned(), at.to_owned()) {
            None => Ok(()),
            Some(first) => {
                let first = format!("nexus_structure{first}");
                fault(at, StructureFault::Twice { path: path.to_owned(), first })
            }
        }
    }

    fn group(&mut self, map: &Map<String, Value>, path: &str, at: &str, depth: usize) -> Read<()> {
        if depth > self.limits.depth {
            let what = "groups in groups".to_owned();
            return fault(at, StructureFault::Limit { what, limit: self.limits.depth });
        }
        let attributes = self.attributes(map, at)?;
        let index = self.plan.groups.len();
        self.plan.groups.push(GroupPlan { path: path.to_owned(), attributes });
        let children = match map.get("children") {
            None | Some(Value::Null) => return Ok(()),
            Some(Value::Array(children)) => children,
            Some(other) => return fault(&format!("{at}.children"), kind(other, "a list")),
        };
        for (i, child) in children.iter().enumerate() {
            let at = format!("{at}.children[{i}]");
            self.nodes += 1;
            if self.nodes > self.limits.nodes {
                let what = "groups, datasets, links and streams".to_owned();
                return fault(&at, StructureFault::Limit { what, limit: self.limits.nodes });
            }
            if self.is_stray(child, &at) {
                continue;
            }
            let Value::Object(map) = child else {
                return fault(&at, kind(child, "an object with `type` or `module`"));
            };
            match (map.get("type"), map.get("module")) {
                (_, Some(Value::String(module))) => self.leaf(map, module, index, path, &at)?,
                (_, Some(other)) => {
                    return fault(&format!("{at}.module"), kind(other, "the name of a module"));
                }
                (Some(Value::String(kind)), None) if kind == "group" => {
                    let name = name_of(map, &at)?;
                    let path = format!("{path}/{name}");
                    if self.is_repeated(child, &children[..i], &path, &at) {
                        continue;
                    }
                    self.take(&path, &at)?;
                    self.group(map, &path, &at, depth + 1)?;
                }
                (Some(other), None) => {
                    let expected =
                        "\"group\" (datasets, links and streams have `module` and `config`)";
                    return fault(&format!("{at}.type"), kind(other, expected));
                }
                (None, None) => {
                    return fault(&at, StructureFault::Missing("`type` \"group\", or a `module`"));
                }
            }
        }
        Ok(())
    }

    fn leaf(
        &mut self,
        map: &Map<String, Value>,
        name: &str,
        group: usize,
        path: &str,
        at: &str,
    ) -> Read<()> {
        let inside = format!("{at}.config");
        let nothing = Map::new();
        let config = match map.get("config") {
            Some(Value::Object(config)) => config,
            None | Some(Value::Null) if name == "mdat" => &nothing,
            None | Some(Value::Null) if known(name) => {
                return fault(&inside, StructureFault::Missing("the configuration of the module"));
            }
            Some(other) if known(name) => return fault(&inside, kind(other, "an object")),
            _ => {
                return fault(
                    &format!("{at}.module"),
                    StructureFault::Module(name.chars().take(40).collect()),
                );
            }
        };
        let (budget, warned) = (Rc::clone(&self.budget), Rc::clone(&self.warned));
        let (limits, budget, warned) = (self.limits, &*budget, &*warned);
        let config = Config { map: config, at: inside, limits, budget, warned };
        match name {
            "dataset" => self.dataset(map, &config, path, at),
            "link" => {
                let name = name_of(config.map, &config.at)?;
                let path = format!("{path}/{name}");
                let nothing = |source: &Value| source.is_null() || source.as_str() == Some("");
                if config.map.get("source").is_some_and(nothing) {
                    let at = format!("{}.source", config.at);
                    self.warned.say(&at, "is empty: the link is left out");
                    return Ok(());
                }
                let source = config.text("source", "the path of what is linked")?;
                self.take(&path, at)?;
                let at = format!("{}.source", config.at);
                self.links.push(Link { path, source: source.to_owned(), at });
                Ok(())
            }
            "mdat" => self.dates(&config, path, at),
            stream => self.stream(stream, &config, group, path, at),
        }
    }

    fn dataset(
        &mut self,
        map: &Map<String, Value>,
        config: &Config<'_>,
        path: &str,
        at: &str,
    ) -> Read<()> {
        let path = format!("{path}/{}", name_of(config.map, &config.at)?);
        let (key, values) = values_of(config.map);
        let here = format!("{}.{key}", config.at);
        let Some(values) = values else {
            return fault(&here, StructureFault::Missing("the values"));
        };
        let dtype = config.dtype(&["dtype", "type"])?;
        let empty = Value::String(String::new());
        let values = match (values, dtype) {
            (Value::Null, Some(Named::Text)) => {
                self.warned.say(&here, "is null: an empty text is written");
                &empty
            }
            _ => values,
        };
        let value = if path.ends_with(NUMBERS) {
            pixel_numbers(values, dtype, &self.budget, &here)?
        } else {
            Array::read(values, dtype, NumberType::F64, &self.budget, &here)?
        };
        let mut all = self.attributes(map, at)?;
        for attribute in self.attributes(config.map, &config.at)? {
            if !all.iter().any(|a| a.name == attribute.name) {
                all.push(attribute);
            }
        }
        let dataset = DatasetPlan { path, value, attributes: all };
        if let Some(dataset) = self.replace(dataset, at) {
            self.take(&dataset.path, at)?;
            self.plan.datasets.push(dataset);
        }
        Ok(())
    }

    fn dates(&mut self, config: &Config<'_>, path: &str, at: &str) -> Read<()> {
        let here = format!("{}.items", config.at);
        let items = match config.map.get("items") {
            Some(Value::Array(items)) if !items.is_empty() => items,
            None | Some(Value::Null | Value::Array(_)) => {
                self.warned.say(&here, "names neither start_time nor end_time: nothing is written");
                return Ok(());
            }
            Some(other) => return fault(&here, kind(other, "a list of start_time and end_time")),
        };
        for (i, item) in items.iter().enumerate() {
            let date = match item.as_str() {
                Some("start_time") => Date::Start,
                Some("end_time") => Date::End,
                _ => return fault(&format!("{here}[{i}]"), kind(item, "start_time or end_time")),
            };
            let path = format!("{path}/{}", date.name());
            if self.is_repeated_date(&path, &format!("{here}[{i}]")) {
                continue;
            }
            self.take(&path, at)?;
            self.plan.dates.push(DatePlan { path, date });
        }
        Ok(())
    }

    fn stream(
        &mut self,
        name: &str,
        config: &Config<'_>,
        group: usize,
        path: &str,
        at: &str,
    ) -> Read<()> {
        let Some(made) = module(name, config)? else {
            return fault(
                &format!("{at}.module"),
                StructureFault::Module(name.chars().take(40).collect()),
            );
        };
        let topic = config.topic()?;
        let source = config.text("source", "the source name of the messages")?.to_owned();
        for name in made.module.names() {
            if !is_name(&name) {
                return fault(&config.at, StructureFault::Name(name.chars().take(60).collect()));
            }
            self.take(&format!("{path}/{name}"), at)?;
        }
        for (mut constant, at) in made.constants {
            if !is_name(&constant.path) {
                return fault(&at, StructureFault::Name(constant.path.chars().take(60).collect()));
            }
            constant.path = format!("{path}/{}", constant.path);
            self.take(&constant.path, &at)?;
            for attribute in &constant.attributes {
                self.budget.attribute(&attribute.name, &at)?;
            }
            self.plan.datasets.push(constant);
        }
        if made.attributes.len() > self.limits.attributes {
            let what = format!("{} attributes", made.attributes.len());
            return fault(
                &config.at,
                StructureFault::Limit { what, limit: self.limits.attributes },
            );
        }
        for attribute in &made.attributes {
            if !is_name(&attribute.name) {
                return fault(
                    &config.at,
                    StructureFault::Name(attribute.name.chars().take(60).collect()),
                );
            }
            self.budget.attribute(&attribute.name, &config.at)?;
        }
        let own = &mut self.plan.groups[group].attributes;
        let class =
            Attribute { name: "NX_class".into(), value: Array::of_text(made.module.class()) };
        // What the structure itself says is kept.
        for attribute in made.attributes.into_iter().chain([class]) {
            if !own.iter().any(|a| a.name == attribute.name) {
                own.push(attribute);
            }
        }
        // Where the values come from, as in files of the existing writer: live programs find their streams by it.
        for (name, text) in [("topic", &topic), ("source", &source)] {
            if text.len() <= LONGEST_ORIGIN && !own.iter().any(|a| a.name == name) {
                self.budget.attribute(name, &config.at)?;
                self.budget.take(text.len() as u64, &config.at)?;
                own.push(text_attribute(name, text));
            }
        }
        let module = made.module;
        let stream = StreamPlan { group: path.to_owned(), topic, source, module };
        self.beside.extend(beside::of(&stream, config)?);
        self.plan.streams.push(stream);
        Ok(())
    }

    fn finish(mut self) -> Read<FilePlan> {
        self.beside()?;
        self.entries()?;
        let links = std::mem::take(&mut self.links);
        let mut numbers = Vec::new();
        for (link, at) in resolved(links, &mut self.taken, &self.warned)? {
            if link.path.ends_with(NUMBERS) {
                numbers.push((link.path.clone(), link.target.clone(), at));
            }
            self.plan.links.push(link);
        }
        self.pixels(&numbers)?;
        self.plan.warnings = self.warned.take();
        self.plan.bytes = self.budget.used();
        Ok(self.plan)
    }

    /// Adds what is written beside streams where nothing of the structure has its names.
    fn beside(&mut self) -> Read<()> {
        self.plan.listed = self.plan.streams.len();
        for stream in std::mem::take(&mut self.beside) {
            let path = |name: &String| format!("{}/{name}", stream.group);
            let paths: Vec<String> = stream.module.names().iter().map(path).collect();
            if paths.iter().any(|path| self.taken.contains_key(path)) {
                continue;
            }
            paths.iter().try_for_each(|path| self.take(path, ""))?;
            self.plan.streams.push(stream);
        }
        Ok(())
    }

    /// What every entry has: its dates, and events where Mantid looks for them. And where our own group goes.
    fn entries(&mut self) -> Read<()> {
        let all = self.plan.groups.iter().filter(|g| g.class() == Some("NXentry"));
        let entries: Vec<String> = all.map(|g| g.path.clone()).collect();
        for entry in &entries {
            for date in [Date::Start, Date::End] {
                let path = format!("{entry}/{}", date.name());
                if !self.taken.contains_key(&path) {
                    self.take(&path, "")?;
                    self.plan.dates.push(DatePlan { path, date });
                }
            }
        }
        self.event_links(&entries)?;
        self.plan.own = format!("{}/{OWN}", entries.first().map_or("", String::as_str));
        if let Some(at) = self.taken.get(&self.plan.own).cloned() {
            let first = "the writer's own group of that name".to_owned();
            return fault(&at, StructureFault::Twice { path: self.plan.own.clone(), first });
        }
        Ok(())
    }

    /// Links to the events of the entries, in each, where Mantid looks for groups called `<bank>_events`.
    fn event_links(&mut self, entries: &[String]) -> Read<()> {
        let streams = self.plan.streams.iter();
        let events: Vec<(String, Vec<String>)> = streams
            .filter(|s| matches!(s.module, StreamModule::Events { .. }))
            .map(|s| (s.group.clone(), s.module.names()))
            .collect();
        let entries: HashSet<&str> = entries.iter().map(String::as_str).collect();
        let classes = self.plan.groups.iter().filter(|g| g.class() == Some("NXevent_data"));
        let whole: HashSet<String> = classes.map(|g| g.path.clone()).collect();
        let linked = self.linked();
        // The last number of each name that more than two have.
        let mut last = HashMap::new();
        for (group, names) in &events {
            for (end, _) in group.match_indices('/') {
                let entry = &group[..end];
                let whole = whole.contains(group);
                let there = whole && linked.contains(&(entry.to_owned(), group.clone()));
                if entries.contains(entry) && !there {
                    self.event_link(entry, group, names, whole, &mut last)?;
                }
            }
        }
        Ok(())
    }

    /// The link in `entry` to the events of `group`. `whole`: nothing else is in that group.
    fn event_link(
        &mut self,
        entry: &str,
        group: &str,
        names: &[String],
        whole: bool,
        last: &mut HashMap<String, u32>,
    ) -> Read<()> {
        let (parent, name) = group.rsplit_once('/').unwrap_or(("", group));
        let named = name.ends_with("_events");
        if whole && parent == entry && named {
            return Ok(());
        }
        let above = parent.rsplit('/').next().unwrap_or(name);
        let stem = name.trim_end_matches("_events");
        // "events" in every detector would be one name for all: the detector's name tells them apart.
        let bank = if named || !whole || parent == entry { stem } else { above };
        let path = self.free_name(entry, bank, above, stem, last);
        self.take(&path, "")?;
        if whole {
            self.plan.links.push(LinkPlan { path, target: group.to_owned() });
            return Ok(());
        }
        // Events that stand in a detector beside other things: a group of their own holds the same datasets.
        let class = Attribute { name: "NX_class".into(), value: Array::of_text("NXevent_data") };
        self.plan.groups.push(GroupPlan { path: path.clone(), attributes: vec![class] });
        for name in names {
            let link = format!("{path}/{name}");
            self.take(&link, "")?;
            self.plan.links.push(LinkPlan { path: link, target: format!("{group}/{name}") });
        }
        Ok(())
    }

    /// What the structure itself has links `<bank>_events` to: the group that such a link stands in, and its target.
    fn linked(&self) -> HashSet<(String, String)> {
        let each = |link: &Link| {
            let (parent, name) = link.path.rsplit_once('/')?;
            let target = link.target().filter(|_| name.ends_with("_events"))?;
            Some((parent.to_owned(), target))
        };
        self.links.iter().filter_map(each).collect()
    }

    /// A name for events that nothing else has: two groups of one detector, or two of one name, need two.
    fn free_name(
        &self,
        entry: &str,
        bank: &str,
        above: &str,
        stem: &str,
        last: &mut HashMap<String, u32>,
    ) -> String {
        let other = if bank == stem { format!("{above}_{stem}") } else { format!("{bank}_{stem}") };
        let path = |name: &str| format!("{entry}/{name}_events");
        let free = |path: &String| !self.taken.contains_key(path);
        if let Some(path) = [path(bank), path(&other)].into_iter().find(free) {
            return path;
        }
        // Goes on where it was: many of one name would be asked for again and again.
        let n = last.entry(path(&other)).or_insert(1);
        loop {
            *n += 1;
            let path = path(&format!("{other}_{n}"));
            if free(&path) {
                return path;
            }
        }
    }

    /// Events belong to the pixels of their group, or of the one around it. `linked`: numbers that are links, with
    /// what they lead to, and where in the JSON they are.
    fn pixels(&mut self, linked: &[(String, String, String)]) -> Read<()> {
        let datasets = self.plan.datasets.iter().filter(|d| d.path.ends_with(NUMBERS));
        let whole = datasets.filter(|d| d.value.integers().is_some());
        let mut numbers: HashSet<&str> = whole.map(|d| d.path.as_str()).collect();
        let targets: HashSet<&str> = linked.iter().map(|(_, target, _)| target.as_str()).collect();
        // A link may lead to numbers of another name.
        let others = self.plan.datasets.iter().filter(|d| targets.contains(d.path.as_str()));
        numbers.extend(others.filter(|d| d.value.integers().is_some()).map(|d| d.path.as_str()));
        for (_, target, at) in linked {
            if !numbers.contains(target.as_str()) {
                let (source_path, why) = (target.clone(), "is no dataset of integers");
                return fault(at, StructureFault::Link { source_path, why });
            }
        }
        let linked: HashMap<&str, &String> =
            linked.iter().map(|(path, target, _)| (path.as_str(), target)).collect();
        for stream in &mut self.plan.streams {
            if let StreamModule::Events { pixels, .. } = &mut stream.module {
                let parent = stream.group.rsplit_once('/').map_or("", |(parent, _)| parent);
                *pixels = [&stream.group[..], parent].iter().find_map(|group| {
                    let path = format!("{group}{NUMBERS}");
                    let target = linked.get(path.as_str()).map(|target| (*target).clone());
                    target.or_else(|| numbers.contains(path.as_str()).then_some(path))
                });
            }
        }
        Ok(())
    }

    /// Attributes: an object of name: value, or a list of {name, values, dtype}; never mixed.
    fn attributes(&self, map: &Map<String, Value>, at: &str) -> Read<Vec<Attribute>> {
        attributes(map, self.limits, &self.budget, &self.warned, at)
    }
}

fn known(name: &str) -> bool {
    matches!(
        name,
        "ev44"
            | "ev43"
            | "ev42"
            | "f144"
            | "f142"
            | "ns10"
            | "da00"
            | "hs01"
            | "hs00"
            | "al00"
            | "ep01"
            | "ep00"
            | "se00"
            | "senv"
            | "tdct"
            | "ad00"
            | "ADAr"
            | "mdat"
            | "dataset"
            | "link"
    )
}
