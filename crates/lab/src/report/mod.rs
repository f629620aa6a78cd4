//! The report: one offline HTML file with every figure, its table and its CSV.
