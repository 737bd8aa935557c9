//! What a verb of the admin protocol changes, as edits of the configuration.

use std::time::Duration;

use super::protocol::params::{NewBackend, NewVip};
use super::protocol::reply::{AdminState, Protocol};
use super::protocol::{ErrorCode, Request, RequestError};
use crate::config::AdminState::{Disabled, Draining, Enabled};
use crate::config::{self, Backend, Edit, Pool, PortRange, Service, Vip};

/// The edits that a request asks for.
///
/// # Errors
/// It asks for none, or a parameter has no meaning.
pub fn of(request: &Request) -> Result<Vec<Edit>, RequestError> {
    let service_state = |service: &str, admin_state| {
        vec![Edit::SetServiceAdminState { service: service.to_owned(), admin_state }]
    };
    let pool_state = |pool: &str, admin_state| {
        vec![Edit::SetPoolAdminState { pool: pool.to_owned(), admin_state }]
    };
    let backend_state = |name: &super::protocol::BackendName, admin_state| {
        let (pool, backend) = (name.pool.clone(), name.name.clone());
        vec![Edit::SetBackendAdminState { pool, backend, admin_state }]
    };
    Ok(match request {
        Request::ServiceAdd(params) => {
            let vips = params.vips.iter().map(vip).collect::<Result<_, _>>()?;
            let mut service = Service::new(&params.service, params.pools.clone(), vips);
            if let Some(timeout) = params.idle_timeout_ms {
                service.idle_timeout = Duration::from_millis(timeout);
            }
            vec![Edit::AddService(service)]
        }
        Request::ServiceRemove(params) => {
            vec![Edit::RemoveService { service: params.service.clone() }]
        }
        Request::ServiceDrain(params) => service_state(&params.service, Draining),
        Request::ServiceEnable(params) => service_state(&params.service, Enabled),
        Request::ServiceDisable(params) => service_state(&params.service, Disabled),
        Request::ServiceReorder(params) => vec![Edit::SetServicePools {
            service: params.service.clone(),
            pools: params.pools.clone(),
        }],
        Request::PoolAdd(params) => {
            let backends = params.backends.iter().map(new_backend).collect();
            let mut pool = Pool::new(&params.pool, backends);
            pool.monitor.clone_from(&params.monitor);
            pool.region.clone_from(&params.region);
            pool.zone.clone_from(&params.zone);
            if let Some(threshold) = params.threshold {
                pool.threshold = threshold as usize;
            }
            if let Some(size) = params.table_size {
                pool.table_size = size;
            }
            vec![Edit::AddPool(pool)]
        }
        Request::PoolRemove(params) => vec![Edit::RemovePool { pool: params.pool.clone() }],
        Request::PoolDrain(params) => pool_state(&params.pool, Draining),
        Request::PoolEnable(params) => pool_state(&params.pool, Enabled),
        Request::PoolDisable(params) => pool_state(&params.pool, Disabled),
        Request::PoolThreshold(params) => vec![Edit::SetPoolThreshold {
            pool: params.pool.clone(),
            threshold: params.threshold as usize,
        }],
        Request::BackendAdd(params) => {
            let mut backend = Backend::new(&params.backend.name, params.address);
            backend.virtual_network.clone_from(&params.virtual_network);
            backend.probe_address = params.probe_address;
            if let Some(weight) = params.weight {
                backend.weight = weight;
            }
            if let Some(state) = params.admin_state {
                backend.admin_state = admin_state(state);
            }
            vec![Edit::AddBackend { pool: params.backend.pool.clone(), backend }]
        }
        Request::BackendRemove(params) => vec![Edit::RemoveBackend {
            pool: params.backend.pool.clone(),
            backend: params.backend.name.clone(),
        }],
        Request::BackendWeight(params) => vec![Edit::SetBackendWeight {
            pool: params.backend.pool.clone(),
            backend: params.backend.name.clone(),
            weight: params.weight,
        }],
        Request::BackendDrain(params) => backend_state(&params.backend, Draining),
        Request::BackendEnable(params) => backend_state(&params.backend, Enabled),
        Request::BackendDisable(params) => backend_state(&params.backend, Disabled),
        Request::Apply(params) => {
            let mut edits = Vec::new();
            for change in &params.changes {
                edits.extend(of(change.request())?);
            }
            edits
        }
        other => {
            return Err(RequestError::new(
                ErrorCode::INTERNAL_ERROR,
                format!("{} edits nothing; please report this", other.method()),
            ));
        }
    })
}

const fn admin_state(state: AdminState) -> config::AdminState {
    match state {
        AdminState::Enabled => config::AdminState::Enabled,
        AdminState::Draining => config::AdminState::Draining,
        AdminState::Disabled => config::AdminState::Disabled,
    }
}

fn new_backend(written: &NewBackend) -> Backend {
    let mut backend = Backend::new(&written.name, written.address);
    backend.virtual_network.clone_from(&written.virtual_network);
    backend.probe_address = written.probe_address;
    if let Some(weight) = written.weight {
        backend.weight = weight;
    }
    backend
}

fn vip(written: &NewVip) -> Result<Vip, RequestError> {
    let protocol = match written.protocol {
        Protocol::Tcp => config::Protocol::Tcp,
        Protocol::Udp => config::Protocol::Udp,
    };
    let mut vip = Vip::new(written.address, protocol, port_ranges(&written.ports)?);
    if let Some(arp) = written.arp {
        vip.arp = arp;
    }
    Ok(vip)
}

/// `any`, or ports and ranges: `80,443,8000-8999`.
fn port_ranges(text: &str) -> Result<Vec<PortRange>, RequestError> {
    if text == "any" {
        return Ok(vec![PortRange::ANY]);
    }
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = PortRange { first: first.parse().ok()?, last: last.parse().ok()? };
        (range.first <= range.last).then_some(range)
    };
    text.split(',').map(range).collect::<Option<_>>().ok_or_else(|| {
        RequestError::new(
            ErrorCode::INVALID_PARAMS,
            format!(
                "{:?} are no ports; write \"any\", or ports and ranges, as in \"80,443,8000-8999\"",
                text.chars().take(64).collect::<String>()
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::protocol::params::BackendWeightParams;

    #[test]
    fn ports_are_written_as_in_the_file() {
        let range = |first, last| PortRange { first, last };
        assert_eq!(port_ranges("any").unwrap(), [PortRange::ANY]);
        assert_eq!(port_ranges("80,8000-8999").unwrap(), [range(80, 80), range(8_000, 8_999)]);
        for wrong in ["", "80,", "x", "9-8", "70000", "1-2-3", " 80"] {
            let error = port_ranges(wrong).unwrap_err();
            assert!(error.message.contains("8000-8999"), "{wrong}: {}", error.message);
        }
    }

    // HP-40: a weight of 0 is not the default of 1.
    #[test]
    fn a_weight_of_zero_stays_zero() {
        let params = r#"{"backend":"web/b9","address":"10.0.0.9","weight":0}"#;
        let params = serde_json::value::RawValue::from_string(params.to_owned()).unwrap();
        let add = Request::read("backend.add", Some(&params)).unwrap();
        let edits = of(&add).unwrap();
        assert!(matches!(&edits[..], [Edit::AddBackend { backend, .. }] if backend.weight == 0));
        let weight = Request::BackendWeight(BackendWeightParams {
            backend: "web/b1".parse().unwrap(),
            weight: 0,
            force: false,
        });
        assert!(matches!(of(&weight).unwrap()[..], [Edit::SetBackendWeight { weight: 0, .. }]));
    }
}
