use std::env;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::process::ExitCode;

use beaconlog::{parse_line, Level, Summary};

fn open(path: &str) -> io::Result<Box<dyn BufRead>> {
    if path == "-" {
        Ok(Box::new(BufReader::new(io::stdin())))
    } else {
        Ok(Box::new(BufReader::new(File::open(path)?)))
    }
}

fn run(command: &str, path: &str) -> io::Result<()> {
    let mut reader = open(path)?;
    let mut summary = Summary::default();
    let mut buffer = Vec::new();
    let mut number = 0u64;

    loop {
        buffer.clear();
        if reader.read_until(b'\n', &mut buffer)? == 0 {
            break;
        }
        number += 1;
        let text = String::from_utf8_lossy(&buffer);
        let line = text.trim_end_matches('\n');
        match parse_line(line) {
            Ok(record) if command == "watch" => {
                if record.level >= Level::Warn {
                    println!("{} {}: {}", record.level, record.source, record.message);
                }
            }
            Ok(record) => summary.add(&record),
            Err(error) => eprintln!("{path}:{number}: {error}"),
        }
    }

    if command == "summary" {
        println!("records {}", summary.records);
        println!("took    {} ms", summary.total_took_ms);
        for level in [Level::Error, Level::Warn, Level::Info] {
            println!("{:<7} {}", level, summary.level(level));
        }
        for (name, count) in summary.sources() {
            println!("  {name:<20} {count}");
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.as_slice() {
        [command, path] if command == "summary" || command == "watch" => {
            match run(command, path) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("beaconlog: {path}: {error}");
                    ExitCode::FAILURE
                }
            }
        }
        _ => {
            eprintln!("usage: beaconlog summary|watch FILE|-");
            ExitCode::from(2)
        }
    }
}
