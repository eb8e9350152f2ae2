//! The columns of an NXevent_data: types, units, dates, lengths, order, pixels; and where Mantid looks for them.
//!
//! Source: `docs/formats/nexus.md` sections 1, 3, 5 and 6.

use std::collections::HashSet;

use hdf5_metno::types::{FloatSize, IntSize, TypeDescriptor};
use hdf5_metno::{Dataset, Group, Result};

use super::{Found, is_date, text_attribute};

/// Units of times that readers can convert.
const TIMES: [&str; 9] =
    ["ns", "us", "ms", "s", "nanosecond", "nanoseconds", "microsecond", "microseconds", "nsec"];

impl Found {
    /// `known`: pixels that events may have; `None` for a monitor, whose events need not have any.
    pub(super) fn events(
        &mut self,
        entry: &Group,
        group: &Group,
        known: Option<&HashSet<i64>>,
    ) -> Result<()> {
        let place = group.name();
        let id = group.dataset("event_id").ok();
        if known.is_some() || id.is_some() {
            self.row(group, "event_id");
        }
        let rest = ["event_time_offset", "event_index", "event_time_zero"];
        let rest = rest.map(|name| self.row(group, name));
        let [Some(offset), Some(index), Some(zero)] = &rest else { return Ok(()) };
        let (n, rows) = (id.as_ref().unwrap_or(offset).size(), zero.size());
        if index.size() != rows {
            self.note(&place, format!("{} event_index, {rows} event_time_zero", index.size()));
        }
        self.units(offset, &TIMES);
        if !is_number(offset)? {
            self.note(&offset.name(), "not a number");
        }
        self.zero(zero)?;
        self.index(index, n)?;
        if let Some(id) = &id {
            self.ids(id, offset, known)?;
        }
        self.optional(group, n)?;
        self.linked(entry, group, offset)
    }

    /// A column that must be there.
    fn row(&mut self, group: &Group, name: &str) -> Option<Dataset> {
        let found = group.dataset(name).ok().filter(|dataset| dataset.ndim() == 1);
        if found.is_none() {
            self.note(&group.name(), format!("{name}, one-dimensional, is missing"));
        }
        found
    }

    fn zero(&mut self, zero: &Dataset) -> Result<()> {
        self.units(zero, &["ns", "nanosecond", "nanoseconds", "nsec"]);
        let (mut dates, mut mantid) = (0, false);
        for name in zero.attr_names()? {
            let Some(date) = text_attribute(zero, &name).filter(|t| is_date(t)) else { continue };
            dates += 1;
            // Mantid reads `offset`; without it, it takes 1970.
            mantid |= name == "offset" || date.starts_with("1970-01-01T00:00:00");
        }
        if dates != 1 {
            self.note(&zero.name(), format!("{dates} attributes with an ISO date instead of one"));
        } else if !mantid {
            self.note(&zero.name(), "the epoch is not in the attribute offset, and not 1970");
        }
        if zero.dtype()?.to_descriptor()? != TypeDescriptor::Unsigned(IntSize::U8) {
            self.note(&zero.name(), "not uint64");
        }
        if zero.size() == 0 {
            self.note(&zero.name(), "empty: Mantid calls that an error");
        }
        Ok(())
    }

    fn index(&mut self, index: &Dataset, events: usize) -> Result<()> {
        if integer(index)? != Some(8) {
            self.note(&index.name(), "not 8 bytes wide, as an integer");
        }
        if index.attr("units").is_ok() {
            self.note(&index.name(), "must not have units");
        }
        let starts = index.read_raw::<i64>()?;
        if !starts.is_sorted() {
            self.note(&index.name(), "not sorted");
        }
        if starts.iter().any(|&i| i < 0 || i > events as i64) {
            self.note(&index.name(), "points outside the events");
        }
        if starts == [0] {
            self.note(&index.name(), "one single 0: Mantid takes the bank for empty");
        }
        Ok(())
    }

    fn ids(&mut self, id: &Dataset, offset: &Dataset, known: Option<&HashSet<i64>>) -> Result<()> {
        let n = id.size();
        if offset.size() != n {
            let what = format!("{n} event_id, {} event_time_offset", offset.size());
            self.note(&id.name(), what);
        }
        if integer(id)? != Some(4) {
            self.note(&id.name(), "not 32 bits wide, as an integer");
        }
        if id.attr("units").is_ok() {
            self.note(&id.name(), "must not have units");
        }
        let Some(known) = known else { return Ok(()) };
        let mut at = 0;
        let mut outside = 0_u64;
        while at < n {
            let end = n.min(at + (1 << 20));
            let block = id.read_slice_1d::<i64, _>(at..end)?;
            outside += block.iter().filter(|i| !known.contains(i)).count() as u64;
            at = end;
        }
        if outside > 0 {
            self.note(&id.name(), format!("{outside} events outside detector_number"));
        }
        Ok(())
    }

    /// What need not be there, but if it is, must be right.
    fn optional(&mut self, group: &Group, events: usize) -> Result<()> {
        if let Ok(weight) = group.dataset("event_weight") {
            let single = TypeDescriptor::Float(FloatSize::U4);
            if weight.dtype()?.to_descriptor()? != single || weight.shape() != [events] {
                self.note(&weight.name(), "not one float32 for each event");
            }
        }
        if let Ok(total) = group.dataset("total_counts") {
            let counted = integer(&total)?.filter(|_| total.size() == 1).is_some();
            if !counted || total.read_raw::<i64>()? != [events as i64] {
                self.note(&total.name(), "not the number of events");
            }
        }
        Ok(())
    }

    /// Mantid looks for groups called `<bank>_events` in the entry: this one, or one with the same columns.
    fn linked(&mut self, entry: &Group, group: &Group, offset: &Dataset) -> Result<()> {
        let token = offset.loc_info()?.token;
        for name in entry.member_names()? {
            if name.ends_with("_events")
                && let Ok(column) = entry.dataset(&format!("{name}/event_time_offset"))
                && column.loc_info()?.token == token
            {
                return Ok(());
            }
        }
        let name = group.name();
        let name = name.rsplit('/').next().unwrap_or_default();
        self.note("/entry", format!("{name} is not linked into the entry as <bank>_events"));
        Ok(())
    }
}

/// Bytes of an integer; `None` for other types.
fn integer(dataset: &Dataset) -> Result<Option<usize>> {
    let descriptor = dataset.dtype()?.to_descriptor()?;
    Ok(match descriptor {
        TypeDescriptor::Integer(size) | TypeDescriptor::Unsigned(size) => Some(size as usize),
        _ => None,
    })
}

fn is_number(dataset: &Dataset) -> Result<bool> {
    let descriptor = dataset.dtype()?.to_descriptor()?;
    Ok(matches!(
        descriptor,
        TypeDescriptor::Integer(_) | TypeDescriptor::Unsigned(_) | TypeDescriptor::Float(_)
    ))
}
