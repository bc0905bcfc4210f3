//! Stacks: which drivers, with which attributes, in which order. A stack is not open; it can be
//! opened any number of times.

use crate::attributes::Attributes;
use crate::contact::Contact;
use crate::driver::{Below, Kind, Layer, Listener};
use crate::error::{Error, ErrorKind, Result};
use crate::guard::guarded;
use crate::registry::Registry;
use std::sync::Arc;
use xdfs_io::stack::Flow;

/// Most layers of a stack. Each costs a call of a few nanoseconds an operation and some of the
/// thread's own stack.
const LAYERS_MAX: usize = 64;

/// An ordered list of drivers: one transport at the bottom, any number of transforms above.
#[derive(Clone, Default)]
pub struct Stack {
    registry: Option<Arc<Registry>>,
    pub(crate) layers: Vec<Layer>,
}

impl Stack {
    /// An empty stack, of the drivers of this crate.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty stack, of the drivers of `registry`.
    pub fn of(registry: Arc<Registry>) -> Self {
        Self { registry: Some(registry), layers: Vec::new() }
    }

    /// Puts a driver on top: the first is the transport (XIO-05, XIO-26). `attributes` is
    /// `name=value;name=value`, or empty.
    pub fn push(mut self, name: &str, attributes: &str) -> Result<Self> {
        let registry = self.registry.get_or_insert_with(|| Arc::new(Registry::built_in())).clone();
        let named = |error: Error| error.of_driver(name).of_stack(&self.with(name));
        let driver = registry.get(name).map_err(named)?;
        let (kind, known) = guarded(|| Ok((driver.kind(), driver.attributes()))).map_err(named)?;
        let wrong = match (kind, self.layers.len()) {
            (Kind::Transport, 1..) => Some("it is a transport, and a stack has one, at the bottom".to_owned()),
            (Kind::Transform, 0) => Some("it is a transform, and needs a transport below it".to_owned()),
            (_, LAYERS_MAX..) => Some(format!("a stack has at most {LAYERS_MAX} drivers")),
            _ => None,
        };
        if let Some(what) = wrong {
            return Err(named(Error::new(ErrorKind::Usage, what)));
        }
        let attributes = Attributes::parse(attributes, known).map_err(named)?;
        self.layers.push(Layer { name: name.into(), driver, attributes });
        Ok(self)
    }

    /// Puts the drivers of `text` on top: `tcp,rate=100MB/s,zstd` or `tcp:nodelay=false,zstd`.
    pub fn push_all(mut self, text: &str) -> Result<Self> {
        for (name, attributes) in Self::parts(text) {
            self = self.push(name, attributes)?;
        }
        Ok(self)
    }

    /// The drivers that `text` names, with their attributes. Nobody else takes such a text apart.
    pub fn parts(text: &str) -> impl Iterator<Item = (&str, &str)> {
        text.split(',').map(|part| {
            let (name, attributes) = part.split_once([':', '=']).unwrap_or((part, ""));
            (name.trim(), attributes)
        })
    }

    /// The names, bottom first, with commas between them.
    pub fn name(&self) -> String {
        self.layers.iter().map(|layer| &*layer.name).collect::<Vec<_>>().join(",")
    }

    /// What is needed to open it, now and later.
    pub(crate) fn prepared(&self) -> Result<Prepared> {
        if self.layers.is_empty() {
            return Err(Error::new(ErrorKind::Usage, "the stack is empty: push a transport"));
        }
        Ok(Prepared { name: self.name().into(), layers: Below::of(self.layers.clone().into()) })
    }

    fn with(&self, name: &str) -> String {
        if self.layers.is_empty() { name.to_owned() } else { format!("{},{name}", self.name()) }
    }
}

impl std::fmt::Debug for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stack({})", self.name())
    }
}

/// A stack that is complete.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) name: Arc<str>,
    layers: Below,
}

impl Prepared {
    pub(crate) fn open(&self, contact: &str) -> Result<Box<dyn Flow>> {
        let open = || self.layers.open(&Contact::parse(contact)?);
        open().map_err(|error: Error| error.of_stack(&self.name))
    }

    pub(crate) fn listen(&self, contact: &str) -> Result<Box<dyn Listener>> {
        let listen = || self.layers.listen(&Contact::parse(contact)?);
        listen().map_err(|error: Error| error.of_stack(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_has_one_transport_at_the_bottom() {
        let stack = Stack::new().push_all("tcp,noop,rate=1MB/s,noop").unwrap();
        assert_eq!(stack.name(), "tcp,noop,rate,noop");
        let refused = |text: &str| {
            let error = Stack::new().push_all(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            error.to_string()
        };
        assert!(refused("noop").starts_with("driver noop: it is a transform"), "{}", refused("noop"));
        assert!(refused("tcp,noop,unix").starts_with("driver unix of the stack tcp,noop,unix: it is a transport"));
        assert!(refused("tcp,nothing").starts_with("driver nothing of the stack tcp,nothing: there is no driver"));
        assert!(refused("tcp,rate=fast").starts_with("driver rate of the stack tcp,rate: the attribute 'rate'"));
        assert!(refused("").contains("there is no driver ''"));
        assert!(!refused("tcp,no\u{1b}[2Jbody").contains(char::is_control), "a terminal would obey it");
        assert!(Stack::new().prepared().is_err());
        let high = vec!["noop"; LAYERS_MAX].join(",");
        assert!(refused(&format!("tcp,{high}")).contains("at most"));
    }
}
