//! Writes zip archives, right and wrong.

/// A member to be written.
#[derive(Clone)]
pub struct Member {
    pub name: String,
    pub data: Vec<u8>,
    /// 0 stored, 8 deflated (the data are written as they are).
    pub method: u16,
}

/// A stored member.
pub fn stored(name: &str, data: &[u8]) -> Member {
    Member { name: name.into(), data: data.into(), method: 0 }
}

/// How an archive is written.
#[derive(Clone, Copy)]
pub struct Style {
    /// Data start at multiples of this.
    pub align: usize,
    /// Sizes come after the data, as torch writes them.
    pub descriptors: bool,
    /// zip64 end records and sizes, whether or not they are needed.
    pub zip64: bool,
}

/// As torch writes.
pub const TORCH: Style = Style { align: 64, descriptors: true, zip64: true };
/// As plain as can be.
pub const PLAIN: Style = Style { align: 1, descriptors: false, zip64: false };

/// The archive's bytes.
pub fn write(members: &[Member], style: Style) -> Vec<u8> {
    let mut out = Vec::new();
    let mut directory = Vec::new();
    for m in members {
        let header = out.len();
        let flags = if style.descriptors { 0x808u16 } else { 0x800 };
        let len = if style.descriptors { 0 } else { m.data.len() as u32 };
        let padding = (style.align - (header + 34 + m.name.len()) % style.align) % style.align;
        out.extend(b"PK\x03\x04\0\0");
        out.extend(flags.to_le_bytes());
        out.extend(m.method.to_le_bytes());
        out.extend([0; 8]);
        out.extend(len.to_le_bytes());
        out.extend(len.to_le_bytes());
        out.extend((m.name.len() as u16).to_le_bytes());
        out.extend((4 + padding as u16).to_le_bytes());
        out.extend(m.name.as_bytes());
        out.extend(b"FB");
        out.extend((padding as u16).to_le_bytes());
        out.extend(vec![b'Z'; padding]);
        out.extend(&m.data);
        if style.descriptors {
            out.extend(b"PK\x07\x08\0\0\0\0");
            out.extend([m.data.len() as u32; 2].map(u32::to_le_bytes).concat());
        }
        entry(&mut directory, m, header, style);
    }
    let (at, len, n) = (out.len(), directory.len(), members.len());
    out.extend(directory);
    if style.zip64 {
        let end64 = out.len();
        out.extend(b"PK\x06\x06\x2c\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        for value in [n, n, len, at] {
            out.extend((value as u64).to_le_bytes());
        }
        out.extend(b"PK\x06\x07\0\0\0\0");
        out.extend((end64 as u64).to_le_bytes());
        out.extend(1u32.to_le_bytes());
    }
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend([(n as u16).to_le_bytes(); 2].concat());
    let narrow = |v: usize| if style.zip64 { u32::MAX } else { v as u32 };
    out.extend(narrow(len).to_le_bytes());
    out.extend(narrow(at).to_le_bytes());
    out.extend([0; 2]);
    out
}

fn entry(out: &mut Vec<u8>, m: &Member, header: usize, style: Style) {
    let narrow = |v: usize| if style.zip64 { u32::MAX } else { v as u32 };
    out.extend(b"PK\x01\x02\0\0\0\0");
    out.extend(if style.descriptors { 0x808u16 } else { 0x800 }.to_le_bytes());
    out.extend(m.method.to_le_bytes());
    out.extend([0; 8]);
    out.extend(narrow(m.data.len()).to_le_bytes());
    out.extend(narrow(m.data.len()).to_le_bytes());
    out.extend((m.name.len() as u16).to_le_bytes());
    out.extend(if style.zip64 { 28u16 } else { 0 }.to_le_bytes());
    out.extend([0; 10]);
    out.extend(narrow(header).to_le_bytes());
    out.extend(m.name.as_bytes());
    if style.zip64 {
        out.extend(b"\x01\0\x18\0");
        for value in [m.data.len(), m.data.len(), header] {
            out.extend((value as u64).to_le_bytes());
        }
    }
}

/// Where a pattern first stands.
pub fn find(bytes: &[u8], pattern: &[u8]) -> usize {
    bytes.windows(pattern.len()).position(|w| w == pattern).expect("the pattern is there")
}
