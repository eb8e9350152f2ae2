//! Any bytes as the packets of any registered decoder: see the library beside.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| fullcount_fuzz::decoders(data));
