//! When `conntrack flush` needs force.

use super::protocol::params::{FlowFilter, FlushParams};
use super::protocol::{ErrorCode, RequestError};

/// Why a flush is refused unless it is forced: nothing it names keeps it from forgetting every flow,
/// or every one of a family.
pub(super) fn refusal(params: &FlushParams) -> Option<RequestError> {
    (!params.force && !is_narrow(&params.filter)).then(|| {
        RequestError::new(
            ErrorCode::REFUSED,
            "this would forget every tracked flow, or every one of a family; name a client network \
             (longer than /0), a backend or a VIP, or force it",
        )
    })
}

/// Whether a filter leaves flows of every family alone. A protocol only tells which VIP of an address
/// is meant.
fn is_narrow(filter: &FlowFilter) -> bool {
    let FlowFilter { family: _, client, backend, vip, protocol: _ } = filter;
    backend.is_some() || vip.is_some() || client.is_some_and(|client| client.prefix_len() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::protocol::reply::{Family, Protocol};

    #[test]
    fn what_can_match_a_whole_family_needs_force() {
        let client = |text: &str| FlowFilter {
            client: Some(text.parse().unwrap()),
            ..FlowFilter::default()
        };
        let wide = [
            FlowFilter::default(),
            FlowFilter { family: Some(Family::Ipv4), ..FlowFilter::default() },
            FlowFilter { protocol: Some(Protocol::Tcp), ..FlowFilter::default() },
            client("0.0.0.0/0"),
            client("::/0"),
            FlowFilter { family: Some(Family::Ipv6), ..client("::/0") },
        ];
        for filter in wide {
            let params = |force| FlushParams { filter: filter.clone(), force };
            let refused = refusal(&params(false)).unwrap();
            assert_eq!(refused.code, ErrorCode::REFUSED, "{filter:?}");
            assert_eq!(refusal(&params(true)), None);
        }
        let narrow = [
            client("192.0.2.0/24"),
            FlowFilter { backend: Some("web/b1".parse().unwrap()), ..client("0.0.0.0/0") },
            FlowFilter { vip: Some([192, 0, 2, 1].into()), ..FlowFilter::default() },
        ];
        for filter in narrow {
            assert_eq!(refusal(&FlushParams { filter: filter.clone(), force: false }), None);
        }
    }
}
