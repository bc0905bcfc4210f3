//! `xdfs cp`: carries out a copy.

mod items;
