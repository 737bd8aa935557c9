//! Raw FFI to DPDK.
