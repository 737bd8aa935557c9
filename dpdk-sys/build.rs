//! Finds DPDK with pkg-config, compiles the shim, and generates the bindings.

use std::env;
use std::fmt;
use std::panic;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The headers' interface that this crate is written for: Debian 12's.
const VERSIONS: std::ops::Range<&str> = "22.11".."23";

/// Everything that `lodestone::dpdk` calls, and nothing else.
const FUNCTIONS: &[&str] = &[
    "lodestone_eth_rx_burst",
    "lodestone_eth_tx_burst",
    "lodestone_lcore_id",
    "lodestone_pktmbuf_alloc",
    "lodestone_pktmbuf_alloc_bulk",
    "lodestone_pktmbuf_free",
    "lodestone_rte_errno",
    "rte_eal_init",
    "rte_eth_allmulticast_enable",
    "rte_eth_dev_adjust_nb_rx_tx_desc",
    "rte_eth_dev_callback_register",
    "rte_eth_dev_configure",
    "rte_eth_dev_default_mac_addr_set",
    "rte_eth_dev_get_mtu",
    "rte_eth_dev_get_port_by_name",
    "rte_eth_dev_info_get",
    "rte_eth_dev_rss_hash_conf_get",
    "rte_eth_dev_rss_reta_query",
    "rte_eth_dev_set_mtu",
    "rte_eth_dev_socket_id",
    "rte_eth_dev_start",
    "rte_eth_dev_stop",
    "rte_eth_dev_vlan_filter",
    "rte_eth_from_rings",
    "rte_eth_link_get_nowait",
    "rte_eth_macaddr_get",
    "rte_eth_rx_queue_setup",
    "rte_eth_stats_get",
    "rte_eth_tx_queue_setup",
    "rte_get_tsc_hz",
    "rte_mempool_avail_count",
    "rte_mempool_in_use_count",
    "rte_openlog_stream",
    "rte_pktmbuf_free_bulk",
    "rte_pktmbuf_pool_create",
    "rte_ring_create",
    "rte_strerror",
    "rte_thread_register",
    "rte_thread_unregister",
];

const CONSTANTS: &[&str] = &[
    "RTE_ETH_EVENT_INTR_(RESET|RMV)",
    "RTE_ETH_RSS_(FRAG|NONFRAG)_IPV[46](_TCP|_UDP|_OTHER)?",
    "RTE_ETH_RSS_IPV[46]",
    "RTE_ETH_RSS_IPV6_(EX|TCP_EX|UDP_EX)",
    "RTE_ETH_RX_OFFLOAD_IPV4_CKSUM",
    "RTE_ETH_RX_OFFLOAD_VLAN_(FILTER|STRIP)",
    "RTE_ETH_TX_OFFLOAD_(IPV4_CKSUM|MBUF_FAST_FREE)",
    "RTE_MAX_ETHPORTS",
    "RTE_MBUF_F_RX_VLAN_STRIPPED",
    "RTE_MAX_LCORE",
    "RTE_PKTMBUF_HEADROOM",
    "RING_F_SC_DEQ",
    "RING_F_SP_ENQ",
    "SOCKET_ID_ANY",
];

fn main() -> ExitCode {
    for path in ["build.rs", "csrc/shim.c", "csrc/shim.h"] {
        println!("cargo:rerun-if-changed={path}");
    }
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Why there are no bindings, in one sentence with the mend.
struct BuildError(String);

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "error: {}; run `apt-get install libdpdk-dev libclang-dev clang pkg-config`, or build \
             the parts that need no DPDK with `--no-default-features`",
            self.0
        )
    }
}

fn build() -> Result<(), BuildError> {
    let library = pkg_config::Config::new()
        .range_version(VERSIONS)
        .cargo_metadata(false)
        .probe("libdpdk")
        .map_err(|error| BuildError(not_found(&error)))?;
    // Only these: what they need themselves the loader finds, and drivers are loaded at run time.
    for path in &library.link_paths {
        println!("cargo:rustc-link-search=native={}", path.display());
    }
    for name in ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_eal", "rte_net_ring"] {
        println!("cargo:rustc-link-lib=dylib={name}");
    }

    let mut flags = other_flags()?;
    flags.extend(library.include_paths.iter().map(|path| format!("-I{}", path.display())));
    compile_shim(&flags)?;
    generate_bindings(&flags)
}

/// One clause out of pkg-config's many lines.
fn not_found(error: &pkg_config::Error) -> String {
    let wanted = format!("DPDK {}", VERSIONS.start);
    match error {
        pkg_config::Error::Command { .. } => {
            format!("{wanted} cannot be looked for, since pkg-config does not run")
        }
        _ => format!("{wanted} (libdpdk) was not found by pkg-config"),
    }
}

/// `-include rte_config.h` and `-march=…`, which the `pkg-config` crate does not hand over and
/// without which the headers do not compile.
fn other_flags() -> Result<Vec<String>, BuildError> {
    let program = env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
    let output = Command::new(program)
        .args(["--cflags-only-other", "libdpdk"])
        .output()
        .map_err(|error| BuildError(format!("pkg-config does not run ({error})")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

fn compile_shim(flags: &[String]) -> Result<(), BuildError> {
    let mut build = cc::Build::new();
    build.file("csrc/shim.c").warnings(true).extra_warnings(true).opt_level(3);
    // DPDK's own headers warn under -Wextra; they are not ours to mend.
    build.flag("-Wno-unused-parameter");
    for flag in flags {
        build.flag(flag);
    }
    build
        .try_compile("lodestone_dpdk_shim")
        .map_err(|error| BuildError(format!("the C shim over DPDK did not compile ({error})")))
}

fn generate_bindings(flags: &[String]) -> Result<(), BuildError> {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut builder = bindgen::builder()
        .header("csrc/shim.h")
        .clang_args(flags)
        // The RSS bits are RTE_BIT64(n), which only a compiler can evaluate.
        .clang_macro_fallback()
        .clang_macro_fallback_build_dir(&out)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .prepend_enum_name(false)
        .generate_comments(false)
        .derive_default(true)
        .derive_debug(false)
        .opaque_type("_IO_FILE")
        .layout_tests(true)
        .use_core();
    for function in FUNCTIONS {
        builder = builder.allowlist_function(function);
    }
    for constant in CONSTANTS {
        builder = builder.allowlist_var(constant);
    }
    // Without libclang bindgen panics; that panic's text would bury the sentence.
    panic::set_hook(Box::new(|_| {}));
    let result = panic::catch_unwind(panic::AssertUnwindSafe(|| builder.generate()));
    drop(panic::take_hook());
    let bindings = match result {
        Ok(Ok(bindings)) => bindings,
        Ok(Err(error)) => {
            return Err(BuildError(format!("DPDK's headers could not be read ({error})")));
        }
        Err(_) => {
            return Err(BuildError("libclang, which reads DPDK's headers, is missing".into()));
        }
    };
    bindings
        .write_to_file(out.join("bindings.rs"))
        .map_err(|error| BuildError(format!("the bindings could not be written ({error})")))
}
