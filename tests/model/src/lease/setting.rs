//! What is searched: how often each thing may happen.

use xdfs_proto::base::Duration;
use xdfs_proto::lease::LeaseTerms;

/// The bounds of the search.
#[derive(Clone, Debug)]
pub struct Leases {
    /// For reports.
    pub name: &'static str,
    /// Moments that pass.
    pub moments: u8,
    /// For how many of them a lease holds.
    pub time: u8,
    /// For how many of them a file gets no lease once one was recalled.
    pub pause: u8,
    /// Which client may ask for which leases, how often: read and write.
    pub asks: [[u8; 2]; 2],
    /// Renewals of each client.
    pub renewals: [u8; 2],
    /// Changes that each client keeps.
    pub kept: [u8; 2],
    /// Changes that each client makes at the server.
    pub changes: [u8; 2],
    /// Times that each client looks at the file.
    pub looks: [u8; 2],
    /// Changes that a program of the server's machine makes.
    pub local: u8,
    /// Losses of each session.
    pub losses: [u8; 2],
    /// Restarts of the server.
    pub restarts: u8,
    /// The kernel makes local programs wait.
    pub local_waits: bool,
}

const fn none(name: &'static str) -> Leases {
    Leases {
        name,
        moments: 5,
        time: 2,
        pause: 1,
        asks: [[0; 2]; 2],
        renewals: [0; 2],
        kept: [0; 2],
        changes: [0; 2],
        looks: [0; 2],
        local: 0,
        losses: [0; 2],
        restarts: 0,
        local_waits: true,
    }
}

/// One keeps what it read, the other changes the file.
pub const READ: Leases =
    Leases { asks: [[1, 0], [1, 0]], renewals: [1, 0], changes: [0, 1], ..none("read lease, others change") };

/// One keeps changes, the other looks and changes.
pub const WRITE: Leases = Leases {
    asks: [[0, 1], [0, 0]],
    renewals: [1, 0],
    kept: [1, 0],
    changes: [0, 1],
    looks: [0, 1],
    ..none("write lease, others look and change")
};

/// Both want what excludes the other one's.
pub const BOTH: Leases =
    Leases { moments: 4, asks: [[1, 0], [0, 1]], kept: [0, 1], changes: [1, 0], ..none("both want leases") };

/// A session is lost.
pub const LOST: Leases =
    Leases { asks: [[0, 1], [0, 0]], kept: [1, 0], changes: [0, 1], losses: [1, 0], ..none("a lost session") };

/// The server restarts.
pub const RESTART: Leases =
    Leases { asks: [[0, 1], [1, 0]], kept: [1, 0], changes: [0, 1], restarts: 1, ..none("a restarted server") };

/// A program of the server's machine changes the file.
pub const LOCAL: Leases =
    Leases { asks: [[1, 1], [0, 0]], kept: [1, 0], local: 1, losses: [1, 0], ..none("a local program") };

/// One asks again and again for what the other waits for.
pub const AGAIN: Leases =
    Leases { pause: 4, asks: [[2, 0], [0, 0]], changes: [0, 1], ..none("a lease again and again, others change") };

/// Searched in every run of the tests.
pub const USUAL: &[Leases] = &[READ, WRITE, BOTH, LOST, RESTART, LOCAL, AGAIN];

/// Searched by command.
pub const LARGE: &[Leases] = &[
    Leases { losses: [1, 0], ..READ },
    Leases { moments: 6, time: 3, asks: [[0, 1], [0, 1]], ..WRITE },
    Leases { moments: 6, losses: [1, 0], ..RESTART },
    Leases { moments: 5, local: 1, ..BOTH },
];

impl Leases {
    /// The server's numbers.
    pub fn terms(&self) -> LeaseTerms {
        let time = Duration::from_nanos(self.time.into());
        LeaseTerms { time, pause: Duration::from_nanos(self.pause.into()), most: 8, most_each: 8 }
    }
}
