//! What goes with the bytes of an operation: offset, peer, the end of a message.

use crate::handles::HANDLES;
use crate::memory::{Out, Text, TextOut};
use crate::objects::{Id, Objects};
use crate::results::{ResultCode, call};
use std::sync::{Mutex, MutexGuard, PoisonError};
use xdfs_xio::{Error, ErrorKind, ReadInfo, Result, WriteInfo};

pub(crate) static DESCRIPTORS: Objects<Descriptor> = Objects::new("data descriptor");

/// A data descriptor.
#[derive(Default)]
pub(crate) struct Descriptor(Mutex<ReadInfo>);

impl Descriptor {
    fn info(&self) -> MutexGuard<'_, ReadInfo> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a write takes with it.
    pub(crate) fn for_write(&self) -> WriteInfo {
        let ReadInfo { offset, peer, end_of_message, .. } = *self.info();
        WriteInfo { offset, peer, end_of_message, more: false }
    }

    /// What came with a read.
    pub(crate) fn came(&self, info: ReadInfo) {
        *self.info() = info;
    }

    fn set(&self, name: &str, value: &str) -> Result<()> {
        let mut info = self.info();
        let known = match name {
            "offset" => value.parse().map(|offset| info.offset = Some(offset)).is_ok(),
            "peer" => value.parse().map(|peer| info.peer = Some(peer)).is_ok(),
            "end_of_message" => value.parse().map(|end| info.end_of_message = end).is_ok(),
            _ => return Err(unknown(name)),
        };
        let what = || format!("'{}' is no value for {name}", value.escape_debug());
        if known { Ok(()) } else { Err(Error::new(ErrorKind::Usage, what())) }
    }

    fn value(&self, name: &str) -> Result<String> {
        let info = self.info();
        Ok(match name {
            "offset" => info.offset.map(|offset| offset.to_string()).unwrap_or_default(),
            "peer" => info.peer.map(|peer| peer.to_string()).unwrap_or_default(),
            "end_of_message" => info.end_of_message.to_string(),
            "end" => info.end.to_string(),
            _ => return Err(unknown(name)),
        })
    }
}

fn unknown(name: &str) -> Error {
    let what = format!(
        "a data descriptor has no '{}'; it has: offset, peer, end_of_message, and of a read end",
        name.escape_debug()
    );
    Error::new(ErrorKind::Usage, what)
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_data_descriptor_init(data_desc: Out<Id>, handle: Id) -> ResultCode {
    call(|| {
        HANDLES.get(handle)?;
        data_desc.required()?.set(DESCRIPTORS.add(Descriptor::default())?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_data_descriptor_set(data_desc: Id, name: Text, value: Text) -> ResultCode {
    call(|| DESCRIPTORS.get(data_desc)?.set(name.required("the name")?, value.required("the value")?))
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_data_descriptor_get(data_desc: Id, name: Text, value: TextOut, size: usize) -> ResultCode {
    call(|| {
        value.set(&DESCRIPTORS.get(data_desc)?.value(name.required("the name")?)?, size);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_data_descriptor_destroy(data_desc: Id) -> ResultCode {
    call(|| DESCRIPTORS.remove(data_desc).map(drop))
}
