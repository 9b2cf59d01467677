//! The JSON header, read entry by entry: 200,000 tensors make 200,000 entries, not a tree.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

/// One tensor as the header describes it, unchecked.
pub(super) struct Entry<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) dtype: Cow<'a, str>,
    pub(super) shape: Vec<u64>,
    pub(super) begin: u64,
    pub(super) end: u64,
}

/// The entries in the header's order. The error says what is wrong with the JSON.
pub(super) fn parse(json: &[u8]) -> Result<Vec<Entry<'_>>, String> {
    let Entries(entries) =
        serde_json::from_slice(json).map_err(|e| format!("its header is not valid: {e}"))?;
    Ok(entries)
}

struct Entries<'a>(Vec<Entry<'a>>);

/// A string that borrows from the JSON where it holds no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct Info<'a> {
    #[serde(borrow)]
    dtype: Cow<'a, str>,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Entries<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        let mut seen_metadata = false;
        while let Some(Text(name)) = map.next_key()? {
            if name == "__metadata__" {
                if std::mem::replace(&mut seen_metadata, true) {
                    return Err(serde::de::Error::custom("__metadata__ stands twice"));
                }
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let Info { dtype, shape, data_offsets: (begin, end) } = map.next_value()?;
            entries.push(Entry { name, dtype, shape, begin, end });
        }
        Ok(Entries(entries))
    }
}
