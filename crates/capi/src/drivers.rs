//! Drivers, by name.

use crate::memory::{Out, Text};
use crate::objects::{Id, Objects};
use crate::results::{ResultCode, call};
use std::sync::{Arc, LazyLock};
use xdfs_xio::Registry;

/// The drivers that callers have names for.
pub(crate) static DRIVERS: Objects<LoadedDriver> = Objects::new("driver");

static REGISTRY: LazyLock<Arc<Registry>> = LazyLock::new(|| {
    let mut registry = Registry::with_installed();
    // None of their names is that of another driver, as a test has it.
    let _ = xdfs_gridftp::driver::add_to(&mut registry);
    Arc::new(registry)
});

/// The drivers that there are.
pub(crate) fn registry() -> &'static Arc<Registry> {
    &REGISTRY
}

/// A driver that the caller has a name for.
pub(crate) struct LoadedDriver {
    /// Its name in the registry.
    pub(crate) name: String,
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_driver_load(name: Text, driver: Out<Id>) -> ResultCode {
    call(|| {
        let name = name.required("the name of the driver")?;
        registry().get(name)?;
        driver.required()?.set(DRIVERS.add(LoadedDriver { name: name.to_owned() })?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_driver_unload(driver: Id) -> ResultCode {
    call(|| DRIVERS.remove(driver).map(drop))
}
