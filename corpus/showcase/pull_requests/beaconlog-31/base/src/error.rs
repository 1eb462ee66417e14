use std::fmt;

/// What was wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    Timestamp,
    Level,
    Source,
    Pair,
    Duration,
}

/// A line that could not be parsed, with the byte column of the problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    pub kind: ErrorKind,
    pub column: usize,
    pub text: String,
}

impl ParseError {
    pub(crate) fn new(kind: ErrorKind, column: usize, text: &str) -> Self {
        ParseError {
            kind,
            column,
            text: text.to_string(),
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "bad {:?} at column {}: {:?}",
            self.kind,
            self.column + 1,
            self.text
        )
    }
}

impl std::error::Error for ParseError {}
