//! Traffic generator.

fn main() {}
