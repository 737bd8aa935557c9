//! What management is made of, with one worker, and the worker's ends of it.

use std::path::Path;

use crate::config::{Admin, Config};
use crate::control::admin::Server;
use crate::control::{BACKEND_CAP, LogLeftOut, ManagementParts, Ports, WorkerRemote};
use crate::forward::{Counters, Tables};
use crate::id::WorkerId;
use crate::snapshot::{self, Reader};
use crate::stats;
use crate::worker::{Mailbox, mailbox};

/// Management's parts, and what its worker holds.
pub(super) struct Parts {
    pub(super) management: ManagementParts,
    pub(super) reader: Reader<Tables>,
    pub(super) counters: Counters,
    pub(super) mailbox: Mailbox,
}

/// Of this configuration, with the file and the admin socket in `directory` and without metrics.
pub(super) fn parts(directory: &Path, config: Config, ports: Box<dyn Ports>) -> Parts {
    let tables = Tables::empty(config.appliance.flow_hash_key);
    let (publisher, mut readers) = snapshot::shared(tables, 1);
    let (worker, counters, mailbox) = worker(0, 256);
    let admin = Admin {
        socket: directory.join("admin.sock"),
        group: None,
        read_only_socket: None,
        read_only_group: None,
    };
    let management = ManagementParts {
        config_path: directory.join("lodestone.toml"),
        config,
        publisher,
        workers: vec![worker],
        ports,
        admin: Server::bind(&admin).unwrap(),
        metrics: None,
        log_left_out: LogLeftOut::default(),
    };
    Parts { management, reader: readers.remove(0), counters, mailbox }
}

/// Management's end of a worker with this number and mailbox, and the worker's ends.
pub(super) fn worker(id: u16, mailbox_cap: usize) -> (WorkerRemote, Counters, Mailbox) {
    let (counters, stats) = stats::worker(BACKEND_CAP);
    let (own, mailbox) = mailbox(mailbox_cap);
    let remote = WorkerRemote {
        id: WorkerId(id),
        core: 1,
        capacity: (8, 8),
        cycles_per_second: 1_000_000_000,
        stats,
        mailbox,
    };
    (remote, counters, own)
}
