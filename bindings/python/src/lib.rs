//! The native half of the Python package `xdfs`: a thin layer over `xdfs_client`, which the files below
//! `python/xdfs` give the forms that Python programs expect (`docs/python.md`).
//!
//! Nothing here waits with the interpreter's lock held.

mod errors;
mod file;
mod fork;
mod server;
mod transfer;
mod wait;

use pyo3::prelude::*;

/// The native half of `xdfs`.
#[pymodule]
fn _xdfs(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<server::Server>()?;
    module.add_class::<file::RawFile>()?;
    module.add_function(wrap_pyfunction!(server::parse, module)?)?;
    let python = module.py();
    module.add("NotTrustedError", python.get_type::<errors::NotTrustedError>())?;
    module.add("LoginRefusedError", python.get_type::<errors::LoginRefusedError>())?;
    module.add("ChangedError", python.get_type::<errors::ChangedError>())?;
    module.add("CorruptedError", python.get_type::<errors::CorruptedError>())
}
