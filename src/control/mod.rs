//! The management core: desired state, and the socket through which operators change it.

pub mod admin;
pub mod protocol;
