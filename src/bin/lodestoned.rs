//! The appliance's daemon.

fn main() {}
