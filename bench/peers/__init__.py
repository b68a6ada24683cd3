"""Quorate beside other systems, on one machine, with one program that sends and checks."""
