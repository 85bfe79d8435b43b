//! Models of the protocols, walked exhaustively by loom.
