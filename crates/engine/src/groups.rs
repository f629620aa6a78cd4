//! The groups that connections share: iSCSI sessions, NVMe subsystems and the state of NFS clients. They live on core 0.

use std::sync::Arc;

use host::CoreIndex;
use nfs::server::exports::FileKey;
use nfs::state::holdings::Release;
use nfs::v4::ClientId;
use protocol::{Group, GroupMessage, Instant};

use crate::message::{Answer, Member};
use crate::nfs_portal::NfsStart;

/// All groups of the process.
#[derive(Debug)]
pub(crate) struct Groups {
    sessions: iscsi::session::Sessions<Member>,
    subsystems: nvme::subsystem::Subsystems<Member>,
    nfs: Option<NfsClients>,
}

/// The state of NFS clients.
#[derive(Debug)]
struct NfsClients {
    start: Arc<NfsStart>,
    /// `None` until the first connection speaks to it: no client can have been waiting for the end of grace before that.
    server: Option<nfs::state::Server<Member, FileKey>>,
}

impl NfsClients {
    fn server(&mut self, now: Instant) -> &mut nfs::state::Server<Member, FileKey> {
        let NfsStart { boot, records, .. } = &*self.start;
        self.server.get_or_insert_with(|| nfs::state::Server::new(now, *boot, records))
    }

    /// Passes on what stable storage is to keep.
    fn pass_on(&mut self) {
        while let Some(change) = self.server.as_mut().and_then(nfs::state::Server::poll_stable) {
            self.start.keeper.change(change);
        }
    }
}

impl Groups {
    pub(crate) fn new() -> Self {
        let (sessions, subsystems) = (iscsi::session::Sessions::new(), nvme::subsystem::Subsystems::new());
        Self { sessions, subsystems, nfs: None }
    }

    /// NFS is served, or is about to be. What it began with first holds for the life of the process.
    pub(crate) fn serve_nfs(&mut self, start: &Arc<NfsStart>) {
        self.nfs.get_or_insert_with(|| NfsClients { start: Arc::clone(start), server: None });
    }

    /// A connection speaks to the owner of NFS clients' state.
    pub(crate) fn handle_nfs(
        &mut self,
        now: Instant,
        from: Member,
        request: nfs::state::messages::Request<FileKey>,
    ) {
        if let Some(nfs) = &mut self.nfs {
            nfs.server(now).handle_message(now, from, request);
            nfs.pass_on();
        }
    }

    /// A change of an NFS client's record is durable, or failed.
    pub(crate) fn handle_nfs_record(&mut self, now: Instant, client: ClientId, result: Result<(), ()>) {
        if let Some(nfs) = &mut self.nfs {
            nfs.server(now).handle_stable(now, client, result);
            nfs.pass_on();
        }
    }

    /// What is to be closed at a file system: its NFS client closed it, or is gone.
    pub(crate) fn poll_release(&mut self) -> Option<Release<FileKey>> {
        self.nfs.as_mut()?.server.as_mut()?.poll_release()
    }

    /// A connection speaks to its session's group.
    pub(crate) fn handle_session(&mut self, now: Instant, from: Member, request: iscsi::session::Request) {
        self.sessions.handle_message(now, from, request);
    }

    /// A connection speaks to its subsystem's group.
    pub(crate) fn handle_subsystem(&mut self, now: Instant, from: Member, request: nvme::subsystem::Request) {
        self.subsystems.handle_message(now, from, request);
    }

    /// A connection is gone.
    pub(crate) fn handle_leave(&mut self, now: Instant, member: Member) {
        self.sessions.handle_leave(now, member);
        self.subsystems.handle_leave(now, member);
        if let Some(nfs) = &mut self.nfs
            && let Some(server) = &mut nfs.server
        {
            server.handle_leave(now, member);
            nfs.pass_on();
        }
    }

    /// What groups have to say to their members.
    pub(crate) fn poll(&mut self) -> Option<(Member, Answer)> {
        if let Some(GroupMessage { to, message }) = self.sessions.poll_message() {
            return Some((to, Answer::Session(message)));
        }
        if let Some(GroupMessage { to, message }) = self.subsystems.poll_message() {
            return Some((to, Answer::Subsystem(message)));
        }
        let GroupMessage { to, message } = self.nfs.as_mut()?.server.as_mut()?.poll_message()?;
        Some((to, Answer::Nfs(Box::new(message))))
    }

    /// Lets groups do what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.sessions.handle_timeout(now);
        self.subsystems.handle_timeout(now);
        if let Some(nfs) = &mut self.nfs
            && let Some(server) = &mut nfs.server
        {
            server.handle_timeout(now);
            nfs.pass_on();
        }
    }

    /// The groups' next deadline.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let nfs = self.nfs.as_ref().and_then(|nfs| nfs.server.as_ref()).and_then(Group::poll_timeout);
        [self.sessions.poll_timeout(), self.subsystems.poll_timeout(), nfs].into_iter().flatten().min()
    }

    /// The core that groups live on.
    pub(crate) const CORE: CoreIndex = 0;
}
