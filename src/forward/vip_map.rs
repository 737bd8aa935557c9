//! VIP address, protocol and port to service.

/// Every VIP.
#[derive(Clone, Debug, Default)]
pub struct VipMap {}
