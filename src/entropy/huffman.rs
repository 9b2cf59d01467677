//! huffman
