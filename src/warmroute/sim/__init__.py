"""The live routing code in virtual time, against models of engines. Pure; returns data."""
