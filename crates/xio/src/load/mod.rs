//! Drivers that come as files after a program was installed: `libxdfs_xio_NAME.so` in the folders of
//! `XDFS_DRIVER_PATH`, then in those of `LD_LIBRARY_PATH` (XIO-43). `include/xdfs_xio_driver.h` is what
//! such a file has; docs/write-a-driver.md explains it.
//!
//! A file is never closed: its code may run as long as the process does.

mod abi;
mod blocking;
mod blocking_driver;
mod listening;
mod machine;
mod transform;

use self::abi::{
    ABI, BLOCKING_TRANSPORT, Blocking, Listening, RawDriver, RawListeningDriver, TRANSFORM, Transform, text_of,
};
use crate::attributes::{AttributeInfo, ValueKind};
use crate::driver::Driver;
use crate::error::{Error, ErrorKind, Result};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Most attributes of a driver.
const ATTRIBUTES_MAX: usize = 64;

/// The files that were loaded.
static LOADED: Mutex<BTreeMap<PathBuf, Arc<dyn Driver>>> = Mutex::new(BTreeMap::new());

/// The folders of `XDFS_DRIVER_PATH` and `LD_LIBRARY_PATH`, of which only whole paths count, and what its author
/// may have meant otherwise in the first.
pub(crate) fn folders(own: &OsStr, libraries: &OsStr) -> (Vec<PathBuf>, Vec<String>) {
    let split = |list: &OsStr| std::env::split_paths(list).filter(|folder| folder != Path::new("")).collect::<Vec<_>>();
    let (mut folders, relative): (Vec<_>, Vec<_>) = split(own).into_iter().partition(|folder| folder.is_absolute());
    let of_relative = |folder: &PathBuf| {
        format!("'{}' in XDFS_DRIVER_PATH is not absolute", folder.display().to_string().escape_debug())
    };
    let mut remarks: Vec<_> = relative.iter().map(of_relative).collect();
    if folders.is_empty() && remarks.is_empty() {
        remarks.push("XDFS_DRIVER_PATH is not set".to_owned());
    }
    folders.extend(split(libraries).into_iter().filter(|folder| folder.is_absolute()));
    (folders, remarks)
}

/// The driver of that name; none where no folder has it. `name` is one of a driver.
pub(crate) fn find(name: &str, folders: &[PathBuf]) -> Result<Option<Arc<dyn Driver>>> {
    let files = folders.iter().map(|folder| folder.join(format!("libxdfs_xio_{name}.so")));
    let Some(file) = files.into_iter().find(|file| rustix::fs::stat(file).is_ok()) else { return Ok(None) };
    if cfg!(all(target_env = "musl", target_feature = "crt-static")) {
        let what = "this program is static and loads no drivers: use the one that 'make build' makes";
        return Err(Error::new(ErrorKind::Driver, what).of_driver(name));
    }
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(driver) = loaded.get(&file) {
        return Ok(Some(driver.clone()));
    }
    let driver = load(name, &file).map_err(|what| {
        Error::new(ErrorKind::Driver, format!("cannot load {}: {what}", file.display())).of_driver(name)
    })?;
    loaded.insert(file, driver.clone());
    Ok(Some(driver))
}

/// The driver, or what is wrong with the file.
fn load(name: &str, file: &Path) -> std::result::Result<Arc<dyn Driver>, String> {
    // SAFETY: what the file runs when it is opened is as trusted as the program: it is from a folder that
    // who started the program named for this.
    // What it needs must be there now: a symbol that is found missing later ends the process.
    let library = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| error.to_string())?;
    // SAFETY: only the address is taken here.
    let symbol = unsafe { library.get::<*const RawDriver>(b"xdfs_xio_driver_v1\0") };
    let raw = *symbol.map_err(|_| "it has no symbol xdfs_xio_driver_v1; is it a driver?".to_owned())?;
    // From here on the file stays.
    std::mem::forget(library);
    // SAFETY: such a symbol is a struct with these two numbers first, whatever its version is.
    let [abi, size] = unsafe { raw.cast::<[u32; 2]>().read_unaligned() };
    if abi != ABI {
        return Err(format!("it is made for version {abi} of the interface, and this is version {ABI}"));
    }
    if (size as usize) < size_of::<RawDriver>() {
        return Err(format!("its struct has {size} bytes and needs {}", size_of::<RawDriver>()));
    }
    let listens = size as usize >= size_of::<RawListeningDriver>();
    // SAFETY: version and size say that it is there, and it is never written.
    let listening = if listens { unsafe { (*raw.cast::<RawListeningDriver>()).listening } } else { std::ptr::null() };
    // SAFETY: version and size say that it is one, and it is never written.
    let raw = unsafe { &*raw };
    // SAFETY: the header asks for NULL or a text there.
    let own = unsafe { text_of(raw.name) };
    if own != Some(name) {
        let own = own.unwrap_or_default().escape_debug();
        return Err(format!("the driver in it is called '{own}'"));
    }
    let attributes = attributes_of(raw)?;
    let missing = || "it lacks a function that its kind must have".to_owned();
    // SAFETY: the header asks for NULL or a struct there, which is never written.
    let (blocking, transform, listening) =
        unsafe { (raw.blocking.as_ref(), raw.transform.as_ref(), listening.as_ref()) };
    match raw.kind {
        BLOCKING_TRANSPORT => {
            let calls = blocking.copied().and_then(Blocking::of).ok_or_else(missing)?;
            let listening = match listening {
                Some(raw) => Some(Listening::of(*raw).ok_or_else(missing)?),
                None => None,
            };
            Ok(Arc::new(blocking_driver::BlockingDriver { name: name.to_owned(), calls, listening, attributes }))
        }
        TRANSFORM => {
            let calls = transform.copied().and_then(Transform::of).ok_or_else(missing)?;
            Ok(Arc::new(transform::LoadedTransform { name: name.into(), calls, attributes }))
        }
        kind => Err(format!("there is no kind {kind} of drivers")),
    }
}

/// The names of its attributes, whose values are texts. They live as long as the process, like the file.
fn attributes_of(raw: &RawDriver) -> std::result::Result<&'static [AttributeInfo], String> {
    let mut infos = Vec::new();
    if raw.attributes.is_null() {
        return Ok(&[]);
    }
    for at in 0..=ATTRIBUTES_MAX {
        // SAFETY: the header asks for a list that ends with NULL, which was not reached yet.
        let entry = unsafe { *raw.attributes.add(at) };
        if entry.is_null() {
            return Ok(infos.leak());
        }
        // SAFETY: it is a text, as the header asks.
        let name = unsafe { text_of(entry) }.filter(|name| !name.is_empty() && !name.contains([';', '=']));
        let name = name.ok_or("an attribute has no name that can be given")?;
        infos.push(AttributeInfo { name, kind: ValueKind::Text, about: "" });
    }
    Err(format!("it has more than {ATTRIBUTES_MAX} attributes"))
}
