//! The traits of runtimes for [`AsyncHandle`](crate::AsyncHandle), each behind a feature of its own. Shutdown closes
//! the handle whole, since not every driver can end one direction: what was not read by then is not received.

#[cfg(feature = "futures")]
mod futures {
    use crate::AsyncHandle;
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    impl futures_io::AsyncRead for AsyncHandle {
        fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
            Self::poll_read(self.get_mut(), cx, into)
        }
    }

    impl futures_io::AsyncWrite for AsyncHandle {
        fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
            Self::poll_write(self.get_mut(), cx, from)
        }

        fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Self::poll_flush(self.get_mut(), cx)
        }

        fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Self::poll_close(self.get_mut(), cx)
        }
    }
}

#[cfg(feature = "tokio")]
mod tokio {
    use crate::AsyncHandle;
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll, ready};
    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    impl AsyncRead for AsyncHandle {
        fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            let read = ready!(Self::poll_read(self.get_mut(), cx, into.initialize_unfilled()))?;
            into.advance(read);
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for AsyncHandle {
        fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
            Self::poll_write(self.get_mut(), cx, from)
        }

        fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Self::poll_flush(self.get_mut(), cx)
        }

        fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Self::poll_close(self.get_mut(), cx)
        }
    }
}
