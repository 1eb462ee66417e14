use crate::level::Level;

/// One parsed log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Milliseconds since the epoch, or since power-on for unset clocks.
    pub timestamp: u64,
    pub level: Level,
    pub source: String,
    pub message: String,
    pub pairs: Vec<(String, String)>,
    /// The `took` pair in milliseconds, when present.
    pub took_ms: Option<u64>,
}

impl Record {
    /// The value of the first pair named `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }
}
