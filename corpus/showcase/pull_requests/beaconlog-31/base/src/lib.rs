//! Parser and summariser for beacon device logs.

mod error;
mod level;
mod parser;
mod record;
mod summary;

pub use error::{ErrorKind, ParseError};
pub use level::Level;
pub use parser::parse_line;
pub use record::Record;
pub use summary::Summary;
