//! The volume contract, simple volumes, filters, reservations, and the contract test suite
