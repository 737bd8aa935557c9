//! The configuration: the file as written, and the validated model made from it.

mod model;

pub use model::{
    Admin, Affinity, Appliance, Backend, Config, Conntrack, Cpu, Idle, Memory, Monitor,
    MonitorKind, Pool, Port, PortRange, Protocol, Service, Steering, Vip,
};
