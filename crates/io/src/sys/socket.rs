//! Socket information of the kernel that `rustix` does not provide.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd};

/// Memory used by a socket's sending side, and its limit (`SO_MEMINFO`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Meminfo {
    /// Bytes queued by a TCP socket, with the kernel's overhead, until they are acknowledged.
    pub(crate) queued: u32,
    /// Bytes in flight below the socket: what a Unix socket's peer has not read.
    pub(crate) allocated: u32,
    /// The limit of both; the kernel raises it while it tunes.
    pub(crate) send_buffer: u32,
}

/// Reads [`Meminfo`].
pub(crate) fn meminfo(socket: impl AsFd) -> io::Result<Meminfo> {
    let mut values = [0u32; 9];
    let mut length = size_of::<[u32; 9]>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `values`, which has that many, and
    // `length` is ours.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Meminfo {
        queued: values[libc::SK_MEMINFO_WMEM_QUEUED as usize],
        allocated: values[libc::SK_MEMINFO_WMEM_ALLOC as usize],
        send_buffer: values[libc::SK_MEMINFO_SNDBUF as usize],
    })
}

/// The part of the kernel's `struct tcp_info` that is used here, up to `tcpi_delivery_rate`. The
/// kernel fills as much as both sides know and the layout only ever grows at its end.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct RawTcpInfo {
    states: [u8; 8],
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    times: [u32; 4],
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
}

/// TCP's statistics of a connection (`TCP_INFO`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpInfo {
    /// Smoothed round trip time, microseconds.
    pub rtt_us: u32,
    /// Smallest round trip time seen, microseconds.
    pub rtt_min_us: u32,
    /// Congestion window, segments.
    pub congestion_window: u32,
    /// Segment size, bytes.
    pub segment_bytes: u32,
    /// Bytes the peer acknowledged.
    pub bytes_acked: u64,
    /// Bytes received in order.
    pub bytes_received: u64,
    /// Segments retransmitted since the connection was established.
    pub retransmits: u32,
    /// Rate at which the peer last acknowledged, bytes per second.
    pub delivery_rate: u64,
}

/// Reads [`TcpInfo`]; fails on a socket that is not TCP.
pub(crate) fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut raw = MaybeUninit::<RawTcpInfo>::zeroed();
    let mut length = size_of::<RawTcpInfo>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `raw`, which has that many, and `length`
    // is ours.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            raw.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed first, so it is initialised even if an older kernel filled less; any bits are
    // valid integers.
    let raw = unsafe { raw.assume_init() };
    Ok(TcpInfo {
        rtt_us: raw.rtt,
        rtt_min_us: raw.min_rtt,
        congestion_window: raw.snd_cwnd,
        segment_bytes: raw.snd_mss,
        bytes_acked: raw.bytes_acked,
        bytes_received: raw.bytes_received,
        retransmits: raw.total_retrans,
        delivery_rate: raw.delivery_rate,
    })
}
