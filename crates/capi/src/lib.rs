//! `libxdfs_xio.so`: the framework of driver stacks for programs in C. The calls and their contract are in
//! `include/xdfs_xio.h`; `include/globus/globus_xio.h` maps the names of Globus XIO to them, so that its
//! programs compile without a change. What is behind the calls is the crate `xdfs-xio`.
//!
//! Whatever a caller names is looked up in a table (`objects`), and its memory is touched in one module
//! (`memory`).

mod attributes;
mod descriptors;
mod drivers;
mod handles;
mod memory;
mod objects;
mod results;
mod servers;
mod stacks;
mod transfers;

use results::{ResultCode, call};

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_activate() -> ResultCode {
    objects::activate();
    results::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_deactivate() -> ResultCode {
    call(|| {
        if objects::deactivate()? {
            servers::SERVERS.clear();
            handles::HANDLES.clear();
            descriptors::DESCRIPTORS.clear();
            stacks::STACKS.clear();
            attributes::ATTRIBUTES.clear();
            drivers::DRIVERS.clear();
        }
        Ok(())
    })
}
