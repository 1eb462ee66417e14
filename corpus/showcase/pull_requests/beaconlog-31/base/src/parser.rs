use crate::error::{ErrorKind, ParseError};
use crate::level::Level;
use crate::record::Record;

/// Parses one line, without its line feed.
pub fn parse_line(line: &str) -> Result<Record, ParseError> {
    let line = line.strip_suffix('\r').unwrap_or(line);

    let (stamp, rest) = line
        .split_once(' ')
        .ok_or_else(|| ParseError::new(ErrorKind::Timestamp, 0, line))?;
    let timestamp = stamp
        .parse::<u64>()
        .map_err(|_| ParseError::new(ErrorKind::Timestamp, 0, stamp))?;

    let column = stamp.len() + 1;
    let (name, rest) = rest
        .split_once(' ')
        .ok_or_else(|| ParseError::new(ErrorKind::Level, column, rest))?;
    let level =
        Level::from_name(name).ok_or_else(|| ParseError::new(ErrorKind::Level, column, name))?;

    let column = column + name.len() + 1;
    let (source, rest) = rest
        .split_once(": ")
        .ok_or_else(|| ParseError::new(ErrorKind::Source, column, rest))?;

    let column = column + source.len() + 2;
    let (message, pairs) = match rest.split_once(" | ") {
        Some((message, tail)) => (message, parse_pairs(tail, column + message.len() + 3)?),
        None => (rest, Vec::new()),
    };

    let took_ms = match pairs.iter().find(|(k, _)| k == "took") {
        Some((_, v)) => Some(parse_duration(v, column)?),
        None => None,
    };

    Ok(Record {
        timestamp,
        level,
        source: source.to_string(),
        message: message.to_string(),
        pairs,
        took_ms,
    })
}

fn parse_pairs(tail: &str, column: usize) -> Result<Vec<(String, String)>, ParseError> {
    let bad = || ParseError::new(ErrorKind::Pair, column, tail);
    let mut pairs = Vec::new();
    let mut chars = tail.chars().peekable();

    loop {
        while chars.peek() == Some(&' ') {
            chars.next();
        }
        if chars.peek().is_none() {
            return Ok(pairs);
        }

        let mut key = String::new();
        loop {
            match chars.next() {
                Some('=') => break,
                Some(' ') | None => return Err(bad()),
                Some(c) => key.push(c),
            }
        }

        let mut value = String::new();
        if chars.peek() == Some(&'"') {
            chars.next();
            loop {
                match chars.next() {
                    Some('"') => break,
                    Some('\\') => value.push(chars.next().ok_or_else(bad)?),
                    Some(c) => value.push(c),
                    None => return Err(bad()),
                }
            }
        } else {
            while let Some(c) = chars.next_if(|c| *c != ' ') {
                value.push(c);
            }
        }
        pairs.push((key, value));
    }
}

fn parse_duration(text: &str, column: usize) -> Result<u64, ParseError> {
    let bad = || ParseError::new(ErrorKind::Duration, column, text);
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .ok_or_else(bad)?;
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(bad()),
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(factor))
        .ok_or_else(bad)
}
