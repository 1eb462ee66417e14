use std::collections::BTreeMap;

use crate::level::Level;
use crate::record::Record;

/// Counts over many records.
#[derive(Debug, Default)]
pub struct Summary {
    pub records: u64,
    pub total_took_ms: u64,
    levels: BTreeMap<Level, u64>,
    sources: BTreeMap<String, u64>,
}

impl Summary {
    pub fn add(&mut self, record: &Record) {
        self.records += 1;
        self.total_took_ms += record.took_ms.unwrap_or(0);
        *self.levels.entry(record.level).or_insert(0) += 1;
        *self.sources.entry(record.source.clone()).or_insert(0) += 1;
    }

    pub fn level(&self, level: Level) -> u64 {
        self.levels.get(&level).copied().unwrap_or(0)
    }

    pub fn source(&self, name: &str) -> u64 {
        self.sources.get(name).copied().unwrap_or(0)
    }

    /// Source names with their counts, in alphabetical order.
    pub fn sources(&self) -> impl Iterator<Item = (&str, u64)> {
        self.sources.iter().map(|(name, n)| (name.as_str(), *n))
    }
}
