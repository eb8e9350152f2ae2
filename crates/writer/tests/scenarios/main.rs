//! Scenarios of the file writer, without a broker, in one program. Source: `docs/write.md`.

#[path = "../write_made/mod.rs"]
mod write_made;

mod write_again;
mod write_around;
mod write_bad_input;
mod write_disk;
mod write_faults;
mod write_modules;
mod write_nicos;
mod write_numbers;
mod write_orders;
mod write_outside;
mod write_python;
mod write_resume;
