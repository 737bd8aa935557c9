//! `lodectl` runs where DPDK is not installed.

use std::process::Command;

#[test]
fn lodectl_needs_no_dpdk_library() {
    let output =
        Command::new("readelf").args(["-d", env!("CARGO_BIN_EXE_lodectl")]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let dynamic = String::from_utf8(output.stdout).unwrap();
    let needed: Vec<_> = dynamic.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert!(needed.iter().any(|line| line.contains("libc.so")), "{dynamic}");
    assert!(!needed.iter().any(|line| line.contains("librte_")), "{needed:#?}");
}
