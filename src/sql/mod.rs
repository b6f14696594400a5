//! Bytes to meaning: lexer, digest, classifier, built-in function table. Pure; uses sqlparser only.
