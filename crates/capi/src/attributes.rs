//! Attributes: of drivers, by their own names, and of the framework.

use crate::drivers::{DRIVERS, registry};
use crate::memory::{Out, Text};
use crate::objects::{Id, Objects};
use crate::results::{ResultCode, call};
use std::sync::{Mutex, MutexGuard, PoisonError};
use xdfs_xio::{AttributeInfo, Attributes, Error, ErrorKind, Options, Result, Timeouts, ValueKind};

/// Those of the framework.
const OWN: &[AttributeInfo] = &[
    AttributeInfo { name: "contact", kind: ValueKind::Text, about: "Where a server listens." },
    AttributeInfo { name: "timeout", kind: ValueKind::Time, about: "How long any operation may take." },
    AttributeInfo { name: "open_timeout", kind: ValueKind::Time, about: "How long an opening may take." },
    AttributeInfo { name: "read_timeout", kind: ValueKind::Time, about: "How long a read may take." },
    AttributeInfo { name: "write_timeout", kind: ValueKind::Time, about: "How long a write may take." },
    AttributeInfo { name: "close_timeout", kind: ValueKind::Time, about: "How long a close may take." },
];

pub(crate) static ATTRIBUTES: Objects<AttributeSet> = Objects::new("attr");

/// Values in the order in which they were set.
#[derive(Default)]
pub(crate) struct AttributeSet {
    values: Mutex<Vec<Setting>>,
}

#[derive(Clone)]
struct Setting {
    /// None is the framework.
    driver: Option<String>,
    /// None where the text has the names too.
    name: Option<String>,
    /// As the driver reads it: `name=value`, or several.
    text: String,
}

impl AttributeSet {
    fn values(&self) -> MutexGuard<'_, Vec<Setting>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, setting: Setting) -> Result<()> {
        match &setting.driver {
            Some(name) => {
                let driver = registry().get(name)?;
                Attributes::parse(&setting.text, driver.attributes())?;
            }
            None => drop(Attributes::parse(&setting.text, OWN)?),
        }
        let mut values = self.values();
        values.retain(|old| (&old.driver, &old.name) != (&setting.driver, &setting.name));
        values.push(setting);
        Ok(())
    }

    /// What is set for a driver, as it reads it.
    pub(crate) fn text_of(&self, driver: Option<&str>) -> String {
        let values = self.values();
        let texts = values.iter().filter(|value| value.driver.as_deref() == driver);
        texts.map(|value| value.text.as_str()).collect::<Vec<_>>().join(";")
    }

    /// The framework's.
    fn own(&self) -> Result<Attributes> {
        Attributes::parse(&self.text_of(None), OWN)
    }

    /// Where a server listens.
    pub(crate) fn contact(&self) -> Result<Option<String>> {
        Ok(self.own()?.text("contact").map(str::to_owned))
    }

    /// How a handle is opened.
    pub(crate) fn options(&self) -> Result<Options> {
        let own = self.own()?;
        let every = own.time("timeout");
        let Timeouts { open, read, write, close } = Timeouts::default();
        Ok(Options {
            timeouts: Timeouts {
                open: own.time("open_timeout").or(every).or(open),
                read: own.time("read_timeout").or(every).or(read),
                write: own.time("write_timeout").or(every).or(write),
                close: own.time("close_timeout").or(every).or(close),
            },
        })
    }
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_attr_init(attr: Out<Id>) -> ResultCode {
    call(|| {
        attr.required()?.set(ATTRIBUTES.add(AttributeSet::default())?);
        Ok(())
    })
}

/// Without a name the value has the names too: `name=value;name=value`.
#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_attr_set(attr: Id, driver: Id, name: Text, value: Text) -> ResultCode {
    call(|| {
        let attr = ATTRIBUTES.get(attr)?;
        let driver = DRIVERS.get_if_given(driver)?.map(|driver| driver.name.clone());
        let value = value.required("the value")?;
        let setting = match name.get()? {
            None => Setting { driver, name: None, text: value.to_owned() },
            Some(name) if name.contains([';', '=']) || value.contains(';') => {
                let what = format!("the attribute '{}' or its value has a ';'", name.escape_debug());
                return Err(Error::new(ErrorKind::Usage, what));
            }
            Some(name) => Setting { driver, name: Some(name.to_owned()), text: format!("{name}={value}") },
        };
        attr.set(setting)
    })
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_attr_copy(copy: Out<Id>, attr: Id) -> ResultCode {
    call(|| {
        let values = ATTRIBUTES.get(attr)?.values().clone();
        copy.required()?.set(ATTRIBUTES.add(AttributeSet { values: Mutex::new(values) })?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_attr_destroy(attr: Id) -> ResultCode {
    call(|| ATTRIBUTES.remove(attr).map(drop))
}
