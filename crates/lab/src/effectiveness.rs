//! Processor effectiveness: work per 1 % of processor, the publications' own measure.
