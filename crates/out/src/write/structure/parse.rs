//! From JSON text to a plan: walks the tree once, then resolves what refers to elsewhere.
//!
//! Refuses what [`Fault`] lists. Source: `docs/formats/nexus.md` section 7; sections 3 and 6 for what is added:
//! start and end time of an entry, hard links `<name>_events` in the entry, `NX_class` of a stream's group.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::array::{Array, Dtype, Named, kind, named};
use super::config::{Config, module};
use super::error::{Fault, StructureError, fault};
use super::{
    Attribute, DatasetPlan, Date, DatePlan, GroupPlan, Limits, LinkPlan, Module, Plan, StreamPlan,
};

type Read<T> = Result<T, StructureError>;

/// Name of the writer's own group.
const OWN: &str = "fullcount";

/// End of the path of the numbers that pixels have.
const NUMBERS: &str = "/detector_number";

/// Pixel numbers are integers, as ids of events are: without a type they are not the doubles that others would be.
fn pixel_numbers(values: &Value, dtype: Option<Named>, at: &str) -> Read<Array> {
    if let Some(dtype) = dtype {
        let value = Array::read(values, Some(dtype), Dtype::F64, at)?;
        if value.integers().is_none() {
            let found = "no list of integers".to_owned();
            let expected = "pixel numbers of an integer type, e.g. dtype int32";
            return fault(at, Fault::Kind { found, expected });
        }
        return Ok(value);
    }
    let read = |dtype| Array::read(values, Some(Named::Number(dtype)), dtype, at);
    read(Dtype::I32).or_else(|_| read(Dtype::I64))
}

/// Reads the structure `text`.
///
/// # Errors
/// The first thing that is wrong, and where.
pub fn parse(text: &str, limits: &Limits) -> Read<Plan> {
    if text.len() > limits.bytes {
        let what = format!("a text of {} bytes", text.len());
        return fault("", Fault::Limit { what, limit: limits.bytes });
    }
    let tree: Value = serde_json::from_str(text).map_err(|error| StructureError {
        at: String::new(),
        fault: Fault::Json(error.to_string()),
    })?;
    let Value::Object(root) = &tree else {
        return fault("", kind(&tree, "an object with the list `children`"));
    };
    if !root.contains_key("children") {
        return fault(".children", Fault::Missing("the list of what is in the file"));
    }
    let mut reader = Reader {
        plan: Plan::default(),
        taken: HashMap::new(),
        links: Vec::new(),
        nodes: 0,
        limits,
    };
    reader.group(root, "", "", 0)?;
    reader.finish()
}

struct Reader<'a> {
    plan: Plan,
    /// Absolute path of all that has one, and where in the JSON it is.
    taken: HashMap<String, String>,
    /// Links to resolve: path, source as given, where.
    links: Vec<(String, String, String)>,
    nodes: usize,
    limits: &'a Limits,
}

/// True for a name that is one part of a path.
fn is_name(name: &str) -> bool {
    (1..=255).contains(&name.len()) && !name.contains(['/', '\0']) && !matches!(name, "." | "..")
}

fn name_of<'v>(map: &'v Map<String, Value>, at: &str) -> Read<&'v str> {
    let at = format!("{at}.name");
    match map.get("name") {
        None | Some(Value::Null) => fault(&at, Fault::Missing("a name")),
        Some(Value::String(name)) if is_name(name) => Ok(name),
        Some(Value::String(name)) => fault(&at, Fault::Name(name.chars().take(60).collect())),
        Some(other) => fault(&at, kind(other, "a name")),
    }
}

