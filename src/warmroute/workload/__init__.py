"""What clients ask and when, for simulations and benchmarks. Pure: no file, no clock, no hidden chance."""
