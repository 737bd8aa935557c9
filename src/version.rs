//! What this build is: embedded by `build.rs`.

/// Version of the product.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// All of it in a line, for `--version`.
pub const LONG: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("LODESTONE_COMMIT"),
    ", DPDK ",
    env!("LODESTONE_DPDK"),
    ")"
);

/// The commit it was built from, with `-dirty` if files had changed; `unknown` outside a checkout.
pub const COMMIT: &str = env!("LODESTONE_COMMIT");

/// Version of DPDK that it was built with; `none` without the feature `dpdk`.
pub const DPDK: &str = env!("LODESTONE_DPDK");
