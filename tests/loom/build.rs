//! Builds the sources with loom's primitives.

fn main() {
    println!("cargo:rustc-cfg=lodestone_loom");
    println!("cargo:rerun-if-changed=build.rs");
}
