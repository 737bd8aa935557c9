//! What methods take. Parameters go by name; an unknown or repeated one is an error.
//!
//! An absent optional parameter is not the same as zero: `weight: 0` is a weight of 0 (HP-40).

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::reply::{AdminState, Family, Protocol};
use super::{BackendName, ErrorCode, Request, RequestError};

/// Nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

/// Whether to do what is refused otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForceParams {
    /// Do it although something would be lost; the answer says what.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
}

/// A backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackendParams {
    /// The backend as `pool/name`.
    pub backend: BackendName,
    /// Do it although it leaves a pool under its threshold or a service without backends.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
}

impl From<BackendName> for BackendParams {
    /// Without force.
    fn from(backend: BackendName) -> Self {
        Self { backend, force: false }
    }
}

/// A backend and its new weight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackendWeightParams {
    /// The backend as `pool/name`.
    pub backend: BackendName,
    /// Relative share of the pool's new flows, `0..=1_000_000`; 0 takes none.
    pub weight: u32,
    /// Do it although it leaves a pool under its threshold or a service without backends.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
}

/// A backend that is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackendAddParams {
    /// The backend as `pool/name`; the pool exists, the name is new in it.
    pub backend: BackendName,
    /// Where encapsulated packets go.
    pub address: IpAddr,
    /// Relative share of the pool's new flows, `0..=1_000_000`; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Part of its identity, beside the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_network: Option<String>,
    /// Where a direct probe goes, if not to `address`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_address: Option<IpAddr>,
    /// `enabled` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin_state: Option<AdminState>,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolParams {
    /// Its name.
    pub pool: String,
    /// Do it although it leaves a service without backends.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
}

/// A pool and its new threshold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolThresholdParams {
    /// Its name.
    pub pool: String,
    /// With fewer healthy backends it yields to the next pool of a service: 1 to the number of its
    /// backends.
    pub threshold: u32,
    /// Do it although it leaves the pool under its threshold or a service without backends.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
}

/// A pool that is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolAddParams {
    /// Its name; new.
    pub pool: String,
    /// Its first backends; at least one.
    pub backends: Vec<NewBackend>,
    /// Name of its monitor; without one its backends are always up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitor: Option<String>,
    /// With fewer healthy backends it takes no new flows; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<u32>,
    /// Slots of its table, a prime; 65,537 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table_size: Option<u32>,
    /// Where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// A backend of a pool that is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBackend {
    /// Its name in the pool.
    pub name: String,
    /// Where encapsulated packets go.
    pub address: IpAddr,
    /// Relative share of the pool's new flows, `0..=1_000_000`; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Part of its identity, beside the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_network: Option<String>,
    /// Where a direct probe goes, if not to `address`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_address: Option<IpAddr>,
}

/// A service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceParams {
    /// Its name.
    pub service: String,
    /// Do it although the service then takes no new flows.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
}

/// A service and its pools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServicePoolsParams {
    /// Its name.
    pub service: String,
    /// All its pools from now on, in order of preference; at least one.
    pub pools: Vec<String>,
    /// Do it although the service then takes no new flows.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
}

/// A service that is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceAddParams {
    /// Its name; new.
    pub service: String,
    /// Its pools, in order of preference; at least one.
    pub pools: Vec<String>,
    /// Its entry points; at least one.
    pub vips: Vec<NewVip>,
    /// How long an established flow may be silent, in milliseconds; 600,000 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
}

/// An entry point that is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewVip {
    /// The virtual IP.
    pub address: IpAddr,
    /// `tcp` or `udp`.
    pub protocol: Protocol,
    /// `any`, or ports and ranges: `80,443,8000-8999`.
    pub ports: String,
    /// Whether ports on whose network it lies answer ARP and neighbour solicitation for it; they
    /// do if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arp: Option<bool>,
}

/// A flow by its five fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainParams {
    /// The client's address.
    pub source: IpAddr,
    /// The client's port.
    pub source_port: u16,
    /// The VIP.
    pub destination: IpAddr,
    /// The VIP's port.
    pub destination_port: u16,
    /// `tcp` or `udp`.
    pub protocol: Protocol,
}

/// Which flows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowFilter {
    /// Those of this family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<Family>,
    /// Those from this address or network.
    #[serde(default, deserialize_with = "network", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub client: Option<IpNet>,
    /// Those on this backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<BackendName>,
    /// Those to this VIP address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vip: Option<IpAddr>,
    /// Those of this VIP protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
}

