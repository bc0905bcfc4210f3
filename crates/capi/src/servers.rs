//! Servers: the passive end.

use crate::attributes::ATTRIBUTES;
use crate::handles::{HANDLES, HandleObject, State};
use crate::memory::{Out, TextOut, UserArg};
use crate::objects::{Id, Objects};
use crate::results::{ResultCode, SUCCESS, call, result_of};
use crate::stacks::{STACKS, stack_of};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use xdfs_xio::{Error, ErrorKind, Result, Server};

pub(crate) static SERVERS: Objects<ServerObject> = Objects::new("server");

/// Where a server listens unless told otherwise: at any address of the host and a port of the system's.
const ANYWHERE: &str = ":0";

/// A server.
pub(crate) struct ServerObject {
    server: Server,
    /// An accept is registered.
    accepting: AtomicBool,
}

impl Drop for ServerObject {
    fn drop(&mut self) {
        self.server.close();
    }
}

impl ServerObject {
    fn accept(&self) -> Result<Id> {
        let connection = self.server.accept(None)?;
        HANDLES.add(HandleObject::new(State::Accepted(Box::new(connection))))
    }
}

type AcceptCallback = Option<extern "C" fn(Id, Id, ResultCode, UserArg)>;

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_server_create(server: Out<Id>, attr: Id, stack: Id) -> ResultCode {
    call(|| {
        let attributes = ATTRIBUTES.get_if_given(attr)?;
        let stack = stack_of(&STACKS.get(stack)?.names(), attributes.as_deref())?;
        let contact = attributes.map(|set| set.contact()).transpose()?.flatten();
        let listening = Server::listen(&stack, contact.as_deref().unwrap_or(ANYWHERE))?;
        let object = ServerObject { server: listening, accepting: AtomicBool::new(false) };
        server.required()?.set(SERVERS.add(object)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_server_contact(server: Id, contact: TextOut, size: usize) -> ResultCode {
    call(|| {
        contact.set(&SERVERS.get(server)?.server.contact()?, size);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_server_accept(handle: Out<Id>, server: Id) -> ResultCode {
    call(|| {
        let handle = handle.required()?;
        handle.set(SERVERS.get(server)?.accept()?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_server_register_accept(server: Id, callback: AcceptCallback, user_arg: UserArg) -> ResultCode {
    call(|| {
        let object = SERVERS.get(server)?;
        if object.accepting.swap(true, Ordering::AcqRel) {
            return Err(Error::new(ErrorKind::TooMany, "an accept is registered already"));
        }
        let waiting = Waiting { object: object.clone(), id: server, callback, user_arg };
        let started = std::thread::Builder::new().name("xio-accept".to_owned()).spawn(move || waiting.run());
        if let Err(error) = started {
            object.accepting.store(false, Ordering::Release);
            return Err(error.into());
        }
        Ok(())
    })
}

/// A registered accept: it waits on a thread of its own.
struct Waiting {
    object: Arc<ServerObject>,
    id: Id,
    callback: AcceptCallback,
    user_arg: UserArg,
}

impl Waiting {
    fn run(self) {
        let accepted = self.object.accept();
        // The callback may register the next.
        self.object.accepting.store(false, Ordering::Release);
        let (handle, result) = accepted.map_or_else(|error| (0, result_of(&error)), |handle| (handle, SUCCESS));
        if let Some(callback) = self.callback {
            callback(self.id, handle, result, self.user_arg);
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_server_close(server: Id) -> ResultCode {
    call(|| {
        SERVERS.remove(server)?.server.close();
        Ok(())
    })
}
