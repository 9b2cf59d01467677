pub use liblzma::*;
