//! A network of two layers that learns another one, trained by AdamW in f32.
//!
//! All randomness comes from the number of the step, so that a resumed run sees what the first
//! one would have seen.

use burn::{
    optim::{AdamW, AdamWConfig, AdamWState, AdaptiveMomentumState, Optimizer},
    tensor::{Device, Tensor, TensorData, activation},
};

/// Names of the three streams of a checkpoint.
pub const STREAMS: [&str; 3] = ["model", "exp_avg", "exp_avg_sq"];

const INPUTS: usize = 256;
const HIDDEN: usize = 1024;
const OUTPUTS: usize = 128;
const BATCH: usize = 32;
const RATE: f64 = 1e-3;

/// Weights, moments, and how many steps they have seen.
pub struct Model {
    pub step: u64,
    pub weights: Vec<Tensor<2>>,
    first: Vec<Tensor<2>>,
    second: Vec<Tensor<2>>,
    teacher: Tensor<2>,
    optimizer: AdamW,
}

/// About normally distributed numbers.
fn normal(shape: [usize; 2], scale: f32, seed: u64, device: &Device) -> Tensor<2> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 40) as f32 / (1u32 << 24) as f32
    };
    let values: Vec<f32> = (0..shape[0] * shape[1])
        .map(|_| ((0..6).map(|_| uniform()).sum::<f32>() - 3.0) * 1.4 * scale)
        .collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

impl Model {
    pub fn new(device: &Device) -> Model {
        let shapes = [[INPUTS, HIDDEN], [HIDDEN, OUTPUTS]];
        let weights = (1u64..).zip(shapes).map(|(seed, s)| normal(s, 0.03, seed, device));
        let zeros = || shapes.map(|s| normal(s, 0.0, 1, device)).to_vec();
        Model {
            step: 0,
            weights: weights.collect(),
            first: zeros(),
            second: zeros(),
            teacher: normal([INPUTS, OUTPUTS], 0.1, 3, device),
            optimizer: AdamWConfig::new().with_weight_decay(0.01).build(),
        }
    }

    pub fn streams(&self) -> [&[Tensor<2>]; 3] {
        [&self.weights, &self.first, &self.second]
    }

    /// One step; the loss before it.
    pub fn train(&mut self, device: &Device) -> f32 {
        let inputs = normal([BATCH, INPUTS], 1.0, 1000 + self.step, device);
        let wanted = inputs.clone().matmul(self.teacher.clone()).tanh();
        let weights: Vec<Tensor<2>> =
            self.weights.iter().map(|w| w.clone().autodiff().require_grad()).collect();
        let hidden = activation::relu(inputs.autodiff().matmul(weights[0].clone()));
        let error = hidden.matmul(weights[1].clone()) - wanted.autodiff();
        let loss = error.square().mean();
        let gradients = loss.backward();
        for (i, weight) in weights.iter().enumerate() {
            let Some(gradient) = weight.grad(&gradients) else { continue };
            let (m, v) = (self.first[i].clone(), self.second[i].clone());
            let momentum = AdaptiveMomentumState::new(self.step as usize, m, v);
            let state = Some(AdamWState::new(momentum));
            let weight = self.weights[i].clone();
            let (weight, state) = self.optimizer.step(RATE, weight, gradient.inner(), state);
            self.weights[i] = weight;
            if let Some(AdamWState { momentum }) = state {
                (self.first[i], self.second[i]) = (momentum.moment_1, momentum.moment_2);
            }
        }
        self.step += 1;
        loss.inner().into_scalar()
    }

    /// A hash of every bit of every tensor.
    pub fn checksum(&self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for tensor in self.streams().into_iter().flatten() {
            for byte in tensor.clone().into_data().as_bytes() {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        hash
    }
}
