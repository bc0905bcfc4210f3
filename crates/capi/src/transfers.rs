//! Reads and writes, at once or registered.

use crate::descriptors::{DESCRIPTORS, Descriptor};
use crate::handles::open_handle;
use crate::memory::{Buffer, Out, UserArg, Vectors};
use crate::objects::Id;
use crate::results::{ResultCode, SUCCESS, call, end, result_of};
use std::ffi::c_int;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use xdfs_xio::{Buffers, Completed, Error, ErrorKind, Handle, Lent, Received, Result, WriteInfo};

type DataCallback = Option<extern "C" fn(Id, ResultCode, *mut u8, usize, usize, Id, UserArg)>;
type VectorCallback = Option<extern "C" fn(Id, ResultCode, Vectors, c_int, usize, Id, UserArg)>;

/// What an operation came to, as C has it.
struct Told {
    result: ResultCode,
    bytes: usize,
}

/// An operation of a handle.
struct Operation {
    handle: Handle,
    descriptor: Option<Arc<Descriptor>>,
    wait_for: usize,
}

impl Operation {
    fn new(handle: Id, descriptor: Id, wait_for: usize) -> Result<Self> {
        let descriptor = DESCRIPTORS.get_if_given(descriptor)?;
        Ok(Self { handle: open_handle(handle)?, descriptor, wait_for })
    }

    fn write_info(&self) -> WriteInfo {
        self.descriptor.as_ref().map(|descriptor| descriptor.for_write()).unwrap_or_default()
    }

    fn read(&self, mut buffers: Vec<Buffer>) -> Told {
        let mut slices: Vec<_> = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer.as_mut())).collect();
        self.read_told(self.handle.readv(&mut slices, self.wait_for))
    }

    fn read_told(&self, result: Result<Received>) -> Told {
        let Ok(Received { bytes, info }) = result else { return told(result.map(|done| done.bytes)) };
        if let Some(descriptor) = &self.descriptor {
            descriptor.came(info);
        }
        // An end that came with enough bytes is told by the next read.
        let ended = info.end && bytes < self.wait_for.max(1);
        Told { result: if ended { end() } else { SUCCESS }, bytes }
    }

    fn write(&self, buffers: &[Buffer]) -> Told {
        let mut slices: Vec<_> = buffers.iter().map(|buffer| IoSlice::new(buffer.as_ref())).collect();
        told(self.handle.writev(&mut slices, &self.write_info()))
    }

    fn register_read(self, buffers: Vec<Buffer>, then: impl FnOnce(Told) + Send + 'static) -> Result<()> {
        let (handle, wait_for) = (self.handle.clone(), self.wait_for);
        let callback = move |_: &Handle, done: Completed| then(self.read_told(done.result));
        handle.register_read(lent(buffers), wait_for, callback).map(drop)
    }

    fn register_write(self, buffers: Vec<Buffer>, then: impl FnOnce(Told) + Send + 'static) -> Result<()> {
        let callback = move |_: &Handle, done: Completed| then(told(done.result.map(|done| done.bytes)));
        self.handle.register_write(lent(buffers), self.write_info(), callback).map(drop)
    }
}

fn told(result: Result<usize>) -> Told {
    match result {
        Ok(bytes) => Told { result: SUCCESS, bytes },
        Err(error) => Told { result: result_of(&error), bytes: error.transferred() },
    }
}

fn lent(buffers: Vec<Buffer>) -> Buffers {
    Buffers::Lent(buffers.into_iter().map(|buffer| Box::new(buffer) as Box<dyn Lent>).collect())
}

/// A write ends with everything, so no less can be waited for and no more.
fn check_write(buffers: &[Buffer], wait_for: usize) -> Result<()> {
    let size: usize = buffers.iter().map(|buffer| buffer.length()).sum();
    if wait_for > size {
        let what = format!("a write of {size} bytes cannot wait for {wait_for}");
        return Err(Error::new(ErrorKind::Usage, what));
    }
    Ok(())
}

