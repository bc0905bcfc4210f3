//! Stacks above an element that was opened elsewhere, such as a socket that a program connects and
//! accepts in its own way: the element takes the place of the stack's transport.

use crate::attributes::Attributes;
use crate::contact::Contact;
use crate::driver::{Below, Driver, Kind, Layer, Listener};
use crate::error::{Error, ErrorKind, Result};
use crate::stack::{Prepared, Stack};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};
use xdfs_io::stack::Flow;

/// Where an element waits for the drivers above it.
#[derive(Clone, Default)]
struct Place(Arc<Mutex<Option<Box<dyn Flow>>>>);

impl Place {
    fn put(&self, element: Box<dyn Flow>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(element);
    }

    fn take(&self) -> Option<Box<dyn Flow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Driver for Place {
    fn kind(&self) -> Kind {
        Kind::Transport
    }

    fn open(&self, _: &Below, _: &Contact, _: &Attributes) -> Result<Box<dyn Flow>> {
        // A driver that opens several elements below itself needs a transport of its own.
        self.take().ok_or_else(|| Error::new(ErrorKind::Unsupported, "there is one connection, and it is in use"))
    }

    fn listen(&self, _: &Below, _: &Contact, _: &Attributes) -> Result<Box<dyn Listener>> {
        Ok(Box::new(self.clone()))
    }
}

impl Listener for Place {
    fn accept(&mut self) -> io::Result<Box<dyn Flow>> {
        self.take().ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn contact(&self) -> io::Result<String> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The passive end of the drivers above a transport. Files that they need were read when it was made.
pub struct Accepting {
    place: Place,
    listener: Box<dyn Listener>,
}

impl Accepting {
    /// The drivers above `element`, which was accepted. The result is not open yet:
    /// [`Flow::connected`] does its handshakes.
    pub fn accept(&mut self, element: Box<dyn Flow>) -> io::Result<Box<dyn Flow>> {
        self.place.put(element);
        let accepted = self.listener.accept();
        // One that was not taken does not wait for the next.
        drop(self.place.take());
        accepted
    }
}

impl Stack {
    /// The names of its drivers, the transport first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.layers.iter().map(|layer| &*layer.name)
    }

    /// Opens the drivers above the transport, whose place `element` takes: it need not be connected.
    /// `contact` says where the other end is, for drivers that check it.
    pub fn over(&self, element: Box<dyn Flow>, contact: &str) -> Result<Box<dyn Flow>> {
        let place = Place::default();
        place.put(element);
        self.above(&place)?.open(contact)
    }

    /// The passive end of the drivers above the transport.
    pub fn accepting(&self) -> Result<Accepting> {
        let place = Place::default();
        // Any: who listens is not asked.
        let listener = self.above(&place)?.listen(":0")?;
        Ok(Accepting { place, listener })
    }

    /// The stack with `place` as its transport.
    fn above(&self, place: &Place) -> Result<Prepared> {
        let mut stack = self.clone();
        let Some(transport) = stack.layers.first_mut() else { return self.prepared() };
        let driver = Arc::new(place.clone());
        *transport = Layer { name: transport.name.clone(), driver, attributes: Attributes::default() };
        stack.prepared()
    }
}

impl std::fmt::Debug for Accepting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Accepting")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReadInfo, WriteInfo};
    use std::io::{IoSlice, IoSliceMut};

    /// Takes everything and ends.
    struct Sink;

    impl Flow for Sink {
        fn receive(&mut self, _: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
            info.end = true;
            Ok(0)
        }

        fn send(&mut self, from: &[IoSlice<'_>], _: &WriteInfo) -> io::Result<usize> {
            Ok(from.iter().map(|slice| slice.len()).sum())
        }
    }

    #[test]
    fn the_drivers_above_stand_on_what_they_are_given() {
        let stack = Stack::new().push_all("tcp,noop,zstd").unwrap();
        assert_eq!(stack.names().collect::<Vec<_>>(), ["tcp", "noop", "zstd"]);
        let mut open = stack.over(Box::new(Sink), "nobody.invalid:1").unwrap();
        open.connected().unwrap();
        assert_eq!(open.send(&[IoSlice::new(b"abc")], &WriteInfo::default()).unwrap(), 3);
        let mut accepting = stack.accepting().unwrap();
        for _ in 0..2 {
            let mut accepted = accepting.accept(Box::new(Sink)).unwrap();
            let mut info = ReadInfo::default();
            let mut byte = [0];
            assert_eq!(accepted.receive(&mut [IoSliceMut::new(&mut byte)], &mut info).unwrap(), 0);
            assert!(info.end);
        }
    }

    #[test]
    fn a_driver_that_cannot_listen_or_lacks_files_says_so_before_anybody_connects() {
        let refused = |text: &str| Stack::new().push_all(text).unwrap().accepting().unwrap_err().to_string();
        assert!(refused("tcp,tls").contains("'certificate'"), "{}", refused("tcp,tls"));
        assert!(Stack::new().accepting().is_err(), "an empty stack");
    }
}
