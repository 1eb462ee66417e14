use std::fs;

use beaconlog::{parse_line, Level, Summary};

#[test]
fn sample_file_is_counted() {
    let text = fs::read_to_string("tests/fixtures/sample.log").unwrap();
    let mut summary = Summary::default();
    for line in text.lines() {
        summary.add(&parse_line(line).unwrap());
    }
    assert_eq!(summary.records, 5);
    assert_eq!(summary.level(Level::Warn), 1);
    assert_eq!(summary.source("gateway"), 3);
    assert_eq!(summary.total_took_ms, 2_155);
}
