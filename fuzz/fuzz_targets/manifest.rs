#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| expert_fuzz::check("manifest", input));
