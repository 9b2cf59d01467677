//! What a build without the studies says of them.

#![cfg(not(feature = "study"))]

use lmc_gpu::{Error, Method, compress_into, internals::archive::Options};

#[test]
fn a_build_without_the_studies_names_the_method_that_it_lacks() {
    for name in ["lmc", "plmc", "sem", "bitplane-xz"] {
        let method = Method::parse(name).unwrap();
        assert!(!Method::ALL.contains(&method));
        let options = Options::default().with_method(method);
        let bytes: Vec<u8> = (0..10_000u32).map(|i| ((i * i) >> 7) as u8).collect();
        let made = compress_into(&bytes, &options.compressing(), &mut Vec::new());
        let Err(Error::Unsupported(why)) = made else { panic!("{name}: {made:?}") };
        assert!(why.contains(name) && why.contains("feature study"), "{why}");
    }
}
