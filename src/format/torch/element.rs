//! Names of element types in torch: storage classes and dtypes.

use crate::dtype::Dtype;

/// What a storage class such as `FloatStorage` holds: the type, and the bytes that its count
/// counts.
pub(super) fn of_storage(class: &str) -> Option<(Dtype, u64)> {
    let dtype = match class.strip_suffix("Storage")? {
        "Double" => Dtype::F64,
        "Float" => Dtype::F32,
        "Half" => Dtype::F16,
        "BFloat16" => Dtype::BF16,
        "Long" => Dtype::I64,
        "Int" | "QInt32" => Dtype::I32,
        "Short" => Dtype::I16,
        "Char" | "QInt8" => Dtype::I8,
        "Byte" | "QUInt8" | "QUInt4x2" | "QUInt2x4" => Dtype::U8,
        "Bool" => Dtype::BOOL,
        "ComplexFloat" => Dtype::C64,
        "ComplexDouble" => Dtype::C128,
        "Untyped" => return Some((Dtype::BYTES, 1)),
        _ => return None,
    };
    Some((dtype, dtype.element_bits() / 8))
}

/// The type that a dtype such as `torch.float8_e4m3fn` names. Pairs of 4-bit numbers count as one
/// byte, as torch's shapes do.
pub(super) fn of_dtype(name: &str) -> Option<Dtype> {
    Some(match name {
        "float64" => Dtype::F64,
        "float32" => Dtype::F32,
        "float16" => Dtype::F16,
        "bfloat16" => Dtype::BF16,
        "int64" => Dtype::I64,
        "int32" => Dtype::I32,
        "int16" => Dtype::I16,
        "int8" => Dtype::I8,
        "uint64" => Dtype::U64,
        "uint32" => Dtype::U32,
        "uint16" => Dtype::U16,
        "uint8" | "float4_e2m1fn_x2" | "bits8" => Dtype::U8,
        "bool" => Dtype::BOOL,
        "complex64" => Dtype::C64,
        "complex128" => Dtype::C128,
        "float8_e4m3fn" => Dtype::F8_E4M3,
        "float8_e5m2" => Dtype::F8_E5M2,
        "float8_e4m3fnuz" => Dtype::F8_E4M3FNUZ,
        "float8_e5m2fnuz" => Dtype::F8_E5M2FNUZ,
        "float8_e8m0fnu" => Dtype::F8_E8M0,
        _ => return None,
    })
}
