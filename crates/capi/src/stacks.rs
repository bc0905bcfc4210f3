//! Stacks of drivers, by their names.

use crate::attributes::AttributeSet;
use crate::drivers::{DRIVERS, registry};
use crate::memory::Out;
use crate::objects::{Id, Objects};
use crate::results::{ResultCode, call};
use std::sync::{Mutex, PoisonError};
use xdfs_xio::{Result, Stack};

pub(crate) static STACKS: Objects<Layers> = Objects::new("stack");

/// The names of a stack's drivers, bottom first. Attributes come with the opening.
#[derive(Default)]
pub(crate) struct Layers(Mutex<Vec<String>>);

impl Layers {
    /// The drivers of `text`, with commas between them.
    pub(crate) fn of(text: &str) -> Self {
        Self(Mutex::new(text.split(',').map(str::to_owned).collect()))
    }

    /// The names.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The stack of those drivers, with what is set for them.
pub(crate) fn stack_of(names: &[String], attributes: Option<&AttributeSet>) -> Result<Stack> {
    let mut stack = Stack::of(registry().clone());
    for name in names {
        let text = attributes.map(|attributes| attributes.text_of(Some(name))).unwrap_or_default();
        stack = stack.push(name, &text)?;
    }
    Ok(stack)
}

/// The stack takes no attributes: it has the parameter since programs pass NULL there.
#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_stack_init(stack: Out<Id>, _attr: Id) -> ResultCode {
    call(|| {
        stack.required()?.set(STACKS.add(Layers::default())?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_stack_push_driver(stack: Id, driver: Id) -> ResultCode {
    call(|| {
        let (stack, driver) = (STACKS.get(stack)?, DRIVERS.get(driver)?);
        let mut names = stack.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut more = names.clone();
        more.push(driver.name.clone());
        stack_of(&more, None)?;
        *names = more;
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_stack_copy(copy: Out<Id>, stack: Id) -> ResultCode {
    call(|| {
        let names = STACKS.get(stack)?.names();
        copy.required()?.set(STACKS.add(Layers(Mutex::new(names)))?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn xdfs_xio_stack_destroy(stack: Id) -> ResultCode {
    call(|| STACKS.remove(stack).map(drop))
}
