//! The native `aforo` command.
fn main() {}
