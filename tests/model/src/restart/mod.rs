//! A transfer, its storage, and a receiver that is killed or loses its power once: the real sessions of [`crate::world`], the real
//! plans of a commit ([`xdfs_proto::base::commit`]) and of a marker ([`xdfs_proto::base::Marker`]), around a disk that keeps what was
//! synced, and of the rest anything or nothing.
//!
//! What is proved, in every order of messages, calls and faults within the budgets of a [`setting::Restarts`]: S7 COMMITTED means
//! that every byte is there, is what was sent, and that file, name and directory were synced in this order; S8 a transfer commits at
//! most once, and never over what somebody else put there since it began; S9 in every state that a crash can leave, the journal tells
//! of nothing that is not on the medium; S10 until it commits, the name stands for what it stood for before.
//!
//! # What is assumed of the store
//!
//! That it gives a name only where the target is still what it was when the part file was made (compare and replace), and that after
//! a restart it knows the file of a transfer by its name. With `store_compares` or `store_remembers` off, S8 does not hold, and a test
//! shows it. A call on the disk happens at once or not at all; a journal record is whole or not there (its check sees to that).
//!
//! One client, one attempt at a time; how two meet is tested with real processes.

pub mod disk;
pub mod life;
pub mod properties;
pub mod setting;
