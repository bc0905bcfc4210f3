//! The two ends of a connection: the client opens its streams, the server accepts them.

use crate::board::Board;
use crate::options::Plan;
use std::sync::Arc;
use std::time::{Duration, Instant};
use xdfs_xio::{Error, ErrorKind, Handle, Options, Result, Server, Timeouts};

/// Silence after which a receiver of datagrams takes the sender for gone, when it has heard it.
pub(crate) const SILENCE: Duration = Duration::from_secs(2);

fn options(plan: &Plan) -> Options {
    let timeout = Some(plan.limits.timeout);
    let read = if plan.datagrams { Some(SILENCE) } else { timeout };
    Options { timeouts: Timeouts { open: timeout, read, write: timeout, close: timeout } }
}

/// Opens the streams of a client.
pub(crate) fn connect(plan: &Plan, board: &Board, contact: &str) -> Result<Vec<Handle>> {
    let options = options(plan);
    board.connecting(|| (0..plan.streams).map(|_| Handle::open(&plan.stack, contact, &options)).collect())
}

/// Listens for clients.
pub(crate) fn listen(plan: &Plan, board: &Board, contact: &str) -> Result<Arc<Server>> {
    let server = Arc::new(Server::listen(&plan.stack, contact)?);
    board.listens(server.clone());
    Ok(server)
}

/// Accepts the streams of one client: waits for the first, and then not long for the others.
pub(crate) fn accept(plan: &Plan, server: &Server) -> Result<Vec<Handle>> {
    let options = options(plan);
    let mut handles = Vec::with_capacity(plan.streams);
    let mut deadline: Option<Instant> = None;
    while handles.len() < plan.streams {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let accepted = server.accept(left).map_err(|error| match error.kind() {
            ErrorKind::TimedOut => Error::new(
                ErrorKind::TimedOut,
                format!("only {} of {} streams connected: both sides need the same -P", handles.len(), plan.streams),
            ),
            _ => error,
        })?;
        match accepted.open(&options) {
            Ok(handle) => {
                deadline.get_or_insert_with(|| Instant::now() + plan.limits.timeout);
                handles.push(handle);
            }
            // Whoever fails at the handshake, a stranger perhaps, does not end it for the others.
            Err(error) => eprintln!("xioperf: a connection is left out: {error}"),
        }
    }
    Ok(handles)
}

/// Opens the file of -F.
pub(crate) fn file(plan: &Plan) -> Result<Option<Handle>> {
    let Some(path) = &plan.file else { return Ok(None) };
    let attributes = if plan.sends { "access=read" } else { "access=write;create;truncate" };
    let stack = xdfs_xio::Stack::new().push("file", attributes)?;
    // A name with a colon is a path all the same.
    let contact = if path.contains('/') { path.clone() } else { format!("./{path}") };
    Handle::open(&stack, &contact, &Options::default()).map(Some)
}
