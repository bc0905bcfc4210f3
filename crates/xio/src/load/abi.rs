//! The other side of `include/xdfs_xio_driver.h`: its types, and calls of a driver's functions. The driver
//! is trusted to be what the header asks for (it runs in this process); what it returns is checked.

use crate::error::{Error, ErrorKind};
use rustix::io::Errno;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::io::{self, IoSlice, IoSliceMut};
use std::ptr;
use xdfs_io::stack::{Flow, ReadInfo, WriteInfo};

/// The version of the header.
pub(super) const ABI: u32 = 1;
pub(super) const BLOCKING_TRANSPORT: u32 = 1;
pub(super) const TRANSFORM: u32 = 2;
const END: c_uint = 1;
const END_OF_MESSAGE: c_uint = 2;
/// Numbers of errors are below this one.
const ERRNO_MAX: i64 = 4096;
/// Room for a contact, with the zero at its end.
const CONTACT_BYTES_MAX: usize = 1024;
/// Most buffers of a call.
const VECTORS_MAX: usize = 1024;

/// `struct xdfs_xio_driver`.
#[repr(C)]
pub(super) struct RawDriver {
    pub(super) abi: u32,
    pub(super) size: u32,
    pub(super) name: *const c_char,
    pub(super) kind: u32,
    pub(super) attributes: *const *const c_char,
    pub(super) blocking: *const RawBlocking,
    pub(super) transform: *const RawTransform,
}

/// What follows in the struct of a driver whose size says so.
#[repr(C)]
pub(super) struct RawListeningDriver {
    driver: RawDriver,
    pub(super) listening: *const RawListening,
}

type Open = unsafe extern "C" fn(*mut *mut c_void, *const c_char, *const c_char) -> c_int;
type Move = unsafe extern "C" fn(*mut c_void, *const c_void, c_int, *mut usize) -> c_int;
type End = unsafe extern "C" fn(*mut c_void) -> c_int;

/// `struct xdfs_xio_blocking`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct RawBlocking {
    open: Option<Open>,
    read: Option<Move>,
    write: Option<Move>,
    close: Option<End>,
    finish: Option<End>,
    interrupt: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// `struct xdfs_xio_listening`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct RawListening {
    listen: Option<Open>,
    accept: Option<unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int>,
    contact: Option<unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> c_int>,
    close: Option<End>,
    interrupt: Option<unsafe extern "C" fn(*mut c_void)>,
}

