//! Embeds product, commit and DPDK versions for `--version` and `status`.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=.git/HEAD");
    println!("cargo:rerun-if-changed=.git/index");
    let commit = output("git", &["describe", "--always", "--dirty", "--abbrev=12"]);
    println!("cargo:rustc-env=LODESTONE_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    let dpdk = if std::env::var_os("CARGO_FEATURE_DPDK").is_some() {
        output("pkg-config", &["--modversion", "libdpdk"])
    } else {
        None
    };
    println!("cargo:rustc-env=LODESTONE_DPDK={}", dpdk.as_deref().unwrap_or("none"));
}

/// The trimmed output of a program, or nothing if it is absent or failed.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
