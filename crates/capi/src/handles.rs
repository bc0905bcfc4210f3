//! Handles: made, opened, commanded, cancelled and closed.

use crate::attributes::{ATTRIBUTES, AttributeSet};
use crate::drivers::DRIVERS;
use crate::memory::{Out, Text, TextOut, UserArg};
use crate::objects::{Id, Objects};
use crate::results::{ResultCode, SUCCESS, call, result_of};
use crate::stacks::{Layers, STACKS, stack_of};
use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xdfs_xio::{Accepted, Answer, Contact, Error, ErrorKind, Handle, Options, Result, Stack};

pub(crate) static HANDLES: Objects<HandleObject> = Objects::new("handle");

/// Directions to cancel.
const CANCEL_OPEN: c_int = 1;
const CANCEL_CLOSE: c_int = 2;
const CANCEL_READ: c_int = 4;
const CANCEL_WRITE: c_int = 8;

/// What is told when an opening or a close is over.
pub(crate) type Callback = Option<extern "C" fn(Id, ResultCode, UserArg)>;

/// A handle.
pub(crate) struct HandleObject(Mutex<State>);

/// How far it is.
pub(crate) enum State {
    /// Made of these drivers, bottom first.
    Created(Vec<String>),
    /// A server accepted it.
    Accepted(Box<Accepted>),
    /// A thread opens it.
    Opening,
    /// Open, or told to open, or closed.
    Open(Handle),
    /// It could not be opened.
    Failed,
}

impl HandleObject {
    /// In that state.
    pub(crate) fn new(state: State) -> Self {
        Self(Mutex::new(state))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The open handle.
    pub(crate) fn open(&self) -> Result<Handle> {
        match &*self.state() {
            State::Open(handle) => Ok(handle.clone()),
            _ => Err(Error::new(ErrorKind::Usage, "the handle is not open")),
        }
    }

    /// Opens it on the caller's thread: until that is done nobody else can, and nobody waits for it.
    fn open_now(&self, open: impl FnOnce(State) -> Result<Handle>) -> Result<()> {
        let created = begin(&mut self.state())?;
        let opened = open(created);
        end(&mut self.state(), opened)
    }

    /// Starts to open it. The state is locked meanwhile: a callback that is faster than this finds it open.
    fn register_open(&self, open: impl FnOnce(State) -> Result<Handle>) -> Result<()> {
        let mut state = self.state();
        let created = begin(&mut state)?;
        let opened = open(created);
        end(&mut state, opened)
    }
}

fn begin(state: &mut State) -> Result<State> {
    match state {
        State::Created(_) | State::Accepted(_) => Ok(std::mem::replace(state, State::Opening)),
        _ => Err(opened_before()),
    }
}

fn end(state: &mut State, opened: Result<Handle>) -> Result<()> {
    let (reached, result) = match opened {
        Ok(handle) => (State::Open(handle), Ok(())),
        Err(error) => (State::Failed, Err(error)),
    };
    *state = reached;
    result
}

fn opened_before() -> Error {
    Error::new(ErrorKind::Usage, "the handle was opened before")
}

/// The handle of that name, open.
pub(crate) fn open_handle(id: Id) -> Result<Handle> {
    HANDLES.get(id)?.open()
}

/// What an opening needs.
struct Opening {
    object: Arc<HandleObject>,
    contact: String,
    attributes: Option<Arc<AttributeSet>>,
    options: Options,
}

impl Opening {
    fn new(handle: Id, contact: &Text, attr: Id) -> Result<Self> {
        let object = HANDLES.get(handle)?;
        let attributes = ATTRIBUTES.get_if_given(attr)?;
        let options = attributes.as_ref().map(|set| set.options()).transpose()?.unwrap_or_default();
        Ok(Self { object, contact: contact.get()?.unwrap_or_default().to_owned(), attributes, options })
    }

