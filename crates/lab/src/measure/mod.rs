//! Measuring what a run costs: processor time by side, histograms, pressure, links, the environment.
