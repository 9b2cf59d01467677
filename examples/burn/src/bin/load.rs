//! Weights of a burn module straight from an archive: only the tensors that the module has are
//! decoded, when they are applied.
//!
//! ```text
//! load    makes a module, archives its weights as PyTorch would name and lay them out, loads them
//!         into another one and compares what both compute
//! ```

use burn::{
    module::Module,
    nn::{Linear, LinearConfig},
    tensor::{DType, Device, Distribution, Tensor, activation::gelu},
};
use burn_store::{
    BurnToPyTorchAdapter, ModuleSnapshot, PyTorchToBurnAdapter, SafetensorsStore,
    burn_pack::{Bytes, Error as PackError, Tensor as PackTensor},
};
use lmc_gpu::{Archive, CompressOptions, RestoreOptions, compress_path, dtype::Dtype};
use std::{error::Error, sync::Arc};

/// The tensors of an archive; each is decoded when its bytes are asked for. Those of types that burn
/// has not are left out.
fn tensors(archive: &Arc<Archive<'static>>) -> lmc_gpu::Result<Vec<PackTensor>> {
    let tensor = |info: &lmc_gpu::TensorInfo| {
        let dtype = match info.dtype() {
            Dtype::F64 => DType::F64,
            Dtype::F32 => DType::F32,
            Dtype::F16 => DType::F16,
            Dtype::BF16 => DType::BF16,
            Dtype::I64 => DType::I64,
            Dtype::I32 => DType::I32,
            Dtype::I16 => DType::I16,
            Dtype::I8 => DType::I8,
            Dtype::U64 => DType::U64,
            Dtype::U32 => DType::U32,
            Dtype::U16 => DType::U16,
            Dtype::U8 => DType::U8,
            _ => return None,
        };
        let shape: Vec<usize> = info.shape().iter().map(|&n| n as usize).collect();
        let (name, len) = (info.name().to_owned(), info.byte_len() as usize);
        let (archive, wanted) = (archive.clone(), name.clone());
        let decode = move || {
            let mut bytes = vec![0; len];
            let done = archive.tensor_into(&wanted, &mut bytes);
            done.map_err(|e| PackError::IoError(format!("{wanted}: {e}")))?;
            Ok(Bytes::from_bytes_vec(bytes))
        };
        Some(PackTensor::deferred(name, dtype, shape, None, len, decode))
    };
    Ok(archive.tensors()?.iter().filter_map(tensor).collect())
}

#[derive(Module, Debug)]
struct Model {
    up: Linear,
    down: Linear,
}

impl Model {
    fn new(device: &Device) -> Model {
        Model {
            up: LinearConfig::new(64, 256).init(device),
            down: LinearConfig::new(256, 8).init(device),
        }
    }

    fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        self.down.forward(gelu(self.up.forward(input)))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    let dir = std::env::temp_dir().join(format!("lmc-gpu-burn-load-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let (plain, archive) = (dir.join("model.safetensors"), dir.join("model.lmc"));
    let before = Model::new(&device);
    let mut store = SafetensorsStore::from_file(&plain).with_to_adapter(BurnToPyTorchAdapter);
    before.save_into(&mut store)?;
    compress_path(&plain, &archive, &CompressOptions::default())?;

    let mut after = Model::new(&device);
    let archive = Arc::new(Archive::open(&archive, &RestoreOptions::default())?);
    let applied =
        after.apply(tensors(&archive)?, None, Some(Box::new(PyTorchToBurnAdapter)), false);
    if !(applied.errors.is_empty() && applied.missing.is_empty()) {
        return Err(applied.to_string().into());
    }
    let input = Tensor::<2>::random([4, 64], Distribution::Default, &device);
    let outputs = [before.forward(input.clone()), after.forward(input)].map(|out| out.into_data());
    assert_eq!(outputs[0], outputs[1], "the modules compute different things");
    println!("{} tensors of {} loaded: the same outputs", applied.applied.len(), plain.display());
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
