//! `xdfs_xio_driver.h` for a transform in Rust: copy this file beside your driver. You implement
//! [`Transform`] and name your type in [`export_transform!`](crate::export_transform); unsafe code is here
//! alone, and a panic of yours is an error of its connection. Of an error the user sees what its number says; where
//! it has none that is `EIO`, and its text is on standard error.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt::Display;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Nothing follows these bytes.
#[allow(dead_code, reason = "not every driver ends by itself")]
pub const END: c_uint = 1;
/// A message ends with these bytes.
#[allow(dead_code, reason = "not every driver knows messages")]
pub const END_OF_MESSAGE: c_uint = 2;
/// Numbers of errors, as in errno.h.
#[allow(dead_code, reason = "not every driver has attributes")]
pub const EINVAL: i32 = 22;
const EAGAIN: i32 = 11;
const EINTR: i32 = 4;
const EIO: i32 = 5;

/// Attributes one by one, with their values.
#[allow(dead_code, reason = "not every driver has attributes")]
pub fn each(attributes: &str) -> impl Iterator<Item = (&str, &str)> {
    attributes.split(';').filter_map(|attribute| attribute.split_once('='))
}

/// One open layer. Its methods are called one at a time, from any thread.
pub trait Transform: Sized + Send {
    /// Whether `send` keeps bytes until `flush`, or `receive` takes more from below than it gives. Otherwise neither
    /// may be done.
    const KEEPS: bool = false;

    /// A new layer; `attributes` is `name=value;name=value`.
    fn open(attributes: &str, accepted: bool) -> io::Result<Self>;