type Receive = unsafe extern "C" fn(*mut c_void, *mut RawBelow<'_>, *const c_void, c_int, *mut c_uint) -> isize;
type Send = unsafe extern "C" fn(*mut c_void, *mut RawBelow<'_>, *const c_void, c_int, c_uint) -> isize;

/// `struct xdfs_xio_transform`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct RawTransform {
    open: Option<unsafe extern "C" fn(*mut *mut c_void, *const c_char, c_int) -> c_int>,
    receive: Option<Receive>,
    send: Option<Send>,
    close: Option<unsafe extern "C" fn(*mut c_void)>,
    flush: Option<unsafe extern "C" fn(*mut c_void, *mut RawBelow<'_>) -> c_int>,
    holds: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
}

/// `struct xdfs_xio_below`, and behind it what C does not see.
#[repr(C)]
pub(super) struct RawBelow<'a> {
    layer: *mut c_void,
    receive: unsafe extern "C" fn(*mut RawBelow<'_>, *const RawVector, c_int, *mut c_uint) -> isize,
    send: unsafe extern "C" fn(*mut RawBelow<'_>, *const RawVector, c_int, c_uint) -> isize,
    flow: &'a mut dyn Flow,
    /// The last error of the layer below, of which C has only a number.
    failed: Option<io::Error>,
    info: WriteInfo,
    received: ReadInfo,
}

/// `struct iovec`.
#[derive(Clone, Copy)]
#[repr(C)]
struct RawVector {
    start: *mut u8,
    length: usize,
}

/// What is told of a driver that returned what it may not.
pub(super) fn nonsense(what: String) -> io::Error {
    Error::new(ErrorKind::Driver, what).into()
}

/// The same, with the driver's name where it is told of nonsense.
pub(super) fn named(error: io::Error, driver: &str) -> io::Error {
    match error.downcast::<Error>() {
        Ok(own) => own.of_driver(driver).into(),
        Err(error) => error,
    }
}

/// What a driver's number of an error means.
fn error_of(number: c_int) -> io::Error {
    if (1..ERRNO_MAX).contains(&i64::from(number)) {
        return io::Error::from_raw_os_error(number);
    }
    nonsense(format!("it returned {number}, which is no number of an error"))
}

/// A count, or an error below zero.
fn count_of(returned: isize) -> io::Result<usize> {
    match usize::try_from(returned) {
        Ok(count) => Ok(count),
        Err(_) if returned as i64 > -ERRNO_MAX => Err(error_of(-returned as c_int)),
        Err(_) => Err(nonsense(format!("it returned {returned}, which is neither a count nor an error"))),
    }
}

fn number_of(error: &io::Error) -> isize {
    let number = match error.kind() {
        io::ErrorKind::WouldBlock => Errno::AGAIN,
        io::ErrorKind::Interrupted => Errno::INTR,
        _ => return -(error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()) as isize),
    };
    -(number.raw_os_error() as isize)
}

/// A thing of the driver's. What it points to is the driver's business.
#[derive(Clone, Copy)]
pub(super) struct Element(*mut c_void);

// SAFETY: the header says that calls come from several threads, and which may meet.
unsafe impl core::marker::Send for Element {}
// SAFETY: as above; nothing here follows the pointer.
unsafe impl Sync for Element {}

/// A text of the driver's.
///
/// # Safety
/// `text` is NULL or ends with a zero, and stays.
pub(super) unsafe fn text_of(text: *const c_char) -> Option<&'static str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller says so.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

fn c_text(text: &str) -> io::Result<CString> {
    CString::new(text).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a text has a zero byte"))
}

/// The functions of a blocking transport, all of those that must be there.
#[derive(Clone, Copy)]
pub(super) struct Blocking {
    open: Open,
    read: Move,
    write: Move,
    close: End,
    finish: Option<End>,
    interrupt: Option<unsafe extern "C" fn(*mut c_void)>,
}

impl Blocking {
    /// None where one is missing.
    pub(super) fn of(raw: RawBlocking) -> Option<Self> {
        let RawBlocking { open, read, write, close, finish, interrupt } = raw;
        Some(Self { open: open?, read: read?, write: write?, close: close?, finish, interrupt })
    }

    pub(super) fn open(&self, contact: &str, attributes: &str) -> io::Result<Element> {
        opened(self.open, contact, attributes)
    }

    pub(super) fn read(&self, connection: Element, into: &mut [u8]) -> io::Result<usize> {
        Self::moved(self.read, connection, into.as_mut_ptr(), into.len())
    }

    pub(super) fn write(&self, connection: Element, from: &[u8]) -> io::Result<usize> {
        match Self::moved(self.write, connection, from.as_ptr().cast_mut(), from.len())? {
            0 => Err(nonsense("it wrote nothing and told no error".to_owned())),
            bytes => Ok(bytes),
        }
    }

    fn moved(call: Move, connection: Element, start: *mut u8, length: usize) -> io::Result<usize> {
        let vector = RawVector { start, length };
        let mut bytes = 0;
        // SAFETY: one buffer with its length, which nobody else touches meanwhile; `struct iovec` looks so.
        let number = unsafe { call(connection.0, ptr::from_ref(&vector).cast(), 1, &mut bytes) };
        match number {
            0 if bytes > length => Err(nonsense(format!("it claims to have moved {bytes} bytes of {length}"))),
            0 => Ok(bytes),
            number => Err(error_of(number)),
        }
    }

    pub(super) fn finish(&self, connection: Element) -> io::Result<()> {
        let Some(finish) = self.finish else { return Ok(()) };
        // SAFETY: what it gets is its own.
        match unsafe { finish(connection.0) } {
            0 => Ok(()),
            number => Err(error_of(number)),
        }
    }

    pub(super) fn interrupt(&self, connection: Element) {
        if let Some(interrupt) = self.interrupt {
            // SAFETY: what it gets is its own, which is not closed yet.
            unsafe { interrupt(connection.0) };
        }
    }

    pub(super) fn close(&self, connection: Element) {
        // SAFETY: nobody uses it any more, and nobody closes it again.
        let _ = unsafe { (self.close)(connection.0) };
    }
}

/// The functions of a blocking transport that listens, all of those that must be there.
#[derive(Clone, Copy)]
pub(super) struct Listening {
    listen: Open,
    accept: unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int,
    contact: unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> c_int,
    close: End,
    interrupt: Option<unsafe extern "C" fn(*mut c_void)>,
}

impl Listening {
    /// None where one is missing.
    pub(super) fn of(raw: RawListening) -> Option<Self> {
        let RawListening { listen, accept, contact, close, interrupt } = raw;
        Some(Self { listen: listen?, accept: accept?, contact: contact?, close: close?, interrupt })
    }

    pub(super) fn listen(&self, contact: &str, attributes: &str) -> io::Result<Element> {
        opened(self.listen, contact, attributes)
    }

    pub(super) fn accept(&self, listener: Element) -> io::Result<Element> {
        let mut connection = ptr::null_mut();
        // SAFETY: what it gets is its own, and a place for what it returns.
        match unsafe { (self.accept)(listener.0, &mut connection) } {
            0 => Ok(Element(connection)),
            number => Err(error_of(number)),
        }
    }

    pub(super) fn contact(&self, listener: Element) -> io::Result<String> {
        let mut text = [0u8; CONTACT_BYTES_MAX];
        // SAFETY: what it gets is its own, and a buffer with its size.
        match unsafe { (self.contact)(listener.0, text.as_mut_ptr().cast(), text.len()) } {
            0 => {}
            number => return Err(error_of(number)),
        }
        let text = CStr::from_bytes_until_nul(&text).ok().and_then(|text| text.to_str().ok());
        text.map(str::to_owned).ok_or_else(|| nonsense("its contact is no text that ends".to_owned()))
    }

    pub(super) fn interrupt(&self, listener: Element) {
        if let Some(interrupt) = self.interrupt {
            // SAFETY: what it gets is its own, which is not closed yet.
            unsafe { interrupt(listener.0) };
        }
    }

    pub(super) fn close(&self, listener: Element) {
        // SAFETY: nobody uses it any more, and nobody closes it again.
        let _ = unsafe { (self.close)(listener.0) };
    }
}

fn opened(open: Open, contact: &str, attributes: &str) -> io::Result<Element> {
    let (contact, attributes) = (c_text(contact)?, c_text(attributes)?);
    let mut element = ptr::null_mut();
    // SAFETY: the pointers are what the header says, for the time of the call.
    let number = unsafe { open(&mut element, contact.as_ptr(), attributes.as_ptr()) };
    if number == 0 { Ok(Element(element)) } else { Err(error_of(number)) }
}

/// The functions of a transform, all of those that must be there.
#[derive(Clone, Copy)]
pub(super) struct Transform {
    open: unsafe extern "C" fn(*mut *mut c_void, *const c_char, c_int) -> c_int,
    receive: Receive,
    send: Send,
    close: unsafe extern "C" fn(*mut c_void),
    flush: Option<unsafe extern "C" fn(*mut c_void, *mut RawBelow<'_>) -> c_int>,
    holds: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
}

impl Transform {
    /// None where one is missing.
    pub(super) fn of(raw: RawTransform) -> Option<Self> {
        let RawTransform { open, receive, send, close, flush, holds } = raw;
        Some(Self { open: open?, receive: receive?, send: send?, close: close?, flush, holds })
    }

    pub(super) fn open(&self, attributes: &str, accepted: bool) -> io::Result<Element> {
        let attributes = c_text(attributes)?;
        let mut element = ptr::null_mut();
        // SAFETY: the pointers are what the header says, for the time of the call.
        let number = unsafe { (self.open)(&mut element, attributes.as_ptr(), accepted.into()) };
        if number == 0 { Ok(Element(element)) } else { Err(error_of(number)) }
    }

    pub(super) fn receive(
        &self,
        element: Element,
        below: &mut dyn Flow,
        into: &mut [IoSliceMut<'_>],
        info: &mut ReadInfo,
    ) -> io::Result<usize> {
        let mut layer = RawBelow::new(below, WriteInfo::default());
        let mut flags = 0;
        let count = into.len().min(VECTORS_MAX) as c_int;
        // SAFETY: `IoSliceMut` has the form of `struct iovec`, and the rest is alive for the time of the call.
        let returned = unsafe { (self.receive)(element.0, &mut layer, into.as_ptr().cast(), count, &mut flags) };
        *info = layer.received;
        info.end = flags & END != 0;
        info.end_of_message = flags & END_OF_MESSAGE != 0;
        layer.judge(count_of(returned))
    }

    pub(super) fn send(
        &self,
        element: Element,
        below: &mut dyn Flow,
        from: &[IoSlice<'_>],
        info: &WriteInfo,
    ) -> io::Result<usize> {
        let mut layer = RawBelow::new(below, *info);
        let flags = if info.end_of_message { END_OF_MESSAGE } else { 0 };
        let count = from.len().min(VECTORS_MAX) as c_int;
        // SAFETY: `IoSlice` has the form of `struct iovec`, and the rest is alive for the time of the call.
        let returned = unsafe { (self.send)(element.0, &mut layer, from.as_ptr().cast(), count, flags) };
        let sent = layer.judge(count_of(returned))?;
        if sent == 0 && from.iter().any(|slice| !slice.is_empty()) {
            return Err(nonsense("it sent nothing and told no error".to_owned()));
        }
        Ok(sent)
    }

    /// Whether it may keep bytes.
    pub(super) fn keeps(&self) -> bool {
        self.flush.is_some()
    }

    pub(super) fn flush(&self, element: Element, below: &mut dyn Flow) -> io::Result<()> {
        let Some(flush) = self.flush else { return Ok(()) };
        let mut layer = RawBelow::new(below, WriteInfo::default());
        // SAFETY: what it gets is its own, and the layer is alive for the time of the call.
        let returned = unsafe { flush(element.0, &mut layer) };
        match layer.judge(count_of(returned as isize))? {
            0 => Ok(()),
            _ => Err(nonsense(format!("its flush returned {returned}, which is neither zero nor an error"))),
        }
    }

    pub(super) fn holds(&self, element: Element) -> bool {
        // SAFETY: what it gets is its own.
        self.holds.is_some_and(|holds| unsafe { holds(element.0) } != 0)
    }

    pub(super) fn close(&self, element: Element) {
        // SAFETY: nobody uses it any more, and nobody closes it again.
        unsafe { (self.close)(element.0) };
    }
}

impl<'a> RawBelow<'a> {
    fn new(flow: &'a mut dyn Flow, info: WriteInfo) -> Self {
        let received = ReadInfo::default();
        Self { layer: ptr::null_mut(), receive: below_receive, send: below_send, flow, failed: None, info, received }
    }

    /// An error of the layer below is told as it was, and not by its number.
    fn judge(self, result: io::Result<usize>) -> io::Result<usize> {
        match (result, self.failed) {
            (Err(error), Some(failed)) if error.raw_os_error() == Some(-number_of(&failed) as i32) => Err(failed),
            (result, _) => result,
        }
    }
}

/// The buffers that a driver gives to the layer below.
///
/// # Safety
/// `vectors` points to `count` buffers, which are the driver's or were given to it, and not touched meanwhile.
unsafe fn vectors_of<'a>(vectors: *const RawVector, count: c_int) -> Option<&'a [RawVector]> {
    let length = usize::try_from(count).ok().filter(|length| *length <= VECTORS_MAX)?;
    if length == 0 {
        return Some(&[]);
    }
    if vectors.is_null() {
        return None;
    }
    // SAFETY: the caller says so.
    let vectors = unsafe { std::slice::from_raw_parts(vectors, length) };
    let good =
        |vector: &RawVector| vector.length == 0 || !vector.start.is_null() && vector.length <= isize::MAX as usize;
    vectors.iter().all(good).then_some(vectors)
}

const BAD_VECTORS: isize = -(Errno::INVAL.raw_os_error() as isize);

unsafe extern "C" fn below_receive(
    below: *mut RawBelow<'_>,
    vectors: *const RawVector,
    count: c_int,
    flags: *mut c_uint,
) -> isize {
    // SAFETY: the driver gives back what it was given, while its call lasts.
    let below = unsafe { &mut *below };
    // SAFETY: what the header asks of the driver.
    let Some(vectors) = (unsafe { vectors_of(vectors, count) }) else { return BAD_VECTORS };
    let slices = vectors.iter().filter(|vector| vector.length > 0).map(|vector| {
        // SAFETY: as above, and it is not empty.
        IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(vector.start, vector.length) })
    });
    let mut slices: Vec<_> = slices.collect();
    let mut info = ReadInfo::default();
    match below.flow.receive(&mut slices, &mut info) {
        Ok(bytes) => {
            below.received = info;
            if !flags.is_null() {
                let end = if info.end { END } else { 0 };
                let message = if info.end_of_message { END_OF_MESSAGE } else { 0 };
                // SAFETY: the header asks for NULL or the place of such a number.
                unsafe { *flags = end | message };
            }
            bytes as isize
        }
        Err(error) => below.fails(error),
    }
}

unsafe extern "C" fn below_send(
    below: *mut RawBelow<'_>,
    vectors: *const RawVector,
    count: c_int,
    flags: c_uint,
) -> isize {
    // SAFETY: the driver gives back what it was given, while its call lasts.
    let below = unsafe { &mut *below };
    // SAFETY: what the header asks of the driver.
    let Some(vectors) = (unsafe { vectors_of(vectors, count) }) else { return BAD_VECTORS };
    let slices = vectors.iter().filter(|vector| vector.length > 0).map(|vector| {
        // SAFETY: as above, and it is not empty.
        IoSlice::new(unsafe { std::slice::from_raw_parts(vector.start, vector.length) })
    });
    let slices: Vec<_> = slices.collect();
    let info = WriteInfo { end_of_message: flags & END_OF_MESSAGE != 0, ..below.info };
    match below.flow.send(&slices, &info) {
        Ok(bytes) => bytes as isize,
        Err(error) => below.fails(error),
    }
}

impl RawBelow<'_> {
    fn fails(&mut self, error: io::Error) -> isize {
        let number = number_of(&error);
        self.failed = Some(error);
        number
    }
}
