//! cascade
