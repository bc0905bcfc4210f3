//! `fault`: a transform that passes bytes on as they are, and does to the layers above what any driver may
//! do: it is not ready, moves less than it could, keeps bytes for later, or fails. What it does when is
//! drawn from a seed. It is there to test programs and drivers, above any transport of bytes.
//!
//! - It loses and changes no byte: after an error that it made up, everything goes on.
//! - Each element that it opens draws other numbers, in an order that the seed gives.

mod flow;
#[cfg(test)]
mod tests;

use self::flow::{FaultFlow, Odds};
use crate::attributes::{AttributeInfo, Attributes, ValueKind, info};
use crate::contact::Contact;
use crate::driver::{Below, Driver, Kind, Listener, Wrapping};
use crate::error::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use xdfs_io::stack::Flow;

/// The odds are given in thousandths.
const ALWAYS: u64 = 1000;

/// The driver.
#[derive(Default)]
pub(super) struct Fault {
    /// How many elements there were.
    elements: Arc<AtomicU64>,
}

impl Driver for Fault {
    fn kind(&self) -> Kind {
        Kind::Transform
    }

    fn attributes(&self) -> &'static [AttributeInfo] {
        const {
            &[
                info("seed", ValueKind::Number, "What is drawn from; without it 0."),
                info("errors", ValueKind::Number, "How many of 1000 calls fail; without it none."),
                info("short", ValueKind::Number, "How many of 1000 calls move less than they could; without it 250."),
                info("blocked", ValueKind::Number, "How many of 1000 calls are not ready; without it 250."),
                info("late", ValueKind::Number, "How many of 1000 calls keep bytes for later; without it 250."),
                info("delay", ValueKind::Time, "How long 'not ready' and 'later' are; without it no time."),
            ]
        }
    }

    fn open(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Flow>> {
        let (seed, odds) = plan(attributes)?;
        let element = self.elements.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(FaultFlow::new(below.open(contact)?, seed.wrapping_add(element), odds)))
    }

    fn listen(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Listener>> {
        let (seed, odds) = plan(attributes)?;
        let elements = self.elements.clone();
        let wrap = move |below| {
            let element = elements.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(FaultFlow::new(below, seed.wrapping_add(element), odds)) as Box<dyn Flow>)
        };
        Ok(Box::new(Wrapping::new(below.listen(contact)?, wrap)))
    }
}

/// The seed, and the odds.
fn plan(attributes: &Attributes) -> Result<(u64, Odds)> {
    let odds = |name, otherwise| match attributes.number(name).unwrap_or(otherwise) {
        thousandths @ ..=ALWAYS => Ok(thousandths),
        _ => Err(Error::new(ErrorKind::Usage, format!("the attribute '{name}' is a number up to {ALWAYS}"))),
    };
    let odds = Odds {
        errors: odds("errors", 0)?,
        short: odds("short", 250)?,
        blocked: odds("blocked", 250)?,
        late: odds("late", 250)?,
        delay: attributes.time("delay").unwrap_or(Duration::ZERO),
    };
    if odds.blocked == ALWAYS || odds.errors == ALWAYS {
        return Err(Error::new(ErrorKind::Usage, "of 'blocked' and 'errors' not all calls: nothing would ever move"));
    }
    Ok((attributes.number("seed").unwrap_or(0), odds))
}
