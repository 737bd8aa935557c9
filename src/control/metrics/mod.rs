//! Metrics for Prometheus: the numbers of `lodectl show …`, in the text format 0.0.4.
//!
//! Nothing is counted for metrics that a worker does not count anyway. A scrape has two steps, so
//! that it holds up neither: management copies the numbers into an [`Observation`] in one go (some
//! milliseconds with 10,000 backends), and the connection's own task turns them into text piece by
//! piece ([`Text`]), as fast as the client takes it.
//!
//! [`FAMILIES`] lists what there is; `docs/metrics.md` is the same list for people. The number of
//! series is bounded by the configuration: labels are names that it gives, numbers of workers, and
//! words of enums.

mod endpoint;
mod families;
mod family;
mod observation;
mod observe;
mod shares;
mod tally;
#[cfg(test)]
mod tests;
mod text;

pub use endpoint::{Endpoint, EndpointError, Scrape};
pub use families::FAMILIES;
pub use family::{Family, Kind};
pub use observation::{
    BackendObservation, Observation, PoolObservation, PortObservation, ServiceObservation,
    ShardObservation, WorkerObservation,
};
pub use shares::SlotShares;
pub use tally::{Outcome, ProbeTally, Tally};
pub use text::Text;