    /// Opens what the handle is made of by one of these.
    fn open(
        &self,
        state: State,
        created: impl FnOnce(&Stack, &str, &Options) -> Result<Handle>,
        accepted: impl FnOnce(Accepted, &Options) -> Result<Handle>,
    ) -> Result<Handle> {
        match state {
            State::Created(names) => {
                created(&stack_of(&names, self.attributes.as_deref())?, &self.contact, &self.options)
            }
            State::Accepted(connection) => accepted(*connection, &self.options),
            _ => Err(opened_before()),
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_handle_create(handle: Out<Id>, stack: Id) -> ResultCode {
    call(|| {
        let names = STACKS.get(stack)?.names();
        stack_of(&names, None)?;
        handle.required()?.set(HANDLES.add(HandleObject::new(State::Created(names)))?);
        Ok(())
    })
}

/// The stack that a scheme names: the driver of that name, above what it needs.
fn stack_for(scheme: &str) -> Layers {
    Layers::of(match scheme {
        "http" => "tcp,http",
        "https" => "tcp,tls,http",
        "telnet" => "tcp,telnet",
        "gsiftp" => "gridftp",
        other => other,
    })
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_handle_create_from_url(handle: Out<Id>, url: Text, attr: Id) -> ResultCode {
    call(|| {
        let url = url.required("the URL")?;
        let attributes = ATTRIBUTES.get_if_given(attr)?;
        let contact = if url.contains([':', '/']) { Some(Contact::parse(url)?) } else { None };
        let scheme = match &contact {
            // The scheme alone.
            None => url,
            Some(contact) => contact.scheme().ok_or_else(|| {
                Error::new(ErrorKind::Contact, format!("'{}' has no scheme", contact.shown().escape_debug()))
            })?,
        };
        let names = stack_for(scheme).names();
        stack_of(&names, attributes.as_deref())?;
        handle.required()?.set(HANDLES.add(HandleObject::new(State::Created(names)))?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_open(handle: Id, contact: Text, attr: Id) -> ResultCode {
    call(|| {
        let opening = Opening::new(handle, &contact, attr)?;
        opening.object.open_now(|state| opening.open(state, Handle::open, Accepted::open))
    })
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_register_open(
    handle: Id,
    contact: Text,
    attr: Id,
    callback: Callback,
    user_arg: UserArg,
) -> ResultCode {
    call(|| {
        let opening = Opening::new(handle, &contact, attr)?;
        let told = move |_: &Handle, result: Result<()>| tell(callback, handle, result, user_arg);
        opening.object.register_open(|state| {
            let created =
                |stack: &Stack, contact: &str, options: &Options| Handle::register_open(stack, contact, options, told);
            opening.open(state, created, |connection, options| connection.register_open(options, told))
        })
    })
}

fn tell(callback: Callback, handle: Id, result: Result<()>, user_arg: UserArg) {
    if let Some(callback) = callback {
        callback(handle, result.map_or_else(|error| result_of(&error), |()| SUCCESS), user_arg);
    }
}

/// The attributes of a close are those of the opening.
#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_close(handle: Id, _attr: Id) -> ResultCode {
    call(|| {
        let object = HANDLES.get(handle)?;
        let Ok(open) = object.open() else { return HANDLES.remove(handle).map(drop) };
        let result = open.close();
        // Refused: a callback must not wait, or somebody else closes it.
        let refused = matches!(&result, Err(error) if matches!(error.kind(), ErrorKind::Usage | ErrorKind::Closed));
        if !refused {
            HANDLES.remove(handle)?;
        }
        result
    })
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_register_close(handle: Id, _attr: Id, callback: Callback, user_arg: UserArg) -> ResultCode {
    call(|| {
        let open = open_handle(handle)?;
        open.register_close(move |result| {
            // The name is gone only if nobody was faster.
            let _ = HANDLES.remove(handle);
            tell(callback, handle, result, user_arg);
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_handle_cancel_operations(handle: Id, mask: c_int) -> ResultCode {
    call(|| {
        let all = CANCEL_OPEN | CANCEL_CLOSE | CANCEL_READ | CANCEL_WRITE;
        if mask & !all != 0 || mask & all == 0 {
            return Err(Error::new(ErrorKind::Usage, format!("{mask:#x} is no set of operations")));
        }
        let open = open_handle(handle)?;
        if mask & CANCEL_OPEN != 0 {
            open.cancel_open();
        }
        if mask & CANCEL_READ != 0 {
            open.cancel_reads();
        }
        if mask & CANCEL_WRITE != 0 {
            open.cancel_writes();
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_handle_control(
    handle: Id,
    driver: Id,
    name: Text,
    value: Text,
    answer: TextOut,
    size: usize,
) -> ResultCode {
    call(|| {
        let open = open_handle(handle)?;
        let driver = DRIVERS.get_if_given(driver)?;
        let driver = driver.as_ref().map(|driver| driver.name.as_str());
        let text = match open.control(driver, name.required("the command")?, value.get()?)? {
            Answer::Done => String::new(),
            Answer::Number(number) => number.to_string(),
            Answer::Text(text) => text,
        };
        answer.set(&text, size);
        Ok(())
    })
}
