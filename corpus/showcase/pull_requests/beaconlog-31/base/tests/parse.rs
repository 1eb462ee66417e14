use beaconlog::{parse_line, ErrorKind, Level};

#[test]
fn parses_a_full_line() {
    let record =
        parse_line("1714817472345 WARN gateway: queue is long | depth=12 took=2s").unwrap();
    assert_eq!(record.timestamp, 1_714_817_472_345);
    assert_eq!(record.level, Level::Warn);
    assert_eq!(record.source, "gateway");
    assert_eq!(record.message, "queue is long");
    assert_eq!(record.get("depth"), Some("12"));
    assert_eq!(record.took_ms, Some(2_000));
}

#[test]
fn quoted_values_may_hold_spaces() {
    let record = parse_line("1714817472345 INFO store: saved | name=\"north mast\"").unwrap();
    assert_eq!(record.get("name"), Some("north mast"));
}

#[test]
fn quotes_can_be_escaped() {
    let record = parse_line(r#"1714817472345 INFO store: saved | name="the \"old\" mast""#).unwrap();
    assert_eq!(record.get("name"), Some("the \"old\" mast"));
}

#[test]
fn carriage_return_is_dropped() {
    let record = parse_line("1714817472345 INFO radio: up\r").unwrap();
    assert_eq!(record.message, "up");
}

#[test]
fn unknown_level_is_reported() {
    let error = parse_line("1714817472345 LOUD radio: up").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Level);
    assert_eq!(error.column, 14);
}
