//! What a driver's author implements, beside [`Flow`]. A driver is written once; blocking and
//! registered operations, vectors, timeouts, cancel and close come from the framework (XIO-73).

use crate::attributes::{AttributeInfo, Attributes};
use crate::contact::Contact;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::{Guard, failed, guarded};
use std::cell::Cell;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use xdfs_io::stack::Flow;

/// Where a driver stands in a stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// At the bottom: it moves the bytes out of the process.
    Transport,
    /// Above another driver: it changes, checks, counts or delays bytes.
    Transform,
}

/// A driver. It is shared by all stacks that name it; what belongs to one connection is in the
/// [`Flow`] that it opens.
pub trait Driver: Send + Sync {
    /// Where it stands.
    fn kind(&self) -> Kind;

    /// The attributes that it knows; the first is the one that can be given by its value alone.
    fn attributes(&self) -> &'static [AttributeInfo] {
        &[]
    }

    /// Starts to open an element. It may look up names, but waits for no peer: that is
    /// [`Flow::connected`]. The layers below are not open; a transform opens them with
    /// [`Below::open`], as often as it needs.
    fn open(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Flow>>;

    /// Starts to listen. A driver that does not wrap accepted elements cannot: it says so.
    fn listen(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Listener>> {
        let _ = (below, contact, attributes);
        Err(Error::new(ErrorKind::Unsupported, "it cannot listen"))
    }
}

/// The passive end of a stack.
pub trait Listener: Send {
    /// The next element, which is not open yet: [`Flow::connected`] does its handshakes.
    /// `WouldBlock` while there is none.
    fn accept(&mut self) -> io::Result<Box<dyn Flow>>;

    /// What becomes readable when there is one. A program that waits for it needs one.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// A contact string with which a process of this host reaches it.
    fn contact(&self) -> io::Result<String>;
}

/// A driver with its name and attributes, as it stands in a stack.
#[derive(Clone)]
pub(crate) struct Layer {
    pub(crate) name: Arc<str>,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) attributes: Attributes,
}

/// The layers below a driver. It can be kept, to open more later.
#[derive(Clone)]
pub struct Below {
    layers: Arc<[Layer]>,
    depth: usize,
}

impl Below {
    pub(crate) fn of(layers: Arc<[Layer]>) -> Self {
        let depth = layers.len();
        Self { layers, depth }
    }

    /// Opens an element of the layers below; `contact` need not be the one that the driver was
    /// given.
    pub fn open(&self, contact: &Contact) -> Result<Box<dyn Flow>> {
        let (layer, below) = self.split()?;
        let opened = guarded(|| layer.driver.open(&below, contact, &layer.attributes));
        let flow = opened.map_err(|error| error.of_driver(&layer.name))?;
        Ok(Box::new(Guard::new(flow, layer.name.clone())))
    }

    /// Listens with the layers below.
    pub fn listen(&self, contact: &Contact) -> Result<Box<dyn Listener>> {
        let (layer, below) = self.split()?;
        let opened = guarded(|| layer.driver.listen(&below, contact, &layer.attributes));
        let listener = opened.map_err(|error| error.of_driver(&layer.name))?;
        Ok(Box::new(GuardedListener { inner: listener, broken: Cell::new(false), name: layer.name.clone() }))
    }

    /// Whether a driver of that name is below.
    pub fn has(&self, name: &str) -> bool {
        self.layers[..self.depth].iter().any(|layer| &*layer.name == name)
    }

    fn split(&self) -> Result<(&Layer, Self)> {
        let depth = self.depth.checked_sub(1).ok_or_else(|| Error::new(ErrorKind::Usage, "there is no layer below"))?;
        Ok((&self.layers[depth], Self { layers: self.layers.clone(), depth }))
    }
}

impl std::fmt::Debug for Below {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.layers[..self.depth].iter().map(|layer| &layer.name)).finish()
    }
}

/// Names the driver in errors, and in the elements that it accepts.
struct GuardedListener {
    inner: Box<dyn Listener>,
    /// It panicked: nothing is known of its state, and it is not called again.
    broken: Cell<bool>,
    name: Arc<str>,
}

impl GuardedListener {
    /// A panic is told at once, or by the next call where this one cannot fail.
    fn judge<T>(&self, called: Result<io::Result<T>>) -> io::Result<T> {
        match called {
            Ok(result) => result.map_err(|error| failed(error, &self.name)),
            Err(error) => {
                self.broken.set(true);
                Err(error.of_driver(&self.name).into())
            }
        }
    }

    fn check(&self) -> io::Result<()> {
        let what = "its listener broke its contract before and is not called again";
        let broken = || Error::new(ErrorKind::Driver, what).of_driver(&self.name).into();
        if self.broken.get() { Err(broken()) } else { Ok(()) }
    }
}

impl Drop for GuardedListener {
    fn drop(&mut self) {
        let inner = std::mem::replace(&mut self.inner, Box::new(Gone));
        // Nobody is left to be told of a panic.
        let _ = guarded(move || {
            drop(inner);
            Ok(())
        });
    }
}

impl Listener for GuardedListener {
    fn accept(&mut self) -> io::Result<Box<dyn Flow>> {
        self.check()?;
        let accepted = guarded(|| Ok(self.inner.accept()));
        Ok(Box::new(Guard::new(self.judge(accepted)?, self.name.clone())))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.check().ok()?;
        self.judge(guarded(|| Ok(Ok(self.inner.descriptor())))).unwrap_or(None)
    }

    fn contact(&self) -> io::Result<String> {
        self.check()?;
        self.judge(guarded(|| Ok(self.inner.contact())))
    }
}

/// What is left of a listener that was dropped.
struct Gone;

impl Listener for Gone {
    fn accept(&mut self) -> io::Result<Box<dyn Flow>> {
        Err(io::ErrorKind::NotConnected.into())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn contact(&self) -> io::Result<String> {
        Err(io::ErrorKind::NotConnected.into())
    }
}

/// A listener of a transform: it wraps each element that the layers below accept.
pub struct Wrapping<F> {
    below: Box<dyn Listener>,
    wrap: F,
}

impl<F: FnMut(Box<dyn Flow>) -> io::Result<Box<dyn Flow>> + Send> Wrapping<F> {
    /// Wraps what `below` accepts by `wrap`.
    pub fn new(below: Box<dyn Listener>, wrap: F) -> Self {
        Self { below, wrap }
    }
}

impl<F: FnMut(Box<dyn Flow>) -> io::Result<Box<dyn Flow>> + Send> Listener for Wrapping<F> {
    fn accept(&mut self) -> io::Result<Box<dyn Flow>> {
        (self.wrap)(self.below.accept()?)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.below.descriptor()
    }

    fn contact(&self) -> io::Result<String> {
        self.below.contact()
    }
}
