"""Configs that programs make themselves, of the keys of their own launch files and flags."""
