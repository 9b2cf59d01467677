//! Weights of a candle model straight from an archive: only the tensors that the model asks for are
//! decoded, from their chunks to candle's storage.
//!
//! ```text
//! lmc-gpu-candle [ARCHIVE]    lists what a VarBuilder finds there; without ARCHIVE it makes a model,
//!                             archives it, loads it again and compares what both models compute
//! ```

use candle_core::{DType, Device, Error, Module, Result, Shape, Tensor};
use candle_nn::{VarBuilder, VarMap, linear, var_builder::SimpleBackend};
use lmc_gpu::{Archive, CompressOptions, RestoreOptions, compress_path, dtype::Dtype};

/// An archive as a source of weights.
struct Weights(Archive<'static>);

impl Weights {
    fn load(&self, name: &str, device: &Device) -> Result<Tensor> {
        let info = self.0.tensor_info(name).map_err(Error::wrap)?;
        let dtype = match info.dtype() {
            Dtype::U8 => DType::U8,
            Dtype::U32 => DType::U32,
            Dtype::I16 => DType::I16,
            Dtype::I32 => DType::I32,
            Dtype::I64 => DType::I64,
            Dtype::BF16 => DType::BF16,
            Dtype::F16 => DType::F16,
            Dtype::F32 => DType::F32,
            Dtype::F64 => DType::F64,
            Dtype::F8_E4M3 => DType::F8E4M3,
            other => return Err(Error::Msg(format!("{name} is of {other}, which candle has not"))),
        };
        let shape: Vec<usize> = info.shape().iter().map(|&n| n as usize).collect();
        let mut bytes = vec![0; info.byte_len() as usize];
        self.0.tensor_into(name, &mut bytes).map_err(Error::wrap)?;
        Tensor::from_raw_buffer(&bytes, dtype, &shape, device)
    }
}

impl SimpleBackend for Weights {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: candle_nn::Init,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        let tensor = self.get_unchecked(name, dtype, device)?;
        if *tensor.shape() != shape {
            let (msg, got) = (format!("the shape of {name}"), tensor.shape().clone());
            return Err(Error::UnexpectedShape { msg, expected: shape, got }.bt());
        }
        Ok(tensor)
    }

    fn get_unchecked(&self, name: &str, dtype: DType, device: &Device) -> Result<Tensor> {
        self.load(name, device)?.to_dtype(dtype)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.0.tensor_info(name).is_ok()
    }
}

/// Two layers.
fn model(vb: VarBuilder<'_>) -> Result<impl Module + use<>> {
    let (first, second) = (linear(64, 256, vb.pp("up"))?, linear(256, 8, vb.pp("down"))?);
    Ok(candle_nn::seq().add(first).add(candle_nn::Activation::Gelu).add(second))
}

fn main() -> Result<()> {
    let restore = RestoreOptions::default();
    if let Some(path) = std::env::args_os().nth(1) {
        let weights = Weights(Archive::open(path, &restore).map_err(Error::wrap)?);
        for info in weights.0.tensors().map_err(Error::wrap)? {
            println!("{:?}", weights.load(info.name(), &Device::Cpu)?);
        }
        return Ok(());
    }
    let dir = std::env::temp_dir().join(format!("lmc-gpu-candle-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let (plain, archive) = (dir.join("model.safetensors"), dir.join("model.lmc"));
    let made = VarMap::new();
    let before = model(VarBuilder::from_varmap(&made, DType::F32, &Device::Cpu))?;
    made.save(&plain)?;
    compress_path(&plain, &archive, &CompressOptions::default()).map_err(Error::wrap)?;

    let weights = Weights(Archive::open(&archive, &restore).map_err(Error::wrap)?);
    let vb = VarBuilder::from_backend(Box::new(weights), DType::F32, Device::Cpu);
    let after = model(vb)?;
    let input = Tensor::randn(0f32, 1., (4, 64), &Device::Cpu)?;
    let outputs = [before.forward(&input)?, after.forward(&input)?];
    let [before, after] = outputs.map(|out| out.to_vec2::<f32>());
    assert_eq!(before?, after?, "the models compute different things");
    println!("a model of {} computes the same from {}", plain.display(), archive.display());
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