/// Does it and tells it; what failed before it began moved nothing.
fn at_once(bytes: &Out<usize>, operate: impl FnOnce() -> Result<Told>) -> ResultCode {
    bytes.set(0);
    let mut result = SUCCESS;
    let failed = call(|| {
        let told = operate()?;
        bytes.set(told.bytes);
        result = told.result;
        Ok(())
    });
    if failed == SUCCESS { result } else { failed }
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_read(
    handle: Id,
    buffer: *mut u8,
    length: usize,
    wait_for: usize,
    bytes: Out<usize>,
    descriptor: Id,
) -> ResultCode {
    at_once(&bytes, || Ok(Operation::new(handle, descriptor, wait_for)?.read(vec![Buffer::of(buffer, length)?])))
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_readv(
    handle: Id,
    vectors: Vectors,
    count: c_int,
    wait_for: usize,
    bytes: Out<usize>,
    descriptor: Id,
) -> ResultCode {
    at_once(&bytes, || Ok(Operation::new(handle, descriptor, wait_for)?.read(vectors.get(count)?)))
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_write(
    handle: Id,
    buffer: *mut u8,
    length: usize,
    wait_for: usize,
    bytes: Out<usize>,
    descriptor: Id,
) -> ResultCode {
    at_once(&bytes, || {
        let buffers = [Buffer::of(buffer, length)?];
        check_write(&buffers, wait_for)?;
        Ok(Operation::new(handle, descriptor, wait_for)?.write(&buffers))
    })
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_writev(
    handle: Id,
    vectors: Vectors,
    count: c_int,
    wait_for: usize,
    bytes: Out<usize>,
    descriptor: Id,
) -> ResultCode {
    at_once(&bytes, || {
        let buffers = vectors.get(count)?;
        check_write(&buffers, wait_for)?;
        Ok(Operation::new(handle, descriptor, wait_for)?.write(&buffers))
    })
}

/// Tells the callback of an operation on one buffer.
fn telling(
    handle: Id,
    buffer: Buffer,
    descriptor: Id,
    callback: DataCallback,
    user_arg: UserArg,
) -> impl FnOnce(Told) + Send + 'static {
    move |told| {
        let (buffer, user_arg) = (buffer, user_arg);
        if let Some(callback) = callback {
            callback(handle, told.result, buffer.start(), buffer.length(), told.bytes, descriptor, user_arg);
        }
    }
}

/// Tells the callback of an operation on several buffers.
fn telling_vectors(
    handle: Id,
    (vectors, count): (Vectors, c_int),
    descriptor: Id,
    callback: VectorCallback,
    user_arg: UserArg,
) -> impl FnOnce(Told) + Send + 'static {
    move |told| {
        let (vectors, user_arg) = (vectors, user_arg);
        if let Some(callback) = callback {
            callback(handle, told.result, vectors, count, told.bytes, descriptor, user_arg);
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_register_read(
    handle: Id,
    buffer: *mut u8,
    length: usize,
    wait_for: usize,
    descriptor: Id,
    callback: DataCallback,
    user_arg: UserArg,
) -> ResultCode {
    call(|| {
        let buffer = Buffer::of(buffer, length)?;
        let then = telling(handle, buffer, descriptor, callback, user_arg);
        Operation::new(handle, descriptor, wait_for)?.register_read(vec![buffer], then)
    })
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_register_readv(
    handle: Id,
    vectors: Vectors,
    count: c_int,
    wait_for: usize,
    descriptor: Id,
    callback: VectorCallback,
    user_arg: UserArg,
) -> ResultCode {
    call(|| {
        let then = telling_vectors(handle, (vectors, count), descriptor, callback, user_arg);
        Operation::new(handle, descriptor, wait_for)?.register_read(vectors.get(count)?, then)
    })
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_register_write(
    handle: Id,
    buffer: *mut u8,
    length: usize,
    wait_for: usize,
    descriptor: Id,
    callback: DataCallback,
    user_arg: UserArg,
) -> ResultCode {
    call(|| {
        let buffer = Buffer::of(buffer, length)?;
        check_write(&[buffer], wait_for)?;
        let then = telling(handle, buffer, descriptor, callback, user_arg);
        Operation::new(handle, descriptor, wait_for)?.register_write(vec![buffer], then)
    })
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_register_writev(
    handle: Id,
    vectors: Vectors,
    count: c_int,
    wait_for: usize,
    descriptor: Id,
    callback: VectorCallback,
    user_arg: UserArg,
) -> ResultCode {
    call(|| {
        let buffers = vectors.get(count)?;
        check_write(&buffers, wait_for)?;
        let then = telling_vectors(handle, (vectors, count), descriptor, callback, user_arg);
        Operation::new(handle, descriptor, wait_for)?.register_write(buffers, then)
    })
}