    /// Receives by `below`; `flags` are set by it.
    fn receive(&mut self, below: &mut Below, into: &mut [IoSliceMut<'_>], flags: &mut c_uint) -> io::Result<usize>;

    /// Sends by `below`, which may take fewer bytes than it is given.
    fn send(&mut self, below: &mut Below, from: &[IoSlice<'_>], flags: c_uint) -> io::Result<usize>;

    /// Sends what is kept; `WouldBlock` while some is left.
    fn flush(&mut self, _below: &mut Below) -> io::Result<()> {
        Ok(())
    }

    /// Whether `receive` could return bytes now without `below`: half a record does not count.
    fn holds(&self) -> bool {
        false
    }
}

/// The layer below, for the time of a call.
#[repr(C)]
pub struct Below {
    layer: *mut c_void,
    receive: unsafe extern "C" fn(*mut Below, *const c_void, c_int, *mut c_uint) -> isize,
    send: unsafe extern "C" fn(*mut Below, *const c_void, c_int, c_uint) -> isize,
}

impl Below {
    /// Receives from below.
    pub fn receive(&mut self, into: &mut [IoSliceMut<'_>], flags: &mut c_uint) -> io::Result<usize> {
        let (start, count) = (into.as_ptr().cast(), into.len() as c_int);
        // SAFETY: `IoSliceMut` has the form of `struct iovec`, and the framework gave us itself.
        moved(unsafe { (self.receive)(self, start, count, flags) })
    }

    /// Sends to below.
    pub fn send(&mut self, from: &[IoSlice<'_>], flags: c_uint) -> io::Result<usize> {
        let (start, count) = (from.as_ptr().cast(), from.len() as c_int);
        // SAFETY: `IoSlice` has the form of `struct iovec`, and the framework gave us itself.
        moved(unsafe { (self.send)(self, start, count, flags) })
    }
}

fn moved(returned: isize) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::from_raw_os_error(-returned as i32))
}

fn number(error: &io::Error) -> i32 {
    match error.kind() {
        io::ErrorKind::WouldBlock => EAGAIN,
        io::ErrorKind::Interrupted => EINTR,
        _ => error.raw_os_error().unwrap_or(EIO),
    }
}

/// What the file exports beside the calls; [`export_transform!`](crate::export_transform) implements it.
pub trait Exports: Transform {
    /// The driver's name.
    const NAME: &CStr;
}

/// A result as C has it: a number. A panic, and an error that has none, are `EIO`, and their text is on standard error.
fn told<T: Exports>(call: impl FnOnce() -> io::Result<usize>) -> isize {
    // The text of an error is the driver's code, too.
    let numbered = || {
        call().map_err(|error| {
            let number = number(&error);
            if number == EIO && error.raw_os_error().is_none() {
                say::<T>(&error);
            }
            number
        })
    };
    match catch_unwind(AssertUnwindSafe(numbered)) {
        Ok(Ok(bytes)) => bytes as isize,
        Ok(Err(number)) => -(number as isize),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            say::<T>(&format_args!("it panicked: {}", text.unwrap_or("without a text")));
            -(EIO as isize)
        }
    }
}

/// A line on standard error. That there is none is no reason to panic.
fn say<T: Exports>(what: &dyn Display) {
    let _ = writeln!(io::stderr(), "driver {}: {what}", T::NAME.to_string_lossy());
}

/// `struct xdfs_xio_transform`.
#[repr(C)]
pub struct Calls {
    open: unsafe extern "C" fn(*mut *mut c_void, *const c_char, c_int) -> c_int,
    receive: unsafe extern "C" fn(*mut c_void, *mut Below, *mut IoSliceMut<'_>, c_int, *mut c_uint) -> isize,
    send: unsafe extern "C" fn(*mut c_void, *mut Below, *const IoSlice<'_>, c_int, c_uint) -> isize,
    close: unsafe extern "C" fn(*mut c_void),
    flush: Option<unsafe extern "C" fn(*mut c_void, *mut Below) -> c_int>,
    holds: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
}

impl Calls {
    /// Those of a type.
    pub const fn of<T: Exports>() -> Self {
        Self {
            open: open::<T>,
            receive: receive::<T>,
            send: send::<T>,
            close: close::<T>,
            flush: if T::KEEPS { Some(flush::<T>) } else { None },
            holds: if T::KEEPS { Some(holds::<T>) } else { None },
        }
    }
}

unsafe extern "C" fn open<T: Exports>(element: *mut *mut c_void, attributes: *const c_char, accepted: c_int) -> c_int {
    -told::<T>(|| {
        // SAFETY: the framework passes a text.
        let attributes = unsafe { CStr::from_ptr(attributes) }.to_str().map_err(io::Error::other)?;
        let opened = Box::new(T::open(attributes, accepted != 0)?);
        // SAFETY: the framework passes a place for it.
        unsafe { *element = Box::into_raw(opened).cast() };
        Ok(0)
    }) as c_int
}

unsafe extern "C" fn receive<T: Exports>(
    element: *mut c_void,
    below: *mut Below,
    into: *mut IoSliceMut<'_>,
    count: c_int,
    flags: *mut c_uint,
) -> isize {
    // SAFETY: all of them are alive for the time of the call, which nothing else meets.
    let (element, below, into, flags) = unsafe {
        let into: &mut [IoSliceMut<'_>] =
            if count > 0 { std::slice::from_raw_parts_mut(into, count as usize) } else { &mut [] };
        (&mut *element.cast::<T>(), &mut *below, into, &mut *flags)
    };
    told::<T>(|| element.receive(below, into, flags))
}

unsafe extern "C" fn send<T: Exports>(
    element: *mut c_void,
    below: *mut Below,
    from: *const IoSlice<'_>,
    count: c_int,
    flags: c_uint,
) -> isize {
    // SAFETY: all of them are alive for the time of the call, which nothing else meets.
    let (element, below, from) = unsafe {
        let from: &[IoSlice<'_>] = if count > 0 { std::slice::from_raw_parts(from, count as usize) } else { &[] };
        (&mut *element.cast::<T>(), &mut *below, from)
    };
    told::<T>(|| element.send(below, from, flags))
}

unsafe extern "C" fn close<T: Exports>(element: *mut c_void) {
    told::<T>(|| {
        // SAFETY: it was made by `open`, and is closed once.
        drop(unsafe { Box::from_raw(element.cast::<T>()) });
        Ok(0)
    });
}

unsafe extern "C" fn flush<T: Exports>(element: *mut c_void, below: *mut Below) -> c_int {
    // SAFETY: both are alive for the time of the call, which nothing else meets.
    let (element, below) = unsafe { (&mut *element.cast::<T>(), &mut *below) };
    told::<T>(|| element.flush(below).map(|()| 0)) as c_int
}

unsafe extern "C" fn holds<T: Exports>(element: *mut c_void) -> c_int {
    // SAFETY: it is alive for the time of the call, which nothing else meets.
    let element = unsafe { &*element.cast::<T>() };
    c_int::from(told::<T>(|| Ok(element.holds().into())) == 1)
}

/// `struct xdfs_xio_driver`.
#[repr(C)]
pub struct Exported {
    pub abi: u32,
    pub size: u32,
    pub name: *const c_char,
    pub kind: u32,
    pub attributes: *const *const c_char,
    pub blocking: *const c_void,
    pub transform: *const Calls,
}

// SAFETY: it is never written.
unsafe impl Sync for Exported {}

/// A list that ends with NULL.
#[repr(transparent)]
pub struct Names<const N: usize>(pub [*const c_char; N]);

// SAFETY: it is never written.
unsafe impl<const N: usize> Sync for Names<N> {}

/// Exports a type as the driver of this file: `export_transform!(Mine, c"mine", [c"key"]);`
#[macro_export]
macro_rules! export_transform {
    ($type:ty, $name:literal, [$($attribute:literal),*]) => {
        impl $crate::driver::Exports for $type {
            const NAME: &std::ffi::CStr = $name;
        }

        static CALLS: $crate::driver::Calls = $crate::driver::Calls::of::<$type>();
        static NAMES: $crate::driver::Names<{ [$($attribute,)* c""].len() }> =
            $crate::driver::Names([$($attribute.as_ptr(),)* std::ptr::null()]);

        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static xdfs_xio_driver_v1: $crate::driver::Exported = $crate::driver::Exported {
            abi: 1,
            size: size_of::<$crate::driver::Exported>() as u32,
            name: $name.as_ptr(),
            kind: 2,
            attributes: NAMES.0.as_ptr(),
            blocking: std::ptr::null(),
            transform: &CALLS,
        };
    };
}
