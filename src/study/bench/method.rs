//! Our methods, and those of the studies, as users get them: through whole archives, with every
//! header, checksum and index counted in size and time.

use super::Codec;
use crate::{
    archive::{CompressOptions, Options, RestoreOptions, compress_into, decompress_into},
    codec::Method,
    dtype::Dtype,
    error::Result,
};

/// A method of ours.
pub struct Ours {
    name: String,
    compressing: CompressOptions,
    restoring: RestoreOptions,
}

impl Ours {
    /// The method with these options; their method is replaced.
    pub fn new(method: Method, options: Options) -> Ours {
        let name = match options.threads {
            1 => method.name().into(),
            n => format!("{}-t{n}", method.name()),
        };
        let restoring = options.restoring();
        Ours { name, compressing: options.with_method(method).compressing(), restoring }
    }
}

impl Codec for Ours {
    fn name(&self) -> &str {
        &self.name
    }

    fn threads(&self) -> usize {
        self.compressing.threads()
    }

    fn takes_files(&self) -> bool {
        true
    }

    fn encode(&mut self, dtype: Dtype, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        // Bytes of no known type are looked at for formats inside, which tensors are not.
        self.compressing.0.dtype = (dtype != Dtype::BYTES).then_some(dtype);
        compress_into(input, &self.compressing, out).map(|_| ())
    }

    fn decode(&mut self, _: Dtype, coded: &[u8], out: &mut [u8]) -> Result<()> {
        decompress_into(coded, out, &self.restoring)
    }
}

/// The method of this name, on `threads` threads.
pub fn by_name(name: &str, threads: usize) -> Option<Box<dyn Codec>> {
    let method = Method::parse(name)?;
    Some(Box::new(Ours::new(method, Options::default().with_threads(threads.max(1)))))
}

/// Every name that [`by_name`] knows.
pub fn names() -> Vec<String> {
    Method::ALL.iter().map(|m| m.name().into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::bench::{
        baseline, codec,
        input::Input,
        measure::{Effort, Floor, record},
        synthetic::{Family, Spec, generate},
    };
    use proptest::prelude::*;

    const DTYPES: [Dtype; 4] = [Dtype::BF16, Dtype::F16, Dtype::F32, Dtype::I8];
    const FAMILIES: [Family; 4] =
        [Family::Gaussian, Family::Laplace, Family::StudentT, Family::Outliers];

    fn all_names() -> Vec<String> {
        names().into_iter().chain(baseline::names()).collect()
    }

    /// Measures a method once, which compares what it decodes with the input.
    fn check(name: &str, spec: &Spec, seed: u64) {
        let input = Input::flat(spec.name(), spec.dtype, generate(spec, seed));
        let effort = Effort { seconds: 0.0, max_runs: 1, ..Effort::default() };
        let mut codec = codec(name, 1).unwrap();
        let found = record(codec.as_mut(), &input, Floor::default(), effort);
        let found = found.unwrap_or_else(|e| panic!("{name} on {}: {e}", spec.name()));
        assert_eq!(found.bytes, input.len());
        // Headers of archives and of some baselines are most of what is short.
        assert!(found.coded_bytes <= found.bytes + found.bytes / 50 + 1024, "{found:?}");
    }

    #[test]
    fn every_method_and_baseline_round_trips_every_type_and_distribution() {
        for name in all_names() {
            for dtype in DTYPES {
                for family in FAMILIES {
                    let spec = Spec { dtype, family, scale: 0.02, correlation: 0.5, n: 1500 };
                    check(&name, &spec, 1);
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn any_method_round_trips_any_draw(
            name in proptest::sample::select(all_names()),
            dtype in proptest::sample::select(&DTYPES[..]),
            family in proptest::sample::select(&FAMILIES[..]),
            scale in 0.01..0.1,
            correlation in proptest::sample::select(&[0.0, 0.5, 0.9][..]),
            n in 0usize..30_000,
            seed: u64,
        ) {
            check(&name, &Spec { dtype, family, scale, correlation, n }, seed);
        }
    }
}
