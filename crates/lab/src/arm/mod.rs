//! What is compared: each arm starts its target and says how the load reaches it.