/// Which flows, and how many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowsParams {
    /// All flows if absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub filter: FlowFilter,
    /// At most so many, `1..=10_000`; 100 if absent. All that match are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Which flows to forget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlushParams {
    /// All flows if absent. What can match every flow of a family needs `force`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub filter: FlowFilter,
    /// Forget them although that may be all, or all of a family.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
}

/// Which events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsParams {
    /// Those with a number above this one; all that are kept if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// At most so many, the newest ones; all that are kept if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// What a subscriber wants to hear. The newest request holds; one that wants nothing ends the
/// subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubscribeParams {
    /// Each event as it happens.
    #[serde(default, skip_serializing_if = "is_false")]
    pub events: bool,
    /// Counters at this interval in milliseconds, `100..=60_000`; none if 0 or absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stats_interval_ms: u32,
}

impl SubscribeParams {
    /// Whether it asks for anything.
    #[must_use]
    pub const fn wants_nothing(&self) -> bool {
        !self.events && self.stats_interval_ms == 0
    }

    /// The interval of the counters; absent if none are wanted.
    ///
    /// # Errors
    /// [`ErrorCode::INVALID_PARAMS`] if it is out of range.
    pub fn stats_interval(&self) -> Result<Option<Duration>, RequestError> {
        match self.stats_interval_ms {
            0 => Ok(None),
            milliseconds @ 100..=60_000 => Ok(Some(Duration::from_millis(milliseconds.into()))),
            other => Err(RequestError::new(
                ErrorCode::INVALID_PARAMS,
                format!(
                    "stats_interval_ms is {other}; set it to 100..=60000, or to 0 for no counters"
                ),
            )),
        }
    }
}

/// Several changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyParams {
    /// In this order; each as it would be a request of its own. Only methods of `service`, `pool`
    /// and `backend` can be among them; their own `force` counts for all.
    pub changes: Vec<Change>,
    /// Do it although it leaves a pool under its threshold or a service without backends.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
}

/// One of several changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change(Box<Request>);

impl Change {
    /// A change of a service, a pool or a backend.
    ///
    /// # Errors
    /// The request is none.
    pub fn new(request: Request) -> Result<Self, RequestError> {
        Self::check(request.method())?;
        if !request.is_change() {
            return Err(Self::refusal(request.method()));
        }
        Ok(Self(Box::new(request)))
    }

    /// Whether a method can be one of several, by its name alone: what is refused is not read, so
    /// that `apply` within `apply` goes no deeper.
    fn check(method: &str) -> Result<(), RequestError> {
        match method.split_once('.') {
            Some(("service" | "pool" | "backend", _)) => Ok(()),
            _ => Err(Self::refusal(method)),
        }
    }

    fn refusal(method: &str) -> RequestError {
        RequestError::new(
            ErrorCode::INVALID_PARAMS,
            format!(
                "{method} cannot be one of several changes; only methods of service, pool and \
                 backend that change something can"
            ),
        )
    }

    /// The request that it is.
    #[must_use]
    pub fn request(&self) -> &Request {
        &self.0
    }
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut object = serializer.serialize_struct("Change", 2)?;
        object.serialize_field("method", self.0.method())?;
        self.0.serialize_params(&mut object)?;
        object.end()
    }
}

impl<'de> Deserialize<'de> for Change {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Written {
            method: String,
            params: Option<Box<serde_json::value::RawValue>>,
        }
        let written = Written::deserialize(deserializer)?;
        Self::check(&written.method)
            .and_then(|()| Request::read(&written.method, written.params.as_deref()))
            .and_then(Self::new)
            .map_err(|error| serde::de::Error::custom(error.message))
    }
}

impl JsonSchema for Change {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Change".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "object",
            "description": "One of several changes.",
            "properties": {
                "method": { "type": "string", "description": "A method that changes a service, a pool or a backend." },
                "params": { "type": "object", "description": "What that method takes." },
            },
            "required": ["method"],
        })
    }
}

/// An address, or a network by its prefix.
fn network<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<IpNet>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    parse_network(&text).map(Some).map_err(serde::de::Error::custom)
}

/// An address, or a network by its prefix. Bits behind the prefix are ignored.
///
/// # Errors
/// It is neither; says what to write.
pub fn parse_network(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
    text.parse::<IpNet>().ok().or_else(address).map(|network| network.trunc()).ok_or_else(|| {
        "write an address or a network, as in 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32".to_owned()
    })
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
