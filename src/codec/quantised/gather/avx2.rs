//! The kernels as compiled for AVX2.

use super::{super::layout::Values, join_groups, split_groups};

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn split(len: usize, values: &Values, groups: &[u8], out: &mut [u8]) {
    split_groups(len, values, groups, out);
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn join(len: usize, values: &Values, plane: &[u8], groups: &mut [u8]) {
    join_groups(len, values, plane, groups);
}
