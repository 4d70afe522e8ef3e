//! Tests with a driver and a kubelet of their own, on real sockets, with the clock paused.

mod authorities;
mod flags;
mod health;
mod kubelet;
mod ownership;
mod raw_client;
mod registering;
mod scene;
mod socket_file;
