//! The admin sockets together.

use std::convert::Infallible;
use std::future::pending;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::connection::{Limits, Shared};
use super::feed::Snapshots;
use super::place::SocketPlace;
use super::post::Post;
use super::{AdminError, Command, Feed, Role};
use crate::config::Admin;

/// The admin sockets. Their files are removed when this is dropped.
#[derive(Debug)]
pub struct Server {
    pub(super) full: Arc<Post>,
    pub(super) read_only: Option<Arc<Post>>,
    feed: Feed,
    pub(super) limits: Limits,
}

impl Server {
    /// Makes the admin sockets, mode 0660, each of its group, and their directories if they are
    /// missing. Clients can connect from now on; they are served once [`Self::run`] runs. Needs no
    /// runtime. May wait for a second if another daemon starts at the same time.
    ///
    /// # Errors
    /// [`AdminError`] if another daemon listens there, a group is unknown or a socket cannot be
    /// made. Then there is no socket.
    pub fn bind(admin: &Admin) -> Result<Self, AdminError> {
        let full = SocketPlace::new(Role::Full, &admin.socket, admin.group.as_deref())?;
        let read_only = admin
            .read_only_socket
            .as_deref()
            .map(|path| SocketPlace::new(Role::ReadOnly, path, admin.read_only_group.as_deref()));
        let read_only = read_only.transpose()?;
        Ok(Self {
            full: Arc::new(Post::bind(full)?),
            read_only: read_only.map(Post::bind).transpose()?.map(Arc::new),
            feed: Feed::default(),
            limits: Limits::default(),
        })
    }

    /// Where to publish events for subscribers; any number of clones may.
    #[must_use]
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// What an operator should know, by socket: one that is lost and cannot be made anew, that takes no
    /// connections, or that was removed by somebody within the last two minutes. From any thread.
    #[must_use]
    pub fn alarms(&self) -> Vec<(&Path, String)> {
        let posts = [Some(&self.full), self.read_only.as_ref()];
        let posts = posts.into_iter().flatten();
        posts.filter_map(|post| Some((post.place().path.as_path(), post.alarm()?))).collect()
    }

    /// Serves until it is dropped, and all connections with it. The sockets stay, and `run` may be
    /// called again: management that restarts after a panic keeps its sockets.
    ///
    /// Nothing ends it: a socket that is removed, breaks or cannot be watched is made anew within
    /// seconds, or tried every second and told by [`Self::alarms`].
    pub async fn run(&self, commands: mpsc::Sender<Command>) -> Infallible {
        let snapshots = Arc::new(Snapshots::new(commands.clone()));
        let shared = |role| {
            Shared::new(
                role,
                self.full.place().path.clone(),
                commands.clone(),
                self.feed.clone(),
                Arc::clone(&snapshots),
                self.limits,
            )
        };
        let read_only = async {
            match &self.read_only {
                Some(post) => post.supervise(|| shared(Role::ReadOnly)).await,
                None => pending().await,
            }
        };
        tokio::select! {
            never = self.full.supervise(|| shared(Role::Full)) => never,
            never = read_only => never,
        }
    }
}