impl Reader<'_> {
    fn take(&mut self, path: &str, at: &str) -> Read<()> {
        match self.taken.insert(path.to_owned(), at.to_owned()) {
            None => Ok(()),
            Some(first) => {
                let first = format!("nexus_structure{first}");
                fault(at, Fault::Twice { path: path.to_owned(), first })
            }
        }
    }

    fn group(&mut self, map: &Map<String, Value>, path: &str, at: &str, depth: usize) -> Read<()> {
        if depth > self.limits.depth {
            let what = "groups in groups".to_owned();
            return fault(at, Fault::Limit { what, limit: self.limits.depth });
        }
        let attributes = attributes(map, at)?;
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
                return fault(&at, Fault::Limit { what, limit: self.limits.nodes });
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
                    self.take(&path, &at)?;
                    self.group(map, &path, &at, depth + 1)?;
                }
                (Some(other), None) => {
                    let expected =
                        "\"group\" (datasets, links and streams have `module` and `config`)";
                    return fault(&format!("{at}.type"), kind(other, expected));
                }
                (None, None) => {
                    return fault(&at, Fault::Missing("`type` \"group\", or a `module`"));
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
        let config = match map.get("config") {
            Some(Value::Object(config)) => config,
            None | Some(Value::Null) if known(name) => {
                return fault(&inside, Fault::Missing("the configuration of the module"));
            }
            Some(other) if known(name) => return fault(&inside, kind(other, "an object")),
            _ => {
                return fault(
                    &format!("{at}.module"),
                    Fault::Module(name.chars().take(40).collect()),
                );
            }
        };
        let config = Config { map: config, at: inside };
        match name {
            "dataset" => self.dataset(map, &config, path, at),
            "link" => {
                let name = name_of(config.map, &config.at)?;
                let path = format!("{path}/{name}");
                let source = config.text("source", "the path of what is linked")?;
                self.take(&path, at)?;
                self.links.push((path, source.to_owned(), format!("{}.source", config.at)));
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
        let Some(values) = config.map.get("values") else {
            return fault(&format!("{}.values", config.at), Fault::Missing("the values"));
        };
        let dtype = config.dtype(&["dtype", "type"])?;
        let here = format!("{}.values", config.at);
        let value = if path.ends_with(NUMBERS) {
            pixel_numbers(values, dtype, &here)?
        } else {
            Array::read(values, dtype, Dtype::F64, &here)?
        };
        let mut all = attributes(map, at)?;
        for attribute in attributes(config.map, &config.at)? {
            if !all.iter().any(|a| a.name == attribute.name) {
                all.push(attribute);
            }
        }
        self.take(&path, at)?;
        self.plan.datasets.push(DatasetPlan { path, value, attributes: all });
        Ok(())
    }

    fn dates(&mut self, config: &Config<'_>, path: &str, at: &str) -> Read<()> {
        let here = format!("{}.items", config.at);
        let items = match config.map.get("items") {
            Some(Value::Array(items)) => items,
            Some(other) => return fault(&here, kind(other, "a list of start_time and end_time")),
            None => return fault(&here, Fault::Missing("a list of start_time and end_time")),
        };
        for (i, item) in items.iter().enumerate() {
            let date = match item.as_str() {
                Some("start_time") => Date::Start,
                Some("end_time") => Date::End,
                _ => return fault(&format!("{here}[{i}]"), kind(item, "start_time or end_time")),
            };
            let path = format!("{path}/{}", date.name());
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
            return fault(&format!("{at}.module"), Fault::Module(name.chars().take(40).collect()));
        };
        let topic = config.topic()?;
        let source = config.text("source", "the source name of the messages")?.to_owned();
        for name in made.module.names() {
            if !is_name(&name) {
                return fault(&config.at, Fault::Name(name));
            }
            self.take(&format!("{path}/{name}"), at)?;
        }
        for (mut constant, at) in made.constants {
            if !is_name(&constant.path) {
                return fault(&at, Fault::Name(constant.path));
            }
            constant.path = format!("{path}/{}", constant.path);
            self.take(&constant.path, &at)?;
            self.plan.datasets.push(constant);
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
        let module = made.module;
        self.plan.streams.push(StreamPlan { group: path.to_owned(), topic, source, module });
        Ok(())
    }

    fn finish(mut self) -> Read<Plan> {
        self.entries()?;
        let mut numbers = Vec::new();
        for (path, source, at) in std::mem::take(&mut self.links) {
            let wrong = |why| {
                let source_path = source.chars().take(80).collect();
                fault(&at, Fault::Link { source_path, why })
            };
            let (parent, _) = path.rsplit_once('/').unwrap_or(("", &path));
            let Some(target) = resolve(parent, &source) else {
                return wrong("leads out of the file");
            };
            if target.is_empty() || path.starts_with(&format!("{target}/")) {
                return wrong("is a group that the link itself is in");
            }
            if target == path || !self.taken.contains_key(&target) {
                return wrong("is not in the structure");
            }
            if path.ends_with(NUMBERS) {
                numbers.push((path.clone(), target.clone(), at));
            }
            self.plan.links.push(LinkPlan { path, target });
        }
        self.pixels(&numbers)?;
        // A link to a link is made after the one that it needs.
        let names: Vec<String> = self.plan.links.iter().map(|l| l.path.clone()).collect();
        if let Some(link) = self.plan.links.iter().find(|l| names.contains(&l.target)) {
            let (source_path, why) =
                (link.target.clone(), "is a link itself; name what it leads to");
            return fault("", Fault::Link { source_path, why });
        }
        Ok(self.plan)
    }

    /// What every entry has: its dates, and events where Mantid looks for them. And where our own group goes.
    fn entries(&mut self) -> Read<()> {
        let entries: Vec<String> = self
            .plan
            .groups
            .iter()
            .filter(|g| g.class() == Some("NXentry"))
            .map(|g| g.path.clone())
            .collect();
        for entry in &entries {
            for date in [Date::Start, Date::End] {
                let path = format!("{entry}/{}", date.name());
                if !self.taken.contains_key(&path) {
                    self.take(&path, "")?;
                    self.plan.dates.push(DatePlan { path, date });
                }
            }
            self.event_links(entry)?;
        }
        self.plan.own = format!("{}/{OWN}", entries.first().map_or("", String::as_str));
        if let Some(at) = self.taken.get(&self.plan.own).cloned() {
            let first = "the writer's own group of that name".to_owned();
            return fault(&at, Fault::Twice { path: self.plan.own.clone(), first });
        }
        Ok(())
    }

    /// Links to the events of an entry, in it, where Mantid looks for groups called `<bank>_events`.
    fn event_links(&mut self, entry: &str) -> Read<()> {
        let streams = self.plan.streams.iter();
        let events: Vec<(String, Vec<String>)> = streams
            .filter(|s| matches!(s.module, Module::Events { .. }))
            .filter(|s| s.group.starts_with(&format!("{entry}/")))
            .map(|s| (s.group.clone(), s.module.names()))
            .collect();
        for (group, names) in events {
            let own = self.plan.groups.iter().find(|g| g.path == group);
            let whole = own.and_then(GroupPlan::class) == Some("NXevent_data");
            let (parent, name) = group.rsplit_once('/').unwrap_or(("", &group));
            let named = name.ends_with("_events");
            if whole && (self.linked(entry, &group) || (parent == entry && named)) {
                continue;
            }
            let above = parent.rsplit('/').next().unwrap_or(name);
            let stem = name.trim_end_matches("_events");
            // "events" in every detector would be one name for all: the detector's name tells them apart.
            let bank = if named || !whole || parent == entry { stem } else { above };
            let path = self.free_name(entry, bank, above, stem);
            self.take(&path, "")?;
            if whole {
                self.plan.links.push(LinkPlan { path, target: group });
                continue;
            }
            // Events that stand in a detector beside other things: a group of their own holds the same datasets.
            let class =
                Attribute { name: "NX_class".into(), value: Array::of_text("NXevent_data") };
            self.plan.groups.push(GroupPlan { path: path.clone(), attributes: vec![class] });
            for name in names {
                let link = format!("{path}/{name}");
                self.take(&link, "")?;
                self.plan.links.push(LinkPlan { path: link, target: format!("{group}/{name}") });
            }
        }
        Ok(())
    }

    /// True if the structure itself has a link `<bank>_events` to the group.
    fn linked(&self, entry: &str, group: &str) -> bool {
        self.links.iter().any(|(path, source, _)| {
            path.rsplit_once('/').is_some_and(|(parent, name)| {
                parent == entry
                    && name.ends_with("_events")
                    && resolve(parent, source).as_deref() == Some(group)
            })
        })
    }

    /// A name for events that nothing else has: two groups of one detector, or two of one name, need two.
    fn free_name(&self, entry: &str, bank: &str, above: &str, stem: &str) -> String {
        let other = if bank == stem { format!("{above}_{stem}") } else { format!("{bank}_{stem}") };
        let first = [bank.to_owned(), other.clone()].into_iter();
        let names = first.chain((2..).map(|n| format!("{other}_{n}")));
        let mut paths = names.map(|name| format!("{entry}/{name}_events"));
        // The names never end, and what is taken does.
        paths.find(|path| !self.taken.contains_key(path)).unwrap_or_default()
    }

    /// Events belong to the pixels of their group, or of the one around it. `linked`: numbers that are links, with
    /// what they lead to, and where in the JSON they are.
    fn pixels(&mut self, linked: &[(String, String, String)]) -> Read<()> {
        let datasets = &self.plan.datasets;
        let numbers =
            |path: &str| datasets.iter().any(|d| d.path == path && d.value.integers().is_some());
        for (_, target, at) in linked {
            if !numbers(target) {
                let (source_path, why) = (target.clone(), "is no dataset of integers");
                return fault(at, Fault::Link { source_path, why });
            }
        }
        for stream in &mut self.plan.streams {
            if let Module::Events { pixels, .. } = &mut stream.module {
                let parent = stream.group.rsplit_once('/').map_or("", |(parent, _)| parent);
                *pixels = [&stream.group[..], parent].iter().find_map(|group| {
                    let path = format!("{group}{NUMBERS}");
                    let target = linked.iter().find(|link| link.0 == path).map(|link| &link.1);
                    target.cloned().or_else(|| numbers(&path).then_some(path))
                });
            }
        }
        Ok(())
    }
}

fn known(name: &str) -> bool {
    matches!(
        name,
        "ev44"
            | "ev42"
            | "f144"
            | "f142"
            | "da00"
            | "hs01"
            | "al00"
            | "ep01"
            | "se00"
            | "tdct"
            | "ad00"
            | "mdat"
            | "dataset"
            | "link"
    )
}

/// The absolute path of `source` seen from the group `from`; `None` if it leads above the root.
fn resolve(from: &str, source: &str) -> Option<String> {
    let mut parts: Vec<&str> = if source.starts_with('/') {
        Vec::new()
    } else {
        from.split('/').filter(|p| !p.is_empty()).collect()
    };
    for part in source.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.iter().flat_map(|part| ["/", part]).collect())
}

/// Attributes: an object of name: value, or a list of {name, values, dtype}; never mixed.
fn attributes(map: &Map<String, Value>, at: &str) -> Read<Vec<Attribute>> {
    let at = format!("{at}.attributes");
    let mut all: Vec<Attribute> = Vec::new();
    match map.get("attributes") {
        None | Some(Value::Null) => {}
        Some(Value::Object(pairs)) => {
            for (name, value) in pairs {
                let at = format!("{at}.{name}");
                if !is_name(name) {
                    return fault(&at, Fault::Name(name.chars().take(60).collect()));
                }
                let value = Array::read(value, None, Dtype::I64, &at)?;
                all.push(Attribute { name: name.clone(), value });
            }
        }
        Some(Value::Array(list)) => {
            for (i, one) in list.iter().enumerate() {
                let at = format!("{at}[{i}]");
                let Value::Object(one) = one else {
                    return fault(&at, kind(one, "an object with name, values and dtype"));
                };
                let name = name_of(one, &at)?;
                let here = format!("{at}.values");
                let Some(value) = one.get("values") else {
                    return fault(&here, Fault::Missing("the value of the attribute"));
                };
                let dtype = match one.get("dtype").or_else(|| one.get("type")) {
                    None | Some(Value::Null) => None,
                    Some(Value::String(text)) => match named(text) {
                        Some(dtype) => Some(dtype),
                        None => return fault(&format!("{at}.dtype"), Fault::Dtype(text.clone())),
                    },
                    Some(other) => return fault(&format!("{at}.dtype"), kind(other, "a type")),
                };
                let value = Array::read(value, dtype, Dtype::I64, &here)?;
                if all.iter().any(|a| a.name == name) {
                    let first = "in the same list".to_owned();
                    return fault(&at, Fault::Twice { path: name.to_owned(), first });
                }
                all.push(Attribute { name: name.to_owned(), value });
            }
        }
        Some(other) => return fault(&at, kind(other, "an object, or a list of objects")),
    }
    if let Some(class) = all.iter_mut().find(|a| a.name == "NX_class")
        && class.value.text().is_none()
    {
        return fault(
            &at,
            Fault::Kind { found: "no text".into(), expected: "NX_class as one text" },
        );
    }
    Ok(all)
}
