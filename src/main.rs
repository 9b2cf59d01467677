fn main() {
    let a: Vec<String> = std::env::args().collect();
    let data = std::fs::read(&a[2]).unwrap();
    let m = lmc_gpu::codec::Method::parse(&a[1]).unwrap();
    let d = a.get(3).and_then(|d| lmc_gpu::dtype::Dtype::parse(d));
    let o = lmc_gpu::Options::default().with_method(m).with_dtype(d).with_threads(1);
    let mut out = Vec::new();
    for _ in 0..3 {
        let t = std::time::Instant::now();
        lmc_gpu::compress_into(&data, &o, &mut out).unwrap();
        let e = t.elapsed().as_secs_f64();
        let mut back = vec![1u8; data.len()];
        lmc_gpu::decompress_into(&out, &mut back, &o).unwrap();
        let t = std::time::Instant::now();
        lmc_gpu::decompress_into(&out, &mut back, &o).unwrap();
        let f = t.elapsed().as_secs_f64();
        assert!(back == data);
        let t = std::time::Instant::now();
        back.copy_from_slice(&data);
        let mm = t.elapsed().as_secs_f64();
        println!(
            "{} {:.5} enc {:.3} dec {:.3} memcpy {:.3} GB/s",
            m,
            out.len() as f64 / data.len() as f64,
            data.len() as f64 / e / 1e9,
            data.len() as f64 / f / 1e9,
            data.len() as f64 / mm / 1e9
        );
    }
}
