//! The vectors that spead2 made: the receiver gives what spead2's receiver gave, the sender makes the bytes that spead2's made.

mod captures;
mod chunks;
mod damaged;
mod facts;
mod malformed;
mod receive;
mod send;
mod sha256;
