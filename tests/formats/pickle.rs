//! Writes pickles opcode by opcode.

/// A pickle in the making.
#[derive(Clone, Default)]
pub struct Pickle(pub Vec<u8>);

impl Pickle {
    pub fn new() -> Self {
        Pickle(b"\x80\x02".to_vec())
    }

    pub fn op(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend(bytes);
        self
    }

    pub fn str(&mut self, text: &str) -> &mut Self {
        self.op(b"X").op(&(text.len() as u32).to_le_bytes()).op(text.as_bytes())
    }

    pub fn int(&mut self, n: i64) -> &mut Self {
        match i32::try_from(n) {
            Ok(n) => self.op(b"J").op(&n.to_le_bytes()),
            Err(_) => self.op(b"\x8a\x08").op(&n.to_le_bytes()),
        }
    }

    pub fn float(&mut self, x: f64) -> &mut Self {
        self.op(b"G").op(&x.to_be_bytes())
    }

    pub fn ints(&mut self, ints: &[i64]) -> &mut Self {
        self.op(b"(");
        for n in ints {
            self.int(*n);
        }
        self.op(b"t")
    }

    pub fn global(&mut self, module: &str, name: &str) -> &mut Self {
        self.op(b"c").op(module.as_bytes()).op(b"\n").op(name.as_bytes()).op(b"\n")
    }

    /// The persistent id of a storage.
    pub fn storage(&mut self, class: &str, key: &str, n: i64) -> &mut Self {
        self.op(b"(").str("storage").global("torch", class).str(key).str("cpu").int(n).op(b"tQ")
    }

    /// A call of `_rebuild_tensor_v2`.
    pub fn tensor(&mut self, t: &View<'_>) -> &mut Self {
        self.global("torch._utils", "_rebuild_tensor_v2").op(b"(");
        self.storage(t.class, t.key, t.n).int(t.offset).ints(t.shape).ints(t.strides);
        self.op(b"\x89").global("collections", "OrderedDict").op(b")RtR")
    }

    /// A contiguous tensor that fills its storage.
    pub fn whole(&mut self, class: &str, key: &str, shape: &[i64]) -> &mut Self {
        let mut strides = vec![1; shape.len()];
        for i in (1..shape.len()).rev() {
            strides[i - 1] = strides[i] * shape[i];
        }
        let n = shape.iter().product();
        self.tensor(&View { class, key, n, offset: 0, shape, strides: &strides })
    }

    pub fn stop(&mut self) -> Vec<u8> {
        self.op(b".").0.clone()
    }
}

/// The arguments of a tensor's call.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub class: &'a str,
    pub key: &'a str,
    pub n: i64,
    pub offset: i64,
    pub shape: &'a [i64],
    pub strides: &'a [i64],
}
