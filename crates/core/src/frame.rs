//! Ethernet, IP and UDP views.
